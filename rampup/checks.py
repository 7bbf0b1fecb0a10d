"""The conformance suite: what any problem of the contract must do, put to the test on sampled episodes."""

import inspect
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rampup import arguments
from rampup.episodes import Episode, play
from rampup.problems import PROBLEMS, made_of, own
from rampup.problems.base import Problem
from rampup.types import LogProbs, Observation

# Instances that an all-seeing player is given: a solver may take a hundredth of a second for each.
_FEW = 8
# In single precision, of sums of some dozen numbers.
_ROUNDING = 1e-4


def make_checked(name: str, parameters: Mapping[str, Any]) -> Problem:
    """Make a problem; one that is not ours must do what the contract asks for: nobody else has tested it."""
    problem = made_of(name, parameters)
    if name not in PROBLEMS:
        check_problem(problem, episodes=8)
    return problem


def check_problem(problem: Problem, *, episodes: int = 64, seed: int = 0) -> None:
    """Put a problem through the contract; raise ValueError with the first rule it breaks, if any."""
    arguments.integer("episodes", episodes, least=1)
    try:
        _check(problem, episodes, seed)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"{type(problem).__name__} fails with {own.said(error, _file_of(problem))}.") from error


def _file_of(problem: Any) -> str | None:
    try:
        return inspect.getfile(type(problem))
    except (OSError, TypeError):
        return None


def _check(problem: Problem, episodes: int, seed: int) -> None:
    _require(isinstance(problem, Problem), "the problem must be an instance of a subclass of rampup.Problem")
    for name in ("horizon", "num_actions"):
        size = getattr(problem, name, None)
        _require(isinstance(size, int) and size >= 1, f"`{name}` must be a whole number of at least 1, got {size!r}")
    loose = [leaf for leaf in jax.tree.leaves(problem) if not isinstance(leaf, jax.Array)]
    _require(not loose, f"a field that is not a JAX array must be `eqx.field(static=True)`, got {loose[:1]!r:.80}")
    keys = jax.random.split(jax.random.key(seed), episodes)
    _check_shapes(problem, keys[0])
    played = jax.device_get(jax.jit(jax.vmap(lambda key: play(problem, _uniform_policy(problem), key)))(keys))
    _check_numbers(problem, played)
    _check_determinism(problem, keys[0])
    _check_batching(problem, keys[:2], played)
    _check_rules(problem, played.observations[0, 0])
    _check_hindsight(problem, keys[:_FEW], played)
    _require(played.is_over.all(), "the episode must be over after `horizon` decisions")


def _require(holds: Any, sentence: str) -> None:
    if not holds:
        raise ValueError(sentence + ".")


def _uniform_policy(problem: Problem):
    def log_probs(observation: Observation) -> LogProbs:
        return jnp.full((problem.num_actions,), -jnp.log(float(problem.num_actions)), observation.dtype)

    return log_probs


def _check_shapes(problem: Problem, key: Any) -> None:
    instance = jax.eval_shape(problem.draw, key)
    state = jax.eval_shape(problem.init, instance)
    observation = jax.eval_shape(problem.observe, instance, state)
    _require(len(observation.shape) == 1, f"`observe` must return a vector, got shape {observation.shape}")
    lows, highs = problem.bounds()
    (size,) = observation.shape
    _require(
        len(lows) == len(highs) == size,
        f"`bounds` must give {size} lows and highs, one for each number observed, got {len(lows)}",
    )
    variables = jax.eval_shape(problem.variables, observation)
    allowed = {problem.num_actions} | ({1} if problem.num_actions == 2 else set())
    _require(
        len(variables.shape) == 2 and variables.shape[0] in allowed,
        f"`variables` must return a row per action, or one for accept or reject, got shape {variables.shape}",
    )
    degrees = problem.degrees(2)
    _require(
        len(degrees) == variables.shape[1],
        f"`degrees` must give a number for each of the {variables.shape[1]} variables, got {len(degrees)}",
    )
    action = jax.ShapeDtypeStruct((), jnp.result_type(int))
    next_state, reward, goes_on = jax.eval_shape(problem.step, instance, state, action)
    _require(
        jax.tree.structure(next_state) == jax.tree.structure(state) and _kinds(next_state) == _kinds(state),
        "`step` must return a state of the same structure, shapes and dtypes as `init`",
    )
    _require(
        reward.shape == () and jnp.issubdtype(reward.dtype, jnp.floating),
        f"`step` must return the reward as one floating-point number, got {reward}",
    )
    _require(
        goes_on.shape == () and goes_on.dtype == jnp.bool_,
        f"`step` must return whether the episode goes on as one true or false, got {goes_on}",
    )


