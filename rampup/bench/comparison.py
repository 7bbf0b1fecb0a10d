"""The same update written plainly: one episode at a time, in NumPy."""

from typing import Any

import numpy as np

from rampup.bench import plain
from rampup.bench.cases import Case
from rampup.bench.clock import seconds_of

_PLAIN = {
    "bcp": lambda case: plain.PlainBCP(np.asarray(case.problem.record_probs), case.features.degrees[0]),
    "okd": lambda case: plain.PlainOKD(
        case.problem.horizon, float(case.problem.budget), float(case.problem.target), case.features.degrees[0]
    ),
    "adw": lambda case: plain.PlainADW(
        case.problem.num_actions - 1, case.problem.horizon, float(case.problem.target), case.features.degrees[0]
    ),
}


def plain_row(case: Case, our_ms: float, *, num_lanes: int = 1) -> dict[str, Any]:
    """What an update takes in plain NumPy, measured on some of its lanes and counted up to all of them."""
    environment, theta = _PLAIN[case.name](case), np.zeros(case.features.size)
    settings = case.settings
    given = environment, theta, None, num_lanes, 0.0, settings.clip, settings.radius, np.random.default_rng(0)
    ms = 1e3 * seconds_of(lambda: plain.update(*given)) * settings.num_lanes / num_lanes
    return {"problem": case.name, "ms_per_iteration": ms, "ratio": ms / our_ms}
