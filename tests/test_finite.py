"""Finite latent MDPs: the paper's theorems and lemmas hold, number by number, on random ones of many kinds."""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from rampup import theory
from rampup.diagnostics import diagnose, fitting_error, loss
from rampup.exact import finite, npg
from rampup.exact.finite import FiniteLMDP
from rampup.solvers import in_ball

# (MDPs, states, actions, horizon, features): few shapes, because each is compiled once; edges among them.
SIZES = [(1, 1, 2, 1, 1), (1, 3, 2, 3, 4), (2, 2, 3, 2, 6), (3, 4, 2, 4, 3), (2, 3, 5, 3, 4), (4, 5, 3, 5, 8)]
NUM_UPDATES = 8


class Case(NamedTuple):
    lmdp: FiniteLMDP
    features: jax.Array
    theta: jax.Array
    target: jax.Array
    sampler: jax.Array
    regularisation: jax.Array
    learning_rate: jax.Array
    radius: jax.Array
    noise: jax.Array


@st.composite
def cases(draw):
    """A random finite LMDP with a log-linear policy, a target and a sampler; some of them nearly deterministic."""
    size = draw(st.sampled_from(SIZES))
    num_mdps, num_states, num_actions, horizon, num_features = size
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    # Small concentrations give nearly deterministic rows, with exact zeros among them.
    concentration = draw(st.sampled_from([0.05, 0.5, 5.0]))

    def rows(*shape):
        table = rng.dirichlet(np.full(shape[-1], concentration), size=shape[:-1])
        return table / table.sum(axis=-1, keepdims=True)

    is_live = np.ones(num_states, bool)
    transition, reward = (
        rows(num_mdps, num_states, num_actions, num_states),
        rng.random((num_mdps, num_states, num_actions)),
    )
    if draw(st.booleans()) and num_states > 1:
        is_live[-1] = False
        transition[:, -1] = np.eye(num_states)[-1]
        reward[:, -1] = 0
    lmdp = FiniteLMDP(
        rng.dirichlet(np.ones(num_mdps)), rows(num_mdps, num_states), transition, reward, horizon, is_live
    )
    with np.errstate(divide="ignore"):
        target, sampler = (jnp.asarray(np.log(rows(num_states, num_actions))) for _ in range(2))
    is_tabular = num_features == num_states * num_actions
    features = (
        np.eye(num_features).reshape(num_states, num_actions, -1)
        if is_tabular
        else rng.normal(size=(num_states, num_actions, num_features))
    )
    return Case(
        lmdp,
        jnp.asarray(features),
        jnp.asarray(rng.normal(size=num_features) * draw(st.sampled_from([0.0, 1.0, 3.0]))),
        target,
        sampler,
        jnp.asarray(draw(st.sampled_from([0.0, 0.01, 0.5]))),
        jnp.asarray(draw(st.sampled_from([0.01, 0.2, 1.0]))),
        jnp.asarray(draw(st.sampled_from([0.1, 2.0, 50.0]))),
        jnp.asarray(rng.normal(size=(NUM_UPDATES, num_features)) * draw(st.sampled_from([0.0, 0.1, 10.0]))),
    )


@jax.jit
def gradients(case):
    policy_value = lambda theta: finite.value(
        case.lmdp, finite.log_linear_policy(case.features, theta), case.regularisation
    )
    return (
        finite.gradient(case.lmdp, case.features, case.theta, case.regularisation),
        jax.grad(policy_value)(case.theta),
        finite.snapshot(case.lmdp, case.features, case.theta, case.target, None, case.regularisation),
    )


@given(cases())
@settings(max_examples=300)
def test_policy_gradient_theorem_agrees_with_autodiff(case):
    by_theorem, by_autodiff, at = gradients(case)
    scale = 1 + np.abs(by_autodiff).max()
    np.testing.assert_allclose(by_theorem, by_autodiff, rtol=0, atol=1e-12 * scale)
    # Advantages in place of Q change nothing: the cross moment on-policy is the gradient too.
    np.testing.assert_allclose(at.sampler.cross, by_autodiff, rtol=0, atol=1e-12 * scale)


