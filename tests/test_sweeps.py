"""Sweeps: planned from a file, run here or on a Ray cluster, set side by side."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import yaml
from hand_made import TINY
from hypothesis import given, settings
from hypothesis import strategies as st

from rampup.conductor import go_together
from rampup.report.sweep_page import points_of, write_sweep_report
from rampup.sweeps import plan
from rampup.sweeps.engines import batches
from rampup.sweeps.plan import Range

SWEEP = {"name": "first", "experiment": TINY, "grid": {"trainer.learning_rate": [0.05, 0.2], "trainer.radius": [1, 10]}}


@pytest.fixture
def file(tmp_path):
    def write(**changes):
        path = tmp_path / "sweep.yaml"
        path.write_text(yaml.safe_dump(SWEEP | changes))
        return path

    return write


def tasks_of(path):
    return plan.tasks_of(plan.read(str(path)), str(path))


def test_a_grid_a_list_and_random_points_are_combined(file):
    tasks = tasks_of(
        file(
            list=[{"problem.parameters.n": 12}, {"problem.parameters.n": 16}],
            random={"count": 3, "axes": {"trainer.clip": {"low": 5.0, "high": 20.0}, "trainer.solver": ["ball"]}},
            seeds=[4, 7],
            schemes=["curl"],
        )
    )
    assert len(tasks) == 4 * 2 * 3 * 2
    assert [task.number for task in tasks] == list(range(48))
    assert {task.seed for task in tasks} == {4, 7}
    for task in tasks:
        trainer = task.experiment.trainer
        assert trainer.learning_rate == task.point["trainer.learning_rate"]
        assert trainer.clip == task.point["trainer.clip"]
        assert task.experiment.problem.parameters["n"] == task.point["problem.parameters.n"]
        assert (task.experiment.schemes, task.experiment.seeds) == (["curl"], [task.seed])
    clips = {task.point["trainer.clip"] for task in tasks}
    assert len(clips) == 3
    assert all(5 <= clip <= 20 for clip in clips)


def test_a_resolved_sweep_reads_as_the_same(file, tmp_path):
    for changes in ({}, {"random": {"count": 2, "axes": {"trainer.radius": {"low": 1, "high": 9, "scale": "log"}}}}):
        sweep = plan.read(str(file(**changes)))
        (tmp_path / "kept.yaml").write_text(plan.as_yaml(sweep))
        assert plan.read(str(tmp_path / "kept.yaml")) == sweep


def test_the_experiment_may_be_a_file_beside_the_sweep(file, tmp_path, monkeypatch):
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(TINY))
    path = file(experiment="base.yaml", set={"trainer.num_lanes": 30})
    monkeypatch.chdir("/")
    assert {task.experiment.trainer.num_lanes for task in tasks_of(path)} == {30}
    assert len(tasks_of(file(experiment="bcp-classical", preset="quick"))) == 4 * 2 * 3


@given(st.integers(1, 50), st.integers(1, 50), st.booleans(), st.sampled_from(["linear", "log"]), st.integers(0, 99))
@settings(max_examples=60)
def test_draws_stay_in_their_range(low, width, is_whole, scale, seed):
    ends = (low, low + width) if is_whole else (float(low), float(low + width))
    drawn = [Range(low=ends[0], high=ends[1], scale=scale).drawn(np.random.default_rng(seed)) for _ in range(20)]
    assert all(ends[0] <= one <= ends[1] for one in drawn)
    assert all(isinstance(one, int if is_whole else float) for one in drawn)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"grid": {"trainer.learning_rte": [1]}}, "unknown key `trainer.learning_rte`: did you mean 'learning_rate'?"),
        ({"grid": {"trainer.learning_rate": ["fast"]}}, "`trainer.learning_rate`: input should be a valid number"),
        ({"grid": {"trainer.learning_rate": []}}, "`grid.trainer.learning_rate`: list should have at least 1 item"),
        ({"grid": {"problem.parameters.n.x": [1]}}, "'n' holds a value, not further keys"),
        ({"grid": {"seeds": [1, 2]}}, "`seeds` is no axis"),
        ({"grid": {"problem.parameters.n": [0]}}, "n"),
        ({"gird": {}}, "unknown key `gird`: did you mean 'grid'?"),
        ({"random": {"count": 2, "axes": {"trainer.radius": {"low": 3, "high": 1}}}}, "`low` must be below `high`"),
        ({"random": {"count": 2, "axes": {"trainer.radius": {"low": 0, "high": 1, "scale": "log"}}}}, "above 0"),
        ({"random": {"count": 0, "axes": {}}}, "`random.count`"),
        ({"experiment": "bcp-clasical"}, "unknown experiment 'bcp-clasical': did you mean 'bcp-classical'?"),
        ({"experiment": "nowhere.yaml"}, "cannot read the experiment file"),
        ({"preset": "slow", "experiment": "bcp-classical"}, "unknown preset 'slow'"),
        ({"list": [1]}, "`list.0`: input should be a valid dictionary"),
        ({"seeds": "x"}, "`seeds`"),
        ({"schemes": ["curll"]}, "curll"),
        ({"random": {"count": 5000, "axes": {"trainer.radius": [1, 2]}}}, "at most 10000 runs"),
    ],
)
def test_a_bad_sweep_is_one_sentence_and_changes_nothing(called, file, tmp_path, changes, sentence):
    code, output, complaint = called("sweep", file(**changes), "--out", tmp_path / "out")
    assert (code, output) == (2, "")
    assert sentence in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_no_file_an_unknown_engine_and_an_address_without_ray_are_refused(called, file, tmp_path):
    for arguments, sentence in [
        (["nowhere.yaml"], "cannot read the sweep file 'nowhere.yaml'"),
        ([file(), "--engine", "rey"], "unknown engine 'rey': did you mean 'ray'?"),
        ([file(), "--address", "here:1"], "`--address` is for `--engine ray`"),
        ([file(), "--resume"], "there is no sweep in"),
    ]:
        code, _, complaint = called("sweep", *arguments, "--out", tmp_path / "out")
        assert code == 2
        assert sentence in complaint


def test_without_ray_one_is_told_how_to_get_it(called, file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, _, complaint = called("sweep", file(), "--engine", "ray", "--out", tmp_path / "out")
    assert code == 2
    assert "pip install 'rampup[ray]'" in complaint
    assert not (tmp_path / "out").exists()


def table(path):
    return pd.read_parquet(path / "results.parquet")


def assert_same_table(one, other):
    assert len(one) == len(other)
    for name in one.columns:
        if name == "seconds":
            continue
        if one[name].dtype.kind == "f":
            np.testing.assert_allclose(one[name], other[name], rtol=0, atol=1e-6)
        else:
            assert list(one[name].fillna("")) == list(other[name].fillna(""))


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep of sixteen runs that nothing interrupted."""
    place = tmp_path_factory.mktemp("sweeps")
    (place / "sweep.yaml").write_text(yaml.safe_dump(SWEEP))
    command = [sys.executable, "-m", "rampup", "sweep", "sweep.yaml", "--out", "whole", "--json"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"runs": 16, "completed": 16, "failed": 0, "table": "whole/results.parquet"}
    return place


