"""From an experiment to a finished run folder: plan, train, record, go on after any interruption."""

import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rampup import arguments, config, intervals
from rampup.config import Experiment
from rampup.exact import bcp
from rampup.features import Features, as_features
from rampup.learn.curriculum import SCHEMES, Stages, multi_step, scheme
from rampup.learn.inspection import Effort
from rampup.learn.trainer import Run, Settings, Training
from rampup.policy import LogLinear
from rampup.portrait import portrait
from rampup.problems import make
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.references import REFERENCE_NAMES, policy_named
from rampup.references.named import POLICIES
from rampup.runs.events import EventFile
from rampup.runs.folder import Recording, RunFolder, record_of
from rampup.runs.policy_file import write_policy
from rampup.types import PolicyFn

# A crash costs at most this many seconds of work.
CHECKPOINT_SECONDS = 10.0

# An update plays num_lanes x horizon episodes of as many steps: beyond this no machine finishes one.
_MOST_ARRIVALS = 10_000
# A Fisher matrix of so many features takes three gigabytes.
_MOST_FEATURES = 20_000
# The parameters of all runs are in memory at once, with what is made of them.
_MOST_PARAMETERS = 10_000_000


class Plan(NamedTuple):
    """An experiment, made of real problems and runs."""

    experiment: Experiment
    problem: Problem
    features: Features
    settings: Settings
    runs: list[Run]
    reference: str

    def reference_for(self, problem: Problem) -> PolicyFn:
        return policy_named(problem, self.reference)


class Standing(NamedTuple):
    """Where a run stands, told after each piece of work."""

    done: int
    total: int
    rows: list[dict[str, Any]]
    """The rows recorded last."""
    samples_per_second: float


def plan(experiment: Experiment) -> Plan:
    """Make everything an experiment names; what does not fit together is refused before anything is written."""
    given, trainer = experiment.problem, experiment.trainer
    problem = _made(given.name, given.parameters)
    warmup = None
    if experiment.warmup is not None:
        warmup = _made(given.name, given.parameters | experiment.warmup.parameters)
    features = as_features(experiment.features, problem)
    if features.size > _MOST_FEATURES:
        raise ValueError(f"`features` {experiment.features!r:.60} are more than {_MOST_FEATURES} numbers.")
    settings = Settings(
        learning_rate=trainer.learning_rate,
        num_lanes=trainer.num_lanes,
        radius=trainer.radius,
        clip=trainer.clip,
        estimator=trainer.estimator,
        solver=trainer.solver,
        record_every=trainer.record_every,
        effort=Effort(**trainer.effort.model_dump()),
    )
    steps = _steps(experiment, problem)
    for name in trainer.iterations if isinstance(trainer.iterations, dict) else []:
        arguments.known_name("scheme in `trainer.iterations`", name, (*SCHEMES, "multi_step"))
    if len(experiment.schemes) * len(experiment.seeds) * features.size > _MOST_PARAMETERS:
        raise ValueError(f"`schemes` times `seeds` times features must be at most {_MOST_PARAMETERS}.")
    runs = [
        Run(name, _stages(experiment, name, problem, warmup, steps), seed)
        for name in experiment.schemes
        for seed in experiment.seeds
    ]
    reference = experiment.reference or REFERENCE_NAMES[given.name]
    chosen = Plan(experiment, problem, features, settings, runs, reference)
    Training(runs, features, settings)
    # A rule by its plain name fits every size and may take seconds to find; anything else is tried on all of them:
    # "threshold" alone lacks its number.
    if reference not in POLICIES[given.name] or reference == "threshold":
        for one in {id(stage.problem): stage.problem for run in runs for stage in run.stages}.values():
            chosen.reference_for(one)
    return chosen


def _made(name: str, parameters: Mapping[str, Any]) -> Problem:
    _refuse_huge_sizes(parameters)
    try:
        return make(name, **parameters)
    except OverflowError:
        raise ValueError(f"the parameters of {name} hold a number that is too large to work with.") from None


def _refuse_huge_sizes(parameters: Mapping[str, Any]) -> None:
    """Refuse a size that nothing could be made of, before memory is asked for it."""
    for name, value in parameters.items():
        if name in ("n", "m", "gran") and isinstance(value, int) and value > _MOST_ARRIVALS:
            raise ValueError(f"`{name}` must be at most {_MOST_ARRIVALS}.")
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                _refuse_huge_sizes(inner)


