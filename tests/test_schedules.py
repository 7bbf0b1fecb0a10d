"""How long schemes train: equal budgets for all of them, and the recipe `auto`."""

import copy
import json
import math
import re

import pytest
from hand_made import TINY

from rampup import config, recipes
from rampup.conductor import begin, conduct
from rampup.learn.estimators import EPISODES_PER_LANE
from rampup.learn.trainer import samples_of_update
from rampup.outlines import outline
from rampup.plans import plan
from rampup.recipes import with_auto
from rampup.report.page import page_of

DOCUMENT = TINY | {
    "problem": {"name": "bcp", "parameters": {"n": 20}},
    "warmup": {"parameters": {"n": 5}},
    "multi_step": {"sizes": [{"n": 5}, {"n": 10}, {"n": 20}], "promote_at": 0.8},
    "schemes": ["direct", "naive_samp", "curl", "fix_samp_curl", "multi_step", "auto"],
    "seeds": 1,
    "trainer": {"samples": 20_000, "learning_rate": 0.2, "num_lanes": 10, "record_every": 10},
}


def experiment(**changes):
    document = copy.deepcopy(DOCUMENT)
    for path, value in changes.items():
        *outer, last = path.split("__")
        place = document
        for key in outer:
            place = place[key]
        place[last] = value
    return config.checked(document, "test")


def planned_samples(chosen, run):
    return sum(stage.iterations * samples_of_update(stage.problem, chosen.settings) for stage in run.stages)


def test_with_a_budget_every_scheme_is_planned_for_the_same_samples():
    chosen = plan(with_auto(experiment()))
    step = samples_of_update(chosen.problem, chosen.settings)
    assert step == 20 * 10
    for run in chosen.runs:
        if run.name != "multi_step":
            # Whole updates of both problems: less than one of them is left over.
            assert 20_000 - step < planned_samples(chosen, run) <= 20_000, run.name
    curl = next(run for run in chosen.runs if run.name == "curl")
    assert [stage.iterations for stage in curl.stages] == [200, 50]
    given = plan(experiment(schemes=["curl"], trainer__warmup_iterations=40)).runs[0]
    assert [stage.iterations for stage in given.stages] == [40, 90]


@pytest.mark.long
@pytest.mark.slow
def test_a_run_ends_with_its_budget_wherever_it_was_promoted(tmp_path):
    folder = begin(experiment(), tmp_path / "run")
    summary = conduct(folder)
    last = {row["scheme"]: row for row in folder.rows()}
    for scheme, row in last.items():
        assert 20_000 - 200 < row["samples"] <= 20_000, scheme
    assert {one["scheme"] for one in summary["schemes"]} == set(DOCUMENT["schemes"])
    stages = {row["stage"] for row in folder.rows() if row["scheme"] == "multi_step"}
    assert stages == {0, 1, 2}
    # Whichever step was solved early, no step took more than a third of all.
    steps = [row for row in folder.rows() if row["scheme"] == "multi_step"]
    for stage, (before, after) in enumerate([(0, 20_000 / 3), (0, 40_000 / 3)]):
        assert before < max(row["samples"] for row in steps if row["stage"] == stage) <= after


def test_auto_takes_the_size_and_the_time_that_kappa_predicts():
    chosen = with_auto(experiment())
    assert chosen.auto is not None
    answer = recipes.advice(
        "bcp", {"n": 20}, {}, [], features="monomial:3", reference=None, budget=1e9, seed=0, on_progress=None
    )
    assert chosen.auto.warmup == answer["warmup"]
    (best,) = (one for one in answer["candidates"] if one["warmup"] == answer["warmup"])
    own = best["warmup"]["n"] * math.exp(best["ln_kappa_warmup"])
    whole = own + 20 * math.exp(best["ln_kappa"])
    assert chosen.auto.part == pytest.approx(min(max(own / whole, 0.1), 0.6), abs=1e-4)
    run = next(one for one in plan(chosen).runs if one.name == "auto")
    assert [stage.problem.horizon for stage in run.stages] == [best["warmup"]["n"], 20]
    assert run.stages[0].iterations == int(20_000 * chosen.auto.part) // (best["warmup"]["n"] * 10)


