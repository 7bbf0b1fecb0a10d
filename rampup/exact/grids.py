"""Cutting a distribution into cells of a grid, so that a dynamic program over continuous arrivals has bounds."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from rampup.problems.distributions import Distribution


class TooLargeError(ValueError):
    """No grid within reach fits the problem."""


class OnlyRowsError(TooLargeError):
    """Arrivals come from rows of data, whose numbers are not independent of each other."""

    def __init__(self, what: str):
        super().__init__(
            f"{what} has no dynamic program where arrivals come from data, whose numbers go together: the hindsight "
            "rate bounds the optimum instead."
        )


OnBounds = Callable[[float, float], None]
"""Told the best bounds after each grid."""

# Points of a grid are met up to the rounding of sums of a few hundred numbers, counted in widths of the grid.
FUZZ = 1e-9


def below(distribution: Distribution, points: np.ndarray) -> np.ndarray:
    """P(X < point), by bisection of the quantile function."""
    low, high = np.zeros(len(points)), np.ones(len(points))
    # Each halves the interval: 60 are enough for every bit of a double.
    for _ in range(60):
        middle = (low + high) / 2
        is_below = np.asarray(distribution.quantile(jnp.asarray(middle))) < points
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    # Bisection never reaches the ends of [0, 1] itself.
    return np.where(low == 0.0, 0.0, high)


def common_unit(numbers: Sequence[float] | np.ndarray, largest: float) -> float | None:
    """The greatest number of which all the given ones are multiples; nothing where no grid could be that fine."""
    fractions = [Fraction(float(number)).limit_denominator(10_000) for number in numbers]
    if any(abs(float(near) - number) > 1e-12 for near, number in zip(fractions, numbers, strict=True)):
        return None
    denominator = math.lcm(*(one.denominator for one in fractions))
    divisor = math.gcd(*(int(one * denominator) for one in fractions))
    # With more than 1000 widths to the largest number no table of two axes fits in memory.
    return divisor / denominator if divisor and largest * denominator / divisor <= 1000 else None


def exact_unit(distribution: Distribution) -> float | None:
    """The unit of a distribution of few numbers that all are multiples of it; nothing for any other."""
    if distribution.breakpoints() is not None:
        return None
    # A distribution with a continuous part shows as many numbers as there are points.
    numbers = np.unique(np.asarray(distribution.quantile(jnp.asarray((np.arange(4096) + 0.5) / 4096))))
    return common_unit(numbers, distribution.support()[1]) if len(numbers) < 1024 else None


def bend(worth: Array, axis: int, sign: float) -> Array:
    """By how much linear interpolation along an axis can err: too low where `sign` is 1, too high where it is -1.

    An eighth of the second difference bounds it where that varies slowly. Fewer than four points say nothing.
    """
    along = jnp.moveaxis(worth, axis, 0)
    if len(along) < 4:
        return jnp.ones_like(worth)
    inner = sign * (2 * along[1:-1] - along[2:] - along[:-2])
    # At the two ends the bend goes on as it came.
    first, last = (2 * inner[end] - inner[beside] for end, beside in ((0, 1), (-1, -2)))
    second = jnp.concatenate([first[None], inner, last[None]])
    # Of a point and its neighbours the most bent: a cell has an end on either side.
    around = jnp.maximum(second, jnp.maximum(jnp.roll(second, 1, axis=0), jnp.roll(second, -1, axis=0)))
    return jnp.moveaxis(jnp.maximum(around, 0.0) / 8, 0, axis)
