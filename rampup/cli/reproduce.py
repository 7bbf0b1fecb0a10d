"""The command that runs experiments and holds the claims of the paper against them."""

import os
import shlex
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

import typer

from rampup.cli.interrupts import interruptible
from rampup.cli.options import AsJson, examples
from rampup.cli.progress import run_display
from rampup.cli.terminal import paper, print_json
from rampup.runtime import set_up

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "rampup reproduce bcp-classical --preset quick",
        "rampup reproduce okd-uniform adw-special --preset quick",
        "rampup reproduce all --preset quick --json",
        "rampup reproduce all --preset paper --out runs/paper --write docs/results.md",
    )
)
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME|all", help="Experiments by name, YAML files, or all that come along."),
    ] = None,
    preset: Annotated[str, typer.Option(help="quick (minutes on two cores), or paper (full size).")] = "quick",
    out: Annotated[str | None, typer.Option(help="Where the runs are; by default runs/reproduce-PRESET.")] = None,
    write: Annotated[
        str | None, typer.Option(help="A Markdown page to write, its figures in a folder beside it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run experiments and say which claims of the paper hold: one line each, and exit code 1 if one fails.

    Give the same command again after an interruption: finished runs are used as they are, the others go on.
    """
    set_up()
    from rampup import config
    from rampup.claims import claims_of
    from rampup.report.results import checked_page_name, write_results

    if write is not None:
        checked_page_name(write)
    place = out or os.path.join("runs", f"reproduce-{preset}")
    every = config.shipped_names() if not names or names == ["all"] else dict.fromkeys(names)
    chosen = [config.load(name, preset=preset) for name in every]
    folders, claims, drawn = [], [], []
    # Pictures are drawn while the next experiment trains.
    with ThreadPoolExecutor(max_workers=1) as painter:
        for number, (experiment, following) in enumerate(zip_longest(chosen, chosen[1:]), 1):
            folder = _found(experiment, place) or _begun(experiment, place)
            _announce(experiment, folder, f"{number} of {len(chosen)}")
            if folder.summary is None:
                _train(folder, following)
                drawn.append(painter.submit(_draw, folder))
            folders.append(folder)
            claims.append(claims_of(folder))
            if not as_json:
                _show_claims(claims[-1])
    for one in drawn:
        one.result()
    found = [claim for own in claims for claim in own]
    if write is not None:
        write_results(folders, found, write)
    if as_json:
        print_json({"claims": [claim.document() for claim in found]})
    else:
        _show_end(found, place, write)
    if not all(claim.holds for claim in found):
        raise typer.Exit(1)


def _begun(experiment: Any, place: str) -> Any:
    from rampup import conductor

    return conductor.begin(experiment, os.path.join(place, conductor.folder_name(experiment)))


def _train(folder: Any, following: Any) -> None:
    """Go on with a run to its end, and meanwhile make ready for the experiment that follows, if any does."""
    from rampup import conductor

    with interruptible() as is_asked, run_display() as show:

        def on_standing(standing: Any) -> None:
            nonlocal following
            show(standing)
            if following is not None:
                conductor.compile_ahead(following)
                following = None

        summary = conductor.conduct(folder, on_standing=on_standing, should_stop=is_asked)
    if summary is None:
        print(f"rampup: saved; go on with `{shlex.join(['rampup', *sys.argv[1:]])}`", file=sys.stderr)
        raise typer.Exit(130)


def _draw(folder: Any) -> None:
    """The figures of a finished run, and its report."""
    from rampup.report.figures import save_figures
    from rampup.report.page import write_report

    save_figures(folder)
    write_report([folder], folder.path / "report.html")


def _found(experiment: Any, place: str) -> Any:
    """A run of this very config in a folder of runs, a finished one before others; nothing if there is none."""
    from rampup import config
    from rampup.runs.folder import CONFIG, RunFolder

    text = config.as_yaml(experiment)
    folders = [RunFolder(path.parent) for path in sorted(Path(place).glob(f"*/{CONFIG}"))]
    same = [folder for folder in folders if folder.config == text]
    return min(same, key=lambda folder: folder.summary is None, default=None)


def _announce(experiment: Any, folder: Any, which: str) -> None:
    """Say on stderr, where somebody is looking, what comes next and how much it is."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        work = "is finished" if folder.summary is not None else f"takes up to {_samples(experiment):,} samples"
        console.print(f"{experiment.name}, {which}, {work} ({folder.path})", style="dim", soft_wrap=True)


def _samples(experiment: Any) -> int:
    """How many samples an experiment takes at most, over all its schemes and seeds."""
    from rampup.conductor import plan
    from rampup.learn.estimators import EPISODES_PER_LANE

    planned = plan(experiment)
    lanes = planned.settings.num_lanes * EPISODES_PER_LANE[planned.settings.estimator]
    return lanes * sum(stage.iterations * stage.problem.horizon for run in planned.runs for stage in run.stages)


def _show_claims(claims: Sequence[Any]) -> None:
    """One line for each claim."""
    from rich.text import Text

    console = paper(markup=False)
    for one in claims:
        said = f"{one.experiment}: {one.claim}; measured {one.measured}; required {one.required}"
        verdict = (one.verdict, "bold green" if one.holds else "bold red")
        # A name of one's own may have line breaks in it.
        console.print(Text.assemble(verdict, "  ", " ".join(said.split())), soft_wrap=True)


def _show_end(claims: Sequence[Any], place: str, page: str | None) -> None:
    failed = sum(not claim.holds for claim in claims)
    said = f"{failed} of {len(claims)} claims of the paper fail" if failed else f"All {len(claims)} claims hold"
    written = f", the page is {page}" if page is not None else ""
    print(f"{said if claims else 'No claim of the paper is about this experiment'}; the runs are in {place}{written}.")
