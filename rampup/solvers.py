"""Solvers of the natural-gradient step, batched: a matrix and a vector in, a direction and the proof of it out."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from rampup import factors, kernels
from rampup.factors import Matrix, Vector

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


def blank(like: Vector) -> Solution:
    """A solution that says nothing, of the form that one for such gradients has."""
    number = jnp.zeros(like.shape[:-1], like.dtype)
    return Solution(jnp.zeros_like(like), number, number, jnp.zeros(like.shape[:-1], bool))


def in_ball(fisher: Matrix, gradient: Vector, radius: Radius, guess: Number | float = 0.0) -> Solution:
    """Solve the trust-region subproblem exactly: a search for its multiplier, two or three factorisations long.

    Args:
        guess: a multiplier to start from, as that of a similar problem; any number leads to the same solution.
    """
    radius, guess = (
        jnp.broadcast_to(jnp.asarray(number, gradient.dtype), gradient.shape[:-1]) for number in (radius, guess)
    )
    if jax.default_backend() == "cpu":
        return _searched(fisher, gradient, radius, guess, _Means(factors.by_substitution, False, 3))
    if fisher.shape[-1] <= factors.KERNEL_SIZE and kernels.can_be_had():
        return _in_one_kernel(fisher, gradient, radius, guess)
    return _searched(fisher, gradient, radius, guess, _Means(factors.by_products, True, 5))


def ridge_project(fisher: Matrix, gradient: Vector, radius: Radius, *, ridge: float) -> Solution:
    """Solve with a ridge and rescale to the radius: the practice of the paper's authors, which is not the minimiser."""
    raised = fisher + ridge * jnp.eye(fisher.shape[-1], dtype=fisher.dtype)
    step = jnp.linalg.solve(raised, gradient[..., None])[..., 0]
    length = _length(step)
    is_active = length > radius
    direction = step * jnp.where(is_active, radius / jnp.where(length > 0, length, 1.0), 1.0)[..., None]
    nothing = jnp.zeros_like(length)
    return Solution(direction, nothing, _residual(fisher, gradient, direction, nothing), is_active)


SOLVERS: dict[str, Callable[..., Solution]] = {"ball": in_ball, "ridge_project": ridge_project}


class _Means(NamedTuple):
    """What the search works with."""

    solver: Callable[[Matrix], Callable[[Vector], Vector]]
    """Takes a positive definite matrix and returns what solves with it; not a number where it is not."""
    is_rough: bool
    """Whether a solution should be refined."""
    krylov_size: int
    """How many solutions are worth a factorisation."""


class _Trial(NamedTuple):
    """A multiplier, the step there as far as it is known, and whether rounding hides what is missing."""

    multiplier: Number
    vector: Vector
    is_met: Bool[Array, "*batch"]
    noise: Number
    """The relative error to which F is known."""


