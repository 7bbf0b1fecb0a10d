"""Many runs in one program: seeds, schemes and hyper-parameters train together as one batch."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rampup import arguments, devices, intervals, processes, threads
from rampup.exact.finite import require_double_precision
from rampup.features import Features, check_fits
from rampup.learn import programs
from rampup.learn.curriculum import Stage, Stages, checked_stages
from rampup.learn.estimators import EPISODES_PER_LANE, ESTIMATORS
from rampup.learn.inspection import Effort, Inspection
from rampup.learn.npg import Hyper, Method, NPGState
from rampup.learn.programs import Batch
from rampup.learn.sampler import Behaviour
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.references import default_reference
from rampup.solvers import SOLVERS, Solution
from rampup.types import PolicyFn


@dataclass(frozen=True)
class Run:
    """One training run: a curriculum, a seed, and what it does otherwise than `Settings` say."""

    name: str
    stages: Stages
    seed: int = 0
    learning_rate: float | None = None
    radius: float | None = None
    samples: int | None = None
    """If given, the last stage goes on until so many were taken in all, however long the stages before it were."""

    def __post_init__(self):
        checked_stages(self.stages)
        if self.samples is not None:
            arguments.integer("samples", self.samples, least=1)
        arguments.integer("seed", self.seed, least=0, most=2**32 - 1)
        for name in ("learning_rate", "radius"):
            if getattr(self, name) is not None:
                arguments.positive(name, getattr(self, name))


@dataclass(frozen=True)
class Settings:
    """How to train; the paper's values, but for the learning rate, are the defaults."""

    learning_rate: float = 0.1
    num_lanes: int = 100
    radius: float = 10.0
    clip: float = 15.0
    estimator: str = "algorithm4"
    solver: str = "ball"
    steps_per_iteration: int | None = None
    """K: how many of the H steps an update branches at, taken at random and weighted to match; None for all."""
    record_every: int = 100
    effort: Effort = field(default_factory=Effort)

    def __post_init__(self):
        arguments.positive("learning_rate", self.learning_rate)
        arguments.integer("num_lanes", self.num_lanes, least=1)
        arguments.positive("radius", self.radius)
        arguments.positive("clip", self.clip)
        arguments.known_name("estimator", self.estimator, ESTIMATORS)
        arguments.known_name("solver", self.solver, SOLVERS)
        if self.steps_per_iteration is not None:
            arguments.integer("steps_per_iteration", self.steps_per_iteration, least=1)
        arguments.integer("record_every", self.record_every, least=1)
        for name, number in self.effort._asdict().items():
            arguments.integer(name, number, least=2)
        arguments.integer("episodes", self.effort.episodes, least=self.effort.groups)


@dataclass
class RunResult:
    """What became of a run: theta after each stage, and the rows recorded on the way."""

    run: Run
    thetas: list[np.ndarray] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def theta(self) -> np.ndarray:
        """The parameters learned."""
        return self.thetas[-1]


class Progress(NamedTuple):
    """Where training stands, told to the callback after each piece of work."""

    done: int
    total: int
    """Iterations of all runs, done and planned at most."""
    latest: list[dict[str, Any]]
    """The rows recorded last."""


class NonFiniteError(FloatingPointError):
    """A run met a number that is not finite; `results` holds everything recorded until then."""

    def __init__(self, message: str, results: list[RunResult]):
        super().__init__(message)
        self.results = results


@dataclass
class Live:
    """A run under way: the state of its present stage."""

    result: RunResult
    theta: np.ndarray
    stage_index: int = 0
    iteration: int = 0
    multiplier: float = 0.0
    samples_before: int = 0
    """Samples taken in the stages before this one."""
    last_row: int = 0
    error_sum: float = 0.0
    error_weight: float = 0.0

    @property
    def run(self) -> Run:
        return self.result.run

    @property
    def stage(self) -> Stage:
        return self.run.stages[self.stage_index]

    @property
    def is_over(self) -> bool:
        return self.stage_index == len(self.run.stages)

    @property
    def sampler_fn(self) -> PolicyFn | None:
        return self.stage.sampler if callable(self.stage.sampler) else None

    @property
    def sampler_theta(self) -> np.ndarray:
        """The fixed sampler's parameters; zero, the uniform policy, where it is naive or not log-linear."""
        return self.result.thetas[-1] if self.stage.sampler == "previous" else np.zeros_like(self.theta)


