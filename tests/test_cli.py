"""The command line, run as a user runs it."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

RAMPUP = Path(sys.executable).with_name("rampup")


def run(*arguments):
    return subprocess.run([RAMPUP, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def answer(*arguments):
    done = run(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_the_contract_of_theory_bcp():
    found = answer(
        "theory", "bcp", "--n", 100, "--series", "classical", "--sampler-threshold", 0.2, "--features", "one_hot"
    )
    assert found["n"] == 100
    assert found["optimal_value"] == pytest.approx(0.3710428, abs=5e-8)
    assert found["optimal_threshold"] == 37
    assert found["k_curl"] == pytest.approx(37 / 20)
    assert found["k_naive"] == pytest.approx(2.0**99 * 37 / 99)
    assert found["ln_kappa_curl"] == pytest.approx(math.log(37 / 20))
    assert found["ln_kappa_naive"] == pytest.approx(99 * math.log(2) + math.log(37 / 99))


def test_an_infinite_number_is_the_string_inf(tmp_path):
    path = tmp_path / "ones.json"
    path.write_text(json.dumps([1.0] * 10))
    found = answer("theory", "bcp", "--series", path, "--sampler-threshold", 0.5)
    assert found["k_curl"] == found["ln_kappa_curl"] == "inf"
    assert found["k_naive"] == 512.0
    assert found["optimal_value"] == 1.0


def test_both_bases_have_one_kappa():
    found = [answer("theory", "bcp", "--n", 100, "--features", name) for name in ("monomial:10", "legendre:10")]
    assert found[0]["ln_kappa_naive"] == found[1]["ln_kappa_naive"] == pytest.approx(48.6474, abs=1e-4)


def test_growth_is_exponential_for_naive_and_bounded_for_the_curriculum():
    rows = answer("theory", "growth", "--n", 10, "--n", 100, "--n", 1000)["rows"]
    assert [row["n"] for row in rows] == [10, 100, 1000]
    assert rows[2]["ln_kappa_naive"] > 999 * math.log(2) - 2
    assert all(row["ln_kappa_curl"] < 0.3 for row in rows)
    assert rows[2]["k_naive"] == pytest.approx(math.exp(rows[2]["ln_k_naive"]))


def test_a_finite_number_beyond_doubles_is_null():
    (row,) = answer("theory", "growth", "--n", 2000)["rows"]
    assert row["k_naive"] is None
    assert row["ln_k_naive"] == pytest.approx(row["ln_kappa_naive"])


def test_problems_are_listed_with_their_parameters():
    found = answer("problems")
    assert [problem["name"] for problem in found["problems"]] == ["bcp", "okd", "adw"]
    assert found["problems"][1]["parameters"] == {
        "n": None,
        "B": None,
        "V": None,
        "sizes": "uniform",
        "values": "uniform",
    }
    assert set(found["distributions"]) >= {"uniform", "histogram", "special", "bernoulli", "empirical"}


def test_people_get_a_table():
    for arguments in (["problems"], ["theory", "bcp", "--n", "50"], ["theory", "growth", "--n", "10"]):
        done = run(*arguments)
        assert done.returncode == 0
        assert len(done.stdout.splitlines()) > 2


REFUSED = [
    (["--nope"], "No such option: --nope"),
    (["theroy"], "No such command 'theroy'"),
    (["theory", "bcp", "--n", "0"], "`n` must be a whole number of at least 1, got 0."),
    (["theory", "bcp", "--n", "ten"], "Invalid value for '--n'"),
    (["theory", "bcp"], "`n` must be given with the series 'classical'."),
    (["theory", "bcp", "--n", "5", "--json", "--color"], "No such option: --color"),
    (["theory", "bcp", "--n", "5", "--features", "fourier"], "unknown features 'fourier'"),
    (["theory", "bcp", "--n", "5", "--features", "monomial:x"], "`features` monomial needs a degree"),
    (["theory", "bcp", "--n", "5", "--sampler-threshold", "2"], "the threshold q must be a number in [0, 1], got '2'."),
    (["theory", "bcp", "--n", "5", "--series", "absent.json"], "cannot read the series file 'absent.json'"),
    (["theory", "growth", "--warmup", "-1"], "`n` must be a whole number of at least 1, got -1."),
]


@pytest.mark.parametrize(("arguments", "sentence"), REFUSED, ids=[" ".join(entry[0]) for entry in REFUSED])
def test_a_mistake_is_one_line_on_stderr(arguments, sentence):
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"rampup: {sentence}")
    assert len(done.stderr.splitlines()) == 1


BAD_SERIES = {
    "[0.5, 1]": "`series` must begin with P_1 = 1",
    "[1, 2]": "`series` must hold numbers in [0, 1], got 2.0.",
    "[1, NaN]": "`series` must hold finite numbers only",
    "[]": "`series` must be a non-empty array",
    '{"P": [1]}': "must hold a JSON list, got a dict",
    '[1, "half"]': "`series` must be an array of numbers",
    "[1, 0.5": "must hold a JSON list of numbers",
    "[" * 100_000: "must hold a JSON list of numbers",
}


@pytest.mark.parametrize("text", BAD_SERIES, ids=lambda text: text[:12])
def test_a_bad_series_file_is_one_line_on_stderr(text, tmp_path):
    path = tmp_path / "series.json"
    path.write_text(text)
    done = run("theory", "bcp", "--series", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert BAD_SERIES[text] in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_has_examples_everywhere_and_imports_no_jax():
    for command in ([], ["problems"], ["theory"], ["theory", "bcp"], ["theory", "growth"]):
        done = run(*command, "--help")
        assert done.returncode == 0
        if command != ["theory"]:
            assert "Examples" in done.stdout
    code = "import sys, rampup.cli; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_contract_of_train():
    command = ["train", "bcp", "--set", "n=12", "--scheme", "curl", "--scheme", "direct", "--warmup", "n=4"]
    found = answer(*command, "--iterations", 30, "--warmup-iterations", 40, "--seeds", 2, "--features", "monomial:3")
    assert [(run["scheme"], run["seed"]) for run in found["runs"]] == [
        ("curl", 0),
        ("curl", 1),
        ("direct", 0),
        ("direct", 1),
    ]
    for run in found["runs"]:
        assert run["optimal_value"] == run["reference_value"] == pytest.approx(0.3955, abs=1e-3)
        assert {"value", "ln_kappa", "avg_err", "samples"} <= set(run)
        warmup_samples = 40 * 4 * 100 if run["scheme"] == "curl" else 0
        assert run["samples"] == 30 * 12 * 100 + warmup_samples


@pytest.mark.slow
def test_train_on_the_knapsack_reports_an_interval():
    done = run(
        *["train", "okd", "--set", "n=5", "--set", "B=0.8", "--set", "V=1", "--scheme", "direct", "--iterations", 3],
        *["--lanes", 10, "--features", "monomial:2"],
    )
    assert done.returncode == 0, done.stderr
    assert "bang_per_buck" in done.stdout
    assert done.stderr == ""


TRAINING_MISTAKES = [
    (["tsp"], "unknown problem 'tsp': known are bcp, okd, adw."),
    (["bcp", "--set", "n"], "`--set` takes name=value, got 'n'."),
    (["bcp", "--set", "m=5"], "unknown parameter of problem 'bcp' 'm'"),
    (["bcp", "--set", "n=5", "--scheme", "curl"], "a curriculum needs a small problem to warm up on: give `warmup`."),
    (["bcp", "--set", "n=5", "--scheme", "cur", "--warmup", "n=2"], "unknown scheme 'cur': did you mean 'curl'?"),
    (["bcp", "--set", "n=5", "--scheme", "direct", "--seeds", "0"], "`seeds` must be a whole number of at least 1"),
    (["bcp", "--set", "n=5", "--scheme", "direct", "--lanes", "0"], "`num_lanes` must be a whole number of at least 1"),
    (["bcp", "--set", "n=5", "--set", "n=7"], "`--set` was given twice for 'n'."),
    (
        ["bcp", "--set", "n=5", "--scheme", "direct", "--learning-rate", "0"],
        "`learning_rate` must be a positive number, got 0.0.",
    ),
    (
        ["bcp", "--set", "n=5", "--warmup", "n=2", "--warmup-iterations", "0"],
        "`iterations` must be a whole number of at least 1, got 0.",
    ),
    (["okd", "--set", "n=5", "--scheme", "direct"], "problem 'okd' needs the parameter `B`."),
    (
        ["bcp", "--set", "n=5", "--scheme", "direct", "--learning-rate", "1e308", "--iterations", "9"],
        "run 'direct' with seed 0 met a number that is not finite",
    ),
]


@pytest.mark.parametrize(
    ("arguments", "sentence"), TRAINING_MISTAKES, ids=[entry[1][:30] for entry in TRAINING_MISTAKES]
)
def test_a_mistake_in_training_is_one_line_on_stderr(arguments, sentence):
    done = run("train", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"rampup: {sentence}")
    assert len(done.stderr.splitlines()) == 1
