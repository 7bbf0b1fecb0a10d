"""A finite latent MDP as a problem that can be played and trained: the hidden MDP and all its dice are the instance."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from rampup.exact.finite import FeatureTable, FiniteLMDP
from rampup.features import Features
from rampup.problems.base import Problem
from rampup.types import Action, Flag, Key, Observation, Real, Reward, Variables


class FiniteInstance(NamedTuple):
    """The hidden MDP, where it starts, and one die for each of its transitions."""

    mdp: Int[Array, ""]
    start: Int[Array, ""]
    dice: Float[Array, " time"]


class FiniteState(NamedTuple):
    """How many steps were taken, and where they led."""

    time: Int[Array, ""]
    place: Int[Array, ""]


class FiniteProblem(Problem):
    """Plays a finite LMDP; the observation is the state's number, the variables are its rows of `rows`."""

    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    lmdp: FiniteLMDP
    rows: Float[Array, "state action var"]

    def __init__(self, lmdp: FiniteLMDP, rows: Float[Array, "state action var"]):
        if rows.shape[:2] != lmdp.reward.shape[1:]:
            raise ValueError(f"`rows` must have shape {lmdp.reward.shape[1:]} and a third axis, got {rows.shape}.")
        self.horizon, self.num_actions = lmdp.horizon, lmdp.num_actions
        self.lmdp, self.rows = lmdp, rows

    def draw(self, key: Key) -> FiniteInstance:
        dice = jax.random.uniform(key, (self.horizon + 2,), self.lmdp.weights.dtype)
        mdp = _cast(self.lmdp.weights, dice[0])
        return FiniteInstance(mdp, _cast(self.lmdp.initial[mdp], dice[1]), dice[2:])

    def init(self, instance: FiniteInstance) -> FiniteState:
        return FiniteState(jnp.zeros((), int), instance.start)

    def observe(self, instance: FiniteInstance, state: FiniteState) -> Observation:
        return state.place.astype(float)[None]

    def variables(self, observation: Observation) -> Variables:
        return self.rows[observation[0].astype(int)]

    def step(self, instance: FiniteInstance, state: FiniteState, action: Action) -> tuple[FiniteState, Reward, Flag]:
        place = _cast(self.lmdp.transition[instance.mdp, state.place, action], instance.dice[state.time])
        goes_on = (state.time + 1 < self.horizon) & self.lmdp.is_live[place]
        return FiniteState(state.time + 1, place), self.lmdp.reward[instance.mdp, state.place, action], goes_on

    def bounds(self) -> tuple[list[float], list[float]]:
        return [0.0], [float(self.lmdp.num_states - 1)]

    def degrees(self, degree: int) -> tuple[int, ...]:
        return (degree,) * self.rows.shape[-1]

    def feature_table(self, features: Features) -> FeatureTable:
        """The features of every state and action, as the exact formulas take them."""
        return jax.vmap(jax.vmap(features.phi))(self.rows)


def _cast(probs: Float[Array, " outcome"], die: Real) -> Int[Array, ""]:
    return jnp.sum(die >= jnp.cumsum(probs)[:-1])
