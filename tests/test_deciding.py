"""Policies that leave the lab: exported files, their readers, and decisions that outlive a crash."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hand_made import TINY

from rampup import streams
from rampup.conductor import begin, conduct
from rampup.config import checked
from rampup.exporting import export, rules_of
from rampup.features import as_features
from rampup.policy import LogLinear
from rampup.portable import rampup_policy
from rampup.problems import make, name_of
from rampup.runs.policy_file import write_policy

PARAMETERS = {
    "bcp": {"n": 30},
    "okd": {"n": 20, "B": 2.0, "V": 5.0},
    "adw": {"n": 3, "m": 12, "V": 2.5, "bids": "special"},
}


def table_of(name, folder):
    """Items that weigh up to 30 and cost up to 200, or bids of up to 9 against budgets of 20; and their description."""
    chance = np.random.default_rng(5)
    rows = chance.integers(1, [31, 201], (120, 2)) if name == "okd" else chance.integers(0, 10, (120, 3))
    text = "\n".join(",".join(map(str, row)) for row in [["a", "b", "c"][: rows.shape[1]], *rows.tolist()])
    (folder / "rows.csv").write_text(text + "\n")
    columns = "{size: a, value: b}" if name == "okd" else "{bids: [a, b, c]}"
    (folder / "rows.yaml").write_text(f"problem: {name}\nfile: rows.csv\ncolumns: {columns}\nlength: 12\n")
    own = {"n": 20, "B": 60, "V": 900} if name == "okd" else {"n": 3, "m": 12, "V": 45, "budgets": 20}
    return own | {"data": str(folder / "rows.yaml")}


CASES = [("bcp", "monomial:4"), ("bcp", "legendre:5"), ("bcp", "one_hot"), ("okd", "monomial:2"), ("okd", "legendre:3")]
CASES += [("adw", "monomial:3"), ("adw", "legendre:2")]
# Of the user's own data, in the user's units.
CASES += [("okd data", "monomial:2"), ("adw data", "legendre:2")]


def exported(path, name, features, seed=0):
    """A policy with parameters at random, as a file; and as the library plays it."""
    name, _, is_own = name.partition(" ")
    parameters = table_of(name, path.parent) if is_own else PARAMETERS[name]
    problem = make(name, **parameters)
    found = as_features(features, problem)
    theta = np.random.default_rng(seed).normal(size=found.size)
    write_policy(path, problem=name, parameters=parameters, features=features, theta=theta, rules=rules_of(problem))
    return problem, LogLinear(problem, found, jnp.asarray(theta))


def arrivals_of(problem, instance):
    """An instance as whoever serves it would send it."""
    name = name_of(problem)
    if name == "bcp":
        return [{"record": bool(one)} for one in instance.is_record]
    if name == "choice":
        return [{"value": float(value)} for value in instance.values]
    if name in ("okd", "okd_value"):
        return [
            {"size": float(size) * problem.size_unit, "value": float(value) * problem.value_unit}
            for size, value in zip(instance.sizes, instance.values, strict=True)
        ]
    return [{"bids": [float(bid) * problem.bid_unit for bid in bids]} for bids in instance.bids]


def played(problem, policy, instance, answers):
    """The probabilities by which the library would act in the same states."""
    state, goes_on = problem.init(instance), True
    for answer in answers:
        assert goes_on
        probs = np.exp(np.asarray(policy(problem.observe(instance, state))))
        action = answer["decision"]
        action = {"reject": 0, "accept": 1, "leave": 0, "take": 1, None: 0}.get(action, action)
        if not isinstance(answer["decision"], str | None):
            action = answer["decision"] + 1
        state, _, goes_on = problem.step(instance, state, jnp.asarray(action))
        yield action, probs, state, bool(goes_on)


@pytest.mark.parametrize(("name", "features"), CASES)
def test_the_reader_gives_the_probabilities_of_the_library(tmp_path, name, features):
    problem, policy = exported(tmp_path / "policy.json", name, features)
    reader = rampup_policy.load(tmp_path / "policy.json")
    for seed in range(4):
        instance = problem.draw(streams.key(seed))
        chance, episode, answers = random.Random(seed), reader.begin(), []
        for arrival in arrivals_of(problem, instance):
            if not episode.is_over:
                answers.append(episode.decide(arrival, chance.random()))
        for answer, (action, probs, state, goes_on) in zip(
            answers, played(problem, policy, instance, answers), strict=True
        ):
            if action != 0:
                assert answer["probability"] == pytest.approx(probs[action], rel=1e-12, abs=1e-300)
            else:
                # What cannot be done comes to doing nothing.
                assert answer["probability"] >= probs[0] * (1 - 1e-12)
            assert answer["state"]["is_over"] == (not goes_on)
            if name.startswith("okd"):
                room = float(problem.budget - state.used) * problem.size_unit
                assert answer["state"]["value"] == pytest.approx(float(state.value) * problem.value_unit, abs=1e-12)
                assert answer["state"]["room_left"] == pytest.approx(room, abs=1e-12)
            if name.startswith("adw"):
                left = np.asarray(state.budgets) * problem.bid_unit
                np.testing.assert_allclose(answer["state"]["budgets"], left, atol=1e-12)


@pytest.mark.parametrize(("name", "features"), CASES)
def test_the_reader_for_browsers_gives_the_same(tmp_path, name, features, browser):
    problem, _ = exported(tmp_path / "policy.json", name, features)
    arrivals = arrivals_of(problem, problem.draw(streams.key(1)))
    found, wanted = answers_of_both(tmp_path / "policy.json", arrivals, browser)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert (one["number"], one["decision"], one["state"]["is_over"]) == (
            other["number"],
            other["decision"],
            other["state"]["is_over"],
        )
        assert one["probability"] == pytest.approx(other["probability"], rel=1e-12)


def test_the_reader_for_browsers_refuses_what_was_changed(tmp_path, browser):
    source = Path(rampup_policy.__file__).with_suffix(".js").read_text()

    def said(text):
        load = "try { RampupPolicy.load(arguments[0]); return ''; } catch (error) { return error.message; }"
        return browser.execute_script(f"{source} {load}", text)

    exported(tmp_path / "policy.json", "okd", "monomial:2")
    text = (tmp_path / "policy.json").read_text()
    document = json.loads(text)
    assert said(text) == ""
    # Written otherwise it is still the same.
    assert said(json.dumps(document, sort_keys=True, indent=4)) == ""
    theta = [document["theta"][0] + 1e-9, *document["theta"][1:]]
    for changed in (document | {"theta": theta}, document | {"note": "x"}, document | {"sha256": "0" * 64}):
        assert "its checksum does not fit" in said(json.dumps(changed))
    assert "cut short" in said(text[: len(text) // 2])
    assert "has version 2" in said(json.dumps(document | {"version": 2}))
    for one in ("", "abc", "ü" * 100, *("x" * size for size in (55, 56, 63, 64, 65, 1000))):
        found = browser.execute_script(f"{source} return RampupPolicy.sha256(arguments[0]);", one)
        assert found == hashlib.sha256(one.encode()).hexdigest()


def answers_of_both(path, arrivals, browser):
    """What the readers for browsers and for Python answer."""
    source = Path(rampup_policy.__file__).with_suffix(".js").read_text()
    uniforms = [random.Random(2).random() for _ in arrivals]
    episode, wanted = rampup_policy.load(path).begin(), []
    for arrival, uniform in zip(arrivals, uniforms, strict=True):
        if not episode.is_over:
            wanted.append(episode.decide(arrival, uniform))
    found = browser.execute_script(
        source
        + """
        const episode = RampupPolicy.load(arguments[0]).begin(), answers = [];
        const [, arrivals, uniforms] = arguments;
        arrivals.forEach((arrival, i) => { if (!episode.isOver) answers.push(episode.decide(arrival, uniforms[i])); });
        return answers;""",
        path.read_text(),
        arrivals,
        uniforms,
    )
    return found, wanted


def decide(path, *options, arrivals, **more):
    text = "".join(arrival if isinstance(arrival, str) else json.dumps(arrival) + "\n" for arrival in arrivals)
    command = [sys.executable, "-m", "rampup", "decide", path, *map(str, options)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, **more)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_what_is_wrong_is_said_and_what_is_right_is_served(tmp_path):
    exported(tmp_path / "policy.json", "okd", "monomial:2")
    good = {"size": 0.3, "value": 0.2}
    bad = ["not json\n", "[1]\n", {"size": "x", "value": 0.1}, {"size": 0.1}, {"size": 2.0, "value": 0.1}, "\n"]
    bad += ['{"size": NaN, "value": 0.1}\n', {"size": -0.1, "value": 0.1}, {"size": True, "value": 0.1}]
    code, answers, complaint = decide(tmp_path / "policy.json", arrivals=[good, *bad, good])
    assert (code, complaint) == (1, "")
    errors = [one for one in answers if "error" in one]
    assert [one["line"] for one in errors] == [2, 3, 4, 5, 6, 8, 9, 10]
    assert all(one["error"].endswith(".") for one in errors)
    assert [one["number"] for one in answers if "number" in one] == [1, 2]


def test_arrivals_after_the_end_are_refused(tmp_path):
    exported(tmp_path / "policy.json", "bcp", "monomial:2")
    code, answers, _ = decide(tmp_path / "policy.json", arrivals=[{"value": float(k)} for k in range(40)])
    assert code == 1
    assert "the episode is over" in answers[-1]["error"]


def test_chance_depends_on_the_seed_alone(tmp_path):
    exported(tmp_path / "policy.json", "adw", "monomial:2")
    arrivals = [{"bids": [0.4, 0.5, 0.6]}] * 12
    runs = [decide(tmp_path / "policy.json", "--sample", "--seed", seed, arrivals=arrivals)[1] for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]
    code, _, complaint = decide(tmp_path / "policy.json", "--seed", 1, arrivals=[])
    assert (code, complaint.count("\n")) == (2, 1)


def test_a_spoiled_policy_is_refused_in_a_sentence(tmp_path):
    exported(tmp_path / "policy.json", "bcp", "monomial:2")
    text = (tmp_path / "policy.json").read_text()
    document = json.loads(text)
    for spoiled, sentence in [
        (text.replace('"horizon": 30', '"horizon": 31'), "was changed after it was written"),
        (text[: len(text) // 2], "was cut short"),
        (json.dumps(document | {"version": 99}), "has version 99"),
        ("{}", "is not a policy file of Rampup"),
    ]:
        (tmp_path / "spoiled.json").write_text(spoiled)
        code, answers, complaint = decide(tmp_path / "spoiled.json", arrivals=[{"record": True}])
        assert (code, answers) == (2, [])
        assert sentence in complaint
        assert complaint.count("\n") == 1


def test_deciding_needs_no_jax(tmp_path):
    exported(tmp_path / "policy.json", "bcp", "monomial:2")
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("raise ImportError('not here')")
    env = os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"}
    assert decide(tmp_path / "policy.json", arrivals=[{"record": True}], env=env)[0] == 0
    # The reader alone, as it is copied into another program.
    shutil.copy(rampup_policy.__file__, tmp_path / "reader.py")
    program = "import reader; print(reader.load('policy.json').begin().decide({'record': True})['number'])"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, env=env)
    assert done.stdout == "1\n", done.stderr


def test_a_file_of_arrivals_is_gone_on_with_where_it_was(tmp_path):
    exported(tmp_path / "policy.json", "okd", "monomial:2")
    chance = random.Random(3)
    arrivals = [{"size": chance.random() / 2, "value": chance.random() / 4} for _ in range(20)]
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(one) + "\n" for one in arrivals))
    (tmp_path / "some.jsonl").write_text("".join(json.dumps(one) + "\n" for one in arrivals[:8]))
    command = [sys.executable, "-m", "rampup", "decide", tmp_path / "policy.json", "--sample", "--journal"]

    def answers(journal, file):
        with open(tmp_path / file) as source:
            done = subprocess.run([*command, tmp_path / journal], stdin=source, capture_output=True, text=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    first, rest = answers("journal", "some.jsonl"), answers("journal", "all.jsonl")
    assert [one["number"] for one in first + rest] == list(range(1, 21))
    kept = [json.loads(line) for line in (tmp_path / "journal").read_text().splitlines()]
    assert [line["answer"] for line in kept if "answer" in line] == first + rest
    # Other arrivals than those that were answered are not mixed up with them.
    (tmp_path / "other.jsonl").write_text('{"size": 0.1, "value": 0.1}\n')
    assert "was another one" in answers("journal", "other.jsonl")[0]["error"]


def test_a_numbered_arrival_may_come_again_and_is_decided_once(tmp_path):
    exported(tmp_path / "policy.json", "okd", "monomial:2")
    numbered = lambda number, size: {"number": number, "size": size, "value": 0.1}
    arrivals = [numbered(1, 0.1), numbered(1, 0.1), numbered(1, 0.2), numbered(3, 0.1), numbered(2, 0.1)]
    _, answers, _ = decide(tmp_path / "policy.json", "--journal", tmp_path / "journal", arrivals=arrivals)
    assert answers[0] == answers[1]
    assert "was another one" in answers[2]["error"]
    assert "at most 2" in answers[3]["error"]
    assert answers[4]["number"] == 2


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_killed_at_any_moment_nothing_is_lost_or_decided_twice(tmp_path):
    """RAMPUP_KILLS says how many times."""
    exported(tmp_path / "policy.json", "okd", "monomial:2")
    kills, chance = int(os.environ.get("RAMPUP_KILLS", "10")), random.Random(0)
    arrivals = [{"number": k + 1, "size": chance.random() / 9, "value": chance.random() / 9} for k in range(20)]
    command = [sys.executable, "-m", "rampup", "decide", tmp_path / "policy.json", "--sample", "--journal"]
    killed = episodes = 0
    while killed < kills:
        journal, answers, process = tmp_path / f"journal-{episodes}", {}, None
        episodes += 1
        while len(answers) < 20:
            if process is None:
                process = subprocess.Popen(
                    [*command, journal], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
                )
                dies = time.monotonic() + chance.uniform(0.2, 1.2)
            arrival = arrivals[len(answers)]
            try:
                process.stdin.write(json.dumps(arrival) + "\n")
                process.stdin.flush()
                time.sleep(max(0.0, chance.uniform(0, 0.05)))
                if time.monotonic() > dies:
                    process.kill()
                    killed += 1
                line = process.stdout.readline()
            except BrokenPipeError:
                line = ""
            if line.endswith("\n"):
                answer = json.loads(line)
                assert answer["number"] not in answers
                answers[answer["number"]] = answer
            if process.poll() is not None or not line:
                process.communicate()
                process = None
        if process is not None:
            process.communicate()
        kept = [json.loads(line) for line in journal.read_text().splitlines()]
        decided = [line for line in kept if "answer" in line]
        assert [line["arrival"] for line in decided] == arrivals
        assert [line["answer"] for line in decided] == [answers[number] for number in range(1, 21)]


def test_a_run_is_exported_with_what_was_measured(tmp_path, called):
    folder = begin(checked(TINY, "here"), tmp_path / "run")
    code, _, complaint = called("export", tmp_path / "run", "-o", tmp_path / "policy.json")
    assert code == 2
    assert "is not finished" in complaint
    conduct(folder)
    told = export(folder, tmp_path / "policy.json", scheme="curl")
    document = json.loads((tmp_path / "policy.json").read_text())
    last = {(row["scheme"], row["seed"]): row for row in folder.rows()}
    best = max((row for row in last.values() if row["scheme"] == "curl"), key=lambda row: row["value"])
    assert (told["seed"], document["measured"]["success"]) == (best["seed"], best["value"])
    assert document["measured"]["gap_to_optimum"][0] == pytest.approx(folder.summary["optimal_value"] - best["value"])
    # It is a policy file like any other.
    code, output, _ = called(
        "evaluate", "bcp", "--set", "n=12", "--policy", tmp_path / "policy.json", "--episodes", 100, "--json"
    )
    assert code == 0
    code, output, _ = called("export", tmp_path / "run", "-o", tmp_path / "out" / "policy.json", "--readers", "--json")
    assert json.loads(output)["success"] == max(row["value"] for row in last.values())
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "policy.json",
        *sorted(("rampup_policy.js", "rampup_policy.py")),
    ]
    code, _, complaint = called("export", tmp_path / "run", "--scheme", "cur", "-o", tmp_path / "policy.json")
    assert code == 2
    assert "it has curl (seeds 0, 1), direct (seeds 0, 1)" in complaint
