"""Curricula as lists of stages (Algorithm 2), and the named schemes of the paper's table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rampup import arguments
from rampup.problems.base import Problem
from rampup.types import PolicyFn

Start = Literal["zero", "previous"]
Sampler = Literal["on_policy", "previous", "naive"]


@dataclass(frozen=True)
class Stage:
    """One phase of training: a problem, where theta starts, who samples, and how long.

    Args:
        start: "zero", or "previous" for the theta the stage before ended with.
        sampler: "on_policy"; "previous" for the policy the stage before ended with; "naive" for uniform actions; or any
            policy, a function of what the player sees.
        promote_at: end the stage early when the value reaches this fraction of the reference policy's.
    """

    problem: Problem
    iterations: int
    start: Start = "zero"
    sampler: Sampler | PolicyFn = "on_policy"
    regularisation: float = 0.0
    promote_at: float | None = None

    def __post_init__(self):
        arguments.integer("iterations", self.iterations, least=1)
        arguments.known_name("start", self.start, ("zero", "previous"))
        if not callable(self.sampler):
            arguments.known_name("sampler", self.sampler, ("on_policy", "previous", "naive"))
        arguments.at_least_zero("regularisation", self.regularisation)
        if self.promote_at is not None:
            arguments.positive("promote_at", self.promote_at)


Stages = tuple[Stage, ...]


def checked_stages(stages: Sequence[Stage]) -> Stages:
    """Return the stages if they make a curriculum: at least one, and the first with nothing before it to go on from."""
    if not stages:
        raise ValueError("a curriculum must have at least one stage.")
    if stages[0].start == "previous" or stages[0].sampler == "previous":
        raise ValueError("the first stage must start from zero and sample on-policy, naively or by a given policy.")
    return tuple(stages)


def direct(problem: Problem, warmup: Problem | None, iterations: int, warmup_iterations: int, weight: float) -> Stages:
    """Learn the large problem from scratch."""
    return (Stage(problem, iterations, regularisation=weight),)


def naive_samp(
    problem: Problem, warmup: Problem | None, iterations: int, warmup_iterations: int, weight: float
) -> Stages:
    """Learn the large problem from scratch, from episodes of the uniform policy."""
    return (Stage(problem, iterations, sampler="naive", regularisation=weight),)


def curl(problem: Problem, warmup: Problem | None, iterations: int, warmup_iterations: int, weight: float) -> Stages:
    """Learn the small problem, then go on with the large one."""
    return (
        Stage(_needed(warmup), warmup_iterations, regularisation=weight),
        Stage(problem, iterations, start="previous", regularisation=weight),
    )


def fix_samp_curl(
    problem: Problem, warmup: Problem | None, iterations: int, warmup_iterations: int, weight: float
) -> Stages:
    """Learn the small problem, then learn the large one from scratch, from episodes of the small one's policy."""
    return (
        Stage(_needed(warmup), warmup_iterations, regularisation=weight),
        Stage(problem, iterations, sampler="previous", regularisation=weight),
    )


def _needed(warmup: Problem | None) -> Problem:
    if warmup is None:
        raise ValueError("a curriculum needs a small problem to warm up on: give `warmup`.")
    return warmup


PLAIN_SCHEMES: dict[str, Callable[..., Stages]] = {
    "direct": direct,
    "naive_samp": naive_samp,
    "curl": curl,
    "fix_samp_curl": fix_samp_curl,
}

SCHEMES = (*PLAIN_SCHEMES, *(f"{name}_reg" for name in PLAIN_SCHEMES))
"""The eight training schemes of the paper; `_reg` adds entropy regularisation to every phase."""


def scheme(
    name: str,
    problem: Problem,
    warmup: Problem | None = None,
    *,
    iterations: int,
    warmup_iterations: int | None = None,
    regularisation: float = 0.01,
) -> Stages:
    """The stages of a named scheme.

    Args:
        regularisation: lambda of the `_reg` schemes; the others have none.
    """
    arguments.known_name("scheme", name, SCHEMES)
    weight = regularisation if name.endswith("_reg") else 0.0
    plain = PLAIN_SCHEMES[name.removesuffix("_reg")]
    warmup_length = iterations if warmup_iterations is None else warmup_iterations
    return checked_stages(plain(problem, warmup, iterations, warmup_length, weight))


def multi_step(
    problems: Sequence[Problem], *, iterations: int, promote_at: float = 0.9, regularisation: float = 0.0
) -> Stages:
    """Kong et al.'s bootstrapping: move to the next larger problem as soon as the present one is solved well enough.

    Args:
        iterations: the most a stage may take; the last stage takes them all.
    """
    last = len(problems) - 1
    return checked_stages(
        [
            Stage(
                problem,
                iterations,
                start="previous" if index else "zero",
                regularisation=regularisation,
                promote_at=promote_at if index < last else None,
            )
            for index, problem in enumerate(problems)
        ]
    )
