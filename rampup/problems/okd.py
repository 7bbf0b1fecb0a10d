"""OKD, the online knapsack in its decision form: fill a bag of size B until the value inside reaches V."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from rampup import arguments
from rampup.problems.base import MOST_ARRIVALS, Problem
from rampup.problems.distributions import Distribution, Empirical, as_distribution
from rampup.problems.rows import TrainingRows, as_rows, refuse_both, unit_for
from rampup.types import Action, Flag, Key, Observation, Reward, Variables


class OKDInstance(NamedTuple):
    """The size and the value of every item."""

    sizes: Float[Array, " arrival"]
    values: Float[Array, " arrival"]


class OKDState(NamedTuple):
    """The position of the present item, and the size and value of what is in the bag."""

    position: Int[Array, ""]
    used: Float[Array, ""]
    value: Float[Array, ""]


def most_items(num_items: int, budget: float, smallest: float) -> int:
    """How many items can ever fit."""
    # Seven tenths fit into 0.7, whatever their quotient is rounded to.
    return min(num_items, math.floor(budget / smallest * (1 + 1e-9))) if smallest > 0 else num_items


Items = tuple[Distribution, Distribution, TrainingRows | None]


def as_items(sizes: Any, values: Any, data: Any, num_items: int) -> Items:
    """Where items come from: independent sizes and values, or rows of data, in units in which none is above 1."""
    if data is None:
        return as_distribution("sizes", sizes), as_distribution("values", values), None
    refuse_both({"sizes": sizes, "values": values})
    rows = as_rows(data, "okd")
    rows.refuse_more_than("n", num_items)
    rows = rows.in_units([unit_for(largest) for largest in rows.largest()])
    size_distribution, value_distribution = map(Empirical, np.asarray(rows.table).T)
    return size_distribution, value_distribution, rows


def draw_items(problem: Any, key: Key) -> OKDInstance:
    """Draw the items of a knapsack of either form."""
    if problem.rows is not None:
        items = problem.rows.draw(key, problem.horizon)
        return OKDInstance(items[:, 0], items[:, 1])
    size_key, value_key = jax.random.split(key)
    shape = (problem.horizon,)
    return OKDInstance(
        problem.size_distribution.draw(size_key, shape), problem.value_distribution.draw(value_key, shape)
    )


def highest_items(problem: Any) -> tuple[float, float]:
    """The largest size and value that can be seen."""
    if problem.rows is not None:
        return problem.rows.highest
    return problem.size_distribution.support()[1], problem.value_distribution.support()[1]


class OKD(Problem):
    """n items with independent sizes and values, budget B, target V; the paper's section C.2."""

    size_parameters = ("n", "B", "V")
    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    budget: Float[Array, ""]
    target: Float[Array, ""]
    size_distribution: Distribution
    value_distribution: Distribution
    """Where there are rows, those of size and value apart; only the rows say how they go together."""
    rows: TrainingRows | None

    def __init__(
        self,
        n: int,
        B: float,  # noqa: N803 (the paper's letters)
        V: float,  # noqa: N803
        sizes: Any = "uniform",
        values: Any = "uniform",
        data: Any = None,
    ):
        self.horizon = arguments.integer("n", n, least=1, most=MOST_ARRIVALS)
        self.num_actions = 2
        self.budget = jnp.asarray(arguments.at_least_zero("B", B), dtype=float)
        self.target = jnp.asarray(arguments.positive("V", V), dtype=float)
        self.size_distribution, self.value_distribution, self.rows = as_items(sizes, values, data, self.horizon)
        self.budget, self.target = self.budget / self.size_unit, self.target / self.value_unit
        self._refuse_an_infeasible_target()

    @property
    def size_unit(self) -> float:
        """What a size of 1 is in the user's units."""
        return 1.0 if self.rows is None else self.rows.units[0]

    @property
    def value_unit(self) -> float:
        """What a value of 1 is in the user's units."""
        return 1.0 if self.rows is None else self.rows.units[1]

    def _refuse_an_infeasible_target(self) -> None:
        smallest, dearest = self.size_distribution.support()[0], self.value_distribution.support()[1]
        most = most_items(self.horizon, float(self.budget), smallest)
        if float(self.target) > most * dearest:
            raise ValueError(
                f"`V` = {float(self.target) * self.value_unit:g} can never be reached: at most {most} items fit, "
                f"worth at most {dearest * self.value_unit:g} each."
            )

    def draw(self, key: Key) -> OKDInstance:
        return draw_items(self, key)

    def init(self, instance: OKDInstance) -> OKDState:
        nothing = jnp.zeros((), dtype=instance.sizes.dtype)
        return OKDState(jnp.zeros((), jnp.int32), nothing, nothing)

    def observe(self, instance: OKDInstance, state: OKDState) -> Observation:
        fraction = (state.position + 1).astype(state.used.dtype) / self.horizon
        # A bag of size 0 takes nothing of positive size; the part of it in use is then 0, not 0/0.
        used = state.used / jnp.where(self.budget > 0, self.budget, 1.0)
        arrival = instance.sizes[state.position], instance.values[state.position]
        return jnp.stack([fraction, *arrival, used, state.value / self.target])

    def variables(self, observation: Observation) -> Variables:
        return observation[None, :]

    def step(self, instance: OKDInstance, state: OKDState, action: Action) -> tuple[OKDState, Reward, Flag]:
        used = state.used + instance.sizes[state.position]
        takes = (action == 1) & (used <= self.budget)
        value = jnp.where(takes, state.value + instance.values[state.position], state.value)
        reached = value >= self.target
        goes_on = ~reached & (state.position + 1 < self.horizon)
        reward = reached.astype(value.dtype)
        return OKDState(state.position + 1, jnp.where(takes, used, state.used), value), reward, goes_on

    def bounds(self) -> tuple[list[float], list[float]]:
        return [0.0] * 5, [1.0, *highest_items(self), 1.0, 1.0]

    def degrees(self, degree: int) -> tuple[int, ...]:
        return (degree,) * 5
