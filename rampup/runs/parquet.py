"""The metrics of runs as one Parquet file, for those who have pyarrow."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rampup.runs.files import write_whole
from rampup.runs.folder import RunFolder


def write_parquet(folders: Sequence[RunFolder], path: str | Path, *, scheme: str | None = None) -> int:
    """Write all records of runs, each with the folder of its run in the column `run`; return how many there are."""
    require()
    records = [
        {"run": str(folder.path)} | record
        for folder in folders
        for record in folder.rows()
        if scheme in (None, record["scheme"])
    ]
    if not records:
        raise ValueError("there is nothing to write: no run with records fits.")
    write_table(records, path)
    return len(records)


def require() -> None:
    """Complain now, not after the work, where pyarrow is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ValueError("a Parquet file needs pyarrow: install it with `pip install 'rampup[parquet]'`.") from None


def write_table(records: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Write records as one table; a column of numbers and texts is one of texts."""
    import pyarrow
    from pyarrow import parquet

    columns = _columns(records)
    kinds = {name: _kind(values) for name, values in columns.items()}
    for name, kind in kinds.items():
        if kind == "string":
            columns[name] = [None if value is None else str(value) for value in columns[name]]
    schema = pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in kinds.items()])
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns, schema), buffer)
    write_whole(path, buffer.getvalue())


def _columns(records: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The records column by column; what a record lacks is None."""
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def _kind(values: Sequence[Any]) -> str:
    """The type of a column; one that is None throughout holds numbers, such as a kappa that is always infinite."""
    kinds = {type(value) for value in values if value is not None}
    for kind, name in ((str, "string"), (bool, "bool_"), (float, "float64"), (int, "int64")):
        if kind in kinds:
            return name
    return "float64"
