"""Runs on disk: whatever interrupts one, it goes on to the same end, byte by byte."""

import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
import yaml

from rampup import conductor, config
from rampup.conductor import begin, conduct
from rampup.plans import plan
from rampup.problems import make
from rampup.problems.base import MOST_ARRIVALS
from rampup.runs import checkpoint
from rampup.runs.events import EventFile
from rampup.runs.files import make_new_folder
from rampup.runs.folder import RunFolder
from rampup.runs.listing import chosen_runs, listing, runs_in
from rampup.runs.parquet import write_parquet
from rampup.runs.policy_file import read_policy
from rampup.runs.schemes import samples_to_reach

RAMPUP = Path(sys.executable).with_name("rampup")

TINY = {
    "name": "tiny",
    "problem": {"name": "bcp", "parameters": {"n": 8}},
    "warmup": {"parameters": {"n": 4}},
    "multi_step": {"sizes": [{"n": 4}, {"n": 8}]},
    "features": "monomial:3",
    "schemes": ["direct", "curl", "fix_samp_curl", "multi_step"],
    "seeds": 2,
    "trainer": {
        "learning_rate": 0.2,
        "num_lanes": 5,
        "warmup_iterations": 30,
        "iterations": 30,
        "record_every": 5,
    },
}


def tiny(**changes):
    return config.checked(TINY | changes, "tiny")


def metrics(path):
    """The metrics as written, less the seconds they were written at."""
    return re.sub(rb'"seconds": [0-9.]+', b"", (Path(path) / "metrics.jsonl").read_bytes())


def policies(path):
    return {file.name: file.read_bytes() for file in sorted((Path(path) / "policies").iterdir())}


def summary(path):
    return {**json.loads((Path(path) / "summary.json").read_text()), "seconds": None}


def assert_same_end(path, other):
    assert metrics(path) == metrics(other)
    assert policies(path) == policies(other)
    assert summary(path) == summary(other)
    assert RunFolder(path).theory() == RunFolder(other).theory()


