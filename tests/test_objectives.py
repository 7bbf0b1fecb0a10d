"""Own objectives: choice with k picks, the value forms, and budgets that differ, each against a second road."""

import itertools
import json
import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest
from test_deciding import answers_of_both, arrivals_of, played

import rampup
from rampup import streams
from rampup.advice import smaller_problems
from rampup.episodes import play, replay
from rampup.evaluation import evaluate, outcomes
from rampup.exact import adw, bcp, choice
from rampup.exporting import rules_of
from rampup.features import as_features
from rampup.integer_programs import SLACK
from rampup.policy import LogLinear
from rampup.portable import rampup_policy
from rampup.portrait import portrait
from rampup.references import policy_named
from rampup.references.hindsight import hindsight, hindsight_values
from rampup.references.named import rules_of as policies_of
from rampup.runs.policy_file import write_policy

# Four standard errors: of a hundred true statements all pass, 99 times in 100.
ERRORS = 4

CHOICES = {
    "best": {"n": 12, "k": 2},
    "one pick": {"n": 12, "payoff": [1.0, 0.5, 0.25]},
    "ranks": {"n": 12, "k": 3, "payoff": [1.0, 0.5, 0.25]},
    "second best": {"n": 12, "k": 2, "payoff": [0.0, 1.0]},
    "values": {"n": 12, "k": 3, "payoff": "value"},
    "special values": {"n": 12, "k": 2, "payoff": "value", "values": "special"},
    "few values": {"n": 12, "k": 2, "payoff": "value", "values": {"kind": "empirical", "sample": [1.0, 2.0, 5.0]}},
    "all of them": {"n": 5, "k": 5, "payoff": [2.0, 1.0]},
}
KNAPSACKS = {
    "uniform": {"n": 15, "B": 2.0},
    "special": {"n": 10, "B": 1.5, "sizes": {"kind": "uniform", "low": 0.1, "high": 0.9}, "values": "special"},
}
AUCTIONS = {
    "uniform": {"n": 3, "m": 8},
    "budgets": {"n": 3, "m": 8, "bids": "special", "budgets": [0.5, 1.0, 2.5]},
    "own": {"n": 2, "m": 6, "bids": ["uniform", {"kind": "empirical", "sample": [0.1, 0.7]}], "budgets": 0.8},
}
VALUE_FORMS = [("choice", name, one) for name, one in CHOICES.items()]
VALUE_FORMS += [("okd_value", name, one) for name, one in KNAPSACKS.items()]
VALUE_FORMS += [("adw_value", name, one) for name, one in AUCTIONS.items()]
IDS = [f"{kind} {name}" for kind, name, _ in VALUE_FORMS]


@pytest.mark.parametrize(("kind", "name", "parameters"), VALUE_FORMS, ids=IDS)
def test_the_value_forms_keep_the_contract(kind, name, parameters):
    rampup.check_problem(rampup.make(kind, **parameters))


def eager(problem):
    """Mostly accepts, so that picks and budgets run out."""
    odds = np.where(np.arange(problem.num_actions) > 0, 2.0, 1.0)
    return lambda observation: jnp.log(jnp.asarray(odds / odds.sum()))


def replayed(problem, parameters, instance, actions):
    """The plain rules: what is seen, what is collected, and what that is a part of."""
    if isinstance(problem, rampup.Choice):
        payoff = parameters.get("payoff", "best")
        return plain.play_choice(instance.values.tolist(), parameters.get("k", 1), payoff, actions)
    if isinstance(problem, rampup.OKDValue):
        return plain.play_okd_value(instance.sizes.tolist(), instance.values.tolist(), parameters["B"], actions)
    budgets = parameters.get("budgets", 1.0)
    each = budgets if isinstance(budgets, list) else [budgets] * parameters["n"]
    return plain.play_adw_value(instance.bids.tolist(), each, actions)


