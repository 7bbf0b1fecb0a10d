"""Solvers of the natural-gradient step, batched: a matrix and a vector in, a direction and the proof of it out."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Matrix = Float[Array, "*batch feat feat"]
Vector = Float[Array, "*batch feat"]
Number = Float[Array, "*batch"]
Radius = Float[Array, "*batch"] | Float[Array, ""] | float


class Solution(NamedTuple):
    """A step g, and how well it minimises g'F g - 2 g'b over the ball |g| <= radius.

    `residual` is |(F + multiplier) g - b| relative to |F| |g| + |b|, at rounding level where g is the minimiser and
    `multiplier` its Karush-Kuhn-Tucker multiplier; `is_active` says that the ball binds.
    """

    direction: Vector
    multiplier: Number
    residual: Number
    is_active: Bool[Array, "*batch"]


def in_ball(fisher: Matrix, gradient: Vector, radius: Radius) -> Solution:
    """Solve the trust-region subproblem exactly: Newton's method on the secular equation, by Cholesky factors."""
    radius = jnp.broadcast_to(jnp.asarray(radius, gradient.dtype), gradient.shape[:-1])
    size, gradient_size = jnp.linalg.norm(fisher, axis=(-2, -1)), jnp.linalg.norm(gradient, axis=-1)
    least = jnp.maximum(gradient_size / radius - size, 0.0)
    noise, step = _first_step(fisher, gradient, least)
    # Rescaling a step that misses the radius by this much changes the residual by rounding only.
    rounding = noise * (size * radius + gradient_size)

    def is_met(multiplier, step):
        is_inside = (step.length <= radius) & (multiplier * radius <= rounding)
        return is_inside | (jnp.abs(step.length - radius) * gradient_size <= rounding * radius)

    def newton(carry):
        count, multiplier, step, is_done = carry
        rise = step.length**2 / jnp.where(step.drop > 0, step.drop, 1.0) * (step.length - radius) / radius
        multiplier = jnp.where(is_done, multiplier, jnp.maximum(multiplier + rise, least))
        step = _step(fisher, gradient, multiplier, noise)
        return count + 1, multiplier, step, is_done | is_met(multiplier, step)

    start = jnp.zeros((), int), least, step, is_met(least, step)
    # 1/length is concave in the multiplier: from below, Newton rises to the root monotonically, a few steps for each
    # order of magnitude in the curvature that it has to cross, and far fewer than this in the worst matrices tested.
    final = jax.lax.while_loop(lambda carry: (carry[0] < 100) & ~jnp.all(carry[-1]), newton, start)
    _, multiplier, step, _ = final
    # A multiplier at rounding level belongs to a step inside the ball.
    is_active = multiplier * radius > rounding
    multiplier = jnp.where(is_active, multiplier, 0.0)
    is_rescaled = is_active | (step.length > radius)
    stretch = jnp.where(is_rescaled, radius / jnp.where(step.length > 0, step.length, 1.0), 1.0)
    direction = step.vector * stretch[..., None]
    return Solution(direction, multiplier, _residual(fisher, gradient, direction, multiplier), is_active)


def ridge_project(fisher: Matrix, gradient: Vector, radius: Radius, *, ridge: float) -> Solution:
    """Solve with a ridge and rescale to the radius: the practice of the paper's authors, which is not the minimiser."""
    step = jnp.linalg.solve(_raise_diagonal(fisher, jnp.full_like(gradient, ridge)), gradient[..., None])[..., 0]
    length = jnp.linalg.norm(step, axis=-1)
    is_active = length > radius
    direction = step * jnp.where(is_active, radius / jnp.where(length > 0, length, 1.0), 1.0)[..., None]
    nothing = jnp.zeros_like(length)
    return Solution(direction, nothing, _residual(fisher, gradient, direction, nothing), is_active)


class _Step(NamedTuple):
    """g = (F + multiplier)^-1 b, its length, and g'(F + multiplier)^-1 g."""

    vector: Vector
    length: Number
    drop: Number


def _first_step(fisher: Matrix, gradient: Vector, multiplier: Number) -> tuple[Number, _Step]:
    """Return the step, and the relative error of F's diagonal with which its factor exists.

    Forming a sum of outer products leaves an error of a few units in the last place for each feature; a longer sum, or
    another machine's order of adding, may leave more, and then the factor fails and is tried again with more.
    """
    noise = jnp.full_like(multiplier, 4 * fisher.shape[-1] * float(jnp.finfo(fisher.dtype).eps))

    def fails(step):
        return ~jnp.isfinite(step.length)

    def again(carry):
        noise, step = carry
        noise = jnp.where(fails(step), 30 * noise, noise)
        return noise, _step(fisher, gradient, multiplier, noise)

    def goes_on(carry):
        noise, step = carry
        # Beyond this the matrix is not positive semi-definite by any rounding, or not finite at all.
        return jnp.any(fails(step) & (noise < 1e-6))

    return jax.lax.while_loop(goes_on, again, (noise, _step(fisher, gradient, multiplier, noise)))


def _step(fisher: Matrix, gradient: Vector, multiplier: Number, noise: Number) -> _Step:
    """Solve with F + multiplier.

    F is scaled to a unit diagonal first, so that features of very different size do no harm, and then raised by its own
    error, so that the factor exists however singular F is.
    """
    diagonal = jnp.diagonal(fisher, axis1=-2, axis2=-1)
    scale = jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1.0))
    raised = multiplier[..., None] / scale**2 + noise[..., None]
    scaled = fisher / (scale[..., :, None] * scale[..., None, :])
    factor = jnp.linalg.cholesky(_raise_diagonal(scaled, raised))

    def half_solve(vector):
        return jax.scipy.linalg.solve_triangular(factor, (vector / scale)[..., None], lower=True)

    step = jax.scipy.linalg.solve_triangular(factor, half_solve(gradient), lower=True, trans=1)[..., 0] / scale
    return _Step(step, jnp.linalg.norm(step, axis=-1), jnp.sum(half_solve(step)[..., 0] ** 2, axis=-1))


def _raise_diagonal(matrix: Matrix, by: Vector) -> Matrix:
    index = jnp.arange(matrix.shape[-1])
    return matrix.at[..., index, index].add(by)


def _residual(fisher: Matrix, gradient: Vector, direction: Vector, multiplier: Number) -> Number:
    rest = jnp.einsum("...fg,...g->...f", fisher, direction) + multiplier[..., None] * direction - gradient
    size = jnp.linalg.norm(fisher, axis=(-2, -1)) * jnp.linalg.norm(direction, axis=-1)
    size = size + jnp.linalg.norm(gradient, axis=-1)
    return jnp.linalg.norm(rest, axis=-1) / jnp.where(size > 0, size, 1.0)


SOLVERS: dict[str, Callable[..., Solution]] = {"ball": in_ball, "ridge_project": ridge_project}
