"""How answers look on stdout: one JSON document, or tables and numbers for people."""

import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def print_json(document: Any) -> None:
    """Print an answer as one JSON document."""
    print(_json_text(document))


def write_json(path: Path, document: Any) -> None:
    """Write an answer to a file, whole or not at all."""
    from rampup.runs.files import write_whole

    write_whole(path, f"{_json_text(document)}\n".encode())


def _json_text(document: Any) -> str:
    return json.dumps(_plain(document), allow_nan=False)


def _plain(value: Any) -> Any:
    """Make a value fit for JSON: infinite numbers become the strings "inf" and "-inf", and what is not known null."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return None if isinstance(value, float) and math.isnan(value) else value


def paper(*, markup: bool = True) -> Any:
    """What answers for people are printed on; in a pipe or a file, lines are as long as they are.

    Args:
        markup: False where names of the user's own are shown: brackets in them mean nothing.
    """
    from rich.console import Console

    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 10_000
    return Console(highlight=False, emoji=False, markup=markup, width=width)


def print_table(console: Any, header: list[str], rows: list[list[Any]], *, num_texts: int = 1) -> None:
    """Print a table without lines; the first columns are texts, the others numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for index, name in enumerate(header):
        table.add_column(name, justify="left" if index < num_texts else "right")
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    console.print(table)


def short(number: float) -> str:
    """A number to four digits after the point."""
    return "inf" if math.isinf(number) else f"{number:,.4f}"


def with_margin(estimate: float, interval: list[float]) -> str:
    """An estimate with half the width of its 95% interval."""
    return f"{estimate:.4f} ± {(interval[1] - interval[0]) / 2:.4f}"


def ends_text(ends: list[float]) -> str:
    """An interval in words."""
    return f"{ends[0]:.3f} to {ends[1]:.3f}"


@contextmanager
def native_output_on_stderr() -> Iterator[None]:
    """Keep stdout for our own words: HiGHS now and then prints a line of its debugging there."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
