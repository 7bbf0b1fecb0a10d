"""A report as one HTML file that needs nothing else: what came of runs in words, tables, curves and pictures."""

import base64
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import yaml

from rampup.report import drawing, figures, theory_panel, words
from rampup.runs.files import write_whole
from rampup.runs.folder import RunFolder
from rampup.runs.schemes import scheme_results

_HERE = Path(__file__).parent


def write_report(folders: Sequence[RunFolder], path: str | Path) -> None:
    """Write the page of one run, or of several side by side."""
    if not folders:
        raise ValueError("`folders` must name at least one run, got none.")
    # What no encoding has, such as half of a surrogate pair, becomes a question mark.
    write_whole(path, page_of(folders).encode("utf-8", "replace"))


def page_of(folders: Sequence[RunFolder]) -> str:
    """The page as text."""
    runs = [_run(folder) for folder in folders]
    most = drawing.points_of(sum(len(run["schemes"]) for run in runs))
    data = [drawing.drawn(folder, run, most) for folder, run in zip(folders, runs, strict=True)]
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    return (
        environment()
        .get_template("page.html.j2")
        .render(
            title=runs[0]["name"] if len(runs) == 1 else f"{len(runs)} runs",
            runs=runs,
            measure=words.measure_of(*(run["summary"]["problem"] for run in runs)),
            data=_json_for_html(data),
            style=style(),
            script=script,
            # The browser runs this script and no other, whatever a name or a config may hold.
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            colours={
                drawing.colour_name(scheme): drawing.both_colours(scheme) for scheme in (*figures.COLOURS, "other")
            },
        )
    )


def style() -> str:
    """How all pages look."""
    return (_HERE / "page.css").read_text(encoding="utf-8")


def environment() -> jinja2.Environment:
    """Where templates are found, and how they write numbers."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = "rate", "percent", "whole", "logarithm", "spread", "size", "setting"
    found.filters |= {name: getattr(words, name) for name in names}
    return found


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
    goal = words.goal_of(summary)
    for entry in summary["schemes"]:
        entry["part"] = entry["value"] / goal[1] if goal and goal[1] > 0 else None
        entry["colour"], entry["look"] = drawing.colour_name(entry["scheme"]), drawing.look_of(entry["scheme"])
    theory = folder.theory()
    kappas = theory_panel.kappas_of(summary["schemes"], records, theory["predictions"])
    return {
        "name": str(config["name"]),
        "about": str(config.get("about") or ""),
        "is_finished": folder.summary is not None,
        "verdict": words.verdict_of(summary, goal),
        "auto": words.auto_told(config.get("auto")),
        "summary": summary,
        "measure": words.measure_of(summary["problem"]),
        "schemes": summary["schemes"],
        "goal": "goal" if goal is None else goal[0].split()[1],
        "hindsight": summary.get("hindsight"),
        "levels": drawing.levels_of(summary),
        "kappas": kappas,
        "kappa_verdict": theory_panel.kappa_verdict(kappas),
        "has_infinite_kappa": any(entry["has_infinite"] for entry in kappas),
        "has_predictions": any(entry["predicted"] is not None for entry in kappas),
        "has_spread": any(words.spread(entry[place]) for entry in kappas for place in ("first", "last")),
        "bounds": theory_panel.bounds_of(summary["schemes"], theory["bounds"]),
        "portraits": list(folder.portraits()),
        "config": folder.config,
        "provenance": words.provenance_told(folder.provenance or {}, summary["seconds"]),
    }


def _so_far(config: dict[str, Any], records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A summary of a run that is not finished, from its last records."""
    return {
        "problem": (config.get("problem") or {}).get("name", "bcp"),
        "reference": config.get("reference") or "reference",
        "reference_value": None,
        "optimal_value": None,
        "schemes": scheme_results(records, config.get("schemes") or []),
        "seconds": max((record["seconds"] for record in records), default=0.0),
    }
