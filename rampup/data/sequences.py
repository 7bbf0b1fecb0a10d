"""Sequences as they came: cut to one length, the last of them held out, every row accounted for."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from rampup.data import description as descriptions
from rampup.data.description import Description
from rampup.data.rows import Dropped, Rows, good_rows, wanted
from rampup.data.tables import Table, read_table


@dataclass(frozen=True)
class Dataset:
    """Sequences of arrivals in the order of time."""

    description: Description
    source: str
    """The description's path."""
    table: Table
    rows: Rows
    train: np.ndarray
    """By sequence and arrival: which row it is."""
    holdout: np.ndarray
    """The same for the sequences kept from learning, all of which begin when the others are over."""
    dropped: list[Dropped] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Arrivals in a sequence."""
        return self.train.shape[1]

    @property
    def names(self) -> list[str]:
        """What we call the columns of numbers."""
        return list(self.description.numbers)

    def numbers(self, sequences: np.ndarray) -> np.ndarray:
        """The numbers of sequences, by sequence, arrival and column."""
        return self.rows.numbers[sequences]

    def records(self, sequences: np.ndarray) -> np.ndarray:
        """Best choice: which arrivals of sequences are better than all before; one as good as the best is not."""
        values = self.numbers(sequences)[:, :, 0]
        if self.names == ["record"]:
            return values == 1
        best_before = np.maximum.accumulate(np.pad(values, ((0, 0), (1, 0)), constant_values=-np.inf), axis=1)
        return values > best_before[:, :-1]


def load_data(path: str | Path) -> Dataset:
    """Read a description and its table."""
    described, table_path = descriptions.read(path)
    try:
        stamp = table_path.stat()
    except OSError as error:
        raise ValueError(f"cannot read the data file {str(table_path)!r}: {error.strerror}.") from None
    return _loaded(str(path), described.model_dump_json(), str(table_path), (stamp.st_mtime_ns, stamp.st_size))


# A problem, its warm-up and its evaluation read the same data.
@lru_cache(maxsize=2)
def _loaded(path: str, description: str, table_path: str, stamp: tuple[int, int]) -> Dataset:
    described = Description.model_validate_json(description)
    table = read_table(Path(table_path), wanted(described), described.separator)
    return arranged(described, path, table, good_rows(described, table))


def arranged(description: Description, source: str, table: Table, rows: Rows) -> Dataset:
    """Cut rows into sequences of one length, and hold out the last."""
    runs, dropped = _runs(description, table.source, rows)
    if description.columns.record is not None:
        runs, more = _begun_by_a_record(description, table, rows, runs)
        dropped += more
    train, holdout, more = _split(description, table.source, rows, runs)
    return Dataset(description, source, table, rows, train, holdout, [*rows.dropped, *dropped, *more])


def _runs(description: Description, source: str, rows: Rows) -> tuple[list[np.ndarray], list[Dropped]]:
    """The rows of each sequence, all of one length, by when they begin."""
    count, length = len(rows.clock), description.length
    if rows.labels is None:
        assert length is not None
        whole = count - count % length
        rest = Dropped.of(f"after the last whole sequence of {length} rows", rows.lines[whole:].tolist())
        runs = list(np.arange(whole).reshape(-1, length))
        return runs, [rest] if rest.rows else []
    members: dict[str, list[int]] = {}
    for place, label in enumerate(rows.labels):
        members.setdefault(label, []).append(place)
    sizes = [len(one) for one in members.values()]
    if length is None and min(sizes) < max(sizes):
        raise ValueError(
            f"{source}: the sequences have from {min(sizes)} to {max(sizes)} rows: say as `length` how many count; "
            "shorter ones are dropped then, and longer ones cut."
        )
    length = sizes[0] if length is None else length
    short = [one for one in members.values() if len(one) < length]
    long = [one for one in members.values() if len(one) > length]
    lines = lambda places: [int(rows.lines[place]) for one in places for place in one]
    dropped = [
        Dropped.of(f"in a sequence of fewer than {length} rows", lines(short), len(short)),
        Dropped.of(f"beyond the first {length} rows of a sequence", lines([one[length:] for one in long]), len(long)),
    ]
    kept = [np.array(one[:length]) for one in members.values() if len(one) >= length]
    return kept, [one for one in dropped if one.rows]


def _begun_by_a_record(
    description: Description, table: Table, rows: Rows, runs: list[np.ndarray]
) -> tuple[list[np.ndarray], list[Dropped]]:
    """Only the sequences that begin with a record, as every sequence does."""
    wrong = [one for one in runs if rows.numbers[one[0], 0] != 1]
    if not wrong:
        return runs, []
    lines = [int(rows.lines[place]) for one in wrong for place in one]
    if not description.drop_bad_rows:
        where = f"{table.source}, {'line' if table.is_text else 'row'} {lines[0]}"
        raise ValueError(f"{where}: the first arrival of a sequence is always a record.")
    kept = [one for one in runs if rows.numbers[one[0], 0] == 1]
    return kept, [Dropped.of("in a sequence whose first arrival is not a record", lines, len(wrong))]


def _split(
    description: Description, source: str, rows: Rows, runs: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray, list[Dropped]]:
    """Training sequences, those held out, and what is in neither because it is in both times."""
    held = description.holdout > 0
    if len(runs) < 1 + held:
        length = "" if description.length is None else f" of {description.length} rows"
        raise ValueError(
            f"{source}: there must be at least {1 + held} whole sequences{length}"
            f"{', one of them to hold out' if held else ''}, got {len(runs)}."
        )
    num_held = min(max(1, round(description.holdout * len(runs))), len(runs) - 1) if held else 0
    early, late = runs[: len(runs) - num_held], runs[len(runs) - num_held :]
    border = rows.clock[late[0][0]] if num_held else np.inf
    straddling = [one for one in early if rows.clock[one[-1]] > border]
    train = [one for one in early if rows.clock[one[-1]] <= border]
    if not train:
        raise ValueError(
            f"{source}: no sequence is over when the first of the {num_held} held out begins: nothing is left to learn "
            "from; take a smaller `holdout` or `length`."
        )
    lines = [int(rows.lines[place]) for one in straddling for place in one]
    dropped = [Dropped.of("in a sequence that is not over when the holdout begins", lines, len(straddling))]
    width = len(train[0])
    return np.stack(train), np.array(late, dtype=int).reshape(-1, width), [one for one in dropped if one.rows]
