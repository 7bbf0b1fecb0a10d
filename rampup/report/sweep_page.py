"""The report of a sweep as one HTML file: the best settings, what each of them does, and what they do together."""

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rampup import intervals
from rampup.report import drawing, figures
from rampup.report.page import environment, style
from rampup.report.words import setting
from rampup.runs.files import write_whole

_FIRST, _AFTER = "run", "scheme"
# So many values of a setting are levels with a mean each; more are single points.
_MOST_LEVELS = 12
_MOST_PAIRS = 6
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 520, 260, 56, 16, 12, 40

Row = dict[str, Any]


def axes_of(rows: Sequence[Row]) -> list[str]:
    """The settings that are varied, in the order of the table."""
    names = list(rows[0])
    return names[names.index(_FIRST) + 1 : names.index(_AFTER)]


def points_of(rows: Sequence[Row]) -> list[Row]:
    """What came of each point and scheme over its seeds, the best first."""
    axes, groups = axes_of(rows), {}
    for row in rows:
        if row["state"] == "finished":
            groups.setdefault((row["scheme"], *(str(row[axis]) for axis in axes)), []).append(row)
    return sorted((_point(own, axes) for own in groups.values()), key=lambda one: -one["value"])


def _point(rows: Sequence[Row], axes: Sequence[str]) -> Row:
    values = np.array([row["value"] for row in rows])
    first = rows[0]
    kappas = [row["ln_kappa"] for row in rows]
    goal = first["optimal_value"] or first["reference_value"]
    interval = intervals.of_mean(values) if len(rows) > 1 else [first["value_low"], first["value_high"]]
    return {
        "scheme": first["scheme"],
        "colour": drawing.colour_name(first["scheme"]),
        "look": drawing.look_of(first["scheme"]),
        "settings": {axis: first[axis] for axis in axes},
        "value": float(values.mean()),
        "interval": [min(max(end, 0.0), 1.0) for end in interval],
        "part": float(values.mean()) / goal if goal else None,
        "goal": "the optimum" if first["optimal_value"] else "the reference",
        "ln_kappa": None if None in kappas else float(np.mean(kappas)),
        "samples": int(np.mean([row["samples"] for row in rows])),
        "seconds": float(np.sum([row["seconds"] for row in rows])),
        "seeds": len(rows),
    }


def write_sweep_report(name: str, about: str, text: str, measure: str, rows: Sequence[Row], path: str | Path) -> None:
    """Write the page of a sweep from its table; `text` is its file, `measure` what its values are."""
    points, axes = points_of(rows), axes_of(rows)
    page = (
        environment()
        .get_template("sweep.html.j2")
        .render(
            title=name,
            about=about,
            style=style(),
            verdict=_verdict(points, axes),
            counts=_counts(rows),
            measure=measure,
            axes=axes,
            points=points[:30],
            more=max(len(points) - 30, 0),
            importance=_importance(points, axes),
            responses=[_response(points, axis) for axis in axes],
            interactions=_interactions(points, axes),
            schemes=_schemes(rows),
            failures=[row for row in rows if row["state"] == "failed"],
            config=text,
            frame={
                "width": _WIDTH,
                "height": _HEIGHT,
                "left": _LEFT,
                "right": _WIDTH - _RIGHT,
                "bottom": _HEIGHT - _BOTTOM,
            },
            colours={
                drawing.colour_name(scheme): drawing.both_colours(scheme) for scheme in (*figures.COLOURS, "other")
            },
        )
    )
    write_whole(path, page.encode("utf-8", "replace"))


def _verdict(points: Sequence[Row], axes: Sequence[str]) -> str:
    """The best setting in a sentence, and whether that may be chance."""
    if not points:
        return "No run is finished yet."
    best = points[0]
    where = " and ".join(f"{axis} = {setting(best['settings'][axis])}" for axis in axes)
    part = "" if best["part"] is None else f", {best['part']:.1%} of {best['goal']}"
    with_where = f" with {where}" if where else ""
    told = f"The best of {len(points)}: {best['scheme']}{with_where} reaches {best['value']:.4f}{part}."
    near = sum(one["interval"][1] >= best["interval"][0] for one in points[1:])
    if near:
        others = "1 other overlaps" if near == 1 else f"{near} others overlap"
        told += f" The 95% interval of {others} with its own: their order may be chance."
    return told


def _counts(rows: Sequence[Row]) -> list[tuple[str, str]]:
    finished = [row for row in rows if row["state"] == "finished"]
    told = [("runs", f"{len(rows):,}"), ("finished", f"{len(finished):,}")]
    told += [("failed", f"{sum(row['state'] == 'failed' for row in rows):,}")]
    told += [("samples", f"{sum(row['samples'] for row in finished):,}")]
    return [*told, ("seconds of work", f"{sum(row['seconds'] for row in finished):,.1f}")]


