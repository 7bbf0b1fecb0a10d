"""95% intervals of estimates, in plain NumPy."""

import math

import numpy as np

# The quantile of the normal distribution that leaves 2.5% above it.
Z = 1.959963984540054


def normal(estimate: float, error: float) -> list[float]:
    """The interval of an estimate with a given standard error."""
    return [float(estimate - Z * error), float(estimate + Z * error)]


def of_mean(values: np.ndarray) -> list[float]:
    """The interval of a mean of independent numbers."""
    if len(values) < 2:
        return [-math.inf, math.inf]
    return normal(float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(len(values)))


def of_rate(successes: np.ndarray) -> list[float]:
    """Wilson's interval of a success rate, which holds near 0 and 1 too."""
    count, rate = len(successes), float(np.mean(successes))
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
