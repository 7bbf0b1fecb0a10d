"""The command about problems."""

from typing import Any

import typer

from rampup.cli.options import AsJson, examples
from rampup.cli.terminal import paper, print_json

commands = typer.Typer()


@commands.command(epilog=examples("rampup problems", "rampup problems --json"))
def problems(as_json: AsJson = False) -> None:
    """List the problems, their parameters, distributions and features."""
    from rampup.catalogue import catalogue

    entries = catalogue()
    if as_json:
        print_json(entries)
    else:
        _show_catalogue(entries)


def _show_catalogue(entries: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(
        "problem", "what it is", "parameters", box=None, pad_edge=False, header_style="bold", padding=(0, 2, 1, 0)
    )
    for entry in entries["problems"]:
        parameters = ", ".join(
            name if default is None else f"{name}={default}" for name, default in entry["parameters"].items()
        )
        table.add_row(entry["name"], entry["about"], parameters)
    console = paper()
    console.print(table)
    console.print("distributions: " + ", ".join(entries["distributions"]))
    console.print("series (bcp):  " + ", ".join(entries["series"]))
    console.print("features:      " + ", ".join(entries["features"]))
