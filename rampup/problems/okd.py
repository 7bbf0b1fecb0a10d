"""OKD, the online knapsack in its decision form: fill a bag of size B until the value inside reaches V."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from rampup import arguments
from rampup.problems.knapsack import Knapsack, OKDInstance
from rampup.types import Action, Flag, Observation, Reward


class OKDState(NamedTuple):
    """The position of the present item, and the size and value of what is in the bag."""

    position: Int[Array, ""]
    used: Float[Array, ""]
    value: Float[Array, ""]


class OKD(Knapsack):
    """n items with independent sizes and values, budget B, target V; the paper's section C.2."""

    size_parameters = ("n", "B", "V")
    target: Float[Array, ""]

    def __init__(
        self,
        n: int,
        B: float,  # noqa: N803 (the paper's letters)
        V: float,  # noqa: N803
        sizes: Any = "uniform",
        values: Any = "uniform",
        data: Any = None,
    ):
        super().__init__(n, B, sizes, values, data)
        self.target = jnp.asarray(arguments.positive("V", V), dtype=float) / self.value_unit
        most, dearest = self.most_items(), self.value_distribution.support()[1]
        if float(self.target) > most * dearest:
            raise ValueError(
                f"`V` = {float(self.target) * self.value_unit:g} can never be reached: at most {most} items fit, "
                f"worth at most {dearest * self.value_unit:g} each."
            )

    def init(self, instance: OKDInstance) -> OKDState:
        nothing = jnp.zeros((), dtype=instance.sizes.dtype)
        return OKDState(jnp.zeros((), jnp.int32), nothing, nothing)

    def observe(self, instance: OKDInstance, state: OKDState) -> Observation:
        fraction = (state.position + 1).astype(state.used.dtype) / self.horizon
        arrival = instance.sizes[state.position], instance.values[state.position]
        return jnp.stack([fraction, *arrival, self.part_used(state.used), state.value / self.target])

    def step(self, instance: OKDInstance, state: OKDState, action: Action) -> tuple[OKDState, Reward, Flag]:
        used = state.used + instance.sizes[state.position]
        takes = (action == 1) & (used <= self.budget)
        value = jnp.where(takes, state.value + instance.values[state.position], state.value)
        reached = value >= self.target
        goes_on = ~reached & (state.position + 1 < self.horizon)
        reward = reached.astype(value.dtype)
        return OKDState(state.position + 1, jnp.where(takes, used, state.used), value), reward, goes_on

    def bounds(self) -> tuple[list[float], list[float]]:
        return [0.0] * 5, [1.0, *self.largest(), 1.0, 1.0]

    def degrees(self, degree: int) -> tuple[int, ...]:
        return (degree,) * 5
