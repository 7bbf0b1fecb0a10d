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
from rampup.exact.known import optimal_value
from rampup.problems import name_of
from rampup.problems.adw import ADW
from rampup.problems.adw_value import ADWValue
from rampup.problems.auction import Auction
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.problems.choice import Choice
from rampup.problems.knapsack import Knapsack
from rampup.problems.okd import OKD
from rampup.problems.okd_value import OKDValue
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
        successes, collected = (np.concatenate(column)[:episodes] for column in zip(*parts, strict=True))
        results[name] = Outcomes(successes, collected * collected_unit(problem))
    return results


@eqx.filter_jit
def _play_batch(problem: Problem, policy_fn: PolicyFn, keys: Key) -> tuple[Array, Array]:
    def of_episode(key):
        episode = play(problem, policy_fn, key)
        return earned(problem, episode)

    return jax.vmap(of_episode)(keys)


def earned(problem: Problem, episode: Episode) -> tuple[Real, Real]:
    """The reward, and what was gathered towards the target, or in all where there is none; else the reward itself."""
    reward = jnp.sum(episode.rewards)
    if isinstance(problem, OKD):
        return reward, episode.final_state.value
    if isinstance(problem, ADW):
        return reward, episode.final_state.revenue
    if isinstance(problem, Choice | OKDValue | ADWValue):
        return reward, problem.scale * reward
    return reward, reward


def collected_unit(problem: Problem) -> float:
    """What 1 of what is collected is in the user's units."""
    if isinstance(problem, Knapsack):
        return problem.value_unit
    return problem.bid_unit if isinstance(problem, Auction) else 1.0


def online_optimum(
    problem: Problem, policies: Mapping[str, PolicyFn], on_progress: OnProgress | None = None
) -> Optimum | None:
    """Bound the best any online player can do, exactly or by dynamic programming; nothing where neither works.

    Args:
        policies: one of them may carry the bounds already.
    """
    if (value := optimal_value(problem)) is not None:
        return Optimum(value, value, "exact")

    def tell(lower: float, upper: float) -> None:
        if on_progress is not None:
            on_progress(f"optimum between {lower:.4f} and {upper:.4f}", 0, 0)

    try:
        if isinstance(problem, OKD):
            given = [policy for policy in policies.values() if isinstance(policy, exact_okd.GridPolicy)]
            best = given[0] if given else exact_okd.optimum(problem, on_bounds=tell)
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
        floor = max(rate(one.successes)["interval"][0] for one in played.values())
        best = Optimum(floor, max(floor, rate(seen)["interval"][1]), "hindsight")
    return {
        "problem": name_of(problem),
        "is_rate": all(is_rate(one.successes) for one in played.values()),
        "episodes": episodes,
        "seed": seed,
        "policies": [_entry(problem, name, policies[name], one, best, seen) for name, one in played.items()],
        "differences": differences(played),
        "optimum": None if best is None else best._asdict(),
        "hindsight": None if seen is None else rate(seen) | {"instances": num_seen},
    }


def hindsight_of(problem: Problem, instances: int, *, seed: int = 0) -> dict[str, Any] | None:
    """What an all-seeing player earns on average, with its interval, where the problem itself can tell."""
    if type(problem).in_hindsight is Problem.in_hindsight:
        return None
    return rate(_hindsight_successes(problem, seed, instances, None)) | {"instances": instances}


def _hindsight_successes(problem: Problem, seed: int, count: int, on_progress: OnProgress | None) -> np.ndarray:
    """Where an all-seeing player succeeds, on the first instances of the evaluation."""

    def draw(key):
        # As `play` does: the instance comes from the first half of an episode's key.
        return problem.draw(jax.random.split(key)[0])

    instances = jax.jit(jax.vmap(draw))(instance_keys(seed, count))
    tell = None if on_progress is None else lambda done, total: on_progress("hindsight", done, total)
    return hindsight(problem, instances, on_progress=tell)


def is_rate(rewards: np.ndarray) -> bool:
    """Whether episodes are won or lost, and nothing between."""
    return bool(np.all((rewards == 0) | (rewards == 1)))


def rate(rewards: np.ndarray) -> dict[str, Any]:
    """The mean of rewards and its interval: Wilson's where they only are 0 and 1."""
    interval = intervals.of_rate(rewards) if is_rate(rewards) else intervals.of_mean(rewards)
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
    entry: dict[str, Any] = {"policy": name} | rate(played.successes)
    if isinstance(problem, BCP):
        table = exact_bcp.tabulated(policy_fn, problem.horizon)
        entry["exact_value"] = float(exact_bcp.values(problem.record_probs, table).start)
    entry |= collected(played)
    if best is not None:
        low, high = [entry["exact_value"]] * 2 if "exact_value" in entry else entry["interval"]
        entry["gap_to_optimum"] = [max(0.0, best.lower - high), max(0.0, best.upper - low)]
    return entry if seen is None else entry | beside_hindsight(played, seen)


def collected(played: Outcomes) -> dict[str, Any]:
    """What a policy collected on average."""
    return {
        "collected": float(np.mean(played.collected)),
        "collected_interval": intervals.of_mean(played.collected),
    }


def beside_hindsight(played: Outcomes, seen: np.ndarray) -> dict[str, Any]:
    """How far a policy is from an all-seeing player on the first instances."""
    own = played.successes[: len(seen)]
    # Of nothing there is no part.
    has_ratio = bool(np.any(seen))
    return {
        "gap_to_hindsight": float(np.mean(seen - own)),
        "gap_to_hindsight_interval": intervals.of_mean(seen - own),
        "competitive_ratio": float(np.mean(own) / np.mean(seen)) if has_ratio else None,
        "competitive_ratio_interval": _ratio_interval(own, seen) if has_ratio else None,
    }


def _ratio_interval(own: np.ndarray, seen: np.ndarray) -> list[float]:
    if not np.any(own):
        # Without a single success there is no spread to go by: nobody knows but how rare success may be.
        return [0.0, intervals.of_rate(own)[1] / float(np.mean(seen))]
    low, high = intervals.of_ratio(own, seen)
    return [max(0.0, low), high]


def differences(played: Mapping[str, Outcomes]) -> list[dict[str, Any]]:
    """Every two policies compared on the same instances."""
    return [_difference(*pair) for pair in combinations(played.items(), 2)]


def _difference(one: tuple[str, Outcomes], other: tuple[str, Outcomes]) -> dict[str, Any]:
    """How much more often one policy succeeds than another on the same instances."""
    paired = one[1].successes - other[1].successes
    return {
        "policy": one[0],
        "minus": other[0],
        "difference": float(np.mean(paired)),
        "interval": intervals.of_mean(paired),
    }
