"""Hand-made rules to compare with: each a policy, a function of what the player sees."""

import jax.numpy as jnp

from rampup.exact import bcp as exact_bcp
from rampup.problems.adw import ADW
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.problems.okd import OKD
from rampup.references.rules import BangPerBuck, Greedy, Threshold, best_ratio
from rampup.types import PolicyFn

REFERENCE_NAMES = {"bcp": "optimal", "okd": "bang_per_buck", "adw": "greedy"}


def default_reference(problem: Problem) -> PolicyFn:
    """Return the reference policy of a problem: optimal for bcp, a classical rule for okd and adw."""
    if isinstance(problem, BCP):
        return Threshold(problem.horizon, exact_bcp.optimum(problem.record_probs).threshold)
    if isinstance(problem, OKD):
        return BangPerBuck(jnp.asarray(best_ratio(problem)))
    if isinstance(problem, ADW):
        return Greedy(problem.num_actions - 1)
    raise ValueError(f"`reference` must be given for a problem of type {type(problem).__name__}.")
