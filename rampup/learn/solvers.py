"""Solvers of the natural-gradient step: a matrix and a vector in, a direction and the proof of it out."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rampup.types import Real


class Solution(NamedTuple):
    """The minimiser of g'F g - 2 g'b in the ball |g| <= radius, with its Karush-Kuhn-Tucker multiplier.

    `residual` is |(F + multiplier) g - b| relative to |b|; `is_active` says that the ball binds.
    """

    direction: Float[Array, " feat"]
    multiplier: Real
    residual: Real
    is_active: Bool[Array, ""]


def in_ball(fisher: Float[Array, "feat feat"], gradient: Float[Array, " feat"], radius: Real | float) -> Solution:
    """Solve the trust-region subproblem exactly; inside the ball, the minimiser of least norm."""
    curvature, basis = jnp.linalg.eigh(fisher)
    slope = basis.T @ gradient
    # Eigenvalues and slopes at rounding level are zero: a direction the data do not speak of is not moved in.
    rounding = len(gradient) * jnp.finfo(fisher.dtype).eps
    is_null = (curvature <= rounding * curvature[-1]) & (jnp.abs(slope) <= rounding * jnp.linalg.norm(slope))
    curvature = jnp.where(is_null, 0.0, jnp.maximum(curvature, 0.0))
    slope = jnp.where(is_null, 0.0, slope)

    def coordinates(multiplier):
        return jnp.where(slope == 0, 0.0, slope / (curvature + multiplier))

    inner = coordinates(0.0)
    is_active = ~(jnp.linalg.norm(inner) <= radius)
    multiplier = jnp.where(is_active, _secular_root(curvature, slope, radius), 0.0)
    direction = basis @ jnp.where(is_active, coordinates(multiplier), inner)
    residual = jnp.linalg.norm(fisher @ direction + multiplier * direction - gradient)
    norm = jnp.linalg.norm(gradient)
    return Solution(direction, multiplier, residual / jnp.where(norm > 0, norm, 1.0), is_active)


def _secular_root(curvature: Float[Array, " feat"], slope: Float[Array, " feat"], radius: Real | float) -> Real:
    """Return the multiplier at which |slope / (curvature + multiplier)| = radius, by Newton's method on 1/norm."""
    # |slope| / radius - largest curvature <= root; Newton on the concave 1/norm rises from any lower bound.
    lower = jnp.maximum(jnp.linalg.norm(slope) / radius - curvature[-1], 0.0)
    # Single terms give lower bounds too, and keep the start positive where curvature vanishes.
    lower = jnp.maximum(lower, jnp.max(jnp.abs(slope) / radius - curvature))

    def newton(multiplier, _):
        terms = jnp.where(slope == 0, 0.0, slope / (curvature + multiplier))
        norm = jnp.linalg.norm(terms)
        drop = jnp.sum(jnp.where(slope == 0, 0.0, terms**2 / (curvature + multiplier)))
        step = (norm - radius) / radius * norm**2 / jnp.where(drop > 0, drop, 1.0)
        return jnp.maximum(multiplier + step, lower), None

    # Convergence is quadratic and monotone; the starts above leave far fewer than this many steps to do.
    root, _ = jax.lax.scan(newton, lower, None, length=50)
    return root
