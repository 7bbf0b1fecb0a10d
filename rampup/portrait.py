"""What a policy does, as arrays to draw: the chance of accepting over time, or by what an arrival is like."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rampup.exact import bcp
from rampup.exact import choice as exact_choice
from rampup.problems.adw import ADW
from rampup.problems.auction import Auction
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.problems.choice import Choice
from rampup.problems.knapsack import Knapsack
from rampup.problems.okd import OKD
from rampup.types import PolicyFn

# Enough points for a smooth picture, few enough to keep a run folder small.
_TIMES, _SIDE, _RANKS = 200, 25, 10
# Slices at a third and at two thirds of the arrivals, as far along as a player on course would be, behind and ahead.
_MOMENTS = (1 / 3, 2 / 3)


def portrait(problem: Problem, policy_fn: PolicyFn) -> dict[str, Any] | None:
    """A picture of a policy for one of our own problems; nothing for any other."""
    if isinstance(problem, BCP):
        return _over_time(problem, policy_fn)
    if isinstance(problem, Choice):
        return _over_arrivals(problem, policy_fn)
    if isinstance(problem, Knapsack):
        return _over_items(problem, policy_fn)
    if isinstance(problem, Auction):
        return _over_bids(problem, policy_fn)
    return None


@eqx.filter_jit
def _probs(policy_fn: PolicyFn, observations: jax.Array) -> jax.Array:
    return jnp.exp(jax.vmap(policy_fn)(observations))


def _over_time(problem: BCP, policy_fn: PolicyFn) -> dict[str, Any]:
    """The chance of accepting arrival i, with and without a record, and from where on the optimal policy accepts."""
    n = problem.horizon
    arrivals = np.unique(np.linspace(1, n, min(n, _TIMES)).round().astype(int))
    seen = np.stack([np.repeat(arrivals / n, 2), np.tile([0.0, 1.0], len(arrivals))], axis=1)
    accept = np.asarray(_probs(policy_fn, jnp.asarray(seen)))[:, 1].reshape(-1, 2)
    return {
        "kind": "over_time",
        "arrival": arrivals.tolist(),
        "with_record": _short(accept[:, 1]),
        "without_record": _short(accept[:, 0]),
        "optimal_threshold": int(bcp.optimum(problem.record_probs).threshold),
    }


def _over_arrivals(problem: Choice, policy_fn: PolicyFn) -> dict[str, Any]:
    """The chance of accepting an arrival by its rank so far, or its value, with all picks left and with one."""
    n, picks = problem.horizon, problem.num_picks
    arrivals = np.unique(np.linspace(1, n, min(n, _SIDE)).round().astype(int))
    if problem.payoffs is None:
        measure, marks = "value", np.linspace(0, problem.bounds()[1][1], _SIDE)
        shown = marks
    else:
        # The best at the end, which is on top.
        measure, marks = "rank so far", np.arange(min(n, _RANKS), 0, -1)
        shown = 1 / marks
    grid = np.stack(np.meshgrid(arrivals / n, shown, indexing="ij"), axis=-1).reshape(-1, 2)
    slices = []
    for who, one in (("", policy_fn), (", optimal", exact_choice.planned(problem))):
        for left in dict.fromkeys((picks, 1)):
            seen = np.concatenate([grid, np.full((len(grid), 1), left / picks)], axis=1)
            accept = np.asarray(_probs(one, jnp.asarray(seen)))[:, 1].reshape(len(arrivals), len(marks))
            slices.append({"name": f"{left} of {picks} left{who}", "accept": _short(accept)})
    return {
        "kind": "over_arrivals",
        "arrival": arrivals.tolist(),
        "measure": measure,
        "marks": _short(marks),
        "slices": slices,
    }


def _over_items(problem: Knapsack, policy_fn: PolicyFn) -> dict[str, Any]:
    """The chance of accepting an item by size and value, at moments of the game and states of the bag."""
    bounds = problem.bounds()[1]
    sizes, values = np.linspace(0, bounds[1], _SIDE), np.linspace(0, bounds[2], _SIDE)
    grid = np.stack(np.meshgrid(sizes, values, indexing="ij"), axis=-1).reshape(-1, 2)
    slices = []
    for moment in _MOMENTS:
        for name, used, collected in (("behind", 1.0, 0.75), ("on course", 1.0, 1.0), ("ahead", 0.75, 1.0)):
            state = [min(moment * used, 1.0), min(moment * collected, 1.0)]
            # Where there is no target, nothing is seen of how near it is.
            shown = state if isinstance(problem, OKD) else state[:1]
            seen = np.concatenate([np.full((len(grid), 1), moment), grid, np.tile(shown, (len(grid), 1))], axis=1)
            accept = np.asarray(_probs(policy_fn, jnp.asarray(seen)))[:, 1].reshape(_SIDE, _SIDE)
            slices.append(
                {"at": moment, "name": name, "used": state[0], "collected": state[1], "accept": _short(accept)}
            )
    return {"kind": "over_items", "size": _short(sizes), "value": _short(values), "slices": slices}


def _over_bids(problem: Auction, policy_fn: PolicyFn) -> dict[str, Any]:
    """The chance that one advertiser gets the slot by its bid and budget, the others bidding and owning the middle."""
    advertisers = problem.num_actions - 1
    highest = problem.bounds()[1][1]
    full = problem.budgets()
    bids, budgets = np.linspace(0, highest, _SIDE), np.linspace(0, full[0], _SIDE)
    grid = np.stack(np.meshgrid(bids, budgets, indexing="ij"), axis=-1).reshape(-1, 2)
    middles = [float(one.quantile(jnp.asarray(0.5))) for one in problem.distributions()]
    slices = []
    for moment in _MOMENTS:
        revenue = [moment] if isinstance(problem, ADW) else []
        seen = np.tile([moment, *middles, *(full * (1 - moment)), *revenue], (len(grid), 1))
        seen[:, 1], seen[:, 1 + advertisers] = grid[:, 0], grid[:, 1]
        wins = np.asarray(_probs(policy_fn, jnp.asarray(seen)))[:, 1].reshape(_SIDE, _SIDE)
        slices.append({"at": moment, "wins": _short(wins)})
    return {"kind": "over_bids", "bid": _short(bids), "budget": _short(budgets), "slices": slices}


def _short(numbers: np.ndarray) -> list[Any]:
    """Four digits are more than a picture shows."""
    return np.round(np.asarray(numbers, dtype=float), 4).tolist()