def _kinds(tree: Any) -> list[Any]:
    return [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)]


def _check_numbers(problem: Problem, played: Episode) -> None:
    observations, rewards = np.asarray(played.observations), np.asarray(played.rewards)
    _require(np.isfinite(observations).all(), "`observe` must return finite numbers only")
    lows, highs = (np.asarray(bound) for bound in problem.bounds())
    inside = (observations >= lows) & (observations <= highs)
    _require(inside[played.is_alive].all(), "`observe` must stay within `bounds` while the episode goes on")
    variables = jax.jit(jax.vmap(jax.vmap(lambda seen: problem.variables(seen))))(observations)
    _require(np.isfinite(variables).all(), "`variables` must return finite numbers only")
    for place in problem.shared_variables:
        column = np.asarray(variables)[..., place]
        _require(
            (column == column[..., :1]).all(), f"`shared_variables` names {place}, which differs between the actions"
        )
    worst = rewards.ravel()[np.argmax(np.abs(rewards - 0.5))]
    _require(0 <= worst <= 1, f"`step` must return rewards in [0, 1], got {worst}")


def _check_determinism(problem: Problem, key: Any) -> None:
    first, again = (jax.tree.leaves(jax.jit(lambda key: problem.draw(key))(key)) for _ in range(2))
    same = all(np.array_equal(one, two) for one, two in zip(first, again, strict=True))
    _require(same, "the same key must draw the same instance: all chance belongs into `draw(key)`")


def _check_batching(problem: Problem, keys: Any, played: Episode) -> None:
    for index, key in enumerate(keys):
        length = int(played.is_alive[index].sum())
        alone = _by_hand(problem, key, played.actions[index, :length])
        batched = played.observations[index, :length], played.rewards[index, :length]
        same = all(np.allclose(one, two, rtol=1e-5, atol=1e-6) for one, two in zip(alone, batched, strict=True))
        _require(same, "an episode in a compiled batch must equal the same episode played alone, step by step")


def _check_rules(problem: Problem, observation: Any) -> None:
    """Rules are policies: they give every action its part of one."""
    for name, rule in problem.rules.items():
        log_probs = np.asarray(rule(problem)(jnp.asarray(observation)))
        _require(
            log_probs.shape == (problem.num_actions,) and abs(np.exp(log_probs).sum() - 1) < _ROUNDING,
            f"the rule {name!r} must return ln of {problem.num_actions} probabilities, got {log_probs!r:.80}",
        )


def _check_hindsight(problem: Problem, keys: Any, played: Episode) -> None:
    """Nobody earns more than who sees all arrivals."""
    draw = jax.jit(lambda key: problem.draw(jax.random.split(key)[0]))
    for index, instance in enumerate(map(draw, keys)):
        ceiling = problem.in_hindsight(jax.tree.map(np.asarray, instance))
        if ceiling is None:
            return
        earned = float(np.sum(played.rewards[index]))
        _require(
            float(ceiling) >= earned - _ROUNDING,
            f"`in_hindsight` must be at least what any player earns, got {float(ceiling)} where one earned {earned}",
        )


def _by_hand(problem: Problem, key: Any, actions: Any) -> tuple[np.ndarray, np.ndarray]:
    """Play the actions of an episode one call at a time."""
    instance, state = jax.jit(lambda key: _opening(problem, jax.random.split(key)[0]))(key)
    observe = jax.jit(lambda *seen: problem.observe(*seen))
    step = jax.jit(lambda *taken: problem.step(*taken))
    observations, rewards = [], []
    for action in actions:
        observations.append(observe(instance, state))
        state, reward, _ = step(instance, state, action)
        rewards.append(reward)
    return np.stack(observations), np.stack(rewards)


def _opening(problem: Problem, key: Any) -> tuple[Any, Any]:
    instance = problem.draw(key)
    return instance, problem.init(instance)
