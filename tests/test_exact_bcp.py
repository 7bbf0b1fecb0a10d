"""The exact best choice problem against enumeration, brute-force play, autodiff and known constants."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rampup
from rampup import policy as policies
from rampup.episodes import play
from rampup.exact import bcp, enumeration, finite, npg

snapshot_of = jax.jit(bcp.snapshot)
enumerated_snapshot_of = jax.jit(finite.snapshot)
optimum_of = jax.jit(bcp.optimum)
value_of = jax.jit(lambda probs, policy: bcp.values(probs, policy).start)


def random_series(rng, n):
    """Record probabilities, some of them 0 or 1."""
    series = np.concatenate([[1.0], rng.random(n - 1)])
    series[1:][rng.random(n - 1) < 0.2] = rng.integers(0, 2)
    return series


@pytest.mark.parametrize(
    ("n", "features"),
    [
        (1, "one_hot"),
        pytest.param(2, "monomial:3", marks=[pytest.mark.slow, pytest.mark.long]),
        pytest.param(5, "legendre:2", marks=[pytest.mark.slow, pytest.mark.long]),
        pytest.param(8, "monomial:2", marks=[pytest.mark.slow, pytest.mark.long]),
        (8, "one_hot"),
    ],
)
def test_everything_agrees_with_the_enumeration_of_all_instances(n, features):
    rng = np.random.default_rng(n)
    problem = rampup.make("bcp", series=random_series(rng, n))
    given_features = rampup.as_features(features, problem)
    theta = jnp.asarray(rng.normal(size=given_features.size))
    lmdp, table = enumeration.enumerated_bcp(problem), enumeration.feature_table(given_features, n)
    target = bcp.optimum(problem.record_probs).policy
    samplers = None, bcp.naive_policy(n), bcp.threshold_policy(n, n // 2)
    for sampler, weight in itertools.product(samplers, (0.0, 0.1)):
        direct = snapshot_of(problem.record_probs, given_features, theta, target, sampler, weight)
        policies_of_states = (None if one is None else enumeration.state_policy(one) for one in (target, sampler))
        spelled_out = enumerated_snapshot_of(lmdp, table, theta, *policies_of_states, weight)
        for one, other in zip(jax.tree.leaves(direct), jax.tree.leaves(spelled_out), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    gradient = bcp.gradient(problem.record_probs, given_features, theta, 0.1)
    np.testing.assert_allclose(gradient, finite.gradient(lmdp, table, theta, 0.1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_value_and_visitation_agree_with_brute_force_play(n):
    rng = np.random.default_rng(n)
    series = np.concatenate([[1.0], rng.random(n - 1)])
    accept = rng.random((n, 2))
    policy = bcp.BCPPolicy(jnp.log(jnp.asarray(accept)), jnp.log1p(-jnp.asarray(accept)))
    value, visits = 0.0, np.zeros((n, 2))
    for flags in itertools.product((0, 1), repeat=n):
        # What is left of this instance's probability when arrival i is seen.
        left = np.prod(np.where(flags, series, 1 - series))
        for i, x in enumerate(flags):
            visits[i, x] += left
            actions = [0] * i + [1] * (n - i)
            value += left * accept[i, x] * sum(plain.play_bcp(flags, actions)[1])
            left *= 1 - accept[i, x]
    np.testing.assert_allclose(bcp.values(jnp.asarray(series), policy).start, value, rtol=1e-12)
    np.testing.assert_allclose(np.exp(bcp.log_visitation(jnp.asarray(series), policy)), visits, rtol=1e-12, atol=1e-300)


@pytest.mark.long
@pytest.mark.slow
@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_no_policy_of_the_state_beats_the_optimum(n, seed):
    rng = np.random.default_rng(seed)
    series = random_series(rng, n)
    best = bcp.optimum(jnp.asarray(series))
    by_threshold = [
        float(bcp.values(jnp.asarray(series), bcp.threshold_policy(n, count)).start) for count in range(n + 1)
    ]
    np.testing.assert_allclose(best.value, max(by_threshold), rtol=1e-12)
    np.testing.assert_allclose(by_threshold[int(best.threshold)], best.value, rtol=1e-12)
    # All 2^n ways to accept records or not: a threshold is the best of them.
    if n <= 5:
        for accepts in itertools.product((False, True), repeat=n):
            table = np.zeros((n, 2), bool)
            table[:, 1] = accepts
            with np.errstate(divide="ignore"):
                policy = bcp.BCPPolicy(jnp.asarray(np.log(table * 1.0)), jnp.asarray(np.log(1.0 - table)))
            assert value_of(jnp.asarray(series), policy) <= best.value + 1e-12


def test_the_classical_problem_has_its_known_constants():
    best = bcp.optimum(rampup.make("bcp", n=100).record_probs)
    assert int(best.threshold) == 37
    assert float(best.value) == pytest.approx(0.3710428, abs=5e-8)
    large = bcp.optimum(rampup.make("bcp", n=1_000_000).record_probs)
    assert float(large.value) == pytest.approx(1 / np.e, abs=1e-6)
    assert int(large.threshold) == 367_879


@pytest.mark.parametrize("features", ["monomial:4", "one_hot"])
def test_gradient_agrees_with_autodiff(features):
    problem = rampup.make("bcp", n=30, series="random:2")
    given_features = rampup.as_features(features, problem)
    theta = jax.random.normal(jax.random.key(0), (given_features.size,))

    def value(theta):
        policy = bcp.log_linear_policy(given_features, theta, problem.horizon)
        return bcp.values(problem.record_probs, policy, 0.3).start

    by_hand = bcp.gradient(problem.record_probs, given_features, theta, 0.3)
    np.testing.assert_allclose(by_hand, jax.grad(value)(theta), rtol=1e-9, atol=1e-14)


def test_advantages_average_to_zero_and_state_values_are_their_means():
    problem = rampup.make("bcp", n=20, series="random:5")
    features = rampup.as_features("legendre:3", problem)
    policy = bcp.log_linear_policy(features, jax.random.normal(jax.random.key(1), (6,)), 20)
    q = bcp.values(problem.record_probs, policy, 0.2)
    accept, reject = np.exp(policy.log_accept), np.exp(policy.log_reject)
    np.testing.assert_allclose(accept * q.accept + reject * q.reject, q.state, rtol=1e-12)
    flags = np.stack([1 - problem.record_probs, problem.record_probs], axis=1)
    np.testing.assert_allclose((flags * q.state).sum(axis=1)[1:], q.ahead[:-1], rtol=1e-12)
    np.testing.assert_allclose((flags * q.state).sum(axis=1)[0], q.start, rtol=1e-12)


def test_the_oracle_policy_played_by_the_sampler_earns_the_oracle_value():
    problem = rampup.make("bcp", n=50, series="random:3")
    best = bcp.optimum(problem.record_probs)
    features = rampup.as_features("one_hot", problem)
    # A table that prefers by e^40 what the optimal policy does.
    theta = jnp.where(best.policy.log_accept.ravel() == 0, 40.0, -40.0)
    policy = policies.LogLinear(problem, features, theta)
    num_episodes = 20_000
    keys = jax.random.split(jax.random.key(7), num_episodes)
    episodes = jax.jit(jax.vmap(lambda key: play(problem, policy, key)))(keys)
    earned = np.asarray(episodes.rewards.sum(axis=1))
    error = np.sqrt(best.value * (1 - best.value) / num_episodes)
    assert abs(earned.mean() - best.value) <= 4 * error


@pytest.mark.slow
def test_a_million_arrivals_take_linear_memory():
    n = 1_000_000
    problem = rampup.make("bcp", n=n)
    features = rampup.as_features("legendre:10", problem)
    probs = problem.record_probs

    @jax.jit
    def everything(probs, theta):
        policy = bcp.log_linear_policy(features, theta, n)
        target = bcp.threshold_policy(n, 367_879)
        sums = bcp.moments(features, policy, bcp.contrast(probs, policy), bcp.on_policy(probs, target))
        found = bcp.relative_condition(features, policy, bcp.on_policy(probs, target), bcp.grafted(probs, target))
        return sums, found.ln, bcp.gradient(probs, features, theta), bcp.values(probs, target).start

    sums, ln_kappa, gradient, value = everything(probs, jnp.zeros(features.size))
    assert sums.fisher.shape == (20, 20)
    assert float(value) == pytest.approx(1 / np.e, abs=1e-6)
    # At theta = 0 every action has the same squared score: on-policy and grafted Fisher matrices are one.
    assert float(ln_kappa) == pytest.approx(0.0, abs=1e-9)
    # The first Legendre feature is 1 and the score is +-1/2: entry (0, 0) is a quarter of the expected length.
    length = np.exp(bcp.log_visitation(probs, bcp.threshold_policy(n, 367_879))).sum()
    np.testing.assert_allclose(sums.fisher[0, 0], length / 4, rtol=1e-10)
    assert np.isfinite(gradient).all()


@pytest.mark.slow
@pytest.mark.long
def test_exact_npg_with_a_curriculum_beats_exact_npg_without():
    small, large = rampup.make("bcp", n=10), rampup.make("bcp", n=100)
    features = rampup.as_features("monomial:10", large)

    @jax.jit
    def train(probs, theta):
        snapshot_fn = lambda at: bcp.snapshot(probs, features, at, bcp.optimum(probs).policy)
        return npg.train(snapshot_fn, theta, learning_rate=0.2, radius=10.0, iterations=200)

    warm, _ = train(small.record_probs, jnp.zeros(features.size))
    for start, low, high in ((warm, 0.36, 0.3711), (jnp.zeros(features.size), 0.0, 0.02)):
        _, updates = train(large.record_probs, start)
        assert low <= updates.value[-1] <= high
        assert (updates.solution.residual < 1e-9).all()
        assert (updates.diagnosis.gap > -1e-12).all()


@pytest.mark.long
@pytest.mark.slow
def test_theorem_1_holds_for_exact_npg_on_bcp():
    problem = rampup.make("bcp", n=40)
    features = rampup.as_features("legendre:5", problem)
    best = bcp.optimum(problem.record_probs)
    phi = jax.vmap(features.phi)(bcp.states(40).reshape(-1, 2))
    for sampler, regularisation in itertools.product((None, best.policy), (0.0, 0.01)):
        snapshot_fn = lambda at, sampler=sampler, regularisation=regularisation: bcp.snapshot(
            problem.record_probs, features, at, best.policy, sampler, regularisation
        )
        start = jnp.zeros(features.size)
        _, updates = npg.train(snapshot_fn, start, learning_rate=0.2, radius=10.0, iterations=50)
        terms = npg.bound_of(
            updates.diagnosis,
            horizon=40,
            learning_rate=0.2,
            regularisation=regularisation,
            feature_norm=float(jnp.linalg.norm(phi, axis=1).max()),
            radius=10.0,
        )
        assert updates.diagnosis.gap.min() <= terms.first_line <= terms.second_line


def test_enumeration_refuses_what_will_not_fit():
    with pytest.raises(ValueError, match="`n` must be at most 12 to enumerate"):
        enumeration.enumerated_bcp(rampup.make("bcp", n=13))
