"""The command line, run as a user runs it."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rampup.runs.policy_file import write_policy

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
    # Installed packages may announce more.
    names = [problem["name"] for problem in found["problems"]][:6]
    assert names == ["bcp", "okd", "adw", "choice", "okd_value", "adw_value"]
    assert found["problems"][1]["parameters"] == {
        "n": None,
        "B": None,
        "V": None,
        "sizes": "uniform",
        "values": "uniform",
        "data": None,
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


@pytest.mark.slow
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


TRAIN_KNAPSACK = ["train", "okd", "--set", "n=5", "--set", "B=0.8", "--set", "V=1", "--scheme", "direct"]
TRAIN_KNAPSACK += ["--iterations", 3, "--lanes", 10, "--features", "monomial:2"]


@pytest.mark.slow
def test_train_on_the_knapsack_reports_an_interval():
    done = run(*TRAIN_KNAPSACK)
    assert done.returncode == 0, done.stderr
    assert "bang_per_buck" in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.long
def test_what_samples_cannot_tell_is_null_in_json():
    (found,) = answer(*TRAIN_KNAPSACK)["runs"]
    assert found["excess_risk"] is None
    low, high = found["value_interval"]
    assert 0 <= low <= found["value"] <= high <= 1


TRAINING_MISTAKES = [
    (["tsp"], "unknown problem 'tsp': known are bcp, okd, adw"),
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


def test_the_contract_of_evaluate():
    command = ["evaluate", "okd", "--set", "n=10", "--set", "B=1", "--set", "V=2", "--episodes", 2000]
    found = answer(*command, "--policy", "bang_per_buck", "--policy", "greedy", "--optimum", "--hindsight", 20)
    assert [entry["policy"] for entry in found["policies"]] == ["bang_per_buck", "greedy"]
    best, seen = found["optimum"], found["hindsight"]
    assert 0 < best["lower"] <= best["upper"] < 1
    assert seen["instances"] == 20
    assert seen["interval"][0] <= seen["value"] <= seen["interval"][1]
    for entry in found["policies"]:
        low, high = entry["interval"]
        assert 0 < low < entry["value"] < high < 1
        # The whole width of the interval is nearly four standard errors.
        assert entry["value"] <= best["upper"] + (high - low)
        assert entry["competitive_ratio"] == pytest.approx(1 - entry["gap_to_hindsight"] / seen["value"])
        assert entry["gap_to_hindsight"] >= 0
    (pair,) = found["differences"]
    assert pair["difference"] == pytest.approx(found["policies"][0]["value"] - found["policies"][1]["value"])
    assert (found["problem"], found["episodes"], found["seed"]) == ("okd", 2000, 0)


def test_the_contract_of_advise(tmp_path):
    series = tmp_path / "series.json"
    for numbers, recommended in (([1 / i for i in range(1, 31)], "curriculum"), ([1.0] * 30, "naive")):
        series.write_text(json.dumps(numbers))
        found = answer("advise", "bcp", "--set", "n=30", "--series", series)
        assert found["recommend"] == recommended
        assert (found["warmup"] is None) == (recommended != "curriculum")
        assert isinstance(found["why"], str)
        assert found["why"].endswith(".")
        assert found["candidates"][0]["sampler"] == "naive"
        for one in found["candidates"]:
            assert one["ln_kappa"] == "inf" or one["ln_kappa"] >= 0
    # Every arrival a record: whoever learned on fewer never sees the last one.
    assert {one["ln_kappa"] for one in found["candidates"][1:]} == {"inf"}


@pytest.mark.slow
@pytest.mark.long
def test_advice_about_an_experiment_takes_everything_from_it(tmp_path):
    experiment = {
        "name": "mine",
        "problem": {"name": "bcp", "parameters": {"n": 30, "series": "random:7"}},
        "warmup": {"parameters": {"n": 11}},
        "features": "monomial:4",
        "reference": "threshold:0.5",
        "schemes": ["direct"],
        "seeds": 1,
        "trainer": {"iterations": 1, "warmup_iterations": 1, "learning_rate": 0.1},
        "presets": {"quick": {"problem": {"parameters": {"n": 20}}}},
    }
    path = tmp_path / "mine.yaml"
    path.write_text(json.dumps(experiment))
    found = answer("advise", path)
    assert (found["problem"], found["features"]) == ("bcp", "monomial:4")
    by_sampler = {one["sampler"]: one for one in found["candidates"]}
    assert "size:11" in by_sampler
    # The sampler that is the reference itself, at theta = 0, is as good as can be: kappa is that of the same states.
    same = answer("advise", path, "--policy", "threshold:0.5", "--warmup", "n=11", "--features", "one_hot")
    assert [one["sampler"] for one in same["candidates"]] == ["naive", "size:11", "threshold:0.5"]
    assert same["features"] == "one_hot"
    assert same["candidates"][2]["ln_kappa"] == min(one["ln_kappa"] for one in same["candidates"])
    changed = answer("advise", path, "--preset", "quick", "--warmup", "n=11")
    assert changed["candidates"][0]["ln_kappa"] < by_sampler["naive"]["ln_kappa"]
    assert changed["candidates"] == answer("advise", path, "--set", "n=20", "--warmup", "n=11")["candidates"]


def test_advice_about_a_shipped_experiment_is_that_about_its_problem():
    found = answer("advise", "bcp-classical", "--warmup", "n=10")
    assert found == answer("advise", "bcp", "--set", "n=100", "--features", "monomial:10", "--warmup", "n=10")


def test_a_small_problem_is_learned_directly():
    found = answer("advise", "bcp", "--set", "n=8", "--policy", "threshold:3")
    assert (found["recommend"], found["warmup"]) == ("direct", None)
    assert [one["sampler"] for one in found["candidates"]] == ["naive", "threshold:3"]


def printed(code, output, complaint):
    assert (code, complaint) == (0, "")
    return output


def only_line(code, output, complaint):
    """The one line with which a command was refused."""
    assert (code, output) == (2, "")
    assert complaint.startswith("rampup: ")
    assert len(complaint.splitlines()) == 1
    return complaint.removeprefix("rampup: ")


@pytest.mark.slow
def test_a_saved_policy_can_be_evaluated(called, tmp_path):
    command = ["train", "bcp", "--set", "n=12", "--scheme", "direct", "--iterations", 5, "--lanes", 20]
    command += ["--features", "monomial:3", "--seeds", 2, "--save", tmp_path / "policies"]
    trained = json.loads(printed(*called(*command, "--json")))
    paths = [tmp_path / "policies" / f"direct-{seed}.json" for seed in range(2)]
    assert sorted((tmp_path / "policies").iterdir()) == paths
    saved = [json.loads(path.read_text()) for path in paths]
    assert [one["theta"] for one in saved] == [run["theta"] for run in trained["runs"]]
    assert saved[1]["provenance"] == {"scheme": "direct", "seed": 1, "warmup": {}}
    chosen = [argument for path in paths for argument in ("--policy", path)]
    found = json.loads(printed(*called("evaluate", "bcp", "--set", "n=12", *chosen, "--episodes", 500, "--json")))
    for entry, path, run in zip(found["policies"], paths, trained["runs"], strict=True):
        assert entry["policy"] == str(path)
        assert entry["exact_value"] == pytest.approx(run["value"], rel=1e-12)


KNAPSACK = ["okd", "--set", "n=5", "--set", "B=1", "--set", "V=1"]


def test_a_saved_policy_that_does_not_fit_is_one_line_on_stderr(called, tmp_path):
    path = tmp_path / "policy.json"
    write_policy(path, problem="bcp", parameters={"n": 5}, features="one_hot", theta=np.zeros(10))
    command = ["--policy", path, "--episodes", 2]
    assert only_line(*called("evaluate", *KNAPSACK, *command)).endswith("is for bcp, not for okd.\n")
    assert "was trained on another size" in only_line(*called("evaluate", "bcp", "--set", "n=6", *command))
    whole = path.read_text()
    path.write_text(whole.replace("0.0", "0.5", 1))
    assert "was changed after it was written" in only_line(*called("evaluate", "bcp", "--set", "n=5", *command))
    path.write_text(whole[:100])
    assert "or was cut short" in only_line(*called("evaluate", "bcp", "--set", "n=5", *command))


MISTAKES = [
    (["evaluate", "bcp", "--set", "n=5"], "give at least one `--policy`."),
    (
        ["evaluate", "bcp", "--set", "n=5", "--policy", "greedy"],
        "'greedy' is a policy of okd, adw, okd_value and adw_value, not of bcp, whose",
    ),
    (
        ["evaluate", *KNAPSACK, "--policy", "bang_per_buk"],
        "unknown policy of okd 'bang_per_buk': did you mean 'bang_per_buck'?",
    ),
    (
        ["evaluate", "okd", "--set", "n=5", "--set", "B=1", "--set", "V=6", "--policy", "greedy"],
        "`V` = 6 can never be reached: at most 5 items fit, worth at most 1 each.",
    ),
    (
        ["evaluate", "adw", "--set", "n=2", "--set", "m=9", "--set", "V=3", "--policy", "greedy"],
        "`V` = 3 can never be reached: 2 budgets of 1 and 9 bids of at most 1 give at most 2.",
    ),
    (["evaluate", *KNAPSACK, "--policy", "absent.json"], "cannot read the policy file 'absent.json'"),
    (["evaluate", *KNAPSACK, "--policy", "greedy", "--policy", "greedy"], "`--policy` was given twice for 'greedy'."),
    (
        ["evaluate", *KNAPSACK, "--policy", "greedy", "--episodes", "1"],
        "`episodes` must be a whole number of at least 2",
    ),
    (["evaluate", *KNAPSACK, "--policy", "greedy", "--hindsight", "20000"], "`hindsight` must be at most 10000"),
    (["evaluate", *KNAPSACK, "--policy", "greedy", "--picture", "a.gif"], "`picture` must end in .png, .pdf, .svg"),
    (["advise", "tsp"], "unknown problem or experiment 'tsp': known are bcp, okd, adw, "),
    (["advise", "bcp-clasical"], "unknown problem or experiment 'bcp-clasical': did you mean 'bcp-classical'?"),
    (["advise", "absent.yaml"], "cannot read the experiment file 'absent.yaml'"),
    (["advise", "bcp", "--preset", "quick"], "`--preset` is for experiments, and 'bcp' is a problem."),
    (["advise", "bcp-classical", "--preset", "tiny"], "bcp-classical: unknown preset 'tiny': known are paper, quick."),
    (["advise", "bcp", "--set", "n=9", "--warmup", "n=10"], "`n` must be at most 9, got 10."),
    (["advise", "bcp", "--set", "n=9", "--budget", "0"], "`budget` must be a positive number, got 0.0."),
    (["advise", "bcp", "--set", "series=classical", "--series", "classical"], "`series` was given twice."),
    (
        ["theory", "samples", "bcp", "--set", "n=9", "--excess-risk", "0"],
        "`excess_risk` must be a number of at least 1e-100",
    ),
    (["theory", "bound", "--set", "n=9", "--scheme", "curl"], "a curriculum needs a small problem to warm up on"),
]


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES, ids=[entry[1][:40] for entry in MISTAKES])
def test_a_mistake_in_comparing_is_one_line_on_stderr(arguments, sentence, called):
    assert only_line(*called(*arguments)).startswith(sentence)


def test_an_evaluation_is_a_table_and_a_picture(called, tmp_path):
    command = ["evaluate", "bcp", "--set", "n=12", "--policy", "optimal", "--policy", "threshold:0.5"]
    picture = tmp_path / "comparison.svg"
    shown = printed(*called(*command, "--episodes", 500, "--optimum", "--hindsight", 50, "--picture", picture))
    assert shown.splitlines()[0].split("  ")[0] == "policy"
    assert "optimal - threshold:0.5" in shown
    assert "The best any online player can do: 0.3955147 (exact)." in shown
    assert "An all-seeing player succeeds on 1.0000 of 50 instances" in shown
    assert "online optimum" in picture.read_text()


def test_advice_and_sample_sizes_are_shown_to_people(called):
    shown = printed(*called("advise", "bcp", "--set", "n=30", "--warmup", "n=10"))
    assert shown.startswith("curriculum, warm-up on n = 10\n")
    assert [line.split()[0] for line in shown.splitlines()[-3:]] == ["sampler", "naive", "size:10"]
    shown = printed(*called("theory", "samples", "bcp", "--set", "n=10", "--fixed-sampler"))
    assert shown.startswith("N = ")
    assert len(shown.splitlines()) == 1


def test_sample_sizes_come_with_their_constants(called):
    command = ["theory", "samples", "okd", "--set", "n=10", "--set", "B=1", "--set", "V=2", "--features", "monomial:2"]
    found, stricter = (json.loads(printed(*called(*command, "--excess-risk", risk, "--json"))) for risk in (0.1, 0.01))
    assert (found["horizon"], found["num_actions"], found["dimension"]) == (10, 2, 32)
    # Five variables of at most 1, with two powers each.
    assert found["feature_norm"] == pytest.approx(math.sqrt(32))
    assert 0 < found["lemma"] < found["uniform"]
    assert stricter["lemma"] == pytest.approx(100 * found["lemma"])


@pytest.mark.slow
def test_theorem_1_is_held_against_a_run(called):
    command = ["theory", "bound", "--set", "n=8", "--iterations", 5, "--lanes", 20, "--features", "monomial:3"]
    found = json.loads(printed(*called(*command, "--json")))
    assert found["gap"] <= found["first_line"] <= found["second_line"]
    assert set(found["terms"]) == {"initial", "smoothness", "fitting", "transfer", "statistical"}
    assert found["updates"] == 5
    shown = printed(*called(*command))
    assert f"the largest term of the second line is {found['dominant']}" in " ".join(shown.split())


def test_help_of_the_newer_commands_has_examples(called):
    for command in (["evaluate"], ["advise"], ["train"], ["theory", "bound"], ["theory", "samples"]):
        assert "Examples" in printed(*called(*command, "--help"))
