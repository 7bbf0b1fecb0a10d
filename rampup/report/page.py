"""A report as one HTML file that needs nothing else: what came of runs in words, a table, curves and pictures."""

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import yaml

from rampup import intervals
from rampup.report import figures
from rampup.runs.files import write_whole
from rampup.runs.folder import RunFolder

_HERE = Path(__file__).parent
# A screen shows no more points of a curve; so many curves of that length are a megabyte.
_MOST_POINTS, _LONG_CURVES, _LEAST_POINTS = 600, 24, 60
# Digits of numbers that are only drawn.
_DIGITS = 5
_PROVENANCE = ("started", "device", "threads", "versions", "git_commit", "platform", "command")
_NOTES = {
    "value": "How often the policy succeeds.",
    "ln_kappa": "Smaller is better.",
    "avg_err": "The mean fitting error so far.",
}


def write_report(folders: Sequence[RunFolder], path: str | Path) -> None:
    """Write the page of one run, or of several side by side."""
    if not folders:
        raise ValueError("`folders` must name at least one run, got none.")
    # What no encoding has, such as half of a surrogate pair, becomes a question mark.
    write_whole(path, page_of(folders).encode("utf-8", "replace"))


def page_of(folders: Sequence[RunFolder]) -> str:
    """The page as text."""
    runs = [_run(folder) for folder in folders]
    num_curves = sum(len(figures.LABELS) * len(run["schemes"]) for run in runs)
    most = max(_LEAST_POINTS, min(_MOST_POINTS, _MOST_POINTS * _LONG_CURVES // max(num_curves, 1)))
    data = [_drawn(folder, run, most) for folder, run in zip(folders, runs, strict=True)]
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=runs[0]["name"] if len(runs) == 1 else f"{len(runs)} runs",
            runs=runs,
            data=_json_for_html(data),
            style=(_HERE / "page.css").read_text(encoding="utf-8"),
            script=script,
            # The browser runs this script and no other, whatever a name or a config may hold.
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            colours={_colour_name(scheme): _both_colours(scheme) for scheme in (*figures.COLOURS, "other")},
        )
    )


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "rate": _rate,
        "percent": _percent,
        "whole": _whole,
        "logarithm": _logarithm,
        "spread": _spread,
    }
    return environment


def _json_for_html(data: Any) -> str:
    """JSON that cannot end the element it stands in; what is not ASCII is escaped by `dumps` itself."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _run(folder: RunFolder) -> dict[str, Any]:
    """All that is said of a run in words and tables."""
    config, records = yaml.safe_load(folder.config), folder.rows()
    summary = folder.summary or _so_far(config, records)
    goal = _goal(summary)
    for entry in summary["schemes"]:
        entry["part"] = entry["value"] / goal[1] if goal and goal[1] > 0 else None
        entry["colour"], entry["look"] = _colour_name(entry["scheme"]), _look(entry["scheme"])
    kappas = _kappas(summary["schemes"], records)
    return {
        "name": str(config["name"]),
        "about": str(config.get("about") or ""),
        "is_finished": folder.summary is not None,
        "verdict": _verdict(summary, goal),
        "summary": summary,
        "schemes": summary["schemes"],
        "goal": "goal" if goal is None else goal[0].split()[1],
        "levels": _levels(summary),
        "kappas": kappas,
        "kappa_verdict": _kappa_verdict(kappas),
        "has_infinite_kappa": any(entry["has_infinite"] for entry in kappas),
        "portraits": list(folder.portraits()),
        "config": folder.config,
        "provenance": _provenance(folder.provenance or {}, summary["seconds"]),
    }


def _so_far(config: dict[str, Any], records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A summary of a run that is not finished, from its last records."""
    last = list({(record["scheme"], record["seed"]): record for record in records}.values())
    schemes = []
    for name in dict.fromkeys(record["scheme"] for record in last):
        own = [record for record in last if record["scheme"] == name]
        kappas = [record["ln_kappa"] for record in own]
        values = np.array([record["value"] for record in own])
        schemes.append(
            {
                "scheme": name,
                "value": float(values.mean()),
                "interval": intervals.of_mean(values) if len(own) > 1 else [own[0]["value_low"], own[0]["value_high"]],
                "ln_kappa": None if None in kappas else float(np.mean(kappas)),
                "samples": int(np.mean([record["samples"] for record in own])),
                "seeds": len(own),
            }
        )
    return {
        "reference": config.get("reference") or "reference",
        "reference_value": None,
        "optimal_value": None,
        "schemes": schemes,
        "seconds": max((record["seconds"] for record in last), default=0.0),
    }


