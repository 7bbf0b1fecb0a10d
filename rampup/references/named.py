"""Policies by name: the rules of each problem, and learned policies from files."""

import math
import os
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from rampup import arguments, theory
from rampup.exact import bcp as exact_bcp
from rampup.exact import choice as exact_choice
from rampup.exact import okd as exact_okd
from rampup.problems import PROBLEMS, name_of
from rampup.problems.adw import ADW
from rampup.problems.adw_value import ADWValue
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.problems.choice import Choice
from rampup.problems.knapsack import Knapsack
from rampup.problems.okd import OKD
from rampup.problems.okd_value import OKDValue
from rampup.references import rules
from rampup.runs.policy_file import read_policy
from rampup.types import PolicyFn


def optimal(problem: BCP) -> PolicyFn:
    """Let pass as many as the dynamic program says, then take the first record."""
    return rules.Threshold(problem.horizon, exact_bcp.optimum(problem.record_probs).threshold)


def odds(problem: BCP) -> PolicyFn:
    """The same by the sum of odds."""
    return rules.Threshold(problem.horizon, jnp.asarray(theory.odds_threshold(np.asarray(problem.record_probs))))


def threshold(problem: BCP, given: str) -> PolicyFn:
    """Let a given number of arrivals pass (a whole number), or a given part of them (a number with a point, or a/b)."""
    if given.isdecimal():
        count = arguments.integer("threshold", int(given), least=0, most=problem.horizon)
    else:
        count = theory.threshold_count(problem.horizon, given)
    return rules.Threshold(problem.horizon, jnp.asarray(count))


def classical(problem: Choice) -> PolicyFn:
    """Ranks: let n/e pass, then take what is among the best k so far and may pay. Values: take what k of n exceed."""
    if problem.payoffs is None:
        part_below = jnp.asarray(1 - problem.num_picks / problem.horizon)
        return rules.AtLeast(problem.value_distribution.quantile(part_below))
    num_ranks = min(problem.num_picks, problem.num_paying())
    return rules.AmongTheBest(problem.horizon, jnp.asarray(int(problem.horizon / math.e)), jnp.asarray(num_ranks))


def bang_per_buck(problem: Knapsack, given: str = "") -> PolicyFn:
    """Accept from the ratio of value to size that collects most value; or from a given ratio."""
    if not given:
        return rules.BangPerBuck(jnp.asarray(rules.best_ratio(problem, "value")))
    # A ratio is given in the user's units.
    return rules.BangPerBuck(jnp.asarray(_number("bang_per_buck", given) * problem.size_unit / problem.value_unit))


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    return arguments.real(f"{name}:RATIO", number, rule=f"a number of at least 0, not {text!r}", low=0.0)


def bang_per_buck_success(problem: OKD) -> PolicyFn:
    """Accept from the ratio that succeeds most often."""
    return rules.BangPerBuck(jnp.asarray(rules.best_ratio(problem, "success")))


def _slot_rule(score_fn: Callable) -> Callable[[Any], PolicyFn]:
    return lambda problem: rules.SlotRule(problem.num_actions - 1, score_fn, problem.other_budgets)


_SLOT_RULES: dict[str, Callable[..., PolicyFn]] = {
    "greedy": _slot_rule(rules.highest_bid),
    "best_fit": _slot_rule(rules.tightest_fit),
    "msvv": _slot_rule(rules.discounted_bid),
    "balance": _slot_rule(rules.largest_budget),
}


def naive(problem: Problem) -> PolicyFn:
    """Every action with the same probability."""
    return rules.Naive(problem.num_actions)


POLICIES: dict[type[Problem], dict[str, Callable[..., PolicyFn]]] = {
    BCP: {"optimal": optimal, "odds": odds, "threshold": threshold},
    OKD: {
        "bang_per_buck": bang_per_buck,
        "bang_per_buck_success": bang_per_buck_success,
        "greedy": lambda problem: rules.TakeWhatFits(problem.budget),
        "accept_everything": lambda problem: rules.AcceptEverything(),
        "dynamic_program": exact_okd.optimum,
    },
    ADW: _SLOT_RULES,
    Choice: {
        "optimal": exact_choice.planned,
        "classical": classical,
        "accept_everything": lambda problem: rules.AcceptEverything(),
    },
    OKDValue: {
        "bang_per_buck": bang_per_buck,
        "greedy": lambda problem: rules.TakeWhatFits(problem.budget),
        "accept_everything": lambda problem: rules.AcceptEverything(),
    },
    ADWValue: _SLOT_RULES,
}
"""By problem and name, the first being what learned policies are measured against; `threshold:37` and
`bang_per_buck:1.5` carry a number after the colon."""

_TAKES_A_NUMBER = ("threshold", "bang_per_buck")


def rules_of(kind: type[Problem]) -> dict[str, Callable[..., PolicyFn]]:
    """The rules of a kind of problem by name, its reference first."""
    return {**POLICIES.get(kind, kind.rules), "naive": naive}


def policy_named(problem: Problem, text: str) -> PolicyFn:
    """Turn the name of a rule, or the path of a policy file, into a policy for a problem."""
    if text.endswith(".json") or os.path.isfile(text):
        return read_policy(text, problem)
    known, (name, colon, given) = rules_of(type(problem)), text.partition(":")
    _refuse_a_stranger(problem, name)
    factory: Any = known[arguments.known_name(f"policy of {name_of(problem)}", name, known)]
    if colon and name not in _TAKES_A_NUMBER:
        raise ValueError(f"the policy {name!r} takes nothing after its name, got {text!r}.")
    if not given and (colon or name == "threshold"):
        example = "'threshold:37' or 'threshold:0.37'" if name == "threshold" else "'bang_per_buck:1.5'"
        raise ValueError(f"the policy {name!r} needs a number, as in {example}.")
    return factory(problem, given) if given else factory(problem)


def _refuse_a_stranger(problem: Problem, name: str) -> None:
    owners = [other for other, kind in PROBLEMS.items() if name in rules_of(kind)]
    known = rules_of(type(problem))
    if owners and name not in known:
        raise ValueError(
            f"{name!r} is a policy of {_listed(owners)}, not of {name_of(problem)}, whose own are {', '.join(known)}."
        )


def _listed(names: list[str]) -> str:
    """Names as a sentence has them: a, b and c."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def reference_name(kind: type[Problem]) -> str:
    """What learned policies of a problem are measured against: optimal where it is known, else a classical rule."""
    return next(iter(rules_of(kind)))


def default_reference(problem: Problem) -> PolicyFn:
    """Return the reference policy of a problem."""
    return policy_named(problem, reference_name(type(problem)))