@given(cases())
@settings(max_examples=300)
def test_natural_gradient_is_the_pseudo_inverse_times_the_gradient(case):
    _, gradient, at = gradients(case)
    fisher, gradient = np.asarray(at.sampler.fisher), np.asarray(gradient)
    np.testing.assert_allclose(fisher, fisher.T, atol=1e-15 * (1 + np.abs(fisher).max()))
    values, basis = np.linalg.eigh(fisher)
    cutoff = 1e-12 * max(values[-1], 1e-300)
    kept = basis[:, values > cutoff]
    direction = np.linalg.pinv(fisher, rcond=1e-12, hermitian=True) @ gradient
    # F F^+ grad V = grad V: by Cauchy-Schwarz a direction of curvature c holds at most sqrt(c E[A^2]) of the gradient.
    # Eigenvalues and cutoff are known to rounding.
    unseen = np.sqrt(len(gradient) * (cutoff + 1e-15 * (1 + values[-1])) * float(at.sampler.square))
    assert np.linalg.norm(fisher @ direction - gradient) <= unseen + 1e-10 * (1 + np.linalg.norm(direction))
    best = loss(at.sampler, jnp.asarray(direction))
    for shift in np.random.default_rng(0).normal(size=(5, len(direction))):
        elsewhere = jnp.asarray(direction + kept @ (kept.T @ shift))
        assert loss(at.sampler, elsewhere) >= best - 1e-9 * (1 + abs(best))


@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 2**32 - 1))
@settings(max_examples=300)
def test_pseudo_inverse_lemma(num_rows, num_columns, seed):
    rng = np.random.default_rng(seed)
    rank = rng.integers(1, min(num_rows, num_columns) + 1)
    gamma = rng.normal(size=(num_rows, rank)) @ rng.normal(size=(rank, num_columns))
    weights = rng.random(num_columns) * rng.integers(0, 2, num_columns)
    q = rng.normal(size=num_columns)
    matrix, vector = gamma @ np.diag(weights) @ gamma.T, gamma @ (weights * q)
    solution = np.linalg.pinv(matrix, rcond=1e-12, hermitian=True) @ vector
    np.testing.assert_allclose(matrix @ solution, vector, atol=1e-6 * (1 + np.abs(solution).max()))


@jax.jit
def differences(case):
    policy = finite.log_linear_policy(case.features, case.theta)
    pairs = [(case.target, policy), (policy, case.target), (case.sampler, policy)]
    return [
        (
            finite.performance_difference(case.lmdp, first, second, case.regularisation),
            finite.value(case.lmdp, first, case.regularisation) - finite.value(case.lmdp, second, case.regularisation),
        )
        for first, second in pairs
    ]


@given(cases())
@settings(max_examples=300)
def test_performance_difference_lemma(case):
    has_zero = np.isinf(np.asarray(case.target)).any()
    for index, (by_lemma, by_values) in enumerate(differences(case)):
        # With a bonus for entropy, a policy that never takes an action has an infinite advantage there: no lemma.
        if index == 1 and has_zero and case.regularisation > 0:
            continue
        np.testing.assert_allclose(by_lemma, by_values, rtol=1e-10, atol=1e-12)


def visits_by_hand(lmdp, probs):
    """Sum over every trajectory of every MDP: visitation and value, the slow way."""
    shape = lmdp.horizon, *lmdp.initial.shape
    visits, value = np.zeros(shape), 0.0
    states, actions = range(lmdp.num_states), range(lmdp.num_actions)
    transition, reward = np.asarray(lmdp.transition), np.asarray(lmdp.reward)
    for m in range(len(lmdp.weights)):
        for path in itertools.product(states, repeat=lmdp.horizon):
            for moves in itertools.product(actions, repeat=lmdp.horizon):
                chance, earned = float(lmdp.initial[m, path[0]]), 0.0
                for t in range(lmdp.horizon):
                    chance *= probs[path[t], moves[t]]
                    earned += reward[m, path[t], moves[t]]
                    if t + 1 < lmdp.horizon:
                        chance *= transition[m, path[t], moves[t], path[t + 1]]
                for t in range(lmdp.horizon):
                    visits[t, m, path[t]] += chance
                value += float(lmdp.weights[m]) * chance * earned
    return visits, value


@given(cases())
@settings(max_examples=25)
def test_visitation_and_value_agree_with_a_sum_over_all_trajectories(case):
    if case.lmdp.num_states**case.lmdp.horizon * case.lmdp.num_actions**case.lmdp.horizon > 3000:
        return
    policy = finite.log_linear_policy(case.features, case.theta)
    visits, value = visits_by_hand(case.lmdp, np.exp(policy))
    np.testing.assert_allclose(finite.visitation(case.lmdp, policy), visits, atol=1e-13)
    np.testing.assert_allclose(finite.value(case.lmdp, policy), value, atol=1e-12)