def stop_after(pieces):
    """A `should_stop` that says yes after so many pieces of work."""
    asked = []

    def should_stop():
        asked.append(None)
        return len(asked) >= pieces

    return should_stop


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that nothing interrupted; and how many pieces of work it had."""
    path = tmp_path_factory.mktemp("runs") / "finished"
    pieces = []
    conduct(begin(tiny(), path), on_standing=pieces.append)
    return path, len(pieces)


@pytest.fixture
def half_way(finished, tmp_path):
    """A run stopped half-way, with two checkpoints behind it."""
    path = tmp_path / "half"
    assert conduct(begin(tiny(), path), should_stop=stop_after(finished[1] // 2 - 1), checkpoint_seconds=0) is None
    return path


def only_line(code, output, complaint):
    """The one line with which a command was refused."""
    assert (code, output) == (2, "")
    assert len(complaint.splitlines()) == 1
    return complaint.removeprefix("rampup: ")


def test_a_run_folder_holds_everything(finished):
    path, _ = finished
    names = {entry.name.split(".")[0] if entry.name.startswith("events") else entry.name for entry in path.iterdir()}
    assert names >= {
        ".lock",
        "config.yaml",
        "provenance.json",
        "metrics.jsonl",
        "summary.json",
        "theory.json",
        "policies",
        "checkpoints",
        "events",
    }
    assert config.load(str(path / "config.yaml")) == tiny()
    provenance = json.loads((path / "provenance.json").read_text())
    assert provenance["versions"]["jax"]
    assert set(provenance) == {
        "started",
        "versions",
        "platform",
        "device",
        "threads",
        "inputs",
        "git_commit",
        "command",
    }
    expected = {f"{scheme}-{seed}.json" for scheme in TINY["schemes"] for seed in (0, 1)}
    assert set(policies(path)) == expected
    read_policy(path / "policies" / "curl-1.json", make("bcp", n=8))
    assert len(list((path / "checkpoints").iterdir())) in (2, 4)
    assert not list(path.rglob("*.part"))


def test_the_metrics_have_a_row_for_every_scheme_seed_stage_and_recording(finished):
    rows = RunFolder.open(finished[0]).rows()
    for row in rows:
        assert {"value", "ln_kappa", "avg_err", "kappa_is_infinite", "seconds"} <= set(row)
    places = [(row["scheme"], row["seed"], row["stage"], row["iteration"]) for row in rows]
    assert len(set(places)) == len(places)
    every_fifth = range(0, 31, 5)
    for scheme, stages in [("direct", [0]), ("curl", [0, 1]), ("fix_samp_curl", [0, 1])]:
        expected = {(scheme, seed, stage, at) for seed in (0, 1) for stage in stages for at in every_fifth}
        assert {place for place in places if place[0] == scheme} == expected
    last = {row["scheme"]: row for row in rows}
    assert last["direct"]["samples"] == 30 * 8 * 5
    assert last["curl"]["samples"] == 30 * 4 * 5 + 30 * 8 * 5


def test_the_summary_is_the_mean_of_the_last_rows(finished):
    path, _ = finished
    rows = RunFolder.open(path).rows()
    for entry in json.loads((path / "summary.json").read_text())["schemes"]:
        last = {row["seed"]: row["value"] for row in rows if row["scheme"] == entry["scheme"]}
        assert entry["value"] == pytest.approx(np.mean(list(last.values())), rel=1e-15)
        saved = [json.loads((path / "policies" / f"{entry['scheme']}-{seed}.json").read_text()) for seed in last]
        assert [one["provenance"]["value"] for one in saved] == list(last.values())


def test_stopping_at_every_piece_of_work_changes_nothing(finished, tmp_path):
    path = tmp_path / "stopped"
    folder, stops = begin(tiny(), path), 0
    while conduct(folder, should_stop=lambda: True, checkpoint_seconds=0) is None:
        stops += 1
        assert len(list((path / "checkpoints").glob("*.json"))) <= 2
    assert stops == finished[1]
    assert_same_end(path, finished[0])


def spoil_arrays(path):
    return sorted((path / "checkpoints").glob("*.safetensors"))[-1]


def spoil_manifest(path):
    return sorted((path / "checkpoints").glob("*.json"))[-1]


def cut(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def empty(file):
    file.write_bytes(b"")


def flip(file):
    content = bytearray(file.read_bytes())
    # In the middle of a name or number, where the file can still be read.
    content[len(content) * 2 // 3] ^= 1
    file.write_bytes(bytes(content))


@pytest.mark.parametrize("damage", [cut, empty, flip, Path.unlink])
@pytest.mark.parametrize("choose", [spoil_arrays, spoil_manifest])
def test_a_damaged_checkpoint_is_passed_over(finished, half_way, choose, damage):
    before = checkpoint.last_good(half_way / "checkpoints").facts["done"]
    damage(choose(half_way))
    assert checkpoint.last_good(half_way / "checkpoints").facts["done"] < before
    conduct(RunFolder.open(half_way))
    assert_same_end(half_way, finished[0])


def test_every_flipped_bit_of_a_manifest_is_noticed_or_harmless(tmp_path):
    given = checkpoint.Checkpoint({"a": np.arange(3.0)}, {"done": 5, "metrics_bytes": 10})
    checkpoint.save(tmp_path, given)
    (file,) = tmp_path.glob("*.json")
    content = file.read_bytes()
    for place in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            file.write_bytes(bytes(flipped))
            found = checkpoint.last_good(tmp_path)
            # Blanks between the words may turn into other blanks.
            assert found is None or found.facts == given.facts


def test_without_any_checkpoint_a_run_begins_again(finished, half_way):
    for file in (half_way / "checkpoints").iterdir():
        cut(file)
    assert checkpoint.last_good(half_way / "checkpoints") is None
    conduct(RunFolder.open(half_way))
    assert_same_end(half_way, finished[0])


def test_metrics_after_the_checkpoint_are_cut_torn_or_not(finished, half_way):
    with open(half_way / "metrics.jsonl", "ab") as file:
        file.write(b'{"scheme": "direct", "seed": 0}\n{"scheme": "di')
    assert RunFolder.open(half_way).rows()[-1] == {"scheme": "direct", "seed": 0}
    conduct(RunFolder.open(half_way))
    assert_same_end(half_way, finished[0])


@pytest.mark.parametrize("kept", [0, 0.4])
def test_a_checkpoint_whose_metrics_are_lost_is_passed_over(finished, half_way, kept):
    path = half_way / "metrics.jsonl"
    os.truncate(path, int(path.stat().st_size * kept))
    conduct(RunFolder.open(half_way))
    assert_same_end(half_way, finished[0])


def test_a_crash_before_the_end_is_written_loses_nothing(finished, tmp_path):
    path = tmp_path / "copy"
    shutil.copytree(finished[0], path)
    (path / "summary.json").unlink()
    (path / "provenance.json").unlink()
    shutil.rmtree(path / "policies")
    (path / ".metrics.jsonl.ab12.part").write_text("piece")
    (path / "checkpoints" / ".000009.json.ab12.part").write_text("piece")
    conduct(RunFolder.open(path))
    assert_same_end(path, finished[0])
    assert (path / "provenance.json").is_file()
    assert not list(path.rglob("*.part"))


def test_a_beginning_that_crashed_can_be_begun_again(tmp_path):
    (tmp_path / ".lock").touch()
    (tmp_path / ".config.yaml.0123abcd.part").write_text("name: ti")
    begin(tiny(), tmp_path)
    assert config.load(str(tmp_path / "config.yaml")) == tiny()


def test_a_changed_config_is_not_gone_on_with(half_way):
    path = half_way / "config.yaml"
    path.write_text(path.read_text().replace("learning_rate: 0.2", "learning_rate: 0.3"))
    with pytest.raises(ValueError, match="was changed after the run began"):
        conduct(RunFolder.open(half_way))


@pytest.mark.slow
def test_a_run_of_sampled_problems_goes_on_too(tmp_path):
    okd = {"name": "okd", "parameters": {"n": 4, "B": 1, "V": 1}}
    trainer = TINY["trainer"] | {"warmup_iterations": 2, "iterations": 3, "record_every": 1}
    trainer["effort"] = {"episodes": 16, "groups": 2, "replicates": 2}
    experiment = tiny(
        problem=okd,
        warmup={"parameters": {"n": 2}},
        multi_step=None,
        features="monomial:1",
        reference="bang_per_buck:1",
        schemes=["curl", "naive_samp_reg"],
        seeds=[3],
        trainer=trainer,
    )
    conduct(begin(experiment, tmp_path / "whole"))
    folder = begin(experiment, tmp_path / "stopped")
    while conduct(folder, should_stop=lambda: True) is None:
        pass
    assert_same_end(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.parametrize("calls", [0, 1, 2, 3, 5, 9, 14])
def test_a_full_disk_is_one_sentence_and_can_be_gone_on_from(finished, tmp_path, monkeypatch, calls):
    path, left = tmp_path / "full", [calls]
    folder = begin(tiny(), path)

    def fsync(descriptor):
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= 1

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        with pytest.raises(ValueError, match="No space left on device") as refused:
            conduct(folder, checkpoint_seconds=0)
    assert len(str(refused.value).splitlines()) == 1
    conduct(RunFolder.open(path))
    assert_same_end(path, finished[0])


def test_a_second_process_is_kept_out(half_way, called):
    folder = RunFolder.open(half_way)
    before = {file: file.read_bytes() for file in half_way.rglob("*") if file.is_file()}
    with folder.locked():
        assert only_line(*called("resume", half_way)).startswith("another process is at work in")
    assert {file: file.read_bytes() for file in half_way.rglob("*") if file.is_file()} == before


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path, called, finished):
    path = tmp_path / "mine.yaml"
    path.write_text(config.as_yaml(tiny()))
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("precious")
    sentence = only_line(*called("run", path, "--out", theirs))
    assert sentence == f"the folder {str(theirs)!r} is not empty: give another `--out`.\n"
    assert [file.name for file in theirs.iterdir()] == ["thesis.txt"]
    assert (theirs / "thesis.txt").read_text() == "precious"
    sentence = only_line(*called("run", path, "--out", finished[0]))
    assert sentence.startswith(f"the folder {str(finished[0])!r} holds a run already: go on with `rampup resume ")
    assert only_line(*called("run", path, "--out", path)).startswith("cannot make the folder")
    assert only_line(*called("run", path, "--out", path / "inside")).startswith("cannot make the folder")


STRANGE_NAMES = [
    "<script>alert('x')</script>",
    "\"quoted\" 'twice'",
    "größe 数 🎲",
    "../../outside",
    "..",
    "/etc/passwd",
    "~",
    "[/bold] :smile: [red]",
    "a\nb\tc",
    "-rf",
    "CON.",
    "x" * 200,
]


@pytest.mark.parametrize("name", STRANGE_NAMES, ids=range(len(STRANGE_NAMES)))
def test_a_strange_name_stays_inside_the_folder(name):
    folder = conductor.folder_name(tiny(name=name))
    assert Path(folder).name == folder
    assert not folder.startswith((".", "-", "~"))
    assert folder.isascii()
    assert len(folder) < 120


@pytest.mark.slow
def test_strange_names_are_run_and_listed_as_they_are(tmp_path, called, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    names = ["../[/bold] <b> :smile: 数'\"", "[red]"]
    for index, name in enumerate(names):
        document = TINY | {"name": name, "schemes": ["direct"], "multi_step": None}
        document["trainer"] = TINY["trainer"] | {"iterations": 2}
        Path("mine.yaml").write_text(yaml.safe_dump(document))
        out, place = (["--out", "runs/[red] it's"], "runs/[red] it's") if index else ([], "runs/bold-b-smile-")
        code, output, complaint = called("run", "mine.yaml", *out)
        assert (code, complaint) == (0, "")
        assert f"Everything is in {place}" in output
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["mine.yaml", "runs"]
    code, output, _ = called("runs")
    assert code == 0
    assert [name for name in names if name not in output] == [], output
    found = json.loads(called("runs", "--json")[1])
    assert {entry["experiment"] for entry in found} == set(names)


def test_tensorboard_reads_the_metrics(finished):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    path, _ = finished
    assert len(list(path.glob("events*"))) == 1
    accumulator = EventAccumulator(str(path)).Reload()
    rows = RunFolder.open(path).rows()
    names = "value", "ln_kappa", "avg_err", "err", "potential", "direction_norm", "multiplier"
    runs = {f"{row['scheme']}-{row['seed']}" for row in rows}
    assert set(accumulator.Tags()["scalars"]) == {f"{name}/{run}" for name in names for run in runs}
    for run in runs:
        own = [row for row in rows if f"{row['scheme']}-{row['seed']}" == run]
        for name in names:
            events = accumulator.Scalars(f"{name}/{run}")
            assert [event.step for event in events] == [row["samples"] for row in own]
            expected = np.array([np.inf if row[name] is None else row[name] for row in own], np.float32)
            np.testing.assert_array_equal(np.array([event.value for event in events], np.float32), expected)


def test_event_files_take_every_number(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    numbers = [0.0, -1e300, 1e300, 1e-300, float("inf"), 3.5]
    events = EventFile(tmp_path)
    for step, number in enumerate(numbers):
        events.add(step * 10**12, {"ü/number": number})
    events.close()
    found = EventAccumulator(str(tmp_path)).Reload().Scalars("ü/number")
    assert [event.step for event in found] == [step * 10**12 for step in range(len(numbers))]
    assert [event.value for event in found] == [0.0, -np.inf, np.inf, 0.0, np.inf, 3.5]


def test_pandas_and_duckdb_read_the_metrics_in_one_line(finished):
    path, rows = finished[0] / "metrics.jsonl", RunFolder.open(finished[0]).rows()
    frame = pd.read_json(path, lines=True, precise_float=True)
    assert frame["value"].tolist() == [row["value"] for row in rows]
    table = duckdb.sql(
        f"select scheme, max(samples), count(*) from '{path}' group by scheme order by scheme"
    ).fetchall()
    expected = frame.groupby("scheme")["samples"].agg(["max", "count"])
    assert table == [(name, *map(int, row)) for name, row in zip(expected.index, expected.to_numpy(), strict=True)]


@pytest.fixture
def several(finished, half_way):
    """A folder of runs: a finished one, one half-way, one not begun; and things that are no runs."""
    folder = half_way.parent
    shutil.copytree(finished[0], folder / "finished")
    begin(tiny(name="other", schemes=["direct"]), folder / "begun")
    (folder / "notes").mkdir()
    (folder / "notes.txt").write_text("no run")
    return folder


def test_runs_are_listed_filtered_and_sorted(several, called):
    def listed(*options):
        code, output, complaint = called("runs", "--folder", several, "--json", *options)
        assert (code, complaint) == (0, "")
        return json.loads(output)

    everything = listed()
    assert len(everything) == 4 + 4 + 1
    values = [entry["value"] for entry in everything if entry["value"] is not None]
    assert values == sorted(values, reverse=True)
    assert {Path(entry["folder"]).name for entry in listed("--finished")} == {"finished"}
    assert {Path(entry["folder"]).name for entry in listed("--no-finished")} == {"half", "begun"}
    assert [entry["scheme"] for entry in listed("--experiment", "other")] == ["direct"]
    assert {entry["scheme"] for entry in listed("--scheme", "curl")} == {"curl"}
    assert listed("--experiment", "absent") == []
    progress = {Path(entry["folder"]).name: entry["progress"] for entry in everything}
    assert progress["finished"] == 1
    assert progress["begun"] == 0
    facts = checkpoint.last_good(several / "half" / "checkpoints").facts
    assert progress["half"] == facts["done"] / facts["total"]
    assert 0.2 < progress["half"] < 0.8
    best = next(entry for entry in everything if entry["is_finished"] and entry["scheme"] == "curl")
    by_scheme = {
        entry["scheme"]: entry for entry in json.loads((several / "finished" / "summary.json").read_text())["schemes"]
    }
    assert best["value"] == pytest.approx(by_scheme["curl"]["value"])


def test_runs_are_shown_to_people(several, called, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    code, output, complaint = called("runs", "--folder", several)
    assert (code, complaint) == (0, "")
    states = {line.split()[0].rpartition("/")[2]: line.split()[-1] for line in output.splitlines()[1:]}
    assert states["finished"] == "finished"
    assert states["begun"] == "0%"
    assert states["half"].endswith("%")
    code, output, complaint = called("runs", "--folder", several / "absent", "--json")
    assert (code, json.loads(output), complaint) == (0, [], "")


def test_a_run_whose_config_is_damaged_is_named(several, called):
    for text in ("a: [", "- 1", "name: x", ""):
        (several / "begun" / "config.yaml").write_text(text)
        assert "begun/config.yaml' is not the config of a run" in only_line(*called("runs", "--folder", several))
    assert "config.yaml" in only_line(*called("resume", several / "notes"))


def test_resuming_a_finished_run_shows_its_summary(finished, called):
    path, _ = finished
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    code, output, complaint = called("resume", path, "--json")
    assert (code, complaint) == (0, "")
    assert json.loads(output) == json.loads((path / "summary.json").read_text()) | {"folder": str(path)}
    code, output, complaint = called("resume", path)
    assert (code, complaint) == (0, "")
    assert output.startswith("This run is finished already.\n")
    assert "fix_samp_curl" in output
    assert {file: file.read_bytes() for file in before} == before


def stamps(path):
    """When each file of a folder was written last."""
    return {file: file.stat().st_mtime_ns for file in path.rglob("*")}


def test_resuming_a_finished_run_touches_nothing(finished, called, tmp_path):
    path = tmp_path / "copy"
    shutil.copytree(finished[0], path)
    # Its report was lost, as by a crash right after the end: that is made up for, once.
    (path / "report.html").unlink(missing_ok=True)
    assert called("resume", path)[0] == 0
    before = stamps(path)
    assert (path / "report.html") in before
    for options in ([], ["--json"]):
        assert called("resume", path, *options)[0] == 0
    assert stamps(path) == before


def sized(n, estimator, **changes):
    trainer = TINY["trainer"] | {"estimator": estimator}
    problem = {"name": "bcp", "parameters": {"n": n}}
    return tiny(problem=problem, schemes=["curl"], multi_step=None, trainer=trainer, **changes)


def test_only_sampling_limits_how_many_arrivals_there_are():
    assert plan(sized(10_000, "paired")).problem.horizon == 10_000
    assert plan(sized(10_001, "exact")).problem.horizon == 10_001
    refused = [
        (sized(10_001, "paired"), 10_000),
        (sized(8, "algorithm4", warmup={"parameters": {"n": 10_001}}), 10_000),
        (sized(MOST_ARRIVALS + 1, "exact"), MOST_ARRIVALS),
        (sized(8, "exact", warmup={"parameters": {"n": 10**100}}), MOST_ARRIVALS),
    ]
    for experiment, most in refused:
        with pytest.raises(ValueError, match=rf"^`n` must be at most {most}\.$"):
            plan(experiment)
    knapsack = {"name": "okd", "parameters": {"n": 10_001, "B": 1, "V": 1}}
    with pytest.raises(ValueError, match=r"^`n` must be at most 10000\.$"):
        plan(sized(8, "exact").model_copy(update={"problem": config.ProblemConfig(**knapsack)}))


@pytest.mark.slow
def test_a_run_on_many_arrivals_is_exact_and_small_on_disk(tmp_path):
    trainer = TINY["trainer"] | {"estimator": "exact", "iterations": 2}
    problem = {"name": "bcp", "parameters": {"n": 20_000}}
    folder = begin(tiny(problem=problem, schemes=["direct"], multi_step=None, trainer=trainer), tmp_path / "run")
    assert conduct(folder)["optimal_value"] == pytest.approx(1 / np.e, abs=1e-4)
    first = folder.rows()[0]
    assert first["ln_kappa"] > 40
    assert folder.theory()["predictions"]["direct"]["ln_kappa"] == pytest.approx(first["ln_kappa"], rel=1e-9)
    assert sum(file.stat().st_size for file in folder.path.rglob("*") if file.is_file()) < 1_000_000


def test_two_runs_begun_in_the_same_second_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(conductor, "folder_name", lambda experiment: "tiny-now")
    found = [begin(tiny()).path for _ in range(3)]
    assert found == [Path("runs/tiny-now"), Path("runs/tiny-now-2"), Path("runs/tiny-now-3")]
    assert all(config.load(str(path / "config.yaml")) == tiny() for path in found)


def test_many_at_once_never_get_the_same_folder(tmp_path):
    with ThreadPoolExecutor(16) as threads:
        found = list(threads.map(lambda _: make_new_folder(tmp_path / "runs" / "run"), range(64)))
    assert len(set(found)) == 64
    assert set(found) == set((tmp_path / "runs").iterdir())


def test_a_new_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"^cannot make the folder '.*file': "):
        make_new_folder(tmp_path / "file" / "run")
    with pytest.raises(ValueError, match=r"^cannot make the folder '.*': File name too long\.$"):
        make_new_folder(tmp_path / ("x" * 300))


def test_an_experiment_that_is_refused_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="unknown scheme"):
        begin(tiny(schemes=["cur"]))
    assert list(tmp_path.iterdir()) == []


def test_the_listing_is_a_function_too(several):
    assert len(listing(chosen_runs(runs_in(several), finished=True), scheme="curl")) == 1


def test_runs_are_set_side_by_side_scheme_by_scheme(several, called):
    folders = [several / "half", several / "finished"]
    found = json.loads(called("runs", *folders, "--json")[1])
    assert [(one["scheme"], Path(one["folder"]).name) for one in found] == [
        (scheme, folder.name) for scheme in TINY["schemes"] for folder in folders
    ]
    known = json.loads((several / "finished" / "summary.json").read_text())
    for one, scheme in zip(found[1::2], known["schemes"], strict=True):
        for name, number in scheme.items():
            assert one[name] == number
        assert one["seconds"] == known["seconds"]
    assert all(one["samples_to_reference"] is None for one in found[::2])
    whole = json.loads(called("runs", "--folder", several, "--compare", "--finished", "--json")[1])
    assert whole == found[1::2]
    only = json.loads(called("runs", *folders, "--scheme", "curl", "--experiment", "tiny", "--json")[1])
    assert [one["scheme"] for one in only] == ["curl", "curl"]


def test_runs_side_by_side_are_shown_to_people(several, called, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    code, output, complaint = called("runs", several / "finished", several / "begun")
    assert (code, complaint) == (0, "")
    header, *lines = output.splitlines()
    assert header.split() == [
        *("scheme", "folder", "value", "ln", "kappa", "samples", "to", "90%", "of", "reference", "seconds", "state")
    ]
    assert len(lines) == 5
    known = json.loads((several / "finished" / "summary.json").read_text())["schemes"][1]
    curl = next(line for line in lines if line.startswith("curl"))
    assert f"{known['value']:.4f} ± {(known['interval'][1] - known['interval'][0]) / 2:.4f}" in curl
    assert f"{known['samples']:,}" in curl
    assert any(line.split() == ["direct", str(several / "begun"), "0%"] for line in lines)


def test_the_samples_to_a_part_of_the_reference_are_the_median_over_seeds():
    def rows(seed, values, stage=1):
        for index, value in enumerate(values):
            yield {
                "scheme": "curl",
                "seed": seed,
                "stage": stage,
                "samples": 100 * stage + 10 * index,
                "value": value,
                "reference_value": 0.5,
            }

    # A warm-up that is easy does not count.
    first = [*rows(0, [1.0, 1.0], stage=0), *rows(0, [0.1, 0.46, 0.2])]
    assert samples_to_reach(first, "curl", 0.9) == 110
    assert samples_to_reach(first, "curl", 1.0) is None
    late, never = list(rows(1, [0.1, 0.1, 0.45])), list(rows(2, [0.1, 0.1, 0.1]))
    assert samples_to_reach([*first, *late], "curl", 0.9) == 115
    assert samples_to_reach([*first, *late, *never], "curl", 0.9) == 120
    assert samples_to_reach([*first, *never], "curl", 0.9) is None


def test_the_metrics_of_runs_are_written_as_one_parquet_file(several, called, tmp_path):
    path, folders = tmp_path / "deep" / "metrics.parquet", [several / "finished", several / "half"]
    assert called("runs", *folders, "--parquet", path) == (0, f"{path}\n", "")
    known = [row | {"run": str(folder)} for folder in folders for row in RunFolder.open(folder).rows()]
    frame = pd.read_parquet(path)
    assert frame.columns[0] == "run"
    assert set(frame.columns) == set(known[0])
    assert frame.to_dict("records") == [{name: row[name] for name in frame.columns} for row in known]
    counted = duckdb.sql(f"select run, count(*), max(value) from '{path}' group by run order by run").fetchall()
    assert counted == [
        (str(folder), len(own), max(row["value"] for row in own))
        for folder in folders
        for own in [RunFolder.open(folder).rows()]
    ]
    told = json.loads(called("runs", "--folder", several, "--scheme", "curl", "--parquet", path, "--json")[1])
    assert told == {"file": str(path), "runs": 3, "rows": len(pd.read_parquet(path))}
    assert set(pd.read_parquet(path)["scheme"]) == {"curl"}


def test_a_column_of_nothing_holds_numbers_in_parquet(finished, tmp_path):
    path = tmp_path / "copy"
    shutil.copytree(finished[0], path)
    folder = RunFolder.open(path)
    rows = [row | {"ln_kappa": None} for row in folder.rows()]
    with folder.recording(0) as recording:
        for row in rows:
            recording.append(row)
    assert write_parquet([folder, RunFolder.open(finished[0])], tmp_path / "both.parquet") == 2 * len(rows)
    write_parquet([folder], tmp_path / "one.parquet")
    described = duckdb.sql(f"describe select * from '{tmp_path / 'one.parquet'}'").fetchall()
    kinds = {name: kind for name, kind, *_ in described}
    found = [kinds[name] for name in ("ln_kappa", "samples", "is_active", "run")]
    assert found == ["DOUBLE", "BIGINT", "BOOLEAN", "VARCHAR"]


def test_parquet_is_refused_in_one_sentence(several, called, tmp_path, monkeypatch):
    path = tmp_path / "metrics.parquet"
    sentence = only_line(*called("runs", several / "begun", "--parquet", path))
    assert sentence == "there is nothing to write: no run with records fits.\n"
    assert only_line(*called("runs", several / "half", "--parquet", several)).startswith("cannot write")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    sentence = only_line(*called("runs", several / "half", "--parquet", path))
    assert sentence == "a Parquet file needs pyarrow: install it with `pip install 'rampup[parquet]'`.\n"
    assert not path.exists()


# From here on as a user's machine does it: processes that are killed, interrupted, or run out of room.

LONG = TINY | {"trainer": TINY["trainer"] | {"iterations": 20_000, "warmup_iterations": 20_000, "record_every": 50}}


# The command line, but saving far more often, so that kills fall into every moment of it.
OFTEN = (
    "from rampup import cli, conductor\n"
    "conductor.conduct.__kwdefaults__['checkpoint_seconds'] = 0.05\n"
    "import sys; sys.argv[0] = 'rampup'; cli.main()"
)


def started(program, *arguments, **options):
    """A process of its own."""
    return subprocess.Popen(
        [*program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def wait_for_rows(process, path):
    """Until the run records, or is over."""
    file = path / "metrics.jsonl"
    before = file.stat().st_mtime_ns if file.is_file() else None
    is_waiting = lambda: not file.is_file() or not file.stat().st_size or file.stat().st_mtime_ns == before
    while process.poll() is None and is_waiting():
        time.sleep(0.02)


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path):
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(LONG))
    path = tmp_path / "it's a run"
    process = started([RAMPUP], "run", tmp_path / "long.yaml", "--out", path)
    wait_for_rows(process, path)
    process.send_signal(signal.SIGINT)
    output, complaint = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "")
    first, last = complaint.splitlines()
    assert first == "rampup: saving, then stopping; once more stops at once"
    assert last == f"rampup: saved; go on with `{RunFolder(path).resume_command}`"
    assert checkpoint.last_good(path / "checkpoints").facts["done"] > 0
    assert listing(chosen_runs(runs_in(tmp_path), finished=False))[0]["progress"] > 0


@pytest.mark.slow
def test_a_limit_on_file_sizes_is_one_sentence(tmp_path):
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(LONG))
    path = tmp_path / "run"
    limited = ["bash", "-c", 'ulimit -f 60; exec "$0" "$@"', RAMPUP]
    # What it compiles would be cut off too, and found so by others.
    apart = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    process = started(limited, "run", tmp_path / "long.yaml", "--out", path, env=apart)
    output, complaint = process.communicate(timeout=120)
    assert (process.returncode, output) == (2, "")
    assert len(complaint.splitlines()) == 1
    assert "File too large" in complaint
    assert "rampup resume" in complaint
    conduct(RunFolder.open(path), should_stop=stop_after(2))
    assert len(RunFolder.open(path).rows()) > 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_killed_again_and_again_comes_to_the_same_end(tmp_path):
    """RAMPUP_KILLS says how many times."""
    kills, chance = int(os.environ.get("RAMPUP_KILLS", "2")), random.Random(0)
    experiment = tmp_path / "tiny.yaml"
    trainer = TINY["trainer"] | {"iterations": 8_000, "warmup_iterations": 8_000, "record_every": 50}
    experiment.write_text(yaml.safe_dump(TINY | {"trainer": trainer}))
    cache = {
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "xla"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }

    def go_on(path):
        is_begun = (path / "config.yaml").is_file()
        command = ["resume", path] if is_begun else ["run", experiment, "--out", path]
        return started([sys.executable, "-c", OFTEN], *command, env=os.environ | cache)

    def finish(process):
        _, complaint = process.communicate(timeout=300)
        assert (process.returncode, complaint) == (0, "")

    finish(go_on(tmp_path / "whole"))
    path, found = tmp_path / "killed", set()
    while kills:
        process = go_on(path)
        if chance.random() < 0.7:
            wait_for_rows(process, path)
            time.sleep(chance.uniform(0, 1.5))
        else:
            time.sleep(chance.uniform(0, 6))
        process.kill()
        _, complaint = process.communicate()
        assert complaint == ""
        kills -= 1
        if process.returncode == 0:
            assert_same_end(path, tmp_path / "whole")
            shutil.rmtree(path)
        elif (good := checkpoint.last_good(path / "checkpoints")) is not None:
            found.add(good.facts["done"])
    finish(go_on(path))
    assert found
    assert_same_end(path, tmp_path / "whole")