class Training:
    """Runs under way: `advance` takes some of them one row further; what `snapshot` returns, `restore` goes on from."""

    def __init__(
        self,
        runs: Sequence[Run],
        features: Features,
        settings: Settings,
        reference_for: Callable[[Problem], PolicyFn] = default_reference,
    ):
        require_double_precision()
        if not runs:
            raise ValueError("`runs` must hold at least one run.")
        for run in runs:
            for stage in run.stages:
                check_fits(features, stage.problem)
        self.features, self.settings, self.reference_for = features, settings, reference_for
        self.live = [Live(RunResult(run), np.zeros(features.size)) for run in runs]
        self.total = sum(stage.iterations for run in runs for stage in run.stages)
        self._references: dict[int, PolicyFn] = {}
        self._compiling: dict[Hashable, list[Future]] = {}

    @property
    def results(self) -> list[RunResult]:
        return [one.result for one in self.live]

    @property
    def done(self) -> int:
        """Iterations behind us, those that an early promotion saved among them."""
        return self.total - sum(iterations_left(one, self.settings) for one in self.live)

    def advance(self) -> list[dict[str, Any]]:
        """Record a row of every run that shares the next problem, and update those runs; no rows means all is done."""
        group = _next_group(self.live)
        if not group:
            return []
        if jax.default_backend() != "cpu":
            self.compile_ahead()
        reference_fn = self._reference(group[0].stage.problem)
        for batch in _batches(group):
            for program in self._compiling.get(_form(batch), ()):
                if not program.cancelled():
                    program.result()
            with threads.for_jax():
                _work(batch, self.features, self.settings, reference_fn, self.results)
        return [one.result.rows[-1] for one in group]

    def compile_ahead(self) -> list[Future]:
        """Have what is still to be run compiled in the background, in order: a GPU leaves the processor's cores idle.

        It takes one call; promotions, which nobody can foresee, may ask for more than what is found here.
        """
        if not self._compiling:
            for group in _groups_to_come(self.live, self.settings):
                if _form(group) not in self._compiling:
                    given = _given(group, self.features, self.settings)
                    rest = self._reference(group[0].stage.problem), self.settings.effort
                    self._compiling[_form(group)] = programs.compile_ahead(*given, *rest)
        return [program for own in self._compiling.values() for program in own]

    def _reference(self, problem: Problem) -> PolicyFn:
        if id(problem) not in self._references:
            self._references[id(problem)] = self.reference_for(problem)
        return self._references[id(problem)]

    def snapshot(self, runs: slice = slice(None)) -> dict[str, np.ndarray]:
        """Everything the next update of some runs needs, as arrays; the rows recorded are not among it."""
        arrays = {}
        for index, one in enumerate(self.live[runs]):
            counters = one.stage_index, one.iteration, one.samples_before, one.last_row
            arrays[f"{index}.counters"] = np.array(counters, np.int64)
            arrays[f"{index}.numbers"] = np.array([one.error_sum, one.error_weight, one.multiplier])
            arrays[f"{index}.theta"] = one.theta.copy()
            arrays[f"{index}.thetas"] = np.array(one.result.thetas).reshape(-1, self.features.size)
        return arrays

    def restore(self, arrays: Mapping[str, np.ndarray], runs: slice = slice(None)) -> None:
        """Go on from a snapshot of the same runs: to the same end, bit by bit, as if nothing had happened."""
        for index, one in enumerate(self.live[runs]):
            counters = (int(number) for number in arrays[f"{index}.counters"])
            one.stage_index, one.iteration, one.samples_before, one.last_row = counters
            numbers = (float(number) for number in arrays[f"{index}.numbers"])
            one.error_sum, one.error_weight, one.multiplier = numbers
            one.theta = np.array(arrays[f"{index}.theta"])
            one.result.thetas[:] = list(np.array(arrays[f"{index}.thetas"]))


def train(
    runs: Sequence[Run],
    features: Features,
    settings: Settings | None = None,
    *,
    reference_for: Callable[[Problem], PolicyFn] = default_reference,
    on_progress: Callable[[Progress], None] | None = None,
) -> list[RunResult]:
    """Train all runs; those whose present stages are on the same problem advance as one batch.

    Args:
        reference_for: gives the policy that value, kappa and fitting error are measured against in a problem; by
            default the problem's own (optimal where that is known, else a classical rule).
    """
    training = Training(runs, features, settings or Settings(), reference_for)
    try:
        while rows := training.advance():
            if on_progress is not None:
                on_progress(Progress(training.done, training.total, rows))
    except BaseException:
        programs.stop_compiling()
        raise
    return training.results


def _next_group(live: list[Live]) -> list[Live]:
    """The runs to advance next: those that share problem and sampler with the one that has most stages to go."""
    waiting = [one for one in live if not one.is_over]
    if not waiting:
        return []
    first = max(waiting, key=lambda one: len(one.run.stages) - one.stage_index)
    return [one for one in waiting if _kind(one) == _kind(first)]