@jax.jit
def rollout(case):
    """Updates along noisy directions in the ball, on-policy and with a fixed sampler, with the potential after each."""

    def run(sampler):
        def step(theta, noise):
            at = finite.snapshot(case.lmdp, case.features, theta, case.target, sampler, case.regularisation)
            direction = in_ball(at.sampler.fisher, at.sampler.cross, case.radius).direction + noise
            direction = direction * jnp.minimum(1.0, case.radius / jnp.maximum(jnp.linalg.norm(direction), 1e-300))
            next_theta = theta + case.learning_rate * direction
            after = finite.potential(case.lmdp, case.target, finite.log_linear_policy(case.features, next_theta))
            return next_theta, (diagnose(at, direction, radius=case.radius), jnp.linalg.norm(direction), after)

        return jax.lax.scan(step, case.theta, case.noise)[1]

    return run(None), run(case.sampler)


@given(cases())
@settings(max_examples=300)
def test_lyapunov_drift_and_theorem_1(case):
    live = np.asarray(case.lmdp.is_live)
    feature_norm = np.linalg.norm(np.asarray(case.features)[live], axis=-1).max()
    eta, lam, radius = (float(number) for number in (case.learning_rate, case.regularisation, case.radius))
    for diagnosis, norm, after in jax.device_get(rollout(case)):
        # Lyapunov drift, update by update.
        bound = (
            -eta * lam * diagnosis.potential
            + eta * diagnosis.fitting_error
            - eta * diagnosis.gap
            + eta**2 * feature_norm**2 * norm**2 / 2
        )
        rounding = 1e-10 * (1 + np.abs(diagnosis.potential) + np.abs(after) + eta * np.abs(diagnosis.fitting_error))
        assert (after - diagnosis.potential <= bound + rounding).all()
        terms = npg.bound_of(
            diagnosis,
            horizon=case.lmdp.horizon,
            learning_rate=eta,
            regularisation=lam,
            feature_norm=feature_norm,
            radius=radius,
        )
        slack = 1e-9 * (1 + abs(terms.first_line))
        assert diagnosis.gap.min() <= terms.first_line + slack
        # Losses are known to rounding; where kappa is large, so is what rounding can hide in the second line.
        hidden = 1e-13 * (1 + radius**2 * feature_norm**2) * case.lmdp.horizon
        with np.errstate(over="ignore"):
            slack += np.sqrt(case.lmdp.horizon * np.exp(diagnosis.ln_kappa.max()) * hidden)
        assert terms.first_line <= terms.second_line + slack
        assert terms.dominant in terms._fields


@jax.jit
def sums_of(case):
    policy, score = finite.log_linear_policy(case.features, case.theta), finite.scores(case.features, case.theta)
    advantage = finite.values(case.lmdp, policy, case.regularisation).advantage
    measures = finite.on_policy(case.lmdp, case.target), finite.grafted(case.lmdp, case.sampler)
    moments = finite.moments(score, advantage, measures[1])
    direction = case.noise[0]
    return score, advantage, measures, loss(moments, direction), fitting_error(moments, direction)


