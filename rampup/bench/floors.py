"""The least an update could take on this machine, whatever the program: measured, not looked up."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rampup.bench.cases import Case
from rampup.bench.clock import seconds_each


def floor(case: Case) -> dict[str, Any]:
    """Milliseconds that one update of one run cannot be faster than, and what they are made of."""
    parts = _on_cpu(case) if jax.default_backend() == "cpu" else _on_gpu(case)
    total = sum(parts.values()) if jax.default_backend() == "cpu" else max(parts.values())
    return {"floor_ms": total, "floor_parts_ms": parts}


def _on_cpu(case: Case) -> dict[str, float]:
    """The random numbers alone, by the quickest generator of NumPy on every core, and F = S'S through its BLAS."""
    num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    generators = [np.random.Generator(np.random.SFC64(seed)) for seed in range(num_cores)]
    pages = [np.empty(case.num_random // num_cores, np.float32) for _ in generators]
    scores = np.random.default_rng(0).normal(size=(case.num_episodes, case.features.size))

    def draw(index: int) -> None:
        generators[index].random(out=pages[index], dtype=np.float32)

    with ThreadPoolExecutor(num_cores) as cores:
        numbers = seconds_each(lambda count: [list(cores.map(draw, range(num_cores))) for _ in range(count)])
    product = seconds_each(lambda count: [scores.T @ scores for _ in range(count)])
    return {"random_numbers": 1e3 * numbers, "fisher_product": 1e3 * product}


def _on_gpu(case: Case) -> dict[str, float]:
    """Random numbers written and read once at the speed of a copy; logits and F = S'S at that of a matrix product."""
    logits = case.num_transitions * _rows_seen(case) * 2 * case.features.size
    fisher = case.num_episodes * 2 * case.features.size**2
    return {
        "memory": 1e3 * 2 * 4 * case.num_random / _copied_bytes_per_second(),
        "arithmetic": 1e3 * (logits + fisher) / _operations_per_second(),
    }


def _rows_seen(case: Case) -> int:
    """How many rows of features a decision is made from."""
    least, _ = case.problem.bounds()
    return jax.eval_shape(case.problem.variables, jnp.asarray(least)).shape[0]


def _copied_bytes_per_second() -> float:
    page = jnp.ones(2**28, jnp.float32)
    copy = jax.jit(lambda given: given + 1)
    seconds = seconds_each(lambda count: jax.block_until_ready([copy(page) for _ in range(count)][-1]), block=0.05)
    return 2 * page.nbytes / seconds


def _operations_per_second() -> float:
    size = 8192
    matrix = jnp.ones((size, size), jnp.float32)
    product = jax.jit(lambda given: given @ given)
    seconds = seconds_each(lambda count: jax.block_until_ready([product(matrix) for _ in range(count)][-1]), block=0.05)
    return 2 * size**3 / seconds
