"""Processes, perhaps on several machines, that train one run together: the first keeps its folder, the others help."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np


class LostError(Exception):
    """Another process of the run is gone."""


def join(coordinator: str, process_id: int, num_processes: int, *, patience: int = 60) -> None:
    """Meet the other processes at the first one's address; once, before JAX is used."""
    try:
        jax.distributed.initialize(
            coordinator, num_processes, process_id, initialization_timeout=patience, heartbeat_timeout_seconds=20
        )
    except Exception as error:
        raise LostError(f"the processes did not meet at {coordinator} within {patience} seconds") from error


def is_alone() -> bool:
    return jax.process_count() == 1


def is_first() -> bool:
    return jax.process_index() == 0


def from_first(say: Callable[[], np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """What the first process says, an array of real numbers of a known shape, in all of them."""
    if is_alone():
        return say()
    return np.asarray(_told(say() if is_first() else np.zeros(shape)))


def bytes_from_first(data: bytes | None) -> bytes:
    """The bytes that the first process has, in all of them."""
    if is_alone():
        assert data is not None
        return data
    own = np.frombuffer(data or b"", np.uint8)
    length = int(_told(np.array(len(own))))
    return np.asarray(_told(own if is_first() else np.zeros(length, np.uint8)), np.uint8).tobytes()


def anyone(flag: bool) -> bool:
    """Whether the answer is yes in any process."""
    if is_alone():
        return flag
    from jax.experimental import multihost_utils

    return bool(np.any(multihost_utils.process_allgather(np.array(flag))))


def _told(value: np.ndarray) -> Any:
    from jax.experimental import multihost_utils

    return multihost_utils.broadcast_one_to_all(value)


@contextmanager
def watched() -> Iterator[None]:
    """Work that needs the other processes: what the runtime says when one is gone becomes one error."""
    try:
        yield
    except Exception as error:
        # A status of the runtime begins like this, in whatever kind of error it comes.
        if not is_alone() and re.match(r"[A-Z_]+: ", str(error)):
            raise LostError("another process of this run is gone") from error
        raise
