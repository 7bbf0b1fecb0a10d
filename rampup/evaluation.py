"""Policies side by side on the same instances, set against the online optimum and against hindsight."""

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from rampup import arguments, intervals
from rampup.episodes import Episode, play
from rampup.exact import adw as exact_adw
from rampup.exact import bcp as exact_bcp
from rampup.exact import okd as exact_okd
from rampup.exact.finite import require_double_precision
from rampup.exact.grids import TooLargeError
from rampup.problems import name_of
from rampup.problems.adw import ADW
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.problems.okd import OKD
from rampup.references.hindsight import hindsight
from rampup.types import Key, PolicyFn, Real

OnProgress = Callable[[str, int, int], None]
"""Told what is being done, how much of it is done, and how much there is."""


class Outcomes(NamedTuple):
    """What a policy earned in each episode."""

    successes: Float[np.ndarray, " episode"]
    collected: Float[np.ndarray, " episode"]
    """The value or revenue collected until the target was reached or the arrivals ended."""


class Optimum(NamedTuple):
    """Bounds of the best any online player can do, and where they come from."""

    lower: float
    upper: float
    method: str


# Few enough that a batch of episodes stays in cache, enough that the loop costs nothing.
_BATCH = 4096
# Hindsight of this many instances bounds an optimum that no dynamic program reaches to about three per cent.
_INSTANCES_FOR_A_BOUND = 1000


def instance_keys(seed: int, count: int) -> Key:
    """The keys of the episodes of an evaluation: the first of a longer one are those of a shorter."""
    root = jax.random.key(arguments.integer("seed", seed, least=0, most=2**32 - 1))
    return jax.vmap(lambda index: jax.random.fold_in(root, index))(jnp.arange(count))


