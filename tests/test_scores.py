"""Sums of scores by the factors of their features against the same sums over whole features."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rampup
from rampup import scores
from rampup.features import Polynomial

STATES, ACTIONS = 7, 4
degrees = st.lists(st.integers(1, 3), min_size=1, max_size=4).map(tuple)


def drawn_states(rng, num_variables, shared):
    """Variables of some actions of some states, of which all actions share some."""
    states = rng.uniform(size=(STATES, ACTIONS, num_variables))
    for place in shared:
        states[:, :, place] = states[:, :1, place]
    return jnp.asarray(states)


def assert_sums_are_those_of_phi(features, states, shared, rng):
    weights, combinations = rng.uniform(size=(STATES, 3)), rng.normal(size=(STATES, 3, ACTIONS))
    parts = scores.split(features, states.shape[2], shared)
    own = jnp.einsum("ska,sai->ski", combinations, parts.rows(states))
    phi = np.asarray(jax.vmap(jax.vmap(features.phi))(states))
    dense = np.einsum("ska,sai->ski", combinations, phi)
    # Shifted Legendre polynomials and powers are at most 1 on [0, 1]: no score is above the sum of its coefficients.
    scale = 1e-13 * np.abs(combinations).sum(axis=2).max() ** 2
    sums, squares = parts.sums(jnp.asarray(weights), own, states), parts.squares(jnp.asarray(weights), own, states)
    np.testing.assert_allclose(sums, np.einsum("sk,ski->i", weights, dense), rtol=0, atol=scale)
    np.testing.assert_allclose(squares, np.einsum("sk,ski,skj->ij", weights, dense, dense), rtol=0, atol=scale)
    whole = scores.combination(features, jnp.asarray(combinations[:, 0]), states, shared)
    np.testing.assert_allclose(whole, dense[:, 0].sum(axis=0), rtol=0, atol=scale)
    return parts


@given(degrees, st.sampled_from(["monomial", "legendre"]), st.integers(0, 2**32 - 1), st.data())
@settings(max_examples=12)
def test_sums_by_factors_are_those_of_phi(degrees, basis, seed, data):
    rng = np.random.default_rng(seed)
    shared = tuple(data.draw(st.sets(st.integers(0, len(degrees) - 1))))
    features, states = Polynomial(degrees, basis), drawn_states(rng, len(degrees), shared)
    parts = assert_sums_are_those_of_phi(features, states, shared, rng)
    assert parts.shared.size * parts.own.size == features.size


@pytest.mark.parametrize("shared", [(), (0,), (0, 3), (0, 1, 2, 3)], ids=str)
def test_own_factors_of_every_length(shared):
    """From phi itself, longer than the scores of a state are many, to nothing."""
    rng = np.random.default_rng(1)
    parts = assert_sums_are_those_of_phi(Polynomial((3, 3, 3, 3)), drawn_states(rng, 4, shared), shared, rng)
    assert parts.own.size == 3 ** (4 - len(shared))


def test_features_that_are_no_polynomials_have_one_factor():
    rng = np.random.default_rng(0)
    features = rampup.user_features(lambda row: jnp.stack([jnp.sin(row[0]), row[1] ** 2, row[0] * row[1]]), 2)
    parts = assert_sums_are_those_of_phi(features, drawn_states(rng, 2, (1,)), (1,), rng)
    assert parts.own is features
