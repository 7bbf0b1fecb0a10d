"""What a player who sees all arrivals beforehand achieves: a ceiling for every player who does not."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from rampup import arguments, integer_programs
from rampup.problems.adw import ADW
from rampup.problems.adw_value import ADWValue
from rampup.problems.auction import Auction
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.problems.knapsack import Knapsack
from rampup.problems.okd import OKD
from rampup.problems.okd_value import OKDValue

ProgressFn = Callable[[int, int], None]
"""Called as results come in, with how many are done and how many there are."""


def hindsight(
    problem: Problem, instances: Any, *, workers: int | None = None, on_progress: ProgressFn | None = None
) -> np.ndarray:
    """What an all-seeing player earns in each of the instances: 1 for a success and 0 for a failure, or the return.

    Args:
        problem: One of ours, or a problem with a method `in_hindsight`.
        instances: Instances of it with a leading batch axis, as `jax.vmap(problem.draw)` returns them.
        workers: How many threads solve instances, by default one for each processor.
        on_progress: Called as results come in.
    """
    return _for_each(_success(problem), instances, workers, on_progress)


def hindsight_values(
    problem: Problem, instances: Any, *, workers: int | None = None, on_progress: ProgressFn | None = None
) -> np.ndarray:
    """The greatest value or revenue there is in each of the instances, else the greatest return; see `hindsight`.

    Far slower than `hindsight` where bids are spread out: seconds for 10 advertisers and 20 slots.
    """
    return _for_each(_value(problem), instances, workers, on_progress)


def _success(problem: Problem) -> Callable[[Any], Any]:
    """Whether an instance can be won, or what can be won in it, as a function of it."""
    if isinstance(problem, BCP):
        # Some arrival is the best of all.
        return lambda instance: True
    if isinstance(problem, OKD):
        budget, target = float(problem.budget), float(problem.target)
        return lambda instance: integer_programs.knapsack_reaches(instance.sizes, instance.values, budget, target)
    if isinstance(problem, ADW):
        budgets, target = problem.budgets(), float(problem.target)
        return lambda instance: integer_programs.allocation_reaches(instance.bids, budgets, target)
    if isinstance(problem, OKDValue | ADWValue):
        most, scale = _value(problem), float(problem.scale)
        return lambda instance: most(instance) / scale
    return _own(problem)


def _value(problem: Problem) -> Callable[[Any], Any]:
    """The most there is in an instance, as a function of it."""
    if isinstance(problem, BCP):
        return lambda instance: 1.0
    if isinstance(problem, Knapsack):
        budget = float(problem.budget)
        return lambda instance: integer_programs.best_knapsack(instance.sizes, instance.values, budget)
    if isinstance(problem, Auction):
        budgets = problem.budgets()
        return lambda instance: integer_programs.best_allocation(instance.bids, budgets)
    return _own(problem)


def _own(problem: Problem) -> Callable[[Any], Any]:
    if not isinstance(problem, Problem) or type(problem).in_hindsight is Problem.in_hindsight:
        raise ValueError(
            f"what an all-seeing player earns in a {type(problem).__name__} is not known: give the class a method "
            "`in_hindsight(self, instance)`."
        )
    return problem.in_hindsight


def _for_each(
    question: Callable[[Any], Any], instances: Any, workers: int | None, on_progress: ProgressFn | None
) -> np.ndarray:
    """The answers for all instances, asked in threads: the solver of the hard ones works outside Python's lock."""
    workers = arguments.integer("workers", os.cpu_count() if workers is None else workers, least=1)
    each = _one_by_one(instances)
    answers = np.zeros(len(each))
    executor = ThreadPoolExecutor(workers)
    try:
        for index, answer in enumerate(executor.map(question, each)):
            answers[index] = answer
            if on_progress is not None:
                on_progress(index + 1, len(each))
    finally:
        # Whoever interrupts does not wait for the instances that were not begun.
        executor.shutdown(cancel_futures=True)
    return answers


def _one_by_one(instances: Any) -> list[Any]:
    leaves, structure = jax.tree.flatten(jax.tree.map(np.asarray, instances))
    if any(leaf.dtype == np.float32 for leaf in leaves):
        raise ValueError("exact answers need 64-bit numbers: call `jax.config.update('jax_enable_x64', True)` first.")
    return [jax.tree.unflatten(structure, parts) for parts in zip(*leaves, strict=True)]