def _searched(fisher: Matrix, gradient: Vector, radius: Number, guess: Number, means: _Means) -> Solution:
    """Search for the multiplier.

    F is scaled to a unit diagonal, so that features of very different size do no harm, and raised by its own error, so
    that a factor exists however singular F is.
    """
    size, gradient_size = _length(_length(fisher)), _length(gradient)
    # No smaller multiplier is needed: a curvature this far below the largest must not make steps that overflow.
    least = jnp.maximum(gradient_size / radius - size, 1e-40 * (size + gradient_size / radius))
    unit = factors.unit(fisher)
    diagonal = jnp.sum(fisher * unit, axis=-1)
    scale = jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1.0))
    scaled = fisher / (scale[..., :, None] * scale[..., None, :])

    def rounding_of(length: Number, noise: Number) -> Number:
        """What rounding leaves of (F + multiplier) g = b for a step g of some length, in units of b."""
        return noise * (size * jnp.minimum(length, radius) + gradient_size)

    def next_after(trial: _Trial) -> _Trial:
        """The step at a multiplier, and from there where the secular equation |g| = radius holds."""
        multiplier, noise = trial.multiplier, trial.noise
        raised = scaled + (multiplier[..., None] / scale**2 + noise[..., None])[..., None] * unit
        solve = means.solver(raised)
        # F + multiplier, and its inverse.
        apply = lambda vector: scale * factors.product(raised, scale * vector)
        invert = lambda vector: solve(vector / scale) / scale
        step = invert(gradient)
        if means.is_rough:
            step = step + invert(gradient - apply(step))
        length = _length(step)
        is_inside = (length <= radius) & (multiplier * length <= rounding_of(length, noise))
        space = _krylov(invert, step, length, means.krylov_size)
        lowest = jnp.maximum(least, SMALLEST * multiplier) - multiplier
        rise = jnp.where(is_inside, 0.0, _rise(space, length, radius, lowest))
        weights = _tridiagonal(space, rise, _first(space, length))
        vector = _dot([weight[..., None] for weight in weights], space.basis)
        error = _length(apply(vector) + rise[..., None] * vector - gradient)
        miss = jnp.abs(_length(vector) - radius) / radius * gradient_size
        is_met = is_inside | (jnp.maximum(error, miss) <= rounding_of(_length(vector), noise))
        # A longer sum, or another machine's order of adding, may leave more error: then the factor fails and is tried
        # again with more. Beyond this the matrix is not positive semi-definite by any rounding, or not finite at all.
        fails = ~jnp.isfinite(length)
        return _Trial(
            jnp.where(fails, multiplier, multiplier + rise),
            vector,
            is_met | (fails & (noise > 1e-6)),
            jnp.where(fails, 30 * noise, noise),
        )

    def goes_on(carry):
        count, trial = carry
        is_met = jnp.all(trial.is_met) if trial.is_met.ndim else trial.is_met
        # The worst matrices tested take far fewer.
        return (count < 100) & ~is_met

    def again(carry):
        count, trial = carry
        return count + 1, jax.tree.map(lambda new, old: _where(trial.is_met, old, new), next_after(trial), trial)

    # Forming a sum of outer products leaves an error of a few units in the last place for each feature.
    noise = jnp.full_like(least, 4 * fisher.shape[-1] * float(jnp.finfo(fisher.dtype).eps))
    opening = _Trial(jnp.maximum(guess, least), jnp.zeros_like(gradient), jnp.zeros(least.shape, bool), noise)
    _, trial = jax.lax.while_loop(goes_on, again, (jnp.zeros((), int), opening))
    length = _length(trial.vector)
    # A multiplier at rounding level belongs to a step inside the ball.
    is_active = trial.multiplier * jnp.minimum(length, radius) > rounding_of(length, trial.noise)
    multiplier = jnp.where(is_active, trial.multiplier, 0.0)
    stretch = jnp.where(is_active | (length > radius), radius / jnp.where(length > 0, length, 1.0), 1.0)
    direction = trial.vector * stretch[..., None]
    return Solution(direction, multiplier, _residual(fisher, gradient, direction, multiplier), is_active)


class _Krylov(NamedTuple):
    """M = (F + multiplier)^-1 in the span of g, M g, M^2 g, ..: an orthonormal basis, and M in it, tridiagonal."""

    basis: list[Vector]
    diagonal: list[Number]
    beside: list[Number]


SMALLEST = 1e-8
LARGEST = 1e12
"""How far a multiplier falls or rises at once: beyond, rounding would decide."""


def _krylov(invert: Callable[[Vector], Vector], step: Vector, length: Number, size: int) -> _Krylov:
    """Lanczos' basis. At another multiplier the step is (I + rise M)^-1 g, nearly in this span for any rise.

    Seen from it, |g| is a sum over a few curvatures (Gauss' quadrature) and too short: the root of the secular equation
    in it lies below the true one, to which the search therefore rises, and is wrong by its difference to a power.
    """
    space = _Krylov([], [], [])
    last, vector = jnp.zeros_like(step), step / _or_one(length)[..., None]
    for place in range(size):
        image = invert(vector)
        if place:
            image = image - space.beside[-1][..., None] * last
        along = jnp.sum(image * vector, axis=-1)
        space.basis.append(vector)
        space.diagonal.append(along)
        if place < size - 1:
            rest = image - along[..., None] * vector
            space.beside.append(_length(rest))
            last, vector = vector, rest / _or_one(space.beside[-1])[..., None]
    return space


def _rise(space: _Krylov, length: Number, radius: Number, lowest: Number) -> Number:
    """Where the step as seen from a Krylov space has the length of the radius: Newton on 1/length, which is concave."""
    highest = LARGEST / _or_one(reduce(jnp.add, space.diagonal))
    rise = jnp.zeros_like(length)
    for _ in range(6):
        step = _tridiagonal(space, rise, _first(space, length))
        fall = _tridiagonal(space, rise, _times(space, step))
        square, drop = _dot(step, step), _dot(step, fall)
        # 1/length - 1/radius over its slope, drop / length^3.
        excess = square * (1 - jnp.sqrt(square) / radius)
        rise = jnp.clip(rise - excess / _or_one(drop), lowest, highest)
    return rise


