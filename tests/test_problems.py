"""The problems against a plain transcription of their rules, the conformance suite, and known distributions."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import plain
import pytest

import rampup
from rampup.episodes import play
from rampup.lanes import in_single_precision

NUM_INSTANCES = 1000

PROBLEMS = {
    "bcp classical": ("bcp", {"n": 20}),
    "bcp random": ("bcp", {"n": 13, "series": "random:3"}),
    "okd uniform": ("okd", {"n": 20, "B": 2.0, "V": 4.0}),
    "okd histogram": ("okd", {"n": 15, "B": 1.5, "V": 2.5, "sizes": "random_histogram", "values": "special"}),
    "adw uniform": ("adw", {"n": 4, "m": 12, "V": 3.0}),
    "adw special": ("adw", {"n": 3, "m": 6, "V": 2.64, "bids": "special"}),
    "adw b-matching": ("adw", {"n": 3, "m": 9, "V": 2.0, "bids": {"kind": "bernoulli", "prob": 0.3, "value": 0.5}}),
    "adw own": ("adw", {"n": 2, "m": 6, "V": 1.0, "bids": ["uniform", {"kind": "empirical", "sample": [0.1, 0.7]}]}),
}

EDGES = {
    "bcp of one": ("bcp", {"n": 1}),
    "bcp all records": ("bcp", {"series": [1.0] * 6}),
    "bcp one record": ("bcp", {"series": [1.0, 0.0, 0.0]}),
    "okd of one": ("okd", {"n": 1, "B": 0.5, "V": 0.2}),
    "okd without a bag": ("okd", {"n": 5, "B": 0, "V": 1}),
    "okd out of reach": ("okd", {"n": 5, "B": 1, "V": 5}),
    "adw of one": ("adw", {"n": 1, "m": 1, "V": 0.2}),
}


def made(name):
    problem, parameters = (PROBLEMS | EDGES)[name]
    return rampup.make(problem, **parameters)


def uniform_policy(problem):
    return lambda observation: jnp.full((problem.num_actions,), -math.log(problem.num_actions))


def eager_policy(problem):
    """Mostly accepts, so that budgets run out and targets are met."""
    odds = np.where(np.arange(problem.num_actions) > 0, 4.0, 1.0)
    return lambda observation: jnp.log(jnp.asarray(odds / odds.sum()))


def replayed(problem, instance, actions):
    if isinstance(problem, rampup.BCP):
        return plain.play_bcp(instance.is_record.tolist(), actions)
    if isinstance(problem, rampup.OKD):
        numbers = instance.sizes.tolist(), instance.values.tolist()
        return plain.play_okd(*numbers, float(problem.budget), float(problem.target), actions)
    return plain.play_adw(instance.bids.tolist(), float(problem.target), actions)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_thousand_instances_replay_as_the_plain_rules_say(name):
    problem = made(name)
    keys = jax.random.split(jax.random.key(1), NUM_INSTANCES)
    policy = eager_policy(problem)
    episodes = jax.device_get(jax.jit(jax.vmap(lambda key: play(problem, policy, key)))(keys))
    instance_keys = jax.vmap(lambda key: jax.random.split(key)[0])(keys)
    instances = jax.device_get(jax.jit(jax.vmap(problem.draw))(instance_keys))
    num_rewards = 0
    for lane in range(NUM_INSTANCES):
        instance = jax.tree.map(lambda leaf, lane=lane: leaf[lane], instances)
        seen, earned = replayed(problem, instance, episodes.actions[lane].tolist())
        length = len(earned)
        assert episodes.is_alive[lane].tolist() == [step < length for step in range(problem.horizon)]
        np.testing.assert_allclose(episodes.observations[lane, :length], seen, rtol=1e-14, atol=1e-14)
        assert episodes.rewards[lane, :length].tolist() == earned
        assert not episodes.observations[lane, length:].any()
        assert not episodes.rewards[lane, length:].any()
        num_rewards += sum(earned)
    assert 0 < num_rewards < NUM_INSTANCES


@pytest.mark.parametrize("name", PROBLEMS | EDGES)
def test_every_problem_keeps_the_contract(name):
    rampup.check_problem(made(name))


@pytest.mark.parametrize("name", EDGES)
def test_edges_play_to_the_end(name):
    problem = made(name)
    episode = play(problem, uniform_policy(problem), jax.random.key(0))
    assert bool(episode.is_over)
    assert np.isfinite(episode.observations).all()


def test_all_rejecting_earns_nothing():
    problem = made("okd uniform")
    never = lambda observation: jnp.asarray([0.0, -jnp.inf])
    episode = play(problem, never, jax.random.key(0))
    assert episode.is_alive.all()
    assert episode.rewards.sum() == 0


@pytest.mark.slow
def test_single_precision_keeps_the_contract_too():
    with jax.enable_x64(False):
        for name in ("bcp classical", "okd histogram", "adw own"):
            problem = made(name)
            assert problem.draw(jax.random.key(0))[-1].dtype in (jnp.float32, jnp.int32)
            rampup.check_problem(problem)


def test_the_same_key_draws_the_same_instance_and_another_does_not():
    problem = made("okd uniform")
    first, again, other = (problem.draw(jax.random.key(seed)) for seed in (5, 5, 6))
    assert np.array_equal(first.sizes, again.sizes)
    assert not np.array_equal(first.sizes, other.sizes)
    assert not np.array_equal(first.sizes, first.values)


def test_record_flags_come_with_their_probabilities():
    problem = rampup.make("bcp", n=8, series=[1.0, 0.9, 0.5, 0.1, 0.0, 1.0, 0.3, 0.7])
    num_draws = 20_000
    instances = jax.vmap(problem.draw)(jax.random.split(jax.random.key(2), num_draws))
    probs = np.asarray(problem.record_probs)
    spread = np.sqrt(probs * (1 - probs) / num_draws)
    assert (np.abs(np.asarray(instances.is_record).mean(axis=0) - probs) <= 4.5 * spread).all()
    pairs = np.corrcoef(np.asarray(instances.is_record[:, [1, 2, 3, 6, 7]]), rowvar=False)
    assert np.abs(pairs - np.eye(5)).max() <= 4.5 / math.sqrt(num_draws)


DISTRIBUTIONS = {
    "uniform": (rampup.Uniform(0.2, 0.7), lambda z: np.clip((z - 0.2) / 0.5, 0, 1)),
    "histogram": (
        rampup.Histogram([1, 0, 3, 2]),
        lambda z: np.interp(z, [0, 0.25, 0.5, 0.75, 1.0], [0, 1 / 6, 1 / 6, 4 / 6, 1]),
    ),
    "special": (rampup.Special(), lambda z: np.where(z < 0.4, 0.0, np.clip(0.9 + 0.1 * (z - 0.6) / 0.4, 0.9, 1))),
    "bernoulli": (rampup.Bernoulli(0.3, 0.5), lambda z: np.where(z < 0.5, 0.7, 1.0)),
    "empirical": (
        rampup.Empirical([0.9, 0.1, 0.1, 0.4]),
        lambda z: np.searchsorted([0.1, 0.1, 0.4, 0.9], z, "right") / 4,
    ),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_draws_follow_the_distribution_function(name):
    distribution, cdf = DISTRIBUTIONS[name]
    num_draws = 40_000
    draws = np.sort(distribution.draw(jax.random.key(3), (num_draws,)))
    low, high = distribution.support()
    assert low <= draws[0]
    assert draws[-1] <= high
    grid = np.linspace(0, 1.05, 211)
    # Dvoretzky-Kiefer-Wolfowitz: the sup of the difference exceeds this with probability 1e-6.
    bound = math.sqrt(math.log(2 / 1e-6) / (2 * num_draws))
    below = np.searchsorted(draws, grid, side="right") / num_draws
    assert np.abs(below - cdf(grid)).max() <= bound


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("num_bins", [1, 10, 32, 33, 200])
def test_quantiles_of_few_and_of_many_bins_are_the_inverse_of_the_distribution_function(num_bins, dtype):
    weights = np.random.default_rng(num_bins).uniform(size=num_bins)
    histogram = in_single_precision(rampup.Histogram(weights)) if dtype == jnp.float32 else rampup.Histogram(weights)
    uniforms = jnp.linspace(0, 1, 2001, dtype=dtype)[:-1].reshape(20, 100)
    edges = np.concatenate([[0], np.cumsum(weights)]) / weights.sum()
    wanted = np.interp(np.asarray(uniforms, float), edges, np.linspace(0, 1, num_bins + 1))
    found = histogram.quantile(uniforms)
    assert found.dtype == dtype
    assert float(found.max()) <= 1
    # A sum of as many numbers up to 1 as there are bins, and edges rounded to the precision.
    np.testing.assert_allclose(found, wanted, atol=10 * num_bins * float(jnp.finfo(dtype).eps), rtol=0)


def test_a_histogram_never_draws_from_an_empty_bin():
    draws = rampup.Histogram([0, 1, 0, 1, 0]).quantile(jnp.linspace(0, 1, 10_001)[:-1])
    inside = ((draws >= 0.2) & (draws <= 0.4)) | ((draws >= 0.6) & (draws <= 0.8))
    assert inside.all()


def test_the_random_series_does_not_depend_on_its_length():
    long, short = (np.asarray(rampup.make("bcp", n=n, series="random:9").record_probs) for n in (50, 10))
    np.testing.assert_allclose(long[:10], short, rtol=1e-15)
    i = np.arange(2, 51)
    assert ((long[1:] >= i**-2.25) & (long[1:] <= i**-0.25)).all()
    other = np.asarray(rampup.make("bcp", n=50, series="random:10").record_probs)
    assert not np.allclose(long, other)


def test_a_series_can_come_from_a_file(tmp_path):
    path = tmp_path / "series"
    path.write_text("[1, 0.5, 0.25]")
    for given in (path, str(path)):
        assert rampup.make("bcp", series=given).record_probs.tolist() == [1.0, 0.5, 0.25]
