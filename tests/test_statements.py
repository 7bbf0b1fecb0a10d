"""Statements that the paper makes in passing: entropy, fitting errors, visitation and k of best choice."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_finite import cases, rollout

from rampup import theory
from rampup.exact import bcp, finite


@jax.jit
def with_and_without_entropy(case):
    policy = finite.log_linear_policy(case.features, case.theta)
    entropy = -jnp.sum(jnp.exp(policy) * policy, axis=1)
    seen = jnp.einsum(
        "tms,m,s->s", finite.visitation(case.lmdp, policy), case.lmdp.weights, case.lmdp.is_live.astype(float)
    )
    return (
        finite.value(case.lmdp, policy, case.regularisation),
        finite.value(case.lmdp, policy),
        seen @ entropy,
    )


@given(cases())
@settings(max_examples=200)
def test_the_value_with_entropy_is_the_value_plus_lambda_times_the_entropy_collected(case):
    regularised, plain, collected = jax.device_get(with_and_without_entropy(case))
    weight, lmdp = float(case.regularisation), case.lmdp
    np.testing.assert_allclose(regularised, plain + weight * collected, rtol=1e-12, atol=1e-12)
    # Whence V* <= V*_lambda <= V of the regularised optimum + lambda H ln |A|.
    assert plain - 1e-12 <= regularised <= plain + weight * lmdp.horizon * math.log(lmdp.num_actions) + 1e-12


@given(cases())
@settings(max_examples=100)
def test_no_fitting_error_is_above_what_kappa_and_the_losses_allow(case):
    live = np.asarray(case.lmdp.is_live)
    reach = float(case.radius) * np.linalg.norm(np.asarray(case.features)[live], axis=-1).max()
    horizon = case.lmdp.horizon
    for seen, _, _ in jax.device_get(rollout(case)):
        # Losses are differences of larger numbers: what rounding hides in them, kappa multiplies.
        hidden = 1e-13 * (1 + reach**2) * horizon
        with np.errstate(over="ignore", invalid="ignore"):
            kappa = np.exp(seen.ln_kappa)
            statistical = np.sqrt(horizon * kappa * (seen.excess_risk + hidden))
        allowed = np.sqrt(horizon * (seen.transfer_error + hidden)) + statistical
        assert (seen.fitting_error <= allowed + 1e-9 * (1 + np.abs(seen.fitting_error))).all()


@given(st.sampled_from([1, 2, 7, 30]), st.integers(0, 30), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_visitation_of_threshold_and_naive_policies_is_the_product_the_proof_has(n, count, seed):
    series = np.concatenate([[1.0], np.random.default_rng(seed).random(n - 1)])
    passed = min(count, n)
    later = np.where(np.arange(n) < passed, 1.0, 1 - series)
    by_hand = np.concatenate([[1.0], np.cumprod(later)[:-1]])
    for policy, reached in (
        (bcp.threshold_policy(n, passed), by_hand),
        (bcp.naive_policy(n), 0.5 ** np.arange(n)),
    ):
        found = np.exp(bcp.log_visitation(jnp.asarray(series), policy))
        np.testing.assert_allclose(found[:, 1], series * reached, rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(found[:, 0], (1 - series) * reached, rtol=1e-12, atol=1e-300)


@given(st.integers(2, 60), st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_records_rarer_than_in_the_classical_case_mean_an_exponential_gain_unless_the_first_is_taken(n, seed):
    rng = np.random.default_rng(seed)
    series = rng.random(n) ** rng.choice([0.1, 1.0, 5.0]) / np.arange(1, n + 1)
    series[0] = 1.0
    count = theory.odds_threshold(series)
    if count == 0:
        # The optimal policy takes the first arrival; nobody can miss that, and there is nothing to gain.
        assert theory.ln_k_naive(series, count) == 0.0
        return
    assert theory.ln_k_naive(series, count) >= (n - 1) * math.log(2) + math.log(count / (n - 1)) - 1e-9
    for passed in range(1, n):
        assert theory.ln_k_curl(series, count, passed) <= math.log(n) + 1e-9


@pytest.mark.parametrize("n", [3, 10, 100])
def test_a_sampler_that_takes_the_first_arrival_has_infinite_k(n):
    series = 1 / np.arange(1, n + 1)
    assert theory.odds_threshold(series) > 0
    assert theory.ln_k_curl(series, theory.odds_threshold(series), 0) == math.inf
