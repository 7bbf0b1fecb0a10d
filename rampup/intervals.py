"""95% intervals of estimates, in plain NumPy and SciPy."""

import math

import numpy as np
from scipy.special import stdtrit

# The quantile of the normal distribution that leaves 2.5% above it.
Z = 1.959963984540054


def normal(estimate: float, error: float) -> list[float]:
    """The interval of an estimate with a given standard error."""
    return _of_reach(float(estimate), Z * float(error))


def _of_reach(middle: float, half: float) -> list[float]:
    return [middle - half, middle + half]


def reach(count: int) -> float:
    """How many standard errors, estimated from so many numbers, an interval of their mean reaches: Student's t."""
    return float(stdtrit(count - 1, 0.975))


def of_mean(values: np.ndarray) -> list[float]:
    """The interval of a mean of independent numbers."""
    if len(values) < 2:
        return [-math.inf, math.inf]
    return _of_reach(
        float(np.mean(values)), reach(len(values)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    )


def of_rate(successes: np.ndarray) -> list[float]:
    """Wilson's interval of a success rate, which holds near 0 and 1 too."""
    return wilson(float(np.mean(successes)), len(successes))


def of_returns(mean: float, error: float, count: int) -> list[float]:
    """The interval of a mean return with its standard error: Wilson's where episodes only succeed or fail."""
    # Of all numbers in [0, 1] with this mean, only zeros and ones have so large a variance.
    if math.isclose(error**2 * (count - 1), mean * (1 - mean), rel_tol=1e-6, abs_tol=1e-12):
        return wilson(mean, count)
    return _of_reach(mean, reach(count) * error)


def wilson(rate: float, count: int) -> list[float]:
    """Wilson's interval of the success rate of so many trials."""
    shrink = 1 + Z**2 / count
    middle = (rate + Z**2 / (2 * count)) / shrink
    half = Z / shrink * math.sqrt(rate * (1 - rate) / count + Z**2 / (4 * count**2))
    # At rates of 0 and 1 the interval begins and ends there, but for rounding.
    return [0.0 if rate == 0 else middle - half, 1.0 if rate == 1 else middle + half]


def of_ratio(above: np.ndarray, below: np.ndarray) -> list[float]:
    """The interval of a ratio of two means measured on the same instances (delta method)."""
    ratio = float(np.mean(above) / np.mean(below))
    residuals = (above - ratio * below) / np.mean(below)
    if len(residuals) < 2:
        return [-math.inf, math.inf]
    return normal(ratio, float(np.std(residuals, ddof=1)) / math.sqrt(len(residuals)))