@pytest.mark.parametrize(("kind", "name", "parameters"), VALUE_FORMS, ids=IDS)
def test_the_return_times_the_scale_is_what_a_plain_replay_collects(kind, name, parameters):
    problem = rampup.make(kind, **parameters)
    keys = jax.random.split(jax.random.key(1), 200)
    episodes = jax.device_get(jax.jit(jax.vmap(lambda key: play(problem, eager(problem), key)))(keys))
    instances = jax.device_get(jax.jit(jax.vmap(lambda key: problem.draw(jax.random.split(key)[0])))(keys))
    for lane in range(len(keys)):
        instance = jax.tree.map(lambda leaf, lane=lane: leaf[lane], instances)
        seen, earned = replayed(problem, parameters, instance, episodes.actions[lane].tolist())
        length = len(earned)
        assert episodes.is_alive[lane].sum() == length
        np.testing.assert_allclose(episodes.observations[lane, :length], seen, rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(episodes.rewards[lane, :length] * float(problem.scale), earned, rtol=1e-13)
    returns = episodes.rewards.sum(axis=1)
    assert returns.mean() > 0
    assert returns.max() <= 1 + 1e-12


def test_the_scale_is_the_most_there_can_be():
    scale = lambda kind, **parameters: float(rampup.make(kind, **parameters).scale)
    assert scale("choice", n=9, k=2, payoff=[0.25, 1.0, 0.5]) == 1.5
    assert scale("choice", n=9, k=2, payoff="value", values={"kind": "uniform", "high": 3.0}) == 6.0
    sizes = {"kind": "uniform", "low": 0.1, "high": 1.0}
    # Seven tenths fit into 0.7.
    assert scale("okd_value", n=100, B=0.7, sizes=sizes) == 7.0
    assert scale("okd_value", n=5, B=0.7, sizes=sizes) == 5.0
    assert scale("adw_value", n=3, m=100, budgets=[1, 2, 3]) == 6.0
    # Three slots: nobody can pay more than 0.5, whatever is bid.
    assert scale("adw_value", n=3, m=2, budgets=0.5) == 1.0


# --- choice: the dynamic program


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 20, 100])
def test_one_pick_of_the_best_is_the_secretary_problem(n):
    secretary = float(bcp.optimum(rampup.make("bcp", n=n).record_probs).value)
    assert choice.optimum(rampup.make("choice", n=n)).value == pytest.approx(secretary, rel=1e-13)


def test_known_values_of_the_secretary_problem():
    assert choice.optimum(rampup.make("choice", n=3)).value == pytest.approx(1 / 2, rel=1e-14)
    assert choice.optimum(rampup.make("choice", n=4)).value == pytest.approx(11 / 24, rel=1e-14)
    # Two picks: 1/e + e^(-3/2) in the limit (Gilbert and Mosteller).
    limit = math.exp(-1) + math.exp(-1.5)
    found = [choice.optimum(rampup.make("choice", n=n, k=2)).value for n in (100, 1000)]
    assert found[0] > found[1] > limit
    assert found[1] == pytest.approx(limit, abs=1e-3)


@pytest.mark.parametrize("payoff", ["best", [3.0, 2.0, 1.0], [0.0, 0.0, 1.0]])
def test_to_choose_all_is_worth_one(payoff):
    assert choice.optimum(rampup.make("choice", n=6, k=6, payoff=payoff)).value == pytest.approx(1.0, rel=1e-14)


def test_a_single_value_chosen_online_follows_the_known_recursion():
    """Uniform values, one pick: v_(h+1) = (1 + v_h^2) / 2 with h arrivals to come (Moser)."""
    value = 0.0
    for n in range(1, 30):
        value = (1 + value**2) / 2
        assert choice.optimum(rampup.make("choice", n=n, payoff="value")).value == pytest.approx(value, rel=1e-13)


@pytest.mark.parametrize("payoffs", [[1.0], [1.0, 0.5, 0.25], [0.0, 1.0], [0.3, 0.0, 0.7, 0.2]])
def test_expected_payoffs_are_the_hypergeometric_sum(payoffs):
    n = 9
    padded = np.pad(payoffs, (0, n - len(payoffs)))
    table = choice.expected_payoffs(padded)
    for i, rank in itertools.product(range(1, n + 1), repeat=2):
        ways = [math.comb(s - 1, rank - 1) * math.comb(n - s, i - rank) for s in range(1, n + 1)] if rank <= i else []
        total = sum(pay * way for pay, way in zip(padded, ways, strict=False)) / math.comb(n, i)
        assert table[i - 1, rank - 1] == pytest.approx(total, rel=1e-13, abs=1e-15)


