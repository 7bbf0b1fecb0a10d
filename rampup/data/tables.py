"""Tables as they are in files: CSV, Parquet and NumPy, cell by cell, each row with the line it is from."""

import csv
import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rampup import arguments
from rampup.data.description import Reference


@dataclass(frozen=True)
class Table:
    """The wanted columns of a file."""

    source: str
    columns: dict[Reference, list[Any]]
    lines: list[int]
    """Where each row is: the line it begins on, or its number counted from 1."""
    wrong_lengths: dict[int, int]
    """The rows whose number of fields is not that of the header: their place, and how many they have."""
    num_blank_lines: int
    is_text: bool
    """Whether the cells are texts that may stand for numbers, as in a CSV file."""
    width: int
    sha256: str

    def place(self, row: int) -> str:
        """Where a row is, as a sentence begins with it."""
        return f"{self.source}, {self.position(row)}"

    def position(self, row: int) -> str:
        """Where a row is in its file."""
        return f"{'line' if self.is_text else 'row'} {self.lines[row]}"


def read_table(path: Path, wanted: Sequence[Reference], separator: str = ",") -> Table:
    """Read the wanted columns of a file, by what its name ends with."""
    readers = {".csv": _csv, ".parquet": _parquet, ".npy": _numpy, ".npz": _numpy}
    if path.suffix.lower() not in readers:
        raise ValueError(f"`file` must end with {', '.join(readers)}, got {str(path)!r}.")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"cannot read the data file {str(path)!r}: {error.strerror}.") from None
    if not content:
        raise ValueError(f"{path}: the file is empty.")
    sha256 = hashlib.sha256(content).hexdigest()
    return readers[path.suffix.lower()](str(path), content, sha256, list(dict.fromkeys(wanted)), separator)


def _csv(source: str, content: bytes, sha256: str, wanted: list[Reference], separator: str) -> Table:
    try:
        # Spreadsheets begin a file with a mark of its byte order.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{source}, line {line}: it is not UTF-8 text.") from None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows, lines, num_blank, begin = [], [], 0, 1
    try:
        for row in reader:
            if row:
                rows.append(row)
                lines.append(begin)
            else:
                num_blank += 1
            begin = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{source}, line {begin}: it is not CSV: {error}.") from None
    if not rows:
        raise ValueError(f"{source}: the file is empty.")
    header, *rows = rows
    header = [name.strip() for name in header]
    places = {name: _place(source, header, name, separator) for name in wanted}
    wrong = {place: len(row) for place, row in enumerate(rows) if len(row) != len(header)}
    blank = [""] * len(header)
    whole = [blank if place in wrong else row for place, row in enumerate(rows)]
    columns: dict[Reference, list[Any]] = {name: [row[at] for row in whole] for name, at in places.items()}
    return Table(source, columns, lines[1:], wrong, num_blank, True, len(header), sha256)


def _place(source: str, header: list[str], name: Reference, separator: str) -> int:
    """Where a column of a CSV file is."""
    if not isinstance(name, str):
        raise ValueError(f"{source}: columns of a CSV file are given by name: put {name} in quotes if it is one.")
    if name not in header:
        others = [one for one in (",", ";", "\t", "|") if one != separator and one in header[0]]
        if len(header) == 1 and others:
            raise ValueError(
                f"{source}, line 1: the columns seem to be separated by {others[0]!r}: say so as `separator`."
            )
        raise ValueError(f"{source}, line 1: {_unknown(name, header)}")
    if header.count(name) > 1:
        raise ValueError(f"{source}, line 1: {_twice(name, header)}")
    return header.index(name)


def _twice(name: str, known: list[str]) -> str:
    return f"there are {known.count(name)} columns called {name!r}: give each a name of its own."


def _unknown(name: Reference, known: Sequence[str]) -> str:
    try:
        arguments.known_name("column", name, known)
    except ValueError as error:
        return str(error)
    raise AssertionError(name)


def _said(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")


def _parquet(source: str, content: bytes, sha256: str, wanted: list[Reference], separator: str) -> Table:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ValueError("a Parquet file needs pyarrow: install it with `pip install 'rampup[parquet]'`.") from None
    try:
        file = parquet.ParquetFile(io.BytesIO(content))
        names = file.schema_arrow.names
        for name in wanted:
            if not isinstance(name, str) or name not in names:
                raise ValueError(f"{source}: {_unknown(name, names)}")
            if names.count(name) > 1:
                raise ValueError(f"{source}: {_twice(name, names)}")
        table = file.read(columns=wanted)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{source} is not a Parquet file that can be read: {_said(error)}.") from None
    columns: dict[Reference, list[Any]] = {}
    for name in wanted:
        column = table.column(name)
        if pyarrow.types.is_timestamp(column.type):
            # Python's own dates end at microseconds.
            column = column.cast(pyarrow.timestamp("us", column.type.tz), safe=False)
        columns[name] = column.to_pylist()
    return Table(source, columns, list(range(1, table.num_rows + 1)), {}, 0, False, len(names), sha256)


def _numpy(source: str, content: bytes, sha256: str, wanted: list[Reference], separator: str) -> Table:
    try:
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
        arrays = {name: loaded[name] for name in loaded.files} if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except Exception as error:
        # A spoiled array or archive fails in as many ways as there are parts of it.
        raise ValueError(f"{source} is not a NumPy file that can be read: {_said(error)}.") from None
    found, width = _numpy_columns(source, arrays, wanted)
    lengths = {name: len(column) for name, column in found.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"{source}: the columns have different lengths: {lengths}.")
    columns: dict[Reference, list[Any]] = {name: _cells(column) for name, column in found.items()}
    num_rows = next(iter(lengths.values()))
    return Table(source, columns, list(range(1, num_rows + 1)), {}, 0, False, width, sha256)


def _numpy_columns(source: str, arrays: Any, wanted: list[Reference]) -> tuple[dict[Reference, np.ndarray], int]:
    """The wanted columns of an array, of a structured one, or of several by name."""
    if isinstance(arrays, np.ndarray) and arrays.dtype.names is None:
        if arrays.ndim != 2:
            raise ValueError(f"{source}: the array must have 2 axes, rows and columns, got shape {arrays.shape}.")
        for name in wanted:
            if not isinstance(name, int) or name >= arrays.shape[1]:
                raise ValueError(
                    f"{source}: its {arrays.shape[1]} columns are given by number, counted from 0, got {name!r}."
                )
        return {name: arrays[:, name] for name in wanted if isinstance(name, int)}, arrays.shape[1]
    names = list(arrays.dtype.names or ()) if isinstance(arrays, np.ndarray) else list(arrays)
    for name in wanted:
        if not isinstance(name, str) or name not in names:
            raise ValueError(f"{source}: {_unknown(name, names)}")
        if arrays[name].ndim != 1:
            raise ValueError(f"{source}: the column {name!r} must have 1 axis, got shape {arrays[name].shape}.")
    return {name: arrays[name] for name in wanted}, len(names)


def _cells(column: np.ndarray) -> list[Any]:
    if column.dtype.kind == "M":
        return column.astype("datetime64[us]").tolist()
    return column.tolist()