def _groups_to_come(live: list[Live], settings: Settings) -> Iterator[list[Live]]:
    """The groups that will advance from here on, if every stage takes its full length."""
    live = [replace(one, result=RunResult(one.run, list(one.result.thetas))) for one in live]
    while group := _next_group(live):
        yield group
        count = min(_length(one, settings) - one.iteration for one in group)
        for one in group:
            one.iteration += count
            if one.iteration == _length(one, settings):
                _close_stage(one, settings)


def _form(group: list[Live]) -> Hashable:
    """What a program depends on: groups of one form are advanced by the same."""
    samples = any(one.stage.sampler != "on_policy" for one in group)
    regularises = any(one.stage.regularisation for one in group)
    return _kind(group[0]), _size(group), samples, regularises


def _size(group: list[Live]) -> int:
    """How many runs a program has: a power of two where runs may leave it one by one, to compile less."""
    may_shrink = any(one.stage.promote_at is not None for one in group)
    return 1 << (len(group) - 1).bit_length() if may_shrink else len(group)


def _batches(group: list[Live]) -> list[list[Live]]:
    """The runs of a group that advance in one program: all of them, or one where one alone fills the machine."""
    return [[one] for one in group] if jax.default_backend() == "cpu" else [group]


def _kind(one: Live) -> tuple[int, int]:
    return id(one.stage.problem), id(one.sampler_fn)


