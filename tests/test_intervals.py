"""Intervals of the returns of episodes, of which only the mean and its standard error are known."""

import numpy as np
import pytest
from scipy import stats

from rampup import intervals


def told(returns):
    """What an inspection says of its returns."""
    return float(np.mean(returns)), float(np.std(returns) / np.sqrt(len(returns) - 1)), len(returns)


@pytest.mark.parametrize("successes", [0, 1, 7, 511, 1023, 1024])
def test_episodes_that_succeed_or_fail_have_the_interval_of_a_rate(successes):
    returns = np.arange(1024) < successes
    low, high = intervals.of_returns(*told(returns.astype(float)))
    known = stats.binomtest(successes, 1024).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((known.low, known.high), abs=1e-12)
    assert [low, high] == pytest.approx(intervals.of_rate(returns), abs=1e-15)


def test_no_success_is_no_proof_that_there_is_none():
    low, high = intervals.of_returns(0.0, 0.0, 512)
    assert low == 0
    assert high == pytest.approx(intervals.Z**2 / (512 + intervals.Z**2))


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_other_returns_have_the_interval_of_a_mean(scale):
    returns = scale * np.random.default_rng(0).uniform(size=200)
    assert intervals.of_returns(*told(returns)) == pytest.approx(intervals.of_mean(returns), rel=1e-12)


def test_the_interval_of_a_rate_covers_it_as_often_as_it_says():
    rate, count, times = 0.02, 512, 4000
    found = np.random.default_rng(1).binomial(count, rate, size=times) / count
    covered = np.mean([low <= rate <= high for low, high in (intervals.wilson(one, count) for one in found)])
    # Four standard errors of the coverage, and half a percent for how discrete the counts are.
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / times) + 0.005
