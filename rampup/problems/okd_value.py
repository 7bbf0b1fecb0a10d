"""OKD in value form: fill a bag of size B with as much value as can be had; there is no target."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from rampup.problems.knapsack import Knapsack, OKDInstance
from rampup.types import Action, Flag, Observation, Reward


class OKDValueState(NamedTuple):
    """The position of the present item, and the size of what is in the bag."""

    position: Int[Array, ""]
    used: Float[Array, ""]


class OKDValue(Knapsack):
    """n items with independent sizes and values, budget B; an item pays its value, as a part of the most there is."""

    size_parameters = ("n", "B")
    usual_learning_rate = 3.0
    scale: Float[Array, ""]
    """The value of as many items as can ever fit, all of them the dearest: rewards are parts of it."""

    def __init__(self, n: int, B: float, sizes: Any = "uniform", values: Any = "uniform", data: Any = None):  # noqa: N803 (the paper's letters)
        super().__init__(n, B, sizes, values, data)
        dearest = self.value_distribution.support()[1]
        most = self.most_items() * dearest
        if most == 0:
            smallest = self.size_distribution.support()[0]
            raise ValueError(
                f"nothing can be packed: items of at least {smallest * self.size_unit:g}, worth at most "
                f"{dearest * self.value_unit:g}, and `B` = {B:g}."
            )
        self.scale = jnp.asarray(most, dtype=float)

    def init(self, instance: OKDInstance) -> OKDValueState:
        return OKDValueState(jnp.zeros((), jnp.int32), jnp.zeros((), instance.sizes.dtype))

    def observe(self, instance: OKDInstance, state: OKDValueState) -> Observation:
        fraction = (state.position + 1).astype(state.used.dtype) / self.horizon
        arrival = instance.sizes[state.position], instance.values[state.position]
        return jnp.stack([fraction, *arrival, self.part_used(state.used)])

    def step(self, instance: OKDInstance, state: OKDValueState, action: Action) -> tuple[OKDValueState, Reward, Flag]:
        used = state.used + instance.sizes[state.position]
        takes = (action == 1) & (used <= self.budget)
        reward = jnp.where(takes, instance.values[state.position] / self.scale, 0.0)
        goes_on = state.position + 1 < self.horizon
        return OKDValueState(state.position + 1, jnp.where(takes, used, state.used)), reward, goes_on

    def bounds(self) -> tuple[list[float], list[float]]:
        return [0.0] * 4, [1.0, *self.largest(), 1.0]

    def degrees(self, degree: int) -> tuple[int, ...]:
        return (degree,) * 4
