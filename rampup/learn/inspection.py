"""What is recorded of a run: value, kappa and fitting error at theta before the update, exact or sampled."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

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
from rampup.scores import combination, split
from rampup.types import Key, Keys, LogProbs, Observation, PolicyFn, Real, Theta


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
    """The bootstrap draws groups of episodes, not single ones; what does not fill a group is not played."""
    replicates: int = 16

    @property
    def played(self) -> int:
        """How many episodes fill groups."""
        return self.episodes // self.groups * self.groups


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

    def of_group(keys: Keys) -> _Group:
        own, reference = (play_many(problem, by, keys) for by in (own_fn, reference_fn))
        rolled_in = own if behaviour is None else play_many(problem, roll_in_fn, keys)
        own_states, wanted, seen = (_states(problem, played, keys[0]) for played in (own, reference, rolled_in))
        acting = (wanted, reference_fn), (seen, branch_fn)
        return _Group(
            returns=jnp.sum(own.rewards, axis=1),
            reference_returns=jnp.sum(reference.rewards, axis=1),
            entropy=_mean_entropy(own_states, own_fn),
            against=_against_reference(problem, features, theta, wanted, reference_fn),
            fishers=jnp.stack([_fisher(problem, features, theta, *one) for one in acting]),
        )

    play_key, bootstrap_key = jax.random.split(key)
    groups = for_each(of_group, _in_groups(play_key, effort))
    condition, spread = _kappa(groups.fishers, bootstrap_key, effort)
    returns, reference_value = groups.returns.ravel(), jnp.mean(groups.reference_returns)
    bonus = regularisation * jnp.mean(groups.entropy)
    pull, divergence, shift = (jnp.mean(part, axis=0) for part in groups.against)
    # By the performance difference lemma the sum of A under d* is a difference of values, which needs no branching:
    # V* - lambda E ln pi_t(a|s) - V^{t,lambda}.
    advantage = reference_value - regularisation * pull - (jnp.mean(returns) + bonus)
    return Inspection(
        value=jnp.mean(returns),
        value_error=jnp.std(returns) / jnp.sqrt(len(returns) - 1.0),
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


class _Group(NamedTuple):
    """What a group of episodes comes to: one is played after another where all at once would not fit."""

    returns: Float[Array, " episode"]
    reference_returns: Float[Array, " episode"]
    entropy: Real
    against: tuple[Real, Real, Theta]
    """Means over its episodes, of what `_against_reference` says."""
    fishers: Float[Array, "2 feat feat"]
    """Of the reference and of the sampler."""


def _in_groups(key: Key, effort: Effort) -> Array:
    """A key for each episode; what does not fill a group is left out."""
    return jax.random.split(key, (effort.groups, effort.played // effort.groups))


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

    def of_group(keys: Keys) -> Float[Array, "2 feat feat"]:
        seen = (_states(problem, play_many(problem, by, keys), keys[0]) for by in (reference_fn, roll_in_fn))
        acting = zip(seen, (reference_fn, branch_fn), strict=True)
        return jnp.stack([_fisher(problem, features, theta, *one) for one in acting])

    play_key, bootstrap_key = jax.random.split(key)
    return _kappa(for_each(of_group, _in_groups(play_key, effort)), bootstrap_key, effort)


STEPS_SEEN = 500


class _States(NamedTuple):
    """The states of some episodes; of long ones only some, at equal distances, each of which stands for `stride`."""

    observations: Float[Array, "episode time obs"]
    is_alive: Bool[Array, "episode time"]
    stride: int


def _states(problem: Problem, episodes: Episode, key: Key) -> _States:
    """At most `STEPS_SEEN` states of every episode, from a random one of the first on."""
    stride = -(-problem.horizon // STEPS_SEEN)
    if stride == 1:
        return _States(episodes.observations, episodes.is_alive, stride)
    times = jax.random.randint(key, (), 0, stride) + stride * jnp.arange(-(-problem.horizon // stride))
    # Behind the last step nothing is alive.
    return _States(
        jnp.take(episodes.observations, times, axis=1, mode="clip"),
        jnp.take(episodes.is_alive, times, axis=1, mode="fill", fill_value=False),
        stride,
    )


def _mean_entropy(seen: _States, policy_fn: PolicyFn) -> Real:
    """Mean over episodes of the sum over live steps of the entropy of a policy."""
    entropies = jax.vmap(jax.vmap(lambda observation: policies.entropy(policy_fn(observation))))(seen.observations)
    return seen.stride * jnp.sum(jnp.where(seen.is_alive, entropies, 0.0)) / len(seen.is_alive)


def _against_reference(
    problem: Problem, features: Features, theta: Theta, seen: _States, reference_fn: PolicyFn
) -> tuple[Real, Real, Theta]:
    """Under d*: the mean sums of ln pi_t(a|s), of the divergence from the reference, and of the score."""

    def of_state(observation, is_alive):
        variables = problem.variables(observation)
        own = policies.log_probs(features, theta, variables, problem.shared_variables)
        wanted = reference_fn(observation)
        probs = jnp.exp(wanted)
        pull = jnp.sum(jnp.where(probs > 0, probs * own, 0.0))
        numbers = pull, -policies.entropy(wanted) - pull, (probs - jnp.exp(own))[-len(variables) :]
        return *(jnp.where(is_alive, number, 0.0) for number in numbers), variables

    pulls, divergences, surplus, variables = jax.vmap(jax.vmap(of_state))(seen.observations, seen.is_alive)
    # Each state stands for some, and the mean is over episodes.
    count = len(seen.is_alive) / seen.stride
    surplus, variables = (part.reshape(-1, *part.shape[2:]) for part in (surplus, variables))
    shift = combination(features, surplus / count, variables, problem.shared_variables)
    return jnp.sum(pulls) / count, jnp.sum(divergences) / count, shift


def _fisher(
    problem: Problem, features: Features, theta: Theta, seen: _States, action_fn: PolicyFn
) -> Float[Array, "feat feat"]:
    """The Fisher matrix of some states, actions averaged exactly, in a well-conditioned basis."""
    # Kappa depends only on the span of the features.
    basis = better_conditioned(features)

    def of_state(observation, is_alive):
        variables = problem.variables(observation)
        own = policies.log_probs(features, theta, variables, problem.shared_variables)
        return jnp.where(is_alive, seen.stride * jnp.exp(action_fn(observation)), 0.0), jnp.exp(own), variables

    of_states = jax.vmap(jax.vmap(of_state))(seen.observations, seen.is_alive)
    probs, own, variables = (part.reshape(-1, *part.shape[2:]) for part in of_states)
    if variables.shape[1] == 1:
        # Both scores are multiples of phi: one row stands for both.
        return basis.gram(probs[:, 1] * own[:, 0] ** 2 + probs[:, 0] * own[:, 1] ** 2, variables[:, 0])
    parts = split(basis, variables.shape[2], problem.shared_variables)
    rows = parts.differences(variables)
    return parts.squares(probs, rows - jnp.sum(own[:, :, None] * rows, axis=1, keepdims=True), variables)


def _kappa(fishers: Float[Array, "group 2 feat feat"], key: Key, effort: Effort) -> tuple[kappa.Kappa, Real]:
    """Kappa from the Fisher matrices of groups of episodes, and its standard deviation by bootstrap."""
    draws = jax.random.randint(key, (effort.replicates, 2, effort.groups), 0, effort.groups)
    redrawn = jax.vmap(jax.vmap(lambda drawn: jnp.bincount(drawn, length=effort.groups)))(draws)
    counts = jnp.concatenate([jnp.ones((1, 2, effort.groups)), redrawn.astype(float)])
    sums = jnp.einsum("rsg,gsij->rsij", counts, fishers)
    conditions = for_each(kappa.of_grams, sums[:, 0], sums[:, 1])
    condition = jax.tree.map(lambda leaf: leaf[0], conditions)
    spread = jnp.where(jnp.all(jnp.isfinite(conditions.ln)), jnp.std(conditions.ln[1:]), jnp.inf)
    return condition, jnp.where(jnp.isfinite(condition.ln), spread, 0.0)
