"""Online set cover: each element that arrives must be in a set that was bought; what is bought stays bought."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

import rampup
from rampup import arguments

FAMILIES = (2, 4, 8)
"""How many sets each family has; the sets of a family are of the same size and hold every element once."""

FAMILY = np.repeat(np.arange(len(FAMILIES)), FAMILIES)
"""The family of each set."""

PLACE = np.concatenate([np.arange(size, dtype=float) for size in FAMILIES])
"""The place of each set in its family."""

SHARES = 1 / np.repeat(np.array(FAMILIES, float), FAMILIES)
"""Which part of all elements each set holds."""


class Instance(NamedTuple):
    """What each set costs, and for each element which sets it is in."""

    costs: jax.Array
    is_in: jax.Array


class State(NamedTuple):
    """How many elements came, which sets are bought, and what was paid for them."""

    position: jax.Array
    is_bought: jax.Array
    paid: jax.Array


class SetCover(rampup.Problem):
    """n elements, each in one set of three families; a set that holds one element in g costs up to 1/g.

    The action is the family whose set is bought, if the element is in no set that is bought already. The return is the
    part of 3, which is the most that all sets together may cost, that was not spent.
    """

    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    shared_variables = (0,)
    size_parameters = ("n",)
    usual_learning_rate = 10.0
    rules = {"cost_effective": lambda problem: CostEffective(), "cheapest": lambda problem: Cheapest()}

    def __init__(self, n: int = 20):
        self.horizon, self.num_actions = arguments.integer("n", n, least=1), len(FAMILIES)

    def draw(self, key):
        cost_key, element_key = jax.random.split(key)
        costs = jax.random.uniform(cost_key, SHARES.shape) * SHARES
        chances = jax.random.uniform(element_key, (self.horizon, len(FAMILIES)))
        # An element is in the set of a family into whose part of [0, 1) its number falls.
        parts = jnp.floor(chances[:, FAMILY] / SHARES[None, :])
        return Instance(costs, parts == PLACE[None, :])

    def init(self, instance):
        return State(jnp.zeros((), dtype=int), jnp.zeros_like(instance.is_in[0]), jnp.zeros_like(instance.costs[0]))

    def observe(self, instance, state):
        is_in, clock = instance.is_in[state.position], (state.position + 1).astype(float) / self.horizon
        costs = by_family(jnp.where(is_in, instance.costs, 0.0))
        missed = 1 - by_family(jnp.where(state.is_bought, SHARES, 0.0))
        # Families cut the elements across each other: what two of them miss is the product of what each does.
        news = jnp.stack([jnp.prod(jnp.delete(missed, k)) / size for k, size in enumerate(FAMILIES)])
        return jnp.where(
            jnp.any(is_in & state.is_bought),
            jnp.append(clock, jnp.zeros(2 * len(FAMILIES))),
            jnp.concatenate([clock[None], costs, news]),
        )

    def variables(self, observation):
        costs, news = jnp.split(observation[1:], 2)
        return jnp.stack([jnp.full_like(costs, observation[0]), costs, news], axis=1)

    def step(self, instance, state, action):
        is_in = instance.is_in[state.position]
        is_needed = ~jnp.any(is_in & state.is_bought)
        buys = is_in & is_needed & (jnp.asarray(FAMILY, dtype=action.dtype) == action)
        paid = state.paid + jnp.sum(jnp.where(buys, instance.costs, 0.0))
        goes_on = state.position + 1 < self.horizon
        return State(state.position + 1, state.is_bought | buys, paid), jnp.where(goes_on, 0.0, 1 - paid / 3), goes_on

    def bounds(self):
        return [0.0] * 7, [1.0, *(1 / size for size in FAMILIES * 2)]

    def degrees(self, degree):
        return (degree,) * 3

    def in_hindsight(self, instance):
        """Exact: the cheapest cover of all that arrives, which can be bought as it is needed."""
        covers = LinearConstraint(instance.is_in.astype(float), lb=1)
        whole, exactly = np.ones(len(SHARES)), {"mip_rel_gap": 0.0}
        solved = milp(instance.costs, integrality=whole, bounds=Bounds(0, 1), constraints=covers, options=exactly)
        return 1 - instance.costs @ np.round(solved.x) / 3


def by_family(numbers):
    """The sum over the sets of each family."""
    return jnp.stack([jnp.sum(jnp.where(k == FAMILY, numbers, 0.0)) for k in range(len(FAMILIES))])


class CostEffective(eqx.Module):
    """Chvatal's greedy rule, online: the set that costs least for each new element that it holds."""

    def __call__(self, observation):
        costs, news = jnp.split(observation[1:], 2)
        return surely(jnp.argmin(costs / jnp.maximum(news, 1e-9)), len(costs))


class Cheapest(eqx.Module):
    """The set that costs least."""

    def __call__(self, observation):
        costs, _ = jnp.split(observation[1:], 2)
        return surely(jnp.argmin(costs), len(costs))


def surely(action, num_actions):
    """ln of the probabilities of a policy that takes one action for sure."""
    return jnp.where(jnp.arange(num_actions) == action, 0.0, -jnp.inf)
