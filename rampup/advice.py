"""Does a curriculum pay? Kappa of every candidate sampler, predicted before any training on the problem itself.

Learning needs episodes in proportion to kappa (Theorem 1), so a plan costs about H kappa samples: from scratch, with
kappa of the naive sampler, which is where every learner begins; by a warm-up, that of the small problem from scratch,
plus that of the large one under the policy the small one teaches. The cheapest plan is the advice.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rampup import arguments, intervals, theory
from rampup.exact import bcp as exact_bcp
from rampup.exact import choice as exact_choice
from rampup.exact import okd as exact_okd
from rampup.exact.finite import require_double_precision
from rampup.features import Features, as_features
from rampup.learn.curriculum import Stage
from rampup.learn.inspection import Effort, sampled_kappa
from rampup.learn.trainer import Run, Settings, train
from rampup.policy import LogLinear
from rampup.problems.adw import ADW
from rampup.problems.adw_value import ADWValue
from rampup.problems.auction import Auction
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.problems.choice import Choice
from rampup.problems.knapsack import Knapsack
from rampup.problems.okd import OKD
from rampup.problems.okd_value import OKDValue
from rampup.problems.sizes import part_of
from rampup.references import default_reference
from rampup.references.rules import Naive
from rampup.types import Key, PolicyFn, Real


@dataclass(frozen=True)
class Candidate:
    """A sampler for the problem, and what is predicted of it."""

    sampler: str
    """naive, size:10 and the like, or the name of a given policy."""
    ln_kappa: float
    ln_kappa_interval: list[float]
    """A single point where kappa is exact."""
    ln_samples: float
    """ln of the samples the whole plan needs, up to a constant that is the same for all."""
    warmup: dict[str, float] | None = None
    """The parameters in which the small problem differs, where the sampler is the policy that it teaches."""
    ln_kappa_warmup: float | None = None
    """Of naive sampling in the small problem: how hard the warm-up is itself."""


OnProgress = Callable[[str, int, int], None]

# The paper spends 10^4 iterations of 10^4 episodes on a phase; a plan that asks for ten times that is hopeless.
BUDGET = 1e9
# A warm-up is trouble of its own: it must save at least this factor.
_WORTHWHILE = 2.0
# The paper's policy for best choice has 10 coefficients in i/n for each flag: fewer arrivals do not pin it down. Nor do
# a handful of items teach how to fill a bag, or a handful of slots how to spend budgets.
_LEAST_ARRIVALS = 10
_LEAST_SLOTS = 6
# Half the usual redrawing: the factorisations are what takes the time.
_EFFORT = Effort(replicates=8)
# How small the small problems are, where their size is more than one number.
_FRACTIONS = (0.1, 0.2, 0.3, 0.5)


def advise(
    problem: Problem,
    *,
    features: str = "one_hot",
    policies: Mapping[str, PolicyFn] | None = None,
    warmups: Sequence[tuple[dict[str, float], Problem]] | None = None,
    reference_for: Callable[[Problem], PolicyFn] | None = None,
    budget: float = BUDGET,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Predict kappa of candidate samplers and say whether a curriculum pays, with which warm-up, and why.

    Args:
        features: in whose span kappa is taken; one_hot, the paper's theory, is for best choice only.
        policies: further samplers, by name.
        warmups: small problems to try, each with the parameters in which it differs; by default several sizes.
        reference_for: gives the policy that kappa is taken against in a problem; by default the problem's own.
        budget: samples beyond which a plan is hopeless.
    """
    require_double_precision()
    arguments.positive("budget", budget)
    arguments.integer("seed", seed, least=0, most=2**32 - 1)
    given = policies or {}
    tell = on_progress or (lambda *_: None)
    small = list(warmups) if warmups is not None else smaller_problems(problem)
    if isinstance(problem, BCP):
        candidates = _exact_candidates(problem, features, given, small, reference_for)
    else:
        references = reference_for or default_reference
        candidates = _sampled_candidates(problem, as_features(features, problem), given, small, references, seed, tell)
    return _verdict(problem, candidates, math.log(budget)) | {"features": features, "budget": budget}


def smaller_problems(problem: Problem) -> list[tuple[dict[str, float], Problem]]:
    """One of our problems in smaller sizes, with the parameters in which each differs."""
    if isinstance(problem, BCP):
        return [({"n": n}, BCP(n, np.asarray(problem.record_probs[:n]))) for n in _smaller_counts(problem.horizon)]
    if isinstance(problem, Knapsack):
        fractions = [one for one in _FRACTIONS if round(problem.horizon * one) >= _LEAST_ARRIVALS]
        return [_smaller_knapsack(problem, fraction) for fraction in fractions]
    if isinstance(problem, Choice):
        return [_smaller_choice(problem, n) for n in _smaller_choice_counts(problem)]
    if isinstance(problem, Auction):
        small = [_smaller_auction(problem, fraction) for fraction in _FRACTIONS]
        return [(changes, one) for changes, one in small if _LEAST_SLOTS <= one.horizon < problem.horizon]
    return []


