"""Who may use the cores: JAX has threads of its own, and those of the linear algebra below it only get in its way."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@contextmanager
def for_jax() -> Iterator[None]:
    """Let the BLAS and LAPACK that JAX calls on a CPU work in the thread that calls them.

    After a factorisation OpenBLAS's threads wait for the next one in a loop, on the cores that JAX samples with: on two
    cores an update of a knapsack took twice as long.
    """
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries() -> ThreadpoolController:
    # What JAX calls is SciPy's, which must be there to be found.
    import scipy.linalg  # noqa: F401

    return ThreadpoolController()
