"""Optima in hindsight: equal to brute force where that is possible, and above every online player everywhere."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import OptimizeResult

import rampup
from rampup import integer_programs
from rampup.episodes import replay
from rampup.integer_programs import SLACK, allocation_reaches, best_allocation, best_knapsack, knapsack_reaches
from rampup.references import rules
from rampup.references.hindsight import hindsight, hindsight_values

SPECIAL = {"kind": "special"}
# Sums of these meet a budget of 1 exactly, and in doubles some of them only nearly.
ATOMS = [0.0, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 1.0]
# The solver's own tolerances are of this order; the answers must not be.
NEARLY = [0.5 + 1e-6, 0.5 + 1e-7, 0.5 + 1e-8, 0.4 + 3e-7, 0.6 - 1e-8, 1 + 1e-7]
WITH_TIES = {"kind": "empirical", "sample": ATOMS}
NUMBERS = st.sampled_from(ATOMS + NEARLY) | st.floats(0.0, 1.2)
# The least of a target above the optimum for which the answer must be no.
JUST_ABOVE = 1 + 10 * SLACK


def vectors(size):
    return st.lists(NUMBERS, min_size=size, max_size=size).map(np.asarray)


knapsacks = st.integers(1, 9).flatmap(
    lambda size: st.tuples(vectors(size), vectors(size), st.sampled_from([0.0, 0.5, 1.0, 1.3, 10.0]))
)
shapes = st.tuples(st.integers(1, 5), st.integers(1, 3))
allocations = shapes.flatmap(
    lambda shape: st.tuples(vectors(shape[0] * shape[1]).map(lambda bids: bids.reshape(shape)), vectors(shape[1]))
)


def brute_force_knapsack(sizes, values, budget):
    choices = np.asarray(list(itertools.product([0.0, 1.0], repeat=len(sizes))))
    return np.max(choices @ values, where=choices @ sizes <= budget * (1 + SLACK), initial=0.0)


def brute_force_allocation(bids, budgets):
    num_slots, num_advertisers = bids.shape
    winners = np.asarray(list(itertools.product(range(num_advertisers + 1), repeat=num_slots)))
    paid = (winners[:, :, None] == np.arange(1, num_advertisers + 1)) * bids
    is_kept = np.all(paid.sum(axis=1) <= budgets * (1 + SLACK), axis=1)
    return np.max(paid.sum(axis=(1, 2)), where=is_kept, initial=0.0)


def assert_decided_at_the_optimum(reaches, instance, optimum):
    assert reaches(*instance, optimum)
    assert reaches(*instance, optimum / 2)
    assert not reaches(*instance, optimum * JUST_ABOVE + 1e-12)
    assert not reaches(*instance, optimum + 0.1)


@given(knapsacks)
@example((np.array([0.0, 0.1, 1.0]), np.array([0.0, 6.4e-143, 1.0e-88]), 1.0))
@settings(max_examples=200)
def test_the_best_knapsack_is_that_of_brute_force(knapsack):
    optimum = brute_force_knapsack(*knapsack)
    assert best_knapsack(*knapsack) == pytest.approx(optimum, rel=SLACK, abs=0)
    assert_decided_at_the_optimum(knapsack_reaches, knapsack, optimum)


def test_the_best_of_twelve_uniform_items_is_that_of_brute_force():
    for seed in range(50):
        draw = np.random.default_rng(seed).random
        knapsack = draw(12), draw(12), 6 * draw()
        optimum = brute_force_knapsack(*knapsack)
        assert best_knapsack(*knapsack) == pytest.approx(optimum, rel=SLACK, abs=0)
        assert_decided_at_the_optimum(knapsack_reaches, knapsack, optimum)


@given(allocations)
@settings(max_examples=200)
def test_the_best_allocation_is_that_of_brute_force(allocation):
    optimum = brute_force_allocation(*allocation)
    assert best_allocation(*allocation) == pytest.approx(optimum, rel=SLACK, abs=0)
    assert_decided_at_the_optimum(allocation_reaches, allocation, optimum)


@pytest.mark.parametrize("bids", [[0.25, 0.4, 0.5, 0.6, 1.0, 0.0], None])
def test_the_best_allocation_of_three_advertisers_is_that_of_brute_force(bids):
    for seed in range(40):
        generator = np.random.default_rng(seed)
        allocation = generator.random((5, 3)) if bids is None else generator.choice(bids, (5, 3)), np.ones(3)
        optimum = brute_force_allocation(*allocation)
        assert best_allocation(*allocation) == pytest.approx(optimum, rel=SLACK, abs=0)
        assert_decided_at_the_optimum(allocation_reaches, allocation, optimum)


def test_a_budget_can_be_used_up_although_sums_are_rounded():
    assert 0.1 + 0.2 > 0.3
    assert knapsack_reaches([0.1, 0.2], [0.3, 0.6], 0.3, 0.9)
    assert 1 - 0.9 < 0.1
    assert allocation_reaches([[0.9], [0.1]], [1.0], 1.0)
    assert best_allocation([[0.1], [0.2], [0.4], [0.35]], [0.3]) == pytest.approx(0.3)


def test_a_budget_is_not_passed_within_the_tolerance_of_the_solver(monkeypatch):
    rounds = []
    solve = integer_programs.milp
    monkeypatch.setattr(integer_programs, "milp", lambda *args, **rest: rounds.append(1) or solve(*args, **rest))
    # The first three come to a little more than the budget.
    bids = np.asarray([[0.2], [0.35], [0.45 + 5e-8], [0.25]])
    assert best_allocation(bids, [1.0]) == pytest.approx(0.9 + 5e-8, rel=SLACK)
    assert len(rounds) > 1
    assert not allocation_reaches(bids, [1.0], 1.0)


def test_the_best_allocation_is_not_one_that_rounding_makes_worse():
    # Of the fourth bid the solver takes a ten-millionth, and claims as much for 0.6 and 0.39999997 as there is in 1.
    assert best_allocation([[0.25], [1.0], [0.6], [0.25], [0.39999997]], [1.0]) == 1.0


def test_a_target_is_not_missed_within_the_tolerance_of_the_solver():
    bids = np.asarray([[0.2, 0.9], [0.3, 0.0], [0.5 - 5e-8, 0.0], [0.0, 0.3]])
    optimum = brute_force_allocation(bids, np.ones(2))
    assert allocation_reaches(bids, [1.0, 1.0], optimum)
    assert not allocation_reaches(bids, [1.0, 1.0], optimum + 2e-8)


def test_nothing_can_be_had_without_a_budget_but_what_costs_nothing():
    assert best_knapsack([0.0, 0.1], [0.3, 0.9], 0.0) == 0.3
    assert best_knapsack([2.0], [1.0], 1.0) == 0.0
    assert best_allocation([[0.5, 0.0]], [0.0, 1.0]) == 0.0
    assert not allocation_reaches([[0.5, 1.1]], [0.4, 1.0], 0.1)
    assert knapsack_reaches([2.0], [1.0], 1.0, 0.0)
    assert allocation_reaches([[2.0]], [1.0], 0.0)


def drawn(problem, num_instances):
    return jax.vmap(problem.draw)(jax.random.split(jax.random.key(0), num_instances))


@eqx.filter_jit
def online_successes(problem, policy_fn, instances, uniforms):
    play_one = lambda instance, numbers: jnp.sum(replay(problem, policy_fn, instance, numbers).rewards) > 0
    return jax.vmap(play_one)(instances, uniforms)


SMALL_KNAPSACK = {"name": "okd", "n": 5, "B": 1, "V": 1.5}
KNAPSACK = {"name": "okd", "n": 100, "B": 10, "V": 25}
SMALL_ADWORDS = {"name": "adw", "n": 3, "m": 5, "V": 2.4, "bids": SPECIAL}
ADWORDS = {"name": "adw", "n": 10, "m": 20, "V": 9, "bids": SPECIAL}
LONG_ADWORDS = {"name": "adw", "n": 8, "m": 32, "V": 7.04, "bids": SPECIAL}
# Targets and budgets that are met exactly.
KNAPSACK_OF_ATOMS = {"name": "okd", "n": 6, "B": 0.9, "V": 2.0, "sizes": WITH_TIES, "values": WITH_TIES}
ADWORDS_OF_ATOMS = {"name": "adw", "n": 2, "m": 3, "V": 1.6, "bids": WITH_TIES}
SPREAD_ADWORDS = {"name": "adw", "n": 2, "m": 4, "V": 1.6, "bids": "uniform"}
BEST_CHOICE = {"name": "bcp", "n": 5}


def rules_for(problem):
    naive = rules.Naive(problem.num_actions)
    if isinstance(problem, rampup.OKD):
        ratios = [rules.BangPerBuck(jnp.asarray(ratio)) for ratio in (0.0, 1.0, 1.5, 2.0)]
        return [naive, rules.TakeWhatFits(problem.budget), *ratios]
    scores = rules.highest_bid, rules.tightest_fit, rules.largest_budget, rules.discounted_bid
    return [naive, *(rules.SlotRule(problem.num_actions - 1, score) for score in scores)]


@pytest.mark.parametrize(
    ("parameters", "num_instances"),
    [
        (SMALL_KNAPSACK, 400),
        pytest.param(KNAPSACK_OF_ATOMS, 400, marks=[pytest.mark.slow, pytest.mark.long]),
        (KNAPSACK, 400),
        (SMALL_ADWORDS, 300),
        pytest.param(ADWORDS_OF_ATOMS, 300, marks=[pytest.mark.slow, pytest.mark.long]),
        pytest.param(SPREAD_ADWORDS, 300, marks=[pytest.mark.slow, pytest.mark.long]),
        (ADWORDS, 100),
        pytest.param(LONG_ADWORDS, 100, marks=[pytest.mark.slow, pytest.mark.long]),
    ],
)
def test_nobody_succeeds_online_where_hindsight_fails(parameters, num_instances):
    problem = rampup.make(**parameters)
    instances = drawn(problem, num_instances)
    ceiling = hindsight(problem, instances)
    assert 0 < ceiling.mean() < 1
    uniforms = jax.random.uniform(jax.random.key(1), (num_instances, problem.horizon), dtype=float)
    for policy_fn in rules_for(problem):
        assert not np.any(online_successes(problem, policy_fn, instances, uniforms) & (ceiling == 0))


@pytest.mark.parametrize("parameters", [KNAPSACK, SMALL_ADWORDS, ADWORDS, BEST_CHOICE])
def test_who_sees_all_succeeds_where_the_greatest_value_reaches_the_target(parameters):
    problem = rampup.make(**parameters)
    instances = drawn(problem, 50)
    values = hindsight_values(problem, instances)
    assert np.array_equal(hindsight(problem, instances), values >= parameters.get("V", 1.0))
    assert values.dtype == float


@pytest.mark.parametrize("parameters", [SMALL_KNAPSACK, SMALL_ADWORDS, BEST_CHOICE])
def test_many_workers_answer_as_one_does_and_say_how_far_they_are(parameters):
    problem = rampup.make(**parameters)
    instances = drawn(problem, 40)
    calls = []
    for ask in (hindsight, hindsight_values):
        alone = ask(problem, instances, workers=1, on_progress=lambda *call: calls.append(call))
        assert calls == [(done, 40) for done in range(1, 41)]
        calls.clear()
        assert np.array_equal(alone, ask(problem, instances, workers=4))


def test_an_interruption_does_not_wait_for_all_instances(monkeypatch):
    asked = []
    monkeypatch.setattr(integer_programs, "knapsack_reaches", lambda *instance: asked.append(1) or True)

    def interrupt(done, total):
        raise KeyboardInterrupt

    problem = rampup.make("okd", n=5, B=1, V=1.5)
    with pytest.raises(KeyboardInterrupt):
        hindsight(problem, drawn(problem, 20_000), workers=1, on_progress=interrupt)
    assert len(asked) < 20_000


def test_what_has_no_answer_is_refused():
    problem = rampup.make("okd", n=5, B=1, V=1.5)
    instances = drawn(problem, 2)
    with pytest.raises(ValueError, match="what an all-seeing player earns in a object is not known"):
        hindsight(object(), instances)
    with pytest.raises(ValueError, match="what an all-seeing player earns in a object is not known"):
        hindsight_values(object(), instances)
    with pytest.raises(ValueError, match="`workers` must be a whole number of at least 1, got 0"):
        hindsight(problem, instances, workers=0)
    with pytest.raises(ValueError, match="exact answers need 64-bit numbers"):
        hindsight(problem, jax.tree.map(lambda part: part.astype(jnp.float32), instances))


def test_a_bad_instance_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match=r"`sizes` must not hold negative numbers, got -1.0."):
        best_knapsack([-1.0], [1.0], 1.0)
    with pytest.raises(ValueError, match=r"`values` must have shape \(1,\), got \(2,\)"):
        knapsack_reaches([1.0], [1.0, 2.0], 1.0, 1.0)
    with pytest.raises(ValueError, match=r"`budgets` must have shape \(2,\), got \(1,\)"):
        best_allocation([[1.0, 0.5]], [1.0])
    with pytest.raises(ValueError, match="`target` must be finite, got nan"):
        allocation_reaches([[1.0]], [1.0], float("nan"))


def test_a_solver_that_gives_up_is_not_taken_for_an_answer(monkeypatch):
    gave_up = OptimizeResult(status=4, success=False, x=None, message="numerical trouble")
    monkeypatch.setattr(integer_programs, "milp", lambda *args, **rest: gave_up)
    with pytest.raises(FloatingPointError, match="HiGHS gave up on 2 choices: numerical trouble"):
        best_allocation([[0.5], [0.6]], [1.0])