def declared_sizes(kind: type[Problem], parameters: Mapping[str, Any]) -> list[tuple[dict[str, float], Problem]]:
    """A problem in the smaller sizes that its class declares, with the parameters in which each differs."""
    found = [part_of(kind, parameters, fraction) for fraction in _FRACTIONS]
    distinct = [one for place, one in enumerate(found) if one not in found[:place]]
    small = [(changes, kind(**(dict(parameters) | changes))) for changes in distinct if changes]
    largest = kind(**parameters).horizon
    return [(changes, one) for changes, one in small if _LEAST_SLOTS <= one.horizon < largest]


def _smaller_counts(n: int) -> list[int]:
    """A dozen sizes from the least that pins the policy down to one below n, evenly spaced in their logarithm."""
    if n <= _LEAST_ARRIVALS:
        return []
    return sorted({round(size) for size in np.geomspace(_LEAST_ARRIVALS, n - 1, 12)})


def _smaller_choice_counts(problem: Choice) -> list[int]:
    """Sizes at which as many are chosen: the best policy changes with that number, and hardly with the arrivals'."""
    num_ranks = 0 if problem.payoffs is None else problem.num_paying()
    least = max(_LEAST_ARRIVALS, 2 * problem.num_picks, num_ranks)
    return [n for n in (round(problem.horizon * fraction) for fraction in _FRACTIONS) if n >= least]


def _smaller_choice(problem: Choice, n: int) -> tuple[dict[str, float], Choice]:
    if problem.payoffs is None:
        return {"n": n}, Choice(n, problem.num_picks, "value", problem.value_distribution)
    return {"n": n}, Choice(n, problem.num_picks, np.asarray(problem.payoffs)[:n])


def _smaller_knapsack(problem: Knapsack, fraction: float) -> tuple[dict[str, float], Problem]:
    n = round(problem.horizon * fraction)
    part = n / problem.horizon
    units = problem.size_unit, problem.value_unit
    changes: dict[str, float] = {"n": n, "B": _scaled(problem.budget, part * units[0])}
    drawn: dict[str, Any] = {"data": problem.rows}
    if problem.rows is None:
        drawn = {"sizes": problem.size_distribution, "values": problem.value_distribution}
    if isinstance(problem, OKD):
        changes["V"] = _scaled(problem.target, part * units[1])
        return changes, OKD(n, changes["B"], changes["V"], **drawn)
    return changes, OKDValue(n, changes["B"], **drawn)


def _smaller_auction(problem: Auction, fraction: float) -> tuple[dict[str, float], Problem]:
    """Fewer advertisers and slots in proportion; the first few of them, where they differ."""
    advertisers = max(1, round((problem.num_actions - 1) * fraction))
    part, unit = advertisers / (problem.num_actions - 1), problem.bid_unit
    slots = max(1, round(problem.horizon * part))
    budgets, one = problem.budgets() * unit, problem.bid_distributions
    drawn: dict[str, Any] = {"data": problem.rows, "budgets": budgets[:advertisers]}
    if problem.rows is None:
        drawn |= {"bids": list(one[:advertisers]) if isinstance(one, tuple) else one}
    changes: dict[str, float] = {"n": advertisers, "m": slots}
    if isinstance(problem, ADW):
        changes["V"] = _scaled(problem.target, float(unit * budgets[:advertisers].sum() / budgets.sum()))
        return changes, ADW(advertisers, slots, changes["V"], **drawn)
    return changes, ADWValue(advertisers, slots, **drawn)


def _scaled(number: jax.Array, part: float) -> float:
    """A part of a number, without the last digits that only rounding put there."""
    return float(f"{float(number) * part:.12g}")


def _label(changes: Mapping[str, float]) -> str:
    """A name for a small problem: size:10 where one number says it, else size:10,1,2.5."""
    return "size:" + ",".join(
        f"{value:g}" if isinstance(value, int | float) else str(value) for value in changes.values()
    )


def _ln_samples(horizon: int, ln_kappa: float, small: Problem | None = None, ln_kappa_warmup: float = 0.0) -> float:
    """ln(H kappa), and the same for the warm-up added where there is one."""
    final = math.log(horizon) + ln_kappa
    return final if small is None else float(np.logaddexp(final, math.log(small.horizon) + ln_kappa_warmup))


