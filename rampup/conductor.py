"""From a plan to a finished run folder: train, record, go on after any interruption."""

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from rampup import config, processes
from rampup.audit import audit
from rampup.config import Experiment
from rampup.evaluation import hindsight_of
from rampup.exact.known import optimal_value
from rampup.learn import programs
from rampup.learn.trainer import Live, Run, RunResult, Training, iterations_left
from rampup.plans import Plan, plan
from rampup.policy import LogLinear
from rampup.portrait import portrait
from rampup.problems import files_of, units_of
from rampup.problems.base import Problem
from rampup.provenance import digest, provenance
from rampup.recipes import OnProgress, with_auto
from rampup.runs.events import EventFile
from rampup.runs.files import make_new_folder
from rampup.runs.folder import Recording, RunFolder, record_of
from rampup.runs.policy_file import write_policy
from rampup.runs.schemes import last_records, scheme_results

# A crash costs at most this many seconds of work.
CHECKPOINT_SECONDS = 10.0
# Enough for two digits of what an all-seeing player earns, in seconds where an instance takes a hundredth of one.
_HINDSIGHT_INSTANCES = 400


class Standing(NamedTuple):
    """Where a run stands, told after each piece of work."""

    done: int
    total: int
    rows: list[dict[str, Any]]
    """The rows recorded last."""
    samples_per_second: float


def folder_name(experiment: Experiment) -> str:
    """A name for a run's folder that is safe on every disk, whatever the experiment is called."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", experiment.name).strip(".-") or "run"
    return f"{plain[:80]}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def begin(
    experiment: Experiment, path: str | Path | None = None, *, on_progress: OnProgress | None = None
) -> RunFolder:
    """Check an experiment and make the folder of its run; by default a new one, runs/NAME-TIME."""
    if path is not None:
        RunFolder(path).refuse_if_taken()
    experiment = with_auto(experiment, on_progress)
    plan(experiment)
    place = make_new_folder(Path("runs") / folder_name(experiment)) if path is None else path
    return RunFolder.create(place, config.as_yaml(experiment), provenance(_files(experiment)))


def _files(experiment: Experiment) -> list[str]:
    """The user's own files that an experiment is made of."""
    own = experiment.problem, *([] if experiment.warmup is None else [experiment.warmup])
    return sorted({path for one in own for path in files_of(experiment.problem.name, one.parameters)})


def _refuse_changed_files(folder: RunFolder) -> None:
    """A run goes on with what it was begun with."""
    for path, known in ((folder.provenance or {}).get("inputs") or {}).items():
        if known is not None and digest(path) != known:
            raise ValueError(
                f"{path!r} is not what it was when the run in {str(folder.path)!r} was begun: put it back, or start a "
                "new run."
            )


