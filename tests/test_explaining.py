"""Policies in words: the rule, what it is worth, and how nearly it is the policy."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rampup
from rampup import explaining
from rampup.evaluation import instance_keys
from rampup.exact import bcp
from rampup.explaining import Rounded, explain
from rampup.policy import LogLinear
from rampup.references import policy_named
from rampup.runs.policy_file import write_policy

CLASSICAL = 1 / np.arange(1, 7)


def flags(text):
    return np.array([mark == "x" for mark in text])


# Six arrivals: where a record is taken, where anything else is, and what one would say.
RULES = [
    ("..xxxx", "......", "reject the first 2 of 6, then take the first record"),
    ("..xxxx", ".....x", "reject the first 2 of 6, then take the first record, or the 6th whatever it is"),
    ("......", "......", "reject all 6"),
    ("xxxxxx", "......", "take the first of 6"),
    ("..x..x", "......", "of 6 arrivals take a record at 3, 6"),
    (".xx.xx", "......", "of 6 arrivals take a record at 2 to 3, 5 and later"),
    ("...xxx", ".x....", "of 6 arrivals take a record at 4 and later and whatever comes at 2"),
    # Whatever it is, the third is taken: what would be done later does not matter.
    ("..x..x", "..x.x.", "reject the first 2 of 6, then take the first record, or the 3rd whatever it is"),
]


@pytest.mark.parametrize(("at_record", "at_others", "words"), RULES, ids=[rule[2] for rule in RULES])
def test_a_rule_of_best_choice_is_said_as_one_would_say_it(at_record, at_others, words):
    assert explaining._stopping_words(flags(at_record), flags(at_others), CLASSICAL) == words


def test_what_cannot_happen_is_not_spoken_of():
    probs = np.array([1.0, 0.0, 1.0, 0.5])
    # The second is never a record and the third always is: what would be done otherwise changes nothing.
    for never in ("..xx", ".xxx"):
        assert explaining._stopping_words(flags(never), flags("..x."), probs).startswith("reject the first")


@pytest.mark.parametrize("count", [0, 1, 5, 11, 12])
def test_a_threshold_is_found_with_its_exact_value(count):
    problem = rampup.make("bcp", n=12)
    answer = explain(problem, policy_named(problem, f"threshold:{count}"))
    expected = {0: "take the first of 12", 12: "reject all 12"}
    assert answer["words"] == expected.get(count, f"reject the first {count} of 12, then take the first record")
    exact = float(bcp.values(problem.record_probs, bcp.threshold_policy(12, count)).start)
    assert answer["rule"]["value"] == pytest.approx(exact, abs=1e-15)
    assert answer["optimum"]["value"] >= exact - 1e-15


def test_rounding_does_what_is_most_probable():
    problem = rampup.make("adw", n=3, m=4, V=1.0)
    features = rampup.as_features("monomial:2", problem)
    policy = LogLinear(problem, features, jnp.asarray(np.random.default_rng(0).normal(size=features.size)))
    low, high = map(np.asarray, problem.bounds())
    seen = jnp.asarray(np.random.default_rng(1).uniform(low, high, size=(200, len(low))))
    rounded = jax.vmap(Rounded(policy))(seen)
    assert np.array_equal(np.argmax(rounded, axis=1), np.argmax(jax.vmap(policy)(seen), axis=1))
    assert set(np.exp(np.asarray(rounded)).ravel()) == {0.0, 1.0}


def test_the_best_cut_is_that_of_all_cuts():
    chance = np.random.default_rng(0)
    for size in (1, 2, 5, 30):
        for _ in range(50):
            ratios, takes = chance.uniform(size=size), chance.uniform(size=size) < 0.5
            cuts = [0.0, *(np.sort(ratios) + 1e-12)]
            agreed = [np.sum((ratios >= cut) == takes) for cut in cuts]
            found = explaining._best_cut(ratios, takes)
            assert np.sum((ratios >= found) == takes) == max(agreed)
    assert explaining._best_cut(np.array([]), np.array([], bool)) == 0.0


def test_agreement_is_that_of_a_plain_loop():
    problem = rampup.make("okd", n=8, B=1.5, V=3.0)
    one, other = policy_named(problem, "bang_per_buck:1.2"), policy_named(problem, "accept_everything")
    keys = instance_keys(0, 40)
    same = total = 0
    for key in keys:
        instance = jax.device_get(problem.draw(jax.random.split(key)[0]))
        used = value = 0.0
        for size, worth in zip(instance.sizes, instance.values, strict=True):
            fits = used + size <= 1.5
            takes = fits and worth >= 1.2 * size
            total += 1
            same += takes == fits
            used, value = used + size * takes, value + worth * takes
            if value >= 3.0:
                break
    assert float(explaining._agreement(problem, one, other, keys)) == pytest.approx(same / total, abs=1e-12)


def test_a_knapsack_rule_is_found_again():
    problem = rampup.make("okd", n=20, B=2.0, V=5.0)
    ratios = jnp.asarray([2.0, 1.6, 1.2, 0.8])
    answer = explain(problem, explaining.RatioByQuarter(ratios), episodes=500)
    assert answer["agreement"] > 0.995
    assert answer["agreement"] == answer["agreements"]["ratios"]
    assert answer["words"].startswith("take what fits and is worth at least 2.0")
    # The same instances: what they do otherwise in one decision of two hundred changes few games.
    assert abs(answer["rule"]["value"] - answer["rounded"]["value"]) < 0.05


OWN = """
from pathlib import Path
Path("was_run").touch()
from rampup.examples.prophet import Prophet as Base
import rampup

class Mine(Base):
    pass
"""


def test_explain_says_it_on_the_command_line_and_runs_nothing_unasked(called, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    problem = rampup.make("bcp", n=10)
    theta = np.zeros(6)
    # Accept from 0.45 of the arrivals on, if it is a record.
    theta[0], theta[3], theta[4] = -50.0, 50.0 - 22.5, 50.0
    common = {"features": "monomial:3", "theta": theta}
    write_policy("policy.json", problem="bcp", parameters={"n": 10}, **common)
    code, output, _ = called("explain", "policy.json")
    assert code == 0
    assert output.startswith("Reject the first 4 of 10, then take the first record.")
    answer = json.loads(called("explain", "policy.json", "--json")[1])
    table = bcp.threshold_policy(10, 4)
    assert answer["rule"]["value"] == pytest.approx(float(bcp.values(problem.record_probs, table).start), abs=1e-12)
    (tmp_path / "own.py").write_text(OWN)
    write_policy("own.json", problem="own.py:Mine", parameters={"n": 5}, features="monomial:2", theta=np.zeros(4))
    code, _, complaint = called("explain", "own.json")
    assert code == 2
    assert "say that it may be run with `--problem own.py:Mine`" in complaint
    assert not (tmp_path / "was_run").exists()
    code, output, complaint = called("explain", "own.json", "--problem", "own.py:Mine", "--episodes", "100")
    assert code == 0, complaint
    assert (tmp_path / "was_run").exists()
    assert "half_of_the_prophet" in output
