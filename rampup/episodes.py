"""One episode of any problem under any policy: the plain meaning of the contract."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from rampup import policy
from rampup.problems.base import Problem, State
from rampup.types import Key, PolicyFn


class Episode(NamedTuple):
    """What was seen, done and earned at each step; after the end everything is zero and `is_alive` false."""

    observations: Float[Array, "time obs"]
    actions: Int[Array, " time"]
    rewards: Float[Array, " time"]
    is_alive: Bool[Array, " time"]
    is_over: Bool[Array, ""]
    """Whether the problem itself had ended the episode by its horizon."""
    final_state: State


def play(problem: Problem, policy_fn: PolicyFn, key: Key) -> Episode:
    """Play one episode; the instance and the actions come from separate streams."""
    instance_key, action_key = jax.random.split(key)
    uniforms = jax.random.uniform(action_key, (problem.horizon,), dtype=float)
    return replay(problem, policy_fn, problem.draw(instance_key), uniforms)


def replay(problem: Problem, policy_fn: PolicyFn, instance: Any, uniforms: Float[Array, " time"]) -> Episode:
    """Play one episode on a given instance, one uniform number deciding each action."""

    def decide(carry, uniform):
        state, is_alive = carry
        observation = problem.observe(instance, state)
        action = policy.choose(policy_fn(observation), uniform)
        next_state, reward, goes_on = problem.step(instance, state, action)
        # The end is absorbing: a state past it is frozen, and nothing there counts.
        state = jax.tree.map(lambda new, old: jnp.where(is_alive, new, old), next_state, state)
        seen = (jnp.where(is_alive, part, jnp.zeros_like(part)) for part in (observation, action, reward))
        return (state, is_alive & goes_on), (*seen, is_alive)

    (final_state, goes_on), (observations, actions, rewards, is_alive) = jax.lax.scan(
        decide, (problem.init(instance), jnp.asarray(True)), uniforms
    )
    return Episode(observations, actions, rewards, is_alive, ~goes_on, final_state)
