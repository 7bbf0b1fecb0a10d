"""What is recorded of a run: value, kappa and fitting error at theta before the update, exact or sampled."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from rampup import kappa
from rampup import policy as policies
from rampup.diagnostics import fitting_error
from rampup.episodes import Episode, play
from rampup.exact import bcp
from rampup.features import Features
from rampup.learn.estimators import sampling_measure
from rampup.learn.sampler import Behaviour, branch_log_probs, roll_in_log_probs
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.types import Key, LogProbs, Observation, PolicyFn, Real, Theta


class Inspection(NamedTuple):
    """Row t of a run speaks of theta_t and of the direction g_t taken from there."""

    value: Real
    value_error: Real
    """Standard error; 0 where the value is exact."""
    reference_value: Real
    potential: Real
    fitting_error: Real
    ln_kappa: Real
    ln_kappa_error: Real
    """Bootstrap standard deviation; 0 where kappa is exact."""
    kappa_rank: Int[Array, ""]
    kappa_tolerance: Real


class Effort(NamedTuple):
    """How many episodes a sampled inspection plays."""

    episodes: int = 1024
    """For the value and the fitting error."""
    rows_per_feature: int = 20
    """How many states, at the most an episode has, enter the Fisher matrices for each feature."""
    groups: int = 8
    """The bootstrap draws groups of episodes, not single ones."""
    replicates: int = 16

    def kappa_episodes(self, horizon: int, num_features: int) -> int:
        """How many episodes that takes: a multiple of the groups."""
        per_group = -(-self.rows_per_feature * num_features // (horizon * self.groups))
        return per_group * self.groups


def exact(
    problem: BCP,
    features: Features,
    theta: Theta,
    direction: Theta,
    behaviour: Behaviour | None,
    regularisation: Real | float,
    *,
    reference_fn: PolicyFn,
    sampler_fn: PolicyFn | None = None,
) -> Inspection:
    """Inspect a run of the best choice problem against a reference policy, exactly."""
    probs, n = problem.record_probs, problem.horizon
    reference = bcp.tabulated(reference_fn, n)
    policy = bcp.log_linear_policy(features, theta, n)
    target = bcp.on_policy(probs, reference)
    sampler = sampling_measure(problem, features, policy, behaviour, sampler_fn)
    wanted = bcp.moments(features, policy, bcp.contrast(probs, policy, regularisation), target)
    condition = bcp.relative_condition(features, policy, target, sampler)
    nothing = jnp.zeros(())
    return Inspection(
        value=bcp.values(probs, policy).start,
        value_error=nothing,
        reference_value=bcp.values(probs, reference).start,
        potential=bcp.potential(probs, reference, policy),
        fitting_error=fitting_error(wanted, direction),
        ln_kappa=condition.ln,
        ln_kappa_error=nothing,
        kappa_rank=condition.rank,
        kappa_tolerance=condition.tolerance,
    )


def sampled(
    problem: Problem,
    features: Features,
    theta: Theta,
    direction: Theta,
    behaviour: Behaviour | None,
    regularisation: Real | float,
    key: Key,
    *,
    reference_fn: PolicyFn,
    sampler_fn: PolicyFn | None = None,
    effort: Effort,
) -> Inspection:
    """Inspect a run against a reference policy by playing fresh episodes of both on the same instances."""
    own_fn = policies.LogLinear(problem, features, theta)

    def roll_in_fn(observation: Observation) -> LogProbs:
        own = own_fn(observation)
        return (
            own if behaviour is None else roll_in_log_probs(problem, features, behaviour, sampler_fn, observation, own)
        )

    def branch_fn(observation: Observation) -> LogProbs:
        own = own_fn(observation)
        return own if behaviour is None else branch_log_probs(problem, behaviour, own)

    play_key, kappa_key = jax.random.split(key)
    keys = jax.random.split(play_key, effort.episodes)
    own, reference = (jax.vmap(lambda key, by=by: play(problem, by, key))(keys) for by in (own_fn, reference_fn))
    condition, spread = sampled_kappa(
        problem,
        features,
        theta,
        kappa_key,
        reference_fn=reference_fn,
        roll_in_fn=roll_in_fn,
        branch_fn=branch_fn,
        effort=effort,
    )

    returns = jnp.sum(own.rewards, axis=1)
    reference_value = jnp.mean(jnp.sum(reference.rewards, axis=1))
    bonus = regularisation * _mean_per_episode(own, lambda seen: policies.entropy(own_fn(seen)))
    pull, divergence, shift = _against_reference(problem, features, theta, reference, reference_fn)
    # By the performance difference lemma the sum of A under d* is a difference of values, which needs no branching:
    # V* - lambda E ln pi_t(a|s) - V^{t,lambda}.
    advantage = reference_value - regularisation * pull - (jnp.mean(returns) + bonus)
    return Inspection(
        value=jnp.mean(returns),
        value_error=jnp.std(returns) / jnp.sqrt(effort.episodes - 1.0),
        reference_value=reference_value,
        potential=divergence,
        fitting_error=advantage - direction @ shift,
        ln_kappa=condition.ln,
        ln_kappa_error=spread,
        kappa_rank=condition.rank,
        kappa_tolerance=condition.tolerance,
    )


def sampled_kappa(
    problem: Problem,
    features: Features,
    theta: Theta,
    key: Key,
    *,
    reference_fn: PolicyFn,
    roll_in_fn: PolicyFn,
    branch_fn: PolicyFn,
    effort: Effort,
) -> tuple[kappa.Kappa, Real]:
    """Kappa at theta of who rolls in by one policy and then acts by another, and its bootstrap standard deviation."""
    play_key, bootstrap_key = jax.random.split(key)
    keys = jax.random.split(play_key, effort.kappa_episodes(problem.horizon, features.size))
    target_states, sampler_states = (
        jax.vmap(lambda key, by=by: play(problem, by, key))(keys) for by in (reference_fn, roll_in_fn)
    )
    wanted = _weighted_scores(problem, features, theta, target_states, reference_fn)
    seen = _weighted_scores(problem, features, theta, sampler_states, branch_fn)
    return _kappa_with_spread(jnp.stack([wanted, seen]), bootstrap_key, effort)


def _mean_per_episode(episode: Episode, quantity_fn) -> Array:
    """Mean over episodes of the sum over live steps of a function of the observation."""
    each = jax.vmap(jax.vmap(quantity_fn))(episode.observations)
    alive = episode.is_alive.reshape(episode.is_alive.shape + (1,) * (each.ndim - 2))
    return jnp.sum(jnp.where(alive, each, 0.0), axis=(0, 1)) / len(episode.is_alive)


def _against_reference(problem, features, theta, episode, reference_fn):
    """Under d*: the mean sums of ln pi_t(a|s), of the divergence from the reference, and of the score."""

    def of_state(observation):
        variables = problem.variables(observation)
        own, wanted = policies.log_probs(features, theta, variables), reference_fn(observation)
        probs = jnp.exp(wanted)
        pull = jnp.sum(jnp.where(probs > 0, probs * own, 0.0))
        divergence = -policies.entropy(wanted) - pull
        shift = (probs - jnp.exp(own)) @ policies.phi(features, variables)
        return jnp.concatenate([pull[None], divergence[None], shift])

    sums = _mean_per_episode(episode, of_state)
    return sums[0], sums[1], sums[2:]


def _weighted_scores(
    problem: Problem, features: Features, theta: Theta, episodes: Episode, action_fn: PolicyFn
) -> Float[Array, "episode row feat"]:
    """Rows whose outer products add up to the Fisher matrix of each episode, actions averaged exactly."""

    def of_state(observation, is_alive):
        variables = problem.variables(observation)
        probs, own = jnp.exp(action_fn(observation)), jnp.exp(policies.log_probs(features, theta, variables))
        rows = policies.phi(features, variables)
        scores = rows - (own @ rows)[None, :]
        if len(variables) == 1:
            # Both scores are multiples of phi: one row stands for both.
            coefficient = probs[1] * own[0] ** 2 + probs[0] * own[1] ** 2
            scores, probs = rows[1:], coefficient[None]
        return jnp.where(is_alive, jnp.sqrt(probs)[:, None] * scores, 0.0)

    rows = jax.vmap(jax.vmap(of_state))(episodes.observations, episodes.is_alive)
    return rows.reshape(len(rows), -1, features.size)


def _kappa_with_spread(
    scores: Float[Array, "2 episode row feat"], key: Key, effort: Effort
) -> tuple[kappa.Kappa, Real]:
    """Kappa of the mean Fisher matrices, target first, and its standard deviation when groups of episodes are redrawn.

    Everything is one chain of batched factorisations: two of them side by side would wait for each other for ever on
    the thread pool of a machine with two cores.
    """
    size = scores.shape[-1]
    factors = _triangular(scores.reshape(2, effort.groups, -1, size))
    draws = jax.random.randint(key, (effort.replicates, 2, effort.groups), 0, effort.groups)
    redrawn = jax.vmap(jax.vmap(lambda drawn: jnp.bincount(drawn, length=effort.groups)))(draws)
    counts = jnp.concatenate([jnp.ones((1, 2, effort.groups)), redrawn.astype(float)])
    weighted = jnp.sqrt(counts)[..., None, None] * factors[None]
    triangles = _triangular(weighted.reshape(effort.replicates + 1, 2, -1, size))
    conditions = jax.vmap(kappa.of_factors)(triangles[:, 0], triangles[:, 1])
    condition = jax.tree.map(lambda leaf: leaf[0], conditions)
    spread = jnp.where(jnp.all(jnp.isfinite(conditions.ln)), jnp.std(conditions.ln[1:]), jnp.inf)
    return condition, jnp.where(jnp.isfinite(condition.ln), spread, 0.0)


def _triangular(rows: Float[Array, "*group row feat"]) -> Float[Array, "*group feat feat"]:
    """The R of a QR factorisation, square whatever the number of rows."""
    size = rows.shape[-1]
    missing = max(size - rows.shape[-2], 0)
    padded = jnp.pad(rows, [(0, 0)] * (rows.ndim - 2) + [(0, missing), (0, 0)])
    return jnp.linalg.qr(padded, mode="r")
