"""Seconds by the wall clock: medians over repeated blocks of work."""

import statistics
import time
from collections.abc import Callable


def seconds_of(work: Callable[[], object]) -> float:
    """How long a piece of work takes, once."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def seconds_each(work: Callable[[int], object], *, block: float = 0.3, repeats: int = 5) -> float:
    """Seconds for one of many repetitions, where `work` does as many as it is told; the median of several blocks.

    Args:
        block: how many seconds a block should take at least, so that starting it does not count.
        repeats: how many blocks are measured.
    """
    timed = lambda count: seconds_of(lambda: work(count))
    work(1)
    count = 1
    while (taken := timed(count)) < block / 2:
        count *= max(2, min(10, int(block / max(taken, 1e-9))))
    return statistics.median(timed(count) / count for _ in range(repeats))