def _dot(ones: Sequence[Array], others: Sequence[Array]) -> Array:
    return reduce(jnp.add, (one * other for one, other in zip(ones, others, strict=True)))


def _first(space: _Krylov, length: Number) -> list[Number]:
    return [length, *(jnp.zeros_like(length) for _ in space.beside)]


def _times(space: _Krylov, vector: Sequence[Number]) -> list[Number]:
    """M times a vector of the space."""
    above = [jnp.zeros_like(vector[0]), *(side * part for side, part in zip(space.beside, vector[:-1], strict=True))]
    below = [*(side * part for side, part in zip(space.beside, vector[1:], strict=True)), jnp.zeros_like(vector[0])]
    return [
        main * part + one + other for main, part, one, other in zip(space.diagonal, vector, above, below, strict=True)
    ]


def _tridiagonal(space: _Krylov, rise: Number, right: Sequence[Number]) -> list[Number]:
    """(I + rise M)^-1 times a vector of the space, by elimination."""
    # No pivot is smaller, but for rounding: M is positive, and a multiplier falls to SMALLEST of itself at most.
    least = jnp.where(rise > 0, jnp.ones_like(rise), SMALLEST)
    # Divisions take longest, and each would wait for the last: one for each pivot.
    inverses, reduced = [1 / jnp.maximum(1 + rise * space.diagonal[0], least)], [right[0]]
    for main, side, part in zip(space.diagonal[1:], space.beside, right[1:], strict=True):
        multiple = rise * side * inverses[-1]
        reduced.append(part - multiple * reduced[-1])
        inverses.append(1 / jnp.maximum(1 + rise * main - multiple * rise * side, least))
    found = [reduced[-1] * inverses[-1]]
    for inverse, side, part in zip(inverses[-2::-1], space.beside[::-1], reduced[-2::-1], strict=True):
        found.append((part - rise * side * found[-1]) * inverse)
    return found[::-1]


def _in_one_kernel(fisher: Matrix, gradient: Vector, radius: Number, guess: Number) -> Solution:
    """The whole search in one kernel, a block of threads for each problem."""
    from jax.experimental import pallas

    batch, size = gradient.shape[:-1], gradient.shape[-1]

    def kernel(fisher, gradient, radius, guess, *found):
        given = fisher[...], gradient[...], radius[...], guess[...]
        means = _Means(lambda matrix: factors.products(factors.eliminated(matrix, size)), True, 5)
        solved = _searched(*given, means)
        for place, part in zip(found, solved, strict=True):
            place[...] = part.astype(place.dtype)

    def padded(array):
        """Kernels take lengths that are powers of two; what is added is zero."""
        return jnp.pad(array, [(0, 0), *[(0, factors.KERNEL_SIZE - size)] * (array.ndim - 1)])

    arrays = padded(fisher.reshape(-1, size, size)), padded(gradient.reshape(-1, size))
    arrays = *arrays, radius.reshape(-1), guess.reshape(-1)
    block_of = lambda array: pallas.BlockSpec(
        (None, *array.shape[1:]), lambda index: (index, *[0] * (len(array.shape) - 1))
    )
    flags = jax.ShapeDtypeStruct(arrays[3].shape, jnp.int32)
    shapes = *(jax.ShapeDtypeStruct(array.shape, array.dtype) for array in (arrays[1], arrays[2], arrays[3])), flags
    blocks, blocks_found = ([block_of(array) for array in part] for part in (arrays, shapes))
    found = kernels.launch(kernel, arrays, blocks, shapes, blocks_found, num_blocks=len(arrays[0]), num_warps=8)
    direction, multiplier, residual, is_active = found
    numbers = (part.reshape(batch) for part in (multiplier, residual, is_active > 0))
    return Solution(direction[:, :size].reshape(gradient.shape), *numbers)


def _where(condition: Array, one: Array, other: Array) -> Array:
    return jnp.where(condition.reshape(condition.shape + (1,) * (one.ndim - condition.ndim)), one, other)


def _length(vector: Vector) -> Number:
    return jnp.sqrt(jnp.sum(vector**2, axis=-1))


def _or_one(number: Number) -> Number:
    """A number to divide by."""
    return jnp.where(number > 0, number, 1.0)


def _residual(fisher: Matrix, gradient: Vector, direction: Vector, multiplier: Number) -> Number:
    rest = factors.product(fisher, direction) + multiplier[..., None] * direction - gradient
    size = _length(_length(fisher)) * _length(direction) + _length(gradient)
    return _length(rest) / jnp.where(size > 0, size, 1.0)
