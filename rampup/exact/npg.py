"""Exact natural policy gradient: the updates of Algorithm 1 with no sampling, and Theorem 1's terms at each."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rampup import theory
from rampup.diagnostics import Diagnosis, Snapshot, diagnose
from rampup.solvers import Solution, in_ball
from rampup.types import Real, Theta


class Update(NamedTuple):
    """One update: theta before it, the value there, the step, and what the theory says of it."""

    theta: Float[Array, " feat"]
    value: Real
    solution: Solution
    diagnosis: Diagnosis


def train(
    snapshot_fn: Callable[[Theta], Snapshot], theta: Theta, *, learning_rate: float, radius: float, iterations: int
) -> tuple[Theta, Update]:
    """Follow g_t = argmin of L(g; theta_t, d^t) in the ball; return the last theta and the updates, stacked.

    Args:
        snapshot_fn: `finite.snapshot` or `bcp.snapshot` with everything but theta bound.
    """

    def step(theta, _):
        at = snapshot_fn(theta)
        solution = in_ball(at.sampler.fisher, at.sampler.cross, radius)
        update = Update(theta, at.value, solution, diagnose(at, solution.direction, radius=radius))
        return theta + learning_rate * solution.direction, update

    return jax.lax.scan(step, jnp.asarray(theta), None, length=iterations)


def bound_of(
    diagnosis: Diagnosis,
    *,
    horizon: int,
    learning_rate: float,
    regularisation: float,
    feature_norm: float,
    radius: float,
) -> theory.PerformanceBound:
    """Theorem 1 for a run, from what was diagnosed at each of its updates, stacked.

    Args:
        feature_norm: B, a bound on |phi(s, a)|.
    """
    seen = jax.device_get(diagnosis)
    return theory.performance_bound(
        fitting_errors=seen.fitting_error,
        excess_risks=seen.excess_risk,
        transfer_errors=seen.transfer_error,
        ln_kappas=seen.ln_kappa,
        initial_potential=float(seen.potential[0]),
        horizon=horizon,
        learning_rate=learning_rate,
        regularisation=regularisation,
        feature_norm=feature_norm,
        radius=radius,
    )