def brute_force_choice(n, picks, payoffs):
    """The most that any player can earn on average over all n! orders, who knows no more than relative ranks."""
    orders = list(itertools.permutations(range(1, n + 1)))

    @cache
    def best(history, left):
        place = len(history)
        if left == 0 or place == n:
            return 0.0
        fitting = [order for order in orders if relative(order)[:place] == history]
        total = 0.0
        for rank in range(1, place + 2):
            own = [order for order in fitting if relative(order)[place] == rank]
            pays = sum(payoffs[order[place] - 1] if order[place] <= len(payoffs) else 0.0 for order in own) / len(own)
            after = (*history, rank)
            total += len(own) / len(fitting) * max(best(after, left), pays + best(after, left - 1))
        return total

    @cache
    def relative(order):
        return tuple(1 + sum(earlier < one for earlier in order[:place]) for place, one in enumerate(order))

    return best((), picks)


@pytest.mark.parametrize("payoff", [[1.0], [1.0, 0.5, 0.25], [0.0, 1.0], [0.2, 0.9, 0.4]])
@pytest.mark.parametrize(("n", "picks"), [(3, 1), (4, 2), (5, 4), (6, 2), (6, 3)])
def test_the_optimum_of_ranks_is_that_of_brute_force(n, picks, payoff):
    problem = rampup.make("choice", n=n, k=picks, payoff=payoff)
    wanted = brute_force_choice(n, picks, payoff) / float(problem.scale)
    assert choice.optimum(problem).value == pytest.approx(wanted, rel=1e-13)


def test_the_optimum_of_few_values_is_that_of_brute_force():
    sample = [1.0, 2.0, 5.0]

    def best(arrivals, left):
        if arrivals == 0 or left == 0:
            return 0.0
        stay, go = best(arrivals - 1, left), best(arrivals - 1, left - 1)
        return sum(max(stay, value + go) for value in sample) / len(sample)

    problem = rampup.make("choice", n=7, k=2, payoff="value", values={"kind": "empirical", "sample": sample})
    assert choice.optimum(problem).value == pytest.approx(best(7, 2) / 10.0, rel=1e-13)


@pytest.mark.parametrize(
    "values",
    [
        "uniform",
        "special",
        {"kind": "bernoulli", "prob": 0.3, "value": 2.0},
        {"kind": "histogram", "weights": [1, 0, 3, 2]},
        {"kind": "empirical", "sample": [0.5, 0.5, 3.0]},
    ],
    ids=str,
)
def test_mean_excess_is_that_of_fine_sums(values):
    distribution = rampup.make("choice", n=2, payoff="value", values=values).value_distribution
    prices = np.linspace(-0.5, 3.5, 41)
    found = choice.Pieces.of(distribution).mean_excess(prices)
    num_cells = 300_000
    drawn = np.asarray(distribution.quantile(jnp.asarray((np.arange(num_cells) + 0.5) / num_cells)))
    sums = [np.maximum(drawn - price, 0.0).mean() for price in prices]
    # A cell in which the quantile function jumps is off by at most its width times the jump, here at most 3.
    np.testing.assert_allclose(found, sums, atol=4 * 3 / num_cells)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", CHOICES)
def test_the_optimal_policy_earns_the_optimum_and_no_rule_more(name):
    problem = rampup.make("choice", **CHOICES[name])
    policies = {rule: policy_named(problem, rule) for rule in policies_of(rampup.Choice)}
    earned = outcomes(problem, policies, episodes=20_000)
    best = choice.optimum(problem).value
    margin = lambda rule: ERRORS * earned[rule].successes.std() / math.sqrt(20_000) + 1e-12
    assert abs(earned["optimal"].successes.mean() - best) <= margin("optimal")
    for rule in policies:
        assert earned[rule].successes.mean() <= best + margin(rule)
        np.testing.assert_allclose(earned[rule].collected, earned[rule].successes * float(problem.scale), rtol=1e-12)


