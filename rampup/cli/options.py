"""The options that several commands share, and how what is given to them is read."""

import json
from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Series = Annotated[str, typer.Option(help="classical, random:SEED, or a JSON file with the list P_1..P_n.")]
ProblemArgument = Annotated[
    str | None,
    typer.Argument(metavar="PROBLEM", help="A problem by name, as `rampup problems` lists them, or FILE.py:CLASS."),
]
ProblemOption = Annotated[
    str | None,
    typer.Option("--problem", help="The same as PROBLEM: a name, or FILE.py:CLASS, a class in a file of yours."),
]
Setting = Annotated[
    list[str] | None, typer.Option("--set", help="A parameter of the problem, as name=value; may be repeated.")
]
SeriesShortcut = Annotated[
    str | None, typer.Option(help="bcp: classical, random:SEED, or a JSON file; the same as --set series=...")
]
FeaturesOption = Annotated[str, typer.Option("--features", help="one_hot, monomial:D0 or legendre:D0.")]
ExperimentName = Annotated[str, typer.Argument(help="The name of an experiment, or the path of a YAML file.")]
Preset = Annotated[str, typer.Option(help="paper (full size), quick (about a minute), or one of your own file.")]
Override = Annotated[
    list[str] | None, typer.Option("--set", help="Any leaf of the config, as key.inside=value; may be repeated.")
]


def examples(*lines: str) -> str:
    """A help epilog; blank lines keep the examples apart."""
    return "\n\n".join(["Examples:", *lines])


def parameters(option: str, given: list[str] | None) -> dict[str, Any]:
    """Read name=value pairs; a value is JSON where it can be (a number, a list, an object), else a string."""
    found = {}
    for pair in given or []:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"`{option}` takes name=value, got {pair!r}.")
        if name in found:
            raise ValueError(f"`{option}` was given twice for {name!r}.")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


def only_one(argument: str | None, option: str | None) -> str:
    """The problem, given before the options or by `--problem`."""
    given = [one for one in (argument, option) if one is not None]
    if len(given) != 1:
        raise ValueError(
            "give a problem, as in `bcp` or `--problem my_file.py:MyProblem`."
            if not given
            else "give the problem once: before the options or by `--problem`."
        )
    return given[0]


def with_series(given: dict[str, Any], series: str | None) -> dict[str, Any]:
    """Add the shortcut for a series to given."""
    if series is None:
        return given
    if "series" in given:
        raise ValueError("`series` was given twice.")
    return given | {"series": series}


Coordinator = Annotated[
    str | None, typer.Option(help="With several processes: where they meet, the first one's host:port.")
]
ProcessId = Annotated[int | None, typer.Option(help="Which of them this is: 0 keeps the folder.")]
NumProcesses = Annotated[int | None, typer.Option(help="How many there are.")]
