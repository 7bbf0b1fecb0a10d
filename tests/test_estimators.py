"""Sampled estimates: means against exact values, whole distributions against a plain transcription."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from finite_problem import random_finite_problem

import rampup
from rampup import streams, theory
from rampup.bench import plain
from rampup.episodes import play_many
from rampup.exact import enumeration, finite
from rampup.exact.playable import FiniteProblem
from rampup.kappa import of_grams
from rampup.learn import inspection
from rampup.learn.estimators import ESTIMATORS
from rampup.learn.sampler import Behaviour, branch_steps, branches
from rampup.policy import LogLinear
from rampup.references import default_reference
from rampup.solvers import in_ball

# Of the few thousand comparisons here, one in a million normal deviates is larger than this.
DEVIATIONS = 5.0


def assert_mean_is(samples, exact, bias=0.0):
    """The mean of independent replicates is the exact value, up to its own standard error and a known bias."""
    samples, exact = np.asarray(samples), np.asarray(exact)
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    assert (np.abs(samples.mean(axis=0) - exact) <= DEVIATIONS * error + bias + 1e-12).all()


SETTINGS = list(itertools.product([0.0, 0.1], [False, True]))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["algorithm4", "paired"])
@pytest.mark.parametrize("num_actions", [2, pytest.param(5, marks=pytest.mark.long)])
def test_estimates_are_unbiased_on_finite_lmdps(num_actions, estimator):
    problem, features, theta, sampler_theta, _ = random_finite_problem(num_actions, num_actions)

    @jax.jit
    def estimates(keys, is_fixed, weight):
        given = problem, features, theta, Behaviour(is_fixed, sampler_theta)
        settings = {"num_lanes": 10, "regularisation": weight, "clip": 15.0}
        sampled = jax.vmap(lambda key: ESTIMATORS[estimator](*given, key, **settings))(keys)
        return sampled, ESTIMATORS["exact"](*given, keys[0], **settings)

    for weight, is_fixed in SETTINGS:
        found, by_estimator = estimates(
            jax.random.split(jax.random.key(0), 2000), jnp.asarray(is_fixed), jnp.asarray(weight)
        )
        sampler = finite.log_linear_policy(problem.rows, sampler_theta) if is_fixed else None
        target = jnp.zeros((4, num_actions))
        exact = finite.snapshot(problem.lmdp, problem.rows, theta, target, sampler, weight).sampler
        np.testing.assert_allclose(by_estimator.fisher, exact.fisher, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(by_estimator.gradient, exact.cross, rtol=1e-12, atol=1e-14)
        assert_mean_is(found.fisher, exact.fisher)
        assert_mean_is(found.gradient, exact.cross)


def test_finite_lmdps_keep_the_contract_of_a_problem():
    problem, *_ = random_finite_problem(1, 3)
    rampup.check_problem(problem)
    small = rampup.make("bcp", n=4)
    lmdp = enumeration.enumerated_bcp(small)
    table = enumeration.feature_table(rampup.as_features("monomial:2", small), 4)
    # The end of an episode is a state of the LMDP there: reaching it must end the episode.
    rampup.check_problem(FiniteProblem(lmdp, table))
    with pytest.raises(ValueError, match="`rows` must have shape"):
        FiniteProblem(lmdp, table[:3])


def test_the_advantage_of_every_pair_is_unbiased():
    problem, _, theta, sampler_theta, _ = random_finite_problem(3, 2)
    features = rampup.user_features(lambda row: row, 5)
    num_lanes = 40_000
    seen = branches(
        problem,
        features,
        theta,
        Behaviour(jnp.asarray(True), sampler_theta),
        jax.random.key(1),
        num_lanes=num_lanes,
        regularisation=0.1,
        clip=15.0,
    )
    policy = finite.log_linear_policy(problem.rows, theta)
    advantage = finite.values(problem.lmdp, policy, 0.1).advantage
    measure = finite.grafted(problem.lmdp, finite.log_linear_policy(problem.rows, sampler_theta))
    exact = np.asarray(jnp.sum(measure * advantage, axis=1))
    rows = np.asarray(seen.variables).reshape(3, num_lanes, 2, 5)
    state = np.argmin(np.abs(rows[:, :, None, 0, 0] - np.asarray(problem.rows)[None, None, :, 0, 0]), axis=2)
    actions, estimates = np.asarray(seen.action).reshape(3, -1), np.asarray(seen.advantage).reshape(3, -1)
    for t, s, a in itertools.product(range(3), range(4), range(2)):
        assert_mean_is(np.where((state[t] == s) & (actions[t] == a), estimates[t], 0.0), exact[t, s, a])


@pytest.mark.slow
def test_the_bias_of_the_clip_stays_within_its_lemma():
    problem, features, theta, _, _ = random_finite_problem(4, 2)
    theta, clip, weight = 4 * theta, 0.5, 1.0
    behaviour = Behaviour(jnp.asarray(False), theta)
    found = jax.jit(
        jax.vmap(
            lambda key: branches(
                problem, features, theta, behaviour, key, num_lanes=100, regularisation=weight, clip=clip
            ).advantage.reshape(3, 100)
        )
    )(jax.random.split(jax.random.key(2), 400))
    # On-policy the advantage has mean zero at every step; the clip can only lower it, and by no more than this.
    bound = weight * theory.entropy_clip_bound(2, clip)
    means = np.asarray(found).mean(axis=2)
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    assert (means.mean(axis=0) <= DEVIATIONS * error).all()
    assert (means.mean(axis=0) >= -bound - DEVIATIONS * error).all()
    # It does bite here, or the test would say nothing.
    assert means.mean() < -1e-3


@pytest.mark.parametrize("estimator", ["algorithm4", "paired"])
def test_estimates_are_unbiased_on_bcp(estimator):
    problem = rampup.make("bcp", n=8, series="random:1")
    features = rampup.as_features("legendre:3", problem)
    theta, sampler_theta = jax.random.normal(jax.random.key(3), (2, 6))
    settings = {"num_lanes": 10, "regularisation": 0.1, "clip": 15.0}

    @jax.jit
    def estimates(keys, is_fixed):
        given = problem, features, theta, Behaviour(is_fixed, sampler_theta)
        sampled = jax.vmap(lambda key: ESTIMATORS[estimator](*given, key, **settings))(keys)
        return sampled, ESTIMATORS["exact"](*given, keys[0], **settings)

    for is_fixed in (False, True):
        found, exact = estimates(jax.random.split(jax.random.key(4), 2000), jnp.asarray(is_fixed))
        assert_mean_is(found.fisher, exact.fisher)
        assert_mean_is(found.gradient, exact.gradient)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("num_branches", "estimator"),
    [
        (1, "algorithm4"),
        (3, "paired"),
        pytest.param(1, "paired", marks=SLOW),
        pytest.param(3, "algorithm4", marks=[SLOW, pytest.mark.long]),
        pytest.param(5, "algorithm4", marks=[SLOW, pytest.mark.long]),
        pytest.param(5, "paired", marks=[SLOW, pytest.mark.long]),
    ],
)
def test_estimates_from_few_branches_are_unbiased_on_bcp(num_branches, estimator):
    problem = rampup.make("bcp", n=8, series="random:1")
    features = rampup.as_features("legendre:3", problem)
    theta, sampler_theta = jax.random.normal(jax.random.key(3), (2, 6))
    settings = {"num_lanes": 5, "regularisation": 0.1, "clip": 15.0, "num_branches": num_branches}

    @jax.jit
    def estimates(keys, is_fixed):
        given = problem, features, theta, Behaviour(is_fixed, sampler_theta)
        sampled = jax.vmap(lambda key: ESTIMATORS[estimator](*given, key, **settings))(keys)
        return sampled, ESTIMATORS["exact"](*given, keys[0], **settings)

    for is_fixed in (False, True):
        found, exact = estimates(jax.random.split(streams.key(4), 4000), jnp.asarray(is_fixed))
        assert_mean_is(found.fisher, exact.fisher)
        assert_mean_is(found.gradient, exact.gradient)


FEW_BRANCHES = {
    "okd": (rampup.make("okd", n=6, B=0.8, V=1.2), 2),
    "adw": (rampup.make("adw", n=3, m=5, V=1.5), 3),
}


@pytest.mark.slow
@pytest.mark.parametrize("is_fixed", [pytest.param(False, marks=pytest.mark.long), True])
@pytest.mark.parametrize("name", FEW_BRANCHES)
def test_few_branches_estimate_what_all_of_them_do(name, is_fixed):
    problem, num_branches = FEW_BRANCHES[name]
    features = rampup.as_features("monomial:2", problem)
    theta, sampler_theta = jax.random.normal(jax.random.key(5), (2, features.size))
    behaviour = Behaviour(jnp.asarray(is_fixed), sampler_theta)

    def replicates(seed, **settings):
        settings |= {"num_lanes": 5, "regularisation": 0.05, "clip": 15.0}
        estimate = lambda key: ESTIMATORS["paired"](problem, features, theta, behaviour, key, **settings)
        return jax.device_get(jax.jit(jax.vmap(estimate))(jax.random.split(streams.key(seed), 3000)))

    for few, all_of_them in zip(replicates(1, num_branches=num_branches), replicates(2), strict=True):
        errors = [part.std(axis=0, ddof=1) / np.sqrt(len(part)) for part in (few, all_of_them)]
        distance = np.abs(few.mean(axis=0) - all_of_them.mean(axis=0))
        assert (distance <= DEVIATIONS * np.hypot(*errors) + 1e-12).all()
        # Few of the steps say less, or the comparison would say nothing.
        assert errors[0].mean() > errors[1].mean()


HORIZONS = [(1, 1), (2, 1), (3, 2), (5, 3), (7, 7), (8, 3), (100, 7), (101, 100)]


def test_branch_steps_lie_one_in_each_part_of_the_horizon():
    keys = jax.random.split(streams.key(6), 50)
    for horizon, count in HORIZONS:
        many = jax.jit(jax.vmap(partial(branch_steps, horizon, count)))
        steps, stands_for = map(np.asarray, many(keys))
        edges = np.array([part * horizon // count for part in range(count + 1)])
        assert (steps >= edges[:-1]).all()
        assert (steps < edges[1:]).all()
        assert (stands_for == np.diff(edges)).all()
        # Parts are as equal as whole numbers of steps allow, and together they are the horizon.
        assert np.ptp(np.diff(edges)) <= 1
        assert (stands_for.sum(axis=1) == horizon).all()


@pytest.mark.parametrize(("horizon", "count"), [(8, 3), (10, 1), (7, 7), (12, 4)])
def test_every_step_of_a_part_is_as_likely(horizon, count):
    num_keys = 20_000
    keys = jax.random.split(streams.key(7), num_keys)
    steps, stands_for = jax.jit(jax.vmap(partial(branch_steps, horizon, count)))(keys)
    visits = np.bincount(np.asarray(steps).ravel(), minlength=horizon)
    probs = 1 / np.repeat(np.asarray(stands_for[0]), np.asarray(stands_for[0], int))
    error = np.sqrt(num_keys * probs * (1 - probs))
    assert (np.abs(visits - num_keys * probs) <= DEVIATIONS * error).all()


@pytest.mark.parametrize(
    ("name", "is_paired"),
    [("bcp", True), pytest.param("okd", False, marks=[pytest.mark.slow, pytest.mark.long]), ("adw", False)],
)
def test_as_many_branches_as_steps_are_all_of_them(name, is_paired):
    problem = PLAIN[name][0]
    features = rampup.as_features("monomial:2", problem)
    theta = jax.random.normal(jax.random.key(8), (features.size,))

    def seen(num_branches):
        settings = {"num_lanes": 30, "regularisation": 0.1, "clip": 15.0, "is_paired": is_paired}
        play = partial(branches, problem, features, theta, None, **settings, num_branches=num_branches)
        return jax.jit(play)(streams.key(9))

    all_of_them, by_number = seen(None), seen(problem.horizon)
    for one, other in zip(all_of_them, by_number, strict=True):
        assert np.array_equal(one, other)
    assert len(all_of_them.weight) == 30 * problem.horizon
    assert set(np.unique(all_of_them.weight)) <= {0.0, 1.0}


@pytest.mark.slow
def test_a_pair_is_less_noisy_than_two_coins():
    problem = rampup.make("bcp", n=20)
    features = rampup.as_features("legendre:4", problem)
    theta = jax.random.normal(jax.random.key(5), (8,))

    def noise(estimator, num_lanes):
        settings = {"num_lanes": num_lanes, "regularisation": 0.01, "clip": 15.0}
        estimate = lambda key: ESTIMATORS[estimator](problem, features, theta, None, key, **settings).gradient
        found = np.asarray(jax.jit(jax.vmap(estimate))(jax.random.split(jax.random.key(6), 2000)))
        variances = found.reshape(50, 40, -1).var(axis=1, ddof=1).sum(axis=-1)
        return variances.mean(), variances.std(ddof=1) / np.sqrt(len(variances))

    # Equal numbers of episodes: 40 lanes of one, 20 lanes of two. Rewards are not negative, so that what both sides
    # earn together only ever takes noise away: a difference of 0 is the least there can be.
    (coins, coins_error), (pairs, pairs_error) = noise("algorithm4", 40), noise("paired", 20)
    print("variance of algorithm4 over that of paired, at equal episodes:", coins / pairs)  # noqa: T201
    assert coins - pairs > 5 * np.hypot(coins_error, pairs_error)


@pytest.mark.slow
@pytest.mark.parametrize("steps_seen", [500, 2])
def test_sampled_inspections_are_unbiased(monkeypatch, steps_seen):
    # Also where only some states of an episode are looked at.
    monkeypatch.setattr(inspection, "STEPS_SEEN", steps_seen)
    problem, features, theta, sampler_theta, (target, _) = random_finite_problem(7, 3)
    reference_fn = lambda observation: target[observation[0].astype(int)]
    direction = jnp.arange(5.0) / 5

    @partial(jax.jit, static_argnames="effort")
    def inspections(keys, is_fixed, weight, effort):
        given = problem, features, theta, direction, Behaviour(is_fixed, sampler_theta), weight
        return jax.vmap(lambda key: inspection.sampled(*given, key, reference_fn=reference_fn, effort=effort))(keys)

    for weight, is_fixed in SETTINGS:
        at = jnp.asarray(is_fixed), jnp.asarray(weight)
        found = inspections(jax.random.split(jax.random.key(8), 600), *at, inspection.Effort(episodes=50))
        sampler = finite.log_linear_policy(problem.rows, sampler_theta) if is_fixed else None
        exact = finite.snapshot(problem.lmdp, problem.rows, theta, target, sampler, weight)
        policy = finite.log_linear_policy(problem.rows, theta)
        assert_mean_is(found.value, finite.value(problem.lmdp, policy))
        assert_mean_is(found.reference_value, finite.value(problem.lmdp, target))
        assert_mean_is(found.potential, exact.potential)
        assert_mean_is(found.fitting_error, exact.target.advantage - direction @ exact.target.score)
        # The standard error given is the one seen.
        np.testing.assert_allclose(np.mean(found.value_error), np.std(found.value), rtol=0.15)
        # Kappa is not linear in what is sampled; with many states it comes near.
        many = inspection.Effort(episodes=40_000)
        condition = inspections(jax.random.split(jax.random.key(9), 1), *at, many)
        assert abs(condition.ln_kappa[0] - exact.ln_kappa) <= 5 * condition.ln_kappa_error[0]
        assert condition.ln_kappa_error[0] < (0.1 if steps_seen == 500 else 0.3)
        assert condition.kappa_rank[0] == 5


PLAIN = {
    "bcp": (rampup.make("bcp", n=5), "monomial:2", lambda: plain.PlainBCP(1 / np.arange(1, 6), 2)),
    "okd": (rampup.make("okd", n=4, B=0.8, V=0.9), "monomial:2", lambda: plain.PlainOKD(4, 0.8, 0.9, 2)),
    "adw": (rampup.make("adw", n=3, m=4, V=1.4), "monomial:2", lambda: plain.PlainADW(3, 4, 1.4, 2)),
    "adw two": (rampup.make("adw", n=1, m=3, V=0.7), "monomial:2", lambda: plain.PlainADW(1, 3, 0.7, 2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bcp", "okd", "adw", pytest.param("adw two", marks=pytest.mark.long)])
def test_updates_have_the_distribution_of_a_plain_transcription(name):
    problem, spec, make_plain = PLAIN[name]
    features = rampup.as_features(spec, problem)
    rng = np.random.default_rng(0)
    theta, sampler_theta = rng.normal(size=(2, features.size)) * 0.7
    num_lanes, num_updates, weight, clip, radius = 6, 250, 0.05, 1.0, 1.0

    @jax.jit
    def updates(keys, is_fixed):
        given = problem, features, jnp.asarray(theta), Behaviour(is_fixed, jnp.asarray(sampler_theta))
        settings = {"num_lanes": num_lanes, "regularisation": weight, "clip": clip}
        found = jax.vmap(lambda key: ESTIMATORS["algorithm4"](*given, key, **settings))(keys)
        return *found, in_ball(*found, radius).direction

    for is_fixed in (False, True):
        ours = jax.device_get(updates(jax.random.split(jax.random.key(10), num_updates), jnp.asarray(is_fixed)))
        plan = theta, sampler_theta if is_fixed else None, num_lanes, weight, clip, radius
        env = make_plain()
        theirs = zip(*(plain.update(env, *plan, rng) for _ in range(num_updates)), strict=True)
        for one, other in zip(ours, theirs, strict=True):
            one, other = (np.stack(part).reshape(num_updates, -1) for part in (one, other))
            # Random projections see differences in means, spreads and shapes; rounding makes ties of what is equal.
            directions = np.random.default_rng(1).normal(size=(one.shape[1], 6))
            for column in range(directions.shape[1]):
                pair = (np.round(part @ directions[:, column], 9) for part in (one, other))
                assert scipy.stats.ks_2samp(*pair).pvalue > 1e-5


def test_products_of_matrices_in_an_episode_are_not_rougher_than_single_precision():
    problem, features = rampup.make("bcp", n=5), rampup.user_features(lambda row: row, 2)
    play = lambda key: branches(problem, features, jnp.ones(2), None, key, num_lanes=3, regularisation=None, clip=15.0)
    program = str(jax.make_jaxpr(play)(streams.key(0)))
    # On a GPU the usual precision of a product is far below that of its numbers.
    assert program.count("dot_general") > 0
    assert program.count("Precision.HIGHEST") == 2 * program.count("dot_general")


def test_features_that_all_actions_share_say_nothing_however_they_are_rounded():
    problem = rampup.make("adw", n=3, m=6, V=2.64, bids="special")
    features = rampup.as_features("monomial:3", problem)
    first, second = np.random.default_rng(0).uniform(0.1, 1.0, size=(2, 4))
    second[[0, 3]] = first[[0, 3]]
    is_shared = np.asarray(features.phi(jnp.asarray(first)) == features.phi(jnp.asarray(second)))
    assert is_shared.sum() == 9
    theta = jax.random.normal(jax.random.key(1), (features.size,))
    settings = {"num_lanes": 50, "regularisation": 0.1, "clip": 15.0}
    found = ESTIMATORS["algorithm4"](problem, features, theta, None, streams.key(2), **settings)
    assert np.array_equal(np.diagonal(found.fisher) == 0, is_shared)
    assert np.array_equal(found.gradient == 0, is_shared)

    fishers = []
    for policy_fn in (default_reference(problem), LogLinear(problem, features, theta)):
        keys = jax.random.split(jax.random.key(3), 300)
        states = inspection._states(problem, play_many(problem, policy_fn, keys), keys[0])
        fishers.append(inspection._fisher(problem, features, theta, states, policy_fn))
    found = of_grams(*fishers)
    assert found.rank == 72
    np.testing.assert_allclose(found.ln, of_grams(*(one[~is_shared][:, ~is_shared] for one in fishers)).ln, rtol=1e-9)