def test_the_classical_rule_waits_and_takes_the_best_so_far():
    rule = policy_named(rampup.make("choice", n=20, k=2, payoff=[1.0, 0.5, 0.25]), "classical")
    takes = lambda arrival, rank: int(jnp.argmax(rule(jnp.asarray([arrival / 20, 1 / rank, 1.0])))) == 1
    # floor(20 / e) = 7 pass.
    assert [takes(7, 1), takes(8, 1), takes(8, 2), takes(8, 3)] == [False, True, True, False]
    rule = policy_named(rampup.make("choice", n=20, k=2), "classical")
    assert [takes(8, 1), takes(8, 2)] == [True, False]
    rule = policy_named(rampup.make("choice", n=20, k=5, payoff="value"), "classical")
    assert [int(jnp.argmax(rule(jnp.asarray([0.1, value, 1.0])))) for value in (0.74, 0.76)] == [0, 1]


def test_relative_ranks_are_uniform_and_independent():
    problem = rampup.make("choice", n=4)
    instances = jax.jit(jax.vmap(problem.draw))(jax.random.split(jax.random.key(3), 24_000))
    ranks = np.round(1 / np.asarray(instances.seen)).astype(int)
    _, counts = np.unique(ranks, axis=0, return_counts=True)
    assert len(counts) == 24
    # Multinomial with 24 equal cells.
    assert np.abs(counts - 1000).max() <= ERRORS * math.sqrt(24_000 * (1 / 24) * (23 / 24))


# --- value forms and hindsight


@pytest.mark.parametrize(("kind", "name", "parameters"), VALUE_FORMS, ids=IDS)
def test_hindsight_is_never_below_a_rule(kind, name, parameters):
    problem = rampup.make(kind, **parameters)
    keys = jax.random.split(jax.random.key(2), 40)
    instances = jax.jit(jax.vmap(problem.draw))(keys)
    ceiling = hindsight(problem, instances)
    # Both in hindsight and online a sum may pass a limit by rounding.
    assert 0 < ceiling.mean() <= 1 + SLACK
    uniforms = jax.random.uniform(jax.random.key(1), (40, problem.horizon), dtype=float)
    policies = [policy_named(problem, rule) for rule in policies_of(type(problem))]

    @jax.jit
    def returns(instances, uniforms):
        of_one = lambda fn, *one: jnp.sum(replay(problem, fn, *one).rewards)
        return [jax.vmap(partial(of_one, policy_fn))(instances, uniforms) for policy_fn in policies]

    for earned in returns(instances, uniforms):
        assert np.all(earned <= ceiling * (1 + 10 * SLACK) + 1e-12)
    if kind != "choice":
        np.testing.assert_allclose(hindsight_values(problem, instances), ceiling * float(problem.scale), rtol=1e-12)


def test_hindsight_of_choice_is_the_sum_of_the_best():
    problem = rampup.make("choice", n=6, k=2, payoff="value")
    instances = jax.jit(jax.vmap(problem.draw))(jax.random.split(jax.random.key(0), 30))
    wanted = np.sort(np.asarray(instances.values), axis=1)[:, -2:].sum(axis=1) / 2
    np.testing.assert_allclose(hindsight(problem, instances), wanted, rtol=1e-13)


def test_an_evaluation_says_whether_it_is_of_rates_or_of_values(called):
    code, output, _ = called("evaluate", "okd_value", "--set", "n=5", "--set", "B=1", "--policy", "greedy")
    assert code == 0
    assert "success rate" not in output
    assert "value" in output.splitlines()[0]
    code, output, _ = called("evaluate", "choice", "--set", "n=5", "--policy", "classical", "--optimum")
    assert "success rate" in output.splitlines()[0]
    best = choice.optimum(rampup.make("choice", n=5)).value
    assert f"{best:.7f} (exact)" in output


