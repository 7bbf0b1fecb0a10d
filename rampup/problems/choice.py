"""Choice, best choice with k picks: choose up to k of n arrivals in random order; what pays is rank, or value."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from rampup import arguments
from rampup.problems.base import Problem
from rampup.problems.distributions import Distribution, as_distribution
from rampup.types import Action, Flag, Key, Observation, Reward, Variables

# Ranks take a comparison of every pair of arrivals, and the optimal policy a table of as many numbers.
MOST_ARRIVALS = 2000


class ChoiceInstance(NamedTuple):
    """The values of the arrivals, what is seen of each when it comes, and what it pays when it is chosen."""

    values: Float[Array, " arrival"]
    seen: Float[Array, " arrival"]
    pays: Float[Array, " arrival"]


class ChoiceState(NamedTuple):
    """The position of the present arrival, and how many may still be chosen."""

    position: Int[Array, ""]
    left: Int[Array, ""]


class Choice(Problem):
    """n arrivals in random order, k of which may be chosen; `payoff` is best, value, or what each final rank pays."""

    size_parameters = ("n",)
    usual_features = "monomial:4"
    usual_learning_rate = 0.3
    horizon: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)
    num_picks: int = eqx.field(static=True)
    payoffs: Float[Array, " rank"] | None
    """What each final rank pays, the best first; nothing where the value itself is paid."""
    scale: Float[Array, ""]
    """The most that k arrivals can pay: rewards are parts of it."""
    value_distribution: Distribution

    def __init__(self, n: int, k: int = 1, payoff: Any = "best", values: Any = "uniform"):
        self.horizon = arguments.integer("n", n, least=1, most=MOST_ARRIVALS)
        self.num_actions = 2
        self.num_picks = arguments.integer("k", k, least=1, most=self.horizon)
        payoffs = _as_payoffs(payoff, self.horizon)
        if payoffs is not None and values != "uniform":
            raise ValueError(f"`values` is for `payoff` value: where ranks pay it changes nothing, got {values!r:.80}.")
        self.value_distribution = as_distribution("values", values)
        dearest = self.value_distribution.support()[1]
        most = self.num_picks * dearest if payoffs is None else float(np.sort(payoffs)[-self.num_picks :].sum())
        if most == 0:
            raise ValueError(f"`values` must not all be 0, got {values!r:.80}.")
        self.payoffs = None if payoffs is None else jnp.asarray(payoffs, dtype=float)
        self.scale = jnp.asarray(most, dtype=float)

    def num_paying(self) -> int:
        """The lowest final rank that pays anything."""
        return self.horizon if self.payoffs is None else int(np.flatnonzero(np.asarray(self.payoffs))[-1]) + 1

    def draw(self, key: Key) -> ChoiceInstance:
        values = self.value_distribution.draw(key, (self.horizon,))
        if self.payoffs is None:
            return ChoiceInstance(values, values, values / self.scale)
        so_far, of_all = _ranks(values)
        pays = self.payoffs[of_all - 1] / self.scale
        return ChoiceInstance(values, 1 / so_far.astype(values.dtype), pays)

    def init(self, instance: ChoiceInstance) -> ChoiceState:
        return ChoiceState(jnp.zeros((), jnp.int32), jnp.full((), self.num_picks, jnp.int32))

    def observe(self, instance: ChoiceInstance, state: ChoiceState) -> Observation:
        dtype = instance.seen.dtype
        fraction = (state.position + 1).astype(dtype) / self.horizon
        return jnp.stack([fraction, instance.seen[state.position], state.left.astype(dtype) / self.num_picks])

    def variables(self, observation: Observation) -> Variables:
        return observation[None, :]

    def step(self, instance: ChoiceInstance, state: ChoiceState, action: Action) -> tuple[ChoiceState, Reward, Flag]:
        takes = action == 1
        reward = jnp.where(takes, instance.pays[state.position], 0.0)
        left = jnp.where(takes, state.left - 1, state.left)
        goes_on = (left > 0) & (state.position + 1 < self.horizon)
        return ChoiceState(state.position + 1, left), reward, goes_on

    def bounds(self) -> tuple[list[float], list[float]]:
        highest = self.value_distribution.support()[1] if self.payoffs is None else 1.0
        return [0.0] * 3, [1.0, highest, 1.0]

    def degrees(self, degree: int) -> tuple[int, ...]:
        # With a single pick there is nothing to say about how many are left.
        return (degree, degree, degree if self.num_picks > 1 else 1)

    def in_hindsight(self, instance: ChoiceInstance) -> float:
        return float(np.sort(instance.pays)[-self.num_picks :].sum())


def _as_payoffs(payoff: Any, n: int) -> np.ndarray | None:
    """What each of n final ranks pays; nothing where the value is paid."""
    if isinstance(payoff, str):
        if arguments.known_name("payoff", payoff, ("best", "value")) == "value":
            return None
        payoff = [1.0]
    given = arguments.finite_array("payoff", payoff, ndim=1)
    if len(given) > n or (given < 0).any() or not (given > 0).any():
        raise ValueError(
            f"`payoff` must be best, value, or up to `n` = {n} numbers of at least 0, not all 0, got {payoff!r:.80}."
        )
    return np.pad(given, (0, n - len(given)))


def _ranks(values: Float[Array, " arrival"]) -> tuple[Int[Array, " arrival"], Int[Array, " arrival"]]:
    """The rank of each arrival among those so far, and among all; of two that are equal the earlier is better."""
    place = jnp.arange(len(values), dtype=jnp.int32)
    is_earlier = place[None, :] < place[:, None]
    is_better = (values[None, :] > values[:, None]) | ((values[None, :] == values[:, None]) & is_earlier)
    count = lambda flags: 1 + jnp.sum(flags, axis=1, dtype=jnp.int32)
    return count(is_better & is_earlier), count(is_better)
