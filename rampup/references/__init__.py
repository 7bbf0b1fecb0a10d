"""What to compare with: rules and optima as policies, and what an all-seeing player achieves."""

from rampup.problems import name_of
from rampup.problems.base import Problem
from rampup.references.named import policy_named
from rampup.types import PolicyFn

REFERENCE_NAMES = {"bcp": "optimal", "okd": "bang_per_buck", "adw": "greedy"}


def default_reference(problem: Problem) -> PolicyFn:
    """Return the reference policy of a problem: optimal for bcp, a classical rule for okd and adw."""
    kind = name_of(problem)
    if kind is None:
        raise ValueError(f"`reference` must be given for a problem of type {type(problem).__name__}.")
    return policy_named(problem, REFERENCE_NAMES[kind])
