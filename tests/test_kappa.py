"""Kappa against 200-digit arithmetic, where it is 1, where it is e^70, and where it is infinite."""

import high_precision
import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import rampup
from rampup import kappa
from rampup.exact import bcp

N = 100


def probabilities(policy):
    return np.exp(policy.log_accept).tolist()


SERIES = {
    "classical": "classical",
    "random": "random:1",
    "0.9": [1.0] + [0.9] * (N - 1),
    "0.999": [1.0] + [0.999] * (N - 1),
}
# How many arrivals the sampler lets pass; None is the naive sampler.
CASES = [
    ("classical", None),
    pytest.param("classical", 20, marks=[pytest.mark.slow, pytest.mark.long]),
    ("classical", 37),
    ("random", None),
    pytest.param("0.9", None, marks=[pytest.mark.slow, pytest.mark.long]),
    pytest.param("0.9", 20, marks=[pytest.mark.slow, pytest.mark.long]),
    ("0.999", 3),
]


@pytest.mark.parametrize("features", ["monomial:10", "legendre:10"])
@pytest.mark.parametrize(("series", "count"), CASES)
def test_exact_bcp_agrees_with_200_digits(series, count, features):
    problem = rampup.make("bcp", n=N, series=SERIES[series])
    probs = problem.record_probs
    target = bcp.optimum(probs).policy
    roll_in = bcp.naive_policy(N) if count is None else bcp.threshold_policy(N, count)
    at_zero = bcp.naive_policy(N)
    given_features = rampup.as_features(features, problem)
    found = bcp.relative_condition(given_features, at_zero, bcp.on_policy(probs, target), bcp.grafted(probs, roll_in))
    tables = [probabilities(policy) for policy in (target, roll_in, at_zero)]
    exact = high_precision.ln_kappa(*features.split(":")[:1], 10, probs.tolist(), *tables, is_grafted=True)
    np.testing.assert_allclose(found.ln, exact, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_exact_bcp_agrees_with_200_digits_away_from_zero_and_on_policy(scale):
    problem = rampup.make("bcp", n=N)
    features = rampup.as_features("legendre:10", problem)
    theta = scale * jax.random.normal(jax.random.key(4), (features.size,))
    policy = bcp.log_linear_policy(features, theta, N)
    probs = problem.record_probs
    target = bcp.optimum(probs).policy
    found = bcp.relative_condition(features, policy, bcp.on_policy(probs, target), bcp.on_policy(probs, policy))
    tables = [probabilities(one) for one in (target, policy, policy)]
    # The 200 digits start from rounded probabilities 1 - p, good to about 1e-16 / (1 - p).
    exact = high_precision.ln_kappa("legendre", 10, probs.tolist(), *tables, is_grafted=False)
    np.testing.assert_allclose(found.ln, exact, rtol=1e-6)


def test_one_hot_kappa_is_the_largest_ratio():
    problem = rampup.make("bcp", n=N)
    probs = problem.record_probs
    target, naive = bcp.optimum(probs).policy, bcp.naive_policy(N)
    features = rampup.as_features("one_hot", problem)
    found = bcp.relative_condition(features, naive, bcp.on_policy(probs, target), bcp.grafted(probs, naive))
    with mp.workdps(50):
        table = [
            mp.mpf(2) ** (i - 1) * mp.mpf(37) / (i - 1) if i > 37 else mp.mpf(2) ** (i - 1) for i in range(1, N + 1)
        ]
        exact = float(mp.log(max(table)))
    np.testing.assert_allclose(found.ln, exact, rtol=1e-14)
    # The general elimination, which knows nothing of tables, finds the same.
    weights = [
        bcp.log_fisher_weights(one, naive).ravel() for one in (bcp.on_policy(probs, target), bcp.grafted(probs, naive))
    ]
    np.testing.assert_allclose(kappa.of_rows(jnp.eye(2 * N), *weights, jnp.ones(2 * N)).ln, exact, rtol=1e-12)


def test_kappa_is_infinite_where_the_sampler_never_looks():
    problem = rampup.make("bcp", series=[1.0] * N)
    probs = problem.record_probs
    target, naive = bcp.optimum(probs).policy, bcp.naive_policy(N)
    wanted = bcp.on_policy(probs, target)
    early, late = (bcp.grafted(probs, bcp.threshold_policy(N, count)) for count in (5, 40))
    table, few = rampup.as_features("one_hot", problem), rampup.as_features("monomial:10", problem)
    assert bcp.relative_condition(table, naive, wanted, early).ln == np.inf
    assert bcp.relative_condition(table, naive, wanted, late).ln == np.inf
    # Six arrivals are seen: too few to tell polynomials with ten coefficients apart. Forty-one are enough.
    found = bcp.relative_condition(few, naive, wanted, early)
    assert found.ln == np.inf
    assert found.rank == 6
    assert np.isfinite(bcp.relative_condition(few, naive, wanted, late).ln)
    assert np.isfinite(bcp.relative_condition(few, naive, wanted, bcp.grafted(probs, naive)).ln)


def test_general_rows_give_infinity_only_where_the_target_has_weight():
    rows = jnp.asarray([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    nothing, something = -jnp.inf, 0.0
    first_only = jnp.asarray([something, nothing, nothing])
    scales = jnp.ones(3)
    assert kappa.of_rows(rows, first_only, first_only, scales).ln == pytest.approx(0.0)
    assert kappa.of_rows(rows, jnp.asarray([nothing, nothing, something]), first_only, scales).ln == np.inf
    spanning = jnp.asarray([something, something, nothing])
    assert kappa.of_rows(rows, jnp.asarray([nothing, nothing, something]), spanning, scales).ln == pytest.approx(
        np.log(2)
    )
    assert kappa.of_rows(rows, jnp.full(3, nothing), spanning, scales).ln == -np.inf


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 5.0, 60.0]))
@settings(max_examples=40)
def test_general_rows_agree_with_high_precision_for_any_weights(seed, spread):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(12, 4))
    target, sampler = rng.normal(size=(2, 12)) * spread
    with mp.workdps(200):
        matrices = []
        for weights in (target, sampler):
            total = mp.zeros(4)
            for row, weight in zip(rows.tolist(), weights.tolist(), strict=True):
                phi = mp.matrix(row)
                total += mp.exp(mp.mpf(weight)) * phi * phi.T
            matrices.append(total)
        inverse = mp.cholesky(matrices[1]) ** -1
        exact = float(mp.log(max(mp.eigsy(inverse * matrices[0] * inverse.T, eigvals_only=True))))
    found = jitted_of_rows(jnp.asarray(rows), jnp.asarray(target), jnp.asarray(sampler), jnp.ones(12))
    np.testing.assert_allclose(found.ln, exact, rtol=1e-6, atol=1e-9)
    assert found.rank == 4


