"""A picture of policies side by side: what each achieves, and how far that is from what is possible."""

import io
from pathlib import Path
from typing import Any

from rampup.runs.files import write_whole

_FORMATS = (".png", ".pdf", ".svg")
# Colours that people with any colour vision can tell apart (Okabe and Ito).
_POLICY, _OPTIMUM, _HINDSIGHT = "#0072B2", "#009E73", "#D55E00"


def checked_picture_name(path: str) -> str:
    """Return the path of a picture if its ending is one we can draw."""
    if Path(path).suffix.lower() not in _FORMATS:
        raise ValueError(f"`picture` must end in {', '.join(_FORMATS)}, got {path!r}.")
    return path


def draw_comparison(answer: dict[str, Any], path: str) -> None:
    """Draw an evaluation to a file."""
    from matplotlib.figure import Figure

    checked_picture_name(path)
    entries = sorted(answer["policies"], key=lambda entry: entry["value"])
    figure = Figure(figsize=(7.5, 1.9 + 0.42 * len(entries)), layout="constrained")
    axes = figure.subplots()
    for row, entry in enumerate(entries):
        low, high = entry["interval"]
        axes.barh(row, entry["value"], height=0.55, color=_POLICY, alpha=0.28)
        axes.plot([low, high], [row, row], color=_POLICY, linewidth=2.4, solid_capstyle="butt")
        axes.plot(entry["value"], row, "o", color=_POLICY, markersize=5)
        axes.annotate(
            f"{entry['value']:.3f}",
            (max(high, entry["value"]), row),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0},
        )
    handles = [*_draw_optimum(axes, answer["optimum"]), *_draw_hindsight(axes, answer["hindsight"])]
    axes.set_yticks(range(len(entries)), [entry["policy"] for entry in entries], parse_math=False)
    axes.set_xlim(0, min(1.04, 1.25 * max(_greatest(answer), 0.01)))
    axes.set_ylim(-0.6, len(entries) - 0.4)
    what = "success rate" if answer["is_rate"] else "value"
    axes.set_xlabel(f"{what} on {answer['episodes']:,} common instances, 95% intervals")
    axes.set_title(answer["problem"], loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    if handles:
        figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False, fontsize=9)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=Path(path).suffix.lower()[1:], dpi=160)
    write_whole(path, buffer.getvalue())


def _greatest(answer: dict[str, Any]) -> float:
    """The rightmost number of the picture."""
    ends = [entry["interval"][1] for entry in answer["policies"]]
    ends += [answer["optimum"]["upper"]] if answer["optimum"] else []
    ends += [answer["hindsight"]["interval"][1]] if answer["hindsight"] else []
    return max(ends)


def _draw_optimum(axes: Any, best: dict[str, Any] | None) -> list[Any]:
    """The online optimum as a band, or as a line where its bounds are too near to see."""
    if best is None:
        return []
    ends = f"{best['lower']:.3f}" if best["method"] == "exact" else f"{best['lower']:.3f} to {best['upper']:.3f}"
    label = f"online optimum, {ends}"
    axes.axvspan(best["lower"], best["upper"], color=_OPTIMUM, alpha=0.25, linewidth=0)
    return [axes.axvline((best["lower"] + best["upper"]) / 2, color=_OPTIMUM, linewidth=1.6, label=label)]


def _draw_hindsight(axes: Any, seen: dict[str, Any] | None) -> list[Any]:
    if seen is None:
        return []
    axes.axvspan(*seen["interval"], color=_HINDSIGHT, alpha=0.12, linewidth=0)
    label = f"hindsight, {seen['value']:.3f}"
    return [axes.axvline(seen["value"], color=_HINDSIGHT, linewidth=1.6, linestyle="--", label=label)]