def test_hindsight_bounds_what_no_program_reaches():
    problem = rampup.make("okd_value", n=8, B=1.0)
    answer = evaluate(problem, {"greedy": policy_named(problem, "greedy")}, episodes=200, with_optimum=True)
    assert answer["optimum"]["method"] == "hindsight"
    assert answer["is_rate"] is False
    assert answer["policies"][0]["value"] <= answer["optimum"]["upper"]


# --- budgets


def test_budgets_of_one_change_nothing():
    one, listed, plain_one = (
        rampup.make("adw", n=3, m=6, V=2.0, **given) for given in ({"budgets": 1}, {"budgets": [1.0, 1.0, 1.0]}, {})
    )
    programs = [
        jax.make_jaxpr(lambda key, problem=problem: play(problem, eager(problem), key))
        for problem in (one, listed, plain_one)
    ]
    first, *others = (str(program(jax.random.key(0))) for program in programs)
    assert all(other == first for other in others)
    assert jax.tree.structure(one) == jax.tree.structure(plain_one)


def test_different_budgets_replay_as_the_plain_rules_say():
    budgets = [0.5, 1.0, 2.5]
    problem = rampup.make("adw", n=3, m=10, V=2.0, bids="special", budgets=budgets)
    keys = jax.random.split(jax.random.key(1), 300)
    episodes = jax.device_get(jax.jit(jax.vmap(lambda key: play(problem, eager(problem), key)))(keys))
    instances = jax.device_get(jax.jit(jax.vmap(lambda key: problem.draw(jax.random.split(key)[0])))(keys))
    for lane in range(len(keys)):
        seen, earned = plain.play_adw(instances.bids[lane].tolist(), 2.0, episodes.actions[lane].tolist(), budgets)
        np.testing.assert_allclose(episodes.observations[lane, : len(seen)], seen, rtol=1e-13, atol=1e-14)
        assert episodes.rewards[lane, : len(earned)].tolist() == earned
    assert 0 < episodes.rewards.sum() < len(keys)


def test_rules_see_the_part_of_a_budget_that_is_left():
    problem = rampup.make("adw", n=2, m=5, V=1.0, budgets=[4.0, 1.0])
    # A quarter of 4 is left, and 0.95 of 1.
    seen = jnp.asarray([0.5, 0.6, 0.5, 1.0, 0.95, 0.0])
    winner = lambda rule: int(jnp.argmax(policy_named(problem, rule)(seen)))
    assert 0.6 * (1 - math.exp(-0.25)) < 0.5 * (1 - math.exp(-0.95))
    assert [winner(rule) for rule in ("greedy", "best_fit", "msvv", "balance")] == [1, 1, 2, 2]


def test_a_target_beyond_the_budgets_is_refused():
    with pytest.raises(
        ValueError, match=r"`V` = 4 can never be reached: 2 budgets of 3.5 in all and 9 bids of at most"
    ):
        rampup.make("adw", n=2, m=9, V=4, budgets=[3.0, 0.5])
    rampup.make("adw", n=2, m=9, V=3.4, budgets=[3.0, 0.5])
    with pytest.raises(ValueError, match=r"`budgets` must be one number or a list of `n` = 2 of them, got 3\."):
        rampup.make("adw", n=2, m=9, V=1, budgets=[1, 1, 1])
    with pytest.raises(ValueError, match=r"`budgets\[1\]` must be a positive number, got 0\."):
        rampup.make("adw_value", n=2, m=9, budgets=[1, 0])


def brute_force_auction(budgets, slots, target, bids):
    """The chance of success by recursion over all bids, in whole units of money."""

    @cache
    def best(left, free):
        missing = target - (sum(budgets) - sum(free))
        if missing <= 0:
            return 1.0
        if left == 0:
            return 0.0
        total = 0.0
        for offers in itertools.product(bids, repeat=len(budgets)):
            paid = [
                best(left - 1, (*free[:i], free[i] - bid, *free[i + 1 :]))
                for i, bid in enumerate(offers)
                if bid <= free[i]
            ]
            total += max([best(left - 1, free), *paid])
        return total / len(bids) ** len(budgets)

    return best(slots, tuple(budgets))


