"""Theorem 1 held against real runs, the sample sizes its lemma asks for, and the constants both need."""

import json
import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rampup
from rampup import theory
from rampup.diagnostics import Moments, loss
from rampup.exact import bcp
from rampup.learn import estimators
from rampup.learn.bound import bound_document, bounded_run
from rampup.learn.sampler import Behaviour
from rampup.policy import largest_feature_norm, phi
from rampup.solvers import in_ball

SMALL, LARGE = rampup.make("bcp", n=5), rampup.make("bcp", n=10)
# Well-conditioned features and enough lanes: round-off stays round-off until an action is sampled differently.
FEATURES = rampup.as_features("legendre:2", LARGE)
SETTINGS = rampup.Settings(learning_rate=0.2, num_lanes=50, record_every=1)
ITERATIONS = 3


def stages_of(name, iterations=ITERATIONS):
    return rampup.scheme(name, LARGE, SMALL, iterations=iterations, regularisation=0.05)


def final_rows(*names):
    """The rows of the last stage of each scheme, all of them trained in one batch."""
    results = rampup.train([rampup.Run(name, stages_of(name), 1) for name in names], FEATURES, SETTINGS)
    return {
        result.run.name: [row for row in result.rows if row["stage"] == len(result.run.stages) - 1]
        for result in results
    }


def assert_same_run(name, rows):
    seen = bounded_run(stages_of(name), FEATURES, SETTINGS, seed=1).diagnosis
    assert len(seen.gap) == len(rows) - 1 == ITERATIONS
    for update, row in enumerate(rows[:ITERATIONS]):
        assert row["iteration"] == update
        # In a batch the sums are added up in another order.
        close = {"rel": 1e-7, "abs": 1e-9}
        assert seen.gap[update] == pytest.approx(row["reference_value"] - row["value"], **close)
        assert seen.potential[update] == pytest.approx(row["potential"], **close)
        assert seen.fitting_error[update] == pytest.approx(row["err"], **close)
        assert seen.ln_kappa[update] == pytest.approx(row["ln_kappa"], **close)


@pytest.mark.slow
def test_a_bounded_run_is_the_run_that_train_makes():
    for name, rows in final_rows("direct", "naive_samp").items():
        assert_same_run(name, rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["curl", "fix_samp_curl"])
def test_a_bounded_run_with_a_warm_up_is_the_run_that_train_makes(name):
    assert_same_run(name, final_rows(name)[name])


@pytest.mark.parametrize(
    "name",
    [
        *("direct", "naive_samp", "direct_reg"),
        pytest.param("curl", marks=pytest.mark.slow),
        *(pytest.param(name, marks=[pytest.mark.slow, pytest.mark.long]) for name in ("fix_samp_curl", "curl_reg")),
    ],
)
@pytest.mark.parametrize(("learning_rate", "radius"), [(0.2, 10.0), (0.05, 0.5), (1.0, 0.1)])
def test_both_lines_of_theorem_1_hold_on_a_run(name, learning_rate, radius):
    how = rampup.Settings(learning_rate=learning_rate, num_lanes=50, radius=radius)
    run = bounded_run(stages_of(name), FEATURES, how, seed=2)
    bound, seen = run.bound, run.diagnosis
    assert run.gap == np.min(seen.gap)
    assert run.gap <= bound.first_line <= bound.second_line
    # The fitting errors themselves stay below what the second line says of them.
    kappa = np.exp(seen.ln_kappa)
    each = np.sqrt(LARGE.horizon * seen.transfer_error) + np.sqrt(LARGE.horizon * kappa * seen.excess_risk)
    assert np.all(seen.fitting_error <= each + 1e-12)
    assert bound.fitting <= bound.transfer + bound.statistical
    assert bound.smoothness == pytest.approx(learning_rate * 4 * radius**2 / 2)


