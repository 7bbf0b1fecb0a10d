"""One episode of any problem under any policy: the plain meaning of the contract."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from rampup import policy
from rampup.lanes import Whole, is_laned, over_lanes, settled, whole
from rampup.problems.base import Problem, State
from rampup.types import Key, Keys, PolicyFn, Real


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

    def decide(carry: _Standing, uniform: Real):
        return _decide(problem, policy_fn, instance, carry, uniform)

    state = problem.init(instance)
    last, seen = jax.lax.scan(decide, _Standing(state, state, jnp.asarray(True)), uniforms)
    observations, actions, rewards, is_alive = seen
    return Episode(observations, actions, rewards, is_alive, ~last.is_alive, last.final_state)


def play_many(problem: Problem, policy_fn: PolicyFn, keys: Keys) -> Episode:
    """Play an episode for each key, as jax.vmap of `play` does, all of them in step."""
    num_lanes = len(keys)

    def draw(key: Key) -> tuple[Any, Float[Array, " time"]]:
        instance_key, action_key = jax.random.split(key)
        return problem.draw(instance_key), jax.random.uniform(action_key, (problem.horizon,), dtype=float)

    instances, uniforms = over_lanes(draw, num_lanes, Whole(keys))

    def decide(carry: _Standing, uniform: Float[Array, " lane"]):
        return over_lanes(lambda *at: _decide(problem, policy_fn, *at), num_lanes, instances, carry, Whole(uniform))

    def decide_whole(carry: _Standing, uniform: Float[Array, " lane"]):
        carry, seen = decide(carry, uniform)
        return carry, _with_lanes_first(seen, num_lanes)

    uniforms = whole(uniforms, num_lanes)
    state = over_lanes(problem.init, num_lanes, instances)
    opening = _Standing(state, state, Whole(jnp.ones(num_lanes, bool)))
    opening = settled(lambda carry: decide(carry, uniforms[0])[0], opening, num_lanes)
    last, seen = jax.lax.scan(decide_whole, opening, uniforms)
    observations, actions, rewards, is_alive = (jnp.swapaxes(part, 0, 1) for part in seen)
    is_over, final_state = ~whole(last.is_alive, num_lanes), _with_lanes_first(last.final_state, num_lanes)
    return Episode(observations, actions, rewards, is_alive, is_over, final_state)


def _with_lanes_first(tree: Any, num_lanes: int) -> Any:
    return jax.tree.map(lambda leaf: jnp.moveaxis(whole(leaf, num_lanes), -1, 0), tree, is_leaf=is_laned)


class _Standing(NamedTuple):
    state: State
    final_state: State
    """The same until the end, which is absorbing; from there on the other one has no meaning."""
    is_alive: Any


def _decide(problem: Problem, policy_fn: PolicyFn, instance: Any, standing: _Standing, uniform: Real):
    """Take one episode one step further; after its end nothing counts."""
    state, is_alive = standing.state, standing.is_alive
    observation = problem.observe(instance, state)
    action = policy.choose(policy_fn(observation), uniform)
    next_state, reward, goes_on = problem.step(instance, state, action)
    final_state = jax.tree.map(lambda new, old: jnp.where(is_alive, new, old), next_state, standing.final_state)
    seen = (jnp.where(is_alive, part, jnp.zeros_like(part)) for part in (observation, action, reward))
    return _Standing(next_state, final_state, is_alive & goes_on), (*seen, is_alive)
