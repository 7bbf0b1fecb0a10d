"""A learned policy put in words: the rule it comes to, what that rule earns, and how nearly it is the policy."""

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from rampup import arguments, intervals
from rampup.episodes import play
from rampup.evaluation import instance_keys, outcomes
from rampup.exact import bcp
from rampup.problems import name_of
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.problems.okd import OKD
from rampup.references.named import rules_of
from rampup.references.rules import BangPerBuck, surely
from rampup.types import Key, LogProbs, Observation, PolicyFn

# Enough visited states to tell two rules apart to a part in a thousand.
_EPISODES_SEEN = 1000
# A ratio for each quarter of the time says how patience fades, in a sentence that can still be remembered.
_QUARTERS = 4


class Rounded(eqx.Module):
    """What a policy finds most probable, for sure."""

    policy_fn: PolicyFn

    def __call__(self, observation: Observation) -> LogProbs:
        log_probs = self.policy_fn(observation)
        return surely(jnp.argmax(log_probs), len(log_probs))


class RatioByQuarter(eqx.Module):
    """Online knapsack: bang per buck with a ratio of its own for each quarter of the arrivals."""

    ratios: Float[Array, " quarter"]

    def __call__(self, observation: Observation) -> LogProbs:
        return BangPerBuck(self.ratios[_quarter(observation[0])])(observation)


def _quarter(fraction: Float[Array, "..."]) -> Int[Array, "..."]:
    return jnp.clip(jnp.ceil(fraction * _QUARTERS).astype(int) - 1, 0, _QUARTERS - 1)


def explain(problem: Problem, policy_fn: PolicyFn, *, episodes: int = 10_000, seed: int = 0) -> dict[str, Any]:
    """The rule that a policy comes to, in words, with what the policy, its rounding and the rule are worth.

    `agreement` is how often rule and rounded policy do the same where the latter goes; what cannot be done counts as
    not done. Values are exact for best choice, else means over the same instances with their intervals.
    """
    arguments.integer("episodes", episodes, least=2)
    if isinstance(problem, BCP):
        return {"problem": name_of(problem)} | _best_choice(problem, policy_fn)
    candidates: dict[str, PolicyFn] = {name: make(problem) for name, make in _plain_rules(problem).items()}
    keys = instance_keys(seed, _EPISODES_SEEN)
    if isinstance(problem, OKD):
        candidates["ratios"] = _fitted_ratios(problem, policy_fn, keys)
    agreements = {name: float(_agreement(problem, policy_fn, one, keys)) for name, one in candidates.items()}
    best = max(agreements, key=lambda name: agreements[name])
    chosen = {"learned": policy_fn, "rounded": Rounded(policy_fn), "rule": candidates[best]}
    played = outcomes(problem, chosen, episodes=episodes, seed=seed)
    values = {name: _mean(one.successes) for name, one in played.items()}
    return {
        "problem": name_of(problem),
        "words": _words(best, candidates[best]),
        "agreement": agreements[best],
        "agreements": agreements,
        **values,
        "optimum": None,
    }


def _mean(earned: np.ndarray) -> dict[str, Any]:
    return {"value": float(np.mean(earned)), "interval": intervals.of_mean(earned)}


def _plain_rules(problem: Problem) -> Mapping[str, Any]:
    """The rules that need no number and no search of their own."""
    skipped = "naive", "bang_per_buck_success", "dynamic_program", "threshold"
    return {name: make for name, make in rules_of(type(problem)).items() if name not in skipped}


@eqx.filter_jit
def _agreement(problem: Problem, policy_fn: PolicyFn, rule_fn: PolicyFn, keys: Key) -> Array:
    """How often two policies lead to the same, where the first one goes."""

    def of_episode(key: Key) -> tuple[Array, Array]:
        instance = problem.draw(jax.random.split(key)[0])

        def decide(carry: tuple[Any, Array], _: None):
            state, is_alive = carry
            observation = problem.observe(instance, state)
            both = (jnp.argmax(one(observation)) for one in (policy_fn, rule_fn))
            first, other = (problem.step(instance, state, action) for action in both)
            same = jnp.all(
                jnp.stack([jnp.all(a == b) for a, b in zip(*map(jax.tree.leaves, (first, other)), strict=True)])
            )
            return (first[0], is_alive & first[2]), (is_alive & same, is_alive)

        seen = jax.lax.scan(decide, (problem.init(instance), jnp.asarray(True)), None, length=problem.horizon)[1]
        return jnp.sum(seen[0]), jnp.sum(seen[1])

    same, all_of_them = jax.vmap(of_episode)(keys)
    return jnp.sum(same) / jnp.sum(all_of_them)


def _are_equal(first: Any, other: Any) -> Array:
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(other), strict=True)
    return jnp.all(jnp.stack([jnp.all(one == two) for one, two in pairs]))