def conduct(
    folder: RunFolder,
    *,
    on_standing: Callable[[Standing], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> dict[str, Any] | None:
    """Train a run from where its folder says it is to its end, and return its summary; nothing if asked to stop."""
    conduct_all([folder], on_standing=on_standing, should_stop=should_stop, checkpoint_seconds=checkpoint_seconds)
    return folder.summary


def conduct_all(
    folders: Sequence[RunFolder],
    *,
    on_standing: Callable[[Standing], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> None:
    """Train runs that go together as one batch, each from where its folder says it is, to their ends or to a stop."""
    open_ones = [folder for folder in folders if folder.summary is None]
    if not open_ones:
        _tell_helpers(None, {})
        return
    with ExitStack() as stack:
        for folder in open_ones:
            stack.enter_context(folder.locked())
        stack.enter_context(processes.watched())
        made: dict[str, Problem] = {}
        for folder in open_ones:
            _refuse_changed_files(folder)
        plans = [plan(_experiment_of(folder), made) for folder in open_ones]
        training = Training(
            [run for chosen in plans for run in _own_runs(chosen)],
            plans[0].features,
            plans[0].settings,
            plans[0].reference_for,
        )
        parts, first = [], 0
        for folder, chosen in zip(open_ones, plans, strict=True):
            runs = slice(first, first := first + len(chosen.runs))
            parts.append(stack.enter_context(_Part.opened(folder, chosen, training, runs)))
        _tell_helpers(open_ones[0].config, training.snapshot())
        is_finished = False
        try:
            is_finished = _go_on(training, parts, on_standing, should_stop, checkpoint_seconds)
        finally:
            if not is_finished:
                programs.stop_compiling()


def go_together(experiment: Experiment) -> str:
    """What experiments have in common whose runs can be trained as one batch."""
    own = {"learning_rate", "radius", "iterations", "warmup_iterations", "samples", "regularisation"}
    kept = experiment.model_dump(mode="json", include={"problem", "features", "reference"})
    return json.dumps([kept, experiment.trainer.model_dump(mode="json", exclude=own)], sort_keys=True)


def _own_runs(chosen: Plan) -> list[Run]:
    """The runs of a plan with the numbers that may differ from plan to plan."""
    settings = chosen.settings
    return [replace(run, learning_rate=settings.learning_rate, radius=settings.radius) for run in chosen.runs]


def _tell_helpers(text: str | None, arrays: Mapping[str, np.ndarray]) -> None:
    """Tell the other processes of a run, if there are any, what it is and where it stands; or that it is finished."""
    if not processes.is_alone():
        config_bytes = {} if text is None else {"config": np.frombuffer(text.encode(), np.uint8)}
        processes.bytes_from_first(safetensors.numpy.save({**arrays, **config_bytes}))


def help_out(expected: Experiment | None = None, *, should_stop: Callable[[], bool] = lambda: False) -> None:
    """Work for a run whose folder the first process keeps, until it is finished or anyone asks to stop.

    Args:
        expected: what this process was told to run; another experiment is refused.
    """
    with processes.watched():
        arrays = safetensors.numpy.load(processes.bytes_from_first(None))
        if "config" not in arrays:
            return
        text = arrays.pop("config").tobytes().decode()
        if expected is not None and config.as_yaml(expected) != text:
            raise ValueError("the first process runs another experiment: give all of them the same command.")
        chosen = plan(config.parsed(text, "the first process's config"))
        training = Training(chosen.runs, chosen.features, chosen.settings, chosen.reference_for)
        if arrays:
            training.restore(arrays)
        while training.advance():
            if processes.anyone(should_stop()):
                return


def compile_ahead(experiment: Experiment) -> None:
    """Have the programs of an experiment to come compiled while another one keeps the GPU busy."""
    if jax.default_backend() != "cpu":
        chosen = plan(experiment)
        Training(chosen.runs, chosen.features, chosen.settings, chosen.reference_for).compile_ahead()


def _experiment_of(folder: RunFolder) -> Experiment:
    return config.parsed(folder.config, str(folder.path))


@dataclass
class _Part:
    """The runs of one folder among those that are trained together."""

    folder: RunFolder
    chosen: Plan
    live: list[Live]
    snapshot: Callable[[], dict[str, np.ndarray]]
    recording: Recording
    events: EventFile
    seconds_before: float
    samples_before: int
    begun: float

    @classmethod
    @contextmanager
    def opened(cls, folder: RunFolder, chosen: Plan, training: Training, runs: slice) -> Iterator["_Part"]:
        """Put the runs of a folder where they stood when it was saved last."""
        if folder.provenance is None:
            folder.write_provenance(provenance(_files(chosen.experiment)))
        found = folder.last_checkpoint()
        facts = {"metrics_bytes": 0, "seconds": 0.0} if found is None else found.facts
        if found is not None:
            training.restore(found.arrays, runs)
        with folder.recording(facts["metrics_bytes"]) as recording, closing(EventFile(folder.path)) as events:
            rows = folder.rows()
            for record in rows:
                _add_event(events, record)
            samples = sum(row["samples"] for row in last_records(rows))
            live, snapshot = training.live[runs], lambda: training.snapshot(runs)
            yield cls(folder, chosen, live, snapshot, recording, events, facts["seconds"], samples, time.monotonic())

    @property
    def seconds(self) -> float:
        return self.seconds_before + time.monotonic() - self.begun

    @property
    def samples(self) -> int:
        """Samples taken since it was opened."""
        return max(sum(one.result.rows[-1]["samples"] for one in self.live if one.result.rows) - self.samples_before, 0)

    @property
    def is_over(self) -> bool:
        return all(one.is_over for one in self.live)

    def record(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write what is new of its own runs."""
        for row in rows:
            record = record_of(row, self.seconds)
            self.recording.append(record)
            _add_event(self.events, record)
        self.recording.flush()
        self.events.flush()

    def save(self) -> None:
        left = sum(iterations_left(one, self.chosen.settings) for one in self.live)
        total = sum(stage.iterations for one in self.live for stage in one.run.stages)
        self.recording.save(self.snapshot(), {"seconds": self.seconds, "done": total - left, "total": total})


def _go_on(
    training: Training,
    parts: Sequence[_Part],
    on_standing: Callable[[Standing], None] | None,
    should_stop: Callable[[], bool],
    checkpoint_seconds: float,
) -> bool:
    """The loop of a run: work, record, now and then save. Returns whether it came to its end."""
    begun = saved = time.monotonic()
    under_way = [part for part in parts if not _is_finished(part)]
    while rows := training.advance():
        new = {id(row) for row in rows}
        for part in under_way:
            part.record(
                [one.result.rows[-1] for one in part.live if one.result.rows and id(one.result.rows[-1]) in new]
            )
        now = time.monotonic()
        if processes.anyone(should_stop()):
            for part in under_way:
                part.save()
            return False
        if now - saved >= checkpoint_seconds:
            for part in under_way:
                part.save()
            saved = now
        under_way = [part for part in under_way if not _is_finished(part)]
        if on_standing is not None:
            rate = sum(part.samples for part in parts) / max(now - begun, 1e-9)
            on_standing(Standing(training.done, training.total, rows, rate))
    return True


def _is_finished(part: _Part) -> bool:
    """Whether the runs of a folder are over; then what they learned is written."""
    if not part.is_over:
        return False
    part.save()
    _finish(part)
    return True


def _add_event(events: EventFile, record: dict[str, Any]) -> None:
    """The numbers worth a curve, against samples."""
    run = f"{record['scheme']}-{record['seed']}"
    names = "value", "ln_kappa", "avg_err", "err", "potential", "direction_norm", "multiplier"
    values = {f"{name}/{run}": math.inf if record[name] is None else record[name] for name in names}
    events.add(record["samples"], values)


def _finish(part: _Part) -> None:
    """Write what was learned: a policy for each run, and the summary that marks the run as finished."""
    folder, chosen, live = part.folder, part.chosen, part.live
    experiment, records = chosen.experiment, folder.rows()
    last = {(record["scheme"], record["seed"]): record for record in records}
    units = units_of(chosen.problem)
    for one in live:
        record = last[one.run.name, one.run.seed]
        write_policy(
            folder.path / "policies" / f"{one.run.name}-{one.run.seed}.json",
            problem=experiment.problem.name,
            parameters=experiment.problem.parameters,
            features=experiment.features,
            theta=one.result.theta,
            provenance={
                "experiment": experiment.name,
                "scheme": one.run.name,
                "seed": one.run.seed,
                "samples": record["samples"],
                "value": record["value"],
                "value_interval": [record["value_low"], record["value_high"]],
            },
            **({"units": units} if units else {}),
        )
    results = [one.result for one in live]
    folder.write_portraits(_portraits(chosen, results))
    folder.write_theory(audit(chosen, records, results))
    folder.write_summary(summary_of(experiment, chosen, records))


def _portraits(chosen: Plan, results: Sequence[RunResult]) -> dict[str, Any]:
    """A picture of the first policy of every scheme."""
    pictures = {}
    for one in results:
        if one.run.name not in pictures:
            policy = LogLinear(chosen.problem, chosen.features, jnp.asarray(one.theta))
            pictures[one.run.name] = portrait(chosen.problem, policy)
    return {name: picture for name, picture in pictures.items() if picture is not None}


def summary_of(experiment: Experiment, chosen: Plan, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The table a run ends with: each scheme over its seeds, beside the reference and all else that is known."""
    problem, last = chosen.problem, last_records(records)
    return {
        "experiment": experiment.name,
        "problem": experiment.problem.name,
        "reference": chosen.reference,
        "reference_value": float(np.mean([record["reference_value"] for record in last])),
        "optimal_value": optimal_value(problem),
        "hindsight": hindsight_of(problem, _HINDSIGHT_INSTANCES),
        "schemes": scheme_results(records, experiment.schemes),
        "seconds": max(record["seconds"] for record in last),
    }
