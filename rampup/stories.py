"""From the words of a command line to what the theory has to tell, as plain numbers."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rampup import arguments, theory
from rampup.advice import OnProgress, advise, declared_sizes, smaller_problems
from rampup.checks import make_checked
from rampup.exact import bcp
from rampup.exact.finite import require_double_precision
from rampup.features import Features, as_features
from rampup.learn.bound import bound_document, bounded_run
from rampup.learn.curriculum import scheme as scheme_named
from rampup.learn.trainer import Settings
from rampup.policy import largest_feature_norm
from rampup.problems import PROBLEMS, find, make
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.references import policy_named, reference_name
from rampup.types import PolicyFn


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


def bcp_bound(
    parameters: dict[str, Any],
    warmup_changes: dict[str, Any],
    scheme: str,
    *,
    iterations: int,
    warmup_iterations: int | None,
    seed: int,
    features: str,
    regularisation: float,
    **settings: Any,
) -> dict[str, Any]:
    """Theorem 1 held against one run on the best choice problem."""
    problem = make("bcp", **parameters)
    warmup = make("bcp", **(parameters | warmup_changes)) if warmup_changes else None
    lengths = {"iterations": iterations, "warmup_iterations": warmup_iterations, "regularisation": regularisation}
    stages = scheme_named(scheme, problem, warmup, **lengths)
    run = bounded_run(stages, as_features(features, problem), Settings(**settings), seed)
    return {"scheme": scheme, "seed": seed} | bound_document(run)


def samples_needed(name: str, parameters: dict[str, Any], features: str | None, **numbers: Any) -> dict[str, Any]:
    """What the concentration lemma asks for, with the constants of a problem and its features."""
    problem = make_checked(name, parameters)
    basis = as_features(features or problem.usual_features, problem)
    norm = largest_feature_norm(problem, basis)
    sizes = {"horizon": problem.horizon, "num_actions": problem.num_actions, "dimension": basis.size}
    return sizes | {"feature_norm": norm} | theory.sample_size(**sizes, feature_norm=norm, **numbers)._asdict()


def advice(
    name: str,
    parameters: dict[str, Any],
    warmup_changes: dict[str, Any],
    policies: Sequence[str],
    *,
    features: str | None,
    reference: str | None = None,
    own_warmup: dict[str, Any] | None = None,
    budget: float,
    seed: int,
    on_progress: OnProgress | None,
) -> dict[str, Any]:
    """Whether a curriculum pays on a problem, for all smaller sizes or for one.

    Args:
        reference: the policy that kappa is taken against, by name or from a file.
        own_warmup: the parameters of a warm-up to try beside all smaller sizes.
    """
    problem = make_checked(name, parameters)
    is_own = type(problem) not in PROBLEMS.values()
    warmups = declared_sizes(type(problem), parameters) if is_own else smaller_problems(problem)
    if warmup_changes:
        warmups = [(warmup_changes, _smaller(problem, name, parameters, warmup_changes))]
    elif own_warmup and own_warmup not in [changes for changes, _ in warmups]:
        warmups.append((own_warmup, _smaller(problem, name, parameters, own_warmup)))
    answer = advise(
        problem,
        # The theory of best choice is about tables; the other problems have no finite one.
        features=features or ("one_hot" if name == "bcp" else problem.usual_features),
        policies={text: policy_named(problem, text) for text in policies},
        warmups=warmups,
        reference_for=reference_named(name, reference),
        budget=budget,
        seed=seed,
        on_progress=on_progress,
    )
    return {"problem": name} | answer


def reference_named(problem: str, reference: str | None) -> Callable[[Problem], PolicyFn] | None:
    """A reference by name for every size of a problem; nothing for its own, about which the theory knows more."""
    if reference in (None, reference_name(find(problem))):
        return None
    return lambda one: policy_named(one, reference)


def _smaller(problem: Problem, name: str, parameters: dict[str, Any], changes: dict[str, Any]) -> Problem:
    """The warm-up problem; for best choice with a series given number by number, its beginning."""
    if isinstance(problem, BCP) and set(changes) == {"n"}:
        n = arguments.integer("n", changes["n"], least=1, most=problem.horizon)
        return BCP(n, np.asarray(problem.record_probs[:n]))
    return make_checked(name, parameters | changes)
