"""Closed forms of the paper: thresholds, k of Theorem 2 in all its cases, and the bound of Theorem 1."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rampup
from rampup import theory
from rampup.exact import bcp

N = 40


def adversarial_series(n, q):
    """P_n > 1/2 puts the optimum at the very end; large middle P_j keep a q-threshold sampler from getting there."""
    passed = math.floor(n * q)
    series = np.full(n, 0.5)
    series[0] = 1.0
    series[passed : n - 1] = 1 - 2 ** (-n / (n - passed - 1)) + 1e-6
    series[-1] = 0.6
    return series


CASES = {
    "classical": 1 / np.arange(1, N + 1),
    "at most one half": np.concatenate([[1.0], np.random.default_rng(0).uniform(0, 0.5, N - 1)]),
    "all records": np.ones(N),
    "adversarial": adversarial_series(N, 0.3),
    "random": np.concatenate([[1.0], np.random.default_rng(1).random(N - 1)]),
}

features = rampup.as_features("one_hot", rampup.make("bcp", n=N))


@jax.jit
def ln_kappas(probs, theta, target_count, sampler_count):
    """ln kappa at theta of the threshold sampler and of the naive one."""
    policy = bcp.log_linear_policy(features, theta, N)
    target = bcp.on_policy(probs, bcp.threshold_policy(N, target_count))
    samplers = bcp.threshold_policy(N, sampler_count), bcp.naive_policy(N)
    return [bcp.relative_condition(features, policy, target, bcp.grafted(probs, one)).ln for one in samplers]


@pytest.mark.parametrize("q", [0.0, 0.1, 0.3, 0.5, 0.975, 1.0])
@pytest.mark.parametrize("case", CASES)
def test_theorem_2_bounds_kappa_by_k_and_2k(case, q):
    series = CASES[case]
    optimal_count, sampler_count = theory.odds_threshold(series), theory.threshold_count(N, q)
    bounds = theory.ln_k_curl(series, optimal_count, sampler_count), theory.ln_k_naive(series, optimal_count)
    counts = jnp.asarray(optimal_count), jnp.asarray(sampler_count)
    at_zero = ln_kappas(jnp.asarray(series), jnp.zeros(2 * N), *counts)
    for ln_kappa, ln_k in zip(at_zero, bounds, strict=True):
        # At theta = 0 the lower bound is met.
        assert float(ln_kappa) == pytest.approx(ln_k, rel=1e-12, abs=1e-12)
    # No theta exceeds 2k; the worst of all, sure of the wrong action everywhere, meets it.
    wrong = np.where(np.asarray(bcp.threshold_policy(N, optimal_count).log_accept).ravel() == 0, -60.0, 60.0)
    rng = np.random.default_rng(0)
    for theta in (wrong, *rng.normal(size=(5, 2 * N)) * 3):
        for ln_kappa, ln_k in zip(ln_kappas(jnp.asarray(series), jnp.asarray(theta), *counts), bounds, strict=True):
            assert float(ln_kappa) <= ln_k + math.log(2) + 1e-9
    for ln_kappa, ln_k in zip(ln_kappas(jnp.asarray(series), jnp.asarray(wrong), *counts), bounds, strict=True):
        assert float(ln_kappa) == pytest.approx(ln_k + math.log(2), rel=1e-9)


def test_the_classical_case_is_linear_against_exponential():
    series = CASES["classical"]
    count = theory.odds_threshold(series)
    assert count == math.floor(N / math.e) + 1
    for passed in range(1, count + 1):
        assert theory.ln_k_curl(series, count, passed) == pytest.approx(math.log(count / passed))
    assert theory.ln_k_naive(series, count) == pytest.approx((N - 1) * math.log(2) + math.log(count / (N - 1)))


def test_below_one_half_the_curriculum_is_never_worse():
    series = CASES["at most one half"]
    count = theory.odds_threshold(series)
    for passed in range(1, N):
        ln_k = theory.ln_k_curl(series, count, passed)
        assert ln_k <= max(count - passed, 0) * math.log(2) + 1e-12
        assert ln_k <= theory.ln_k_naive(series, count)
    assert theory.ln_k_naive(series, count) >= count * math.log(2)


def test_with_all_records_the_curriculum_is_infinitely_worse():
    series = CASES["all records"]
    assert theory.odds_threshold(series) == N - 1
    assert theory.ln_k_curl(series, N - 1, N // 2) == math.inf
    assert theory.ln_k_naive(series, N - 1) == pytest.approx((N - 1) * math.log(2))


def test_the_adversarial_series_makes_the_curriculum_worse_than_naive():
    series = CASES["adversarial"]
    count, passed = theory.odds_threshold(series), theory.threshold_count(N, 0.3)
    assert count == N - 1
    assert theory.ln_k_curl(series, count, passed) > N * math.log(2) > theory.ln_k_naive(series, count)


optimum_of = jax.jit(jax.vmap(bcp.optimum))


def test_the_sum_of_odds_and_dynamic_programming_agree_on_ten_thousand_series():
    rng = np.random.default_rng(0)
    shape = 10_000, 30
    series = rng.random(shape) ** rng.choice([0.3, 1.0, 4.0], size=(shape[0], 1))
    series[:, 0] = 1.0
    found = optimum_of(jnp.asarray(series))
    by_odds = [theory.odds_threshold(one) for one in series]
    assert np.array_equal(found.threshold, by_odds)


@pytest.mark.parametrize(
    ("n", "threshold", "count"),
    [(100, 0.29, 29), (100, "0.29", 29), (100, 0.57, 57), (10, 0, 0), (10, 1, 10), (10, "3/10", 3), (3, 0.99, 2)],
)
def test_thresholds_are_taken_at_their_decimal_digits(n, threshold, count):
    assert theory.threshold_count(n, threshold) == count


@pytest.mark.parametrize("threshold", [-0.1, 1.1, math.nan, math.inf, "a", "1/0", ""])
def test_a_threshold_outside_the_unit_interval_is_refused(threshold):
    with pytest.raises(ValueError, match=r"must be a number in \[0, 1\]"):
        theory.threshold_count(10, threshold)


def bound(regularisation, num_updates=7, **changes):
    rng = np.random.default_rng(2)
    terms = {
        "fitting_errors": rng.normal(size=num_updates),
        "excess_risks": rng.random(num_updates),
        "transfer_errors": rng.random(num_updates),
        "ln_kappas": rng.random(num_updates),
        "initial_potential": 3.0,
        "horizon": 5,
        "learning_rate": 0.2,
        "regularisation": regularisation,
        "feature_norm": 1.5,
        "radius": 2.0,
    }
    return terms | changes, theory.performance_bound(**(terms | changes))


def test_the_regularised_bound_tends_to_the_plain_one():
    _, plain = bound(0.0)
    _, nearly = bound(1e-9)
    np.testing.assert_allclose(plain, nearly, rtol=1e-6)


@given(st.floats(0.01, 4.9))
@settings(max_examples=20)
def test_the_initial_term_is_the_one_the_paper_prints(regularisation):
    terms, found = bound(regularisation)
    rate = terms["learning_rate"] * regularisation
    power = (1 - rate) ** len(terms["fitting_errors"])
    assert found.initial == pytest.approx(regularisation * power * terms["initial_potential"] / (1 - power), rel=1e-9)


def test_an_infinite_kappa_makes_the_bound_infinite_unless_nothing_was_missed():
    assert bound(0.0, ln_kappas=np.array([1.0, math.inf]))[1].second_line == math.inf
    assert bound(0.0, ln_kappas=np.array([2e3]))[1].dominant == "statistical"
    assert bound(0.0, ln_kappas=np.array([math.inf]), excess_risks=np.zeros(1))[1].statistical == 0.0
    with pytest.raises(ValueError, match="must be in"):
        bound(5.0)
