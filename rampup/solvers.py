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


def in_ball(fisher: Matrix, gradient: Vector, radius: Radius, guess: Number | float = 0.0) -> Solution:
    """Solve the trust-region subproblem exactly: Newton's method on the secular equation, by Cholesky factors.

    Args:
        guess: a multiplier to start from, as that of a similar problem; any number leads to the same solution.
    """
    radius = jnp.broadcast_to(jnp.asarray(radius, gradient.dtype), gradient.shape[:-1])
    size, gradient_size = jnp.linalg.norm(fisher, axis=(-2, -1)), jnp.linalg.norm(gradient, axis=-1)
    # No smaller multiplier is needed: a curvature this far below the largest must not make steps that overflow.
    least = jnp.maximum(gradient_size / radius - size, 1e-40 * (size + gradient_size / radius))
    start = jnp.maximum(jnp.broadcast_to(jnp.asarray(guess, gradient.dtype), least.shape), least)
    # Forming a sum of outer products leaves an error of a few units in the last place for each feature.
    noise = jnp.full_like(least, 4 * fisher.shape[-1] * float(jnp.finfo(fisher.dtype).eps))

    def next_after(trial: _Trial, noise: Number) -> tuple[_Trial, Number]:
        """Where the secular equation seems to hold, and the step there; met if rounding hides what is missing."""
        multiplier = trial.multiplier
        step = _step(fisher, gradient, multiplier, noise)
        is_long, is_short = step.length > radius, step.length <= radius
        low = jnp.where(is_long, jnp.maximum(trial.low, multiplier), trial.low)
        high = jnp.where(is_short, jnp.minimum(trial.high, multiplier), trial.high)
        is_inside = is_short & (multiplier * step.length <= rounding_of(step.length, noise))
        further = multiplier * _growth(step, radius, multiplier)
        least_rise = jnp.where((low < further) & (further < high), further, least) - multiplier
        rise = jnp.where(is_inside, 0.0, jnp.maximum(_rise(step, radius), least_rise))
        vector = step.vector - rise[..., None] * step.fall
        rounding = rounding_of(jnp.linalg.norm(vector, axis=-1), noise)
        error = rise**2 * jnp.linalg.norm(step.fall, axis=-1)
        miss = jnp.abs(jnp.linalg.norm(vector, axis=-1) - radius) / radius * gradient_size
        is_met = is_inside | (jnp.maximum(error, miss) <= rounding)
        # A longer sum, or another machine's order of adding, may leave more error: then the factor fails and is tried
        # again with more. Beyond this the matrix is not positive semi-definite by any rounding, or not finite at all.
        fails = ~jnp.isfinite(step.length)
        risen = jnp.where(fails, multiplier, jnp.maximum(multiplier + rise, least))
        found = _Trial(risen, vector, is_met | (fails & (noise > 1e-6)), low, high)
        return found, jnp.where(fails, 30 * noise, noise)

    def rounding_of(length: Number, noise: Number) -> Number:
        """What rounding leaves of (F + multiplier) g = b for a step g of some length, in units of b."""
        return noise * (size * jnp.minimum(length, radius) + gradient_size)

    def again(carry):
        count, trial, noise = carry
        found = next_after(trial, noise)
        return count + 1, *jax.tree.map(lambda new, old: _where(trial.is_met, old, new), found, (trial, noise))

    # 1/length is concave in the multiplier: from above, Newton falls below the root, and from below it rises to it, a
    # few steps for each order of magnitude in the curvature that it has to cross. In logarithms it gets there sooner
    # where the guess is far off; what leads out of the bracket is not followed. The worst matrices tested take far
    # fewer steps than this.
    first = _Trial(start, jnp.zeros_like(gradient), jnp.zeros(least.shape, bool), least, jnp.full_like(least, jnp.inf))
    opening = jnp.zeros((), int), first, noise
    _, trial, noise = jax.lax.while_loop(lambda carry: (carry[0] < 100) & ~jnp.all(carry[1].is_met), again, opening)
    length = jnp.linalg.norm(trial.vector, axis=-1)
    # A multiplier at rounding level belongs to a step inside the ball.
    is_active = trial.multiplier * jnp.minimum(length, radius) > rounding_of(length, noise)
    multiplier = jnp.where(is_active, trial.multiplier, 0.0)
    stretch = jnp.where(is_active | (length > radius), radius / jnp.where(length > 0, length, 1.0), 1.0)
    direction = trial.vector * stretch[..., None]
    return Solution(direction, multiplier, _residual(fisher, gradient, direction, multiplier), is_active)


