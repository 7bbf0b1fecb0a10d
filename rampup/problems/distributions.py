"""Distributions of a single number, each given by its quantile function, so that one uniform makes one draw."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rampup import arguments
from rampup.problems.paper import histogram_weights
from rampup.types import Key


class Distribution(eqx.Module):
    """A distribution on an interval of the non-negative numbers."""

    @abstractmethod
    def quantile(self, uniform: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the smallest number whose probability of not being exceeded is above `uniform`."""

    @abstractmethod
    def support(self) -> tuple[float, float]:
        """Return the least and the greatest number that can be drawn."""

    @abstractmethod
    def breakpoints(self) -> tuple[float, ...] | None:
        """Return the ends of the pieces if the distribution is uniform on each of a few; else nothing."""

    def draw(self, key: Key, shape: tuple[int, ...]) -> Float[Array, "..."]:
        """Draw independent numbers."""
        # In the precision that the distribution's own numbers have.
        dtype = jax.tree.leaves(self)[0].dtype
        return self.quantile(jax.random.uniform(key, shape, dtype))


class Uniform(Distribution):
    """Uniform on [low, high)."""

    low: Float[Array, ""]
    high: Float[Array, ""]

    def __init__(self, low: float = 0.0, high: float = 1.0):
        low = arguments.at_least_zero("low", low)
        self.low = jnp.asarray(low, dtype=float)
        self.high = jnp.asarray(
            arguments.real("high", high, rule=f"above `low` = {low}", low=np.nextafter(low, np.inf)), dtype=float
        )

    def quantile(self, uniform):
        return self.low + (self.high - self.low) * uniform

    def support(self):
        return float(self.low), float(self.high)

    def breakpoints(self):
        return self.support()


# Sums over so few bins are written out, which fuses into one loop over what is drawn.
_FEW_BINS = 32


class Histogram(Distribution):
    """Piecewise uniform on [0, 1): bin i of `gran` equal bins has probability proportional to weights[i]."""

    cumulative: Float[Array, " edge"]

    def __init__(self, weights: Sequence[float] | np.ndarray):
        array = arguments.finite_array("weights", weights, ndim=1)
        if (array < 0).any():
            raise ValueError(f"`weights` of a histogram must not be negative, got {array.min()}.")
        if array.max() == 0:
            raise ValueError("`weights` of a histogram must not all be zero.")
        # Weights are relative: scaled to the largest, their sum stays finite.
        cumulative = np.concatenate([[0.0], np.cumsum(array / array.max())])
        self.cumulative = jnp.asarray(cumulative / cumulative[-1], dtype=float)

    def quantile(self, uniform):
        # How much of every bin lies below, added up: no table is looked into, which would take longer.
        left, right = self.cumulative[:-1], self.cumulative[1:]
        slope = 1 / jnp.where(right > left, right - left, 1.0)

        def below(uniform, left, right, slope):
            return jnp.where(uniform < right, jnp.clip((uniform - left) * slope, 0.0, 1.0), 1.0)

        if len(left) <= _FEW_BINS:
            return sum(map(partial(below, uniform), left, right, slope), start=jnp.zeros_like(uniform)) / len(left)
        along_bins = lambda edges: edges.reshape((1,) * uniform.ndim + edges.shape)
        parts = below(uniform[..., None], *map(along_bins, (left, right, slope)))
        return jnp.sum(parts, axis=-1) / len(left)

    def support(self):
        return 0.0, 1.0

    def breakpoints(self):
        return tuple(np.linspace(0.0, 1.0, self.cumulative.size))


