"""From an experiment to a plan: real problems, features, settings and runs, or one sentence about what does not fit."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from rampup import arguments
from rampup.checks import make_checked
from rampup.config import Experiment
from rampup.features import Features, as_features
from rampup.learn.inspection import Effort
from rampup.learn.trainer import Run, Settings, Training
from rampup.problems.base import MOST_ARRIVALS, Problem
from rampup.references import policy_named, reference_name
from rampup.references.named import rules_of
from rampup.schedules import SCHEMES_OF_EXPERIMENTS, Schedule
from rampup.types import PolicyFn

# A sampled update plays num_lanes x horizon episodes of as many steps: beyond this no machine finishes one.
_MOST_SAMPLED_ARRIVALS = 10_000
# With `steps_per_iteration` it plays that many times num_lanes episodes, whose arrivals are in memory at once.
_MOST_ARRIVALS_AT_FEW_STEPS = 100_000
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


def plan(experiment: Experiment, made: dict[str, Problem] | None = None) -> Plan:
    """Make everything an experiment names; what does not fit together is refused before anything is written.

    Args:
        made: problems of other plans, which are used again, and those of this one are added to them.
    """
    trainer = experiment.trainer
    made = {} if made is None else made
    problem = _made(experiment, {}, made)
    warmup = None if experiment.warmup is None else _made(experiment, experiment.warmup.parameters, made)
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
        steps_per_iteration=trainer.steps_per_iteration,
        record_every=trainer.record_every,
        effort=Effort(**trainer.effort.model_dump()),
    )
    steps = _steps(experiment, problem, made)
    for name in trainer.iterations if isinstance(trainer.iterations, dict) else []:
        arguments.known_name("scheme in `trainer.iterations`", name, SCHEMES_OF_EXPERIMENTS)
    if len(experiment.schemes) * len(experiment.seeds) * features.size > _MOST_PARAMETERS:
        raise ValueError(f"`schemes` times `seeds` times features must be at most {_MOST_PARAMETERS}.")
    auto = experiment.auto and experiment.auto.warmup
    schedule = Schedule(
        experiment, settings, problem, warmup, steps, None if auto is None else _made(experiment, auto, made)
    )
    runs = [schedule.run(name, seed) for name in experiment.schemes for seed in experiment.seeds]
    reference = experiment.reference or reference_name(type(problem))
    chosen = Plan(experiment, problem, features, settings, runs, reference)
    Training(runs, features, settings)
    # A rule by its plain name fits every size and may take seconds to find; anything else is tried on all of them:
    # "threshold" alone lacks its number.
    if reference not in rules_of(type(problem)) or reference == "threshold":
        for one in {id(stage.problem): stage.problem for run in runs for stage in run.stages}.values():
            chosen.reference_for(one)
    return chosen


def _made(experiment: Experiment, changes: dict[str, Any], made: dict[str, Problem]) -> Problem:
    """The problem of an experiment, some of its parameters changed; one and the same wherever they are the same."""
    name, parameters = experiment.problem.name, experiment.problem.parameters | changes
    _refuse_huge_sizes(parameters, _most_arrivals(experiment))
    key = json.dumps([name, parameters], sort_keys=True)
    try:
        if key not in made:
            made[key] = make_checked(name, parameters)
        return made[key]
    except OverflowError:
        raise ValueError(f"the parameters of {name} hold a number that is too large to work with.") from None


def _most_arrivals(experiment: Experiment) -> int:
    """How many arrivals an update can take: where nothing is sampled it is one recursion over them."""
    trainer = experiment.trainer
    if experiment.problem.name == "bcp" and trainer.estimator == "exact":
        return MOST_ARRIVALS
    return _MOST_SAMPLED_ARRIVALS if trainer.steps_per_iteration is None else _MOST_ARRIVALS_AT_FEW_STEPS


def _refuse_huge_sizes(parameters: Mapping[str, Any], most: int) -> None:
    """Refuse a size that nothing could be made of, before memory is asked for it."""
    for name, value in parameters.items():
        if name in ("n", "m", "gran") and isinstance(value, int) and value > most:
            raise ValueError(f"`{name}` must be at most {most}.")
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                _refuse_huge_sizes(inner, most)


def _steps(experiment: Experiment, problem: Problem, made: dict[str, Problem]) -> list[Problem]:
    """The growing problems of multi_step, made once so that all its runs share them."""
    if experiment.multi_step is None:
        return []
    given = experiment.problem
    *smaller, last = experiment.multi_step.sizes
    if given.parameters | last != given.parameters:
        raise ValueError("the last of `multi_step.sizes` must be the size of the problem itself.")
    return [*(_made(experiment, changes, made) for changes in smaller), problem]
