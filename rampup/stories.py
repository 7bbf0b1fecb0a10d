"""What the exact best choice problem has to tell, as plain numbers: the optimum, and kappa of two samplers."""

import math
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rampup import theory
from rampup.exact import bcp
from rampup.exact.finite import require_double_precision
from rampup.features import Features, as_features
from rampup.problems.bcp import BCP


def bcp_theory(n: int | None, series: Any, sampler_threshold: float | str, features: str) -> dict[str, Any]:
    """Optimal policy and value, and kappa at theta = 0 of the threshold sampler and the naive one.

    Args:
        sampler_threshold: q; the sampler lets floor(n q) arrivals pass and then accepts the first record.
    """
    require_double_precision()
    problem = BCP(n, series)
    sampler_count = theory.threshold_count(problem.horizon, sampler_threshold)
    optimum, ln_kappa_curl, ln_kappa_naive = _exact(problem, as_features(features, problem), jnp.asarray(sampler_count))
    record_probs, optimal_count = np.asarray(problem.record_probs), int(optimum.threshold)
    ln_k_curl = theory.ln_k_curl(record_probs, optimal_count, sampler_count)
    ln_k_naive = theory.ln_k_naive(record_probs, optimal_count)
    return {
        "n": problem.horizon,
        "features": features,
        "optimal_value": float(optimum.value),
        "optimal_threshold": optimal_count,
        "sampler_count": sampler_count,
        "k_curl": _exp_or_none(ln_k_curl),
        "k_naive": _exp_or_none(ln_k_naive),
        "ln_k_curl": ln_k_curl,
        "ln_k_naive": ln_k_naive,
        "ln_kappa_curl": float(ln_kappa_curl),
        "ln_kappa_naive": float(ln_kappa_naive),
    }


@jax.jit
def _exact(problem: BCP, features: Features, sampler_count: jax.Array):
    probs, n = problem.record_probs, problem.horizon
    optimum = bcp.optimum(probs)
    target = bcp.on_policy(probs, optimum.policy)
    # At theta = 0 the policy is the naive one, whatever the features.
    at_zero = bcp.naive_policy(n)
    samplers = bcp.threshold_policy(n, sampler_count), bcp.naive_policy(n)
    kappas = (bcp.relative_condition(features, at_zero, target, bcp.grafted(probs, one)).ln for one in samplers)
    return optimum, *kappas


def _exp_or_none(logarithm: float) -> float | None:
    """e^logarithm, or nothing where that is finite but too large for a double; powers of two come out whole."""
    if math.isinf(logarithm):
        return logarithm
    exponent = logarithm / math.log(2)
    return 2.0**exponent if exponent < np.finfo(float).maxexp else None


def bcp_growth(sizes: Iterable[int], warmup: int, features: str) -> dict[str, Any]:
    """The same for several n of the classical problem, the sampler being the optimal policy of a small one."""
    require_double_precision()
    small = BCP(warmup)
    warmup_threshold = int(bcp.optimum(small.record_probs).threshold)
    rows = [bcp_theory(n, "classical", f"{warmup_threshold}/{small.horizon}", features) for n in sizes]
    return {"warmup": small.horizon, "warmup_threshold": warmup_threshold, "rows": rows}