@pytest.mark.slow
def test_the_exact_estimator_takes_the_statistical_term_away():
    how = rampup.Settings(learning_rate=0.2, estimator="exact")
    run = bounded_run(stages_of("direct"), FEATURES, how)
    # The loss is of order one: its excess over the least is rounding.
    assert np.all(run.diagnosis.excess_risk < 1e-12)
    assert run.bound.statistical < 1e-4
    assert run.gap <= run.bound.first_line <= run.bound.second_line
    best, start = bcp.optimum(LARGE.record_probs), bcp.values(LARGE.record_probs, bcp.naive_policy(10)).start
    assert run.diagnosis.gap[0] == pytest.approx(float(best.value - start), rel=1e-12)
    assert np.all(np.diff(run.diagnosis.gap) < 0)
    document = bound_document(run)
    assert document["updates"] == ITERATIONS
    assert document["gap"] == run.gap
    assert document["dominant"] == "smoothness"
    assert document["first_line"] == run.bound.initial + run.bound.smoothness + run.bound.fitting
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_what_has_no_exact_terms_is_refused():
    knapsack = rampup.make("okd", n=3, B=1, V=1)
    stages = rampup.scheme("direct", knapsack, iterations=2)
    with pytest.raises(ValueError, match=r"^the terms of Theorem 1 can be measured on the best choice problem only\.$"):
        bounded_run(stages, rampup.as_features("monomial:2", knapsack), SETTINGS)
    with jax.enable_x64(False), pytest.raises(ValueError, match="exact answers need 64-bit numbers"):
        bounded_run(stages_of("direct"), FEATURES, SETTINGS)


ASKED = {
    "excess_risk": 0.5,
    "failure_prob": 0.05,
    "updates": 10,
    "horizon": 4,
    "num_actions": 2,
    "dimension": 4,
    "feature_norm": 2.0,
    "radius": 1.0,
}

questions = st.fixed_dictionaries(
    {
        "excess_risk": st.floats(0.1, 10.0),
        "failure_prob": st.floats(1e-6, 0.999),
        "updates": st.integers(1, 10_000),
        "horizon": st.integers(1, 10),
        "num_actions": st.integers(2, 5),
        "dimension": st.integers(1, 100),
        "feature_norm": st.floats(0.1, 2.0),
        "radius": st.floats(0.1, 2.0),
        "clip": st.floats(10.0, 20.0),
    }
)


def ln_failure(count, *, excess_risk, updates, horizon, num_actions, feature_norm, radius, clip, weight, is_fixed, **_):
    """ln of 2 (T + 1) exp(-2 N eps^2 / C^2), the lemma's chance that some update exceeds the risk, to 50 digits."""
    with mpmath.workdps(50):
        h, g, b = mpmath.mpf(horizon), mpmath.mpf(radius), mpmath.mpf(feature_norm)
        span = h if is_fixed else 1 + weight * clip + h * (1 + weight * mpmath.log(num_actions))
        c = 16 * h * g * b * span + 4 * h * g**2 * b**2
        # With the H that the paper's last line drops.
        hidden = 8 * weight * h * g * b * num_actions / mpmath.exp(clip + 1)
        eps = (excess_risk - hidden) / 2
        return mpmath.log(2 * updates) - 2 * count * eps**2 / c**2


@given(questions, st.sampled_from([(0.0, False), (0.01, False), (0.0, True)]))
@settings(max_examples=100)
def test_the_lemma_asks_for_just_enough_lanes(asked, kind):
    weight, is_fixed = kind
    found = theory.sample_size(**asked, regularisation=weight, is_fixed=is_fixed)
    allowed = mpmath.log(asked["failure_prob"])
    extra = {"weight": weight, "is_fixed": is_fixed}
    assert ln_failure(found.lemma, **asked, **extra) <= allowed < ln_failure(found.lemma - 1, **asked, **extra)
    assert found.uniform >= found.lemma


@given(questions)
@settings(max_examples=50)
def test_the_repaired_lemma_asks_for_a_net_of_the_whole_ball(asked):
    found = theory.sample_size(**asked)
    with mpmath.workdps(50):
        h, g, b = mpmath.mpf(asked["horizon"]), mpmath.mpf(asked["radius"]), mpmath.mpf(asked["feature_norm"])
        reward = 1 + h
        c = 16 * h * g * b * reward + 4 * h * g**2 * b**2
        eps = mpmath.mpf(asked["excess_risk"]) / 2
        # |F| <= 4 H B^2 and |grad| <= 4 H B R bound the slope of g'Fg - 2 g'grad. Half of eps is for the points of the
        # net, half for what lies between them, where both losses move.
        slope = 2 * 4 * h * b**2 * g + 2 * 4 * h * b * reward
        points = asked["dimension"] * mpmath.log(1 + 2 * g / (eps / 2 / (2 * slope)))
        ln_chance = lambda count: mpmath.log(2 * asked["updates"]) + points - 2 * count * (eps / 2) ** 2 / c**2
        allowed = mpmath.log(asked["failure_prob"])
        assert ln_chance(found.uniform) <= allowed
        # A double holds so large a number to some 15 digits.
        assert ln_chance(found.uniform * (1 - mpmath.mpf(10) ** -12) - 1) > allowed


