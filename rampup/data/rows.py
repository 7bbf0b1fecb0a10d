"""Rows of a table as numbers in the order of time; bad ones are an error, or are dropped and counted."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rampup.data import cells
from rampup.data.cells import CellError, Moment
from rampup.data.description import Description, Reference
from rampup.data.tables import Table

# Enough to find out what is wrong with a file.
_LINES_TOLD = 5


@dataclass(frozen=True)
class Dropped:
    """Rows that are not used, for one reason."""

    reason: str
    rows: int
    lines: list[int]
    """The first few of them."""
    sequences: int | None = None
    """How many whole sequences that are, or parts of so many."""

    @classmethod
    def of(cls, reason: str, lines: Iterable[int], sequences: int | None = None) -> "Dropped":
        every = sorted(lines)
        return cls(reason, len(every), every[:_LINES_TOLD], sequences)


@dataclass(frozen=True)
class Rows:
    """Good rows in the order of time."""

    numbers: np.ndarray
    """By row and column."""
    clock: np.ndarray
    """When each came; without a column of times its place in the file."""
    shown_times: list[str]
    labels: list[str] | None
    """Which sequence each is of, where the table says so."""
    lines: np.ndarray
    num_out_of_order: int
    """Rows that stood after a later one."""
    dropped: list[Dropped]


def shown(reference: Reference) -> str:
    """What a column is called in a sentence."""
    return reference if isinstance(reference, str) else f"column {reference}"


def wanted(description: Description) -> list[Reference]:
    """The columns that are read."""
    others = [one for one in (description.columns.time, description.columns.sequence) if one is not None]
    return [*description.numbers.values(), *others]


def good_rows(description: Description, table: Table) -> Rows:
    """Turn cells into numbers, and put rows in the order of time; rows of the same time stay as they were."""
    if not table.lines:
        raise ValueError(f"{table.source}: there are no rows below the header.")
    found, reasons = [], {}
    parse = _parser(description, table)
    for row in range(len(table.lines)):
        try:
            found.append((row, *parse(row)))
        except CellError as error:
            if not description.drop_bad_rows:
                raise ValueError(f"{table.place(row)}: {error}.") from None
            reasons.setdefault(error.reason, []).append(table.lines[row])
    dropped = [Dropped.of(reason, lines) for reason, lines in reasons.items()]
    if not found:
        raise ValueError(f"{table.source}: there is no good row among {len(table.lines)}: {dropped[0].reason}.")
    places, numbers, moments, labels = zip(*found, strict=True)
    has_times = description.columns.time is not None
    seconds = np.array([one.seconds for one in moments]) if has_times else np.arange(len(found), dtype=float)
    order = np.argsort(seconds, kind="stable")
    cell_of = None if description.columns.time is None else table.columns[description.columns.time]
    return Rows(
        numbers=np.array(numbers, dtype=float)[order],
        clock=seconds[order],
        shown_times=[_shown_time(table, cell_of, places[at]) for at in order],
        labels=None if description.columns.sequence is None else [labels[at] for at in order],
        lines=np.array([table.lines[place] for place in places])[order],
        num_out_of_order=int(np.sum(seconds < np.maximum.accumulate(seconds))),
        dropped=dropped,
    )


def _shown_time(table: Table, cells_of_times: list[Any] | None, row: int) -> str:
    """When a row came, as the file says it; else where it stands."""
    return table.position(row) if cells_of_times is None else str(cells_of_times[row]).strip()


def _parser(description: Description, table: Table) -> Callable[[int], tuple[Any, ...]]:
    """A function that turns a row into its numbers, its moment and the sequence it is of."""
    is_text = table.is_text
    is_any_sign = description.problem == "bcp"
    columns = [(name, shown(one), table.columns[one]) for name, one in description.numbers.items()]
    time, sequence = description.columns.time, description.columns.sequence
    first: list[Moment] = []

    def number(name: str, column: str, cell: Any) -> float:
        if name == "record":
            return cells.flag(column, cell)
        return cells.number(column, cell, is_text=is_text, is_negative_allowed=is_any_sign)

    def moment(row: int) -> Moment:
        assert time is not None
        found = cells.moment(shown(time), table.columns[time][row], is_text=is_text)
        if first and found.kind != first[0].kind:
            raise CellError(f"`{shown(time)}` must be a {first[0].kind}, as it is before", table.columns[time][row])
        first.append(found) if not first else None
        return found

    def parse(row: int) -> tuple[Any, ...]:
        if row in table.wrong_lengths:
            raise CellError(
                f"there must be {table.width} fields, as in the header (a comma inside a number makes two of one)",
                table.wrong_lengths[row],
            )
        numbers = [number(name, column, values[row]) for name, column, values in columns]
        at = None if time is None else moment(row)
        return numbers, at, None if sequence is None else cells.label(shown(sequence), table.columns[sequence][row])

    return parse
