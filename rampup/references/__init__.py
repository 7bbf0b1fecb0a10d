"""Hand-made rules to compare with: each a policy, a function of what the player sees."""

import jax.numpy as jnp

from rampup.exact import bcp as exact_bcp
from rampup.problems.adw import ADW
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.problems.okd import OKD
from rampup.references.rules import bang_per_buck, best_ratio, greedy_adw, threshold
from rampup.types import PolicyFn


def default_reference(problem: Problem) -> tuple[str, PolicyFn]:
    """Return the reference policy of a problem and its name: optimal for bcp, a classical rule for okd and adw."""
    if isinstance(problem, BCP):
        return "optimal", threshold(problem, int(exact_bcp.optimum(problem.record_probs).threshold))
    if isinstance(problem, OKD):
        return "bang_per_buck", bang_per_buck(jnp.asarray(best_ratio(problem)))
    if isinstance(problem, ADW):
        return "greedy", greedy_adw(problem)
    raise ValueError(f"`reference` must be given for a problem of type {type(problem).__name__}.")
