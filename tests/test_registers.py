"""Episodes played in a kernel against the same episodes played side by side."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rampup
from rampup import kernels, registers, streams
from rampup.lanes import in_single_precision
from rampup.learn import sampler
from rampup.learn.sampler import Behaviour, branches

PROBLEMS = {
    "bcp": ({"n": 9}, "monomial:4"),
    "okd": ({"n": 6, "B": 1.0, "V": 1.2, "sizes": {"kind": "random_histogram", "seed": 1}}, "legendre:2"),
    "adw": ({"n": 3, "m": 4, "V": 1.5}, "monomial:2"),
}
OTHERS = {
    "choice": ({"n": 7, "k": 2}, "monomial:2"),
    "okd_value": ({"n": 6, "B": 1.0}, "monomial:2"),
    "adw_value": ({"n": 3, "m": 4}, "monomial:2"),
    "prophet": ({"n": 5}, "monomial:3"),
    "bin_packing": ({"n": 5}, "monomial:2"),
}


def both_ways(monkeypatch, name, **settings):
    parameters, spec = (PROBLEMS | OTHERS)[name]
    problem = rampup.make(name, **parameters)
    features = rampup.as_features(spec, problem)
    theta = jax.random.normal(jax.random.key(1), (features.size,))
    behaviour = settings.pop("behaviour", False) and Behaviour(jnp.asarray(True), theta / 2)
    given = {"num_lanes": 70, "regularisation": None, "clip": 3.0} | settings

    def play():
        return jax.jit(lambda theta: branches(problem, features, theta, behaviour or None, streams.key(2), **given))(
            theta
        )

    side_by_side = play()
    monkeypatch.setattr(sampler, "_fits_a_kernel", lambda *_: True)
    return side_by_side, play()


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"behaviour": True, "regularisation": 0.1},
        {"is_paired": True, "num_branches": 3},
    ],
    ids=["plain", "fixed sampler and entropy", "pairs at few steps"],
)
def test_a_kernel_plays_the_same_episodes(monkeypatch, name, settings):
    for one, other in zip(*both_ways(monkeypatch, name, **settings), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OTHERS)
def test_a_kernel_plays_the_same_episodes_of_other_problems(monkeypatch, name):
    for one, other in zip(*both_ways(monkeypatch, name), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["load_balancing", "set_cover"])
def test_problems_for_which_a_kernel_has_no_rule_are_known_to_be_such(monkeypatch, name):
    problem = in_single_precision(rampup.make(name, n=4))
    features = rampup.as_features("monomial:2", problem)
    player = sampler._Player(problem, features, jnp.zeros((1, features.size), jnp.float32), None, None, None)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert kernels.can_be_had()
    assert not sampler._fits_a_kernel(player)


def test_kernels_are_for_gpus_and_for_a_jax_that_can_write_them(monkeypatch):
    for backend, has_triton in [("gpu", True), ("gpu", False), ("cpu", True), ("tpu", True)]:
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        monkeypatch.setattr(kernels, "find_spec", lambda name, has_triton=has_triton: name if has_triton else None)
        assert kernels.can_be_had() == (backend == "gpu" and has_triton)


def test_runs_in_one_batch_are_played_by_one_kernel():
    loop = registers.Loop(
        lambda rate, lane: lane, lambda rate, lane, step, carried: carried * rate + step.astype(float)
    )
    rates = jnp.asarray([0.5, 2.0])
    lanes = jnp.arange(2.0 * registers.BLOCK).reshape(2, registers.BLOCK)
    found = jax.vmap(lambda rate, lanes: loop.play(3, rate, lanes).array)(rates, lanes)
    wanted = lanes
    for step in range(3):
        wanted = wanted * rates[:, None] + step
    np.testing.assert_allclose(found, wanted)


def test_a_common_table_is_looked_up_by_the_clock_and_by_each_lane_for_itself():
    table = jnp.arange(5.0) ** 2
    by_clock = registers.Loop(lambda table, lane: lane, lambda table, lane, step, carried: carried + table[step])
    by_lane = registers.Loop(lambda table, lane: lane, lambda table, lane, step, carried: table[lane.astype(int)])
    found = by_clock.play(7, table, jnp.zeros(registers.BLOCK)).array
    # The clock runs past the end of the table, where JAX reads its last number.
    np.testing.assert_allclose(found, np.full(registers.BLOCK, 0 + 1 + 4 + 9 + 16 + 16 + 16))
    places = np.arange(registers.BLOCK) % 7
    found = by_lane.play(1, table, jnp.asarray(places, float)).array
    np.testing.assert_allclose(found, np.minimum(places, 4) ** 2)


def test_a_look_up_of_its_own_in_what_a_lane_has_alone_has_no_rule():
    loop = registers.Loop(lambda _, lane: lane[0], lambda _, lane, step, carried: lane[carried.astype(int)])
    assert not loop.has_rules(jnp.zeros(()), jax.ShapeDtypeStruct((3,), float))


def test_a_sort_has_no_rule_and_is_played_side_by_side():
    loop = registers.Loop(lambda _, lane: lane, lambda _, lane, step, carried: jnp.sort(carried))
    assert not loop.has_rules(jnp.zeros(()), jax.ShapeDtypeStruct((3,), float))


def test_lanes_are_filled_up_to_whole_blocks():
    assert registers.filled(1) == registers.BLOCK
    assert registers.filled(registers.BLOCK) == registers.BLOCK
    assert registers.filled(registers.BLOCK + 1) == 2 * registers.BLOCK
