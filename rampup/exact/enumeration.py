"""The best choice problem as a finite latent MDP, instance by instance: the slow road to the same numbers."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from rampup import policy as policies
from rampup.exact import bcp
from rampup.exact.finite import FeatureTable, FiniteLMDP
from rampup.features import Features
from rampup.problems.bcp import BCP

# 2^(n-1) instances of (2n+1)^2 transitions each: beyond this it is gigabytes.
MOST_ARRIVALS = 12


def enumerated_bcp(problem: BCP) -> FiniteLMDP:
    """All 2^(n-1) instances as MDPs over the states (i, x), state 2i + x, and the end, state 2n."""
    n, end = problem.horizon, 2 * problem.horizon
    if n > MOST_ARRIVALS:
        raise ValueError(f"`n` must be at most {MOST_ARRIVALS} to enumerate all instances, got {n}.")
    probs = np.asarray(problem.record_probs)
    instances = [(1, *rest) for rest in itertools.product((0, 1), repeat=n - 1)]
    weights = np.array([np.prod([p if x else 1 - p for p, x in zip(probs, flags, strict=True)]) for flags in instances])
    transition = np.zeros((len(instances), end + 1, 2, end + 1))
    reward = np.zeros((len(instances), end + 1, 2))
    transition[:, :, 1, end] = 1
    transition[:, end, 0, end] = 1
    for m, flags in enumerate(instances):
        for i, x in itertools.product(range(n), (0, 1)):
            transition[m, 2 * i + x, 0, 2 * (i + 1) + flags[i + 1] if i + 1 < n else end] = 1
        last = max(i for i in range(n) if flags[i])
        reward[m, 2 * last + 1, 1] = 1
    initial = np.zeros((len(instances), end + 1))
    initial[:, 1] = 1
    possible = weights > 0
    return FiniteLMDP(
        weights[possible], initial[possible], transition[possible], reward[possible], n, np.arange(end + 1) < end
    )


def feature_table(features: Features, n: int) -> FeatureTable:
    """The features of every state and action of `enumerated_bcp`; the end has none."""
    rows = jax.vmap(lambda seen: policies.phi(features, seen[None, :]))(bcp.states(n).reshape(2 * n, 2))
    return jnp.pad(rows, ((0, 1), (0, 0), (0, 0)))


def state_policy(policy: bcp.BCPPolicy) -> jax.Array:
    """The policy over the states of `enumerated_bcp`; at the end it rejects."""
    table = jnp.stack([policy.log_reject.ravel(), policy.log_accept.ravel()], axis=1)
    return jnp.concatenate([table, jnp.asarray([[0.0, -jnp.inf]])])
