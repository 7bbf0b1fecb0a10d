"""The command that runs an experiment at many settings, here or on a Ray cluster."""

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Annotated, Any

import typer

from rampup.cli.interrupts import interruptible
from rampup.cli.options import AsJson, examples
from rampup.cli.progress import work_bar
from rampup.cli.terminal import paper, print_json, print_table, with_margin
from rampup.runtime import set_up

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "rampup sweep sweep.yaml --out sweeps/demo",
        "rampup sweep sweep.yaml --out sweeps/demo --resume --json",
        "rampup sweep sweep.yaml --engine ray --address 10.0.0.1:6379 --out /shared/sweeps/demo",
    )
)
def sweep(
    file: Annotated[str, typer.Argument(help="A YAML file: an experiment, and what of it is varied.")],
    out: Annotated[str, typer.Option(help="The folder of the sweep; with Ray, one that all machines share.")],
    engine: Annotated[str, typer.Option(help="local (this process) or ray (a cluster).")] = "local",
    address: Annotated[
        str | None, typer.Option(help="The Ray cluster's head; by default one is started on this machine.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a sweep that was interrupted.")] = False,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Runs in one program; by default one on a CPU, 32 on a GPU.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment at many settings and set them side by side: a table, and a report.

    Every run has a folder of its own and survives what `rampup run` survives; one that is finished is never run again.
    """
    from rampup import arguments
    from rampup.runs import parquet

    arguments.known_name("engine", engine, ("local", "ray"))
    if address is not None and engine != "ray":
        raise ValueError("`--address` is for `--engine ray`.")
    parquet.require()
    set_up()
    from rampup.report.sweep_page import write_sweep_report
    from rampup.report.words import measure_of
    from rampup.sweeps import engines, plan
    from rampup.sweeps.store import REPORT, Store

    given = plan.read(file)
    plan.tasks_of(given, file)
    with ExitStack() as stack:
        # Before JAX is at work, whose threads would not survive that Ray starts processes.
        ray = stack.enter_context(engines.ray_cluster(address)) if engine == "ray" else None
        store = Store.open(out, given) if resume else Store.begin(out, given, file)
        failures, was_asked = _run(store, ray, batch)
    rows = store.rows(failures)
    table = store.write_table(rows)
    measure = measure_of(*(task.experiment.problem.name for task in store.tasks))
    write_sweep_report(given.name, given.about, plan.as_yaml(given), measure, rows, store.path / REPORT)
    total, completed = len(rows), sum(row["state"] == "finished" for row in rows)
    if was_asked and completed + len(failures) < total:
        print("rampup: saved; go on with the same command and `--resume`", file=sys.stderr)
        raise typer.Exit(130)
    if as_json:
        print_json({"runs": total, "completed": completed, "failed": len(failures), "table": str(table)})
    else:
        _show(rows, failures, store, table)
    if failures:
        raise typer.Exit(1)


def _run(store: Any, ray: Any, batch: int | None) -> tuple[dict[int, str], bool]:
    """Bring all runs to their ends; return what went wrong with which, and whether somebody asked to stop."""
    from rampup.sweeps import engines

    failures: dict[int, str] = {}
    left = [task for task in store.tasks if not store.is_finished(task)]
    total, ended = len(store.tasks), len(store.tasks) - len(left)
    with interruptible() as is_asked, work_bar() as tell:
        tell(_standing(ended, total, 0), ended, total)

        def done(tasks: Sequence[Any], problems: dict[str, str]) -> None:
            nonlocal ended
            ended += len(tasks)
            failures.update({int(os.path.basename(path)): problem for path, problem in problems.items()})
            tell(_standing(ended, total, len(failures)), ended, total)

        def on_standing(standing: Any) -> None:
            part = f", {standing.done / standing.total:.0%} of the next" if standing.done < standing.total else ""
            tell(_standing(ended, total, len(failures)) + part, ended, total)

        if ray is None:
            engines.run_here(store, left, done, is_asked, batch, on_standing)
        else:
            engines.run_on_ray(ray, store, left, done, is_asked, batch)
        return failures, is_asked()


def _standing(ended: int, total: int, failed: int) -> str:
    return f"{ended} of {total} runs" + (f", {failed} failed" if failed else "")


def _show(rows: Sequence[dict[str, Any]], failures: dict[int, str], store: Any, table: Any) -> None:
    """The best points first, over their seeds; and where everything is."""
    from rampup.report.sweep_page import axes_of, points_of
    from rampup.report.words import setting
    from rampup.sweeps.store import REPORT

    console = paper(markup=False)
    axes, points = axes_of(rows), points_of(rows)
    cells = [
        [
            one["scheme"],
            *(setting(one["settings"][axis]) for axis in axes),
            with_margin(one["value"], one["interval"]),
            f"{one['samples']:,}",
        ]
        for one in points[:10]
    ]
    print_table(console, ["scheme", *axes, "value", "samples"], cells)
    if len(points) > 10:
        console.print(f"and {len(points) - 10} more points.")
    for number, problem in sorted(failures.items())[:5]:
        print(f"rampup: run {number} failed: {problem}", file=sys.stderr)
    console.print(
        f"{len(rows)} runs, {len(failures)} failed. The table is {table}; open {store.path / REPORT} in a browser.",
        soft_wrap=True,
    )
