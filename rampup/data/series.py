"""Best choice: the chance that arrival i is the best so far, estimated from sequences."""

import numpy as np

from rampup.data.sequences import Dataset

SMOOTHING = 1.0
"""How many sequences of the classical problem are added where nothing else is said."""


def estimated_series(dataset: Dataset) -> np.ndarray:
    """P_i = (records at i + smoothing / i) / (sequences + smoothing): the classical 1/i is the prior."""
    given = dataset.description.smoothing
    smoothing = SMOOTHING if given is None else given
    is_record = dataset.records(dataset.train)
    prior = 1.0 / np.arange(1, dataset.length + 1)
    series = (is_record.sum(axis=0) + smoothing * prior) / (len(is_record) + smoothing)
    # Exactly, whatever the sums were rounded to.
    series[0] = 1.0
    return series
