"""Does the holdout look like the training rows? Two-sample Kolmogorov-Smirnov tests, corrected for their number."""

from typing import Any

import numpy as np
from scipy import stats

from rampup.data.rows import shown
from rampup.data.sequences import Dataset

# One file in a hundred that has not changed is said to have.
ALARM = 0.01
# Beyond this the exact distribution takes seconds and says nothing else.
_MOST_EXACT = 1000


def drift(dataset: Dataset) -> dict[str, Any] | None:
    """Compare training and holdout, column by column; nothing where nothing is held out."""
    if not len(dataset.holdout):
        return None
    pairs = _record_statistics(dataset) if dataset.description.problem == "bcp" else _columns(dataset)
    tests = [{"what": name, **_compared(*pair)} for name, pair in pairs.items()]
    for test, corrected in zip(tests, holm([one["p_value"] for one in tests]), strict=True):
        test["corrected_p_value"] = corrected
    return {"tests": tests, "is_alarm": any(one["corrected_p_value"] < ALARM for one in tests), "verdict": _said(tests)}


def _columns(dataset: Dataset) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    both = dataset.numbers(dataset.train), dataset.numbers(dataset.holdout)
    names = [shown(one) for one in dataset.description.numbers.values()]
    return {name: (both[0][:, :, at].ravel(), both[1][:, :, at].ravel()) for at, name in enumerate(names)}


def _record_statistics(dataset: Dataset) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """All that best choice depends on: how many records a sequence has, and where the last of them is."""
    early, late = dataset.records(dataset.train), dataset.records(dataset.holdout)
    positions = [one.shape[1] - np.argmax(one[:, ::-1], axis=1) for one in (early, late)]
    return {
        "records in a sequence": (early.sum(axis=1), late.sum(axis=1)),
        "position of the best": (positions[0], positions[1]),
    }


def _compared(early: np.ndarray, late: np.ndarray) -> dict[str, float]:
    method = "exact" if max(len(early), len(late)) <= _MOST_EXACT else "asymp"
    found: Any = stats.ks_2samp(early, late, method=method)
    return {"distance": float(found.statistic), "p_value": float(found.pvalue)}


def holm(p_values: list[float]) -> list[float]:
    """Holm's step-down correction: the k-th smallest of m counts m - k + 1 times, and none less than one before it."""
    order, corrected, largest = np.argsort(p_values), [0.0] * len(p_values), 0.0
    for rank, at in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[at]))
        corrected[at] = largest
    return corrected


def _said(tests: list[dict[str, Any]]) -> str:
    least = min(tests, key=lambda one: one["corrected_p_value"])
    count = f"{len(tests)} test{'s' if len(tests) > 1 else ''}"
    changed = [f"`{one['what']}`" for one in tests if one["corrected_p_value"] < ALARM]
    if not changed:
        return f"No drift is seen: the least p-value of {count}, corrected, is {least['corrected_p_value']:.3g}."
    return (
        f"The holdout differs from the training rows in {' and '.join(changed)} (least p-value of {count}, corrected: "
        f"{least['corrected_p_value']:.1g}): what is learned from the past may not hold."
    )
