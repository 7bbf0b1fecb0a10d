"""The problems by name, and the one way to make them."""

from typing import Any

from rampup import arguments
from rampup.problems.adw import ADW
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.problems.okd import OKD

PROBLEMS: dict[str, type[Problem]] = {"bcp": BCP, "okd": OKD, "adw": ADW}


def name_of(problem: Problem) -> str | None:
    """Return the name a problem is made by; nothing for a problem of the user's own."""
    return next((name for name, kind in PROBLEMS.items() if isinstance(problem, kind)), None)


def make(name: str, **parameters: Any) -> Problem:
    """Make a problem: `make("bcp", n=100)`, `make("okd", n=100, B=10, V=25)` or `make("adw", n=10, m=20, V=9)`."""
    problem = PROBLEMS[arguments.known_name("problem", name, PROBLEMS)]
    return arguments.call(f"problem {name!r}", problem, parameters)