jitted_of_rows = jax.jit(kappa.of_rows)


def test_the_noise_of_a_heavy_row_does_not_enter_a_light_direction():
    # Three heavy rows, equal but for rounding; a fourth, of next to no weight, is all that tells the features apart.
    rows = jnp.asarray([[0.1, 1.0], [0.3 / 3, 1.0], [0.7 / 7, 1.0], [0.0, 1.0]])
    target, sampler = jnp.zeros(4), jnp.asarray([0.0, 0.0, 0.0, -1500.0])
    found = kappa.of_rows(rows, target, sampler, jnp.ones(4))
    assert found.rank == 2
    np.testing.assert_allclose(found.ln, 1500.0 + np.log(4 / 3), rtol=1e-3)


def test_polynomials_and_general_rows_agree():
    nodes = jnp.arange(1, 31) / 30
    rng = np.random.default_rng(0)
    target, sampler = jnp.asarray(rng.normal(size=(2, 30)) * 3)
    rows = jnp.stack([nodes**k for k in range(5)], axis=1)
    one, other = kappa.of_polynomials(nodes, 5, target, sampler), kappa.of_rows(rows, target, sampler, jnp.ones(30))
    np.testing.assert_allclose(one.ln, other.ln, rtol=1e-9)


def test_more_coefficients_than_arrivals_is_no_trouble():
    problem = rampup.make("bcp", n=4)
    probs, naive = problem.record_probs, bcp.naive_policy(4)
    wanted, sampled = bcp.on_policy(probs, bcp.optimum(probs).policy), bcp.grafted(probs, naive)
    table, many = (rampup.as_features(name, problem) for name in ("one_hot", "monomial:10"))
    by_table, by_polynomials = (bcp.relative_condition(one, naive, wanted, sampled) for one in (table, many))
    np.testing.assert_allclose(by_polynomials.ln, by_table.ln, rtol=1e-12)
    assert by_polynomials.rank == by_table.rank == 7


def test_factors_agree_with_rows_and_know_infinity():
    rng = np.random.default_rng(0)
    target, sampler = (np.triu(rng.normal(size=(4, 4))) for _ in range(2))
    found = kappa.of_grams(jnp.asarray(target.T @ target), jnp.asarray(sampler.T @ sampler))
    exact = 2 * np.log(np.linalg.norm(target @ np.linalg.inv(sampler), 2))
    np.testing.assert_allclose(found.ln, exact, rtol=1e-10)
    assert found.rank == 4
    sampler[:, 3] = 0
    missed = kappa.of_grams(jnp.asarray(target.T @ target), jnp.asarray(sampler.T @ sampler))
    assert (float(missed.ln), int(missed.rank)) == (np.inf, 3)
    target[:, 3] = 0
    shared = kappa.of_grams(jnp.asarray(target.T @ target), jnp.asarray(sampler.T @ sampler))
    exact = 2 * np.log(np.linalg.norm(target[:, :3] @ np.linalg.inv(sampler[:3, :3]), 2))
    assert float(shared.ln) >= exact - 1e-9
    assert np.isfinite(shared.ln)


