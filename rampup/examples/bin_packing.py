"""Online bin packing with few open bins: each item goes into one of them, or takes the place of one that is closed."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

import rampup
from rampup import arguments


class State(NamedTuple):
    """How many items came, and how full each open bin is."""

    position: jax.Array
    levels: jax.Array


class BinPacking(rampup.Problem):
    """n items of whole sizes, k open bins; an item that does not fit has its bin closed and opens the next.

    The return is the number of items that opened no bin, as a part of n.
    """

    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    capacity: int = eqx.field(static=True)
    smallest: int = eqx.field(static=True)
    largest: int = eqx.field(static=True)
    shared_variables = (0, 1)
    size_parameters = ("n",)
    usual_learning_rate = 30.0
    rules = {"best_fit": lambda problem: BestFit(), "first_fit": lambda problem: FirstFit()}

    def __init__(self, n: int = 24, k: int = 4, capacity: int = 20, smallest: int = 6, largest: int = 10):
        self.horizon = arguments.integer("n", n, least=1)
        self.num_actions = arguments.integer("k", k, least=2)
        self.capacity = arguments.integer("capacity", capacity, least=1)
        self.largest = arguments.integer("largest", largest, least=1, most=capacity)
        self.smallest = arguments.integer("smallest", smallest, least=1, most=largest)

    def draw(self, key):
        return jax.random.randint(key, (self.horizon,), self.smallest, self.largest + 1, dtype=int)

    def init(self, instance):
        return State(jnp.zeros((), dtype=int), jnp.zeros(self.num_actions, dtype=int))

    def observe(self, instance, state):
        clock = (state.position + 1).astype(float) / self.horizon
        numbers = jnp.append(instance[state.position], state.levels)
        return jnp.append(clock, numbers.astype(float) / self.capacity)

    def variables(self, observation):
        clock, size, levels = observation[0], observation[1], observation[2:]
        fits, room = room_left(size, levels)
        return jnp.stack([jnp.full_like(room, clock), jnp.full_like(room, size), room, fits.astype(room.dtype)], axis=1)

    def step(self, instance, state, action):
        size = instance[state.position]
        is_chosen = jnp.arange(self.num_actions, dtype=action.dtype) == action
        fits = state.levels + size <= self.capacity
        levels = jnp.where(is_chosen, jnp.where(fits, state.levels + size, size), state.levels)
        opens = jnp.any(is_chosen & ((state.levels == 0) | ~fits))
        goes_on = state.position + 1 < self.horizon
        return State(state.position + 1, levels), jnp.where(opens, 0.0, 1 / self.horizon), goes_on

    def bounds(self):
        return [0.0] * (2 + self.num_actions), [1.0] * (2 + self.num_actions)

    def degrees(self, degree):
        return (2, degree, degree, 2)

    def in_hindsight(self, instance):
        """A bound (Martello and Toth): large items share no bin, and middling ones need the room that these leave."""
        capacity, num_bins = self.capacity, 0
        for least in range(capacity // 2 + 1):
            large = instance[instance > capacity - least]
            over_half = instance[(instance > capacity / 2) & (instance <= capacity - least)]
            rest = instance[(instance >= least) & (instance <= capacity / 2)]
            lacks = rest.sum() + over_half.sum() - capacity * len(over_half)
            num_bins = max(num_bins, len(large) + len(over_half) + max(0, -(-lacks // capacity)))
        return 1 - num_bins / self.horizon


def room_left(size, levels):
    """Whether an item fits into each bin, and the room that is left there: after it, or what is thrown away."""
    # Whole numbers over the capacity: sums of them are off by far less than one of them.
    fits = levels + size <= 1 + 1e-4
    return fits, jnp.maximum(1 - levels - jnp.where(fits, size, 0.0), 0.0)


class BestFit(eqx.Module):
    """The fullest bin that the item fits into; if it fits nowhere, the fullest is closed."""

    def __call__(self, observation):
        fits, room = room_left(observation[1], observation[2:])
        return surely(jnp.argmin(room + jnp.where(fits, 0.0, 2.0)), len(room))


class FirstFit(eqx.Module):
    """The first bin that the item fits into; if it fits nowhere, the first is closed."""

    def __call__(self, observation):
        fits, room = room_left(observation[1], observation[2:])
        return surely(jnp.argmax(fits), len(room))


def surely(action, num_actions):
    """ln of the probabilities of a policy that takes one action for sure."""
    return jnp.where(jnp.arange(num_actions) == action, 0.0, -jnp.inf)
