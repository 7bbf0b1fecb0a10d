"""Classical rules for the three problems, as deterministic policies.

They are pytrees that can be called, not closures: a compiled program takes them as arguments.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from rampup.problems.okd import OKD, OKDInstance
from rampup.types import Action, Flag, LogProbs, Observation, Real


def surely(action: Action, num_actions: int) -> LogProbs:
    """ln of the probabilities of a policy that takes one action for sure."""
    return jnp.where(jnp.arange(num_actions) == action, 0.0, -jnp.inf)


class Threshold(eqx.Module):
    """Best choice: let `count` arrivals pass, then accept the first record."""

    horizon: int = eqx.field(static=True)
    count: Int[Array, ""]

    def __call__(self, observation: Observation) -> LogProbs:
        arrival = jnp.round(observation[0] * self.horizon).astype(int)
        return surely(((arrival > self.count) & (observation[1] > 0.5)).astype(int), 2)


class BangPerBuck(eqx.Module):
    """Online knapsack: accept an item whose value is at least `ratio` times its size (Kong et al., section 3.1)."""

    ratio: Float[Array, ""]

    def __call__(self, observation: Observation) -> LogProbs:
        return surely(_is_worth(observation[1], observation[2], self.ratio).astype(int), 2)


def _is_worth(size: Real, value: Real, ratio: Real | float) -> Flag:
    return value >= ratio * size


class Greedy(eqx.Module):
    """AdWords: give the slot to the highest bidder who can pay, or to nobody."""

    num_advertisers: int = eqx.field(static=True)

    def __call__(self, observation: Observation) -> LogProbs:
        bids, budgets = observation[1 : 1 + self.num_advertisers], observation[1 + self.num_advertisers : -1]
        payable = jnp.where(budgets >= bids, bids, -1.0)
        winner = jnp.where(jnp.max(payable) >= 0, jnp.argmax(payable) + 1, 0)
        return surely(winner, self.num_advertisers + 1)


def best_ratio(problem: OKD, *, episodes: int = 4000, seed: int = 0) -> float:
    """The ratio that collects the most value on average, found by ternary search on one set of instances."""
    instances = jax.vmap(problem.draw)(jax.random.split(jax.random.key(seed), episodes))
    mean_value = jax.jit(lambda ratio: jnp.mean(jax.vmap(lambda one: _collected_value(problem, one, ratio))(instances)))
    # The search runs over the angle of the ratio, because a ratio can be anything from 0 to infinity.
    low, high = 0.0, np.pi / 2
    while high - low > 1e-3:
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if mean_value(np.tan(left)) >= mean_value(np.tan(right)) else (left, high)
    return float(np.tan((low + high) / 2))


def _collected_value(problem: OKD, instance: OKDInstance, ratio: Real | float) -> Real:
    """What the rule collects of an instance when it does not stop at the target."""

    def take(used, item):
        size, value = item
        takes = _is_worth(size, value, ratio) & (used + size <= problem.budget)
        return jnp.where(takes, used + size, used), jnp.where(takes, value, 0.0)

    return jnp.sum(jax.lax.scan(take, jnp.zeros_like(instance.sizes[0]), (instance.sizes, instance.values))[1])