def test_the_table_has_a_row_for_each_run_and_its_numbers_are_those_of_the_folders(swept):
    rows = table(swept / "whole")
    assert len(rows) == 16
    assert set(rows["state"]) == {"finished"}
    for row in rows.to_dict("records"):
        folder = swept / "whole" / "runs" / f"{row['run']:05d}"
        last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
        config = yaml.safe_load((folder / "config.yaml").read_text())
        assert (last["scheme"], last["seed"], last["value"], last["samples"]) == (
            row["scheme"],
            row["seed"],
            row["value"],
            row["samples"],
        )
        assert config["trainer"]["learning_rate"] == row["trainer.learning_rate"]
        assert config["trainer"]["radius"] == row["trainer.radius"]


def test_runs_that_go_together_give_the_same_as_one_by_one(swept, called, tmp_path):
    tasks = tasks_of(swept / "sweep.yaml")
    assert [len(batch) for batch in batches(tasks, 5)] == [5, 5, 5, 1]
    assert len({go_together(task.experiment) for task in tasks}) == 1
    code, output, _ = called("sweep", swept / "sweep.yaml", "--out", tmp_path / "five", "--batch", 5, "--json")
    assert (code, json.loads(output)["completed"]) == (0, 16)
    assert_same_table(table(tmp_path / "five"), table(swept / "whole"))


def test_runs_that_differ_in_more_than_numbers_do_not_go_together(file):
    tasks = tasks_of(file(grid={"trainer.num_lanes": [20, 30], "problem.parameters.n": [12, 16]}, seeds=1))
    assert sorted(len(batch) for batch in batches(tasks, 99)) == [2, 2, 2, 2]


