"""Figures of a run like the paper's: curves against samples, and pictures of what each policy does."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rampup import intervals
from rampup.report.words import measure_of
from rampup.runs.files import write_whole
from rampup.runs.folder import RunFolder

# One colour for each of the four ways to train (Okabe and Ito); a lighter line is the regularised one.
COLOURS = {
    "direct": "#D55E00",
    "naive_samp": "#CC79A7",
    "curl": "#0072B2",
    "fix_samp_curl": "#009E73",
    "multi_step": "#E69F00",
    "auto": "#56B4E9",
}
LABELS = {"value": "success rate", "ln_kappa": "ln kappa", "avg_err": "avg(err)"}


def labels_of(measure: str) -> dict[str, str]:
    """What the curves are called where a value is called so."""
    return LABELS | {"value": measure}


def colour_of(scheme: str) -> str:
    return COLOURS.get(scheme.removesuffix("_reg"), "#555555")


def is_curriculum(scheme: str) -> bool:
    """Whether a warm-up comes first: drawn solid, where the final phase alone is dashed."""
    return scheme.removesuffix("_reg") not in ("direct", "naive_samp")


def curves(records: Sequence[dict[str, Any]], name: str) -> dict[str, dict[str, np.ndarray]]:
    """By scheme: samples, the smoothed mean over seeds of a column, and its 95% band."""
    found = {}
    for scheme in dict.fromkeys(record["scheme"] for record in records):
        own = [record for record in records if record["scheme"] == scheme]
        seeds = list(dict.fromkeys(record["seed"] for record in own))
        series = [_final_phase([record for record in own if record["seed"] == seed], name) for seed in seeds]
        samples = max((one[0] for one in series), key=len)
        rows = np.array([np.interp(samples, *one) for one in series])
        smooth = np.array([smoothed(row) for row in rows])
        mean = smooth.mean(axis=0)
        error = smooth.std(axis=0, ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.zeros_like(mean)
        reach = intervals.reach(len(rows)) if len(rows) > 1 else 0.0
        found[scheme] = {
            "samples": samples,
            "mean": mean,
            "low": mean - reach * error,
            "high": mean + reach * error,
        }
    return found


def _final_phase(records: Sequence[dict[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Samples, those of the warm-up counted, and a column, in the last stage of a run; what is infinite is left out."""
    last = max(record["stage"] for record in records)
    kept = [record for record in records if record["stage"] == last and record[name] is not None]
    if not kept:
        return np.zeros(1), np.full(1, np.nan)
    return np.array([record["samples"] for record in kept], float), np.array([record[name] for record in kept], float)


def smoothed(values: np.ndarray, span: float = 0.05) -> np.ndarray:
    """A moving average over a twentieth of the curve, narrower at its ends so that they stay where they are."""
    half = max(int(len(values) * span / 2), 0)
    total = np.concatenate([[0.0], np.cumsum(values)])
    index = np.arange(len(values))
    reach = np.minimum(half, np.minimum(index, len(values) - 1 - index))
    return (total[index + reach + 1] - total[index - reach]) / (2 * reach + 1)


