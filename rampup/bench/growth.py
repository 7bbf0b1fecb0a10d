"""How the time of an update grows with the size of everything."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from rampup.bench.cases import Case, paper_case
from rampup.bench.updates import time_per_update

LANES = (25, 50, 100, 200)
ARRIVALS = (25, 50, 100, 200)
BATCHES = (1, 2, 4, 8)
FEW_STEPS = 20
"""How many steps an update branches at where the arrivals grow and it does not branch at all of them."""

# What has to grow with the arrivals to keep the problem what it is.
_SIZES = {
    "bcp": lambda n: {"n": n},
    "okd": lambda n: {"n": n, "B": n / 10, "V": n / 4},
    "adw": lambda m: {"m": m},
}


class Point(NamedTuple):
    """Something to be measured at one of its sizes."""

    against: str
    size: int
    case: Case
    batch: int = 1


def points_of(name: str) -> Iterator[Point]:
    """A problem against N, against n, against n at a fixed number of branch steps, and against the runs of a batch."""
    for num_lanes in LANES:
        yield Point("N", num_lanes, paper_case(name, f"trainer.num_lanes={num_lanes}"))
    for steps in (None, FEW_STEPS):
        for size in ARRIVALS:
            yield Point("n" if steps is None else f"n at K = {steps}", size, sized_case(name, size, steps))
    for batch in BATCHES:
        yield Point("runs", batch, paper_case(name), batch)


def sized_case(name: str, arrivals: int, steps_per_iteration: int | None = None) -> Case:
    """A problem of the paper with more or fewer arrivals, and everything else in proportion."""
    changes = [f"problem.parameters.{key}={value}" for key, value in _SIZES[name](arrivals).items()]
    if steps_per_iteration is not None:
        changes.append(f"trainer.steps_per_iteration={steps_per_iteration}")
    return paper_case(name, *changes)


def timed(point: Point) -> dict[str, Any]:
    """Milliseconds of an update and run."""
    ms = 1e3 * time_per_update(point.case, point.batch)
    return {"problem": point.case.name, "against": point.against, "size": point.size, "ms": ms}