def _goal(summary: dict[str, Any]) -> tuple[str, float] | None:
    """What a value is measured by: the optimum where it is known, else the reference."""
    if summary["optimal_value"] is not None:
        return "the optimum", summary["optimal_value"]
    if summary["reference_value"] is not None:
        return f"the reference {summary['reference']}", summary["reference_value"]
    return None


def _verdict(summary: dict[str, Any], goal: tuple[str, float] | None) -> str:
    """One or two sentences that say what came of the run."""
    order = sorted(summary["schemes"], key=lambda entry: -entry["value"])
    if not order:
        return "Nothing is recorded yet."
    if order[0]["value"] <= 0:
        tried = _listed([f"{entry['scheme']} after {entry['samples']:,} samples" for entry in order])
        beside = f"; {goal[0]} succeeds {_percent(goal[1])} of the time" if goal else ""
        return f"No scheme succeeded when last evaluated: {tried}{beside}."
    if len(order) > 3:
        first = _attainment(order[0], goal)
        said = f"Of {len(order)} schemes the best, {first}; the last, {_attainment(order[-1], goal, is_first=False)}."
    else:
        rest = [_attainment(entry, goal, is_first=False) for entry in order[1:]]
        said = "; ".join([_attainment(order[0], goal), *rest]) + "."
    return said + _overlap(order)


def _attainment(entry: dict[str, Any], goal: tuple[str, float] | None, is_first: bool = True) -> str:
    """How far a scheme came; what the percentages are of is said once."""
    if goal and goal[1] > 0:
        reached = f"reaches {_percent(entry['value'] / goal[1])}" + (f" of {goal[0]}" if is_first else "")
    else:
        reached = f"succeeds {_percent(entry['value'])} of the time"
    return f"{entry['scheme']} {reached} with {entry['samples']:,}" + (" samples" if is_first else "")