def test_a_finished_run_is_not_run_again(swept, called, tmp_path):
    shutil.copytree(swept / "whole", tmp_path / "again")
    (tmp_path / "again" / "results.parquet").unlink()
    shutil.rmtree(tmp_path / "again" / "runs" / "00003")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "again" / "runs").rglob("*") if path.is_file()}
    code, output, _ = called("sweep", swept / "sweep.yaml", "--out", tmp_path / "again", "--resume", "--json")
    assert (code, json.loads(output)["completed"]) == (0, 16)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert_same_table(table(tmp_path / "again"), table(swept / "whole"))


def test_another_sweep_or_a_folder_in_use_is_refused(swept, called, file):
    for arguments, sentence in [
        ([swept / "sweep.yaml"], "holds a sweep already: go on with `--resume`"),
        ([file(grid={"trainer.radius": [3]}), "--resume"], "is another one than the file says"),
    ]:
        code, _, complaint = called("sweep", *arguments, "--out", swept / "whole")
        assert code == 2
        assert sentence in complaint


def test_a_run_that_fails_is_told_and_the_others_go_on(called, file, tmp_path):
    path = file(grid={"trainer.learning_rate": [0.1, 1e308], "trainer.radius": [1e6]}, schemes=["direct"], seeds=1)
    for batch in (1, 2):
        out = tmp_path / str(batch)
        code, output, _ = called("sweep", path, "--out", out, "--batch", batch, "--json")
        assert code == 1
        answer = json.loads(output)
        assert (answer["runs"], answer["completed"], answer["failed"]) == (2, 1, 1)
        rows = table(out)
        assert list(rows["state"]) == ["finished", "failed"]
        assert "not finite" in rows["error"][1]
        assert "not finite" in (out / "report.html").read_text()


def test_a_sweep_of_which_nothing_is_finished_has_a_report_all_the_same(tmp_path):
    row = {"run": 0, "trainer.radius": 1, "scheme": "curl", "seed": 0, "state": "failed", "error": "it broke"}
    for rows in ([row], [row | {"state": "open", "error": None}]):
        write_sweep_report("all lost", "", "", "value", rows, tmp_path / "page.html")
        page = (tmp_path / "page.html").read_text()
        assert "No run is finished yet." in page
        assert ("it broke" in page) == (rows[0]["state"] == "failed")


