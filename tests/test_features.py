"""Sums over many rows by structure against the dense ones, bases that span the same, and shares against softmax."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import rampup
from rampup import policy as policies
from rampup.features import (
    OneHot,
    Polynomial,
    better_conditioned,
    by_small_sums,
    legendre_products,
    monomial_products,
    user_features,
)

DEGREES = st.sampled_from([(1,), (7,), (4, 2), (1, 5), (3, 3, 2), (2, 1, 4), (3,) * 4, (2,) * 5])
COUNTS = st.sampled_from([(1,), (6,), (5, 2), (3, 1, 4)])
seeds = st.integers(0, 2**32 - 1)
ROWS = 30


def drawn_rows(seed, num_variables, dtype):
    """Weights of both signs, some of them zero, and rows of variables, the ends of the interval among them."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=ROWS) * rng.integers(0, 2, size=ROWS)
    variables = np.round(rng.uniform(-0.2, 1.2, size=(ROWS, num_variables)).clip(0, 1), rng.integers(1, 9))
    return jnp.asarray(weights, dtype), jnp.asarray(variables, dtype)


@given(DEGREES, st.sampled_from(["monomial", "legendre"]), seeds, st.data())
@settings(max_examples=60)
def test_fixing_some_variables_leaves_a_polynomial_of_the_others(degrees, basis, seed, data):
    features = Polynomial(degrees, basis)
    rng = np.random.default_rng(seed)
    theta, row = jnp.asarray(rng.normal(size=features.size)), jnp.asarray(rng.uniform(size=len(degrees)))
    places = data.draw(st.sets(st.integers(0, len(degrees) - 1), max_size=len(degrees) - 1))
    fewer, rest = features.fixing(theta, tuple(places), row)
    others = [place for place in range(len(degrees)) if place not in places]
    assert fewer.degrees == tuple(degrees[place] for place in others)
    np.testing.assert_allclose(fewer.dot(rest, row[np.array(others)]), features.dot(theta, row), rtol=1e-12, atol=1e-12)


def test_logits_are_the_same_when_what_all_actions_share_is_done_once():
    problem = rampup.make("adw", n=5, m=4, V=2)
    rng = np.random.default_rng(0)
    for kind in ("monomial:3", "legendre:2"):
        features = rampup.as_features(kind, problem)
        theta, seen = jnp.asarray(rng.normal(size=features.size)), jnp.asarray(rng.uniform(size=12))
        variables = problem.variables(seen)
        plain = policies.logits(features, theta, variables)
        np.testing.assert_allclose(policies.logits(features, theta, variables, (0, 3)), plain, rtol=1e-12)


@jax.jit
def sums_and_rows(features, weights, variables):
    sums = features.gram(weights, variables), features.combination(weights, variables)
    return *sums, jax.vmap(features.phi)(variables.astype(float))


def assert_sums_are_dense(features, weights, variables, error):
    """Both sums against those over phi in double precision, up to an error that is relative to the weights' sum."""
    gram, combination, rows = map(np.asarray, sums_and_rows(features, weights, variables))
    dense = np.asarray(weights, float)
    scale = np.abs(dense).sum() * float(jnp.finfo(weights.dtype).eps) * error
    assert gram.dtype == combination.dtype == weights.dtype
    np.testing.assert_allclose(gram, (dense[:, None] * rows).T @ rows, rtol=0, atol=scale)
    np.testing.assert_allclose(combination, dense @ rows, rtol=0, atol=scale)
    return rows


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("basis", ["monomial", "legendre"])
@given(DEGREES, seeds)
@settings(max_examples=20)
def test_sums_over_polynomial_rows_are_the_dense_ones(basis, dtype, degrees, seed):
    weights, variables = drawn_rows(seed, len(degrees), dtype)
    # On [0, 1] no basis polynomial is above 1, and the recurrence for one of degree d loses a few of its units in the
    # last place for each of the up to 2d; a product of several adds theirs.
    assert_sums_are_dense(Polynomial(degrees, basis), weights, variables, 20 * sum(degrees) + ROWS)


