"""The Gymnasium environments keep Gymnasium's contract and play the problems' own episodes."""

import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import rampup
from rampup.gym import ProblemEnv, ProblemVectorEnv

ENVIRONMENTS = {
    "rampup/BestChoice-v0": {"n": 20},
    "rampup/OnlineKnapsack-v0": {"n": 20, "B": 2.0, "V": 3.0},
    "rampup/AdWords-v0": {"n": 4, "m": 10, "V": 3.0, "bids": "special"},
    "rampup/Choice-v0": {"n": 20, "k": 3},
    "rampup/OnlineKnapsackValue-v0": {"n": 20, "B": 2.0},
    "rampup/AdWordsValue-v0": {"n": 4, "m": 10, "budgets": [0.5, 1.0, 1.5, 2.0]},
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_environments_pass_the_checker_without_a_warning(name):
    # Warnings are errors in these tests.
    check_env(gymnasium.make(name, **ENVIRONMENTS[name]).unwrapped)
    check_env(gymnasium.make(name, render_mode="ansi", **ENVIRONMENTS[name]).unwrapped)


def test_environments_are_registered_without_importing_the_package():
    code = "import gymnasium, sys; assert 'jax' not in sys.modules; gymnasium.make('rampup/BestChoice-v0', n=7).reset()"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_importing_the_package_registers_them_where_it_is_not_installed():
    """Python's -S leaves .pth files unread, as on a machine where the source tree is only on the path."""
    paths = [str(Path(module.__file__).parents[1]) for module in (rampup, gymnasium)]
    for order in ("import rampup, gymnasium", "import gymnasium, rampup"):
        code = f"import sys; sys.path[:0] = {paths}; {order}; assert 'rampup/AdWords-v0' in gymnasium.registry"
        subprocess.run([sys.executable, "-S", "-c", code], check=True)


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_seed_decides_the_whole_episode(name):
    def episode(seed):
        env = gymnasium.make(name, **ENVIRONMENTS[name])
        rng = np.random.default_rng(0)
        rows, is_over = [env.reset(seed=seed)[0]], False
        while not is_over:
            observation, reward, is_over, is_cut, _ = env.step(
                int(rng.integers(env.action_space.n)) if len(rows) > 3 else 0
            )
            assert not is_cut
            rows.append(np.append(observation, reward)[: len(observation)])
        return np.stack(rows)

    first, again, other = episode(3), episode(3), episode(4)
    assert np.array_equal(first, again)
    assert first.shape != other.shape or not np.array_equal(first, other)
    assert not first[-1].any()


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_many_at_once_play_as_one_at_a_time(name):
    many, one_by_one = (
        gymnasium.make_vec(name, num_envs=5, vectorization_mode=mode, **ENVIRONMENTS[name])
        for mode in ("vector_entry_point", "sync")
    )
    assert isinstance(many.unwrapped, ProblemVectorEnv)
    np.testing.assert_allclose(many.reset(seed=11)[0], one_by_one.reset(seed=11)[0], rtol=1e-6)
    many.action_space.seed(0)
    num_over = 0
    for _ in range(60):
        actions = many.action_space.sample()
        for left, right in zip(many.step(actions)[:4], one_by_one.step(actions)[:4], strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
        num_over += many.unwrapped._is_over.sum()
    assert num_over > 5


def test_the_observation_is_the_state_of_the_paper():
    problem = rampup.make("adw", n=3, m=5, V=2.0)
    env = ProblemEnv(problem)
    observation, _ = env.reset(seed=0)
    assert observation.shape == (2 * 3 + 2,)
    np.testing.assert_allclose(observation[[0, 4, 5, 6, 7]], [0.2, 1, 1, 1, 0], rtol=1e-6)
    bids = np.asarray(env._instance.bids)
    np.testing.assert_allclose(observation[1:4], bids[0], rtol=1e-6)
    observation, *_ = env.step(2)
    np.testing.assert_allclose(observation[5], 1 - bids[0, 1], rtol=1e-6)
    np.testing.assert_allclose(observation[7], bids[0, 1] / 2.0, rtol=1e-6)


def test_after_the_end_nothing_happens_any_more():
    env = ProblemEnv("bcp", n=5, render_mode="ansi")
    env.reset(seed=0)
    assert env.render().startswith("seen: 0.200 1.000")
    _, _, is_over, _, _ = env.step(1)
    assert is_over
    observation, reward, is_over, _, _ = env.step(1)
    assert (reward, is_over) == (0.0, True)
    assert not observation.any()
    assert env.render() == "the episode is over"


def test_without_parameters_the_sizes_are_those_of_the_paper():
    assert gymnasium.make("rampup/BestChoice-v0").unwrapped.problem.horizon == 100
    assert gymnasium.make("rampup/AdWords-v0").observation_space.shape == (22,)
    series = gymnasium.make("rampup/BestChoice-v0", series=[1, 0.5, 0.5])
    assert series.unwrapped.problem.horizon == 3


def test_bad_actions_and_parameters_are_refused():
    env = ProblemEnv("bcp", n=5)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"`action` must be one of 0..1, got 2"):
        env.step(2)
    with pytest.raises(ValueError, match="`n` must be a whole number"):
        gymnasium.make("rampup/BestChoice-v0", n=0)


def test_sizes_above_one_widen_the_observation_space():
    env = ProblemEnv("okd", n=5, B=10.0, V=3.0, sizes={"kind": "empirical", "sample": [3.0, 7.0]})
    assert env.observation_space.high[1] == 7.0
    assert env.observation_space.contains(env.reset(seed=0)[0])