class _Trial(NamedTuple):
    multiplier: Number
    vector: Vector
    is_met: Bool[Array, "*batch"]
    low: Number
    """The root lies above this and, if the ball binds, below the other."""
    high: Number


def _growth(step: "_Step", radius: Number, multiplier: Number) -> Number:
    """By what factor the multiplier seems to be off: the parabola, or its tangent, of ln length over ln multiplier.

    Where the root is orders of magnitude away this is nearer to it; the slope lies between -1 and 0.
    """
    square = jnp.where(step.length > 0, step.length, 1.0) ** 2
    slope = -multiplier * step.drop / square
    bend = slope + multiplier**2 * (3 * jnp.sum(step.fall**2, axis=-1) - 2 * step.drop**2 / square) / square
    gap = jnp.log(radius) - jnp.log(square) / 2
    inside_root = slope**2 + 2 * bend * gap
    by_parabola = 2 * gap / (slope - jnp.sqrt(jnp.maximum(inside_root, 0.0)))
    change = jnp.where(inside_root > slope**2 / 4, by_parabola, gap / slope)
    return jnp.exp(jnp.clip(change, -30.0, 30.0))


def _rise(step: "_Step", radius: Number) -> Number:
    """How far the multiplier seems to be from the root of 1/length = 1/radius: by a parabola, or by its tangent."""
    length = jnp.where(step.length > 0, step.length, 1.0)
    slope = step.drop / length**3
    bend = 3 * (step.drop**2 / length**5 - jnp.sum(step.fall**2, axis=-1) / length**3)
    gap = 1 / radius - 1 / length
    square = slope**2 + 2 * bend * gap
    by_tangent = gap / jnp.where(slope > 0, slope, 1.0)
    # A parabola that never reaches the radius, or reaches it only far away, says nothing.
    by_parabola = 2 * gap / (slope + jnp.sqrt(jnp.maximum(square, 0.0)))
    return jnp.where((square > slope**2 / 4) & (slope > 0), by_parabola, by_tangent)


def _where(condition: Array, one: Array, other: Array) -> Array:
    return jnp.where(condition.reshape(condition.shape + (1,) * (one.ndim - condition.ndim)), one, other)


def ridge_project(fisher: Matrix, gradient: Vector, radius: Radius, *, ridge: float) -> Solution:
    """Solve with a ridge and rescale to the radius: the practice of the paper's authors, which is not the minimiser."""
    step = jnp.linalg.solve(_raise_diagonal(fisher, jnp.full_like(gradient, ridge)), gradient[..., None])[..., 0]
    length = jnp.linalg.norm(step, axis=-1)
    is_active = length > radius
    direction = step * jnp.where(is_active, radius / jnp.where(length > 0, length, 1.0), 1.0)[..., None]
    nothing = jnp.zeros_like(length)
    return Solution(direction, nothing, _residual(fisher, gradient, direction, nothing), is_active)


class _Step(NamedTuple):
    """g = (F + multiplier)^-1 b, its length, (F + multiplier)^-1 g, by which it falls, and the product of both."""

    vector: Vector
    length: Number
    fall: Vector
    drop: Number


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

    def solve(vector):
        half = jax.scipy.linalg.solve_triangular(factor, (vector / scale)[..., None], lower=True)
        return jax.scipy.linalg.solve_triangular(factor, half, lower=True, trans=1)[..., 0] / scale

    step = solve(gradient)
    fall = solve(step)
    return _Step(step, jnp.linalg.norm(step, axis=-1), fall, jnp.sum(step * fall, axis=-1))


def _raise_diagonal(matrix: Matrix, by: Vector) -> Matrix:
    index = jnp.arange(matrix.shape[-1])
    return matrix.at[..., index, index].add(by)


def _residual(fisher: Matrix, gradient: Vector, direction: Vector, multiplier: Number) -> Number:
    rest = jnp.einsum("...fg,...g->...f", fisher, direction) + multiplier[..., None] * direction - gradient
    size = jnp.linalg.norm(fisher, axis=(-2, -1)) * jnp.linalg.norm(direction, axis=-1)
    size = size + jnp.linalg.norm(gradient, axis=-1)
    return jnp.linalg.norm(rest, axis=-1) / jnp.where(size > 0, size, 1.0)


SOLVERS: dict[str, Callable[..., Solution]] = {"ball": in_ball, "ridge_project": ridge_project}
