"""Estimates of the gradient and the Fisher matrix at theta: sampled as in the paper, sampled in pairs, or exact."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from rampup import policy as policies
from rampup.diagnostics import Moments
from rampup.exact import bcp, finite
from rampup.exact.playable import FiniteProblem
from rampup.features import Features
from rampup.learn.sampler import Behaviour, Branches, branches
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.scores import split
from rampup.types import Key, PolicyFn, Real, Theta


class Estimate(NamedTuple):
    """Sigma_t and the sum of A score under d^t, both summed over steps and averaged over lanes."""

    fisher: Float[Array, "feat feat"]
    gradient: Float[Array, " feat"]


Estimator = Callable[..., Estimate]
"""(problem, features, theta, behaviour, key, and by keyword what `branches` takes) -> Estimate."""


def from_branches(problem: Problem, features: Features, theta: Theta, seen: Branches, num_lanes: int) -> Estimate:
    """F^ = sum of score score' / N and grad^ = sum of A^ score / N (Algorithm 3)."""
    variables, weight, advantage = (part.astype(theta.dtype) for part in (seen.variables, seen.weight, seen.advantage))
    shared = problem.shared_variables
    logits = jax.vmap(lambda variables: policies.logits(features, theta, variables, shared))(variables)
    probs = jax.vmap(lambda logits: policies.shares(logits).probs)(logits)
    surplus = jax.nn.one_hot(seen.action, probs.shape[1], dtype=theta.dtype) - probs
    share = weight / num_lanes
    if variables.shape[1] == 1:
        # Accept or reject: the score is a multiple of phi.
        rows, excess = variables[:, 0], surplus[:, 1]
        fisher = features.gram(share * excess**2, rows)
        return Estimate(fisher, features.combination(share * excess * advantage, rows))
    parts = split(features, variables.shape[2], shared)
    scores = jnp.sum(surplus[:, :, None] * parts.differences(variables), axis=1, keepdims=True)
    sums = parts.sums((share * advantage)[:, None], scores, variables)
    return Estimate(parts.squares(share[:, None], scores, variables), sums)


def algorithm4(
    problem: Problem,
    features: Features,
    theta: Theta,
    behaviour: Behaviour | None,
    key: Key,
    *,
    num_lanes: int,
    **settings: Any,
) -> Estimate:
    """The paper's estimate: a coin decides whether an episode speaks for Q or for V."""
    seen = branches(problem, features, theta, behaviour, key, num_lanes=num_lanes, **settings)
    return from_branches(problem, features, theta, seen, num_lanes)


def paired(*arguments, **settings) -> Estimate:
    """Both sides of the coin on the same instance: the same expectation with less noise, for twice the episodes."""
    return algorithm4(*arguments, **settings, is_paired=True)


def exact(
    problem: Problem,
    features: Features,
    theta: Theta,
    behaviour: Behaviour | None,
    key: Key,
    *,
    num_lanes: int,
    regularisation: Real | float | None,
    clip: Real | float,
    num_branches: int | None = None,
    sampler_fn: PolicyFn | None = None,
    share: None = None,
) -> Estimate:
    """What the sampled estimates converge to, for bcp and finite LMDPs; the clip bites only below pi = e^-clip."""
    regularisation = 0.0 if regularisation is None else regularisation
    if isinstance(problem, BCP):
        policy = bcp.log_linear_policy(features, theta, problem.horizon)
        measure = sampling_measure(problem, features, policy, behaviour, sampler_fn)
        sums = bcp.moments(features, policy, bcp.contrast(problem.record_probs, policy, regularisation), measure)
    elif isinstance(problem, FiniteProblem) and sampler_fn is None:
        sums = _finite_moments(problem, problem.feature_table(features), theta, behaviour, regularisation)
    else:
        raise ValueError("the exact estimator is for problem bcp and finite LMDPs; take `algorithm4` or `paired`.")
    return Estimate(sums.fisher, sums.cross)


def _finite_moments(
    problem: FiniteProblem,
    table: finite.FeatureTable,
    theta: Theta,
    behaviour: Behaviour | None,
    regularisation: Real | float,
) -> Moments:
    policy = finite.log_linear_policy(table, theta)
    measure = finite.on_policy(problem.lmdp, policy)
    if behaviour is not None:
        other = finite.grafted(problem.lmdp, finite.log_linear_policy(table, behaviour.theta))
        measure = jnp.where(behaviour.is_fixed, other, measure)
    advantage = finite.values(problem.lmdp, policy, regularisation).advantage
    return finite.moments(finite.scores(table, theta), advantage, measure)


def sampling_measure(
    problem: BCP,
    features: Features,
    policy: bcp.BCPPolicy,
    behaviour: Behaviour | None,
    sampler_fn: PolicyFn | None,
) -> bcp.Measure:
    """d^t of the best choice problem: the policy's own visitation, or the grafted one of a fixed sampler."""
    probs, n = problem.record_probs, problem.horizon
    own = bcp.on_policy(probs, policy)
    if behaviour is None:
        return own
    sampler_fn = sampler_fn or policies.LogLinear(problem, features, behaviour.theta)
    other = bcp.grafted(probs, bcp.tabulated(sampler_fn, n))
    return jax.tree.map(lambda fixed, on_policy: jnp.where(behaviour.is_fixed, fixed, on_policy), other, own)


ESTIMATORS: dict[str, Estimator] = {"algorithm4": algorithm4, "paired": paired, "exact": exact}

EPISODES_PER_LANE = {"algorithm4": 1, "paired": 2, "exact": 0}
"""What a lane costs, as the paper counts samples."""
