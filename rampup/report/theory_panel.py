"""The theory panel of a report page: kappa as predicted and as measured, and the terms of Theorem 1."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rampup.runs.schemes import final_phases


def kappas_of(
    schemes: Sequence[dict[str, Any]], records: Sequence[Mapping[str, Any]], predictions: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """ln kappa where the final phase of each scheme begins, as predicted and as measured, and where it ends."""
    found = []
    for scheme in schemes:
        phases = final_phases(records, scheme["scheme"])
        if phases:
            first, last = _kappa_of([run[0] for run in phases]), _kappa_of([run[-1] for run in phases])
            has_infinite = any(one["kappa_is_infinite"] for run in phases for one in run)
            told = {"first": first, "last": last, "has_infinite": has_infinite}
            found.append(scheme | told | {"predicted": _predicted(predictions.get(scheme["scheme"]))})
    return found


def _kappa_of(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean of ln kappa over seeds, and the ends of all their intervals; infinite if one is."""
    known = {
        name: [math.inf if one[name] is None else one[name] for one in records]
        for name in ("ln_kappa", "ln_kappa_low", "ln_kappa_high")
    }
    low, high = min(known["ln_kappa_low"]), max(known["ln_kappa_high"])
    return {"mean": float(np.mean(known["ln_kappa"])), "low": low, "high": high}


def kappa_verdict(kappas: Sequence[dict[str, Any]]) -> str:
    """How much worse the worst scheme begins its final phase than the best; nothing where that may be chance."""
    order = sorted(kappas, key=lambda entry: entry["first"]["mean"])
    if len(order) < 2 or not order[0]["first"]["high"] < order[-1]["first"]["low"]:
        return ""
    best, worst = order[0], order[-1]
    gap = worst["first"]["mean"] - best["first"]["mean"]
    if math.isinf(gap):
        return f"{worst['scheme']} begins its final phase with an infinite kappa, {best['scheme']} with a finite one."
    # Beyond e^7, about a thousand, a power says more than digits.
    times = f"e^{gap:.1f}" if gap > 7 else f"{math.exp(gap):,.1f}"
    return f"{worst['scheme']} begins its final phase with a kappa {times} times that of {best['scheme']}."


def _predicted(prediction: Mapping[str, Any] | None) -> float | None:
    """ln kappa as predicted; nothing where nobody did."""
    return None if prediction is None else float(prediction["ln_kappa"])


def bounds_of(schemes: Sequence[dict[str, Any]], bounds: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Theorem 1 for every scheme it was held against, all numbers as floats; what is not known is None."""
    found = []
    for scheme in schemes:
        bound = bounds.get(scheme["scheme"])
        if bound is not None:
            lines = {name: bound[name] for name in ("gap", "first_line", "second_line")}
            sizes = {name: _number(value) for name, value in (bound["terms"] | lines).items()}
            found.append(scheme | {"bound": sizes, "updates": bound["updates"]})
    return found


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
