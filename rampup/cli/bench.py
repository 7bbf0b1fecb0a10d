"""The command that measures speed."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rampup.cli.options import AsJson, examples
from rampup.cli.progress import work_bar
from rampup.cli.terminal import paper, print_json, print_table, write_json
from rampup.runtime import set_up

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "rampup bench",
        "rampup bench --problem okd --batch 1,8,32 --json",
        "rampup bench --problem bcp --no-growth --device cpu -o bcp.json",
    )
)
def bench(
    problem: Annotated[list[str] | None, typer.Option(help="bcp, okd or adw; may be repeated. All by default.")] = None,
    batch: Annotated[str, typer.Option(help="How many runs are trained together, as numbers with commas.")] = "1",
    device: Annotated[str | None, typer.Option(help="cpu or gpu; what JAX finds by default.")] = None,
    growth: Annotated[bool, typer.Option(help="Measure also how the time grows with N, n and runs.")] = True,
    compare: Annotated[bool, typer.Option(help="Measure also the plain NumPy transcription.")] = True,
    rival: Annotated[bool, typer.Option(help="Train sb3-contrib's TRPO too; needs rampup[rivals].")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A file for the JSON document.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure the speed of an update at the paper's size, beside the least it could take on this machine.

    On a CPU the floor is what NumPy needs to draw the random numbers of an update on all cores, and for the product
    that makes the Fisher matrix. On a GPU it is the larger of bytes moved over the speed of a copy and operations over
    the speed of a matrix product. Both are measured in the same run.
    """
    from rampup import arguments
    from rampup.bench.cases import EXPERIMENTS

    names = problem or list(EXPERIMENTS)
    for name in names:
        arguments.known_name("problem", name, EXPERIMENTS)
    sizes = _sizes(batch)
    _choose(device)
    set_up()
    from rampup.bench import document

    with work_bar() as tell:
        found = document.measured(names, sizes, growth=growth, compare=compare, rival=rival, tell=tell)
    if out is not None:
        write_json(out, found)
    if as_json:
        print_json(found)
    else:
        _show(found)


def _sizes(batch: str) -> list[int]:
    try:
        sizes = [int(part) for part in batch.split(",")]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise ValueError(f"`--batch` takes whole numbers from 1 with commas between them, as 1,8,32; got {batch!r}.")
    return sizes


def _choose(device: str | None) -> None:
    """Make JAX use the device that was asked for."""
    import jax

    from rampup import arguments

    if device is None:
        return
    arguments.known_name("device", device, ("cpu", "gpu"))
    if device == "cpu":
        jax.config.update("jax_platforms", "cpu")
        return
    try:
        jax.devices("gpu")
    except RuntimeError:
        raise ValueError("JAX finds no GPU here: install jax[cuda13], or take `--device cpu`.") from None


def _show(found: dict[str, Any]) -> None:
    console = paper()
    console.print(f"[bold]{found['device']}[/], JAX {found['provenance']['versions']['jax']}; milliseconds a run")
    header = ["problem", "runs", "update", "sampling", "moments", "solve", "floor", "ratio", "diagnostics", "share"]
    print_table(console, header, [_timing(row) for row in found["rows"]])
    console.print()
    header = ["problem", "runs", "million steps/s", "compile s", "cached s", "memory MB"]
    print_table(console, header, [_cost(row) for row in found["rows"]])
    if found["growth"]:
        of_batches = [point for point in found["growth"] if point["against"] == "runs"]
        of_one_run = [point for point in found["growth"] if point["against"] != "runs"]
        for what, points in (("of one run", of_one_run), ("and run of a batch", of_batches)):
            console.print(f"\nmilliseconds an update {what}")
            print_table(console, *_growth_table(points), num_texts=2)
    if found["plain"]:
        console.print("\nthe same update in plain NumPy")
        rows = [
            [row["problem"], f"{row['ms_per_iteration']:,.0f} ms", f"{row['ratio']:,.0f}"] for row in found["plain"]
        ]
        print_table(console, ["problem", "update", "times as long"], rows)
    if found["rivals"]:
        console.print(f"\nuntil 90% of the optimum, {found['rivals'][0]['problem']}")
        header = ["learner", "part reached", "episodes", "seconds", "episodes/s"]
        print_table(console, header, [_race(row) for row in found["rivals"]])


def _timing(row: dict[str, Any]) -> list[Any]:
    names = "sampling_ms", "moments_ms", "solve_ms", "floor_ms"
    numbers = [f"{row[name]:.3g}" for name in ("ms_per_iteration_per_run", *names)]
    rest = f"{row['ratio_to_floor']:.2f}", f"{row['diagnostics_ms']:.3g}", f"{row['diagnostics_share']:.1%}"
    return [row["problem"], row["batch"], *numbers, *rest]


def _cost(row: dict[str, Any]) -> list[Any]:
    million = row["transitions_per_second"] / 1e6
    times = f"{million:.3g}", f"{row['compile_s']:.1f}", f"{row['compile_cached_s']:.1f}"
    return [row["problem"], row["batch"], *times, f"{row['memory_bytes'] / 1e6:.3g}"]


def _race(row: dict[str, Any]) -> list[Any]:
    numbers = f"{row['episodes']:,}", f"{row['seconds']:.0f}", f"{row['episodes_per_second']:,.0f}"
    return [row["name"], f"{row['part_of_optimum']:.1%}", *numbers]


def _growth_table(points: list[dict[str, Any]]) -> tuple[list[str], list[list[Any]]]:
    """A line for each problem and quantity, a column for each size."""
    sizes = sorted({point["size"] for point in points})
    lines: dict[tuple[str, str], dict[int, float]] = {}
    for point in points:
        lines.setdefault((point["problem"], point["against"]), {})[point["size"]] = point["ms"]
    cells = [
        [name, against, *(f"{line[size]:.3g}" if size in line else "" for size in sizes)]
        for (name, against), line in lines.items()
    ]
    return ["problem", "against", *map(str, sizes)], cells
