"""Series P_1..P_n for the best choice problem: P_i is the chance that arrival i is the best so far."""

import json
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np

from rampup import arguments
from rampup.problems.base import MOST_ARRIVALS
from rampup.problems.paper import exponent_uniforms


def classical_series(n: int) -> np.ndarray:
    """P_i = 1/i: all n! orders are equally likely."""
    return 1.0 / np.arange(1, n + 1)


def random_series(n: int, exponent_uniforms: np.ndarray) -> np.ndarray:
    """P_1 = 1 and P_i = i^-(2 p_i + 0.25) for the given p_2..p_n (the paper's random experiments)."""
    exponents = arguments.shaped("exponent_uniforms", np.asarray(exponent_uniforms), (n - 1,))
    return np.concatenate([[1.0], np.arange(2, n + 1) ** -(2.0 * exponents + 0.25)])


def seeded_series(n: int, seed: int) -> np.ndarray:
    """The random series whose p_i are drawn from `seed`; P_i does not depend on n."""
    root = jax.random.key(seed)
    draws = jax.vmap(lambda i: jax.random.uniform(jax.random.fold_in(root, i), dtype=float))(np.arange(2, n + 1))
    return random_series(n, np.asarray(draws))


def adversarial_series(n: int) -> np.ndarray:
    """The failure mode of section 5.2: the last is a record more often than not, those before it almost always."""
    return np.concatenate([[1.0], np.full(max(n - 2, 0), 1 - 1e-4), [0.6]])[:n]


def read_series(path: str | Path) -> np.ndarray:
    """Read a JSON file that holds the list P_1..P_n."""
    try:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read the series file {str(path)!r}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise ValueError(f"the series file {str(path)!r} must hold a JSON list of numbers P_1..P_n.") from None
    if not isinstance(values, list):
        raise ValueError(f"the series file {str(path)!r} must hold a JSON list, got a {type(values).__name__}.")
    return checked_series(values)


def checked_series(values: Any) -> np.ndarray:
    """Return a series given number by number, if it is one: P_1 = 1 and every P_i in [0, 1]."""
    series = arguments.probabilities("series", values, ndim=1)
    if series[0] != 1:
        raise ValueError(
            f"`series` must begin with P_1 = 1 (the first arrival is always the best so far), got {series[0]}."
        )
    return series


def as_series(series: Any, n: int | None) -> np.ndarray:
    """Turn "classical", "adversarial", "random:SEED", "paper:SEED", a JSON file, or the numbers into P_1..P_n.

    Args:
        n: the length; may be left out where the series itself has one.
    """
    if n is not None:
        n = arguments.integer("n", n, least=1, most=MOST_ARRIVALS)
    if isinstance(series, str) and series.partition(":")[0] in ("classical", "adversarial", "random", "paper"):
        return _named_series(series, n)
    if isinstance(series, str) and not Path(series).suffix and not os.path.exists(series):
        arguments.known_name("series", series, ("classical", "adversarial", "random:SEED", "paper:SEED", "FILE.json"))
    values = read_series(series) if isinstance(series, str | Path) else checked_series(series)
    return values if n is None else arguments.shaped("series", values, (n,))


def _named_series(series: str, n: int | None) -> np.ndarray:
    name, _, seed = series.partition(":")
    if n is None:
        raise ValueError(f"`n` must be given with the series {series!r}.")
    if name == "random" and not seed.isdecimal():
        raise ValueError(f"the random series needs a seed, as in 'random:7', got {series!r}.")
    if name in ("classical", "adversarial") and seed:
        raise ValueError(f"the {name} series takes no seed, got {series!r}.")
    if name == "paper":
        return random_series(n, np.asarray(exponent_uniforms(seed, n)))
    if name == "random":
        return seeded_series(n, arguments.integer("seed of the series", int(seed), least=0, most=2**32 - 1))
    return classical_series(n) if name == "classical" else adversarial_series(n)
