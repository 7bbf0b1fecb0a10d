"""What is drawn on a report page, as plain lists: curves, levels, portraits, and the looks of schemes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rampup.report import figures
from rampup.runs.folder import RunFolder

# A screen shows no more points of a curve; so many curves of that length are a megabyte.
_MOST_POINTS, _LONG_CURVES, _LEAST_POINTS = 600, 24, 60
# Digits of numbers that are only drawn.
_DIGITS = 5
_NOTES = {
    "success rate": "How often the policy succeeds.",
    "value": "What the policy earns on average.",
    "ln_kappa": "Smaller is better.",
    "avg_err": "The mean fitting error so far.",
}


def points_of(num_schemes: int) -> int:
    """How many points a curve may have on a page with so many schemes."""
    num_curves = len(figures.LABELS) * num_schemes
    return max(_LEAST_POINTS, min(_MOST_POINTS, _MOST_POINTS * _LONG_CURVES // max(num_curves, 1)))


def levels_of(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """The reference and, where they are known, the optimum and what an all-seeing player earns."""
    best, reference = summary["optimal_value"], summary["reference_value"]
    found = []
    if reference is not None:
        found.append({"kind": "reference", "label": f"reference: {summary['reference']}", "value": reference})
    if best is not None:
        found.append({"kind": "optimum", "label": "optimum", "value": best})
    # Runs of earlier versions have none.
    if summary.get("hindsight"):
        found.append({"kind": "hindsight", "label": "hindsight"} | summary["hindsight"])
    return found


def _drawn_levels(levels: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line where two are the same."""
    first, second = ([*levels, {}, {}])[:2]
    if second.get("kind") == "optimum" and abs(first["value"] - second["value"]) < 1e-9:
        return [second | {"label": "optimum, also the reference"}, *levels[2:]]
    return list(levels)


def drawn(folder: RunFolder, run: dict[str, Any], most: int) -> dict[str, Any]:
    """All that is drawn of a run, as plain lists."""
    records = folder.rows()
    names = [entry["scheme"] for entry in run["schemes"]]
    charts = []
    for name, label in figures.labels_of(run["measure"]).items():
        found = figures.curves(records, name)
        charts.append(
            {
                "name": name,
                "label": label,
                "note": _NOTES[label if name == "value" else name],
                # A rate of success is seen against never; of a value nobody knows what is little.
                "floor": 0 if label == "success rate" else None,
                "curves": [_short_curve(found[scheme], most) if scheme in found else None for scheme in names],
                "levels": _drawn_levels(run["levels"]) if name == "value" else [],
            }
        )
    return {
        "schemes": [{"name": name, "colour": colour_name(name), "look": look_of(name)} for name in names],
        "charts": charts,
        "portraits": [_short_portrait(portrait) for portrait in folder.portraits().values()],
    }


def _short_curve(curve: dict[str, np.ndarray], most: int) -> dict[str, Any]:
    """A curve of at most so many points, its ends kept; no band where there is one seed."""
    size = len(curve["samples"])
    index = np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int))
    names = ["mean", "low", "high"] if np.any(curve["low"] != curve["high"]) else ["mean"]
    return {"samples": [round(float(one)) for one in curve["samples"][index]]} | {
        name: [_short(one) for one in curve[name][index]] for name in names
    }


def _short(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None


def _short_portrait(portrait: dict[str, Any]) -> dict[str, Any]:
    """Chances to three digits: a colour tells no more."""
    if "slices" not in portrait:
        return portrait
    chances = "wins" if portrait["kind"] == "over_bids" else "accept"
    slices = [
        {"at": one.get("at"), "name": one.get("name", ""), "chances": np.round(one[chances], 3).tolist()}
        for one in portrait["slices"]
    ]
    return portrait | {"slices": slices}


def colour_name(scheme: str) -> str:
    """The name of a colour; never the scheme's own, which may be anything."""
    plain = scheme.removesuffix("_reg")
    return plain.replace("_", "-") if plain in figures.COLOURS else "other"


def both_colours(scheme: str) -> tuple[str, str]:
    """A scheme's colour on light and on dark ground."""
    light = figures.colour_of(scheme)
    channels = [int(light[start : start + 2], 16) for start in (1, 3, 5)]
    # A third of the way to white: as far from black as the colour itself is from white.
    return light, "#" + "".join(f"{round(one + (255 - one) / 3):02x}" for one in channels)


def look_of(scheme: str) -> str:
    """Solid after a warm-up and dashed without, fainter with regularisation."""
    line = "solid" if figures.is_curriculum(scheme) else "dashed"
    return f"{line} faint" if scheme.endswith("_reg") else line
