"""Algorithm 3, natural policy gradient, for a batch of runs: sample, estimate, solve, update."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from rampup import devices
from rampup.devices import Share
from rampup.features import Features
from rampup.lanes import for_each
from rampup.learn.estimators import EPISODES_PER_LANE, ESTIMATORS, Estimate
from rampup.learn.sampler import Behaviour
from rampup.problems.base import Problem
from rampup.solvers import SOLVERS, Solution
from rampup.types import PolicyFn


class Method(NamedTuple):
    """What is compiled in: the same for all runs of a batch."""

    num_lanes: int
    """N: episodes for each of the H branch steps."""
    estimator: str
    solver: str
    num_branches: int | None = None
    """K: how many of the H steps are branched at in an update; None for all."""


class Hyper(NamedTuple):
    """Numbers that may differ from run to run."""

    learning_rate: Float[Array, "*run"]
    regularisation: Float[Array, "*run"] | None
    """None where no run has any: then it need not be computed."""
    radius: Float[Array, "*run"]
    clip: Float[Array, "*run"]


class NPGState(NamedTuple):
    """What the next update needs."""

    theta: Float[Array, "run feat"]
    multiplier: Float[Array, " run"]
    """Of the last step that met the ball: where the search for the next one's begins."""
    iteration: Int[Array, " run"]
    is_broken: Bool[Array, " run"]
    """Whether an update was refused because it was not finite; theta is then the last good one."""


def opening(theta: Float[Array, "run feat"]) -> NPGState:
    """The state before the first update."""
    runs = len(theta)
    return NPGState(theta, jnp.zeros(runs), jnp.zeros(runs, int), jnp.zeros(runs, bool))


def step(
    problem: Problem,
    features: Features,
    method: Method,
    hyper: Hyper,
    behaviour: Behaviour | None,
    sampler_fn: PolicyFn | None,
    run_keys: Key[Array, " run"],
    state: NPGState,
) -> tuple[NPGState, Solution]:
    """One update of every run; the random numbers of update t depend on t and the run's key alone."""

    def estimates(share: Share | None) -> Estimate:
        def of_run(theta, iteration, key, behaviour, regularisation, clip):
            iteration_key = jax.random.fold_in(key, iteration)
            return ESTIMATORS[method.estimator](
                problem,
                features,
                theta,
                behaviour,
                iteration_key,
                num_lanes=method.num_lanes,
                num_branches=method.num_branches,
                regularisation=regularisation,
                clip=clip,
                sampler_fn=sampler_fn,
                share=share,
            )

        return for_each(of_run, state.theta, state.iteration, run_keys, behaviour, hyper.regularisation, hyper.clip)

    # What is exact takes no lanes.
    moments = devices.added_up(estimates) if EPISODES_PER_LANE[method.estimator] else estimates(None)
    # The authors' ridge is 1e-6 on the mean over steps; here the Fisher matrix is a sum over them.
    extra = {"ridge": 1e-6 * problem.horizon} if method.solver == "ridge_project" else {"guess": state.multiplier}
    solution = SOLVERS[method.solver](moments.fisher, moments.gradient, hyper.radius, **extra)
    theta = state.theta + hyper.learning_rate[:, None] * solution.direction
    is_broken = state.is_broken | ~jnp.all(jnp.isfinite(theta), axis=1)
    kept = jnp.where(is_broken[:, None], state.theta, theta)
    # A step inside the ball has none, and says nothing about the next.
    multiplier = jnp.where(solution.multiplier > 0, solution.multiplier, state.multiplier)
    return NPGState(kept, multiplier, state.iteration + 1, is_broken), solution
