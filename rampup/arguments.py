"""Checks of arguments, made before anything is traced: each refuses with one sentence."""

import difflib
import inspect
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def integer(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """Return `value` as an int between `least` and `most`."""
    is_number = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_number or int(value) < least:
        raise ValueError(f"`{name}` must be a whole number of at least {least}, got {value!r}.")
    if most is not None and int(value) > most:
        raise ValueError(f"`{name}` must be at most {most}, got {value!r}.")
    return int(value)


def real(name: str, value: Any, *, rule: str = "finite", low: float = -math.inf, high: float = math.inf) -> float:
    """Return `value` as a finite float between `low` and `high`; `rule` names the range in the sentence."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        number = float(value) if is_number else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not low <= number <= high:
        raise ValueError(f"`{name}` must be {rule}, got {value!r:.80}.")
    return number


def positive(name: str, value: Any) -> float:
    """Return `value` as a finite float above zero."""
    return real(name, value, rule="a positive number", low=math.ulp(0.0))


def at_least_zero(name: str, value: Any) -> float:
    """Return `value` as a finite float that is not negative."""
    return real(name, value, rule="a number of at least 0", low=0.0)


def probability(name: str, value: Any) -> float:
    """Return `value` as a float in [0, 1]."""
    return real(name, value, rule="a number in [0, 1]", low=0.0, high=1.0)


def finite_array(name: str, values: Any, *, ndim: int) -> np.ndarray:
    """Return `values` as a float64 array with `ndim` axes, no empty axis and only finite numbers."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "iuf":
            raise TypeError
    except (TypeError, ValueError):
        raise ValueError(f"`{name}` must be an array of numbers, got {values!r:.80}.") from None
    if array.ndim != ndim or array.size == 0:
        axes = "axis" if ndim == 1 else "axes"
        raise ValueError(f"`{name}` must be a non-empty array with {ndim} {axes}, got shape {array.shape}.")
    array = array.astype(np.float64)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"`{name}` must hold finite numbers only, got {array[~np.isfinite(array)][0]}.")
    return array


def probabilities(name: str, values: Any, *, ndim: int) -> np.ndarray:
    """Return `values` as an array of numbers in [0, 1]."""
    array = finite_array(name, values, ndim=ndim)
    outside = (array < 0) | (array > 1)
    if outside.any():
        raise ValueError(f"`{name}` must hold numbers in [0, 1], got {array[outside][0]}.")
    return array


def distributions_over_last_axis(name: str, values: Any, *, ndim: int) -> np.ndarray:
    """Return `values` as probabilities that sum to one along the last axis."""
    array = probabilities(name, values, ndim=ndim)
    # Sums of a few thousand doubles stay well inside this; a forgotten normalisation does not.
    worst = array.sum(axis=-1).ravel()[np.argmax(np.abs(array.sum(axis=-1) - 1.0))]
    if abs(worst - 1.0) > 1e-9:
        raise ValueError(f"`{name}` must sum to 1 along its last axis, got a sum of {worst}.")
    return array


def shaped(name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return `array` if it has the given shape."""
    if array.shape != shape:
        raise ValueError(f"`{name}` must have shape {shape}, got {array.shape}.")
    return array


def known_name(kind: str, name: Any, known: Iterable[str]) -> str:
    """Return `name` if it is one of `known`; else say which names there are."""
    names = list(known)
    if isinstance(name, str) and name in names:
        return name
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"unknown {kind} {name!r}: {hint}known are {', '.join(names)}.")


def call(owner: str, function: Callable[..., T], parameters: Mapping[str, Any]) -> T:
    """Call `function` with named parameters, refusing unknown and missing ones by name."""
    signature = inspect.signature(function).parameters
    for name in parameters:
        known_name(f"parameter of {owner}", name, signature)
    for name, parameter in signature.items():
        if parameter.default is inspect.Parameter.empty and name not in parameters:
            raise ValueError(f"{owner} needs the parameter `{name}`.")
    return function(**parameters)
