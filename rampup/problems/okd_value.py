"""OKD in value form: fill a bag of size B with as much value as can be had; there is no target."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from rampup import arguments
from rampup.problems.base import MOST_ARRIVALS, Problem
from rampup.problems.distributions import Distribution
from rampup.problems.okd import OKDInstance, as_items, draw_items, highest_items, most_items
from rampup.problems.rows import TrainingRows
from rampup.types import Action, Flag, Key, Observation, Reward, Variables


class OKDValueState(NamedTuple):
    """The position of the present item, and the size of what is in the bag."""

    position: Int[Array, ""]
    used: Float[Array, ""]


class OKDValue(Problem):
    """n items with independent sizes and values, budget B; an item pays its value, as a part of the most there is."""

    size_parameters = ("n", "B")
    usual_learning_rate = 3.0
    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    budget: Float[Array, ""]
    scale: Float[Array, ""]
    """The value of as many items as can ever fit, all of them the dearest: rewards are parts of it."""
    size_distribution: Distribution
    value_distribution: Distribution
    rows: TrainingRows | None

    def __init__(self, n: int, B: float, sizes: Any = "uniform", values: Any = "uniform", data: Any = None):  # noqa: N803 (the paper's letters)
        self.horizon = arguments.integer("n", n, least=1, most=MOST_ARRIVALS)
        self.num_actions = 2
        self.budget = jnp.asarray(arguments.at_least_zero("B", B), dtype=float)
        self.size_distribution, self.value_distribution, self.rows = as_items(sizes, values, data, self.horizon)
        self.budget = self.budget / self.size_unit
        smallest, dearest = self.size_distribution.support()[0], self.value_distribution.support()[1]
        most = most_items(self.horizon, float(self.budget), smallest) * dearest
        if most == 0:
            raise ValueError(
                f"nothing can be packed: items of at least {smallest * self.size_unit:g}, worth at most "
                f"{dearest * self.value_unit:g}, and `B` = {B:g}."
            )
        self.scale = jnp.asarray(most, dtype=float)

    @property
    def size_unit(self) -> float:
        """What a size of 1 is in the user's units."""
        return 1.0 if self.rows is None else self.rows.units[0]

    @property
    def value_unit(self) -> float:
        """What a value of 1 is in the user's units."""
        return 1.0 if self.rows is None else self.rows.units[1]

    def draw(self, key: Key) -> OKDInstance:
        return draw_items(self, key)

    def init(self, instance: OKDInstance) -> OKDValueState:
        return OKDValueState(jnp.zeros((), jnp.int32), jnp.zeros((), instance.sizes.dtype))

    def observe(self, instance: OKDInstance, state: OKDValueState) -> Observation:
        fraction = (state.position + 1).astype(state.used.dtype) / self.horizon
        # A bag of size 0 takes nothing of positive size; the part of it in use is then 0, not 0/0.
        used = state.used / jnp.where(self.budget > 0, self.budget, 1.0)
        return jnp.stack([fraction, instance.sizes[state.position], instance.values[state.position], used])

    def variables(self, observation: Observation) -> Variables:
        return observation[None, :]

    def step(self, instance: OKDInstance, state: OKDValueState, action: Action) -> tuple[OKDValueState, Reward, Flag]:
        used = state.used + instance.sizes[state.position]
        takes = (action == 1) & (used <= self.budget)
        reward = jnp.where(takes, instance.values[state.position] / self.scale, 0.0)
        goes_on = state.position + 1 < self.horizon
        return OKDValueState(state.position + 1, jnp.where(takes, used, state.used)), reward, goes_on

    def bounds(self) -> tuple[list[float], list[float]]:
        return [0.0] * 4, [1.0, *highest_items(self), 1.0]

    def degrees(self, degree: int) -> tuple[int, ...]:
        return (degree,) * 4
