"""The words of a report page: what came of a run in a sentence or two, and how numbers are written."""

import math
from collections.abc import Sequence
from typing import Any

_PROVENANCE = ("started", "device", "threads", "versions", "git_commit", "platform", "command")


# Those whose return is 1 for a success and 0 for a failure.
_OF_SUCCESS = {"bcp", "okd", "adw"}


def measure_of(*problems: str) -> str:
    """What a value of these problems is called."""
    return "success rate" if set(problems) <= _OF_SUCCESS else "value"


def goal_of(summary: dict[str, Any]) -> tuple[str, float] | None:
    """What a value is measured by: the optimum where it is known, else the reference."""
    if summary["optimal_value"] is not None:
        return "the optimum", summary["optimal_value"]
    if summary["reference_value"] is not None:
        return f"the reference {summary['reference']}", summary["reference_value"]
    return None


def verdict_of(summary: dict[str, Any], goal: tuple[str, float] | None) -> str:
    """One or two sentences that say what came of the run."""
    order = sorted(summary["schemes"], key=lambda entry: -entry["value"])
    if not order:
        return "Nothing is recorded yet."
    if order[0]["value"] <= 0:
        tried = _listed([f"{entry['scheme']} after {entry['samples']:,} samples" for entry in order])
        beside = f"; {goal[0]} succeeds {percent(goal[1])} of the time" if goal else ""
        return f"No scheme succeeded when last evaluated: {tried}{beside}."
    if len(order) > 3:
        first = _attainment(order[0], goal)
        said = f"Of {len(order)} schemes the best, {first}; the last, {_attainment(order[-1], goal, is_first=False)}."
    else:
        rest = [_attainment(entry, goal, is_first=False) for entry in order[1:]]
        said = "; ".join([_attainment(order[0], goal), *rest]) + "."
    return said + _overlap(order)


def auto_told(chosen: dict[str, Any] | None) -> str:
    """What the scheme `auto` does, and why; nothing where there is none."""
    if not chosen:
        return ""
    if chosen["warmup"] is None:
        return f"auto learns from scratch. {chosen['why']}"
    size = ", ".join(f"{name} = {setting(value)}" for name, value in chosen["warmup"].items())
    return f"auto warms up on {size} with {percent(chosen['part'])} of its samples. {chosen['why']}"


def _attainment(entry: dict[str, Any], goal: tuple[str, float] | None, is_first: bool = True) -> str:
    """How far a scheme came; what the percentages are of is said once."""
    if goal and goal[1] > 0:
        reached = f"reaches {percent(entry['value'] / goal[1])}" + (f" of {goal[0]}" if is_first else "")
    else:
        reached = f"succeeds {percent(entry['value'])} of the time"
    return f"{entry['scheme']} {reached} with {entry['samples']:,}" + (" samples" if is_first else "")


def _overlap(order: Sequence[dict[str, Any]]) -> str:
    """A warning where the first two cannot be told apart."""
    if len(order) < 2 or order[1]["interval"][1] < order[0]["interval"][0]:
        return ""
    return f" The 95% intervals of {order[0]['scheme']} and {order[1]['scheme']} overlap: their order may be chance."


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def provenance_told(provenance: dict[str, Any], seconds: float) -> list[tuple[str, str]]:
    """Where and how a run was made, by name."""
    told = [(name.replace("_", " "), _flat(provenance[name])) for name in _PROVENANCE if provenance.get(name)]
    return [*told, ("seconds", f"{seconds:,.1f}")]


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {inner}" for name, inner in value.items() if inner is not None)
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def rate(value: float) -> str:
    """A success rate."""
    return f"{value:.4f}"


def percent(part: float | None) -> str:
    """A part of a whole."""
    return "unknown" if part is None else f"{part:.1%}"


def whole(number: int) -> str:
    """A count."""
    return f"{number:,}"


def logarithm(value: float | None) -> str:
    """ln kappa, of which None is infinite too."""
    return "infinite" if value is None or math.isinf(value) else f"{value:.2f}"


def spread(kappa: dict[str, float]) -> str:
    """From where to where ln kappa may lie; nothing where it is exact or infinite."""
    if kappa["low"] == kappa["high"]:
        return ""
    return f"{logarithm(kappa['low'])} to {logarithm(kappa['high'])}"


def size(value: float | None) -> str:
    """A term of a bound, which may be of any size; nothing where it is not known."""
    if value is None:
        return ""
    if math.isinf(value):
        return "infinite"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{value:.4f}" if abs(value) < 1e6 else f"{mantissa}e{int(exponent)}"


def setting(value: Any) -> str:
    """A setting of an experiment, whatever it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