def _exact_candidates(
    problem: BCP,
    features: str,
    policies: Mapping[str, PolicyFn],
    small: Sequence[tuple[dict[str, float], Problem]],
    reference_for: Callable[[Problem], PolicyFn] | None,
) -> list[Candidate]:
    """Best choice: the grafted sampler against the optimal policy, or another, at theta = 0, by exact recursion."""
    n = problem.horizon
    series = [(changes, one, np.asarray(one.record_probs)) for changes, one in small if isinstance(one, BCP)]
    tables = [exact_bcp.naive_policy(n)]
    tables += [
        exact_bcp.threshold_policy(n, theory.odds_threshold(probs) * n // one.horizon) for _, one, probs in series
    ]
    tables += [exact_bcp.tabulated(policy_fn, n) for policy_fn in policies.values()]
    ln_kappas = _exact_ln_kappas(problem, features, tables, reference_for)
    candidates = [_exact("naive", ln_kappas[0], n)]
    for (changes, one, probs), ln_kappa in zip(series, ln_kappas[1:], strict=False):
        own = _warmup_ln_kappa(one, probs, features, reference_for)
        candidates.append(
            Candidate(_label(changes), ln_kappa, [ln_kappa] * 2, _ln_samples(n, ln_kappa, one, own), changes, own)
        )
    rest = ln_kappas[1 + len(series) :]
    return candidates + [_exact(name, ln_kappa, n) for name, ln_kappa in zip(policies, rest, strict=True)]


def _exact(sampler: str, ln_kappa: float, horizon: int) -> Candidate:
    return Candidate(sampler, ln_kappa, [ln_kappa] * 2, _ln_samples(horizon, ln_kappa))


def _warmup_ln_kappa(
    small: BCP, probs: np.ndarray, features: str, reference_for: Callable[[Problem], PolicyFn] | None
) -> float:
    """ln kappa of naive sampling in a small problem; in closed form where the reference is optimal (Theorem 2)."""
    if reference_for is None:
        return theory.ln_k_naive(probs, theory.odds_threshold(probs))
    return _exact_ln_kappas(small, features, [exact_bcp.naive_policy(small.horizon)], reference_for)[0]


def _exact_ln_kappas(
    problem: BCP,
    features: str,
    samplers: Sequence[exact_bcp.BCPPolicy],
    reference_for: Callable[[Problem], PolicyFn] | None,
) -> list[float]:
    """ln kappa of samplers against the reference, or against the optimal policy where there is none."""
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *samplers)
    wanted = None if reference_for is None else exact_bcp.tabulated(reference_for(problem), problem.horizon)
    found = _exact_conditions(problem, as_features(features, problem), stacked, wanted)
    # Rounding may leave the logarithm of 1 just below zero.
    return np.maximum(np.asarray(found), 0.0).tolist()


@jax.jit
def _exact_conditions(
    problem: BCP, features: Features, samplers: exact_bcp.BCPPolicy, wanted: exact_bcp.BCPPolicy | None
) -> jax.Array:
    probs = problem.record_probs
    at_zero = exact_bcp.naive_policy(problem.horizon)
    target = exact_bcp.on_policy(probs, exact_bcp.optimum(probs).policy if wanted is None else wanted)

    def of_sampler(sampler):
        return exact_bcp.relative_condition(features, at_zero, target, exact_bcp.grafted(probs, sampler)).ln

    return jax.lax.map(of_sampler, samplers)


def _sampled_candidates(
    problem: Problem,
    features: Features,
    policies: Mapping[str, PolicyFn],
    small: Sequence[tuple[dict[str, float], Problem]],
    reference_for: Callable[[Problem], PolicyFn],
    seed: int,
    tell: OnProgress,
) -> list[Candidate]:
    """Any other problem: the same by playing episodes, the reference policy in place of the optimal one."""
    key = jax.random.key(seed)
    reference_fn, naive = reference_for(problem), Naive(problem.num_actions)
    total = 1 + len(small) + len(policies)
    tell("naive", 0, total)
    candidates = [_sampled("naive", problem, features, key, reference_fn, naive)]
    for changes, one in small:
        tell(_label(changes), len(candidates), total)
        taught = _taught_by(one, problem, features, seed)
        own = _sampled("naive", one, features, key, reference_for(one), Naive(one.num_actions)).ln_kappa
        found = _sampled(_label(changes), problem, features, key, reference_fn, taught)
        samples = _ln_samples(problem.horizon, found.ln_kappa, one, own)
        candidates.append(Candidate(found.sampler, found.ln_kappa, found.ln_kappa_interval, samples, changes, own))
    for name, policy_fn in policies.items():
        tell(name, len(candidates), total)
        candidates.append(_sampled(name, problem, features, key, reference_fn, policy_fn))
    return candidates


