"""Cells of a table as numbers, flags and moments; what cannot be one is refused with its reason."""

import math
import numbers
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple


class CellError(ValueError):
    """A cell that cannot be used: the sentence says what was got, the reason is the same for all cells like it."""

    def __init__(self, reason: str, got: Any = None):
        self.reason = reason
        super().__init__(reason if got is None else f"{reason}, got {got!r:.60}")


def number(name: str, cell: Any, *, is_text: bool, is_negative_allowed: bool) -> float:
    """A finite number, as a text or as it is."""
    value = _from_text(name, cell) if is_text else _from_number(name, cell)
    if math.isnan(value):
        raise CellError(f"`{name}` must be a number, not NaN")
    if math.isinf(value):
        raise CellError(f"`{name}` must be finite, and not too large for a double", cell)
    if value < 0 and not is_negative_allowed:
        raise CellError(f"`{name}` must not be negative", cell)
    return value


def _from_text(name: str, cell: str) -> float:
    text = cell.strip()
    if not text:
        raise CellError(f"`{name}` is empty")
    try:
        # Python's own 1_000 is no number elsewhere.
        if "_" not in text:
            return float(text)
    except ValueError:
        pass
    if "," in text and "_" not in text and _is_number(text.replace(",", ".")):
        raise CellError(f"`{name}` must have a decimal point, not a comma", cell)
    raise CellError(f"`{name}` must be a number", cell)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _from_number(name: str, cell: Any) -> float:
    if cell is None:
        raise CellError(f"`{name}` is empty")
    if isinstance(cell, bool) or not isinstance(cell, numbers.Real | Decimal):
        raise CellError(f"`{name}` must be a number", cell)
    try:
        return float(cell)
    except OverflowError:
        return math.inf


_FLAGS = {"true": 1.0, "1": 1.0, "false": 0.0, "0": 0.0}


def flag(name: str, cell: Any) -> float:
    """1 for true and 0 for false, in the spellings true, false, 1 and 0."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        raise CellError(f"`{name}` is empty")
    text = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip().lower()
    if text not in _FLAGS:
        raise CellError(f"`{name}` must be true, false, 1 or 0", cell)
    return _FLAGS[text]


class Moment(NamedTuple):
    """A point in time: a number, or seconds since 1970."""

    kind: str
    seconds: float


def moment(name: str, cell: Any, *, is_text: bool) -> Moment:
    """A number, or a date in the form of ISO 8601; one without a zone counts as UTC."""
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        raise CellError(f"`{name}` is empty")
    if isinstance(cell, str):
        if is_text and _is_number(cell) and "_" not in cell:
            return Moment("number", number(name, cell, is_text=True, is_negative_allowed=True))
        try:
            cell = datetime.fromisoformat(cell.strip())
        except ValueError:
            raise CellError(f"`{name}` must be a number or a date such as 2024-05-31", cell) from None
    if isinstance(cell, datetime):
        kind = "date without a zone" if cell.tzinfo is None else "date with a zone"
        return Moment(kind, (cell if cell.tzinfo else cell.replace(tzinfo=UTC)).timestamp())
    if isinstance(cell, date):
        return Moment("date without a zone", datetime(cell.year, cell.month, cell.day, tzinfo=UTC).timestamp())
    return Moment("number", number(name, cell, is_text=False, is_negative_allowed=True))


def label(name: str, cell: Any) -> str:
    """What a sequence is called."""
    text = "" if cell is None else str(cell).strip()
    if not text or (isinstance(cell, float) and math.isnan(cell)):
        raise CellError(f"`{name}` is empty")
    return text
