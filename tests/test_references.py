"""Classical rules as policies, played in the real problems."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rampup
from rampup.episodes import play
from rampup.exact import bcp
from rampup.references import default_reference
from rampup.references.rules import BangPerBuck, SlotRule, best_ratio, highest_bid


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


def test_a_problem_without_a_rule_says_so():
    with pytest.raises(ValueError, match="`reference` must be given for a problem of type object"):
        default_reference(object())
