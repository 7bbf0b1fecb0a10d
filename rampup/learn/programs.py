"""What is compiled of training: some updates of a batch of runs, and a look at each of them."""

from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from rampup import devices, streams
from rampup.features import Features
from rampup.lanes import for_each
from rampup.learn import inspection, npg
from rampup.learn.inspection import Effort, Inspection
from rampup.learn.npg import Hyper, Method, NPGState
from rampup.learn.sampler import Behaviour
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.solvers import Solution, blank
from rampup.types import PolicyFn


class Batch(NamedTuple):
    """The runs that advance in one program."""

    hyper: Hyper
    behaviour: Behaviour | None
    sampler_fn: PolicyFn | None
    seeds: Int[Array, " run"]
    stages: Int[Array, " run"]
    state: NPGState

    @property
    def stage_keys(self) -> Key[Array, " run"]:
        """What all random numbers of a stage of a run come from."""
        return jax.vmap(lambda seed, stage: jax.random.fold_in(streams.key(seed), stage))(self.seeds, self.stages)


# Equinox's jit takes arrays as arguments and everything else, policies written as functions too, as constants.
@eqx.filter_jit
def updates(
    problem: Problem, features: Features, method: Method, batch: Batch, count: jax.Array
) -> tuple[NPGState, Solution]:
    """Make `count` updates; return the state after them and the solution of the first."""
    train_keys = jax.vmap(lambda key: jax.random.fold_in(key, 0))(batch.stage_keys)
    step = partial(npg.step, problem, features, method, batch.hyper, batch.behaviour, batch.sampler_fn, train_keys)

    def update(index, carry):
        state, first = carry
        state, solution = step(state)
        return state, jax.tree.map(lambda old, new: jnp.where(index == 0, new, old), first, solution)

    return jax.lax.fori_loop(0, count, update, (batch.state, blank(batch.state.theta)))


@eqx.filter_jit
def inspect(
    problem: Problem, features: Features, batch: Batch, solution: Solution, reference_fn: PolicyFn, effort: Effort
) -> Inspection:
    """Inspect every run at theta before the update whose solution is given."""

    def of_run(theta, iteration, direction, behaviour, regularisation, radius, stage_key):
        regularisation = 0.0 if regularisation is None else regularisation
        given = features, theta, direction, behaviour, regularisation
        policies = {"reference_fn": reference_fn, "sampler_fn": batch.sampler_fn}
        if isinstance(problem, BCP):
            return inspection.exact(problem, *given, **policies, radius=radius)
        key = jax.random.fold_in(jax.random.fold_in(stage_key, 1), iteration)
        return inspection.sampled(problem, *given, key, **policies, effort=effort)

    state = batch.state
    return for_each(
        of_run,
        state.theta,
        state.iteration,
        solution.direction,
        batch.behaviour,
        batch.hyper.regularisation,
        batch.hyper.radius,
        batch.stage_keys,
    )


def compile_ahead(
    problem: Problem, features: Features, method: Method, batch: Batch, reference_fn: PolicyFn, effort: Effort
) -> list[Future]:
    """Compile both programs in the background; they are ready to be called once the futures are done."""
    everywhere = problem, features, method, batch, devices.everywhere(jnp.asarray(0))
    here = devices.here((problem, features, batch, blank(batch.state.theta)))
    return [_pool().submit(updates, *everywhere), _pool().submit(inspect, *here, reference_fn, effort)]


def stop_compiling() -> None:
    """Begin nothing more of what was to be compiled ahead: a process does not end before all of it is done."""
    _pool().shutdown(wait=False, cancel_futures=True)
    _pool.cache_clear()


@cache
def _pool() -> ThreadPoolExecutor:
    # Python traces one program at a time; what is compiled meanwhile is other threads' work.
    return ThreadPoolExecutor(max_workers=4)