def _sampled(
    sampler: str, problem: Problem, features: Features, key: Key, reference_fn: PolicyFn, sampler_fn: PolicyFn
) -> Candidate:
    found, spread = jax.device_get(_sampled_ln_kappa(problem, features, key, reference_fn, sampler_fn))
    ln_kappa = float(found)
    return Candidate(
        sampler, ln_kappa, intervals.normal(ln_kappa, float(spread)), _ln_samples(problem.horizon, ln_kappa)
    )


@eqx.filter_jit
def _sampled_ln_kappa(
    problem: Problem, features: Features, key: Key, reference_fn: PolicyFn, sampler_fn: PolicyFn
) -> tuple[Real, Real]:
    condition, spread = sampled_kappa(
        problem,
        features,
        jnp.zeros(features.size),
        key,
        reference_fn=reference_fn,
        roll_in_fn=sampler_fn,
        branch_fn=Naive(problem.num_actions),
        effort=_EFFORT,
    )
    return condition.ln, spread


def _taught_by(small: Problem, problem: Problem, features: Features, seed: int) -> PolicyFn:
    """The policy a warm-up ends with: near optimal where that can be computed, else learned, which is cheap."""
    if isinstance(small, OKD) and small.rows is None:
        # A few hundredths of success make no difference to where the policy goes.
        return exact_okd.optimum(small, tolerance=0.03)
    if isinstance(small, Choice):
        return exact_choice.planned(small)
    settings = Settings(
        learning_rate=small.usual_learning_rate, record_every=150, effort=Effort(episodes=256, groups=2, replicates=2)
    )
    learned = train([Run("warmup", (Stage(small, 150),), seed)], features, settings)[0]
    return LogLinear(problem, features, jnp.asarray(learned.theta))


def _verdict(problem: Problem, candidates: list[Candidate], ln_budget: float) -> dict[str, Any]:
    """The cheapest plan, and the numbers that make it so."""
    naive = candidates[0]
    curricula = [one for one in candidates if one.warmup is not None]
    best = min(curricula, key=lambda one: one.ln_samples, default=None)
    pays = (
        best is not None
        and best.ln_samples <= ln_budget
        and best.ln_samples <= naive.ln_samples - math.log(_WORTHWHILE)
    )
    if best is not None and pays:
        recommend, why = "curriculum", _why_curriculum(best, naive)
    elif naive.ln_samples <= ln_budget:
        recommend, why = "direct", _why_direct(best, naive)
    else:
        recommend, why = "naive", _why_naive(best, naive, ln_budget)
    failure = None if pays or not isinstance(problem, BCP) else _failure(problem)
    return {
        "recommend": recommend,
        "warmup": best.warmup if best is not None and pays else None,
        "candidates": [asdict(one) for one in candidates],
        "failure": failure,
        "why": why if failure is None else f"{why} {_FAILURES[failure]}",
    }


def _why_curriculum(best: Candidate, naive: Candidate) -> str:
    return (
        f"The policy of {best.sampler} has ln kappa {best.ln_kappa:z.2f} on the large problem where naive sampling has "
        f"{naive.ln_kappa:z.2f}, and the small problem itself has {best.ln_kappa_warmup:z.2f}: about "
        f"e^{naive.ln_samples - best.ln_samples:.1f} times fewer samples in all."
    )


def _why_direct(best: Candidate | None, naive: Candidate) -> str:
    begin = f"From scratch ln kappa is {naive.ln_kappa:z.2f}, which is within reach"
    if best is None:
        return f"{begin}, and there is no smaller size to warm up on."
    return f"{begin}, and the best warm-up ({best.sampler}, ln kappa {_text(best.ln_kappa)}) saves less than it costs."


def _why_naive(best: Candidate | None, naive: Candidate, ln_budget: float) -> str:
    found = "there is none" if best is None else f"the best, {best.sampler}, needs e^{_text(best.ln_samples)}"
    return (
        f"No curriculum will work within e^{ln_budget:.1f} samples: {found}; from scratch it takes e^"
        f"{naive.ln_samples:.1f}, beyond reach too, but naive sampling keeps kappa finite at e^{naive.ln_kappa:.1f}."
    )


def _text(number: float) -> str:
    return "infinite" if math.isinf(number) else f"{number:z.2f}"


_FAILURES = {
    "all_ones": "Every arrival is a record (all P_i = 1), so only the last one wins: a policy learned on fewer "
    "arrivals stops before it, and never sees the end (section 5.2, failure mode).",
    "adversarial": "P_n is above 1/2, so the optimal policy waits for the very last arrival, and the P_j before it are "
    "so large that a policy learned on fewer arrivals stops first (section 5.2, failure mode).",
}


def _failure(problem: BCP) -> str | None:
    """Which failure mode of section 5.2 the series is in, if any."""
    probs = np.asarray(problem.record_probs)
    if np.all(probs == 1):
        return "all_ones"
    return "adversarial" if probs[-1] > 0.5 and problem.horizon > 1 else None
