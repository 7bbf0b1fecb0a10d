"""One run over several devices, and over several processes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from hand_made import TINY

from rampup import streams
from rampup.devices import Share
from rampup.features import as_features
from rampup.learn.estimators import ESTIMATORS
from rampup.learn.sampler import Behaviour
from rampup.problems import make

SMALL = TINY | {
    "problem": {"name": "bcp", "parameters": {"n": 20}},
    "warmup": {"parameters": {"n": 5}},
    "features": "monomial:4",
    "seeds": 1,
    "trainer": TINY["trainer"] | {"iterations": 600, "warmup_iterations": 300, "num_lanes": 30, "record_every": 20},
}


def test_children_are_those_that_split_makes():
    for parent in (streams.key(3), jax.random.fold_in(streams.key(0), 7)):
        every = jax.random.key_data(jax.random.split(parent, 50))
        numbers = jnp.asarray([0, 7, 49, 3])
        np.testing.assert_array_equal(jax.random.key_data(streams.children(parent, numbers)), every[numbers])


@pytest.mark.parametrize("estimator", ["algorithm4", "paired"])
@pytest.mark.parametrize("name", ["bcp", "okd", "adw"])
@pytest.mark.parametrize(("num_shares", "num_branches"), [(3, None), (4, 2), (12, None)])
def test_shares_of_the_lanes_add_up_to_all_of_them(name, estimator, num_shares, num_branches):
    """Ten lanes: shares of 4, 4 and 2, and of one or none."""
    problem = make(name, **{"bcp": {"n": 6}, "okd": {"n": 6, "B": 1, "V": 2}, "adw": {"n": 3, "m": 4, "V": 1}}[name])
    features = as_features("monomial:2", problem)
    theta = jnp.linspace(-1, 1, features.size)
    behaviour = Behaviour(jnp.asarray(True), -theta)

    def of_share(share):
        settings = {"num_lanes": 10, "num_branches": num_branches, "regularisation": 0.1, "clip": 15.0, "share": share}
        return ESTIMATORS[estimator](problem, features, theta, behaviour, streams.key(5), **settings)

    whole = jax.jit(lambda: of_share(None))()
    one = jax.jit(lambda place: of_share(Share(place, num_shares)))
    shares = [one(jnp.asarray(place)) for place in range(num_shares)]
    added = jax.tree.map(lambda *parts: sum(parts), *shares)
    for part, wanted in zip(added, whole, strict=True):
        # Episodes are played in single precision, and compilers round those of a share in another order.
        np.testing.assert_allclose(part, wanted, rtol=0, atol=1e-6 * float(jnp.max(jnp.abs(wanted))))


UPDATES = """
import sys
import numpy as np
from rampup.runtime import set_up
set_up()
from rampup import config, plans
from rampup.learn.trainer import Training
chosen = plans.plan(config.load(sys.argv[1], overrides=sys.argv[3:]))
training = Training(chosen.runs, chosen.features, chosen.settings, chosen.reference_for)
thetas, values = [], []
while rows := training.advance():
    thetas.append(training.live[0].theta.copy())
    values.append([rows[0]["value"], *rows[0]["value_interval"]])
