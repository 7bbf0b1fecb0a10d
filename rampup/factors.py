"""Factors of positive definite matrices, and what solves with them: substitution on a CPU, products on a GPU.

Substitution takes one number after another, which a GPU does not like; the inverse of a factor is applied by products.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Matrix = Float[Array, "*batch feat feat"]
Vector = Float[Array, "*batch feat"]

KERNEL_SIZE = 32
"""Up to how many features a block of threads eliminates a matrix in its registers sooner than a library does."""


def by_substitution(matrix: Matrix) -> Callable[[Vector], Vector]:
    """Solve with a positive definite matrix, as often as wanted; not a number where it is not positive definite."""
    factor = jnp.linalg.cholesky(matrix)

    def solve(vector):
        half = jax.scipy.linalg.solve_triangular(factor, vector[..., None], lower=True)
        return jax.scipy.linalg.solve_triangular(factor, half, lower=True, trans=1)[..., 0]

    return solve


def by_products(matrix: Matrix) -> Callable[[Vector], Vector]:
    """The same by products, less accurate where the matrix is nearly singular."""
    return products(inverse_factor(matrix))


def products(inverse: Matrix) -> Callable[[Vector], Vector]:
    """Solve with a matrix whose inverse factor is known."""
    return lambda vector: product(inverse, product(inverse, vector), is_transposed=True)


def product(matrix: Matrix, vector: Vector, *, is_transposed: bool = False) -> Vector:
    """A matrix times a vector, written so that it can stand in a kernel."""
    if is_transposed:
        return jnp.sum(matrix * vector[..., :, None], axis=-2)
    return jnp.sum(matrix * vector[..., None, :], axis=-1)


def unit(like: Matrix) -> Matrix:
    """Unit matrices in place of others, written likewise."""
    row, column = (jax.lax.broadcasted_iota(jnp.int32, like.shape, like.ndim - axis) for axis in (2, 1))
    return jnp.where(row == column, 1.0, 0.0).astype(like.dtype)


def inverse_factor(matrix: Matrix) -> Matrix:
    """L^-1, where A = L L' and L is lower triangular; not a number where A is not positive definite."""
    factor = jnp.linalg.cholesky(matrix)
    if jax.default_backend() != "cpu":
        return _of_blocks(factor)
    return jax.scipy.linalg.solve_triangular(factor, unit(matrix), lower=True)


def _of_blocks(factor: Matrix, block: int = 32) -> Matrix:
    """The inverse of a triangular matrix from those of the blocks on its diagonal, which double until they are one."""
    batch, size = factor.shape[:-2], factor.shape[-1]
    full = block
    while full < size:
        full *= 2
    extra = full - size
    padded = jnp.pad(factor, [*[(0, 0)] * len(batch), (0, extra), (0, extra)])
    is_extra = jax.lax.broadcasted_iota(jnp.int32, padded.shape, padded.ndim - 1) >= size
    padded = padded + jnp.where(is_extra, unit(padded), 0.0)

    def blocks(length: int, row: int, column: int, stride: int) -> Matrix:
        """Every `stride`-th block along the diagonal, or beside it."""
        cut = padded.reshape(*batch, full // length, length, full // length, length)
        picks = [cut[..., at + row, :, at + column, :] for at in range(0, full // length, stride)]
        return jnp.stack(picks, axis=-3)

    diagonal = blocks(block, 0, 0, 1)
    inverse = jax.scipy.linalg.solve_triangular(diagonal, unit(diagonal), lower=True)
    for length in (block << power for power in range((full // block).bit_length() - 1)):
        first, second = inverse[..., 0::2, :, :], inverse[..., 1::2, :, :]
        corner = -second @ (blocks(length, 1, 0, 2) @ first)
        inverse = jnp.block([[first, jnp.zeros_like(first)], [corner, second]])
    return inverse[..., 0, :size, :size]


def eliminated(matrix: Float[Array, "feat feat"], size: int) -> Float[Array, "feat feat"]:
    """L^-1 of the first `size` rows by elimination of A beside a unit matrix; by masks and sums, all a kernel has.

    Below the diagonal, where A becomes zero, the unit matrix grows into L^-1: they never need the same place.
    """
    row_index, column_index = (jax.lax.broadcasted_iota(jnp.int32, matrix.shape, axis) for axis in (0, 1))

    def eliminate(place, array):
        is_row, is_column = row_index == place, column_index == place
        # None of the three waits for another.
        row = jnp.sum(jnp.where(is_row, array, 0.0), axis=0)
        column = jnp.sum(jnp.where(is_column, array, 0.0), axis=1)
        pivot = jnp.sum(jnp.where(is_row & is_column, array, 0.0))
        multiples = jnp.where(row_index > place, (column / pivot)[:, None], 0.0)
        return jnp.where(is_column & (row_index > place), -multiples, array - multiples * row[None, :])

    array = jax.lax.fori_loop(0, size, eliminate, matrix)
    diagonal = row_index == column_index
    pivots = jnp.sum(jnp.where(diagonal, array, 0.0), axis=1)
    # The root of a pivot that is not positive is not a number.
    lower = jnp.where(row_index > column_index, array, jnp.where(diagonal, 1.0, 0.0))
    return lower / jnp.sqrt(pivots)[:, None]