def test_auto_learns_from_scratch_where_no_warm_up_pays():
    chosen = with_auto(experiment(problem__parameters={"n": 8}, multi_step=None, schemes=["auto"]))
    assert chosen.auto.warmup is None
    (run,) = plan(chosen).runs
    assert [(stage.problem.horizon, stage.iterations) for stage in run.stages] == [(8, 20_000 // 80)]


def test_auto_without_a_budget_costs_as_much_as_direct():
    settings = {"iterations": 100, "learning_rate": 0.2, "num_lanes": 10}
    chosen = plan(with_auto(experiment(trainer=settings, schemes=["auto", "direct"])))
    auto, direct = (planned_samples(chosen, run) for run in chosen.runs)
    assert direct - 200 < auto <= direct


def test_what_auto_chose_is_kept_with_the_run(tmp_path, monkeypatch):
    folder = begin(experiment(schemes=["auto"]), tmp_path / "run")
    kept = config.parsed(folder.config, "kept")
    assert kept.auto == with_auto(experiment(schemes=["auto"])).auto
    # Going on needs no second prediction.
    monkeypatch.setattr(recipes, "_chosen", lambda *_: pytest.fail("predicted again"))
    assert conduct(folder) is not None
    part = f"{kept.auto.part:.1%}"
    assert f"auto warms up on n = {kept.auto.warmup['n']} with {part} of its samples." in page_of([folder])


def test_a_folder_that_is_taken_is_refused_before_anything_is_predicted(tmp_path):
    (tmp_path / "mine.txt").touch()
    with pytest.raises(ValueError, match="is not empty"):
        begin(experiment(schemes=["auto"]), tmp_path, on_progress=lambda *_: pytest.fail("predicted"))


REFUSALS = [
    ({"trainer__samples": 100}, "`trainer.samples` are too few: an update takes 200, and 100 are left for it."),
    ({"trainer__iterations": 10}, "test: `trainer` must have either `iterations` or `samples`."),
    ({"trainer": {"learning_rate": 0.1}}, "test: `trainer` must have either `iterations` or `samples`."),
    ({"trainer__samples": 0}, "test: `trainer.samples`: input should be greater than or equal to 1"),
    ({"schemes": ["magic"]}, "unknown scheme 'magic'"),
]


@pytest.mark.parametrize(("changes", "sentence"), REFUSALS, ids=[sentence for _, sentence in REFUSALS])
def test_a_schedule_that_cannot_be_is_refused_with_a_sentence(changes, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}"):
        plan(with_auto(experiment(**changes)))


def test_the_outline_of_a_problem_compares_all_ways_to_learn_it_at_equal_cost():
    found = outline("okd", ["problem.parameters={n: 50, B: 5.0, V: 12.5}"])
    assert found.schemes == ["direct", "curl", "multi_step", "auto"]
    assert found.warmup.parameters == {"n": 10, "B": 1.0, "V": 2.5}
    assert [one.get("n") for one in found.multi_step.sizes] == [10, 20, 35, None]
    assert found.multi_step.sizes[1] == {"n": 20, "B": 2.0, "V": 5.0}
    assert found.trainer.samples == 150 * 50 * 100 * EPISODES_PER_LANE[found.trainer.estimator]
    few = outline("bcp", ["problem.parameters.n=30", "schemes=[curl]", "trainer.iterations=7", "seeds=1"])
    assert (few.schemes, few.trainer.iterations, few.trainer.samples) == (["curl"], 7, None)


@pytest.mark.slow
@pytest.mark.long
def test_run_takes_a_problem_in_place_of_an_experiment(called, tmp_path):
    small = ["--set", "problem.parameters.n=12", "--set", "trainer.samples=5000", "--set", "trainer.num_lanes=5"]
    small += ["--seeds", "1", "--out", str(tmp_path / "run"), "--json"]
    code, output, complaint = called("run", "--problem", "bcp", *small)
    assert code == 0, complaint
    assert [one["scheme"] for one in json.loads(output)["schemes"]] == ["direct", "curl", "multi_step", "auto"]
    for arguments in (["run"], ["run", "bcp-classical", "--problem", "bcp"]):
        code, _, complaint = called(*arguments)
        assert code == 2
        assert "give an experiment, or a problem by `--problem`, and not both." in complaint