def _levels(points: Sequence[Row], axis: str) -> list[Any]:
    """The values of a setting, numbers in their order."""
    values = list({str(one["settings"][axis]): one["settings"][axis] for one in points}.values())
    return sorted(values) if all(_is_number(value) for value in values) else sorted(values, key=str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _importance(points: Sequence[Row], axes: Sequence[str]) -> list[Row]:
    """How much of the variance of the values, over all points, the means of each setting's levels account for."""
    values = np.array([one["value"] for one in points])
    if len(values) < 3 or values.std() == 0:
        return []
    found = []
    for axis in (_AFTER, *axes):
        label = lambda one, axis=axis: str(one["scheme"] if axis == _AFTER else one["settings"][axis])
        groups: dict[str, list[float]] = {}
        for one in points:
            groups.setdefault(label(one), []).append(one["value"])
        if 1 < len(groups) < len(points):
            between = sum(len(own) * (np.mean(own) - values.mean()) ** 2 for own in groups.values())
            found.append({"axis": axis, "part": float(between / (len(values) * values.var()))})
    return sorted(found, key=lambda one: -one["part"])


def _response(points: Sequence[Row], axis: str) -> Row:
    """The value against one setting, the others averaged over: a line for each scheme, or points where all differ."""
    levels = _levels(points, axis)
    is_line = len(levels) <= _MOST_LEVELS
    places, ticks, is_log = _scale(levels)
    marks = _marks(max((one["value"] for one in points), default=1.0))
    height = lambda value: round(_HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * value / marks[-1], 1)
    lines = []
    for scheme in dict.fromkeys(one["scheme"] for one in points):
        own = [one for one in points if one["scheme"] == scheme]
        dots = []
        for level in levels:
            here = [one["value"] for one in own if str(one["settings"][axis]) == str(level)]
            for value in [float(np.mean(here))] if is_line and here else here:
                dots.append(
                    {
                        "x": places[str(level)],
                        "y": height(value),
                        "said": f"{scheme}, {axis} = {setting(level)}: {value:.4f}",
                    }
                )
        path = "M" + "L".join(f"{dot['x']} {dot['y']}" for dot in dots) if is_line and dots else ""
        lines.append(
            {
                "scheme": scheme,
                "colour": drawing.colour_name(scheme),
                "look": drawing.look_of(scheme),
                "dots": dots,
                "path": path,
            }
        )
    written = [{"y": height(mark), "text": f"{mark:.4g}"} for mark in marks]
    return {"axis": axis, "lines": lines, "ticks": ticks, "marks": written, "is_log": is_log}


def _marks(top: float) -> list[float]:
    """Round numbers from 0 to at least the top."""
    rough = (top or 1.0) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [step * place for place in range(math.ceil((top or 1.0) / step - 1e-9) + 1)]


def _scale(levels: Sequence[Any]) -> tuple[dict[str, float], list[Row], bool]:
    """Where each value of a setting stands from left to right, and what is written below."""
    left, right = _LEFT + 14, _WIDTH - _RIGHT - 14
    numbers = [float(level) for level in levels] if all(map(_is_number, levels)) else None
    is_log = numbers is not None and min(numbers, default=0) > 0 and max(numbers) / min(numbers) > 20
    if numbers is None:
        numbers = [float(place) for place in range(len(levels))]
    along = [math.log(one) for one in numbers] if is_log else numbers
    low, span = min(along, default=0.0), (max(along, default=1.0) - min(along, default=0.0)) or 1.0
    places = {
        str(level): round(left + (right - left) * (one - low) / span, 1)
        for level, one in zip(levels, along, strict=True)
    }
    step = max(1, -(-len(levels) // 7))
    # The last words must not leave the picture.
    edge = _WIDTH - 28
    ticks = [{"x": min(places[str(level)], edge), "text": setting(level)[:14]} for level in levels[::step]]
    return places, ticks, is_log


def _interactions(points: Sequence[Row], axes: Sequence[str]) -> list[Row]:
    """The mean value for each pair of levels of two settings, under the best scheme."""
    if not points:
        return []
    scheme = points[0]["scheme"]
    own = [one for one in points if one["scheme"] == scheme]
    few = [axis for axis in axes if 1 < len(_levels(own, axis)) <= _MOST_LEVELS]
    best = own[0]["value"] or 1.0
    tables = []
    for one, other in itertools.islice(itertools.combinations(few, 2), _MOST_PAIRS):
        across, down = _levels(own, one), _levels(own, other)
        cells = []
        for below in down:
            row = []
            for beside in across:
                here = [
                    p["value"]
                    for p in own
                    if str(p["settings"][one]) == str(beside) and str(p["settings"][other]) == str(below)
                ]
                mean = float(np.mean(here)) if here else None
                row.append({"value": mean, "shade": 0 if mean is None else round(55 * max(mean, 0.0) / best)})
            cells.append({"level": setting(below), "row": row})
        tables.append(
            {
                "across": one,
                "down": other,
                "levels": [setting(level) for level in across],
                "cells": cells,
                "scheme": scheme,
            }
        )
    return tables


def _schemes(rows: Sequence[Row]) -> list[Row]:
    """What each scheme took, over all its finished runs."""
    found = []
    for scheme in dict.fromkeys(row["scheme"] for row in rows):
        own = [row for row in rows if row["scheme"] == scheme and row["state"] == "finished"]
        if not own:
            continue
        needed = [math.inf if row["samples_to_90_percent"] is None else row["samples_to_90_percent"] for row in own]
        median = float(np.median(needed))
        found.append(
            {
                "scheme": scheme,
                "colour": drawing.colour_name(scheme),
                "look": drawing.look_of(scheme),
                "runs": len(own),
                "value": float(np.mean([row["value"] for row in own])),
                "best": max(row["value"] for row in own),
                "reached": sum(math.isfinite(one) for one in needed),
                "needed": f"{int(median):,}" if math.isfinite(median) else "never, for half of them",
                "samples": sum(row["samples"] for row in own),
                "seconds": sum(row["seconds"] for row in own),
            }
        )
    return found
