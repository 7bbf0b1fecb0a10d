"""Features and log-linear policies: identities, and the structured theta . phi against the plain one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import eval_sh_legendre

import rampup
from rampup import policy
from rampup.features import OneHot, Polynomial, legendre, monomials, user_features

CASES = {
    "bcp monomial": (rampup.make("bcp", n=6), "monomial:4"),
    "bcp legendre": (rampup.make("bcp", n=6), "legendre:4"),
    "bcp one-hot": (rampup.make("bcp", n=6), "one_hot"),
    "okd": (rampup.make("okd", n=5, B=1, V=2), "monomial:2"),
    "adw two actions": (rampup.make("adw", n=1, m=3, V=1), "monomial:2"),
    "adw five actions": (rampup.make("adw", n=4, m=3, V=1), "legendre:3"),
}


def drawn(name, seed=0):
    """A problem's features, a random theta and the variables of a random first state."""
    problem, spec = CASES[name]
    features = rampup.as_features(spec, problem)
    theta_key, instance_key = jax.random.split(jax.random.key(seed))
    instance = problem.draw(instance_key)
    observation = problem.observe(instance, problem.init(instance))
    return features, jax.random.normal(theta_key, (features.size,)), problem.variables(observation)


@pytest.mark.parametrize("name", CASES)
def test_dot_is_theta_times_phi(name):
    features, theta, variables = drawn(name)
    for row in variables:
        assert features.phi(row).shape == (features.size,)
        np.testing.assert_allclose(features.dot(theta, row), theta @ features.phi(row), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", CASES)
def test_score_is_the_gradient_of_the_log_probability(name):
    features, theta, variables = drawn(name)
    actions = jnp.arange(max(2, len(variables)))
    by_hand = jax.jit(jax.vmap(lambda action: policy.score(features, theta, variables, action)))(actions)
    by_autodiff = jax.jit(jax.jacobian(lambda at: policy.log_probs(features, at, variables)))(theta)
    np.testing.assert_allclose(by_hand, by_autodiff, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_probabilities_sum_to_one_and_the_mean_score_is_zero(name):
    features, theta, variables = drawn(name)
    probs = jnp.exp(policy.log_probs(features, theta, variables))
    np.testing.assert_allclose(probs.sum(), 1.0, rtol=1e-14)
    scores = jnp.stack([policy.score(features, theta, variables, jnp.asarray(a)) for a in range(len(probs))])
    np.testing.assert_allclose(probs @ scores, 0.0, atol=1e-13)
    fisher = jnp.einsum("a,af,ag->fg", probs, scores, scores)
    assert jnp.linalg.eigvalsh(fisher)[0] > -1e-14


@pytest.mark.parametrize("name", CASES)
def test_the_policy_is_the_softmax_of_phi(name):
    features, theta, variables = drawn(name)
    logits = np.asarray(policy.phi(features, variables) @ theta)
    np.testing.assert_allclose(
        policy.log_probs(features, theta, variables), logits - np.log(np.exp(logits).sum()), rtol=1e-12, atol=1e-13
    )


def test_reject_has_no_features_and_nobody_is_a_virtual_advertiser():
    features, _, variables = drawn("bcp monomial")
    assert not policy.phi(features, variables)[0].any()
    features, _, variables = drawn("adw five actions")
    assert variables[0].tolist() == [1 / 3, 0.0, 0.0, 0.0]
    assert variables.shape == (5, 4)


def test_monomials_come_in_the_order_of_the_paper():
    phi = Polynomial((4, 2)).phi(jnp.asarray([0.5, 3.0]))
    powers = [0.5**k for k in range(4)]
    assert phi.tolist() == powers + [3 * power for power in powers]


@given(st.floats(0, 1), st.integers(1, 12))
def test_bases_agree_with_scipy(value, degree):
    np.testing.assert_allclose(
        monomials(jnp.asarray(value), degree), value ** np.arange(degree), rtol=1e-13, atol=1e-300
    )
    reference = eval_sh_legendre(np.arange(degree), value)
    np.testing.assert_allclose(legendre(jnp.asarray(value), degree), reference, rtol=1e-11, atol=1e-12)


def test_both_bases_span_the_same_functions():
    points = jax.random.uniform(jax.random.key(1), (60, 2))
    tables = [jax.vmap(Polynomial((5, 3), basis).phi)(points) for basis in ("monomial", "legendre")]
    both = np.concatenate(tables, axis=1)
    assert np.linalg.matrix_rank(both, tol=1e-9) == 15


def test_a_table_gives_every_state_its_own_feature():
    problem = rampup.make("bcp", n=7)
    features = rampup.as_features("one_hot", problem)
    states = [(i / 7, x) for i in range(1, 8) for x in (0.0, 1.0)]
    table = np.stack([features.phi(jnp.asarray(state)) for state in states])
    assert np.array_equal(table, np.eye(14))
    assert OneHot((1,), (1.0,), (1.0,)).phi(jnp.asarray([1.0])).tolist() == [1.0]


def test_features_can_be_a_function_of_ones_own():
    features = user_features(lambda variables: jnp.stack([jnp.sin(variables[0]), variables[1], variables[0] ** 3]), 2)
    assert features.size == 3
    theta, row = jnp.asarray([1.0, 2.0, 3.0]), jnp.asarray([0.3, 0.7])
    np.testing.assert_allclose(features.dot(theta, row), np.sin(0.3) + 1.4 + 3 * 0.027)
    with pytest.raises(ValueError, match="must return a vector of features"):
        user_features(lambda variables: variables[0], 2)


def test_entropy_is_that_of_the_definition_and_counts_no_impossible_action():
    probs = np.array([0.5, 0.25, 0.25])
    np.testing.assert_allclose(policy.entropy(jnp.log(jnp.asarray(probs))), -(probs * np.log(probs)).sum())
    assert policy.entropy(jnp.asarray([0.0, -jnp.inf])) == 0.0


def test_extreme_preferences_stay_finite():
    features = Polynomial((1,))
    variables = jnp.ones((1, 1))
    for size in (800.0, 1e6):
        log_probs = policy.log_probs(features, jnp.asarray([size]), variables)
        np.testing.assert_allclose(log_probs, [-size, 0.0], atol=1e-300)


@given(st.integers(2, 6), st.integers(0, 10_000))
def test_each_action_is_chosen_on_its_share_of_the_uniforms(num_actions, seed):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.full(num_actions, 0.5))
    uniforms = (np.arange(2000) + 0.5) / 2000
    chosen = np.asarray(jax.vmap(policy.choose, in_axes=(None, 0))(jnp.log(jnp.asarray(probs)), jnp.asarray(uniforms)))
    shares = np.bincount(chosen, minlength=num_actions) / 2000
    assert np.abs(shares - probs).max() <= 1 / 2000 + 1e-12


def test_an_impossible_action_is_never_chosen():
    log_probs = jnp.asarray([-jnp.inf, 0.0, -jnp.inf])
    for uniform in (0.0, 0.5, 1 - 2**-53):
        assert policy.choose(log_probs, jnp.asarray(uniform)) == 1
