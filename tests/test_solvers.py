"""The ball-constrained step against its optimality conditions, general solvers and manufactured solutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

from rampup import factors, solvers
from rampup.solvers import in_ball, ridge_project

solve = jax.jit(in_ball)
SIZE, BATCH = 8, 1000


def by_products(matrix, vector, radius):
    """As a GPU solves for many features."""
    numbers = jnp.full(len(vector), radius), jnp.zeros(len(vector))
    return solvers._searched(matrix, vector, *numbers, solvers._Means(factors.by_products, True, 5))


def in_one_kernel(matrix, vector, radius):
    """As a GPU solves for few."""
    return solvers._in_one_kernel(matrix, vector, jnp.full(len(vector), radius), jnp.zeros(len(vector)))


WAYS = {
    "substitution": (solve, BATCH),
    "products": (jax.jit(by_products), BATCH),
    "kernel": (jax.jit(in_one_kernel), 50),
}


def rotated(rng, curvature):
    basis = np.linalg.qr(rng.normal(size=(BATCH, SIZE, SIZE)))[0]
    matrix = np.einsum("bij,bj,bkj->bik", basis, curvature, basis)
    return (matrix + np.swapaxes(matrix, 1, 2)) / 2


def outer(rows):
    return np.einsum("bki,bkj->bij", rows, rows)


def kinds(rng):
    """Matrices and vectors of every kind the learner meets, and some it should not."""
    normal = rng.normal(size=(BATCH, 40, SIZE))
    low_rank = rng.normal(size=(BATCH, 40, 3)) @ rng.normal(size=(BATCH, 3, SIZE))
    graded = 10.0 ** rng.uniform(-15, 0, size=(BATCH, 1, SIZE))
    powers = rng.random((BATCH, 40, 1)) ** np.arange(SIZE)
    weights = rng.normal(size=(BATCH, 40))
    anything = rng.normal(size=(BATCH, SIZE))
    through = lambda rows: np.einsum("bki,bk->bi", rows, weights)
    return {
        "regular": (outer(normal), anything),
        "singular, gradient in range": (outer(low_rank), through(low_rank)),
        "singular, gradient anywhere": (outer(low_rank), anything),
        "condition 1e30 by scaling": (outer(normal * graded), through(normal * graded)),
        "condition 1e30 and singular": (outer(low_rank * graded), through(low_rank * graded)),
        "condition 1e30 rotated": (rotated(rng, 10.0 ** rng.uniform(-15, 15, size=(BATCH, SIZE))), anything),
        "monomials": (outer(powers), through(powers)),
        "large": (1e12 * outer(normal), 1e12 * anything),
        "tiny": (1e-12 * outer(normal), 1e-12 * anything),
        "no curvature": (np.zeros((BATCH, SIZE, SIZE)), anything),
        "indefinite beyond rounding": (outer(low_rank) - 1e-11 * np.eye(SIZE), through(low_rank)),
    }


KINDS = list(kinds(np.random.default_rng(0)))


@pytest.mark.parametrize("radius", [1e-3, 1.0, 10.0, 1e6])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS)
def test_a_thousand_directions_satisfy_the_optimality_conditions(kind, radius, way):
    matrices, vectors = kinds(np.random.default_rng(1))[kind]
    solves, count = WAYS[way]
    found = solves(jnp.asarray(matrices[:count]), jnp.asarray(vectors[:count]), radius)
    length = np.linalg.norm(found.direction, axis=1)
    assert (length <= radius * (1 + 1e-12)).all()
    assert (found.residual <= 1e-9).all()
    assert (found.multiplier >= 0).all()
    assert np.array_equal(found.is_active, found.multiplier > 0)
    np.testing.assert_allclose(length[found.is_active], radius, rtol=1e-12)


def objective(matrix, vector, step):
    return step @ matrix @ step - 2 * step @ vector


@pytest.mark.parametrize("kind", KINDS)
def test_no_general_solver_finds_a_better_point_of_the_ball(kind):
    matrices, vectors = kinds(np.random.default_rng(2))[kind]
    radius = 1.0
    matrices, vectors = matrices[:100], vectors[:100]
    directions = np.asarray(solve(jnp.asarray(matrices), jnp.asarray(vectors), radius).direction)
    for matrix, vector, found in zip(matrices, vectors, directions, strict=True):
        # A general solver needs help with the scale of the numbers; the minimiser does not change.
        size = np.linalg.norm(matrix) + np.linalg.norm(vector)
        other = scipy.optimize.minimize(
            lambda g, matrix=matrix, vector=vector, size=size: objective(matrix, vector, g) / size,
            found * 0.5,
            jac=lambda g, matrix=matrix, vector=vector, size=size: 2 * (matrix @ g - vector) / size,
            constraints={"type": "ineq", "fun": lambda g: radius**2 - g @ g, "jac": lambda g: -2 * g},
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        inside = other.x * min(1.0, radius / np.linalg.norm(other.x))
        mine, theirs = objective(matrix, vector, found), objective(matrix, vector, inside)
        assert mine <= theirs + 1e-9 * abs(theirs) + 1e-13 * size


def test_interior_solutions_agree_with_trust_exact():
    matrices, vectors = kinds(np.random.default_rng(3))["regular"]
    for matrix, vector in zip(matrices[:40], vectors[:40], strict=True):
        found = solve(jnp.asarray(matrix), jnp.asarray(vector), 1e3)
        other = scipy.optimize.minimize(
            lambda g, matrix=matrix, vector=vector: objective(matrix, vector, g),
            np.zeros(SIZE),
            jac=lambda g, matrix=matrix, vector=vector: 2 * (matrix @ g - vector),
            hess=lambda g, matrix=matrix: 2 * matrix,
            method="trust-exact",
            options={"gtol": 1e-12},
        )
        np.testing.assert_allclose(found.direction, other.x, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found.direction, np.linalg.solve(matrix, vector), rtol=1e-9)
        assert not found.is_active


def test_a_manufactured_solution_is_recovered():
    rng = np.random.default_rng(4)
    matrix = outer(rng.normal(size=(1, 40, SIZE)))[0]
    step = rng.normal(size=SIZE)
    step *= 2.0 / np.linalg.norm(step)
    multiplier = 0.7
    found = solve(jnp.asarray(matrix), jnp.asarray(matrix @ step + multiplier * step), 2.0)
    np.testing.assert_allclose(found.direction, step, rtol=1e-9)
    np.testing.assert_allclose(found.multiplier, multiplier, rtol=1e-9)


def test_the_hard_case_stays_in_the_ball():
    # No slope along the flat direction: inside the ball the step does not go there.
    matrix = np.diag([4.0, 1.0, 0.0])
    found = solve(jnp.asarray(matrix), jnp.asarray([2.0, 0.5, 0.0]), 10.0)
    np.testing.assert_allclose(found.direction, [0.5, 0.5, 0.0], atol=1e-12)
    # The slightest slope there takes all of the radius that is left.
    found = solve(jnp.asarray(matrix), jnp.asarray([2.0, 0.5, 1e-6]), 10.0)
    assert found.is_active
    assert found.direction[2] == pytest.approx(np.sqrt(100 - 0.5), rel=1e-6)


def test_a_batch_is_solved_as_its_members_are():
    matrices, vectors = (jnp.asarray(part[:6]) for part in kinds(np.random.default_rng(5))["monomials"])
    together = solve(matrices, vectors, jnp.full(6, 10.0))
    for index in range(6):
        alone = solve(matrices[index], vectors[index], 10.0)
        # Flat directions are as good as free; what must agree is the objective.
        pair = [
            float(objective(matrices[index], vectors[index], one))
            for one in (together.direction[index], alone.direction)
        ]
        assert pair[0] == pytest.approx(pair[1], rel=1e-9)


def test_no_gradient_means_no_step():
    for matrix in (jnp.eye(SIZE), jnp.zeros((SIZE, SIZE))):
        found = solve(matrix, jnp.zeros(SIZE), 1.0)
        assert not found.direction.any()
        assert found.residual == 0
        assert not found.is_active


def test_without_curvature_the_step_goes_to_the_edge():
    found = solve(jnp.zeros((SIZE, SIZE)), jnp.ones(SIZE), 2.0)
    np.testing.assert_allclose(found.direction, np.full(SIZE, 2 / np.sqrt(SIZE)))
    assert found.is_active


def test_ridge_and_projection_is_what_it_says_and_owns_up_to_its_residual():
    matrices, vectors = kinds(np.random.default_rng(6))["monomials"]
    matrix, vector = matrices[0], vectors[0]
    found = ridge_project(jnp.asarray(matrix), jnp.asarray(vector), 0.5, ridge=1e-6)
    raw = np.linalg.solve(matrix + 1e-6 * np.eye(SIZE), vector)
    assert np.linalg.norm(raw) > 0.5
    np.testing.assert_allclose(found.direction, raw * 0.5 / np.linalg.norm(raw), rtol=1e-6)
    assert found.is_active
    assert found.residual > 1e-3
    exact = solve(jnp.asarray(matrix), jnp.asarray(vector), 0.5)
    assert objective(matrix, vector, exact.direction) < objective(matrix, vector, np.asarray(found.direction))


def guesses(found, rng):
    """Multipliers to start from: none, far too small and too large, the right ones, near them, and those of others."""
    right = np.asarray(found.multiplier)
    return {
        "none": np.zeros_like(right),
        "least": np.full_like(right, 1e-300),
        "tiny": np.full_like(right, 1e-12),
        "one": np.ones_like(right),
        "huge": np.full_like(right, 1e12),
        "absurd": np.full_like(right, 1e30),
        "right": right,
        "a little less": right * (1 - 1e-6),
        "a little more": right * (1 + 1e-6),
        "another problem's": rng.permutation(right),
        "any": 10.0 ** rng.uniform(-20, 20, size=right.shape),
        "negative": -np.ones_like(right),
    }


# Where every direction is curved the minimiser itself can be compared.
CURVED = {"regular", "large", "tiny", "no curvature"}


@pytest.mark.parametrize("radius", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("kind", KINDS)
def test_a_guess_anywhere_leads_to_the_same_solution(kind, radius):
    rng = np.random.default_rng(7)
    matrices, vectors = (part[:200] for part in kinds(rng)[kind])
    given = jnp.asarray(matrices), jnp.asarray(vectors), radius
    plain = solve(*given)
    lowest = objectives(matrices, vectors, plain.direction)
    # An objective is a difference of numbers of this size.
    size = radius * (np.linalg.norm(matrices, axis=(1, 2)) * radius + np.linalg.norm(vectors, axis=1))
    for name, guess in guesses(plain, rng).items():
        found = solve(*given, jnp.asarray(guess))
        assert all(np.isfinite(part).all() for part in found), name
        assert (np.linalg.norm(found.direction, axis=1) <= radius * (1 + 1e-12)).all(), name
        assert (found.residual <= 1e-9).all(), name
        assert (found.multiplier >= 0).all(), name
        assert np.array_equal(found.is_active, found.multiplier > 0), name
        values = objectives(matrices, vectors, found.direction)
        assert (np.abs(values - lowest) <= 1e-9 * np.abs(lowest) + 1e-13 * size).all(), name
        if kind in CURVED:
            np.testing.assert_allclose(found.direction, plain.direction, rtol=1e-9, atol=1e-10 * radius, err_msg=name)
            np.testing.assert_allclose(found.multiplier, plain.multiplier, rtol=1e-9, err_msg=name)


def objectives(matrices, vectors, steps):
    steps = np.asarray(steps)
    return np.einsum("bi,bij,bj->b", steps, matrices, steps) - 2 * np.sum(steps * vectors, axis=1)


def test_a_guess_is_taken_for_each_problem_of_a_batch():
    matrices, vectors = (part[:50] for part in kinds(np.random.default_rng(8))["regular"])
    given = jnp.asarray(matrices), jnp.asarray(vectors)
    radius = 0.01
    plain = solve(*given, radius)
    assert plain.is_active.all()
    for scale in (1e-20, 1.0, 1e20):
        guess = plain.multiplier * scale
        together = solve(*given, radius, guess)
        for index in range(0, 50, 7):
            alone = solve(given[0][index], given[1][index], radius, guess[index])
            np.testing.assert_allclose(together.direction[index], alone.direction, rtol=1e-9, atol=1e-14)
            np.testing.assert_allclose(together.multiplier[index], plain.multiplier[index], rtol=1e-9)


@pytest.mark.parametrize("guess", [0.0, 1e-300, 1e-3, 1.0, 1e30])
def test_no_gradient_means_no_step_whatever_the_guess(guess):
    for matrix in (np.eye(SIZE), np.zeros((SIZE, SIZE)), outer(np.random.default_rng(9).normal(size=(1, 3, SIZE)))[0]):
        for radius in (1e-3, 1.0, 1e6):
            found = solve(jnp.asarray(matrix), jnp.zeros(SIZE), radius, guess)
            assert not found.direction.any()
            assert found.multiplier == 0
            assert found.residual == 0
            assert not found.is_active


def test_a_problem_without_gradient_does_not_disturb_its_batch():
    matrices, vectors = (part[:6] for part in kinds(np.random.default_rng(10))["regular"])
    mixed = vectors.copy()
    mixed[::2] = 0.0
    found = solve(jnp.asarray(matrices), jnp.asarray(mixed), 0.1, jnp.full(6, 3.0))
    assert not found.direction[::2].any()
    assert not found.multiplier[::2].any()
    plain = solve(jnp.asarray(matrices[1::2]), jnp.asarray(vectors[1::2]), 0.1)
    np.testing.assert_allclose(found.direction[1::2], plain.direction, rtol=1e-9)


@pytest.mark.parametrize("guess", [0.0, 0.5, 10.0, 1e30])
@pytest.mark.parametrize("scale", [1e-10, 1e-15, 1e-40])
def test_a_guess_does_no_harm_to_the_smallest_gradient(scale, guess):
    # As where nearly nothing is left to learn, and the last step met the ball.
    found = solve(jnp.eye(SIZE), scale * jnp.ones(SIZE), 1.0, guess)
    np.testing.assert_allclose(found.direction, np.full(SIZE, scale), rtol=1e-9)
    assert found.multiplier == 0


@pytest.mark.parametrize("guess", [0.0, 2e-4, 1.0])
@pytest.mark.parametrize("curvature", [1e-20, 1e-100, 1e-196, 1e-300])
def test_a_curvature_beyond_all_measure_does_not_overflow(curvature, guess):
    # As where a policy is certain of an action, and a sampler took the other: pi(a|s) = 1e-98 was seen.
    matrix, vector = np.eye(4), np.ones(4)
    matrix[2:, 2:], vector[2:] = curvature, np.sqrt(curvature)
    found = solve(jnp.asarray(matrix), jnp.asarray(vector), 10.0, guess)
    assert np.isfinite(found.direction).all()
    np.testing.assert_allclose(found.direction[:2], 1.0, rtol=1e-6)
    assert found.residual < 1e-9
