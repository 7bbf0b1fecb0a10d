"""Progress on stderr, shown only where somebody is looking."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rampup.cli.terminal import short


@contextmanager
def progress_bar() -> Iterator[Callable[[Any], None]]:
    """A bar on stderr with the latest value of the first run, where somebody is looking."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%"), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("compiling", total=None)

        def show(progress: Any) -> None:
            row = progress.latest[0]
            text = f"{row['scheme']} stage {row['stage']} iteration {row['iteration']} value {row['value']:.4f}"
            bar.update(task, completed=progress.done, total=progress.total, description=text)

        yield show


@contextmanager
def work_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr for work of several kinds, where somebody is looking; a total of 0 is work of unknown length."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None)

        yield tell


@contextmanager
def run_display() -> Iterator[Callable[[Any], None]]:
    """The progress of a run on stderr, where somebody is looking: a bar, and a line for every scheme."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.table import Table

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda standing: None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%")
    bar = Progress(*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=console)
    task = bar.add_task("compiling", total=None)
    latest: dict[str, dict[str, Any]] = {}

    def picture() -> Any:
        table = Table("scheme", "stage", "iteration", "samples", "value", "ln kappa", box=None, header_style="bold")
        for name, row in latest.items():
            cells = row["stage"], row["iteration"], f"{row['samples']:,}", f"{row['value']:.4f}"
            table.add_row(name, *map(str, cells), short(row["ln_kappa"]))
        return Group(bar, table)

    with Live(picture(), console=console, transient=True, refresh_per_second=8) as live:

        def tell(standing: Any) -> None:
            latest.update({row["scheme"]: row for row in standing.rows})
            text = f"{standing.samples_per_second:,.0f} samples/s"
            bar.update(task, completed=standing.done, total=standing.total, description=text)
            live.update(picture())

        yield tell


def tracked(items: list[Any], name: str) -> Iterable[Any]:
    """Show progress through the items on stderr, where somebody is looking."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    return track(items, description=name, console=console, transient=True, disable=not console.is_terminal)