def test_sums_over_many_rows_are_taken_in_pieces(monkeypatch):
    features = Polynomial((3, 2), "legendre")
    rng = np.random.default_rng(5)
    weights, variables = jnp.asarray(rng.random(100)), jnp.asarray(rng.random((100, 2)))
    at_once = features.gram(weights, variables), features.combination(weights, variables)
    monkeypatch.setattr("rampup.features.ROWS_AT_ONCE", 32)
    in_pieces = features.gram(weights, variables), features.combination(weights, variables)
    for one, other in zip(at_once, in_pieces, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("basis", ["monomial", "legendre"])
def test_few_sums_are_kept_in_registers(basis):
    features, lengths = Polynomial((4, 2), basis), (7, 3)
    rng = np.random.default_rng(7)
    # More rows than whole blocks of lanes would take, and more than one for each lane.
    weights, variables = jnp.asarray(rng.normal(size=2500)), jnp.asarray(rng.random((2500, 2)))
    found = features.sums_in_registers(weights, variables, lengths)
    dense = jax.vmap(Polynomial(lengths, basis).phi)(variables)
    np.testing.assert_allclose(found, weights @ dense, rtol=0, atol=1e-12 * np.abs(weights).sum())


def test_small_sums_side_by_side_add_up_to_the_long_one():
    rng = np.random.default_rng(6)
    left, right = rng.random((3, 1300)), rng.random((2, 1300))
    np.testing.assert_allclose(by_small_sums(jnp.asarray(left), jnp.asarray(right)), left @ right.T, rtol=1e-13)


@given(COUNTS, seeds)
@settings(max_examples=15)
def test_sums_over_rows_of_a_table_are_the_dense_ones(counts, seed):
    weights, variables = drawn_rows(seed, len(counts), float)
    features = OneHot(counts, (0.0,) * len(counts), (1.0,) * len(counts))
    rows = assert_sums_are_dense(features, weights, variables, ROWS)
    assert (rows.sum(axis=1) == 1).all()


@given(seeds)
@settings(max_examples=10)
def test_sums_over_rows_of_ones_own_features_are_the_dense_ones(seed):
    features = user_features(own_features, 3)
    assert features.size == 7
    assert_sums_are_dense(features, *drawn_rows(seed, 3, float), ROWS)


def own_features(row):
    return jnp.concatenate([jnp.sin(row), jnp.ones(1, row.dtype), row**3])


@pytest.mark.parametrize("name", ["bcp", "okd", "adw"])
def test_sums_of_the_problems_own_features_are_the_dense_ones(name):
    made = {"bcp": {"n": 6}, "okd": {"n": 5, "B": 1, "V": 2}, "adw": {"n": 2, "m": 3, "V": 1}}
    problem = rampup.make(name, **made[name])
    lows, highs = (np.asarray(part) for part in problem.bounds())
    observations = lows + np.random.default_rng(0).random((20, len(lows))) * (highs - lows)
    rows = jnp.concatenate([problem.variables(jnp.asarray(one)) for one in observations])
    weights = jnp.asarray(np.random.default_rng(1).normal(size=len(rows)))
    specs = ["monomial:3", "legendre:3", *(["one_hot"] if name == "bcp" else [])]
    for spec in specs:
        assert_sums_are_dense(rampup.as_features(spec, problem), weights, rows, 20 * 15 + len(rows))


@pytest.mark.parametrize("degree", [1, 2, 3, 7])
def test_products_of_basis_polynomials_are_sums_of_them(degree):
    points = np.linspace(0, 1, 29)
    for basis, table in (("monomial", monomial_products(degree)), ("legendre", legendre_products(degree))):
        assert table.shape == (degree, degree, 2 * degree - 1)
        values, longer = (
            np.asarray(jax.vmap(Polynomial((length,), basis).phi)(jnp.asarray(points)[:, None]))
            for length in (degree, 2 * degree - 1)
        )
        products = values[:, :, None] * values[:, None, :]
        np.testing.assert_allclose(np.einsum("abk,pk->pab", table, longer), products, atol=1e-13 * degree)
        # No term is of a higher degree than the product.
        a, b, k = np.indices(table.shape)
        assert not table[k > a + b].any()


@given(DEGREES, seeds)
@settings(max_examples=10)
def test_better_conditioned_features_span_the_same_functions(degrees, seed):
    features = Polynomial(degrees, "monomial")
    better = better_conditioned(features)
    assert better.size == features.size
    rng = np.random.default_rng(seed)
    fitted, fresh = (jnp.asarray(rng.random((4 * features.size, len(degrees)))) for _ in range(2))
    tables = [[np.asarray(rows_of(one, points)) for points in (fitted, fresh)] for one in (features, better)]
    # What turns one into the other on some points does so on others; the inverse too, if it is as long.
    change, _, rank, _ = np.linalg.lstsq(tables[1][0], tables[0][0], rcond=1e-12)
    assert rank == features.size
    np.testing.assert_allclose(tables[1][1] @ change, tables[0][1], atol=1e-9)
    assert np.linalg.matrix_rank(change, tol=1e-9) == features.size


rows_of = jax.jit(lambda features, points: jax.vmap(features.phi)(points))


def test_better_conditioned_features_are_better_conditioned():
    features = Polynomial((8, 2), "monomial")
    points = jnp.asarray(np.random.default_rng(0).random((500, 2)))
    conditions = [
        np.linalg.cond(one.gram(jnp.full(500, 1 / 500), points)) for one in (features, better_conditioned(features))
    ]
    assert conditions[1] < 1e-4 * conditions[0]


def test_features_without_another_basis_stay_as_they_are():
    table, own = OneHot((3,), (0.0,), (1.0,)), user_features(lambda row: row, 2)
    assert better_conditioned(table) is table
    assert better_conditioned(own) is own


# Shares of the actions.

LOGITS = st.lists(
    st.one_of(st.floats(-1e3, 1e3, width=32), st.floats(-3, 3, width=32), st.sampled_from([-1e3, 0.0, 1e3])),
    min_size=1,
    max_size=6,
)
UNIFORMS = st.one_of(st.floats(0, 1, exclude_max=True, width=32), st.sampled_from([0.0, 0.5, 1 - 2.0**-23]))


def as_logits(numbers, dtype):
    """Logits for the policy, and the same with reject's zero where there is but accept's."""
    given_ = np.asarray(numbers, dtype)
    full = given_.astype(float)
    return jnp.asarray(given_), np.concatenate([[0.0], full]) if len(full) == 1 else full


def assert_shares_are_a_softmax(numbers, dtype):
    given_, full = as_logits(numbers, dtype)
    eps = float(jnp.finfo(dtype).eps)
    shares, logs = policies.shares(given_), policies.log_shares(given_)
    assert shares.probs.dtype == logs.dtype == dtype
    # The difference of two logits of size s is known to s eps, and e to that power to as much, relatively.
    error = 4 * eps * (len(full) + np.ptp(full))
    np.testing.assert_allclose(
        shares.probs, scipy.special.softmax(full), rtol=error, atol=10 * float(jnp.finfo(dtype).tiny)
    )
    np.testing.assert_allclose(logs, scipy.special.log_softmax(full), rtol=0, atol=error)
    assert shares.total >= 1
    np.testing.assert_allclose(shares.parts.sum(), shares.total, rtol=len(full) * eps)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@given(LOGITS)
@settings(max_examples=40)
def test_shares_are_a_softmax(dtype, numbers):
    assert_shares_are_a_softmax(numbers, dtype)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("numbers", [[1e3], [-1e3], [0.0], [1e3, -1e3], [-1e3] * 3, [1e3] * 5, [1e3, 999.0, -1e3]])
def test_shares_of_extreme_logits_are_a_softmax(numbers, dtype):
    assert_shares_are_a_softmax(numbers, dtype)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("count", [64, 65, 200])
def test_shares_of_many_actions_are_a_softmax(count, dtype):
    numbers = np.random.default_rng(count).normal(size=count) * 10
    assert_shares_are_a_softmax(numbers, dtype)


@given(LOGITS)
@settings(max_examples=40)
def test_log_probabilities_are_those_of_jax(numbers):
    given_, full = as_logits(numbers, float)
    np.testing.assert_allclose(policies.log_shares(given_), jax.nn.log_softmax(full), rtol=1e-13, atol=1e-12)


def assert_falls_into_its_share(numbers, uniform, dtype):
    given_, full = as_logits(numbers, dtype)
    shares = policies.shares(given_)
    action = int(policies.choose_by(shares, jnp.asarray(uniform, dtype)))
    edges = np.concatenate([[0.0], np.cumsum(scipy.special.softmax(full))])
    # Every edge is a sum of as many shares, each of them known to its logits' precision.
    error = 4 * float(jnp.finfo(dtype).eps) * (len(full) + np.minimum(np.ptp(full), 1e3))
    assert edges[action] - error <= uniform <= edges[action + 1] + error


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@given(LOGITS, UNIFORMS)
@settings(max_examples=60)
def test_an_action_is_chosen_in_whose_share_the_uniform_falls(dtype, numbers, uniform):
    assert_falls_into_its_share(numbers, uniform, dtype)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("count", [2, 63, 64, 65, 66, 200])
def test_few_and_many_actions_are_chosen_alike(count, dtype):
    rng = np.random.default_rng(count)
    numbers = rng.normal(size=count)
    for uniform in [0.0, *rng.random(30), 1 - 2.0**-23]:
        assert_falls_into_its_share(numbers, uniform, dtype)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_each_action_is_chosen_as_often_as_its_share(dtype):
    grid = (np.arange(4096) + 0.5) / 4096
    for numbers in ([0.3], [-2.0], [0.1, -1.0, 2.0], list(np.linspace(-1, 1, 70))):
        given_, full = as_logits(numbers, dtype)
        shares = policies.shares(given_)
        chosen = jax.vmap(lambda uniform, shares=shares: policies.choose_by(shares, uniform))(jnp.asarray(grid, dtype))
        found = np.bincount(chosen, minlength=len(full)) / len(grid)
        # Of equally spaced numbers, an interval holds its share up to one at each end.
        assert np.abs(found - scipy.special.softmax(full)).max() <= 2 / len(grid)


@pytest.mark.parametrize("numbers", [[1e3], [-1e3], [1e3, -1e3], [-1e3, 1e3, -1e3], [-1e3, -1e3, 1e3]])
def test_a_preference_of_a_thousand_is_a_certainty(numbers):
    for dtype in (jnp.float32, jnp.float64):
        given_, full = as_logits(numbers, dtype)
        for uniform in (0.0, 0.3, 1 - 2.0**-23):
            chosen = policies.choose_by(policies.shares(given_), jnp.asarray(uniform, dtype))
            assert int(chosen) == np.argmax(full)
