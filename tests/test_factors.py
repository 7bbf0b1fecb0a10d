"""Inverse factors, made in three ways, against SciPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from rampup import factors


def positive(size, seed=0):
    rows = np.random.default_rng(seed).normal(size=(3, 2 * size, size))
    return np.einsum("bki,bkj->bij", rows, rows)


def inverses(matrices):
    return np.stack([scipy.linalg.inv(scipy.linalg.cholesky(matrix, lower=True)) for matrix in matrices])


@pytest.mark.parametrize("size", [1, 5, 31, 32, 33, 64, 81, 130])
def test_the_inverse_of_a_factor_is_scipys(size):
    matrices = positive(size)
    wanted, tolerance = inverses(matrices), {"rtol": 0, "atol": 1e-13}
    np.testing.assert_allclose(factors.inverse_factor(jnp.asarray(matrices)), wanted, **tolerance)
    # As on a GPU.
    np.testing.assert_allclose(factors._of_blocks(jnp.linalg.cholesky(jnp.asarray(matrices))), wanted, **tolerance)
    by_elimination = jax.vmap(lambda matrix: factors.eliminated(matrix, size))(jnp.asarray(matrices))
    np.testing.assert_allclose(by_elimination, wanted, **tolerance)


def test_elimination_leaves_what_comes_after_the_features_alone():
    matrix = np.zeros((16, 16))
    matrix[:10, :10] = positive(10)[0]
    found = factors.eliminated(jnp.asarray(matrix), 10)
    np.testing.assert_allclose(found[:10, :10], inverses(positive(10))[0], atol=1e-13)


def test_a_matrix_that_is_not_positive_definite_has_no_factor():
    matrix = jnp.asarray(np.diag([1.0, -1.0, 1.0]))
    assert not np.isfinite(factors.eliminated(matrix, 3)).all()
    assert not np.isfinite(factors.inverse_factor(matrix)).all()


@pytest.mark.parametrize("solver", [factors.by_substitution, factors.by_products])
def test_both_solvers_solve(solver):
    matrices, vectors = positive(40), np.random.default_rng(1).normal(size=(3, 40))
    found = solver(jnp.asarray(matrices))(jnp.asarray(vectors))
    np.testing.assert_allclose(found, np.linalg.solve(matrices, vectors[..., None])[..., 0], rtol=1e-9)
