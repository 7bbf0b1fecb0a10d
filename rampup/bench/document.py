"""All that is measured, as one document."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from rampup.bench import rival as rivals
from rampup.bench.cases import paper_case
from rampup.bench.comparison import plain_row
from rampup.bench.floors import floor
from rampup.bench.growth import points_of, timed
from rampup.bench.updates import row
from rampup.provenance import provenance


def measured(
    names: Sequence[str],
    batches: Sequence[int],
    *,
    growth: bool = False,
    compare: bool = False,
    rival: bool = False,
    tell: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> dict[str, Any]:
    """Measure updates of problems in batches of runs, and what else is asked for."""
    if rival:
        rivals.require()
    rows, points, plain = [], [], []
    for name in names:
        case = paper_case(name)
        tell(f"{name}: floor", 0, 0)
        least = floor(case)
        for batch in batches:
            tell(f"{name}: {batch} runs", 0, 0)
            found = row(case, batch)
            rows.append(found | least | {"ratio_to_floor": found["ms_per_iteration_per_run"] / least["floor_ms"]})
        if compare:
            tell(f"{name}: plain transcription", 0, 0)
            plain.append(plain_row(case, rows[-len(batches)]["ms_per_iteration_per_run"]))
        if growth:
            for point in points_of(name):
                tell(f"{name}: growth with {point.against}, {point.size}", 0, 0)
                points.append(timed(point))
    return {
        "device": jax.devices()[0].device_kind,
        "rows": rows,
        "growth": points,
        "plain": plain,
        "rivals": rivals.rows(tell) if rival else [],
        "provenance": provenance(),
    }