def draw_training(folder: RunFolder) -> Any:
    """Success rate or value, ln kappa and average fitting error against samples, all schemes together."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    records, summary = folder.rows(), folder.summary or {}
    figure = Figure(figsize=(13, 3.9), layout="constrained")
    titles = labels_of(measure_of(summary.get("problem", "bcp")))
    for axes, name in zip(figure.subplots(1, 3), LABELS, strict=True):
        drawn = curves(records, name)
        for scheme, curve in drawn.items():
            look = {"color": colour_of(scheme), "linestyle": "-" if is_curriculum(scheme) else "--"}
            faint = {"alpha": 0.55} if scheme.endswith("_reg") else {}
            axes.plot(curve["samples"], curve["mean"], label=scheme, linewidth=1.8, **look, **faint)
            axes.fill_between(
                curve["samples"], curve["low"], curve["high"], color=colour_of(scheme), alpha=0.15, linewidth=0
            )
        axes.set_xlabel("samples, those of the warm-up counted")
        axes.set_title(titles[name], loc="left", fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
        ends = [curve["samples"][-1] for curve in drawn.values()]
        # Where one scheme takes many times the samples of another, the short curve would be a stroke at the edge.
        if max(ends) > 4 * min(ends) > 0:
            axes.set_xscale("log")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        if name == "value":
            _draw_levels(axes, summary)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(len(labels), 6), frameon=False)
    return figure


def _draw_levels(axes: Any, summary: dict[str, Any]) -> None:
    """The reference policy, the optimum where it is known and another, and hindsight where that is known."""
    best, reference = summary.get("optimal_value"), summary.get("reference_value")
    if reference is not None:
        axes.axhline(reference, color="#555555", linewidth=1, linestyle=":", label=f"reference: {summary['reference']}")
    if best is not None and abs(best - (reference or 0)) > 1e-9:
        axes.axhline(best, color="black", linewidth=1, label="optimum")
    if summary.get("hindsight"):
        axes.axhline(summary["hindsight"]["value"], color="black", linewidth=1, linestyle="--", label="hindsight")
    if measure_of(summary.get("problem", "bcp")) == "success rate":
        axes.set_ylim(bottom=0)


def draw_portrait(title: str, portrait: dict[str, Any]) -> Any:
    """A picture of what a policy does."""
    return _PORTRAITS[portrait["kind"]](title, portrait)


def _draw_over_time(title: str, portrait: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(portrait["arrival"], portrait["with_record"], color="#0072B2", linewidth=2, label="best so far")
    axes.plot(
        portrait["arrival"], portrait["without_record"], color="#999999", linewidth=1.4, label="not the best so far"
    )
    axes.axvline(
        portrait["optimal_threshold"] + 0.5, color="black", linewidth=1, linestyle=":", label="optimal: from here"
    )
    axes.set(xlabel="arrival", ylabel="chance of accepting", ylim=(-0.03, 1.03))
    axes.set_title(title, loc="left", fontsize=11, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    return figure


def _draw_over_arrivals(title: str, portrait: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure

    slices = portrait["slices"]
    columns = len(slices) // 2
    figure = Figure(figsize=(4.3 * columns + 1, 5.6), layout="constrained")
    grid = figure.subplots(2, columns, sharex=True, sharey=True, squeeze=False)
    for axes, one in zip(grid.flat, slices, strict=True):
        _draw_map(axes, portrait["arrival"], portrait["marks"], one["accept"])
        axes.set_title(one["name"], fontsize=10)
    for axes in grid[-1]:
        axes.set_xlabel("arrival")
    for axes in grid[:, 0]:
        axes.set_ylabel(portrait["measure"])
    if portrait["measure"] != "value":
        # The best rank is the first.
        grid[0, 0].invert_yaxis()
    return _with_scale(figure, grid, "chance of accepting", title)


def _draw_over_items(title: str, portrait: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure

    slices = portrait["slices"]
    figure = Figure(figsize=(8.6, 5.6), layout="constrained")
    grid = figure.subplots(2, len(slices) // 2, sharex=True, sharey=True)
    for axes, one in zip(grid.flat, slices, strict=True):
        _draw_map(axes, portrait["size"], portrait["value"], one["accept"])
        axes.set_title(f"{one['at']:.0%} seen, {one['name']}", fontsize=10)
    for axes in grid[-1]:
        axes.set_xlabel("size")
    for axes in grid[:, 0]:
        axes.set_ylabel("value")
    return _with_scale(figure, grid, "chance of accepting", title)


def _draw_over_bids(title: str, portrait: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.6, 3.4), layout="constrained")
    grid = figure.subplots(1, len(portrait["slices"]), sharey=True)
    for axes, one in zip(grid, portrait["slices"], strict=True):
        _draw_map(axes, portrait["bid"], portrait["budget"], one["wins"])
        axes.set_title(f"{one['at']:.0%} seen", fontsize=10)
        axes.set_xlabel("bid")
    grid[0].set_ylabel("budget left")
    return _with_scale(figure, grid, "chance of getting the slot", title)


def _draw_map(axes: Any, across: list[float], up: list[float], chances: list[list[float]]) -> None:
    """Chances as colours; the first axis of the array runs across."""
    axes.pcolormesh(across, up, np.array(chances).T, cmap="viridis", vmin=0, vmax=1, shading="nearest", rasterized=True)


def _with_scale(figure: Any, grid: Any, label: str, title: str) -> Any:
    figure.colorbar(figure.axes[0].collections[0], ax=grid, label=label)
    figure.suptitle(title, x=0.02, ha="left", fontsize=11, parse_math=False)
    return figure


_PORTRAITS: dict[str, Callable[[str, dict[str, Any]], Any]] = {
    "over_time": _draw_over_time,
    "over_arrivals": _draw_over_arrivals,
    "over_items": _draw_over_items,
    "over_bids": _draw_over_bids,
}


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure, PNG or PDF by its ending, whole or not at all."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix[1:], dpi=160)
    write_whole(path, buffer.getvalue())


def save_figures(folder: RunFolder) -> list[Path]:
    """All figures of a run, as PNG and as PDF, in its folder."""
    figures = {"training": draw_training(folder)}
    for name, portrait in folder.portraits().items():
        figures[f"policy-{name}"] = draw_portrait(name, portrait)
    paths = [folder.path / "figures" / f"{name}.{ending}" for name in figures for ending in ("png", "pdf")]
    for path in paths:
        save_figure(figures[path.stem], path)
    return paths
