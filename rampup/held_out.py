"""Policies on held-out sequences of the user's own, each played in order, as it came."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rampup import arguments
from rampup.data.card import part_of
from rampup.data.sequences import Dataset
from rampup.episodes import replay
from rampup.evaluation import (
    OnProgress,
    Outcomes,
    beside_hindsight,
    collected,
    collected_unit,
    differences,
    earned,
    instance_keys,
    rate,
)
from rampup.exact.finite import require_double_precision
from rampup.problems import name_of
from rampup.problems.auction import ADWInstance, Auction
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP, BCPInstance
from rampup.problems.knapsack import Knapsack, OKDInstance
from rampup.references.hindsight import hindsight
from rampup.types import Key, PolicyFn

# A policy that acts by chance is played so many times on a sequence: what is left of its luck is then small beside the
# differences between sequences.
PLAYS = 16
# Few enough that their episodes stay in cache.
_SEQUENCES_AT_ONCE = 256


def default_parameters(dataset: Dataset) -> dict[str, Any]:
    """The size of the problem that sequences are instances of."""
    name = dataset.description.problem
    if name == "adw":
        return {"n": len(dataset.names), "m": dataset.length}
    return {"n": dataset.length}


def instances_of(problem: Problem, dataset: Dataset, sequences: np.ndarray) -> Any:
    """Sequences as instances of a problem, with a leading axis."""
    name = name_of(problem)
    if name.removesuffix("_value") != dataset.description.problem:
        raise ValueError(f"{dataset.source!r} describes data for {dataset.description.problem}, not for {name}.")
    if problem.horizon != dataset.length:
        parameter = "m" if isinstance(problem, Auction) else "n"
        raise ValueError(
            f"`{parameter}` must be {dataset.length}, the length of the sequences in {dataset.source!r}, to play them "
            f"as they came, got {problem.horizon}."
        )
    numbers = dataset.numbers(sequences)
    if isinstance(problem, BCP):
        is_record = dataset.records(sequences)
        best = problem.horizon - 1 - np.argmax(is_record[:, ::-1], axis=1)
        return BCPInstance(jnp.asarray(is_record), jnp.asarray(best, dtype=jnp.int32))
    if isinstance(problem, Knapsack):
        sizes, values = numbers[:, :, 0] / problem.size_unit, numbers[:, :, 1] / problem.value_unit
        return OKDInstance(jnp.asarray(sizes), jnp.asarray(values))
    assert isinstance(problem, Auction)
    return ADWInstance(jnp.asarray(numbers[:, :, : problem.num_actions - 1] / problem.bid_unit))


def held_out_outcomes(
    problem: Problem,
    policies: Mapping[str, PolicyFn],
    dataset: Dataset,
    *,
    plays: int = PLAYS,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> dict[str, Outcomes]:
    """What every policy earns on each held-out sequence, on average over its own chance; all with the same numbers."""
    arguments.integer("plays", plays, least=1)
    instances = instances_of(problem, dataset, dataset.holdout)
    keys = instance_keys(seed, len(dataset.holdout))
    found = {}
    for index, (name, policy_fn) in enumerate(policies.items()):
        successes, gathered = jax.device_get(_replayed(problem, policy_fn, instances, keys, plays))
        found[name] = Outcomes(successes, gathered * collected_unit(problem))
        if on_progress is not None:
            on_progress(f"playing {name} on held-out sequences", index + 1, len(policies))
    return found


@eqx.filter_jit
def _replayed(problem: Problem, policy_fn: PolicyFn, instances: Any, keys: Key, plays: int) -> Any:
    def of_sequence(given):
        instance, key = given
        uniforms = jax.random.uniform(key, (plays, problem.horizon), dtype=float)
        each = jax.vmap(lambda row: earned(problem, replay(problem, policy_fn, instance, row)))(uniforms)
        return tuple(jnp.mean(part) for part in each)

    return jax.lax.map(of_sequence, (instances, keys), batch_size=min(len(keys), _SEQUENCES_AT_ONCE))


def evaluate_held_out(
    problem: Problem,
    policies: Mapping[str, PolicyFn],
    dataset: Dataset,
    *,
    plays: int = PLAYS,
    seed: int = 0,
    hindsight_sequences: int = 0,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Set policies side by side on the held-out sequences, as they came; intervals are over sequences.

    Args:
        plays: how many times each sequence is played, for policies that act by chance.
        hindsight_sequences: how many of the sequences an all-seeing player is given, at most all of them.
    """
    require_double_precision()
    if not policies:
        raise ValueError("`policies` must hold at least one policy.")
    if not len(dataset.holdout):
        raise ValueError(f"{dataset.source!r} holds nothing out: give it a `holdout` above 0.")
    played = held_out_outcomes(problem, policies, dataset, plays=plays, seed=seed, on_progress=on_progress)
    num_seen = min(arguments.integer("hindsight", hindsight_sequences, least=0), len(dataset.holdout))
    seen = _seen(problem, dataset, num_seen, on_progress) if num_seen else None
    entries = []
    for name, one in played.items():
        entry = {"policy": name} | rate(one.successes) | collected(one)
        entries.append(entry if seen is None else entry | beside_hindsight(one, seen))
    return part_of(dataset, dataset.holdout) | {
        "arrivals": problem.horizon,
        "plays": plays,
        "policies": entries,
        "differences": differences(played),
        "hindsight": None if seen is None else rate(seen) | {"instances": num_seen},
    }


def _seen(problem: Problem, dataset: Dataset, count: int, on_progress: OnProgress | None) -> np.ndarray:
    """Where an all-seeing player succeeds, on the first held-out sequences."""
    tell = None if on_progress is None else lambda done, total: on_progress("hindsight of sequences", done, total)
    return hindsight(problem, instances_of(problem, dataset, dataset.holdout[:count]), on_progress=tell)
