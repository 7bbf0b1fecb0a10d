"""Algorithm 4: episodes that branch at a given step, to estimate the advantage of the action taken there."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from rampup import policy as policies
from rampup.features import Features
from rampup.problems.base import Problem
from rampup.types import Flag, Key, LogProbs, Observation, PolicyFn, Real, Theta, Variables


class Behaviour(NamedTuple):
    """Who rolls in to the branch: the learner itself, or a fixed sampler pi_s followed by a uniform action."""

    is_fixed: Flag
    theta: Theta
    """pi_s as a log-linear policy; zero is the naive sampler, uniform over the actions."""


def roll_in_log_probs(
    problem: Problem,
    features: Features,
    behaviour: Behaviour,
    sampler_fn: PolicyFn | None,
    observation: Observation,
    own: LogProbs,
) -> LogProbs:
    """ln of the probabilities by which the learner (its own are given) or the fixed sampler acts before the branch."""
    if sampler_fn is not None:
        other = sampler_fn(observation)
    else:
        other = policies.log_probs(features, behaviour.theta, problem.variables(observation))
    return jnp.where(behaviour.is_fixed, other, own)


def branch_log_probs(problem: Problem, behaviour: Behaviour, own: LogProbs) -> LogProbs:
    """The same at the branch, where a fixed sampler acts uniformly (the grafted distribution)."""
    return jnp.where(behaviour.is_fixed, jnp.full_like(own, -jnp.log(float(problem.num_actions))), own)


class Branches(NamedTuple):
    """What each lane saw and did at its branch, and its estimate of the advantage of that."""

    variables: Float[Array, "lane row var"]
    action: Int[Array, " lane"]
    is_alive: Bool[Array, " lane"]
    """False where the episode was over before the branch: such a lane counts nothing."""
    advantage: Float[Array, " lane"]


class _Side(NamedTuple):
    """One continuation of an episode after the branch."""

    state: object
    is_alive: Flag
    earned: Real


class _Branch(NamedTuple):
    variables: Variables
    action: Int[Array, ""]
    is_alive: Flag


def branches(
    problem: Problem,
    features: Features,
    theta: Theta,
    behaviour: Behaviour | None,
    key: Key,
    *,
    num_lanes: int,
    regularisation: Real | float,
    clip: Real | float,
    is_paired: bool = False,
    sampler_fn: PolicyFn | None = None,
) -> Branches:
    """Play `num_lanes` episodes for each branch step h = 0..H-1.

    Args:
        behaviour: None where it is known when compiling that the learner itself rolls in.
        is_paired: play both sides of the coin on the same instance with the same random numbers, instead of one.
        sampler_fn: pi_s as any policy, in place of the log-linear one of `behaviour`.
    """

    def roll_in(observation: Observation, own: LogProbs) -> LogProbs:
        return (
            own if behaviour is None else roll_in_log_probs(problem, features, behaviour, sampler_fn, observation, own)
        )

    def at_branch(own: LogProbs) -> LogProbs:
        return own if behaviour is None else branch_log_probs(problem, behaviour, own)

    def play_lane(branch_step: Int[Array, ""], key: Key) -> Branches:
        instance_key, step_key, branch_key = jax.random.split(key, 3)
        instance = problem.draw(instance_key)
        uniforms = jax.random.uniform(step_key, (problem.horizon,), dtype=float)
        action_uniform, coin = jax.random.uniform(branch_key, (2,), dtype=float)
        # The coin of Algorithm 4 decides which side is played, with weight 2; a pair plays both, with weight 1.
        overrides = jnp.asarray([False, True]) if is_paired else (coin < 0.5)[None]
        weights = jnp.asarray([1.0, -1.0]) if is_paired else jnp.where(overrides, -2.0, 2.0)

        def decide(carry: tuple[_Side, _Branch], at: tuple[Int[Array, ""], Real]):
            sides, branch = carry
            step, uniform = at
            sides, seen = jax.vmap(lambda side, override: advance(side, override, step, uniform))(sides, overrides)
            # Before and at the branch both sides are one.
            seen = jax.tree.map(lambda leaf: leaf[0], seen)
            branch = jax.tree.map(lambda new, old: jnp.where(step == branch_step, new, old), seen, branch)
            return (sides, branch), None

        def advance(side: _Side, is_override: Flag, step: Int[Array, ""], uniform: Real) -> tuple[_Side, _Branch]:
            observation = problem.observe(instance, side.state)
            variables = problem.variables(observation)
            own = policies.log_probs(features, theta, variables)
            candidate = policies.choose(at_branch(own), action_uniform)
            is_branch, is_before = step == branch_step, step < branch_step
            takes_candidate = is_branch & ~is_override
            follows = jnp.where(is_before, roll_in(observation, own), own)
            action = jnp.where(takes_candidate, candidate, policies.choose(follows, uniform))
            next_state, reward, goes_on = problem.step(instance, side.state, action)
            surprise = jnp.minimum(-own[candidate], clip)
            bonus = regularisation * jnp.where(takes_candidate, surprise, policies.entropy(own))
            counts = side.is_alive & ~is_before
            earned = side.earned + jnp.where(counts, reward + bonus, 0.0)
            state = jax.tree.map(lambda new, old: jnp.where(side.is_alive, new, old), next_state, side.state)
            return _Side(state, side.is_alive & goes_on, earned), _Branch(variables, candidate, side.is_alive)

        opening = _Side(problem.init(instance), jnp.asarray(True), jnp.zeros(()))
        sides = jax.tree.map(lambda leaf: jnp.stack([leaf] * len(overrides)), opening)
        blank = jax.tree.map(
            lambda leaf: jnp.zeros(leaf.shape[1:], leaf.dtype),
            jax.eval_shape(
                lambda sides: jax.vmap(lambda side, override: advance(side, override, branch_step, coin))(
                    sides, overrides
                ),
                sides,
            )[1],
        )
        steps = jnp.arange(problem.horizon)
        (sides, branch), _ = jax.lax.scan(decide, (sides, blank), (steps, uniforms))
        return Branches(branch.variables, branch.action, branch.is_alive, weights @ sides.earned)

    lane_keys = jax.random.split(key, (problem.horizon, num_lanes))
    by_step = jax.vmap(jax.vmap(play_lane, in_axes=(None, 0)))(jnp.arange(problem.horizon), lane_keys)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), by_step)