@pytest.mark.parametrize("measure", ["value", "success rate"])
def test_the_report_of_a_sweep_says_what_its_values_are(swept, tmp_path, measure):
    write_sweep_report("one", "", "", measure, table(swept / "whole").to_dict("records"), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert f'<th scope="col">{measure}</th>' in page
    assert f"The {measure} against each setting" in page


def test_the_report_holds_the_numbers_of_the_table_and_nothing_from_outside(swept):
    page = (swept / "whole" / "report.html").read_text()
    rows = table(swept / "whole").to_dict("records")
    written = [float(one) for one in re.findall(r'data-value="([^"]+)"', page)]
    assert written == [one["value"] for one in points_of(rows)]
    assert not re.search(r"https?://|<script", page)
    for heading in ("Best settings", "What matters", "Response curves", "Interactions", "Time and samples"):
        assert heading in page


def test_the_report_in_a_real_browser(swept, browser):
    browser.get((swept / "whole" / "report.html").as_uri())
    assert browser.get_log("browser") == []
    shown = [float(one.text) for one in browser.find_elements("css selector", "td[data-value]")]
    best = points_of(table(swept / "whole").to_dict("records"))
    assert shown == [round(one["value"], 4) for one in best]
    charts = browser.find_elements("css selector", ".responses svg")
    assert [chart.get_attribute("aria-label") for chart in charts] == [
        "success rate against trainer.learning_rate",
        "success rate against trainer.radius",
    ]
    # Every point of every scheme is inside its picture.
    for chart in charts:
        dots = chart.find_elements("css selector", "circle")
        assert len(dots) == 4
        assert all(0 <= float(dot.get_attribute("cx")) <= 520 for dot in dots)
        assert all(0 <= float(dot.get_attribute("cy")) <= 260 for dot in dots)
    # On a phone the page does not scroll sideways.
    browser.set_window_size(400, 800)
    assert browser.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")


def test_names_that_are_markup_stay_text(called, file, tmp_path):
    name = '<script>alert(1)</script> & "quotes" ../../x'
    path = file(name=name, grid={"trainer.radius": [1]}, schemes=["direct"], seeds=1)
    assert called("sweep", path, "--out", tmp_path / "out", "--json")[0] == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.mark.slow
def test_ctrl_c_saves_a_sweep_and_resume_ends_it(swept, tmp_path):
    long = SWEEP | {"set": {"trainer.iterations": 3000}, "schemes": ["direct"], "seeds": 2}
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(long))
    command = [sys.executable, "-m", "rampup", "sweep", "long.yaml", "--out", "long"]
    options = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, **options)
    while not list(tmp_path.glob("long/runs/*/metrics.jsonl")):
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    _, complaint = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "go on with the same command and `--resume`" in complaint
    done = subprocess.run([*command, "--resume", "--json"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert json.loads(done.stdout)["completed"] == 8


# Ray


def ray_tool(*options, **extra):
    tool = os.path.join(os.path.dirname(sys.executable), "ray")
    done = subprocess.run([tool, *options], capture_output=True, text=True, timeout=120, env=os.environ | extra)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def cluster():
    """A head and two workers, as processes of their own; they, and we, have the token."""
    pytest.importorskip("ray")
    ray_tool("stop", "--force")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef" * 4)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray_tool("start", "--head", "--port", "6391", "--num-cpus", "0", "--include-dashboard=false")
        for _ in range(2):
            ray_tool("start", "--address", "127.0.0.1:6391", "--num-cpus", "1")
        yield "127.0.0.1:6391"
        ray_tool("stop", "--force")


MANY = SWEEP | {"grid": {"trainer.learning_rate": [0.05, 0.1, 0.2, 0.4], "trainer.radius": [1, 10]}, "seeds": 4}


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Sixty-four runs, by the local engine."""
    pytest.importorskip("ray")
    place = tmp_path_factory.mktemp("many")
    (place / "sweep.yaml").write_text(yaml.safe_dump(MANY))
    done = sweep_in(place, "local")
    assert json.loads(done.communicate(timeout=300)[0])["completed"] == 64
    return place


def sweep_in(place, out, *options, **extra):
    command = [sys.executable, "-m", "rampup", "sweep", "sweep.yaml", "--out", out, "--json", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=place, env=os.environ | extra, **pipes)


def workers():
    """The processes in which Ray is at work on a run."""
    found = subprocess.run(["pgrep", "-f", "ray::_work_there"], capture_output=True, text=True).stdout
    return [int(one) for one in found.split()]


@pytest.mark.ray
@pytest.mark.timeout(900)
def test_killed_workers_and_drivers_lose_and_double_nothing(cluster, many):
    chance, killed = random.Random(0), 0
    options = ["--engine", "ray", "--address", cluster]
    process, drivers, begun = sweep_in(many, "killed", *options), 0, time.monotonic()
    while process.poll() is None:
        time.sleep(chance.uniform(2, 6))
        for one in chance.sample(found := workers(), k=min(len(found), 1 if killed < 8 else 0)):
            try:
                os.kill(one, signal.SIGKILL)
                killed += 1
            except ProcessLookupError:
                pass
        if drivers < 2 and time.monotonic() - begun > 25 * (drivers + 1):
            process.kill()
            process.communicate()
            drivers += 1
            process = sweep_in(many, "killed", *options, "--resume")
    output, complaint = process.communicate()
    assert json.loads(output)["completed"] == 64, complaint
    assert killed >= 3
    assert_same_table(table(many / "killed"), table(many / "local"))
    for folder in sorted((many / "killed" / "runs").iterdir()):
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        places = [(row["stage"], row["iteration"]) for row in rows]
        assert len(set(places)) == len(places)


@pytest.mark.ray
@pytest.mark.timeout(300)
def test_a_cluster_whose_token_we_have_not_is_one_sentence(cluster, many):
    process = sweep_in(many, "nowhere", "--engine", "ray", "--address", cluster, RAY_AUTH_MODE="disabled")
    _, complaint = process.communicate(timeout=200)
    assert process.returncode == 2
    assert re.search(r"does not let us in .* set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN", complaint.splitlines()[-1])
    assert not (many / "nowhere").exists()


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.timeout(300)
def test_a_cluster_of_this_machine_for_one_sweep_leaves_nothing_in_the_home(tmp_path):
    pytest.importorskip("ray")
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(SWEEP | {"schemes": ["direct"], "seeds": 1}))
    (tmp_path / "home").mkdir()
    process = sweep_in(tmp_path, "own", "--engine", "ray", HOME=str(tmp_path / "home"))
    output, complaint = process.communicate(timeout=280)
    assert json.loads(output)["completed"] == 4, complaint
    assert not (tmp_path / "home" / ".ray").exists()


@pytest.mark.ray
@pytest.mark.timeout(300)
def test_where_the_cluster_has_gpus_a_batch_asks_for_one(tmp_path):
    """Ray is told of a GPU that is not there: it hands out the resource, and JAX works on the processor."""
    pytest.importorskip("ray")
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(SWEEP | {"schemes": ["direct"], "seeds": 1}))
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4, "RAY_USAGE_STATS_ENABLED": "0"}
    ray_tool("stop", "--force")
    ray_tool("start", "--head", "--port", "6392", "--num-cpus=1", "--num-gpus=1", "--include-dashboard=false", **token)
    process = sweep_in(tmp_path, "out", "--engine", "ray", "--address", "127.0.0.1:6392", **token)
    output, complaint = process.communicate(timeout=280)
    ray_tool("stop", "--force")
    assert json.loads(output)["completed"] == 4, complaint
    seen = [json.loads((one / "provenance.json").read_text()) for one in (tmp_path / "out" / "runs").iterdir()]
    assert [one["device"]["visible"] for one in seen] == ["0"] * 4


@pytest.mark.ray
@pytest.mark.timeout(300)
def test_a_cluster_that_is_not_there_is_one_sentence(many):
    for address, sentence in [("127.0.0.1:1", "no Ray cluster answers at '127.0.0.1:1'"), ("nowhere", "host:port")]:
        process = sweep_in(many, "nowhere", "--engine", "ray", "--address", address)
        _, complaint = process.communicate(timeout=200)
        assert process.returncode == 2
        assert sentence in complaint.splitlines()[-1]
        shutil.rmtree(many / "nowhere", ignore_errors=True)


@pytest.mark.ray
@pytest.mark.timeout(400)
def test_the_slurm_script_brings_up_a_cluster_and_goes_on_with_what_is_there(many, tmp_path):
    """Stand-ins for Slurm's own commands, which run on this machine what they are given; the cluster is real."""
    tools = tmp_path / "tools"
    tools.mkdir()
    python = os.path.dirname(sys.executable)
    for name, text in {
        "srun": 'while [[ $1 == --* ]]; do shift; done\n[ "$1" = hostname ] && { echo 127.0.0.1; exit; }\nexec "$@"',
        "scontrol": "echo first",
    }.items():
        (tools / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (tools / name).chmod(0o755)
    small = MANY | {"grid": {"trainer.radius": [1, 10]}, "schemes": ["direct"], "seeds": 1}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(small))
    env = {
        "PATH": f"{tools}:{python}:{os.environ['PATH']}",
        "SLURM_JOB_NODELIST": "first",
        "SLURM_CPUS_ON_NODE": "1",
        "RAY_PORT": "6393",
    }
    script = os.path.join(os.path.dirname(__file__), "..", "docs", "scale", "slurm.sh")
    for _ in range(2):
        ray_tool("stop", "--force")
        done = subprocess.run(
            ["bash", script, "sweep.yaml", tmp_path / "out"],
            cwd=tmp_path,
            env=os.environ | env,
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert "2 runs, 0 failed" in done.stdout, done.stdout + done.stderr
    assert len(table(tmp_path / "out")) == 2


def test_the_manifest_for_kubernetes_is_a_job_whose_pods_share_the_sweeps(tmp_path):
    path = os.path.join(os.path.dirname(__file__), "..", "docs", "scale", "kuberay.yaml")
    with open(path) as file:
        job = yaml.safe_load(file)
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    cluster = job["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        assert [one["mountPath"] for one in pod["containers"][0]["volumeMounts"]] == ["/sweeps"]
        assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == "sweeps"
    entry = job["spec"]["entrypoint"]
    assert re.search(r"rampup sweep /sweeps/\S+ --engine ray --address auto --out /sweeps/demo", entry)
    # The shell of the entry point itself: without a sweep it begins one, with one it goes on.
    said = subprocess.run(
        ["bash", "-c", entry.replace("rampup", "echo").replace("/sweeps/demo", str(tmp_path))],
        capture_output=True,
        text=True,
    ).stdout
    assert "--resume" not in said
    (tmp_path / "sweep.yaml").touch()
    said = subprocess.run(
        ["bash", "-c", entry.replace("rampup", "echo").replace("/sweeps/demo", str(tmp_path))],
        capture_output=True,
        text=True,
    ).stdout
    assert said.rstrip().endswith("--resume")


def test_the_sweep_of_the_docs_can_be_planned(tmp_path):
    page = os.path.join(os.path.dirname(__file__), "..", "docs", "scale.md")
    with open(page) as file:
        (text,) = re.findall(r"```yaml\n(.*?)```", file.read(), flags=re.DOTALL)
    (tmp_path / "sweep.yaml").write_text(text)
    assert len(tasks_of(tmp_path / "sweep.yaml")) == 3 * 2 * 2 * 5 * 2 * 4