def _steps(experiment: Experiment, problem: Problem) -> list[Problem]:
    """The growing problems of multi_step, made once so that all its runs share them."""
    if experiment.multi_step is None:
        return []
    given = experiment.problem
    *smaller, last = experiment.multi_step.sizes
    if given.parameters | last != given.parameters:
        raise ValueError("the last of `multi_step.sizes` must be the size of the problem itself.")
    return [*(_made(given.name, given.parameters | changes) for changes in smaller), problem]


def _stages(
    experiment: Experiment, name: str, problem: Problem, warmup: Problem | None, steps: Sequence[Problem]
) -> Stages:
    trainer = experiment.trainer
    if name == "multi_step":
        if experiment.multi_step is None:
            raise ValueError("the scheme 'multi_step' needs `multi_step.sizes`.")
        return multi_step(steps, iterations=experiment.iterations_of(name), promote_at=experiment.multi_step.promote_at)
    arguments.known_name("scheme", name, (*SCHEMES, "multi_step"))
    return scheme(
        name,
        problem,
        warmup,
        iterations=experiment.iterations_of(name),
        warmup_iterations=trainer.warmup_iterations,
        regularisation=trainer.regularisation,
    )


def folder_name(experiment: Experiment) -> str:
    """A name for a run's folder that is safe on every disk, whatever the experiment is called."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", experiment.name).strip(".-") or "run"
    return f"{plain[:80]}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def provenance() -> dict[str, Any]:
    """Where and with what a run is made: whatever the bits of its result depend on."""
    packages = "rampup", "jax", "jaxlib", "numpy", "scipy", "equinox"
    threads = "PJRT_NPROC", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "XLA_FLAGS"
    device = jax.devices()[0]
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in packages},
        "platform": platform.platform(),
        "device": {"kind": device.device_kind, "platform": device.platform, "count": jax.device_count()},
        "threads": {"cpu_count": os.cpu_count()} | {name: os.environ[name] for name in threads if name in os.environ},
        "git_commit": _git_commit(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """The commit of the source the package runs from; nothing for an installed one."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def begin(experiment: Experiment, path: str | Path) -> RunFolder:
    """Check an experiment and make the folder of its run."""
    plan(experiment)
    return RunFolder.create(path, config.as_yaml(experiment), provenance())


def conduct(
    folder: RunFolder,
    *,
    on_standing: Callable[[Standing], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> dict[str, Any] | None:
    """Train a run from where its folder says it is to its end, and return its summary; nothing if asked to stop."""
    with folder.locked():
        if folder.summary is not None:
            return folder.summary
        chosen = plan(_experiment_of(folder))
        if folder.provenance is None:
            folder.write_provenance(provenance())
        training = Training(chosen.runs, chosen.features, chosen.settings, chosen.reference_for)
        found = folder.last_checkpoint()
        facts = {"metrics_bytes": 0, "seconds": 0.0} if found is None else found.facts
        if found is not None:
            training.restore(found.arrays)
        with folder.recording(facts["metrics_bytes"]) as recording:
            is_finished = _go_on(
                folder, training, recording, facts["seconds"], on_standing, should_stop, checkpoint_seconds
            )
        return _finish(folder, chosen, training) if is_finished else None


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
    samples_before = sum(row["samples"] for row in _latest(folder.rows()))
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
            if should_stop():
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


def _latest(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last record of every run."""
    return list({(record["scheme"], record["seed"]): record for record in records}.values())


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
    summary = summary_of(experiment, chosen, list(last.values()))
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


def summary_of(experiment: Experiment, chosen: Plan, last: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The table a run ends with: each scheme over its seeds, beside the reference and, where known, the optimum."""
    problem = chosen.problem
    optimum = float(bcp.optimum(problem.record_probs).value) if isinstance(problem, BCP) else None
    schemes = []
    for name in experiment.schemes:
        own = [record for record in last if record["scheme"] == name]
        values = np.array([record["value"] for record in own])
        spread = intervals.of_mean(values) if len(values) > 1 else [own[0]["value_low"], own[0]["value_high"]]
        kappas = [math.inf if record["ln_kappa"] is None else record["ln_kappa"] for record in own]
        ln_kappa = float(np.mean(kappas))
        schemes.append(
            {
                "scheme": name,
                "value": float(values.mean()),
                "interval": spread,
                "ln_kappa": ln_kappa if math.isfinite(ln_kappa) else None,
                "samples": int(np.mean([record["samples"] for record in own])),
                "seeds": len(own),
            }
        )
    return {
        "experiment": experiment.name,
        "problem": experiment.problem.name,
        "reference": chosen.reference,
        "reference_value": float(np.mean([record["reference_value"] for record in last])),
        "optimal_value": optimum,
        "schemes": schemes,
        "seconds": max(record["seconds"] for record in last),
    }
