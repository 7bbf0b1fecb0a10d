"""A Markdown page of results: the paper's claims, and for each experiment its table, its figure and its origin."""

import html
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from rampup.claims import Claim
from rampup.report.figures import draw_training, save_figure
from rampup.report.words import measure_of
from rampup.runs.files import write_whole
from rampup.runs.folder import RunFolder

_ABOUT = """`rampup reproduce` measured them on the runs below and wrote this page. Samples are counted as the paper
counts them, those of the warm-up among them. A value in a claim is the median over seeds of the mean of the last
three rows; in the tables of schemes it is the mean over seeds of the last row."""


def checked_page_name(path: str) -> str:
    """Return the path of a page if it has the ending of one: its pictures lie in a folder of the same name without."""
    if Path(path).suffix.lower() != ".md":
        raise ValueError(f"the page of results must end in .md, got {path!r}.")
    return path


def write_results(folders: Sequence[RunFolder], claims: Sequence[Claim], path: str) -> None:
    """Write the page of finished runs; its figures are written first, into a folder beside it."""
    page = Path(checked_page_name(path))
    pictures = _picture_names(folders)
    for folder, name in zip(folders, pictures, strict=True):
        save_figure(draw_training(folder), page.with_suffix("") / name)
    parts = _opening(claims)
    for folder, name in zip(folders, pictures, strict=True):
        parts += _section(folder, f"{quote(page.stem)}/{name}")
    # What no encoding has, such as half of a surrogate pair, becomes a question mark.
    write_whole(page, ("\n\n".join(parts) + "\n").encode("utf-8", "replace"))


def _picture_names(folders: Sequence[RunFolder]) -> list[str]:
    """A file name for each run that is safe on every disk and in a link, whatever its experiment is called."""
    names = [str(yaml.safe_load(folder.config)["name"]) for folder in folders]
    plain = [re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:80] or "run" for name in names]
    return [f"{name}.png" if plain.count(name) == 1 else f"{name}-{index}.png" for index, name in enumerate(plain)]


def _opening(claims: Sequence[Claim]) -> list[str]:
    held = sum(claim.holds for claim in claims)
    rows = [[one.experiment, one.claim, one.measured, one.required, one.verdict] for one in claims]
    table = _table(["experiment", "claim", "measured", "required", ""], rows)
    return ["# Results", f"{held} of {len(claims)} claims of the paper hold.", _ABOUT, table]


def _section(folder: RunFolder, picture: str) -> list[str]:
    """What there is to say about one run."""
    config, summary = yaml.safe_load(folder.config), folder.summary
    assert summary is not None, "only finished runs have results"
    name, measure = _text(config["name"]), measure_of(summary["problem"])
    header = ["scheme", measure, "95% interval", "ln kappa", "samples", "seeds"]
    return [
        f"## {name}",
        _text(config.get("about") or ""),
        _table(header, [_row(one) for one in summary["schemes"]]),
        _goal(summary),
        f"![{measure.capitalize()}, ln kappa and fitting error against samples: {name}]({picture})",
        _origin(folder.provenance or {}, summary["seconds"]),
    ]


def _row(scheme: dict[str, Any]) -> list[str]:
    low, high = scheme["interval"]
    ln_kappa = "infinite" if scheme["ln_kappa"] is None else f"{scheme['ln_kappa']:z.2f}"
    rate, interval = f"{scheme['value']:.4f}", f"{low:.4f} to {high:.4f}"
    return [scheme["scheme"], rate, interval, ln_kappa, f"{scheme['samples']:,}", str(scheme["seeds"])]


def _goal(summary: dict[str, Any]) -> str:
    best = "" if summary["optimal_value"] is None else f"; the optimum is {summary['optimal_value']:.4f}"
    return f"The reference, {_text(summary['reference'])}, earns {summary['reference_value']:.4f}{best}."


def _origin(provenance: dict[str, Any], seconds: float) -> str:
    """Where, when and with what a run was made."""
    device, versions = provenance.get("device") or {}, provenance.get("versions") or {}
    told = [f"Trained in {seconds:,.0f} seconds"]
    told += [f"on {device['kind']}"] if device.get("kind") else []
    told += [f"begun {provenance['started']}"] if provenance.get("started") else []
    told += [f"{name} {versions[name]}" for name in ("rampup", "jax", "python") if versions.get(name)]
    told += [f"commit {provenance['git_commit'][:12]}"] if provenance.get("git_commit") else []
    return _text(", ".join(told)) + "."


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *([_text(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(words: str) -> str:
    """Words as they are: no markup, no line breaks, no end of a table's cell."""
    plain = html.escape(" ".join(str(words).split()), quote=False)
    # An underscore inside a word is one, as in fix_samp_curl.
    return re.sub(r"([\\`*\[\]|~#]|(?<!\w)_|_(?!\w))", r"\\\1", plain)
