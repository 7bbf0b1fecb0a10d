"""The relative condition number kappa = sup_x x'Sigma_target x / x'Sigma_sampler x, right at e^70 and at infinity too.

Both matrices are sums over the same rows, Sigma_v = sum_i v_i row_i row_i', with weights that differ by many orders of
magnitude; forming them loses kappa. It depends only on the span of the rows, so the rows are rewritten in a basis in
which the sampler's weighted rows are a well-conditioned triangle: Gaussian elimination that chooses its pivots by
weight. `docs/kappa.md` explains why that suffices.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from rampup.factors import inverse_factor
from rampup.types import Flag, Real

LogWeights = Float[Array, " row"]
"""ln of the weight of each row; -inf is no weight at all."""


class Kappa(NamedTuple):
    """ln kappa (`inf` where the target has weight in a direction the sampler never sees), and how it was found."""

    ln: Real
    rank: Int[Array, ""]
    """How many independent directions the sampler sees."""
    tolerance: Real
    """Relative size below which an entry of a row counts as zero; 0 where no such choice is made."""


class _Factors(NamedTuple):
    """A basis of functions on the rows, as logarithms and signs; an unused one has no meaning."""

    log_values: Float[Array, "basis row"]
    signs: Float[Array, "basis row"]
    is_used: Bool[Array, " basis"]


def of_table(log_target: LogWeights, log_sampler: LogWeights) -> Kappa:
    """Kappa for one-hot features: both matrices are diagonal, so it is the largest ratio of their entries."""
    ratio = jnp.where(log_target > -jnp.inf, log_target - log_sampler, -jnp.inf)
    return Kappa(jnp.max(ratio), jnp.sum(log_sampler > -jnp.inf), jnp.zeros(()))


def of_polynomials(nodes: Float[Array, " row"], degree: int, log_target: LogWeights, log_sampler: LogWeights) -> Kappa:
    """Kappa for the polynomials of one variable with `degree` coefficients, in any basis, to full relative accuracy.

    Elimination is done in Newton's basis prod_j (z - pivot_j): its values are products of differences of nodes, which
    carry no cancellation however many there are.
    """

    def eliminate(carry, _):
        log_newton, sign = carry
        pivot = jnp.argmax(log_sampler / 2 + log_newton)
        log_pivot = log_sampler[pivot] / 2 + log_newton[pivot]
        is_used = log_pivot > -jnp.inf
        difference = nodes - nodes[pivot]
        longer = log_newton + jnp.log(jnp.abs(difference)), sign * jnp.sign(difference)
        factor = log_newton - log_pivot, sign, is_used
        return jax.tree.map(lambda new, old: jnp.where(is_used, new, old), longer, carry), factor

    start = jnp.zeros_like(nodes), jnp.ones_like(nodes)
    (log_rest, _), factors = jax.lax.scan(eliminate, start, None, length=degree)
    is_missed = ~factors[2][-1] & jnp.any((log_rest > -jnp.inf) & (log_target > -jnp.inf))
    return _largest_ratio(_Factors(*factors), is_missed, log_target, log_sampler, jnp.zeros(()))


def of_rows(
    rows: Float[Array, "row feat"], log_target: LogWeights, log_sampler: LogWeights, scales: Float[Array, " row"]
) -> Kappa:
    """Kappa for any feature rows, by elimination with complete pivoting and a running bound on the rounding error.

    Args:
        scales: the size of the numbers each row was computed from; entries far below it are rounding errors.
    """
    # A row enters with rounding errors of a few units in the last place; an entry below its row's error is zero.
    tolerance = 4 * rows.shape[1] * jnp.finfo(rows.dtype).eps
    noise = tolerance * scales

    def eliminate(carry, _):
        rest, noise = carry
        # Entries below their row's error are zero: a row of great weight must not enter a basis by its noise.
        rest = jnp.where(jnp.abs(rest) > noise[:, None], rest, 0.0)
        log_rest = jnp.log(jnp.abs(rest))
        weighted = log_sampler[:, None] / 2 + log_rest
        pivot, column = jnp.unravel_index(jnp.argmax(weighted), rest.shape)
        log_pivot = weighted[pivot, column]
        is_used = log_pivot > -jnp.inf
        factor = log_rest[:, column] - log_pivot, jnp.sign(rest[:, column]), is_used
        multiples = rest[:, column] / rest[pivot, column]
        next_rest = (rest - multiples[:, None] * rest[pivot][None, :]).at[:, column].set(0.0).at[pivot].set(0.0)
        next_noise = noise + jnp.abs(multiples) * noise[pivot]
        return jax.tree.map(lambda new, old: jnp.where(is_used, new, old), (next_rest, next_noise), carry), factor

    (rest, noise), factors = jax.lax.scan(eliminate, (rows, noise), None, length=min(rows.shape))
    is_missed = jnp.any((jnp.abs(rest) > noise[:, None]) & (log_target > -jnp.inf)[:, None])
    return _largest_ratio(_Factors(*factors), is_missed, log_target, log_sampler, jnp.asarray(tolerance))


def of_grams(target: Float[Array, "feat feat"], sampler: Float[Array, "feat feat"]) -> Kappa:
    """Kappa from the matrices themselves, as sampling gives them: known to rounding, in a basis that is not too bad.

    A direction in which the sampler's matrix is at the level of rounding was not seen; if the target's is largest there
    against it, kappa is infinite.
    """
    diagonal = jnp.diagonal(sampler)
    scale = jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1.0))
    seen, wanted = (matrix / (scale[:, None] * scale[None, :]) for matrix in (sampler, target))
    inverse, noise = _inverse_above_noise(seen)
    direction = _top_direction(inverse @ wanted @ inverse.T) @ inverse
    top, bottom = (direction @ matrix @ direction for matrix in (wanted, seen))
    # Below ten times the error that was added, what is left of the sampler's matrix is mostly error. So it is in the
    # direction of a row of the inverse, in which the matrix and the error add up to 1.
    is_missed = bottom <= 10 * noise * jnp.sum(direction**2)
    rank = jnp.sum(11 * noise * jnp.sum(inverse**2, axis=1) < 1)
    ln = jnp.log(top) - jnp.log(jnp.where(is_missed, 1.0, bottom))
    return Kappa(jnp.where(is_missed & (top > 0), jnp.inf, ln), rank, noise)


def _inverse_above_noise(matrix: Float[Array, "feat feat"]) -> tuple[Float[Array, "feat feat"], Real]:
    """The inverse factor of a matrix with a unit diagonal raised by its rounding error, and that error."""

    def attempt(noise):
        return inverse_factor(matrix + noise * jnp.eye(len(matrix))), noise

    # A sum of outer products is known to about this; a long one to less, and then the factor fails.
    first = attempt(jnp.asarray(4 * len(matrix) * float(jnp.finfo(matrix.dtype).eps)))
    fails = lambda found: ~jnp.isfinite(found[0][-1, -1]) & (found[1] < 1e-6)
    return jax.lax.while_loop(fails, lambda found: attempt(30 * found[1]), first)


def _top_direction(matrix: Float[Array, "feat feat"]) -> Float[Array, " feat"]:
    """The direction in which a positive semi-definite matrix is largest, by squaring it: products, no decomposition."""

    def scaled(array, size):
        return array / jnp.where(size > 0, size, 1.0)

    def square(_, power):
        squared = power @ power
        return scaled(squared, jnp.trace(squared))

    def multiply(_, vector):
        product = power @ vector
        return scaled(product, jnp.linalg.norm(product))

    # The 1024th power of the matrix, by products with vectors where those are cheaper: other directions matter only if
    # they are larger than 99% of the largest.
    power = jax.lax.fori_loop(0, 4, square, scaled(matrix, jnp.trace(matrix)))
    column = power[:, jnp.argmax(jnp.diagonal(power))]
    return jax.lax.fori_loop(0, 63, multiply, scaled(column, jnp.linalg.norm(column)))


def _largest_ratio(
    factors: _Factors, is_missed: Flag, log_target: LogWeights, log_sampler: LogWeights, tolerance: Real
) -> Kappa:
    """Return kappa from a basis in which the sampler's weighted rows are triangular with entries of at most 1."""
    log_values = jnp.where(factors.is_used[:, None], factors.log_values, -jnp.inf)
    sampled = factors.signs * jnp.exp(log_values + log_sampler[None, :] / 2)
    gram = sampled @ sampled.T + jnp.diag(jnp.where(factors.is_used, 0.0, 1.0))
    log_wanted = log_values + log_target[None, :] / 2
    # The target's rows may reach e^35 and more: the largest is taken out as a factor, and underflow is harmless.
    log_scale = jnp.max(log_wanted)
    log_scale = jnp.where(log_scale > -jnp.inf, log_scale, 0.0)
    wanted = factors.signs * jnp.exp(log_wanted - log_scale)
    whitened = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(gram), wanted, lower=True)
    ln = 2 * log_scale + jnp.log(jnp.linalg.eigvalsh(whitened @ whitened.T)[-1])
    return Kappa(jnp.where(is_missed, jnp.inf, ln), jnp.sum(factors.is_used), tolerance)