@pytest.mark.parametrize(("budgets", "target"), [((5, 20), 14), ((10, 15), 17), ((3, 4, 12), 11)])
def test_the_optimum_of_different_budgets_is_that_of_brute_force(budgets, target):
    bids = {"kind": "empirical", "sample": [0.2, 0.5, 0.8]}
    problem = rampup.make("adw", n=len(budgets), m=3, V=target / 10, bids=bids, budgets=[one / 10 for one in budgets])
    found = adw.optimum(problem)
    wanted = brute_force_auction(budgets, 3, target, (2, 5, 8))
    assert 0 < wanted < 1
    assert found.lower == pytest.approx(wanted, rel=1e-12)
    assert found.upper == pytest.approx(wanted, rel=1e-12)


@pytest.mark.slow
def test_bounds_with_different_budgets_are_squeezed_by_lattices():
    """Bids in the middle of fiftieths: three of them are off by 0.03 together, in the budgets and in the target."""
    bids = {"kind": "empirical", "sample": ((np.arange(50) + 0.5) / 50).tolist()}
    found = adw.optimum(rampup.make("adw", n=2, m=3, V=1.1, budgets=[0.5, 1.5]))
    assert found.upper - found.lower <= 0.005
    # Who is off by so much against himself can play the game of uniform bids as the lattice's, and the other way round.
    harder = adw.optimum(rampup.make("adw", n=2, m=3, V=1.13, budgets=[0.47, 1.47], bids=bids))
    easier = adw.optimum(rampup.make("adw", n=2, m=3, V=1.07, budgets=[0.53, 1.53], bids=bids))
    assert harder.lower <= found.upper
    assert found.lower <= easier.upper
    assert easier.upper - harder.lower < 0.2


def test_smaller_sizes_take_the_first_budgets():
    problem = rampup.make("adw", n=4, m=24, V=3, budgets=[0.5, 1.0, 1.5, 2.0])
    sizes = {changes["n"]: one for changes, one in smaller_problems(problem)}
    assert sizes[2].budgets().tolist() == [0.5, 1.0]
    value_form = rampup.make("adw_value", n=4, m=24, budgets=[0.5, 1.0, 1.5, 2.0])
    assert {changes["n"]: one for changes, one in smaller_problems(value_form)}[2].budgets().tolist() == [0.5, 1.0]
    assert [changes for changes, _ in smaller_problems(rampup.make("okd_value", n=50, B=5))] == [
        {"n": 10, "B": 1.0},
        {"n": 15, "B": 1.5},
        {"n": 25, "B": 2.5},
    ]
    assert [changes["n"] for changes, _ in smaller_problems(rampup.make("choice", n=100, k=12))] == [30, 50]


def test_portraits_show_the_budget_there_is():
    problem = rampup.make("adw_value", n=2, m=6, budgets=[2.5, 1.0])
    picture = portrait(problem, policy_named(problem, "greedy"))
    assert picture["budget"][-1] == 2.5
    picture = portrait(rampup.make("okd_value", n=6, B=1), policy_named(rampup.make("okd_value", n=6, B=1), "greedy"))
    assert len(picture["slices"]) == 6


@pytest.mark.parametrize("parameters", [{"n": 30, "k": 3}, {"n": 12}, {"n": 20, "k": 2, "payoff": "value"}])
def test_portraits_of_choice_show_the_optimal_policy_beside(parameters):
    problem = rampup.make("choice", **parameters)
    picture = portrait(problem, policy_named(problem, "optimal"))
    own, optimal = np.array_split([one["accept"] for one in picture["slices"]], 2)
    assert [one["name"] for one in picture["slices"]][len(own) :] == [
        f"{one['name']}, optimal" for one in picture["slices"][: len(own)]
    ]
    assert len(own) == min(problem.num_picks, 2)
    np.testing.assert_array_equal(own, optimal)
    # Nothing is accepted first that will not be last: the least good arrival, and with time left only the best.
    assert optimal[-1][0][0] == 0
    assert optimal[-1][-2][-1] == 1
    assert optimal.shape[1:] == (len(picture["arrival"]), len(picture["marks"]))


