"""What the user says of a table: which problem it is for, which columns count, and what is held out."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, field_validator, model_validator

from rampup import documents

# Exact answers for this many arrivals take about five gigabytes.
_MOST_ARRIVALS = 4_000_000

Reference = Annotated[StrictStr, Field(min_length=1)] | Annotated[StrictInt, Field(ge=0)]
"""A column by its name; in a NumPy array without names by its number, counted from 0."""

NEEDED = {"okd": ("size", "value"), "adw": ("bids",)}
"""The columns of each problem; best choice takes `value` or `record`."""


class Columns(BaseModel):
    """Our names of columns, and the user's."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    time: Reference | None = None
    sequence: Reference | None = None
    value: Reference | None = None
    record: Reference | None = None
    size: Reference | None = None
    bids: Annotated[list[Reference], Field(min_length=1)] | None = None

    @field_validator("bids")
    @classmethod
    def _each_once(cls, bids: list[Reference] | None) -> list[Reference] | None:
        repeated = [one for place, one in enumerate(bids or []) if one in (bids or [])[:place]]
        if repeated:
            raise ValueError(f"the column {repeated[0]!r} is named twice")
        return bids


class Description(BaseModel):
    """A table of the user's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    problem: Literal["bcp", "okd", "adw"]
    file: Annotated[StrictStr, Field(min_length=1)]
    """Relative to the folder that the description is in."""
    columns: Columns
    holdout: Annotated[float, Field(ge=0, lt=1, strict=True)] = 0.25
    """How much of the sequences, the last ones by time, is kept from learning."""
    length: Annotated[StrictInt, Field(ge=1, le=_MOST_ARRIVALS)] | None = None
    """Arrivals in a sequence; None where all have the same number."""
    smoothing: Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)] | None = None
    """How many sequences of the classical problem are added to the counts of records; None for one."""
    draw: Literal["rows", "sequences"] = "rows"
    """What an instance is made of in training: rows, each drawn by itself, or a whole sequence in its own order."""
    drop_bad_rows: StrictBool = False
    separator: Annotated[StrictStr, Field(min_length=1, max_length=1)] = ","
    """Between the fields of a CSV file."""

    @model_validator(mode="after")
    def _fits_together(self) -> "Description":
        given = [name for name in ("value", "record", "size", "bids") if getattr(self.columns, name) is not None]
        if self.problem == "bcp":
            if len(given) != 1 or given[0] not in ("value", "record"):
                raise ValueError("bcp needs either `columns.value` or `columns.record`, and no other column of numbers")
        elif sorted(given) != sorted(NEEDED[self.problem]):
            wanted = " and ".join(f"`columns.{name}`" for name in NEEDED[self.problem])
            raise ValueError(f"{self.problem} needs {wanted}, and no other column of numbers")
        if self.smoothing is not None and self.problem != "bcp":
            raise ValueError(f"`smoothing` is for bcp, not for {self.problem}")
        if self.draw == "sequences" and self.problem == "bcp":
            raise ValueError("`draw: sequences` is for okd and adw: best choice is learned on its series")
        if self.length is None and self.columns.sequence is None:
            raise ValueError("give `columns.sequence`, or the number of arrivals in a sequence as `length`")
        return self

    @property
    def numbers(self) -> dict[str, Reference]:
        """The columns that are played with: what we call them, and what the user does."""
        if self.columns.bids is not None:
            return {f"bids[{place}]": one for place, one in enumerate(self.columns.bids)}
        named = {name: getattr(self.columns, name) for name in ("size", "value", "record")}
        return {name: one for name, one in named.items() if one is not None}


def read(path: str | Path) -> tuple[Description, Path]:
    """Read a description, and say where its table is."""
    source, document = documents.document(str(path), "data description")
    described = documents.validated(Description, document, source)
    return described, Path(path).parent / described.file


def files(path: str | Path) -> list[str]:
    """The files that data are made of: the description and its table."""
    return [str(path), str(read(path)[1])]