def outcomes(
    problem: Problem,
    policies: Mapping[str, PolicyFn],
    *,
    episodes: int,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> dict[str, Outcomes]:
    """Play every policy on the same instances, with the same random numbers for its choices."""
    arguments.integer("episodes", episodes, least=1)
    keys = instance_keys(seed, -(-episodes // _BATCH) * _BATCH).reshape(-1, _BATCH)
    results = {}
    for name, policy_fn in policies.items():
        parts = []
        for index, batch in enumerate(keys):
            parts.append(jax.device_get(_play_batch(problem, policy_fn, batch)))
            if on_progress is not None:
                on_progress(f"playing {name}", index + 1, len(keys))
        columns = zip(*parts, strict=True)
        results[name] = Outcomes(*(np.concatenate(column)[:episodes] for column in columns))
    return results


@eqx.filter_jit
def _play_batch(problem: Problem, policy_fn: PolicyFn, keys: Key) -> tuple[Array, Array]:
    def of_episode(key):
        episode = play(problem, policy_fn, key)
        return jnp.sum(episode.rewards), _collected(problem, episode)

    return jax.vmap(of_episode)(keys)


def _collected(problem: Problem, episode: Episode) -> Real:
    """What was gathered towards the target; where there is no target, the reward itself."""
    if isinstance(problem, OKD):
        return episode.final_state.value
    if isinstance(problem, ADW):
        return episode.final_state.revenue
    return jnp.sum(episode.rewards)


def online_optimum(
    problem: Problem, policies: Mapping[str, PolicyFn], on_progress: OnProgress | None = None
) -> Optimum | None:
    """Bound the best any online player can do, exactly or by dynamic programming; nothing where neither works.

    Args:
        policies: one of them may carry the bounds already.
    """
    if isinstance(problem, BCP):
        value = float(exact_bcp.optimum(problem.record_probs).value)
        return Optimum(value, value, "exact")

    def tell(lower: float, upper: float) -> None:
        if on_progress is not None:
            on_progress(f"optimum between {lower:.4f} and {upper:.4f}", 0, 0)

    try:
        if isinstance(problem, OKD):
            known = [policy for policy in policies.values() if isinstance(policy, exact_okd.GridPolicy)]
            best = known[0] if known else exact_okd.optimum(problem, on_bounds=tell)
            return Optimum(float(best.lower), float(best.upper), "dynamic_program")
        if isinstance(problem, ADW):
            return Optimum(*exact_adw.optimum(problem, on_bounds=tell), "dynamic_program")
    except TooLargeError:
        return None
    return None


def evaluate(
    problem: Problem,
    policies: Mapping[str, PolicyFn],
    *,
    episodes: int = 10_000,
    seed: int = 0,
    with_optimum: bool = False,
    hindsight_instances: int = 0,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Set policies side by side on the same instances and say how far each is from what is possible.

    Args:
        hindsight_instances: how many of the instances an all-seeing player is given; 0 for none.
    """
    require_double_precision()
    arguments.integer("episodes", episodes, least=2)
    arguments.integer("hindsight", hindsight_instances, least=0, most=episodes)
    if not policies:
        raise ValueError("`policies` must hold at least one policy.")
    best = online_optimum(problem, policies, on_progress) if with_optimum else None
    # Where no dynamic program reaches, the all-seeing player bounds the online ones.
    needs_bound = with_optimum and best is None
    num_seen = max(hindsight_instances, min(episodes, _INSTANCES_FOR_A_BOUND) if needs_bound else 0)
    seen = _hindsight_successes(problem, seed, num_seen, on_progress) if num_seen else None
    played = outcomes(problem, policies, episodes=episodes, seed=seed, on_progress=on_progress)
    if needs_bound and seen is not None:
        floor = max(_rate(one.successes)["interval"][0] for one in played.values())
        best = Optimum(floor, max(floor, _rate(seen)["interval"][1]), "hindsight")
    return {
        "problem": name_of(problem),
        "episodes": episodes,
        "seed": seed,
        "policies": [_entry(problem, name, policies[name], one, best, seen) for name, one in played.items()],
        "differences": [_difference(*pair) for pair in combinations(played.items(), 2)],
        "optimum": None if best is None else best._asdict(),
        "hindsight": None if seen is None else _rate(seen) | {"instances": num_seen},
    }


def hindsight_of(problem: Problem, instances: int, *, seed: int = 0) -> dict[str, Any] | None:
    """What an all-seeing player earns on average, with its interval, where the problem itself can tell."""
    if type(problem).in_hindsight is Problem.in_hindsight:
        return None
    return _rate(_hindsight_successes(problem, seed, instances, None)) | {"instances": instances}


def _hindsight_successes(problem: Problem, seed: int, count: int, on_progress: OnProgress | None) -> np.ndarray:
    """Where an all-seeing player succeeds, on the first instances of the evaluation."""

    def draw(key):
        # As `play` does: the instance comes from the first half of an episode's key.
        return problem.draw(jax.random.split(key)[0])

    instances = jax.jit(jax.vmap(draw))(instance_keys(seed, count))
    tell = None if on_progress is None else lambda done, total: on_progress("hindsight", done, total)
    return hindsight(problem, instances, on_progress=tell)


def _rate(rewards: np.ndarray) -> dict[str, Any]:
    is_rate = bool(np.all((rewards == 0) | (rewards == 1)))
    interval = intervals.of_rate(rewards) if is_rate else intervals.of_mean(rewards)
    return {"value": float(np.mean(rewards)), "interval": interval}


def _entry(
    problem: Problem,
    name: str,
    policy_fn: PolicyFn,
    played: Outcomes,
    best: Optimum | None,
    seen: np.ndarray | None,
) -> dict[str, Any]:
    """Everything about one policy, as plain numbers."""
    entry: dict[str, Any] = {"policy": name} | _rate(played.successes)
    if isinstance(problem, BCP):
        table = exact_bcp.tabulated(policy_fn, problem.horizon)
        entry["exact_value"] = float(exact_bcp.values(problem.record_probs, table).start)
    entry["collected"] = float(np.mean(played.collected))
    entry["collected_interval"] = intervals.of_mean(played.collected)
    if best is not None:
        low, high = [entry["exact_value"]] * 2 if "exact_value" in entry else entry["interval"]
        entry["gap_to_optimum"] = [max(0.0, best.lower - high), max(0.0, best.upper - low)]
    if seen is not None:
        own = played.successes[: len(seen)]
        entry["gap_to_hindsight"] = float(np.mean(seen - own))
        entry["gap_to_hindsight_interval"] = intervals.of_mean(seen - own)
        # Of nothing there is no part.
        has_ratio = bool(np.any(seen))
        entry["competitive_ratio"] = float(np.mean(own) / np.mean(seen)) if has_ratio else None
        entry["competitive_ratio_interval"] = _ratio_interval(own, seen) if has_ratio else None
    return entry


def _ratio_interval(own: np.ndarray, seen: np.ndarray) -> list[float]:
    if not np.any(own):
        # Without a single success there is no spread to go by: nobody knows but how rare success may be.
        return [0.0, intervals.of_rate(own)[1] / float(np.mean(seen))]
    low, high = intervals.of_ratio(own, seen)
    return [max(0.0, low), high]


def _difference(one: tuple[str, Outcomes], other: tuple[str, Outcomes]) -> dict[str, Any]:
    """How much more often one policy succeeds than another on the same instances."""
    paired = one[1].successes - other[1].successes
    return {
        "policy": one[0],
        "minus": other[0],
        "difference": float(np.mean(paired)),
        "interval": intervals.of_mean(paired),
    }