@given(questions, st.floats(1.01, 10.0), st.integers(1, 100))
@settings(max_examples=50)
def test_more_is_asked_of_whoever_wants_more(asked, factor, more):
    usual = theory.sample_size(**asked)
    for changes in (
        {"excess_risk": asked["excess_risk"] / factor},
        {"failure_prob": asked["failure_prob"] / factor},
        {"updates": asked["updates"] + more},
        {"horizon": asked["horizon"] + more},
        {"radius": asked["radius"] * factor},
        {"feature_norm": asked["feature_norm"] * factor},
        {"regularisation": 1e-3},
    ):
        stricter = theory.sample_size(**(asked | changes))
        assert stricter.lemma >= usual.lemma
        assert stricter.uniform >= usual.uniform
        # Small numbers may round up to the same.
        assert stricter.lemma > usual.lemma or usual.lemma < 1000
    # The lemma as printed knows nothing of the dimension.
    wider = theory.sample_size(**(asked | {"dimension": asked["dimension"] + more}))
    assert wider.lemma == usual.lemma
    assert wider.uniform > usual.uniform or usual.uniform < 1000


@pytest.mark.parametrize(
    "is_fixed", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["on_policy", "fixed_sampler"]
)
def test_far_fewer_lanes_than_the_lemma_asks_for_keep_the_risk(is_fixed):
    problem = rampup.make("bcp", n=4)
    features = rampup.as_features("monomial:2", problem)
    norm = largest_feature_norm(problem, features)
    lanes, repeats, radius = 100, 400, ASKED["radius"]
    asked = ASKED | {"updates": 1, "dimension": features.size, "feature_norm": norm, "is_fixed": is_fixed}
    assert theory.sample_size(**asked).lemma > 1000 * lanes
    behaviour = Behaviour(jnp.asarray(True), jnp.zeros(features.size)) if is_fixed else None
    settings = {"num_lanes": lanes, "regularisation": jnp.zeros(()), "clip": jnp.asarray(15.0)}

    @jax.jit
    def excess_risks(theta, keys):
        estimate = lambda estimator, key: estimator(problem, features, theta, behaviour, key, **settings)
        truth = estimate(estimators.exact, keys[0])
        found = jax.vmap(lambda key: estimate(estimators.algorithm4, key))(keys)
        # The last row is the truth, whose minimiser is the best of the ball.
        fishers = jnp.concatenate([found.fisher, truth.fisher[None]])
        steps = in_ball(fishers, jnp.concatenate([found.gradient, truth.gradient[None]]), radius).direction
        # The sum of A^2 is the same for all, and cancels.
        nothing = jnp.zeros(())
        moments = Moments(truth.fisher, truth.gradient, nothing, nothing, jnp.zeros_like(theta))
        losses = jax.vmap(lambda step: loss(moments, step))(steps)
        return losses[:-1] - losses[-1]

    for seed in range(3):
        theta = jnp.asarray(np.random.default_rng(seed).normal(size=features.size) * seed)
        risks = np.asarray(excess_risks(theta, jax.random.split(jax.random.key(seed), repeats)))
        assert np.all(risks >= -1e-12)
        failures, allowed = np.sum(risks > asked["excess_risk"]), asked["failure_prob"]
        assert failures <= repeats * allowed + 4 * math.sqrt(repeats * allowed * (1 - allowed))


