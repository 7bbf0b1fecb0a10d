"""The optimal online value, where it is known exactly."""

from rampup.exact import bcp, choice
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.problems.choice import Choice


def optimal_value(problem: Problem) -> float | None:
    """The greatest mean return of any online player; nothing where no formula gives it."""
    if isinstance(problem, BCP):
        return float(bcp.optimum(problem.record_probs).value)
    if isinstance(problem, Choice):
        return choice.optimum(problem).value
    return None