class Special(Distribution):
    """A fixed number `point` with probability `prob`, else uniform on [low, high) (the paper's ADW distribution)."""

    prob: Float[Array, ""]
    point: Float[Array, ""]
    low: Float[Array, ""]
    high: Float[Array, ""]

    def __init__(self, prob: float = 0.9, point: float = 0.4, low: float = 0.6, high: float = 1.0):
        point = arguments.at_least_zero("point", point)
        low = arguments.real("low", low, rule=f"at least `point` = {point}", low=point)
        high = arguments.real("high", high, rule=f"above `low` = {low}", low=np.nextafter(low, np.inf))
        self.prob = jnp.asarray(arguments.probability("prob", prob), dtype=float)
        self.point, self.low, self.high = (jnp.asarray(value, dtype=float) for value in (point, low, high))

    def quantile(self, uniform):
        rest = (uniform - self.prob) / jnp.where(self.prob < 1, 1 - self.prob, 1.0)
        return jnp.where(uniform < self.prob, self.point, self.low + (self.high - self.low) * rest)

    def support(self):
        return float(self.point), float(self.high)

    def breakpoints(self):
        return None


class Bernoulli(Distribution):
    """`value` with probability `prob`, else 0; with value 1/b, the bids of online b-matching."""

    prob: Float[Array, ""]
    value: Float[Array, ""]

    def __init__(self, prob: float = 0.5, value: float = 1.0):
        self.prob = jnp.asarray(arguments.probability("prob", prob), dtype=float)
        self.value = jnp.asarray(arguments.positive("value", value), dtype=float)

    def quantile(self, uniform):
        return jnp.where(uniform >= 1 - self.prob, self.value, 0.0)

    def support(self):
        return 0.0, float(self.value)

    def breakpoints(self):
        return None


class Empirical(Distribution):
    """One of the numbers of a sample, each equally likely."""

    sample: Float[Array, " rank"]

    def __init__(self, sample: Sequence[float] | np.ndarray):
        array = arguments.finite_array("sample", sample, ndim=1)
        if (array < 0).any():
            raise ValueError(f"`sample` must not hold negative numbers, got {array.min()}.")
        self.sample = jnp.asarray(np.sort(array), dtype=float)

    def quantile(self, uniform):
        rank = jnp.floor(uniform * self.sample.size).astype(int)
        return self.sample[jnp.minimum(rank, self.sample.size - 1)]

    def support(self):
        return float(self.sample[0]), float(self.sample[-1])

    def breakpoints(self):
        return None


def random_histogram(seed: int = 0, gran: int = 10) -> Histogram:
    """A histogram whose `gran` weights are uniform random numbers (spec of the paper's section C.2)."""
    key = jax.random.key(arguments.integer("seed", seed, least=0, most=2**32 - 1))
    return Histogram(
        np.asarray(jax.random.uniform(key, (arguments.integer("gran", gran, least=1, most=10_000),), dtype=float))
    )


def paper_histogram(experiment: str, which: str = "value") -> Histogram:
    """A histogram of the paper's: `experiment` as in okd-2018011309, `which` is size or value."""
    return Histogram(histogram_weights(experiment, which))


DISTRIBUTIONS: dict[str, Callable[..., Distribution]] = {
    "uniform": Uniform,
    "histogram": Histogram,
    "random_histogram": random_histogram,
    "paper": paper_histogram,
    "special": Special,
    "bernoulli": Bernoulli,
    "empirical": Empirical,
}


def as_distribution(name: str, value: Any) -> Distribution:
    """Turn a distribution, its name, or {"kind": name, parameter: value, ...} into a distribution."""
    if isinstance(value, Distribution):
        return value
    if isinstance(value, str):
        value = {"kind": value}
    if not isinstance(value, dict) or "kind" not in value:
        raise ValueError(f'`{name}` must be a distribution, its name, or {{"kind": name, ...}}, got {value!r:.80}.')
    parameters = {key: entry for key, entry in value.items() if key != "kind"}
    kind = arguments.known_name(f"distribution for `{name}`", value["kind"], DISTRIBUTIONS)
    return arguments.call(f"distribution {kind!r}", DISTRIBUTIONS[kind], parameters)