def _fitted_ratios(problem: OKD, policy_fn: PolicyFn, keys: Key) -> RatioByQuarter:
    """For each quarter, the ratio from which on taking agrees most with what the policy takes of what fits."""
    quarter, ratio, fits, takes = (np.asarray(part) for part in _items_met(problem, policy_fn, keys))
    own = [fits & (quarter == one) for one in range(_QUARTERS)]
    return RatioByQuarter(jnp.asarray([_best_cut(ratio[one], takes[one]) for one in own]))


@eqx.filter_jit
def _items_met(problem: OKD, policy_fn: PolicyFn, keys: Key) -> tuple[Array, ...]:
    """Of every item that the policy meets: when, its value per size, whether it fits, and whether it is taken."""

    def of_episode(key: Key) -> tuple[Array, ...]:
        episode = play(problem, Rounded(policy_fn), key)
        fraction, size, value, used, _ = episode.observations.T
        fits = episode.is_alive & (used * problem.budget + size <= problem.budget)
        return _quarter(fraction), value / jnp.maximum(size, jnp.finfo(float).tiny), fits, episode.actions == 1

    return jax.vmap(of_episode)(keys)


def _best_cut(ratios: np.ndarray, takes: np.ndarray) -> float:
    """The number from which on `takes` is true most often, and below it false."""
    if len(ratios) == 0:
        return 0.0
    order = np.argsort(ratios)
    ratios, takes = ratios[order], takes[order]
    # Of cutting before place i: what was left below, and what was taken from there on.
    right = np.concatenate([[0], np.cumsum(~takes)]) + np.concatenate([np.cumsum(takes[::-1])[::-1], [0]])
    place = int(np.argmax(right))
    if place == 0:
        return 0.0
    if place == len(ratios):
        return float(ratios[-1] * 2)
    return float((ratios[place - 1] + ratios[place]) / 2)


def _words(name: str, rule_fn: PolicyFn) -> str:
    if not isinstance(rule_fn, RatioByQuarter):
        return f"do as {name} does"
    numbers = [f"{float(ratio):.2f}" for ratio in rule_fn.ratios]
    return (
        f"take what fits and is worth at least {numbers[0]} times its size in the first quarter of the arrivals, "
        f"{numbers[1]} in the second, {numbers[2]} in the third, {numbers[3]} in the last"
    )


def _best_choice(problem: BCP, policy_fn: PolicyFn) -> dict[str, Any]:
    """Best choice: the rounded policy is a rule already, and everything about it is exact."""
    n, probs = problem.horizon, problem.record_probs
    learned, best = bcp.tabulated(policy_fn, n), bcp.optimum(probs)
    rounded = bcp.tabulated(Rounded(policy_fn), n)
    accepts = np.isfinite(np.asarray(rounded.log_accept))
    value, soft = _exactly(probs, rounded), _exactly(probs, learned)
    return {
        "words": _stopping_words(accepts[:, 1], accepts[:, 0], np.asarray(probs)),
        "agreement": 1.0,
        "agreements": {},
        "learned": soft,
        "rounded": value,
        "rule": value,
        "optimum": {"value": float(best.value), "threshold": int(best.threshold)},
    }


def _exactly(probs: Array, table: bcp.BCPPolicy) -> dict[str, Any]:
    value = float(bcp.values(probs, table).start)
    return {"value": value, "interval": [value, value]}


def _stopping_words(at_record: np.ndarray, at_others: np.ndarray, probs: np.ndarray) -> str:
    """A rule of best choice; what cannot happen, or comes after a sure end, is not spoken of."""
    n = len(probs)
    takes_record, takes_other = at_record & (probs > 0), at_others & (probs < 1)
    is_end = (takes_record | (probs == 0)) & (takes_other | (probs == 1))
    last = int(np.argmax(is_end)) + 1 if is_end.any() else n
    takes_record, takes_other = takes_record[:last], takes_other[:last]
    if not takes_record.any() and not takes_other.any():
        return f"reject all {n}"
    if last == 1:
        return f"take the first of {n}"
    waits = int(np.argmax(takes_record)) if takes_record.any() else last
    if not takes_other[: last - 1].any() and np.all((takes_record | (probs[:last] == 0))[waits:]):
        ending = f", or the {_ordinal(last)} whatever it is" if takes_other[last - 1] and probs[last - 1] < 1 else ""
        return f"reject the first {waits} of {n}, then take the first record{ending}"
    parts = [f"a record at {_runs(takes_record, n)}"] if takes_record.any() else []
    parts += [f"whatever comes at {_runs(takes_other, n)}"] if takes_other.any() else []
    return f"of {n} arrivals take {' and '.join(parts)}"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _runs(is_in: Sequence[bool] | np.ndarray, n: int) -> str:
    """Places counted from 1, as in 3, 7 to 9 and 20 on."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(is_in, int), [0]])))
    spans = [(int(begin) + 1, int(end)) for begin, end in edges.reshape(-1, 2)]
    texts = [f"{a}" if a == b else f"{a} to {b}" for a, b in spans]
    if spans[-1][1] == n and spans[-1][0] < n:
        texts[-1] = f"{spans[-1][0]} and later"
    return ", ".join(texts)
