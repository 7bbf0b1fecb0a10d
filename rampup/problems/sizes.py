"""Smaller sizes of a problem by the parameters that its class says grow with it."""

import inspect
from collections.abc import Mapping
from numbers import Integral
from typing import Any

from rampup.problems.base import Problem


def part_of(kind: type[Problem], parameters: Mapping[str, Any], fraction: float) -> dict[str, Any]:
    """The size parameters of a problem that is a part of the given one; nothing where its class declares none."""
    signature = inspect.signature(kind).parameters
    unknown = [name for name in kind.size_parameters if name not in signature]
    if unknown:
        raise ValueError(f"`size_parameters` of {kind.__name__} names {unknown[0]!r}, which its constructor lacks.")
    given = {name: parameters.get(name, signature[name].default) for name in kind.size_parameters}
    parts = {name: _part(kind, name, value, fraction) for name, value in given.items()}
    # What is given one by one, as the budgets of advertisers are, gets as short as what it is given for.
    shorter = {given[name]: part for name, part in parts.items() if isinstance(part, int)}
    lists = {name: value for name, value in parameters.items() if isinstance(value, list) and len(value) in shorter}
    return parts | {name: value[: shorter[len(value)]] for name, value in lists.items()}


def _part(kind: type[Problem], name: str, value: Any, fraction: float) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Integral):
        raise ValueError(f"the size parameter `{name}` of {kind.__name__} must be a number, got {value!r:.60}.")
    if isinstance(value, Integral):
        return max(1, round(int(value) * fraction))
    # Without the last digits that only rounding put there.
    return float(f"{value * fraction:.12g}")
