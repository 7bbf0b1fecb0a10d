"""Classical rules as policies, played in the real problems."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rampup
from rampup.episodes import play, replay
from rampup.evaluation import outcomes
from rampup.exact import bcp
from rampup.references import default_reference, policy_named
from rampup.references.named import rules_of
from rampup.references.rules import AcceptEverything, BangPerBuck, SlotRule, TakeWhatFits, best_ratio, highest_bid


def success_rate(problem, policy_fn, num_episodes=20_000):
    keys = jax.random.split(jax.random.key(0), num_episodes)
    earned = jax.jit(jax.vmap(lambda key: jnp.sum(play(problem, policy_fn, key).rewards)))(keys)
    return float(earned.mean()), float(earned.std() / np.sqrt(num_episodes))


def test_the_reference_of_bcp_is_optimal():
    problem = rampup.make("bcp", n=60, series="random:2")
    best = bcp.optimum(problem.record_probs)
    table = bcp.tabulated(default_reference(problem), 60)
    assert np.array_equal(table.log_accept, best.policy.log_accept)
    rate, error = success_rate(problem, default_reference(problem))
    assert abs(rate - float(best.value)) <= 4 * error


def test_bang_per_buck_earns_about_039_on_the_uniform_knapsack():
    problem = rampup.make("okd", n=100, B=10, V=25)
    ratio = best_ratio(problem)
    rate, error = success_rate(problem, BangPerBuck(jnp.asarray(ratio)))
    assert rate == pytest.approx(0.39, abs=0.01 + 4 * error)
    accept_all, _ = success_rate(problem, BangPerBuck(jnp.asarray(0.0)), 2000)
    assert accept_all < 0.05


def test_greedy_gives_the_slot_to_the_highest_bidder_who_can_pay():
    rule = SlotRule(3, highest_bid)
    seen = lambda bids, budgets: jnp.asarray([0.5, *bids, *budgets, 0.1])
    assert jnp.argmax(rule(seen([0.2, 0.9, 0.5], [1.0, 1.0, 1.0]))) == 2
    assert jnp.argmax(rule(seen([0.2, 0.9, 0.5], [1.0, 0.8, 0.5]))) == 3
    assert jnp.argmax(rule(seen([0.2, 0.9, 0.5], [0.1, 0.8, 0.4]))) == 0


PROBLEMS = {
    "bcp": rampup.make("bcp", n=10),
    "okd": rampup.make("okd", n=5, B=1, V=1.5),
    "adw": rampup.make("adw", n=3, m=5, V=2.4, bids="special"),
    "choice": rampup.make("choice", n=10, k=2),
    "okd_value": rampup.make("okd_value", n=5, B=1),
    "adw_value": rampup.make("adw_value", n=3, m=5, bids="special"),
}
ALL_POLICIES = [(kind, name) for kind, problem in rampup.PROBLEMS.items() for name in rules_of(problem)]


def test_every_problem_has_policies_of_its_own():
    assert all(len(known) > 1 and "naive" in known for known in map(rules_of, rampup.PROBLEMS.values()))


@pytest.mark.parametrize(("kind", "name"), ALL_POLICIES, ids=[":".join(entry) for entry in ALL_POLICIES])
def test_every_policy_by_name_has_probabilities_and_plays(kind, name):
    problem = PROBLEMS[kind]
    policy_fn = policy_named(problem, "threshold:3" if name == "threshold" else name)
    low, high = map(np.asarray, problem.bounds())
    observations = np.random.default_rng(0).uniform(low, high, size=(500, len(low)))
    log_probs = jax.jit(jax.vmap(policy_fn))(jnp.asarray(observations))
    assert log_probs.shape == (500, problem.num_actions)
    assert log_probs.dtype == float
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=1), 1.0, rtol=1e-14)
    played = outcomes(problem, {name: policy_fn}, episodes=4096)[name]
    if kind.endswith("_value"):
        assert np.all((played.successes >= 0) & (played.successes <= 1))
        assert len(set(played.successes)) > 2
    else:
        assert set(played.successes) == {0.0, 1.0}
    assert np.all((played.collected >= 0) & np.isfinite(played.collected))


def chooser(kind, name):
    policy_fn = policy_named(PROBLEMS[kind], name)
    return lambda *seen: int(jnp.argmax(policy_fn(jnp.asarray(seen))))


# Bids and budgets of three advertisers, and who gets the slot (0 is nobody), rule by rule.
SLOTS = [
    # All budgets are full: the bid decides; balance takes the first.
    ([0.2, 0.9, 0.5], [1.0, 1.0, 1.0], {"greedy": 2, "best_fit": 2, "msvv": 2, "balance": 1}),
    # The second fits to the last penny; the first has hardly spent; 0.5 (1 - e^-0.9) is the greatest of MSVV.
    ([0.2, 0.6, 0.5], [1.0, 0.6, 0.9], {"greedy": 2, "best_fit": 2, "msvv": 3, "balance": 1}),
    # The highest bidder cannot pay.
    ([0.2, 0.9, 0.5], [1.0, 0.8, 0.6], {"greedy": 3, "best_fit": 3, "msvv": 3, "balance": 1}),
    # Whoever bids nothing gets nothing, however large the budget.
    ([0.0, 0.1, 0.0], [1.0, 0.2, 1.0], {"greedy": 2, "best_fit": 2, "msvv": 2, "balance": 2}),
    # The tightest fit is not the highest bid.
    ([0.3, 0.4, 0.1], [0.3, 1.0, 0.5], {"greedy": 2, "best_fit": 1, "msvv": 2, "balance": 2}),
    # Nobody can pay; nobody bids; nobody has anything left.
    ([0.5, 0.9, 0.4], [0.4, 0.8, 0.3], {"greedy": 0, "best_fit": 0, "msvv": 0, "balance": 0}),
    ([0.0, 0.0, 0.0], [1.0, 0.5, 0.0], {"greedy": 0, "best_fit": 0, "msvv": 0, "balance": 0}),
    ([0.4, 0.4, 0.4], [0.0, 0.0, 0.0], {"greedy": 0, "best_fit": 0, "msvv": 0, "balance": 0}),
]


@pytest.mark.parametrize("rule", ["greedy", "best_fit", "msvv", "balance"])
def test_the_slot_goes_to_whom_the_rule_says(rule):
    choose = chooser("adw", rule)
    for bids, budgets, winners in SLOTS:
        # Neither the time nor the revenue matters to any of them.
        for fraction, revenue in ((0.2, 0.0), (1.0, 0.9)):
            assert choose(fraction, *bids, *budgets, revenue) == winners[rule], (bids, budgets)


def test_the_slot_goes_to_the_one_a_plain_search_finds():
    scores = {
        "greedy": lambda bid, budget: bid,
        "best_fit": lambda bid, budget: -(budget - bid),
        "msvv": lambda bid, budget: bid * (1 - math.exp(-budget)),
        "balance": lambda bid, budget: budget,
    }
    generator = np.random.default_rng(1)
    bids, budgets = generator.random((2, 300, 3))
    observations = np.column_stack([np.full(300, 0.4), bids, budgets, np.full(300, 0.1)])
    for rule, score in scores.items():
        found = jax.vmap(policy_named(PROBLEMS["adw"], rule))(jnp.asarray(observations))
        for row, (offer, left) in enumerate(zip(bids, budgets, strict=True)):
            able = [i for i in range(3) if left[i] >= offer[i]]
            winner = 1 + max(able, key=lambda i: score(offer[i], left[i])) if able else 0
            assert np.argmax(found[row]) == winner


def test_knapsack_rules_choose_as_they_say():
    ratio = chooser("okd", "bang_per_buck:1.5")
    # The ratio is met exactly, passed and missed; a size of nothing is worth any value.
    assert [ratio(0.2, 0.5, value, 0.0, 0.0) for value in (0.75, 0.8, 0.7)] == [1, 1, 0]
    assert ratio(0.2, 0.0, 0.0, 0.0, 0.0) == 1
    assert chooser("okd", "bang_per_buck:0")(0.2, 1.0, 0.0, 0.0, 0.0) == 1
    greedy = chooser("okd", "greedy")
    assert [greedy(0.2, 0.5, 0.1, used, 0.0) for used in (0.0, 0.5, 0.6)] == [1, 1, 0]
    assert chooser("okd", "accept_everything")(0.2, 1.0, 0.0, 1.0, 0.0) == 1


def earned(problem, *policies):
    return outcomes(problem, dict(enumerate(policies)), episodes=4096).values()


def test_to_take_what_fits_is_to_accept_everything():
    # The bag itself refuses what does not fit.
    for problem in (PROBLEMS["okd"], rampup.make("okd", n=5, B=1.7, V=2.5, values={"kind": "special"})):
        some, all_items = earned(problem, TakeWhatFits(problem.budget), AcceptEverything())
        assert np.array_equal(some.successes, all_items.successes)
        assert np.array_equal(some.collected, all_items.collected)


def test_to_take_what_fits_is_to_accept_everything_even_to_the_last_penny():
    tenths = {"kind": "empirical", "sample": [0.1, 0.2, 0.3, 0.4, 0.7]}
    problem = rampup.make("okd", n=8, B=0.9, V=2.0, sizes=tenths, values=tenths)
    some, all_items = earned(problem, TakeWhatFits(problem.budget), AcceptEverything())
    assert np.array_equal(some.collected, all_items.collected)


def test_the_ratio_of_most_successes_has_most_successes_where_it_was_sought():
    problem = PROBLEMS["okd"]
    instances = jax.vmap(problem.draw)(jax.random.split(jax.random.key(0), 4000))

    @jax.jit
    def successes(ratio):
        uniforms = jnp.zeros(problem.horizon)
        return jax.vmap(lambda one: jnp.sum(replay(problem, BangPerBuck(ratio), one, uniforms).rewards))(instances)

    sought, of_value = (policy_named(problem, name).ratio for name in ("bang_per_buck_success", "bang_per_buck"))
    best = successes(sought)
    # The search ends when it knows the angle to a thousandth: the share of instances decided by as much.
    nearby = [successes(jnp.tan(jnp.arctan(sought) + shift)) for shift in (-1e-3, 1e-3)]
    tolerance = max(float(jnp.mean(jnp.abs(best - other))) for other in nearby)
    assert tolerance < 0.01
    assert best.mean() >= successes(of_value).mean() - tolerance
    for angle in np.linspace(0.0, np.pi / 2, 50)[:-1]:
        assert best.mean() >= successes(jnp.tan(angle)).mean() - tolerance


@pytest.mark.parametrize("goal", ["value", "success"])
def test_the_best_ratio_does_not_depend_on_the_currency(goal):
    dollars = rampup.make("okd", n=20, B=2, V=5)
    cents = rampup.make("okd", n=20, B=2, V=500, values={"kind": "uniform", "high": 100})
    policies = (BangPerBuck(jnp.asarray(ratio)) for ratio in (best_ratio(dollars, goal), best_ratio(cents, goal) / 100))
    one, other = earned(dollars, *policies)
    difference = one.successes - other.successes
    assert abs(difference.mean()) <= 4 * difference.std() / np.sqrt(4096)


def test_a_threshold_is_a_number_or_a_part_of_the_arrivals():
    problem = rampup.make("bcp", n=100)
    for texts, count in ((("37", "0.37", "37/100"), 37), (("1", "0.01"), 1), (("1.0", "100", "1/1"), 100)):
        rules = [policy_named(problem, f"threshold:{text}") for text in texts]
        assert [int(rule.count) for rule in rules] == [count] * len(texts)
        tables = [bcp.tabulated(rule, 100) for rule in rules]
        for table in tables:
            assert np.array_equal(table.log_accept, bcp.threshold_policy(100, count).log_accept)


def test_the_odds_rule_is_optimal_on_random_series():
    generator = np.random.default_rng(3)
    series = generator.random((200, 30)) ** generator.choice([0.3, 1.0, 4.0], size=(200, 1))
    series[:, 0] = 1.0
    problem = rampup.make("bcp", n=30)
    with_series = lambda probs: eqx.tree_at(lambda one: one.record_probs, problem, probs)
    by_program = jax.jit(jax.vmap(lambda probs: policy_named(with_series(probs), "optimal").count))(jnp.asarray(series))
    by_odds = [int(policy_named(with_series(probs), "odds").count) for probs in series]
    assert np.array_equal(by_program, by_odds)
    assert len(set(by_odds)) > 10


BAD_NAMES = [
    ("bcp", "threshold", "the policy 'threshold' needs a number, as in 'threshold:37' or 'threshold:0.37'."),
    ("bcp", "threshold:", "the policy 'threshold' needs a number"),
    ("bcp", "threshold:11", "`threshold` must be at most 10, got 11."),
    ("bcp", "threshold:-1", "the threshold q must be a number in [0, 1], got '-1'."),
    ("bcp", "threshold:1.5", "the threshold q must be a number in [0, 1], got '1.5'."),
    ("bcp", "threshold:half", "the threshold q must be a number in [0, 1], got 'half'."),
    ("bcp", "threshold:1/0", "the threshold q must be a number in [0, 1], got '1/0'."),
    ("bcp", "optimal:3", "the policy 'optimal' takes nothing after its name, got 'optimal:3'."),
    ("adw", "greedy:", "the policy 'greedy' takes nothing after its name, got 'greedy:'."),
    (
        "bcp",
        "greedy",
        "'greedy' is a policy of okd, adw, okd_value and adw_value, not of bcp, whose own are optimal,",
    ),
    ("okd", "optimal", "'optimal' is a policy of bcp and choice, not of okd, whose own are bang_per_buck,"),
    ("adw", "bang_per_buck:2", "'bang_per_buck' is a policy of okd and okd_value, not of adw, whose own are greedy,"),
    ("bcp", "optimum", "unknown policy of bcp 'optimum': did you mean 'optimal'? known are optimal, odds,"),
    ("adw", "mssv", "unknown policy of adw 'mssv': did you mean 'msvv'?"),
    ("okd", "", "unknown policy of okd '': known are bang_per_buck,"),
    ("okd", "bang_per_buck:x", "`bang_per_buck:RATIO` must be a number of at least 0, not 'x'"),
    ("okd", "bang_per_buck:-1", "`bang_per_buck:RATIO` must be a number of at least 0, not '-1'"),
    ("okd", "bang_per_buck:inf", "`bang_per_buck:RATIO` must be a number of at least 0, not 'inf'"),
    ("okd", "bang_per_buck:nan", "`bang_per_buck:RATIO` must be a number of at least 0, not 'nan'"),
    ("bcp", "absent.json", "cannot read the policy file 'absent.json': No such file or directory."),
]


@pytest.mark.parametrize(("kind", "text", "sentence"), BAD_NAMES, ids=[":".join(entry[:2]) for entry in BAD_NAMES])
def test_a_bad_name_is_refused_with_a_sentence(kind, text, sentence):
    with pytest.raises(ValueError, match=r"\.$") as caught:
        policy_named(PROBLEMS[kind], text)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_a_name_too_long_for_a_file_is_an_unknown_policy():
    with pytest.raises(ValueError, match="unknown policy of bcp"):
        policy_named(PROBLEMS["bcp"], "x" * 300)