# --- refusals


@pytest.mark.parametrize(
    ("kind", "parameters", "sentence"),
    [
        ("choice", {"n": 3, "k": 4}, "`k` must be at most 3, got 4."),
        ("choice", {"n": 3, "payoff": "worst"}, "unknown payoff 'worst': known are best, value."),
        ("choice", {"n": 2, "payoff": [1, 1, 1]}, "`payoff` must be best, value, or up to `n` = 2 numbers"),
        ("choice", {"n": 3, "payoff": [0, 0]}, "`payoff` must be best, value, or up to `n` = 3 numbers"),
        ("choice", {"n": 3, "payoff": [1, -1]}, "`payoff` must be best, value, or up to `n` = 3 numbers"),
        ("choice", {"n": 3, "values": "special"}, "`values` is for `payoff` value: where ranks pay it changes nothing"),
        ("choice", {"n": 5000}, "`n` must be at most 2000, got 5000."),
        ("okd_value", {"n": 3, "B": 0.1, "sizes": {"kind": "uniform", "low": 0.5}}, "nothing can be packed: items of"),
        ("adw_value", {"n": 2, "m": 3, "bids": {"kind": "empirical", "sample": [0]}}, "`bids` must not all be 0"),
    ],
)
def test_what_makes_no_sense_is_refused(kind, parameters, sentence):
    with pytest.raises(ValueError, match=r"\.$") as caught:
        rampup.make(kind, **parameters)
    assert str(caught.value).startswith(sentence)


# --- deciding

DECIDING = [
    ("choice", {"n": 12, "k": 2}, "monomial:3"),
    ("choice", {"n": 12}, "legendre:3"),
    ("choice", {"n": 12, "k": 3, "payoff": "value"}, "legendre:3"),
    ("okd_value", {"n": 12, "B": 1.5}, "monomial:2"),
    ("adw_value", {"n": 3, "m": 9, "budgets": [0.5, 1.0, 2.5]}, "monomial:3"),
    ("adw", {"n": 2, "m": 9, "V": 2.0, "bids": "special", "budgets": [0.5, 2.0]}, "monomial:2"),
]


def exported(path, kind, parameters, features):
    problem = rampup.make(kind, **parameters)
    found = as_features(features, problem)
    theta = np.random.default_rng(0).normal(size=found.size)
    write_policy(path, problem=kind, parameters=parameters, features=features, theta=theta, rules=rules_of(problem))
    return problem, LogLinear(problem, found, jnp.asarray(theta))


@pytest.mark.parametrize(("kind", "parameters", "features"), DECIDING)
def test_the_reader_gives_the_probabilities_of_the_library(tmp_path, kind, parameters, features):
    problem, policy = exported(tmp_path / "policy.json", kind, parameters, features)
    reader = rampup_policy.load(tmp_path / "policy.json")
    for seed in range(3):
        instance = problem.draw(streams.key(seed))
        chance, episode, answers = np.random.default_rng(seed), reader.begin(), []
        for arrival in arrivals_of(problem, instance):
            if not episode.is_over:
                answers.append(episode.decide(arrival, chance.random()))
        assert episode.is_over
        for answer, (action, probs, state, goes_on) in zip(
            answers, played(problem, policy, instance, answers), strict=True
        ):
            if action != 0 or kind == "choice":
                assert answer["probability"] == pytest.approx(probs[action], rel=1e-12, abs=1e-300)
            assert answer["state"]["is_over"] == (not goes_on)
            if kind == "choice":
                assert answer["state"]["picks_left"] == int(state.left)
            if kind.startswith("adw"):
                np.testing.assert_allclose(answer["state"]["budgets"], state.budgets, atol=1e-12)


