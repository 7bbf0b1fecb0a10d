"""What both forms of the online knapsack share: a bag, and items that arrive one by one."""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rampup import arguments
from rampup.problems.base import MOST_ARRIVALS, Problem
from rampup.problems.distributions import Distribution, Empirical, as_distribution
from rampup.problems.rows import TrainingRows, as_rows, refuse_both, unit_for
from rampup.types import Key, Observation, Variables


class OKDInstance(NamedTuple):
    """The size and the value of every item."""

    sizes: Float[Array, " arrival"]
    values: Float[Array, " arrival"]


class Knapsack(Problem):
    """n items with independent sizes and values, or rows of data, and a bag of size B."""

    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    budget: Float[Array, ""]
    size_distribution: Distribution
    value_distribution: Distribution
    """Where there are rows, those of size and value apart; only the rows say how they go together."""
    rows: TrainingRows | None

    def __init__(self, n: int, B: float, sizes: Any, values: Any, data: Any):  # noqa: N803 (the paper's letters)
        self.horizon = arguments.integer("n", n, least=1, most=MOST_ARRIVALS)
        self.num_actions = 2
        budget = jnp.asarray(arguments.at_least_zero("B", B), dtype=float)
        if data is None:
            self.size_distribution = as_distribution("sizes", sizes)
            self.value_distribution = as_distribution("values", values)
            self.rows = None
        else:
            refuse_both({"sizes": sizes, "values": values})
            rows = as_rows(data, "okd")
            rows.refuse_more_than("n", self.horizon)
            # In units in which no number is above 1.
            self.rows = rows.in_units([unit_for(largest) for largest in rows.largest()])
            self.size_distribution, self.value_distribution = map(Empirical, np.asarray(self.rows.table).T)
        self.budget = budget / self.size_unit

    @property
    def size_unit(self) -> float:
        """What a size of 1 is in the user's units."""
        return 1.0 if self.rows is None else self.rows.units[0]

    @property
    def value_unit(self) -> float:
        """What a value of 1 is in the user's units."""
        return 1.0 if self.rows is None else self.rows.units[1]

    def most_items(self) -> int:
        """How many items can ever fit."""
        smallest = self.size_distribution.support()[0]
        if smallest == 0:
            return self.horizon
        # Seven tenths fit into 0.7, whatever their quotient is rounded to.
        return min(self.horizon, math.floor(float(self.budget) / smallest * (1 + 1e-9)))

    def largest(self) -> tuple[float, float]:
        """The largest size and value that can be seen."""
        if self.rows is not None:
            size, value = self.rows.highest
            return size, value
        return self.size_distribution.support()[1], self.value_distribution.support()[1]

    def draw(self, key: Key) -> OKDInstance:
        if self.rows is not None:
            items = self.rows.draw(key, self.horizon)
            return OKDInstance(items[:, 0], items[:, 1])
        size_key, value_key = jax.random.split(key)
        shape = (self.horizon,)
        return OKDInstance(self.size_distribution.draw(size_key, shape), self.value_distribution.draw(value_key, shape))

    def part_used(self, used: Float[Array, ""]) -> Float[Array, ""]:
        """A bag of size 0 takes nothing of positive size; the part of it in use is then 0, not 0/0."""
        return used / jnp.where(self.budget > 0, self.budget, 1.0)

    def variables(self, observation: Observation) -> Variables:
        return observation[None, :]