def _overlap(order: Sequence[dict[str, Any]]) -> str:
    """A warning where the first two cannot be told apart."""
    if len(order) < 2 or order[1]["interval"][1] < order[0]["interval"][0]:
        return ""
    return f" The 95% intervals of {order[0]['scheme']} and {order[1]['scheme']} overlap: their order may be chance."


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _levels(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """The reference and, where it is known, the optimum; one line where they are the same."""
    best, reference = summary["optimal_value"], summary["reference_value"]
    found = []
    if reference is not None:
        found.append({"kind": "reference", "label": f"reference: {summary['reference']}", "value": reference})
    if best is not None:
        found.append({"kind": "optimum", "label": "optimum", "value": best})
    return found


def _drawn_levels(levels: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    if len(levels) == 2 and abs(levels[0]["value"] - levels[1]["value"]) < 1e-9:
        return [levels[1] | {"label": "optimum, also the reference"}]
    return list(levels)


def _final_phases(records: Sequence[dict[str, Any]], scheme: str) -> list[list[dict[str, Any]]]:
    """The records of the last stage of every seed."""
    own = [record for record in records if record["scheme"] == scheme]
    runs = [[one for one in own if one["seed"] == seed] for seed in dict.fromkeys(one["seed"] for one in own)]
    return [[one for one in run if one["stage"] == run[-1]["stage"]] for run in runs]


def _kappas(schemes: Sequence[dict[str, Any]], records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """ln kappa where the final phase of each scheme begins and where it ends."""
    found = []
    for scheme in schemes:
        phases = _final_phases(records, scheme["scheme"])
        if phases:
            first, last = _kappa_of([run[0] for run in phases]), _kappa_of([run[-1] for run in phases])
            has_infinite = any(one["kappa_is_infinite"] for run in phases for one in run)
            found.append(scheme | {"first": first, "last": last, "has_infinite": has_infinite})
    return found


def _kappa_of(records: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The mean of ln kappa over seeds, and the ends of all their intervals; infinite if one is."""
    known = {
        name: [math.inf if one[name] is None else one[name] for one in records]
        for name in ("ln_kappa", "ln_kappa_low", "ln_kappa_high")
    }
    low, high = min(known["ln_kappa_low"]), max(known["ln_kappa_high"])
    return {"mean": float(np.mean(known["ln_kappa"])), "low": low, "high": high}


def _kappa_verdict(kappas: Sequence[dict[str, Any]]) -> str:
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


def _provenance(provenance: dict[str, Any], seconds: float) -> list[tuple[str, str]]:
    told = [(name.replace("_", " "), _flat(provenance[name])) for name in _PROVENANCE if provenance.get(name)]
    return [*told, ("seconds", f"{seconds:,.1f}")]


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {inner}" for name, inner in value.items() if inner is not None)
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _drawn(folder: RunFolder, run: dict[str, Any], most: int) -> dict[str, Any]:
    """All that is drawn of a run, as plain lists."""
    records = folder.rows()
    names = [entry["scheme"] for entry in run["schemes"]]
    charts = []
    for name, label in figures.LABELS.items():
        found = figures.curves(records, name)
        charts.append(
            {
                "name": name,
                "label": label,
                "note": _NOTES[name],
                "curves": [_short_curve(found[scheme], most) if scheme in found else None for scheme in names],
                "levels": _drawn_levels(run["levels"]) if name == "value" else [],
            }
        )
    return {
        "schemes": [{"name": name, "colour": _colour_name(name), "look": _look(name)} for name in names],
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
    chances = "accept" if portrait["kind"] == "over_items" else "wins"
    slices = [
        {"at": one["at"], "name": one.get("name", ""), "chances": np.round(one[chances], 3).tolist()}
        for one in portrait["slices"]
    ]
    return portrait | {"slices": slices}


def _colour_name(scheme: str) -> str:
    """The name of a colour; never the scheme's own, which may be anything."""
    plain = scheme.removesuffix("_reg")
    return plain.replace("_", "-") if plain in figures.COLOURS else "other"


def _both_colours(scheme: str) -> tuple[str, str]:
    """A scheme's colour on light and on dark ground."""
    light = figures.colour_of(scheme)
    channels = [int(light[start : start + 2], 16) for start in (1, 3, 5)]
    # A third of the way to white: as far from black as the colour itself is from white.
    return light, "#" + "".join(f"{round(one + (255 - one) / 3):02x}" for one in channels)


def _look(scheme: str) -> str:
    """Solid after a warm-up and dashed without, fainter with regularisation."""
    line = "solid" if figures.is_curriculum(scheme) else "dashed"
    return f"{line} faint" if scheme.endswith("_reg") else line


def _rate(value: float) -> str:
    return f"{value:.4f}"


def _percent(part: float | None) -> str:
    return "unknown" if part is None else f"{part:.1%}"


def _whole(number: int) -> str:
    return f"{number:,}"


def _logarithm(value: float | None) -> str:
    return "infinite" if value is None or math.isinf(value) else f"{value:.2f}"


def _spread(kappa: dict[str, float]) -> str:
    """From where to where ln kappa may lie; nothing where it is exact or infinite."""
    if kappa["low"] == kappa["high"]:
        return ""
    return f"{_logarithm(kappa['low'])} to {_logarithm(kappa['high'])}"
