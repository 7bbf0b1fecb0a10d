"""BCP, the best choice (secretary) problem: accept one arrival, and win if it is the best of all."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from rampup import arguments
from rampup.data.series import estimated_series
from rampup.problems.base import Problem
from rampup.problems.rows import dataset_for
from rampup.problems.series import as_series
from rampup.types import Action, Flag, Key, Observation, Reward, Variables


class BCPInstance(NamedTuple):
    """Which arrivals are the best so far, and which of them is the last: the best of all."""

    is_record: Bool[Array, " arrival"]
    best: Int[Array, ""]


class BCPState(NamedTuple):
    """The position of the present arrival, counted from 0."""

    position: Int[Array, ""]


class BCP(Problem):
    """n arrivals, arrival i the best so far with probability P_i, independently; the paper's section C.1."""

    size_parameters = ("n",)
    usual_features = "monomial:10"
    usual_learning_rate = 0.2
    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    record_probs: Float[Array, " arrival"]

    def __init__(self, n: int | None = None, series: Any = "classical", data: Any = None):
        record_probs = as_series(series, n) if data is None else _series_of_data(data, series, n)
        self.horizon = arguments.integer("n", len(record_probs), least=1)
        self.num_actions = 2
        self.record_probs = jnp.asarray(record_probs, dtype=float)

    def draw(self, key: Key) -> BCPInstance:
        is_record = jax.random.uniform(key, (self.horizon,), self.record_probs.dtype) < self.record_probs
        return BCPInstance(is_record, jnp.max(jnp.where(is_record, jnp.arange(self.horizon, dtype=jnp.int32), 0)))

    def init(self, instance: BCPInstance) -> BCPState:
        return BCPState(jnp.zeros((), dtype=instance.best.dtype))

    def observe(self, instance: BCPInstance, state: BCPState) -> Observation:
        dtype = self.record_probs.dtype
        fraction = (state.position + 1).astype(dtype) / self.horizon
        return jnp.stack([fraction, instance.is_record[state.position].astype(dtype)])

    def variables(self, observation: Observation) -> Variables:
        return observation[None, :]

    def step(self, instance: BCPInstance, state: BCPState, action: Action) -> tuple[BCPState, Reward, Flag]:
        accepts = action == 1
        reward = (accepts & (state.position == instance.best)).astype(self.record_probs.dtype)
        goes_on = ~accepts & (state.position + 1 < self.horizon)
        return BCPState(state.position + 1), reward, goes_on

    def bounds(self) -> tuple[list[float], list[float]]:
        return [0.0, 0.0], [1.0, 1.0]

    def degrees(self, degree: int) -> tuple[int, ...]:
        return (degree, 2)


def _series_of_data(data: Any, series: Any, n: int | None) -> np.ndarray:
    """The series of the first n arrivals, by default of all, estimated from the user's own sequences."""
    if series != "classical":
        raise ValueError("give `series` or `data`, not both.")
    dataset = dataset_for(data, "bcp")
    count = dataset.length if n is None else arguments.integer("n", n, least=1)
    if count > dataset.length:
        raise ValueError(
            f"`n` must be at most {dataset.length}, the length of the sequences in {str(data)!r}, got {n}."
        )
    return estimated_series(dataset)[:count]
