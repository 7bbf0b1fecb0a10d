"""Milliseconds of an update, whole and in its parts, as the trainer makes it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental.compilation_cache import compilation_cache

from rampup import solvers
from rampup.bench.cases import Case
from rampup.bench.clock import seconds_each, seconds_of
from rampup.lanes import for_each
from rampup.learn import programs, trainer
from rampup.learn.estimators import Estimate, from_branches
from rampup.learn.npg import NPGState
from rampup.learn.sampler import branches
from rampup.references import default_reference
from rampup.threads import for_jax


class _Program(NamedTuple):
    """A compiled program of updates, and what it starts from."""

    call: Any
    arguments: tuple[Any, ...]
    batch: programs.Batch

    def after(self, state: NPGState, count: int) -> NPGState:
        """The state so many updates later."""
        return self.run(state, count)[0]

    def run(self, state: NPGState, count: int) -> tuple[NPGState, solvers.Solution]:
        """The same, and the solution of the first update."""
        batch = self.batch._replace(state=state)
        return jax.block_until_ready(self.call(*self.arguments, batch, jnp.asarray(count)))


@for_jax()
def time_per_update(case: Case, batch: int = 1) -> float:
    """Seconds of one update of one run where `batch` of them are made together."""
    return _timed(_program(case, batch), batch)[0]


@for_jax()
def row(case: Case, batch: int) -> dict[str, Any]:
    """Everything there is to say about the speed of a batch of runs."""
    found: list[_Program] = []
    with _own_cache():
        cold = seconds_of(lambda: _program(case, batch))
        jax.clear_caches()
        cached = seconds_of(lambda: found.append(_program(case, batch)))
    program = found[0]
    seconds, state = _timed(program, batch)
    memory = program.call.compiled.memory_analysis()
    diagnostics = _diagnostics(case, program, state) / batch
    parts = {name: 1e3 * taken / batch for name, taken in _parts(case, program.batch, state).items()}
    return {
        "problem": case.name,
        "batch": batch,
        "ms_per_iteration_per_run": 1e3 * seconds,
        **{f"{name}_ms": taken for name, taken in parts.items()},
        "diagnostics_ms": 1e3 * diagnostics,
        "diagnostics_share": diagnostics / (seconds * case.settings.record_every),
        "transitions_per_second": case.num_transitions / seconds,
        "compile_s": cold,
        "compile_cached_s": cached,
        "memory_bytes": memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes,
        "num_lanes": case.settings.num_lanes,
        "horizon": case.problem.horizon,
        "num_features": case.features.size,
    }


@contextmanager
def _own_cache() -> Iterator[None]:
    """Keep compiled programs in a folder of our own, empty at first."""
    names = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
    before = {name: getattr(jax.config, name) for name in names}
    with TemporaryDirectory() as folder:
        try:
            _configure(dict(zip(names, (folder, 0.0), strict=True)))
            yield
        finally:
            _configure(before)


def _configure(values: dict[str, Any]) -> None:
    for name, value in values.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def _program(case: Case, batch: int) -> _Program:
    training = trainer.Training(case.runs(batch), case.features, case.settings)
    arrays = trainer.batch_of(training.live, case.settings)
    given = case.problem, case.features, trainer.method_of(case.problem, case.settings)
    lowered = programs.updates.lower(*given, arrays, jnp.asarray(1))  # pyright: ignore[reportFunctionMemberAccess]
    return _Program(lowered.compile(), given, arrays)


def _timed(program: _Program, batch: int) -> tuple[float, NPGState]:
    """Seconds of an update for each run, and where the runs came to meanwhile."""
    # The first updates, far from where the solver's guesses are good, are not like the others.
    state = program.after(program.batch.state, 5)

    def work(count: int) -> None:
        nonlocal state
        state = program.after(state, count)

    return seconds_each(work) / batch, state


def _diagnostics(case: Case, program: _Program, state: NPGState) -> float:
    _, solution = program.run(state, 1)
    given = case.problem, case.features, program.batch._replace(state=state), solution
    rest = default_reference(case.problem), case.settings.effort
    inspect = lambda: jax.block_until_ready(programs.inspect(*given, *rest))
    return seconds_each(lambda count: [inspect() for _ in range(count)])


def _parts(case: Case, batch: programs.Batch, state: NPGState) -> dict[str, float]:
    """Seconds of each part of an update of the whole batch, at the same theta."""
    settings = case.settings
    keys = jax.jit(lambda: batch.stage_keys)()

    def sample(theta, index):
        draw = lambda theta, key: branches(
            case.problem,
            case.features,
            theta,
            None,
            jax.random.fold_in(key, index),
            num_lanes=settings.num_lanes,
            num_branches=settings.steps_per_iteration,
            regularisation=None,
            clip=settings.clip,
        )
        return for_each(draw, theta, keys)

    def add_up(theta, seen):
        estimate = lambda theta, seen: from_branches(case.problem, case.features, theta, seen, settings.num_lanes)
        return for_each(estimate, theta, seen)

    def solve(moments: Estimate):
        return solvers.in_ball(moments.fisher, moments.gradient, batch.hyper.radius, state.multiplier)

    def moved(moments: Estimate, still: jax.Array) -> Estimate:
        return jax.tree.map(lambda part: part + still, moments)

    seen = eqx.filter_jit(sample)(state.theta, 0)
    moments = eqx.filter_jit(add_up)(state.theta, seen)
    return {
        "sampling": _repeated(lambda index, still, theta: sample(theta + still, index), state.theta),
        "moments": _repeated(lambda index, still, theta, seen: add_up(theta + still, seen), state.theta, seen),
        "solve": _repeated(lambda index, still, moments: solve(moved(moments, still)), moments),
    }


def _repeated(part: Callable[..., Any], *given: Any) -> float:
    """Seconds of a part of an update, repeated within one program as the trainer repeats it.

    A zero that the compiler cannot know is handed from one to the next, so that none is left out.
    """

    @jax.jit
    def program(count: jax.Array, *given: Any) -> jax.Array:
        def once(index, still):
            found = jax.tree.leaves(part(index, still, *given))
            return 0.0 * sum(jnp.sum(leaf).astype(float) for leaf in found)

        return jax.lax.fori_loop(0, count, once, jnp.zeros(()))

    return seconds_each(lambda count: jax.block_until_ready(program(jnp.asarray(count), *given)))
