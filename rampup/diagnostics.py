"""What the theory asks of an update: fitting error, excess risk, transfer error and kappa, as functions of arrays."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from rampup.solvers import in_ball
from rampup.types import Real, Theta


class Moments(NamedTuple):
    """Sums over a distribution v of state-action pairs, score = grad ln pi_theta(a|s), A = the advantage."""

    fisher: Float[Array, "feat feat"]
    """Sigma_v = sum of score score' (Def. 3)."""
    cross: Float[Array, " feat"]
    """Sum of A score: the policy gradient where v is pi_theta's own visitation."""
    square: Real
    """Sum of A^2."""
    advantage: Real
    """Sum of A."""
    score: Float[Array, " feat"]
    """Sum of score."""


def loss(moments: Moments, direction: Theta) -> Real:
    """L(g; theta, v) = sum of (A - g . score)^2 (Def. 2)."""
    return moments.square - 2 * direction @ moments.cross + direction @ moments.fisher @ direction


def fitting_error(target: Moments, direction: Theta) -> Real:
    """err_t = sum under d* of A - g_t . score (Def. 5)."""
    return target.advantage - direction @ target.score


class Snapshot(NamedTuple):
    """What is known exactly at one theta, measured against a target policy."""

    value: Real
    target_value: Real
    potential: Real
    """Phi(pi_theta), the distance that Theorem 1 lets shrink."""
    target: Moments
    """Sums under d*, the target policy's visitation."""
    sampler: Moments
    """Sums under d^t, where the learner samples."""
    ln_kappa: Real


class Diagnosis(NamedTuple):
    """The terms of Theorem 1 that belong to one update, at theta before it."""

    gap: Real
    """V* - V^t."""
    potential: Real
    fitting_error: Real
    excess_risk: Real
    """L(g_t; d^t) - L(g*_t; d^t), whose maximum is eps_stat."""
    transfer_error: Real
    """L(g*_t; d*), whose maximum is eps_bias."""
    ln_kappa: Real


def losses(target: Moments, sampler: Moments, direction: Theta, *, radius: Real | float) -> tuple[Real, Real]:
    """Excess risk and transfer error of a direction, set beside the best one in the ball (Def. 4)."""
    best = in_ball(sampler.fisher, sampler.cross, radius).direction
    # Neither is negative in exact arithmetic; near a minimum the terms of a loss cancel to rounding.
    excess_risk = jnp.maximum(loss(sampler, direction) - loss(sampler, best), 0.0)
    return excess_risk, jnp.maximum(loss(target, best), 0.0)


def diagnose(at: Snapshot, direction: Theta, *, radius: Real | float) -> Diagnosis:
    """What Theorem 1 asks of an update that goes in a direction."""
    excess_risk, transfer_error = losses(at.target, at.sampler, direction, radius=radius)
    return Diagnosis(
        gap=at.target_value - at.value,
        potential=at.potential,
        fitting_error=fitting_error(at.target, direction),
        excess_risk=excess_risk,
        transfer_error=transfer_error,
        ln_kappa=at.ln_kappa,
    )
