"""The bench: what it counts is what is done, and it says all that its contract says. No test here is timed."""

import json
import time

import numpy as np
import pytest

import rampup
from rampup.bench import plain
from rampup.bench.cases import EXPERIMENTS, Case, paper_case
from rampup.bench.clock import seconds_each
from rampup.bench.comparison import plain_row
from rampup.bench.growth import points_of, sized_case
from rampup.learn.trainer import Settings


@pytest.mark.parametrize(
    ("problem", "drawn"),
    [
        (rampup.make("bcp", n=7), 7),
        (rampup.make("okd", n=7, B=2, V=2), 14),
        (rampup.make("adw", n=3, m=5, V=1), 15),
        (rampup.make("adw", n=2, m=5, V=1, bids=["uniform", {"kind": "special"}]), 10),
    ],
)
def test_random_numbers_are_counted(problem, drawn):
    case = Case("one", problem, rampup.as_features("monomial:2", problem), Settings(num_lanes=3))
    assert case.num_episodes == 3 * problem.horizon
    assert case.num_transitions == 3 * problem.horizon**2
    assert case.num_random == 3 * problem.horizon * (drawn + problem.horizon + 2)


def test_few_branch_steps_are_few_episodes():
    case = sized_case("okd", 200, 20)
    assert (case.problem.horizon, case.num_episodes) == (200, 2000)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_growth_is_measured_against_what_it_says(name):
    found = list(points_of(name))
    assert [point.against for point in found] == ["N"] * 4 + ["n"] * 4 + ["n at K = 20"] * 4 + ["runs"] * 4
    of = {"N": lambda point: point.case.settings.num_lanes, "runs": lambda point: point.batch}
    for point in found:
        assert point.size == of.get(point.against, lambda point: point.case.problem.horizon)(point)
        assert point.batch == (point.size if point.against == "runs" else 1)
        assert point.case.settings.steps_per_iteration == (20 if point.against == "n at K = 20" else None)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_cases_have_the_size_of_the_paper(name):
    sizes = {"bcp": (100, 20), "okd": (100, 243), "adw": (20, 81)}
    case = paper_case(name)
    assert (case.problem.horizon, case.features.size) == sizes[name]
    assert case.settings.num_lanes == 100


def test_a_repetition_takes_no_less_than_it_does():
    done = []

    def work(count):
        done.append(count)
        time.sleep(0.002 * count)

    assert seconds_each(work, block=0.02, repeats=3) >= 0.002
    # Once to warm up, blocks that grow, and then blocks of one size.
    assert done[0] == 1
    assert len(set(done[-3:])) == 1


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_plain_transcription_is_of_the_same_size(name):
    case = sized_case(name, 25) if name == "adw" else sized_case(name, 8)
    case = case._replace(settings=Settings(num_lanes=4))
    row = plain_row(case, our_ms=2.0)
    assert row["problem"] == name
    assert row["ratio"] == pytest.approx(row["ms_per_iteration"] / 2)


def test_a_plain_update_is_one_of_algorithm_3():
    fisher, gradient, step = plain.update(
        plain.PlainBCP(1 / np.arange(1, 5), 2), np.zeros(4), None, 50, 0.0, 15.0, 1.0, np.random.default_rng(0)
    )
    assert np.linalg.eigvalsh(fisher)[0] > -1e-12
    assert gradient @ step > 0
    assert np.linalg.norm(step) <= 1 + 1e-9


@pytest.mark.slow
def test_the_contract_of_bench(called, tmp_path):
    code, output, complaint = called(
        "bench", "--problem", "bcp", "--batch", "2", "--no-growth", "--json", "-o", tmp_path / "bench.json"
    )
    assert (code, complaint) == (0, "")
    found = json.loads(output)
    assert json.loads((tmp_path / "bench.json").read_text()) == found
    assert found["device"]
    assert [(row["problem"], row["batch"]) for row in found["rows"]] == [("bcp", 2)]
    for row in found["rows"]:
        numbers = {name: value for name, value in row.items() if isinstance(value, int | float)}
        assert all(number > 0 for number in numbers.values())
        assert row["ratio_to_floor"] == pytest.approx(row["ms_per_iteration_per_run"] / row["floor_ms"])
        assert row["floor_ms"] == pytest.approx(sum(row["floor_parts_ms"].values()))
        assert row["compile_cached_s"] < row["compile_s"]
        assert row["transitions_per_second"] == pytest.approx(1e9 / row["ms_per_iteration_per_run"])
    assert found["plain"][0]["ratio"] > 1
    assert (found["growth"], found["rivals"]) == ([], [])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--problem", "bbc"], "bcp"),
        (["--batch", "1,x"], "1,8,32"),
        (["--batch", "0"], "1,8,32"),
        (["--device", "gpu"], "finds no GPU"),
        (["--device", "tpu"], "cpu"),
        (["--rival"], "rampup[rivals]"),
    ],
)
def test_a_mistake_is_one_sentence(called, options, sentence):
    code, output, complaint = called("bench", *options)
    assert (code, output) == (2, "")
    assert sentence in complaint
    assert len(complaint.splitlines()) == 1
