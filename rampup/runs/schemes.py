"""What came of each scheme of a run, over its seeds."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rampup import intervals

Record = Mapping[str, Any]


def last_records(records: Sequence[Record]) -> list[Record]:
    """The last record of every scheme and seed."""
    return list({(record["scheme"], record["seed"]): record for record in records}.values())


def final_phases(records: Sequence[Record], scheme: str) -> list[list[Record]]:
    """The records of the last stage of a scheme, seed by seed."""
    own = [record for record in records if record["scheme"] == scheme]
    seeds = [[one for one in own if one["seed"] == seed] for seed in dict.fromkeys(one["seed"] for one in own)]
    return [[one for one in run if one["stage"] == run[-1]["stage"]] for run in seeds]


def scheme_results(records: Sequence[Record], schemes: Sequence[str]) -> list[dict[str, Any]]:
    """The mean over seeds of the last records of each scheme that has some, with the 95% interval of its value.

    With one seed the interval is that of the evaluation of its policy; an infinite kappa is None.
    """
    found, last = [], last_records(records)
    for name in schemes:
        own = [record for record in last if record["scheme"] == name]
        if not own:
            continue
        values = np.array([record["value"] for record in own])
        kappas = [math.inf if record["ln_kappa"] is None else record["ln_kappa"] for record in own]
        ln_kappa = float(np.mean(kappas))
        found.append(
            {
                "scheme": name,
                "value": float(values.mean()),
                "interval": _of_seeds(values) if len(own) > 1 else [own[0]["value_low"], own[0]["value_high"]],
                "ln_kappa": ln_kappa if math.isfinite(ln_kappa) else None,
                "samples": int(np.mean([record["samples"] for record in own])),
                "seeds": len(own),
            }
        )
    return found


def samples_to_reach(records: Sequence[Record], scheme: str, part: float) -> int | None:
    """Samples, those of the warm-up counted, until the value reaches a part of the reference's; None if it never does.

    The median over seeds: half of them need no more.
    """
    phases = final_phases(records, scheme)
    goal = part * float(np.mean([one["reference_value"] for run in phases for one in run]))
    needed = [next((one["samples"] for one in run if one["value"] >= goal), math.inf) for run in phases]
    median = float(np.median(needed))
    return int(median) if math.isfinite(median) else None


def _of_seeds(values: np.ndarray) -> list[float]:
    """The interval of the mean over seeds of rates, which are nowhere but between 0 and 1."""
    return [min(max(end, 0.0), 1.0) for end in intervals.of_mean(values)]
