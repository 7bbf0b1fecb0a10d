"""The problems as Gymnasium environments, one at a time and many at once; the observation is the paper's state."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from rampup.problems import make
from rampup.problems.base import Problem

PAPER_SIZES: dict[str, dict[str, Any]] = {
    "bcp": {"n": 100},
    "okd": {"n": 100, "B": 10.0, "V": 25.0},
    "adw": {"n": 10, "m": 20, "V": 9.0},
    "choice": {"n": 100},
    "okd_value": {"n": 100, "B": 10.0},
    "adw_value": {"n": 10, "m": 20},
}
"""What `gymnasium.make` takes when no parameter is given: the paper's target sizes, of the value forms too."""

# Seeds of jax.random.key are drawn from the environment's own generator, the one `reset(seed=...)` sets.
_SEED_BOUND = 2**31


def _as_problem(problem: str | Problem | None, parameters: dict[str, Any]) -> Problem:
    if isinstance(problem, Problem):
        return problem
    if problem is None:
        raise ValueError("`problem` must be given: a problem, its name, or FILE.py:CLASS.")
    return make(problem, **(parameters or PAPER_SIZES.get(problem, {})))


def _observation_space(problem: Problem) -> spaces.Box:
    lows, highs = (np.asarray(bound, np.float32) for bound in problem.bounds())
    return spaces.Box(np.minimum(lows, 0), highs, dtype=np.float32)


def _start(problem: Problem, seed):
    instance = problem.draw(jax.random.key(seed))
    state = problem.init(instance)
    return instance, state, problem.observe(instance, state).astype(jnp.float32)


def _advance(problem: Problem, instance, state, action):
    state, reward, goes_on = problem.step(instance, state, action)
    observation = problem.observe(instance, state).astype(jnp.float32)
    # The end is the paper's state g: all zeros.
    return state, jnp.where(goes_on, observation, 0), reward, ~goes_on


_start_one = jax.jit(_start)
_advance_one = jax.jit(_advance)
_start_many = jax.jit(jax.vmap(_start, in_axes=(None, 0)))
_advance_many = jax.jit(jax.vmap(_advance, in_axes=(None, 0, 0, 0)))


class ProblemEnv(gymnasium.Env):
    """One episode at a time; `reset(seed=...)` decides everything that will arrive."""

    metadata = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(self, problem: str | Problem | None = None, render_mode: str | None = None, **parameters: Any):
        self.problem = _as_problem(problem, parameters)
        self.render_mode = render_mode
        self.observation_space = _observation_space(self.problem)
        self.action_space = spaces.Discrete(self.problem.num_actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        episode_seed = int(self.np_random.integers(_SEED_BOUND))
        self._instance, self._state, observation = _start_one(self.problem, jnp.asarray(episode_seed))
        self._observation, self._is_over = np.asarray(observation), False
        return self._observation, {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"`action` must be one of 0..{self.problem.num_actions - 1}, got {action!r}.")
        if self._is_over:
            return self._observation, 0.0, True, False, {}
        self._state, observation, reward, is_over = _advance_one(
            self.problem, self._instance, self._state, jnp.asarray(int(action))
        )
        self._observation, self._is_over = np.asarray(observation), bool(is_over)
        return self._observation, float(reward), self._is_over, False, {}

    def render(self):
        if self.render_mode == "ansi":
            numbers = " ".join(f"{number:.3f}" for number in self._observation)
            return "the episode is over" if self._is_over else f"seen: {numbers}"
        return None


class ProblemVectorEnv(VectorEnv):
    """Many episodes in one compiled step; lane i of `reset(seed=s)` plays the episode of `ProblemEnv` with s + i."""

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, problem: str | Problem | None = None, num_envs: int = 1, **parameters: Any):
        self.problem = _as_problem(problem, parameters)
        self.num_envs = num_envs
        self.single_observation_space = _observation_space(self.problem)
        self.single_action_space = spaces.Discrete(self.problem.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._generators = [np.random.default_rng() for _ in range(num_envs)]

    def reset(self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None):
        seeds = (
            [seed + lane for lane in range(self.num_envs)] if isinstance(seed, int) else seed or [None] * self.num_envs
        )
        for lane, lane_seed in enumerate(seeds):
            if lane_seed is not None:
                self._generators[lane] = np_random(lane_seed)[0]
        self._is_over = np.zeros(self.num_envs, bool)
        self._instance, self._state, observation = self._fresh(np.ones(self.num_envs, bool))
        return np.asarray(observation), {}

    def _fresh(self, wanted: np.ndarray):
        drawn = [
            int(self._generators[lane].integers(_SEED_BOUND)) if wanted[lane] else 0 for lane in range(self.num_envs)
        ]
        return _start_many(self.problem, jnp.asarray(drawn))

    def step(self, actions):
        state, observation, reward, is_over = _advance_many(
            self.problem, self._instance, self._state, jnp.asarray(actions, dtype=int)
        )
        restarts = self._is_over
        if restarts.any():
            stepped = self._instance, state, observation
            fresh = self._fresh(restarts)
            self._instance, state, observation = jax.tree.map(
                lambda new, old: jnp.where(restarts.reshape((-1,) + (1,) * (new.ndim - 1)), new, old), fresh, stepped
            )
        self._state = state
        reward = np.where(restarts, 0.0, np.asarray(reward, np.float64))
        self._is_over = np.where(restarts, False, np.asarray(is_over))
        return np.asarray(observation), reward, self._is_over, np.zeros(self.num_envs, bool), {}
