"""The problems by name, and the one way to make them."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rampup import arguments
from rampup.data import description
from rampup.problems import own
from rampup.problems.adw import ADW
from rampup.problems.adw_value import ADWValue
from rampup.problems.auction import Auction
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.problems.choice import Choice
from rampup.problems.knapsack import Knapsack
from rampup.problems.okd import OKD
from rampup.problems.okd_value import OKDValue

PROBLEMS: dict[str, type[Problem]] = {
    "bcp": BCP,
    "okd": OKD,
    "adw": ADW,
    "choice": Choice,
    "okd_value": OKDValue,
    "adw_value": ADWValue,
}


def find(name: Any) -> type[Problem]:
    """The class of a problem: one of ours, one that an installed package announces, or FILE.py:CLASS."""
    check_name(name)
    if own.is_file_and_class(name):
        return own.from_file(name)
    return PROBLEMS[name] if name in PROBLEMS else own.announced(name)


def check_name(name: Any) -> None:
    """Refuse what no problem can be called; a file of the user's own is not run to find out."""
    if not isinstance(name, str) or not own.is_file_and_class(name):
        try:
            arguments.known_name("problem", name, [*PROBLEMS, *own.announced_names()])
        except ValueError as error:
            raise ValueError(f"{str(error).rstrip('.')}, or FILE.py:CLASS.") from None


def name_of(problem: Problem) -> str:
    """Return the name of a problem's kind; of the user's own, without the folder its file is in."""
    for name, kind in PROBLEMS.items():
        if isinstance(problem, kind):
            return name
    return _plain_name(type(problem))


def _plain_name(kind: type[Problem]) -> str:
    try:
        return f"{Path(inspect.getfile(kind)).name}:{kind.__name__}"
    except (OSError, TypeError):
        # A class typed into a notebook has no file.
        return kind.__name__


def is_kind(problem: Problem, name: Any) -> bool:
    """Whether a name, given from whatever folder, is that of a problem's kind."""
    if not isinstance(name, str):
        return False
    if name in own.announced_names():
        return isinstance(problem, own.announced(name))
    return name_of(problem) in (name, Path(name).name)


def make(name: str, **parameters: Any) -> Problem:
    """Make a problem: `make("bcp", n=100)`, `make("okd", n=100, B=10, V=25)` or `make("adw", n=10, m=20, V=9)`."""
    return made_of(name, parameters)


def made_of(name: str, parameters: Mapping[str, Any]) -> Problem:
    """Make a problem of parameters that may have any name."""
    kind = find(name)
    try:
        return arguments.call(f"problem {name!r}", kind, parameters)
    except (ValueError, OverflowError, MemoryError):
        raise
    except Exception as error:
        if kind in PROBLEMS.values():
            raise
        raise ValueError(f"the problem {name!r} cannot be made: {own.said(error, inspect.getfile(kind))}.") from error


def files_of(name: str, parameters: dict[str, Any]) -> list[str]:
    """The files that a problem is made of, the user's own among them: what it is depends on what they hold."""
    files = [name.rpartition(":")[0]] if own.is_file_and_class(name) else []
    texts = [value for value in parameters.values() if isinstance(value, str)]
    files += [text for text in texts if Path(text).is_file()]
    data = parameters.get("data")
    return files + (description.files(data)[1:] if name in PROBLEMS and data in files else [])


def units_of(problem: Problem) -> dict[str, float]:
    """What 1 is in the user's units, by quantity; nothing for a problem that is not made of data."""
    if isinstance(problem, Knapsack) and problem.rows is not None:
        return {"size": problem.size_unit, "value": problem.value_unit}
    if isinstance(problem, Auction) and problem.rows is not None:
        return {"bid": problem.bid_unit}
    return {}
