"""What the theory says of a finished run, against other roads to the same numbers."""

import json
import math

import jax.numpy as jnp
import numpy as np
import pytest

import rampup
from rampup import config, streams
from rampup.audit import audit
from rampup.conductor import begin, conduct
from rampup.exact import bcp
from rampup.learn.bound import bounded_run
from rampup.learn.inspection import Effort, sampled_kappa
from rampup.learn.trainer import RunResult
from rampup.plans import plan
from rampup.policy import LogLinear
from rampup.references.rules import Naive
from rampup.runs.schemes import final_phases

# Well-conditioned features and enough lanes: round-off stays round-off in two runs that differ by it.
TINY = {
    "name": "tiny",
    "problem": {"name": "bcp", "parameters": {"n": 8}},
    "warmup": {"parameters": {"n": 4}},
    "features": "legendre:2",
    "schemes": ["direct", "curl", "fix_samp_curl_reg"],
    "seeds": [3, 1],
    "trainer": {
        "learning_rate": 0.2,
        "num_lanes": 50,
        "warmup_iterations": 3,
        "iterations": 3,
        "record_every": 1,
    },
}


KNAPSACK = TINY | {
    "problem": {"name": "okd", "parameters": {"n": 5, "B": 1.0, "V": 1.0}},
    "warmup": {"parameters": {"n": 3}},
    "schemes": ["direct", "curl"],
    "seeds": [0],
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run of which every update was recorded."""
    folder = begin(config.checked(TINY, "tiny"), tmp_path_factory.mktemp("runs") / "run")
    conduct(folder)
    return folder


def test_the_theory_of_a_run_is_kept_in_its_folder(finished):
    chosen = plan(config.checked(TINY, "tiny"))
    assert json.loads((finished.path / "theory.json").read_text()) == finished.theory()
    assert finished.theory() == audit(chosen, finished.rows())
    assert list(finished.theory()["predictions"]) == list(finished.theory()["bounds"]) == TINY["schemes"]


def test_without_a_warm_up_the_prediction_is_what_is_measured(finished):
    found = finished.theory()["predictions"]["direct"]
    first = [phase[0]["ln_kappa"] for phase in final_phases(finished.rows(), "direct")]
    assert found["sampler"] == "naive"
    assert first == pytest.approx([found["ln_kappa"]] * 2, rel=1e-9)


def test_after_a_warm_up_the_prediction_is_for_the_optimal_policy_of_the_small_problem(finished):
    found = finished.theory()["predictions"]
    assert found["curl"] == found["fix_samp_curl_reg"]
    assert found["curl"]["sampler"] == "size:4"
    problem = rampup.make("bcp", n=8)
    # The small problem lets one of four pass, so two of eight.
    sampler = bcp.grafted(problem.record_probs, bcp.threshold_policy(8, 2))
    target = bcp.on_policy(problem.record_probs, bcp.optimum(problem.record_probs).policy)
    features = rampup.as_features("legendre:2", problem)
    kappa = bcp.relative_condition(features, bcp.naive_policy(8), target, sampler)
    assert found["curl"]["ln_kappa"] == pytest.approx(float(kappa.ln), rel=1e-9)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("scheme", TINY["schemes"])
def test_theorem_1_from_records_is_theorem_1_from_a_second_run(finished, scheme):
    chosen = plan(config.checked(TINY, "tiny"))
    run = next(one for one in chosen.runs if one.name == scheme)
    known = bounded_run(run.stages, chosen.features, chosen.settings, run.seed)
    found = finished.theory()["bounds"][scheme]
    assert (found["seed"], found["updates"], found["rows"]) == (3, 3, 3)
    for name, size in found["terms"].items():
        assert size is None or size == pytest.approx(getattr(known.bound, name), rel=1e-6)
    assert found["first_line"] == pytest.approx(known.bound.first_line, rel=1e-6)
    if found["second_line"] is not None:
        assert found["second_line"] == pytest.approx(known.bound.second_line, rel=1e-6)
    if scheme.endswith("_reg"):
        assert found["gap"] is None
    else:
        assert found["gap"] == pytest.approx(known.gap, rel=1e-9)


def test_a_row_stands_for_the_updates_until_the_next(finished):
    chosen = plan(config.checked(TINY, "tiny"))
    rows = [row for row in finished.rows() if row["iteration"] in (0, 2, 3)]
    found = audit(chosen, rows)["bounds"]["direct"]
    errors = {row["iteration"]: row["err"] for row in final_phases(rows, "direct")[0]}
    assert (found["updates"], found["rows"]) == (3, 2)
    assert found["terms"]["fitting"] == pytest.approx((2 * errors[0] + errors[2]) / 3)


def test_losses_in_the_rows_give_the_second_line(finished):
    chosen = plan(config.checked(TINY, "tiny"))
    rows = [row | {"excess_risk": 0.5, "transfer_error": 2.0} for row in finished.rows()]
    found = audit(chosen, rows)["bounds"]["curl"]
    largest = max(row["ln_kappa"] for row in final_phases(rows, "curl")[0][:-1])
    assert found["terms"]["transfer"] == pytest.approx(math.sqrt(8 * 2.0))
    assert found["terms"]["statistical"] == pytest.approx(math.sqrt(8 * np.exp(largest) * 0.5))
    terms = found["terms"]
    assert found["second_line"] == pytest.approx(sum(terms.values()) - terms["fitting"])
    endless = [row | {"ln_kappa": None} for row in rows]
    assert audit(chosen, endless)["bounds"]["curl"]["second_line"] == "inf"


def test_what_cannot_be_bounded_is_left_out(finished):
    chosen = plan(config.checked(TINY, "tiny"))
    assert audit(chosen, [row | {"err": None} for row in finished.rows()])["bounds"] == {}
    fast = config.checked(TINY | {"trainer": TINY["trainer"] | {"learning_rate": 200.0}}, "fast")
    assert set(audit(plan(fast), finished.rows())["bounds"]) == {"direct", "curl"}


def test_another_reference_has_another_prediction(finished):
    other = plan(config.checked(TINY | {"reference": "threshold:0.7"}, "other"))
    problem = rampup.make("bcp", n=8)
    found = audit(other, finished.rows())["predictions"]["direct"]["ln_kappa"]
    target = bcp.on_policy(problem.record_probs, bcp.threshold_policy(8, 5))
    naive = bcp.grafted(problem.record_probs, bcp.naive_policy(8))
    kappa = bcp.relative_condition(rampup.as_features("legendre:2", problem), bcp.naive_policy(8), target, naive)
    assert found == pytest.approx(float(kappa.ln), rel=1e-9)


def test_a_sampled_problem_is_measured_only():
    okd = {"name": "okd", "parameters": {"n": 4, "B": 1, "V": 1}}
    changes = {"problem": okd, "warmup": {"parameters": {"n": 2}}, "features": "monomial:1"}
    nothing = {"predictions": {}, "bounds": {}, "against_best": {}}
    assert audit(plan(config.checked(TINY | changes, "okd")), []) == nothing


@pytest.mark.slow
@pytest.mark.long
def test_kappa_against_the_best_policy_learned_is_of_who_rolled_in_first():
    chosen = plan(config.checked(KNAPSACK, "knapsack"))
    rng = np.random.default_rng(0)
    warm, other, best = rng.normal(size=(3, chosen.features.size))
    results = [
        RunResult(run, [best] if run.name == "direct" else [warm, other]) for run in chosen.runs if run.seed == 0
    ]
    ends = {"direct": 0.4, "curl": 0.3}
    records = [
        {"scheme": name, "seed": 0, "stage": int(name == "curl"), "value": value} for name, value in ends.items()
    ]
    found = audit(chosen, records, results)["against_best"]
    naive, target = Naive(2), LogLinear(chosen.problem, chosen.features, jnp.asarray(best))
    taught = LogLinear(chosen.problem, chosen.features, jnp.asarray(warm))
    for name, roll_in in (("direct", naive), ("curl", taught)):
        condition, spread = sampled_kappa(
            chosen.problem,
            chosen.features,
            jnp.zeros(chosen.features.size),
            streams.key(0),
            reference_fn=target,
            roll_in_fn=roll_in,
            branch_fn=naive,
            effort=Effort(),
        )
        assert found[name]["target"] == "direct"
        assert found[name]["ln_kappa"] == pytest.approx(float(condition.ln), rel=1e-6)
        assert found[name]["error"] == pytest.approx(float(spread), rel=1e-3, abs=1e-9)
    assert found["direct"]["ln_kappa"] != found["curl"]["ln_kappa"]