of_grams = jax.jit(kappa.of_grams)


def random_gram(rng, size, smallest=0.1):
    """A positive definite matrix with curvatures between a smallest one and 1, on axes of very different scale."""
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    scale = 10.0 ** rng.uniform(-3, 3, size=size)
    return scale[:, None] * (basis * rng.uniform(smallest, 1.0, size=size)) @ basis.T * scale


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_grams_agree_with_generalised_eigenvalues(size, seed):
    rng = np.random.default_rng(seed)
    target, sampler = (random_gram(rng, size) for _ in range(2))
    found = of_grams(jnp.asarray(target), jnp.asarray(sampler))
    exact = np.log(scipy.linalg.eigh(target, sampler, eigvals_only=True)[-1])
    # The 1024th power of a matrix mixes in a direction that is r times the largest with weight r^1024. What the mixture
    # lacks is at most the largest of (1 - r) r^2048, for each entry of a column that has 1/size of the whole.
    assert found.ln <= exact + 1e-9
    assert found.ln >= exact + np.log1p(-(size**2) / (2049 * np.e)) - 1e-9
    assert found.rank == size


@given(st.integers(1, 6), st.floats(-20, 20), st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_a_largest_ratio_that_stands_alone_is_found_to_rounding(size, ln, seed):
    rng = np.random.default_rng(seed)
    factor = np.linalg.cholesky(random_gram(rng, size))
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    # All others are at least a twentieth smaller: to the power 2048, nothing.
    ratios = np.exp(ln) * np.append(rng.uniform(0.0, 0.95, size=size - 1), 1.0)
    target = factor @ (basis * ratios) @ basis.T @ factor.T
    found = of_grams(jnp.asarray((target + target.T) / 2), jnp.asarray(factor @ factor.T))
    np.testing.assert_allclose(found.ln, ln, atol=1e-10)


def deficient_gram(rng, size):
    """The sum over a few rows that span fewer directions than there are, and how many they span."""
    rank = int(rng.integers(1, size))
    rows = rng.normal(size=(10, rank)) @ rng.normal(size=(rank, size))
    return rows.T @ rows, rank


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_grams_give_infinity_where_the_target_has_what_the_sampler_lacks(size, seed):
    rng = np.random.default_rng(seed)
    sampler, _ = deficient_gram(rng, size)
    everywhere = random_gram(rng, size)
    assert of_grams(jnp.asarray(everywhere), jnp.asarray(sampler)).ln == np.inf
    # The same target, and a sampler that sees the rest as well, if but a little.
    sampler += 1e-6 * np.diag(np.diag(sampler))
    assert np.isfinite(of_grams(jnp.asarray(everywhere), jnp.asarray(sampler)).ln)


@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_grams_know_how_many_directions_the_sampler_sees(size, seed):
    sampler, rank = deficient_gram(np.random.default_rng(seed), size)
    assert of_grams(jnp.eye(size), jnp.asarray(sampler)).rank == rank


@pytest.mark.parametrize("num_rows", [400, 40_000])
@pytest.mark.parametrize("basis", ["monomial", "legendre"])
def test_grams_of_many_rows_give_infinity_as_those_of_few(basis, num_rows):
    # Three arrivals are all that is seen, however often: too few for polynomials with six coefficients.
    features = rampup.Polynomial((6,), basis)
    rng = np.random.default_rng(0)
    seen, wanted = rng.choice([0.2, 0.55, 0.9], num_rows), rng.random(num_rows)
    weights = jnp.full(num_rows, 1 / num_rows)
    target, sampler = (features.gram(weights, jnp.asarray(values)[:, None]) for values in (wanted, seen))
    assert of_grams(target, sampler).ln == np.inf


def test_grams_scale_as_they_must():
    rng = np.random.default_rng(0)
    target, sampler = (jnp.asarray(random_gram(rng, 4)) for _ in range(2))
    plain = of_grams(target, sampler).ln
    assert of_grams(sampler, sampler).ln == pytest.approx(0.0, abs=1e-12)
    for factor in (1e-12, 1e12):
        np.testing.assert_allclose(of_grams(factor * target, sampler).ln, plain + np.log(factor), rtol=1e-12)
        np.testing.assert_allclose(of_grams(target, factor * sampler).ln, plain - np.log(factor), rtol=1e-12)
    assert of_grams(jnp.zeros((4, 4)), sampler).ln == -np.inf
