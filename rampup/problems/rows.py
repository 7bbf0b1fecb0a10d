"""Training rows of the user's own table, in units in which none is above 1, to draw instances from."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rampup.data.sequences import Dataset, load_data
from rampup.types import Key


class TrainingRows(eqx.Module):
    """Rows to draw from, each kept whole, so that what belongs together stays together."""

    table: Float[Array, "row column"]
    """In units."""
    units: tuple[float, ...] = eqx.field(static=True)
    """What 1 is in each column, in the user's units: powers of two, so that no number is rounded."""
    highest: tuple[float, ...] = eqx.field(static=True)
    """The largest number of each column in training and holdout, in units."""
    length: int | None = eqx.field(static=True, default=None)
    """Where whole sequences are drawn, how many rows each has; they stand one after the other."""

    def draw(self, key: Key, count: int) -> Float[Array, "arrival column"]:
        """Draw independent rows, or the beginning of a sequence as it came."""
        if self.length is None:
            return self.table[jax.random.randint(key, (count,), 0, len(self.table), jnp.int32)]
        first = self.length * jax.random.randint(key, (), 0, len(self.table) // self.length, jnp.int32)
        return self.table[first + jnp.arange(count, dtype=jnp.int32)]

    def refuse_more_than(self, name: str, count: int) -> None:
        """Refuse a problem that is longer than the sequences it is made of."""
        if self.length is not None and count > self.length:
            raise ValueError(f"`{name}` must be at most {self.length}, the length of the sequences drawn, got {count}.")

    def in_units(self, units: Sequence[float], num_columns: int | None = None) -> "TrainingRows":
        """The first columns in other units."""
        ratios = [old / new for old, new in zip(self.units, units, strict=True)][:num_columns]
        table = np.asarray(self.table)[:, :num_columns] * np.array(ratios)
        highest = tuple(high * ratio for high, ratio in zip(self.highest, ratios, strict=False))
        return TrainingRows(jnp.asarray(table, dtype=float), tuple(units)[:num_columns], highest, self.length)

    def largest(self) -> np.ndarray:
        """The largest training number of each column, in the user's units."""
        return np.asarray(self.table).max(axis=0) * np.array(self.units)


def as_rows(data: Any, problem: str) -> TrainingRows:
    """The training rows of a description by its path, in the user's units; or rows that are such already."""
    if isinstance(data, TrainingRows):
        return data.in_units([1.0] * len(data.units))
    dataset = dataset_for(data, problem)
    table = dataset.numbers(dataset.train).reshape(-1, len(dataset.names))
    every = [table, dataset.numbers(dataset.holdout).reshape(-1, len(dataset.names))]
    highest = tuple(float(one) for one in np.concatenate(every).max(axis=0))
    length = dataset.length if dataset.description.draw == "sequences" else None
    return TrainingRows(jnp.asarray(table, dtype=float), (1.0,) * table.shape[1], highest, length)


def dataset_for(data: Any, problem: str) -> Dataset:
    """The data of a description by its path, if they are for a problem."""
    if not isinstance(data, str | Path):
        raise ValueError(f"`data` must be the path of a data description, got {data!r:.60}.")
    dataset = load_data(data)
    if dataset.description.problem != problem:
        raise ValueError(f"{str(data)!r} describes data for {dataset.description.problem}, not for {problem}.")
    return dataset


def unit_for(largest: float) -> float:
    """The power of two at or above a number: in it the number is at most 1, and dividing by it rounds nothing."""
    if largest <= 0:
        return 1.0
    mantissa, exponent = math.frexp(largest)
    # Beyond the largest power of two that a double holds nothing can be above 2.
    return math.ldexp(1.0, min(exponent - (mantissa == 0.5), 1023))


def refuse_both(given: dict[str, Any]) -> None:
    """Refuse distributions beside data."""
    for name, value in given.items():
        if value != "uniform":
            raise ValueError(f"give `{name}` or `data`, not both.")