TOO_MUCH = [
    ({"excess_risk": 0.0}, "`excess_risk` must be a number of at least 1e-100, got 0.0."),
    ({"excess_risk": -1.0}, "`excess_risk` must be a number of at least 1e-100, got -1.0."),
    ({"excess_risk": math.nan}, "`excess_risk` must be a number of at least 1e-100, got nan."),
    ({"failure_prob": 0.0}, "`failure_prob` must be between 0 and 1, got 0.0."),
    ({"failure_prob": 1.0}, "`failure_prob` must be between 0 and 1, got 1.0."),
    ({"failure_prob": math.nan}, "`failure_prob` must be between 0 and 1, got nan."),
    ({"regularisation": 0.1, "is_fixed": True}, "with a fixed sampler the lemma holds for `regularisation` 0 only."),
    (
        {"regularisation": 0.1, "clip": 0.0},
        "`clip` = 0.0 hides more entropy than `excess_risk` = 0.5 allows: raise it.",
    ),
    ({"regularisation": 0.1, "clip": -1.0}, "`clip` must be at least ln 2 - 1 for the lemma to hold, got -1.0."),
]


@pytest.mark.parametrize(("changes", "sentence"), TOO_MUCH, ids=[str(entry[0]) for entry in TOO_MUCH])
def test_what_no_number_of_lanes_can_promise_is_refused(changes, sentence):
    with pytest.raises(ValueError, match=r"\.$") as caught:
        theory.sample_size(**(ASKED | changes))
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("updates", 0),
        ("updates", -3),
        ("radius", 0.0),
        ("radius", -1.0),
        ("radius", math.inf),
        ("regularisation", -0.1),
    ],
)
def test_numbers_the_lemma_cannot_take_are_refused_by_name(name, number):
    with pytest.raises(ValueError, match=rf"^`{name}` must be"):
        theory.sample_size(**(ASKED | {name: number}))


@pytest.mark.parametrize("excess_risk", [1e-155, 1e-170])
def test_a_risk_that_takes_more_lanes_than_a_double_can_count_is_refused(excess_risk):
    with pytest.raises(ValueError, match="`excess_risk`"):
        theory.sample_size(**(ASKED | {"excess_risk": excess_risk}))


WIDE = {"kind": "uniform", "low": 0.5, "high": 2.0}
NARROW = {"kind": "uniform", "high": 0.5}
MADE = {
    "bcp": {"n": 8},
    "okd": {"n": 8, "B": 2, "V": 3},
    "okd wide": {"n": 8, "B": 5, "V": 3, "sizes": WIDE, "values": WIDE},
    "okd narrow": {"n": 8, "B": 1, "V": 3, "sizes": NARROW},
    "adw": {"n": 3, "m": 5, "V": 2.4},
    "adw wide": {"n": 2, "m": 5, "V": 1.5, "bids": WIDE},
}


@pytest.mark.parametrize(
    ("which", "basis"),
    [
        ("bcp", "one_hot"),
        *((which, "monomial:3") for which in MADE),
        *((which, "legendre:3") for which in MADE),
    ],
)
def test_no_feature_vector_is_longer_than_the_norm_says(which, basis):
    problem = rampup.make(which.split()[0], **MADE[which])
    features = rampup.as_features(basis, problem)
    bound = largest_feature_norm(problem, features)
    low, high = map(np.asarray, problem.bounds())
    generator = np.random.default_rng(0)
    inside = generator.uniform(low, high, size=(2000, len(low)))
    corners = np.where(generator.random((2000, len(low))) < 0.5, low, high)
    observations = jnp.asarray(np.concatenate([inside, corners]))
    rows_of = jax.jit(jax.vmap(lambda seen: phi(features, problem.variables(seen))))
    norms = np.linalg.norm(rows_of(observations), axis=2)
    assert norms.max() <= bound * (1 + 1e-12)
    if basis.startswith("monomial"):
        # Attained where all variables are largest; by hand, a product of sums of even powers.
        assert bound == pytest.approx(np.linalg.norm(rows_of(jnp.asarray(high)[None]), axis=2).max(), rel=1e-12)
        largest = np.asarray(problem.variables(jnp.asarray(high)))[-1]
        powers = [np.arange(degree) for degree in problem.degrees(3)]
        by_hand = math.prod(np.sum(one ** (2 * each)) for one, each in zip(largest, powers, strict=True))
        assert bound == pytest.approx(math.sqrt(by_hand), rel=1e-12)
