"""From a plan to a finished run folder: train, record, go on after any interruption."""

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
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
from rampup.exact import bcp
from rampup.learn import programs
from rampup.learn.trainer import Training
from rampup.plans import Plan, plan
from rampup.policy import LogLinear
from rampup.portrait import portrait
from rampup.problems.bcp import BCP
from rampup.provenance import provenance
from rampup.runs.events import EventFile
from rampup.runs.files import make_new_folder
from rampup.runs.folder import Recording, RunFolder, record_of
from rampup.runs.policy_file import write_policy
from rampup.runs.schemes import last_records, scheme_results

# A crash costs at most this many seconds of work.
CHECKPOINT_SECONDS = 10.0


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


def begin(experiment: Experiment, path: str | Path | None = None) -> RunFolder:
    """Check an experiment and make the folder of its run; by default a new one, runs/NAME-TIME."""
    plan(experiment)
    place = make_new_folder(Path("runs") / folder_name(experiment)) if path is None else path
    return RunFolder.create(place, config.as_yaml(experiment), provenance())


def conduct(
    folder: RunFolder,
    *,
    on_standing: Callable[[Standing], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> dict[str, Any] | None:
    """Train a run from where its folder says it is to its end, and return its summary; nothing if asked to stop."""
    if folder.summary is not None:
        _tell_helpers(None, {})
        return folder.summary
    with folder.locked(), processes.watched():
        chosen = plan(_experiment_of(folder))
        if folder.provenance is None:
            folder.write_provenance(provenance())
        training = Training(chosen.runs, chosen.features, chosen.settings, chosen.reference_for)
        found = folder.last_checkpoint()
        facts = {"metrics_bytes": 0, "seconds": 0.0} if found is None else found.facts
        if found is not None:
            training.restore(found.arrays)
        _tell_helpers(folder.config, {} if found is None else found.arrays)
        is_finished = False
        try:
            with folder.recording(facts["metrics_bytes"]) as recording:
                is_finished = _go_on(
                    folder, training, recording, facts["seconds"], on_standing, should_stop, checkpoint_seconds
                )
        finally:
            if not is_finished:
                programs.stop_compiling()
        return _finish(folder, chosen, training) if is_finished else None


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


def _go_on(
    folder: RunFolder,
    training: Training,
    recording: Recording,
    seconds_before: float,
    on_standing: Callable[[Standing], None] | None,
    should_stop: Callable[[], bool],
    checkpoint_seconds: float,
) -> bool:
    """The loop of a run: work, record, now and then save. Returns whether the run is finished."""
    begun = saved = time.monotonic()
    samples_before = sum(row["samples"] for row in last_records(folder.rows()))
    events = EventFile(folder.path)
    for record in folder.rows():
        _add_event(events, record)

    def seconds() -> float:
        return seconds_before + time.monotonic() - begun

    def save() -> None:
        recording.save(training.snapshot(), {"seconds": seconds(), "done": training.done, "total": training.total})

    try:
        while rows := training.advance():
            for row in rows:
                record = record_of(row, seconds())
                recording.append(record)
                _add_event(events, record)
            recording.flush()
            events.flush()
            now = time.monotonic()
            if processes.anyone(should_stop()):
                save()
                return False
            if now - saved >= checkpoint_seconds:
                save()
                saved = now
            if on_standing is not None:
                samples = sum(one.result.rows[-1]["samples"] for one in training.live if one.result.rows)
                rate = max(samples - samples_before, 0) / max(now - begun, 1e-9)
                on_standing(Standing(training.done, training.total, rows, rate))
        save()
        return True
    finally:
        events.close()


def _add_event(events: EventFile, record: dict[str, Any]) -> None:
    """The numbers worth a curve, against samples."""
    run = f"{record['scheme']}-{record['seed']}"
    names = "value", "ln_kappa", "avg_err", "err", "potential", "direction_norm", "multiplier"
    values = {f"{name}/{run}": math.inf if record[name] is None else record[name] for name in names}
    events.add(record["samples"], values)


def _finish(folder: RunFolder, chosen: Plan, training: Training) -> dict[str, Any]:
    """Write what was learned: a policy for each run, and the summary that marks the run as finished."""
    experiment, records = chosen.experiment, folder.rows()
    last = {(record["scheme"], record["seed"]): record for record in records}
    for one in training.live:
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
        )
    folder.write_portraits(_portraits(chosen, training))
    folder.write_theory(audit(chosen, records, training.results))
    summary = summary_of(experiment, chosen, records)
    folder.write_summary(summary)
    return summary


def _portraits(chosen: Plan, training: Training) -> dict[str, Any]:
    """A picture of the first policy of every scheme."""
    pictures = {}
    for one in training.live:
        if one.run.name not in pictures:
            policy = LogLinear(chosen.problem, chosen.features, jnp.asarray(one.result.theta))
            pictures[one.run.name] = portrait(chosen.problem, policy)
    return {name: picture for name, picture in pictures.items() if picture is not None}


def summary_of(experiment: Experiment, chosen: Plan, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The table a run ends with: each scheme over its seeds, beside the reference and, where known, the optimum."""
    problem, last = chosen.problem, last_records(records)
    optimum = float(bcp.optimum(problem.record_probs).value) if isinstance(problem, BCP) else None
    return {
        "experiment": experiment.name,
        "problem": experiment.problem.name,
        "reference": chosen.reference,
        "reference_value": float(np.mean([record["reference_value"] for record in last])),
        "optimal_value": optimum,
        "schemes": scheme_results(records, experiment.schemes),
        "seconds": max(record["seconds"] for record in last),
    }
