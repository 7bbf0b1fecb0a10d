"""What is recorded of a run: value, kappa and fitting error at theta before the update, exact or sampled."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from rampup import kappa
from rampup import policy as policies
from rampup.diagnostics import fitting_error, losses
from rampup.episodes import Episode, play_many
from rampup.exact import bcp
from rampup.features import Features, better_conditioned
from rampup.lanes import for_each
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
    excess_risk: Real
    """L(g_t; d^t) above its least, whose maximum is eps_stat of Theorem 1; not a number where it is not exact."""
    transfer_error: Real
    """L(g*_t; d*), whose maximum is eps_bias; not a number where it is not exact."""


class Effort(NamedTuple):
    """How many episodes of each policy a sampled inspection plays."""

    episodes: int = 1024
    groups: int = 8
    """The bootstrap draws groups of episodes, not single ones."""
    replicates: int = 16


def exact(
    problem: BCP,
    features: Features,
    theta: Theta,
    direction: Theta,
    behaviour: Behaviour | None,
    regularisation: Real | float,
    *,
    radius: Real | float,
    reference_fn: PolicyFn,
    sampler_fn: PolicyFn | None = None,
) -> Inspection:
    """Inspect a run of the best choice problem against a reference policy, exactly."""
    probs, n = problem.record_probs, problem.horizon
    reference = bcp.tabulated(reference_fn, n)
    policy = bcp.log_linear_policy(features, theta, n)
    target = bcp.on_policy(probs, reference)
    sampler = sampling_measure(problem, features, policy, behaviour, sampler_fn)
    worth = bcp.contrast(probs, policy, regularisation)
    wanted, seen = (bcp.moments(features, policy, worth, measure) for measure in (target, sampler))
    condition = bcp.relative_condition(features, policy, target, sampler)
    # After kappa, not beside it: batched factorisations side by side would wait for each other for ever on two cores.
    seen, _ = jax.lax.optimization_barrier((seen, condition.ln))
    excess_risk, transfer_error = losses(wanted, seen, direction, radius=radius)
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
        excess_risk=excess_risk,
        transfer_error=transfer_error,
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

    play_key, bootstrap_key = jax.random.split(key)
    keys = jax.random.split(play_key, effort.episodes)
    own, reference = (play_many(problem, by, keys) for by in (own_fn, reference_fn))
    rolled_in = own if behaviour is None else play_many(problem, roll_in_fn, keys)
    states = (reference, reference_fn), (rolled_in, branch_fn)
    condition, spread = _kappa(problem, features, theta, states, bootstrap_key, effort)

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
        excess_risk=jnp.full((), jnp.nan),
        transfer_error=jnp.full((), jnp.nan),
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
    keys = jax.random.split(play_key, effort.episodes)
    wanted, seen = (play_many(problem, by, keys) for by in (reference_fn, roll_in_fn))
    return _kappa(problem, features, theta, ((wanted, reference_fn), (seen, branch_fn)), bootstrap_key, effort)


def _mean_per_episode(episode: Episode, quantity_fn) -> Array:
    """Mean over episodes of the sum over live steps of a function of the observation."""
    each = jax.vmap(jax.vmap(quantity_fn))(episode.observations)
    alive = episode.is_alive.reshape(episode.is_alive.shape + (1,) * (each.ndim - 2))
    return jnp.sum(jnp.where(alive, each, 0.0), axis=(0, 1)) / len(episode.is_alive)


def _against_reference(problem, features, theta, episode, reference_fn):
    """Under d*: the mean sums of ln pi_t(a|s), of the divergence from the reference, and of the score."""

    def of_state(observation, is_alive):
        variables = problem.variables(observation)
        own, wanted = policies.log_probs(features, theta, variables), reference_fn(observation)
        probs = jnp.exp(wanted)
        pull = jnp.sum(jnp.where(probs > 0, probs * own, 0.0))
        numbers = pull, -policies.entropy(wanted) - pull, (probs - jnp.exp(own))[-len(variables) :]
        return *(jnp.where(is_alive, number, 0.0) for number in numbers), variables

    pulls, divergences, surplus, variables = jax.vmap(jax.vmap(of_state))(episode.observations, episode.is_alive)
    count = len(episode.is_alive)
    shift = features.combination(surplus.ravel() / count, variables.reshape(-1, variables.shape[-1]))
    return jnp.sum(pulls) / count, jnp.sum(divergences) / count, shift


def _fishers(
    problem: Problem, features: Features, theta: Theta, episodes: Episode, action_fn: PolicyFn, groups: int
) -> Float[Array, "group feat feat"]:
    """The Fisher matrix of each group of episodes, actions averaged exactly, in a well-conditioned basis."""
    # Kappa depends only on the span of the features.
    basis = better_conditioned(features)

    def weights_of(observation, is_alive):
        """A state's Fisher matrix as a weighted sum: of phi phi', its variables given, or of score score'."""
        variables = problem.variables(observation)
        probs, own = jnp.exp(action_fn(observation)), jnp.exp(policies.log_probs(features, theta, variables))
        if len(variables) == 1:
            # Both scores are multiples of phi: one row stands for both.
            return jnp.where(is_alive, probs[1] * own[0] ** 2 + probs[0] * own[1] ** 2, 0.0), variables[0]
        rows = jax.vmap(basis.phi)(variables)
        scores = rows - jnp.sum(own[:, None] * rows, axis=0)[None, :]
        return jnp.where(is_alive, probs, 0.0), scores

    def of_group(observations, is_alive):
        weights, rows = jax.vmap(weights_of)(observations, is_alive)
        if rows.ndim == 2:
            return basis.gram(weights, rows)
        rows = rows.reshape(-1, basis.size)
        return (weights.ravel()[:, None] * rows).T @ rows

    # What does not fill a group is left out.
    kept = len(episodes.is_alive) // groups * groups
    parts = (part[:kept].reshape(groups, -1, *part.shape[2:]) for part in (episodes.observations, episodes.is_alive))
    return jax.vmap(of_group)(*parts)


def _kappa(
    problem: Problem,
    features: Features,
    theta: Theta,
    played: tuple[tuple[Episode, PolicyFn], tuple[Episode, PolicyFn]],
    key: Key,
    effort: Effort,
) -> tuple[kappa.Kappa, Real]:
    """Kappa from episodes and how one acts in their states, target first, and its standard deviation by bootstrap."""
    fishers = jnp.stack([_fishers(problem, features, theta, *one, effort.groups) for one in played])
    draws = jax.random.randint(key, (effort.replicates, 2, effort.groups), 0, effort.groups)
    redrawn = jax.vmap(jax.vmap(lambda drawn: jnp.bincount(drawn, length=effort.groups)))(draws)
    counts = jnp.concatenate([jnp.ones((1, 2, effort.groups)), redrawn.astype(float)])
    sums = jnp.einsum("rsg,sgij->rsij", counts, fishers)
    conditions = for_each(kappa.of_grams, sums[:, 0], sums[:, 1])
    condition = jax.tree.map(lambda leaf: leaf[0], conditions)
    spread = jnp.where(jnp.all(jnp.isfinite(conditions.ln)), jnp.std(conditions.ln[1:]), jnp.inf)
    return condition, jnp.where(jnp.isfinite(condition.ln), spread, 0.0)
