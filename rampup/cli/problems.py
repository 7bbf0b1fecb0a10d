"""The commands about problems."""

from typing import Annotated, Any

import typer

from rampup.cli.options import AsJson, ProblemArgument, ProblemOption, Setting, examples, only_one, parameters
from rampup.cli.progress import work_bar
from rampup.cli.terminal import paper, print_json
from rampup.runtime import set_up

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


@commands.command(
    epilog=examples("rampup check my_file.py:MyProblem", "rampup check my_file.py:MyProblem --set n=50 --episodes 1000")
)
def check(
    problem: ProblemArgument = None,
    own: ProblemOption = None,
    settings: Setting = None,
    episodes: Annotated[int, typer.Option(help="Episodes to play.")] = 64,
    seed: Annotated[int, typer.Option(help="Decides the instances and all choices.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Put a problem of your own through the contract; the first rule it breaks is one line."""
    set_up()
    from rampup.checks import check_problem
    from rampup.problems import make, name_of

    made = make(only_one(problem, own), **parameters("--set", settings))
    with work_bar() as tell:
        tell("playing", 0, 0)
        check_problem(made, episodes=episodes, seed=seed)
    facts = {"problem": name_of(made), "horizon": made.horizon, "num_actions": made.num_actions, "episodes": episodes}
    if as_json:
        print_json(facts)
    else:
        paper().print(
            f"{facts['problem']} keeps the contract: {episodes} episodes of up to {made.horizon} decisions among "
            f"{made.num_actions} actions."
        )


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