np.savez(sys.argv[2], thetas=np.array(thetas), values=np.array(values))
"""


def trained_on(num_devices, path, experiment, *changes):
    env = os.environ | {"XLA_FLAGS": f"--xla_force_host_platform_device_count={num_devices}"}
    subprocess.run([sys.executable, "-c", UPDATES, experiment, path, *changes], check=True, env=env, timeout=300)
    return np.load(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("experiment", "parameters"),
    [
        ("bcp-classical", "{n: 20}"),
        pytest.param("okd-uniform", "{n: 10, B: 1, V: 2}", marks=pytest.mark.long),
        pytest.param("adw-special", "{n: 3, m: 6, V: 2.64, bids: special}", marks=pytest.mark.long),
    ],
)
def test_four_devices_make_the_same_updates_as_one(tmp_path, experiment, parameters):
    changes = [
        f"problem.parameters={parameters}",
        "schemes=[direct_reg]",
        "trainer.iterations=60",
        "trainer.num_lanes=50",
        "trainer.record_every=1",
        "trainer.effort={episodes: 256, groups: 2, replicates: 2}",
    ]
    one, four = (trained_on(count, tmp_path / f"{count}.npz", experiment, *changes) for count in (1, 4))
    scale = np.max(np.abs(one["thetas"][:3]))
    np.testing.assert_allclose(four["thetas"][:3], one["thetas"][:3], rtol=0, atol=1e-6 * scale)
    _, low, high = one["values"][-1]
    # An exact value has no interval; rounding grows over sixty updates.
    assert low - 0.01 <= four["values"][-1][0] <= high + 0.01


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def together(command, out):
    """The same command in two processes that meet."""
    meeting = ["--coordinator", f"127.0.0.1:{free_port()}", "--num-processes", "2", "--process-id"]
    begin = lambda number: subprocess.Popen(
        [sys.executable, "-m", "rampup", *command, *meeting, str(number)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=out,
    )
    return begin(0), begin(1)


def rows_of(path):
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def wait_for_rows(process, path, count):
    while process.poll() is None and (not (path / "metrics.jsonl").exists() or len(rows_of(path)) < count):
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_processes_train_one_run_and_survive_each_others_death(tmp_path):
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(SMALL))
    whole = subprocess.run(
        [sys.executable, "-m", "rampup", "run", "tiny.yaml", "--out", "alone"], cwd=tmp_path, capture_output=True
    )
    assert whole.returncode == 0
    command = ["run", "tiny.yaml", "--out", "both"]
    for victim in (1, 0):
        processes = together(command, tmp_path)
        have = len(rows_of(tmp_path / "both")) if (tmp_path / "both" / "metrics.jsonl").exists() else 0
        wait_for_rows(processes[0], tmp_path / "both", have + 6)
        os.kill(processes[victim].pid, signal.SIGKILL)
        said, complaint = processes[1 - victim].communicate(timeout=90)
        assert processes[1 - victim].returncode == 1
        assert said == ""
        assert re.fullmatch(r"rampup: another process of this run is gone.*start all processes again.*\n", complaint)
        processes[victim].communicate()
        command = ["resume", "both"]
    first, second = together(command, tmp_path)
    table, complaint = first.communicate(timeout=300)
    assert second.communicate(timeout=300) == ("", "")
    assert (first.returncode, second.returncode, complaint) == (0, 0, "")
    assert table.startswith("scheme ")
    alone, both = rows_of(tmp_path / "alone"), rows_of(tmp_path / "both")
    assert [row["iteration"] for row in both] == [row["iteration"] for row in alone]
    for own, other in zip(both, alone, strict=True):
        # Rounding grows with the updates; the random numbers are the same to the last of them.
        assert own["value"] == pytest.approx(other["value"], abs=1e-6)


@pytest.mark.slow
def test_a_helper_with_another_experiment_is_refused(tmp_path):
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(SMALL))
    meeting = ["--coordinator", f"127.0.0.1:{free_port()}", "--num-processes", "2", "--process-id"]
    begin = lambda number, *more: subprocess.Popen(
        [sys.executable, "-m", "rampup", "run", "tiny.yaml", "--out", "x", *more, *meeting, str(number)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    first, second = begin(0), begin(1, "--set", "trainer.learning_rate=0.2")
    assert "runs another experiment: give all of them the same command" in second.communicate(timeout=90)[1]
    assert second.returncode == 2
    assert "another process of this run is gone" in first.communicate(timeout=90)[1]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--coordinator", "127.0.0.1:4000"], "go together: give all three"),
        (["--coordinator", "nowhere", "--process-id", "0", "--num-processes", "2"], "as host:port, got 'nowhere'"),
        (["--coordinator", "a:99999", "--process-id", "0", "--num-processes", "2"], "as host:port, got 'a:99999'"),
        (["--coordinator", "a:4000", "--process-id", "2", "--num-processes", "2"], "must be 0 to 1"),
        (["--coordinator", "a:4000", "--process-id", "0", "--num-processes", "0"], "must be 0 to 0"),
    ],
)
def test_processes_that_cannot_meet_are_refused(options, sentence, tmp_path):
    command = [sys.executable, "-m", "rampup", "run", "bcp-classical", "--out", tmp_path / "run", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()
