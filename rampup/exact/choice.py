"""The best an online player can do in the choice problem, exactly: dynamic programming over arrival and picks left.

With V_i(c) for what can still be expected when arrival i is about to come and c may be chosen, V_(n+1) = 0 and
V_i(0) = 0, an arrival that is expected to pay x is worth taking if x + V_(i+1)(c-1) > V_(i+1)(c), and V_i(c) is the
mean of the greater of the two. Where ranks pay, x is the mean payoff of the final rank given the relative one, which
is uniform on 1..i and independent of all before; where values pay, x is the value. `docs/theory.md` has both.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rampup.problems.choice import Choice
from rampup.problems.distributions import Bernoulli, Distribution, Empirical, Histogram, Special, Uniform
from rampup.types import LogProbs, Observation


class ChoiceOptimum(NamedTuple):
    """The greatest mean return, and what there is to expect at every moment, as parts of `scale`."""

    value: float
    ahead: Float[np.ndarray, "arrival picks"]
    """After each arrival, with 0, 1, .., k picks left."""
    worth: Float[np.ndarray, "arrival rank"] | None
    """What the best, second best, .. so far is expected to pay; nothing where the value itself is paid."""


class Planned(eqx.Module):
    """The optimal policy: take what is worth more than the pick that it costs."""

    ahead: Float[Array, "arrival picks"]
    worth: Float[Array, "arrival rank"] | None
    scale: Float[Array, ""]

    def __call__(self, observation: Observation) -> LogProbs:
        horizon, num_counts = self.ahead.shape
        arrival = jnp.clip(jnp.round(observation[0] * horizon).astype(int), 1, horizon) - 1
        left = jnp.clip(jnp.round(observation[2] * (num_counts - 1)).astype(int), 1, num_counts - 1)
        if self.worth is None:
            pays = observation[1] / self.scale
        else:
            # What is seen is one over the relative rank.
            rank = jnp.round(1 / jnp.maximum(observation[1], 1 / horizon)).astype(int)
            pays = self.worth[arrival, rank - 1]
        takes = pays + self.ahead[arrival, left - 1] > self.ahead[arrival, left]
        return jnp.where(jnp.stack([takes, ~takes]), -jnp.inf, 0.0)


def planned(problem: Choice) -> Planned:
    """The optimal policy of a problem."""
    best = optimum(problem)
    worth = None if best.worth is None else jnp.asarray(best.worth)
    return Planned(jnp.asarray(best.ahead), worth, problem.scale)


def optimum(problem: Choice) -> ChoiceOptimum:
    """The optimal value and policy by backward induction."""
    n, scale = problem.horizon, float(problem.scale)
    worth = None if problem.payoffs is None else expected_payoffs(np.asarray(problem.payoffs, float)) / scale
    pieces = Pieces.of(problem.value_distribution) if worth is None else None
    ahead, now = np.zeros((n, problem.num_picks + 1)), np.zeros(problem.num_picks + 1)
    for arrival in reversed(range(n)):
        ahead[arrival] = now
        # What a pick must be worth: V(c) - V(c-1), for c = 1, .., k.
        price = np.diff(now)
        if worth is not None:
            ranks = worth[arrival, : arrival + 1]
            gains = np.maximum(ranks[None, :] - price[:, None], 0.0).mean(axis=1)
        else:
            assert pieces is not None
            gains = pieces.mean_excess(price * scale) / scale
        now = np.append(0.0, now[1:] + gains)
    return ChoiceOptimum(float(now[-1]), ahead, worth)


def expected_payoffs(payoffs: Float[np.ndarray, " rank"]) -> Float[np.ndarray, "arrival rank"]:
    """The mean payoff of the final rank, given the rank r among the first i arrivals; 0 where r > i.

    The next arrival is better with chance r / (i + 1), which makes r one more. That is the hypergeometric sum of
    `docs/theory.md`, without its large binomials.
    """
    n = len(payoffs)
    table = np.zeros((n, n))
    table[-1] = payoffs
    for arrival in reversed(range(1, n)):
        chance = np.arange(1, arrival + 1) / (arrival + 1)
        after = table[arrival]
        table[arrival - 1, :arrival] = chance * after[1 : arrival + 1] + (1 - chance) * after[:arrival]
    return table


# Of a distribution that is not one of ours the quantile function is taken to be straight between so many points.
_NUM_CELLS = 2**14


class Pieces(NamedTuple):
    """A distribution as a mixture of uniform ones, some of a single point."""

    weights: np.ndarray
    lows: np.ndarray
    highs: np.ndarray

    @classmethod
    def of(cls, distribution: Distribution) -> "Pieces":
        """Cut a distribution where its quantile function bends or jumps; between, it is straight."""
        edges = _edges(distribution)
        weights = np.diff(edges)
        edges, weights = edges[:-1][weights > 0], weights[weights > 0]
        # Two points inside a piece give both its ends, of which the quantile function may have only one.
        third, two_thirds = (
            np.asarray(distribution.quantile(jnp.asarray(edges + part * weights)), float) for part in (1 / 3, 2 / 3)
        )
        return cls(weights, 2 * third - two_thirds, 2 * two_thirds - third)

    def mean_excess(self, prices: Float[np.ndarray, " price"]) -> Float[np.ndarray, " price"]:
        """E (x - price)^+ for each price."""
        above_low, above_high = self.lows - prices[:, None], self.highs - prices[:, None]
        width = np.where(self.highs > self.lows, self.highs - self.lows, 1.0)
        inside = np.maximum(above_high, 0.0) ** 2 / (2 * width)
        return np.where(above_low >= 0, (above_low + above_high) / 2, inside) @ self.weights


def _edges(distribution: Distribution) -> np.ndarray:
    if isinstance(distribution, Uniform):
        return np.array([0.0, 1.0])
    if isinstance(distribution, Histogram):
        return np.asarray(distribution.cumulative, float)
    if isinstance(distribution, Special):
        return np.array([0.0, float(distribution.prob), 1.0])
    if isinstance(distribution, Bernoulli):
        return np.array([0.0, 1 - float(distribution.prob), 1.0])
    num_cells = len(distribution.sample) if isinstance(distribution, Empirical) else _NUM_CELLS
    return np.linspace(0.0, 1.0, num_cells + 1)
