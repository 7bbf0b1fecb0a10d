"""Classical rules, as policies.

They are pytrees that can be called, not closures: a compiled program takes them as arguments.
"""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from rampup.problems.knapsack import Knapsack, OKDInstance
from rampup.problems.okd import OKD
from rampup.types import Action, Flag, LogProbs, Observation, Real


def surely(action: Action, num_actions: int) -> LogProbs:
    """ln of the probabilities of a policy that takes one action for sure."""
    return jnp.where(jnp.arange(num_actions) == action, 0.0, -jnp.inf)


class Naive(eqx.Module):
    """Every action with the same probability, whatever is seen."""

    num_actions: int = eqx.field(static=True)

    def __call__(self, observation: Observation) -> LogProbs:
        return jnp.full(self.num_actions, -jnp.log(float(self.num_actions)))


class Threshold(eqx.Module):
    """Best choice: let `count` arrivals pass, then accept the first record."""

    horizon: int = eqx.field(static=True)
    count: Int[Array, ""]

    def __call__(self, observation: Observation) -> LogProbs:
        arrival = jnp.round(observation[0] * self.horizon).astype(int)
        return surely(((arrival > self.count) & (observation[1] > 0.5)).astype(int), 2)


class AmongTheBest(eqx.Module):
    """Choice: let `count` arrivals pass, then accept what ranks among the best `num_ranks` so far."""

    horizon: int = eqx.field(static=True)
    count: Int[Array, ""]
    num_ranks: Int[Array, ""]

    def __call__(self, observation: Observation) -> LogProbs:
        arrival = jnp.round(observation[0] * self.horizon).astype(int)
        # What is seen is one over the rank.
        is_among = observation[1] * self.num_ranks >= 1 - 1e-9
        return surely(((arrival > self.count) & is_among).astype(int), 2)


class AtLeast(eqx.Module):
    """Choice: accept a value of at least so much."""

    least: Float[Array, ""]

    def __call__(self, observation: Observation) -> LogProbs:
        return surely((observation[1] >= self.least).astype(int), 2)


class AcceptEverything(eqx.Module):
    """Accept or reject: always accept, fit or not."""

    def __call__(self, observation: Observation) -> LogProbs:
        return surely(jnp.asarray(1), 2)


class TakeWhatFits(eqx.Module):
    """Online knapsack: accept every item that still fits."""

    budget: Float[Array, ""]

    def __call__(self, observation: Observation) -> LogProbs:
        # What is used is seen as a part of the budget, rounded: where that hides a fit, the problem itself decides.
        fits = observation[3] * self.budget + observation[1] <= self.budget * (1 + 1e-9)
        return surely(fits.astype(int), 2)


class BangPerBuck(eqx.Module):
    """Online knapsack: accept an item whose value is at least `ratio` times its size (Kong et al., section 3.1)."""

    ratio: Float[Array, ""]

    def __call__(self, observation: Observation) -> LogProbs:
        return surely(_is_worth(observation[1], observation[2], self.ratio).astype(int), 2)


def _is_worth(size: Real, value: Real, ratio: Real | float) -> Flag:
    return value >= ratio * size


Goal = Literal["value", "success"]


def best_ratio(problem: Knapsack, goal: Goal = "value", *, episodes: int = 4000, seed: int = 0) -> float:
    """The ratio that collects the most value, or succeeds most often, on average over one set of instances."""
    instances = jax.vmap(problem.draw)(jax.random.split(jax.random.key(seed), episodes))

    # In units of value per size, whatever those are.
    unit = jnp.mean(instances.values) / jnp.maximum(jnp.mean(instances.sizes), jnp.finfo(float).tiny)

    def score(angle):
        collected = jax.vmap(lambda one: _collected_value(problem, one, unit * jnp.tan(angle)))(instances)
        if goal == "value":
            return jnp.mean(collected)
        assert isinstance(problem, OKD), "only a problem with a target can succeed"
        return jnp.mean(collected >= problem.target)

    # The search runs over the angle of the ratio, because a ratio can be anything from 0 to infinity. A first look at
    # the whole range brackets the best, which success needs: it is flat at zero far from it.
    angles = np.linspace(0.0, np.pi / 2, 33)[:-1]
    score_of = jax.jit(score)
    best = int(np.argmax([score_of(angle) for angle in angles]))
    low, high = angles[max(best - 1, 0)], angles[min(best + 1, len(angles) - 1)]
    while high - low > 1e-3:
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if score_of(left) >= score_of(right) else (left, high)
    return float(unit * np.tan((low + high) / 2))


def _collected_value(problem: Knapsack, instance: OKDInstance, ratio: Real | float) -> Real:
    """What the rule collects of an instance when it does not stop at the target."""

    def take(used, item):
        size, value = item
        takes = _is_worth(size, value, ratio) & (used + size <= problem.budget)
        return jnp.where(takes, used + size, used), jnp.where(takes, value, 0.0)

    return jnp.sum(jax.lax.scan(take, jnp.zeros_like(instance.sizes[0]), (instance.sizes, instance.values))[1])


class SlotRule(eqx.Module):
    """AdWords: give the slot to the advertiser who can pay and has the best score, or to nobody if nobody can."""

    num_advertisers: int = eqx.field(static=True)
    score_fn: Callable[[Array, Array, Array], Array] = eqx.field(static=True)
    """Of bids, of what is left of the budgets and of the part that this is of them, one number per advertiser."""
    full_budgets: Float[Array, " advertiser"] | None = None
    """Nothing where all are 1."""

    def __call__(self, observation: Observation) -> LogProbs:
        ends = 1 + self.num_advertisers, 1 + 2 * self.num_advertisers
        bids, budgets = observation[1 : ends[0]], observation[ends[0] : ends[1]]
        parts = budgets if self.full_budgets is None else budgets / self.full_budgets
        scores = jnp.where((budgets >= bids) & (bids > 0), self.score_fn(bids, budgets, parts), -jnp.inf)
        winner = jnp.where(jnp.max(scores) > -jnp.inf, jnp.argmax(scores) + 1, 0)
        return surely(winner, self.num_advertisers + 1)


def highest_bid(bids: Array, budgets: Array, parts: Array) -> Array:
    """Greedy."""
    return bids


def tightest_fit(bids: Array, budgets: Array, parts: Array) -> Array:
    """Best fit: the less is left after paying, the better."""
    return bids - budgets


def largest_budget(bids: Array, budgets: Array, parts: Array) -> Array:
    """Balance (Kalyanasundaram and Pruhs): whoever has spent the least part of its budget."""
    return parts


def discounted_bid(bids: Array, budgets: Array, parts: Array) -> Array:
    """MSVV (Mehta, Saberi, Vazirani and Vazirani): the bid times 1 - e^-(the part of the budget that is left)."""
    return bids * (1 - jnp.exp(-parts))
