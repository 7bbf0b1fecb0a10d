"""The card of a table: what is in it, what was dropped and why, what is held out, and whether it drifts."""

from dataclasses import asdict
from typing import Any

import numpy as np

from rampup.data.drift import drift
from rampup.data.rows import shown
from rampup.data.sequences import Dataset
from rampup.data.series import estimated_series


def data_card(dataset: Dataset) -> dict[str, Any]:
    """Everything worth knowing of data, as plain numbers; `rows` is what is used and what is dropped."""
    description, rows, table = dataset.description, dataset.rows, dataset.table
    by_time = description.columns.time is not None
    facts: dict[str, Any] = {
        "problem": description.problem,
        "description": dataset.source,
        "file": table.source,
        "sha256": table.sha256,
        "rows": len(table.lines),
        "blank_lines": table.num_blank_lines,
        "dropped": [asdict(one) for one in dataset.dropped],
        "order": {
            "by": shown(description.columns.time) if description.columns.time is not None else None,
            "rows_put_in_place": rows.num_out_of_order if by_time else 0,
        },
        "length": dataset.length,
        "columns": {name: _column(dataset, at) for at, name in enumerate(dataset.names)},
        "train": part_of(dataset, dataset.train),
        "holdout": part_of(dataset, dataset.holdout),
        "drift": drift(dataset),
    }
    if description.problem == "bcp":
        facts["series"] = estimated_series(dataset).tolist()
    return facts


def _column(dataset: Dataset, at: int) -> dict[str, Any]:
    """The range of a column over all rows that are used."""
    used = np.concatenate([dataset.train.ravel(), dataset.holdout.ravel()])
    numbers = dataset.rows.numbers[used, at]
    name = list(dataset.description.numbers.values())[at]
    return {
        "column": name,
        "min": float(numbers.min()),
        "median": float(np.median(numbers)),
        "max": float(numbers.max()),
    }


def part_of(dataset: Dataset, sequences: np.ndarray) -> dict[str, Any]:
    """How much there is, and from when to when."""
    facts: dict[str, Any] = {"sequences": len(sequences), "rows": int(sequences.size), "from": None, "to": None}
    if sequences.size:
        ends = sequences.min(), sequences.max()
        facts |= {"from": dataset.rows.shown_times[ends[0]], "to": dataset.rows.shown_times[ends[1]]}
    return facts
