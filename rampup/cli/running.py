"""The commands that list, show, run and resume experiments."""

import json
import os
import sys
from typing import Annotated, Any

import typer

from rampup.cli.interrupts import interruptible
from rampup.cli.members import member
from rampup.cli.options import (
    AsJson,
    Coordinator,
    ExperimentName,
    NumProcesses,
    Override,
    Preset,
    ProcessId,
    examples,
)
from rampup.cli.progress import run_display, work_bar
from rampup.cli.terminal import paper, print_json, print_table, short, with_margin
from rampup.runtime import set_up

commands = typer.Typer()

_REPORT = "report.html"


@commands.command(epilog=examples("rampup experiments", "rampup experiments --json"))
def experiments(as_json: AsJson = False) -> None:
    """List the experiments that come with Rampup."""
    from rampup import config

    entries = [
        {"name": name, "about": one.about, "schemes": one.schemes, "presets": ["paper", "quick"]}
        for name in config.shipped_names()
        for one in [config.load(name)]
    ]
    if as_json:
        print_json(entries)
        return
    print_table(paper(), ["experiment", "about"], [[one["name"], one["about"]] for one in entries], num_texts=2)


@commands.command(
    epilog=examples("rampup show bcp-classical --preset quick", "rampup show okd-uniform --set trainer.num_lanes=50")
)
def show(experiment: ExperimentName, preset: Preset = "paper", overrides: Override = None) -> None:
    """Print the resolved config of an experiment, every default spelled out."""
    from rampup import config

    print(config.as_yaml(config.load(experiment, preset=preset, overrides=overrides or [])), end="")


@commands.command(
    epilog=examples(
        "rampup run bcp-classical --preset quick --out runs/demo",
        "rampup run bcp-classical --preset quick --scheme curl --seeds 4 --set trainer.iterations=500",
        "rampup run my_experiment.yaml --out runs/mine --json",
        "rampup run --problem my_file.py:MyProblem --set problem.parameters.n=50 --out runs/own",
    )
)
def run(
    experiment: Annotated[
        str | None, typer.Argument(help="The name of an experiment, or the path of a YAML file.")
    ] = None,
    problem: Annotated[
        str | None,
        typer.Option(
            help="Instead of an experiment a problem, by name or as FILE.py:CLASS: from scratch and by curriculum."
        ),
    ] = None,
    preset: Preset = "paper",
    out: Annotated[str | None, typer.Option(help="The folder of the run; by default runs/NAME-TIME.")] = None,
    schemes: Annotated[list[str] | None, typer.Option("--scheme", help="Only this scheme; may be repeated.")] = None,
    seeds: Annotated[int | None, typer.Option(help="How many seeds: 0, 1, and so on.")] = None,
    overrides: Override = None,
    coordinator: Coordinator = None,
    process_id: ProcessId = None,
    num_processes: NumProcesses = None,
    as_json: AsJson = False,
) -> None:
    """Train all schemes and seeds of an experiment together, into a folder that survives anything."""
    set_up()
    from rampup import conductor, config
    from rampup.outlines import outline

    changes = list(overrides or [])
    changes += [f"schemes={json.dumps(schemes)}"] if schemes else []
    changes += [f"seeds={seeds}"] if seeds is not None else []
    if (experiment is None) == (problem is None):
        raise ValueError("give an experiment, or a problem by `--problem`, and not both.")
    if problem is not None:
        resolved = outline(problem, changes)
    else:
        resolved = config.load(str(experiment), preset=preset, overrides=changes)
    with member(coordinator, process_id, num_processes):
        if process_id:
            _help_out(resolved)
        else:
            with work_bar() as tell:
                folder = conductor.begin(resolved, out, on_progress=tell)
            _show(_trained(folder), folder, as_json)


@commands.command(epilog=examples("rampup resume runs/demo"))
def resume(
    folder: Annotated[str, typer.Argument(help="The folder of a run that was interrupted.")],
    coordinator: Coordinator = None,
    process_id: ProcessId = None,
    num_processes: NumProcesses = None,
    as_json: AsJson = False,
) -> None:
    """Go on with an interrupted run, to the same result as if nothing had happened."""
    set_up()
    from rampup.runs.folder import RunFolder

    opened = None if process_id else RunFolder.open(folder)
    with member(coordinator, process_id, num_processes):
        if opened is None:
            _help_out()
            return
        if opened.summary is not None and not as_json:
            print("This run is finished already.")
        _show(_trained(opened), opened, as_json)


def _help_out(expected: Any = None) -> None:
    from rampup import conductor

    with interruptible() as is_asked:
        conductor.help_out(expected, should_stop=is_asked)


def _trained(folder: Any) -> dict[str, Any]:
    """Train a run to its end with its progress on the screen, draw it, and return its summary."""
    from rampup import conductor
    from rampup.report.figures import save_figures
    from rampup.report.page import write_report

    was_finished = folder.summary is not None
    with interruptible() as is_asked, run_display() as on_standing:
        summary = conductor.conduct(folder, on_standing=on_standing, should_stop=is_asked)
    if summary is None:
        print(f"rampup: saved; go on with `{folder.resume_command}`", file=sys.stderr)
        sys.exit(130)
    # A crash right after the end may have left a finished run without its report.
    if not (was_finished and (folder.path / _REPORT).is_file()):
        save_figures(folder)
        write_report([folder], folder.path / _REPORT)
    return summary


def _show(summary: dict[str, Any], folder: Any, as_json: bool) -> None:
    if as_json:
        print_json(summary | {"folder": str(folder.path)})
    else:
        _show_run(summary, str(folder.path))


def _show_run(summary: dict[str, Any], folder: str) -> None:
    console = paper(markup=False)
    best = summary["optimal_value"]
    header = ["scheme", "value", "of the optimum" if best else f"of {summary['reference']}", "ln kappa", "samples"]
    against = best or summary["reference_value"]
    rows = [
        [
            one["scheme"],
            with_margin(one["value"], one["interval"]),
            f"{one['value'] / against:.1%}" if against else "",
            "inf" if one["ln_kappa"] is None else short(one["ln_kappa"]),
            f"{one['samples']:,}",
        ]
        for one in summary["schemes"]
    ]
    print_table(console, header, rows)
    beside = f", the optimum {best:.4f}" if best else ""
    # Runs of earlier versions have none.
    seen = summary.get("hindsight")
    beside += f", an all-seeing player {with_margin(seen['value'], seen['interval'])}" if seen else ""
    console.print(
        f"{summary['reference']} earns {summary['reference_value']:.4f}{beside}. Everything is in {folder}; open "
        f"{os.path.join(folder, _REPORT)} in a browser.",
        soft_wrap=True,
    )