@pytest.mark.parametrize(("kind", "parameters", "features"), DECIDING)
def test_the_reader_for_browsers_gives_the_same(tmp_path, kind, parameters, features, browser):
    problem, _ = exported(tmp_path / "policy.json", kind, parameters, features)
    arrivals = arrivals_of(problem, problem.draw(streams.key(1)))
    found, wanted = answers_of_both(tmp_path / "policy.json", arrivals, browser)
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        assert (one["number"], one["decision"]) == (other["number"], other["decision"])
        assert one["probability"] == pytest.approx(other["probability"], rel=1e-12)
        assert one["state"].keys() == other["state"].keys()
        for name, told in other["state"].items():
            assert one["state"][name] == pytest.approx(told, rel=1e-12)


def test_files_without_budgets_are_read_as_before(tmp_path):
    problem, _ = exported(tmp_path / "policy.json", "adw", {"n": 2, "m": 9, "V": 1.0}, "monomial:2")
    document = rampup_policy.read(tmp_path / "policy.json")
    arrivals = arrivals_of(problem, problem.draw(streams.key(1)))

    def answers(document):
        episode = rampup_policy.Policy(document).begin()
        return [episode.decide(arrival) for arrival in arrivals if not episode.is_over]

    rules = {name: value for name, value in document["rules"].items() if name != "budgets"}
    assert answers(document) == answers(json.loads(json.dumps(document | {"rules": rules})))


def test_equal_values_rank_in_the_order_they_came(tmp_path):
    exported(tmp_path / "policy.json", "choice", {"n": 12, "k": 2}, "monomial:3")
    problem = rampup_policy.load(tmp_path / "policy.json").problem
    seen = [problem.variables(1, value, {"values": [2.0, 3.0, 3.0], "left": 1})[0][1] for value in (4.0, 3.0, 1.0)]
    assert seen == [1.0, 1 / 3, 1 / 4]


# --- learning


def learned(kind, parameters, warmup, iterations):
    """A policy after a warm-up, by the usual features and learning rate, and what it earns beside its reference."""
    problem, small = rampup.make(kind, **parameters), rampup.make(kind, **(parameters | warmup))
    features = as_features(problem.usual_features, problem)
    settings = rampup.Settings(
        learning_rate=problem.usual_learning_rate,
        estimator="paired",
        record_every=iterations,
        effort=rampup.Effort(episodes=64, groups=2, replicates=2),
    )
    stages = rampup.scheme("curl", problem, small, iterations=iterations)
    result = rampup.train([rampup.Run("curl", stages, 0)], features, settings)[0]
    policies = {"learned": LogLinear(problem, features, jnp.asarray(result.theta))}
    for rule in policies_of(type(problem)):
        policies[rule] = policy_named(problem, rule)
    return problem, {name: one.successes for name, one in outcomes(problem, policies, episodes=EPISODES).items()}


EPISODES = 20_000


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("payoff", "part"), [("best", 0.95), pytest.param("value", 0.9, marks=pytest.mark.long)])
def test_choice_is_learned_nearly_to_the_optimum(payoff, part):
    problem, earned = learned("choice", {"n": 20, "k": 2, "payoff": payoff}, {"n": 8}, 300)
    margin = ERRORS * earned["learned"].std() / math.sqrt(EPISODES)
    best = choice.optimum(problem).value
    assert part * best - margin <= earned["learned"].mean() <= best + margin
    assert earned["learned"].mean() > earned["classical"].mean()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "parameters", "warmup", "rule"),
    [
        ("okd_value", {"n": 30, "B": 3.0}, {"n": 10, "B": 1.0}, "bang_per_buck"),
        ("adw_value", {"n": 3, "m": 6, "bids": "special", "budgets": [1.0, 1.0, 2.0]}, {"m": 4}, "greedy"),
    ],
)
def test_the_value_forms_are_learned_as_well_as_the_rule(kind, parameters, warmup, rule):
    _, earned = learned(kind, parameters, warmup, 300)
    difference = earned["learned"] - earned[rule]
    assert difference.mean() >= -ERRORS * difference.std() / math.sqrt(EPISODES)
    assert earned["learned"].mean() > 1.1 * earned["naive"].mean()
