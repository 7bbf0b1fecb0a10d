"""What is measured: the paper's problems at the paper's size, or at any other."""

import math
from typing import NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr

from rampup import streams
from rampup.config import load
from rampup.features import Features
from rampup.learn.curriculum import scheme
from rampup.learn.trainer import Run, Settings, num_branches
from rampup.plans import plan
from rampup.problems.base import Problem

EXPERIMENTS = {"bcp": "bcp-classical", "okd": "okd-uniform", "adw": "adw-19260817"}
"""The experiment whose full size stands for a problem."""


class Case(NamedTuple):
    """A problem, and how an update of it samples."""

    name: str
    problem: Problem
    features: Features
    settings: Settings

    @property
    def num_episodes(self) -> int:
        """How many episodes an update plays: N for each step it branches at."""
        return self.settings.num_lanes * num_branches(self.problem, self.settings)

    @property
    def num_transitions(self) -> int:
        return self.num_episodes * self.problem.horizon

    @property
    def num_random(self) -> int:
        """How many random numbers an update draws: arrivals, one for each action, and two at the branch."""
        return self.num_episodes * (_numbers_drawn(self.problem) + self.problem.horizon + 2)

    def runs(self, count: int) -> list[Run]:
        """So many runs that differ in their seed."""
        stages = scheme("direct", self.problem, None, iterations=10**9)
        return [Run("direct", stages, seed) for seed in range(count)]


def paper_case(name: str, *changes: str) -> Case:
    """A problem of the paper; changes are given as for `rampup run --set`."""
    made = plan(load(EXPERIMENTS[name], overrides=["schemes=[direct]", *changes]))
    return Case(name, made.problem, made.features, made.settings)


def _numbers_drawn(problem: Problem) -> int:
    """How many random numbers an instance is made of."""
    return _random_numbers(jax.make_jaxpr(problem.draw)(streams.key(0)))


def _random_numbers(program: ClosedJaxpr | Jaxpr) -> int:
    jaxpr = program.jaxpr if isinstance(program, ClosedJaxpr) else program
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "random_bits":
            total += math.prod(equation.outvars[0].aval.shape)  # pyright: ignore[reportAttributeAccessIssue]
        inner = [value for value in equation.params.values() if isinstance(value, ClosedJaxpr | Jaxpr)]
        total += sum(_random_numbers(one) for one in inner)
    return total
