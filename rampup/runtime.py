"""How the process of a command is set up; the library itself never does it."""

import sys


def set_up() -> None:
    """Set up JAX, for which counts what is set before it is first used, and Python's threads."""
    import jax

    jax.config.update("jax_enable_x64", True)
    # Batched factorisations of two programs in flight would block each other for ever on the thread pool of two cores.
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    # A thread that is at work in Python lets no other go on for so many seconds. By default it is 25 times as long, and
    # programs compiled ahead or pictures drawn meanwhile hold a run up dozens of times a row.
    sys.setswitchinterval(2e-4)
