"""The ball-constrained step against manufactured solutions and a general solver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from rampup.learn.solvers import in_ball

solve = jax.jit(in_ball)
SIZE = 6


def random_problem(rng, rank, spread):
    """A positive semi-definite matrix of the given rank and condition, and a vector."""
    basis, _ = np.linalg.qr(rng.normal(size=(SIZE, SIZE)))
    curvature = np.where(np.arange(SIZE) < rank, np.exp(rng.uniform(-spread, 0, SIZE)), 0.0)
    return basis * curvature @ basis.T, rng.normal(size=SIZE)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, SIZE),
    st.sampled_from([0.0, 5.0, 20.0]),
    st.sampled_from([1e-3, 1.0, 1e3]),
)
@settings(max_examples=400)
def test_direction_satisfies_the_optimality_conditions(seed, rank, spread, radius):
    matrix, vector = random_problem(np.random.default_rng(seed), rank, spread)
    found = solve(jnp.asarray(matrix), jnp.asarray(vector), jnp.asarray(radius))
    norm = np.linalg.norm(found.direction)
    assert norm <= radius * (1 + 1e-9)
    assert found.multiplier >= 0
    assert found.residual <= 1e-9
    assert bool(found.is_active) == bool(found.multiplier > 0)
    if found.is_active:
        assert norm == pytest.approx(radius, rel=1e-9)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 10.0]))
@settings(max_examples=40)
def test_no_other_point_of_the_ball_is_better(seed, radius):
    matrix, vector = random_problem(np.random.default_rng(seed), SIZE - 1, 3.0)
    objective = lambda g: g @ matrix @ g - 2 * g @ vector
    found = np.asarray(solve(jnp.asarray(matrix), jnp.asarray(vector), jnp.asarray(radius)).direction)
    other = scipy.optimize.minimize(
        objective,
        np.zeros(SIZE),
        jac=lambda g: 2 * (matrix @ g - vector),
        constraints={"type": "ineq", "fun": lambda g: radius**2 - g @ g, "jac": lambda g: -2 * g},
        method="SLSQP",
    )
    # The general solver may end just outside the ball.
    inside = other.x * min(1.0, radius / np.linalg.norm(other.x))
    assert objective(found) <= objective(inside) + 1e-9 * (1 + abs(other.fun))


def test_inside_the_ball_the_solution_is_the_pseudo_inverse():
    matrix, _ = random_problem(np.random.default_rng(0), 4, 2.0)
    vector = matrix @ np.ones(SIZE)
    found = solve(jnp.asarray(matrix), jnp.asarray(vector), jnp.asarray(100.0))
    np.testing.assert_allclose(found.direction, np.linalg.pinv(matrix, rcond=1e-10) @ vector, atol=1e-9)
    assert not found.is_active


def test_no_gradient_means_no_step():
    found = solve(jnp.eye(SIZE), jnp.zeros(SIZE), jnp.asarray(1.0))
    assert not found.direction.any()
    assert found.residual == 0
    nothing = solve(jnp.zeros((SIZE, SIZE)), jnp.zeros(SIZE), jnp.asarray(1.0))
    assert not nothing.direction.any()


def test_without_curvature_the_step_goes_to_the_edge():
    found = solve(jnp.zeros((SIZE, SIZE)), jnp.ones(SIZE), jnp.asarray(2.0))
    np.testing.assert_allclose(found.direction, np.full(SIZE, 2 / np.sqrt(SIZE)))
    assert found.is_active
