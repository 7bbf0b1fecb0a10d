"""The contract of an online problem: all chance is in the hidden instance, every step is deterministic."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx

from rampup.types import Action, Flag, Key, Observation, PolicyFn, Reward, Variables

Instance = Any
"""Everything that will arrive: drawn once, never shown. A pytree of arrays, different for each problem."""

State = Any
"""What the player's past decisions left behind. A pytree of arrays whose shapes never change."""

# Exact answers for this many arrivals take about five gigabytes.
MOST_ARRIVALS = 4_000_000


class Problem(eqx.Module):
    """An online problem with a horizon and a fixed number of actions; no batch axis anywhere."""

    horizon: eqx.AbstractVar[int]
    num_actions: eqx.AbstractVar[int]
    shared_variables: ClassVar[tuple[int, ...]] = ()
    """The variables that are always the same for all actions, if any are: naming them saves time."""
    size_parameters: ClassVar[tuple[str, ...]] = ()
    """The constructor's parameters that a curriculum grows, all in the same proportion."""
    rules: ClassVar[Mapping[str, Callable[[Any], PolicyFn]]] = {}
    """Classical policies by name, each a function of the problem; learned ones are measured against the first."""
    usual_features: ClassVar[str] = "monomial:3"
    usual_learning_rate: ClassVar[float] = 0.1

    @abstractmethod
    def draw(self, key: Key) -> Instance:
        """Draw the hidden instance; the only place where chance enters."""

    @abstractmethod
    def init(self, instance: Instance) -> State:
        """Return the state before the first decision."""

    @abstractmethod
    def observe(self, instance: Instance, state: State) -> Observation:
        """Return what the player sees now: the paper's state, as one vector."""

    @abstractmethod
    def variables(self, observation: Observation) -> Variables:
        """Return the variables of the features, a row per action; a single row is accept's, reject then has none."""

    @abstractmethod
    def step(self, instance: Instance, state: State, action: Action) -> tuple[State, Reward, Flag]:
        """Return the next state, the reward, and whether the episode goes on; called only while it does."""

    @abstractmethod
    def bounds(self) -> tuple[list[float], list[float]]:
        """Return the least and the greatest value of each number of the observation."""

    @abstractmethod
    def degrees(self, degree: int) -> tuple[int, ...]:
        """Return how many powers of each variable polynomial features of this degree use."""

    def in_hindsight(self, instance: Instance) -> float | None:
        """Return what a player who sees all arrivals earns; nothing where that is not known. The arrays are NumPy's."""
        return None
