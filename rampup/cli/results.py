"""The commands about runs that exist: their reports, all of them in a list, some side by side."""

import os
from typing import Annotated, Any

import typer

from rampup.cli.options import AsJson, examples
from rampup.cli.terminal import paper, print_json, print_table, with_margin

commands = typer.Typer()


@commands.command(
    epilog=examples("rampup report runs/demo -o report.html", "rampup report runs/one runs/two -o comparison.html")
)
def report(
    folders: Annotated[list[str], typer.Argument(help="The folders of one run, or of several to compare.")],
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="The page; by default report.html in the first folder.")
    ] = None,
) -> None:
    """Write one HTML page about runs that needs nothing else: verdict, curves, pictures of the policies, theory."""
    from rampup.report.page import write_report
    from rampup.runs.folder import RunFolder

    opened = [RunFolder.open(folder) for folder in folders]
    path = out or os.path.join(folders[0], "report.html")
    write_report(opened, path)
    print(path)


@commands.command(
    epilog=examples(
        "rampup runs",
        "rampup runs --folder runs --experiment bcp-classical --finished",
        "rampup runs runs/one runs/two --json",
        "rampup runs --compare --scheme curl",
        "rampup runs runs/one runs/two --parquet metrics.parquet",
    )
)
def runs(
    folders: Annotated[
        list[str] | None, typer.Argument(help="The folders of runs; two or more are set side by side.")
    ] = None,
    folder: Annotated[str, typer.Option(help="Where to look for runs if none are given.")] = "runs",
    experiment: Annotated[str | None, typer.Option(help="Only runs of this experiment.")] = None,
    scheme: Annotated[str | None, typer.Option(help="Only this scheme.")] = None,
    finished: Annotated[bool | None, typer.Option(help="Only finished runs, or only unfinished ones.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Set the schemes of the runs side by side.")] = False,
    parquet: Annotated[
        str | None, typer.Option(help="A Parquet file to write the metrics of the runs to, instead of a list.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List runs and what came of them, the best first; or set their schemes side by side."""
    from rampup.runs.folder import RunFolder
    from rampup.runs.listing import chosen_runs, comparison, listing, runs_in

    given = [RunFolder.open(one) for one in folders] if folders else runs_in(folder)
    chosen = chosen_runs(given, experiment=experiment, finished=finished)
    if parquet is not None:
        _write_parquet(chosen, parquet, scheme, as_json)
        return
    is_comparison = compare or len(folders or []) > 1
    entries = (comparison if is_comparison else listing)(chosen, scheme=scheme)
    if as_json:
        print_json(entries)
    elif is_comparison:
        _show_comparison(entries)
    else:
        _show_listing(entries)


def _write_parquet(chosen: list[Any], path: str, scheme: str | None, as_json: bool) -> None:
    from rampup.runs.parquet import write_parquet

    count = write_parquet(chosen, path, scheme=scheme)
    if as_json:
        print_json({"file": path, "runs": len(chosen), "rows": count})
    else:
        print(path)


def _show_listing(entries: list[dict[str, Any]]) -> None:
    rows = [
        [
            one["folder"],
            one["experiment"],
            one["scheme"],
            "" if one["value"] is None else f"{one['value']:.4f}",
            "" if one["samples"] is None else f"{one['samples']:,}",
            _state(one),
        ]
        for one in entries
    ]
    header = ["folder", "experiment", "scheme", "value", "samples", "state"]
    print_table(paper(markup=False), header, rows, num_texts=3)


def _show_comparison(entries: list[dict[str, Any]]) -> None:
    from rampup.runs.listing import ARRIVED

    rows = [[one["scheme"], one["folder"], *_cells(one), _state(one)] for one in entries]
    header = ["scheme", "folder", "value", "ln kappa", "samples", f"to {ARRIVED:.0%} of reference", "seconds", "state"]
    print_table(paper(markup=False), header, rows)


def _cells(one: dict[str, Any]) -> list[str]:
    """The numbers of an entry; blanks where nothing is recorded yet."""
    if one["value"] is None:
        return [""] * 5
    arrived = "" if not one["is_finished"] else "never"
    if one["samples_to_reference"] is not None:
        arrived = f"{one['samples_to_reference']:,}"
    ln_kappa = "inf" if one["ln_kappa"] is None else f"{one['ln_kappa']:z.2f}"
    value = with_margin(one["value"], one["interval"])
    return [value, ln_kappa, f"{one['samples']:,}", arrived, f"{one['seconds']:,.1f}"]


def _state(one: dict[str, Any]) -> str:
    return "finished" if one["is_finished"] else f"{one['progress']:.0%}"