@given(cases())
@settings(max_examples=200)
def test_loss_and_fitting_error_are_the_sums_of_their_definitions(case):
    score, advantage, (_, measure), by_moments, error_by_moments = jax.device_get(sums_of(case))
    rest = advantage - (score @ np.asarray(case.noise[0]))[None, None]
    np.testing.assert_allclose(by_moments, (measure * rest**2).sum(), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(error_by_moments, (measure * rest).sum(), rtol=1e-9, atol=1e-10)


relative_condition = jax.jit(finite.relative_condition)


@given(cases())
@settings(max_examples=200)
def test_kappa_agrees_with_a_generalised_eigenvalue_solver(case):
    score, _, measures, _, _ = jax.device_get(sums_of(case))
    wanted, sampled = (np.einsum("tmsa,saf,sag->fg", measure, score, score) for measure in measures)
    # Only where a double-precision solver can be trusted: no small weight, and a clear gap between seen and unseen.
    weights = measures[1].sum(axis=(0, 1))
    values, basis = np.linalg.eigh(sampled)
    seen = values > 1e-6 * max(values[-1], 1e-300)
    if not seen.any() or weights[weights > 0].min() < 1e-4 or (values[~seen] > 1e-14 * values[-1]).any():
        return
    hidden, inside = basis[:, ~seen], basis[:, seen]
    found = float(relative_condition(case.features, case.theta, *measures).ln)
    missed = np.abs(hidden.T @ wanted @ hidden).max(initial=0.0)
    if missed > 1e-10:
        assert found == np.inf
    elif found < np.inf:
        largest = scipy.linalg.eigh(inside.T @ wanted @ inside, np.diag(values[seen]), eigvals_only=True)[-1]
        np.testing.assert_allclose(np.exp(found), largest, rtol=1e-6)


@given(st.integers(2, 6), st.floats(0, 20), st.sampled_from([0.01, 0.3, 3.0]), st.integers(0, 2**32 - 1))
@settings(max_examples=500)
def test_entropy_clip_lemma(num_actions, extra, concentration, seed):
    clip = np.log(num_actions) - 1 + extra
    probs = np.random.default_rng(seed).dirichlet(np.full(num_actions, concentration))
    surprise = -np.log(np.where(probs > 0, probs, 1.0))
    hidden = (probs * surprise).sum() - (probs * np.minimum(surprise, clip)).sum()
    assert -1e-15 <= hidden <= theory.entropy_clip_bound(num_actions, clip) + 1e-15


def test_the_entropy_clip_lemma_is_tight():
    # One action of probability e^-(U+1) hides e^-(U+1) of entropy: the bound, but for the number of actions.
    clip = 5.0
    small = np.exp(-clip - 1)
    assert small * (-np.log(small) - clip) == pytest.approx(theory.entropy_clip_bound(2, clip) / 2)
    with pytest.raises(ValueError, match="`clip` must be at least"):
        theory.entropy_clip_bound(10, 1.0)


def single_mdp(horizon=3):
    """Two states; action 1 pays where it is the state's number."""
    transition = np.full((1, 2, 2, 2), 0.5)
    reward = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    return FiniteLMDP([1.0], [[0.5, 0.5]], transition, reward, horizon)


def test_exact_npg_finds_the_optimal_policy_of_an_mdp():
    lmdp = single_mdp()
    features = finite.tabular_features(2, 2)
    best = jnp.asarray([[0.0, -jnp.inf], [-jnp.inf, 0.0]])
    snapshot_fn = lambda theta: finite.snapshot(lmdp, features, theta, best)
    _, updates = npg.train(snapshot_fn, jnp.zeros(4), learning_rate=0.2, radius=10.0, iterations=200)
    assert updates.value[0] == pytest.approx(1.5)
    assert updates.value[-1] == pytest.approx(3.0, abs=1e-6)
    assert (np.diff(updates.value) > -1e-12).all()
    assert (updates.solution.residual < 1e-12).all()


def test_exact_npg_with_entropy_converges_linearly_to_the_regularised_optimum():
    lmdp, weight = single_mdp(horizon=1), 0.5
    # One step: the regularised optimum is the softmax of reward / lambda.
    best = jax.nn.log_softmax(lmdp.reward[0] / weight, axis=1)
    features = finite.tabular_features(2, 2)
    snapshot_fn = lambda theta: finite.snapshot(lmdp, features, theta, best, None, weight)
    _, updates = npg.train(snapshot_fn, jnp.zeros(4), learning_rate=0.5, radius=100.0, iterations=60)
    potential = updates.diagnosis.potential
    assert potential[40] < 1e-9
    # A Newton-like step of size eta lambda shrinks theta - theta* by 1 - eta lambda each time, and Phi by its square.
    ratios = np.asarray(potential[10:20] / potential[9:19])
    np.testing.assert_allclose(ratios, (1 - 0.25) ** 2, rtol=0.02)


def test_kappa_is_one_when_both_distributions_are_the_same():
    lmdp, features = single_mdp(), finite.tabular_features(2, 2)
    measure = finite.grafted(lmdp, jnp.log(jnp.full((2, 2), 0.5)))
    same = finite.relative_condition(features, jnp.zeros(4), measure, measure)
    assert same.ln == pytest.approx(0.0, abs=1e-14)
    assert same.rank == 2


def test_exact_answers_are_refused_in_single_precision():
    with jax.enable_x64(False), pytest.raises(ValueError, match="exact answers need 64-bit numbers"):
        single_mdp()