def _length(one: Live, settings: Settings) -> int:
    """How many updates the present stage has; the last one of a run with a budget those that are left to it."""
    if one.run.samples is None or one.stage_index < len(one.run.stages) - 1:
        return one.stage.iterations
    return max(1, (one.run.samples - one.samples_before) // samples_of_update(one.stage.problem, settings))


def iterations_left(one: Live, settings: Settings) -> int:
    """How many updates a run still has, if no promotion cuts them short."""
    if one.is_over:
        return 0
    later = one.run.stages[one.stage_index + 1 :]
    return _length(one, settings) - one.iteration + sum(stage.iterations for stage in later)


def _work(
    group: list[Live], features: Features, settings: Settings, reference_fn: PolicyFn, results: list[RunResult]
) -> None:
    """Record a row of each run of a group and advance it to the next row, to the end of its stage, or past it."""
    problem, features, method, batch = _given(group, features, settings)
    count = min(settings.record_every, *(_length(one, settings) - one.iteration for one in group))
    # One program at a time: the batched factorisations of two in flight would wait for each other's threads.
    state, solution = jax.block_until_ready(
        programs.updates(problem, features, method, batch, devices.everywhere(jnp.asarray(max(count, 1))))
    )

    def look() -> Inspection:
        given = devices.here((problem, features, batch, solution))
        return programs.inspect(*given, reference_fn, settings.effort)

    host_state, host_solution, host_seen = jax.device_get((state, solution, _said_by_first(look, len(batch.seeds))))
    for index, one in enumerate(group):
        own = (jax.tree.map(lambda leaf, index=index: leaf[index], part) for part in (host_solution, host_seen))
        row = _row(one, settings, *own)
        one.result.rows.append(row)
        is_promoted = one.stage.promote_at is not None and row["value"] >= one.stage.promote_at * row["reference_value"]
        if is_promoted or one.iteration == _length(one, settings):
            _close_stage(one, settings)
        else:
            one.theta, one.multiplier = host_state.theta[index], float(host_state.multiplier[index])
            one.iteration += count
        if host_state.is_broken[index] and not one.is_over:
            raise NonFiniteError(
                f"run {one.run.name!r} with seed {one.run.seed} met a number that is not finite within {max(count, 1)} "
                f"updates after iteration {row['iteration']} of stage {row['stage']}: lower `learning_rate` (now "
                f"{_number(one, settings, 'learning_rate')}) or `radius` (now {_number(one, settings, 'radius')}).",
                results,
            )


def _given(group: list[Live], features: Features, settings: Settings) -> tuple[Problem, Features, Method, Batch]:
    """What the programs of a group are called with, on all devices."""
    problem = group[0].stage.problem
    problem_there, features, batch = devices.everywhere((problem, features, batch_of(group, settings)))
    return problem_there, features, method_of(problem, settings), batch


def _said_by_first(look: Callable[[], Inspection], runs: int) -> Inspection:
    """An inspection that the first process makes for all of them, whose next steps depend on it."""
    if processes.is_alone():
        return look()
    numbers = lambda: np.stack([np.asarray(part, float) for part in jax.device_get(look())])
    return Inspection(*processes.from_first(numbers, (len(Inspection._fields), runs)))


def _number(one: Live, settings: Settings, name: str) -> float:
    """The run's own value of a hyper-parameter, or the common one."""
    own = getattr(one.run, name)
    return float(getattr(settings, name) if own is None else own)


def method_of(problem: Problem, settings: Settings) -> Method:
    """What the settings come to in a problem."""
    count = num_branches(problem, settings)
    some = None if count == problem.horizon else count
    return Method(settings.num_lanes, settings.estimator, settings.solver, some)


def batch_of(group: list[Live], settings: Settings) -> Batch:
    """The runs of a group as arrays."""
    size = _size(group)
    padded = group + [group[0]] * (size - len(group))
    is_fixed = np.array([one.stage.sampler != "on_policy" for one in padded])
    weights = np.array([float(one.stage.regularisation) for one in padded])
    # All at once: each array handed over by itself takes as long.
    sent = jax.device_put(
        {
            "learning_rate": np.array([_number(one, settings, "learning_rate") for one in padded]),
            "regularisation": weights if weights.any() else None,
            "radius": np.array([_number(one, settings, "radius") for one in padded]),
            "clip": np.full(size, float(settings.clip)),
            "is_fixed": is_fixed,
            "sampler_theta": np.stack([one.sampler_theta for one in padded]),
            "theta": np.stack([one.theta for one in padded]),
            "multiplier": np.array([one.multiplier for one in padded]),
            "iteration": np.array([one.iteration for one in padded]),
            "is_broken": np.zeros(size, bool),
            "seed": np.array([one.run.seed for one in padded]),
            # Counted from the end, so that schemes with one seed meet the same instances in their final phase.
            "stage": np.array([len(one.run.stages) - 1 - one.stage_index for one in padded]),
        }
    )
    return Batch(
        Hyper(*(sent[name] for name in Hyper._fields)),
        Behaviour(sent["is_fixed"], sent["sampler_theta"]) if is_fixed.any() else None,
        group[0].sampler_fn,
        sent["seed"],
        sent["stage"],
        NPGState(*(sent[name] for name in NPGState._fields)),
    )


def _row(one: Live, settings: Settings, solution: Solution, seen: Inspection) -> dict[str, Any]:
    """Everything worth recording about theta_t, as plain numbers."""
    decay = 1 - _number(one, settings, "learning_rate") * one.stage.regularisation
    fade = decay ** (one.iteration - one.last_row)
    one.error_sum = one.error_sum * fade + float(seen.fitting_error)
    one.error_weight = one.error_weight * fade + 1.0
    one.last_row = one.iteration
    return {
        "scheme": one.run.name,
        "seed": one.run.seed,
        "stage": one.stage_index,
        "iteration": one.iteration,
        "samples": one.samples_before + _samples(one, settings),
        "value": float(seen.value),
        "value_interval": _value_interval(one, settings, seen),
        "reference_value": float(seen.reference_value),
        "ln_kappa": float(seen.ln_kappa),
        "ln_kappa_interval": intervals.normal(float(seen.ln_kappa), float(seen.ln_kappa_error)),
        "kappa_rank": int(seen.kappa_rank),
        "kappa_tolerance": float(seen.kappa_tolerance),
        "err": float(seen.fitting_error),
        "avg_err": one.error_sum / one.error_weight,
        "excess_risk": float(seen.excess_risk),
        "transfer_error": float(seen.transfer_error),
        "potential": float(seen.potential),
        "direction_norm": float(np.linalg.norm(solution.direction)),
        "multiplier": float(solution.multiplier),
        "residual": float(solution.residual),
        "is_active": bool(solution.is_active),
    }


def _value_interval(one: Live, settings: Settings, seen: Inspection) -> list[float]:
    """The 95% interval of the value; a single point where it is exact."""
    value, error = float(seen.value), float(seen.value_error)
    if isinstance(one.stage.problem, BCP):
        return [value, value]
    return intervals.of_returns(value, error, settings.effort.played)


def _samples(one: Live, settings: Settings) -> int:
    """T x H x N of the present stage, as the paper counts, or T x K x N."""
    return one.iteration * samples_of_update(one.stage.problem, settings)


def samples_of_update(problem: Problem, settings: Settings) -> int:
    """How many episodes an update takes."""
    return num_branches(problem, settings) * settings.num_lanes * EPISODES_PER_LANE[settings.estimator]


def num_branches(problem: Problem, settings: Settings) -> int:
    """At how many steps an update branches: never more than there are."""
    return min(settings.steps_per_iteration or problem.horizon, problem.horizon)


def _close_stage(one: Live, settings: Settings) -> None:
    """Keep what the stage learned and make ready for the next."""
    one.samples_before += _samples(one, settings)
    one.result.thetas.append(one.theta)
    one.stage_index += 1
    one.iteration = one.last_row = 0
    one.error_sum = one.error_weight = one.multiplier = 0.0
    if not one.is_over and one.stage.start == "zero":
        one.theta = np.zeros_like(one.theta)
