"""The claims of the paper: each can hold and each can fail, on run folders written by hand."""

import json
import math

import numpy as np
import pytest
from hand_made import after_warmup, phase, write_run

from rampup import claims, config, stories
from rampup.claims import claims_of
from rampup.exact import bcp
from rampup.problems import make

FOUR = ["direct", "naive_samp", "curl", "fix_samp_curl"]


def judged(judge, folder):
    return list(judge(claims.evidence_of(folder)))


def race(path, curl, direct):
    (claim,) = judged(claims.fewer_samples, write_run(path, {"curl": curl, "direct": direct}))
    return claim


def climb(rows, top=0.33):
    """Nothing, and from some row on so much that the mean of three rows reaches 0.2 with the second of them."""
    return [0.0] * rows + [top] * 6


@pytest.mark.parametrize(("rows", "holds"), [(19, True), (18, False), (8, False), (60, True)])
def test_a_curriculum_needs_at_most_half_the_samples(tmp_path, rows, holds):
    # curl is there from the start of its final phase on, after the 1,000 samples of its warm-up.
    claim = race(tmp_path / "run", after_warmup([0.3] * 4), phase(climb(rows)))
    assert claim.holds == holds
    assert claim.measured == f"1,000 samples (1,000 of them the warm-up's) against {100 * (rows + 1):,}"
    assert claim.claim == "curl reaches half of the reference (0.2000) with far fewer samples than direct"


def test_the_samples_of_the_warm_up_count(tmp_path):
    assert race(tmp_path / "short", after_warmup([0.3], start=500), phase(climb(15))).holds
    assert not race(tmp_path / "long", after_warmup([0.3], start=1500), phase(climb(15))).holds


@pytest.mark.parametrize(("rows", "holds"), [(11, True), (10, False), (40, True)])
def test_one_that_never_gets_there_must_have_had_as_many_samples(tmp_path, rows, holds):
    claim = race(tmp_path / "run", after_warmup([0.3] * 4), phase([0.01] * rows))
    assert claim.holds == holds
    assert claim.measured == f"1,000 samples (1,000 of them the warm-up's) against never in {100 * (rows - 1):,}"


def test_a_curriculum_that_learns_nothing_fails(tmp_path):
    claim = race(tmp_path / "run", after_warmup([0.04] * 4), phase([0.0] * 60))
    assert not claim.holds
    assert claim.measured == "curl learns nothing"


@pytest.mark.parametrize(
    ("best", "goal"),
    [(0.1, "curl's own best (0.0500)"), (0.3, "the reference (0.2000)"), (0.6, "curl's own best (0.3000)")],
)
def test_the_goal_is_the_reference_or_the_best_of_the_curriculum(tmp_path, best, goal):
    claim = race(tmp_path / "run", after_warmup([0.0, *[best] * 6]), phase([0.01] * 60))
    assert claim.holds
    assert goal in claim.claim


def test_one_lucky_evaluation_is_no_success(tmp_path):
    lucky = [0.0, 0.0, 0.0, 0.35, *[0.0] * 40]
    assert "never in" in race(tmp_path / "run", after_warmup([0.3] * 4), phase(lucky)).measured


@pytest.mark.parametrize(("lucky", "holds"), [(1, True), (2, False)])
def test_the_median_seed_decides(tmp_path, lucky, holds):
    direct = [row for seed in range(3) for row in phase(climb(3) if seed < lucky else [0.0] * 9, each=200, seed=seed)]
    curl = [row for seed in range(3) for row in after_warmup([0.3] * 4, seed=seed)]
    assert race(tmp_path / "run", curl, direct).holds == holds


def test_every_curriculum_is_set_against_what_differs_only_in_it(tmp_path):
    plain = {"direct": phase([0.0] * 60), "naive_samp": phase([0.0] * 60)}
    warm = {"curl": after_warmup([0.3] * 4), "fix_samp_curl": after_warmup([0.3] * 4)}
    both = plain | warm
    everything = both | {f"{name}_reg": rows for name, rows in both.items()}

    def pairs(folder):
        found = judged(claims.fewer_samples, folder)
        return {(one.claim.split()[0], one.claim.split()[-1]) for one in found if one.holds}

    expected = {("curl", "direct"), ("fix_samp_curl", "naive_samp")}
    assert pairs(write_run(tmp_path / "four", both)) == expected
    # The paper says nothing of those with entropy regularisation.
    assert pairs(write_run(tmp_path / "eight", everything)) == expected
    some = write_run(tmp_path / "some", {"direct": plain["direct"], "naive_samp_reg": plain["direct"]} | warm)
    assert pairs(some) == {("curl", "direct"), ("fix_samp_curl", "direct")}
    assert pairs(write_run(tmp_path / "none", {**warm, "multi_step": warm["curl"]})) == set()


KAPPAS = [(1.0, 3.0, True), (1.1, 3.0, False), (3.0, 1.0, False), (1.0, math.inf, True)]
KAPPAS += [(math.inf, math.inf, False), (math.inf, 5.0, False)]


@pytest.mark.parametrize(("own", "naive", "holds"), KAPPAS)
def test_kappa_of_the_curriculum_is_far_lower(tmp_path, own, naive, holds):
    rows = {"naive_samp": phase([0.0] * 3, ln_kappa=naive), "fix_samp_curl": after_warmup([0.0] * 3, ln_kappa=own)}
    # Those that are not asked, if there are others.
    rows |= {"direct": phase([0.0], ln_kappa=9.0), "curl": after_warmup([0.0], ln_kappa=8.0)}
    (claim,) = judged(claims.lower_kappa, write_run(tmp_path / "run", rows))
    assert claim.holds == holds
    assert claim.measured == " against ".join("infinite" if math.isinf(one) else f"{one:.2f}" for one in (own, naive))


def test_without_them_curl_and_direct_tell_of_kappa(tmp_path):
    rows = {"direct": phase([0.0], ln_kappa=9.0), "curl": after_warmup([0.0], ln_kappa=8.0)}
    (claim,) = judged(claims.lower_kappa, write_run(tmp_path / "run", rows))
    assert (claim.measured, claim.holds) == ("8.00 against 9.00", False)
    assert judged(claims.lower_kappa, write_run(tmp_path / "other", {"curl": rows["curl"]})) == []


def test_direct_begins_with_what_naive_sampling_samples():
    probs, uniform = make("bcp", n=12).record_probs, bcp.naive_policy(12)
    for own, naive in zip(bcp.on_policy(probs, uniform), bcp.grafted(probs, uniform), strict=True):
        np.testing.assert_allclose(own, naive, rtol=1e-15)


def best_choice(path, n=100, warmup=10, series=None, warmup_series=None, **settings):
    rows = {"direct": phase([0.0] * 60, ln_kappa=9.0), "curl": after_warmup([0.3] * 4)}
    large, small = (
        {"n": size} | ({} if given is None else {"series": given})
        for size, given in ((n, series), (warmup, warmup_series))
    )
    problem = {"name": "bcp", "parameters": large}
    return write_run(path, settings.pop("rows", rows), problem=problem, warmup=small, **settings)


def test_kappa_of_best_choice_is_also_told_exactly(tmp_path):
    measured, exact = judged(claims.lower_kappa, best_choice(tmp_path / "large"))
    assert (measured.measured, exact.measured) == ("1.00 against 9.00", "0.21 against 67.64")
    assert exact.holds
    _, exact = judged(claims.lower_kappa, best_choice(tmp_path / "small", n=4, warmup=3))
    assert not exact.holds
    ones = best_choice(tmp_path / "ones", n=20, warmup=2, series=[1] * 20, warmup_series=[1] * 2)
    _, exact = judged(claims.lower_kappa, ones)
    assert (exact.measured, exact.holds) == ("infinite against 13.17", False)


def test_kappa_of_the_classical_problem_grows_as_the_paper_says(tmp_path):
    naive, warm, worst = judged(claims.growth, best_choice(tmp_path / "run"))
    assert [one.holds for one in (naive, warm, worst)] == [True] * 3
    assert naive.measured == "ln kappa grows by 0.6920 to 0.6953 an arrival"
    assert warm.measured == "1.07 times"
    assert worst.measured == "2.14 times"
    assert judged(claims.growth, best_choice(tmp_path / "other", series="adversarial")) == []
    assert judged(claims.growth, write_run(tmp_path / "okd", {"direct": phase([0]), "curl": after_warmup([0])})) == []


@pytest.mark.parametrize(
    ("naive", "curl", "holds"),
    [
        (lambda n: 0.7 * n, lambda n: math.log(n), [True, True]),
        (lambda n: 5 * math.log(n), lambda n: 0.0, [False, True]),
        (lambda n: 0.72 * n, lambda n: 1.2 * math.log(n), [False, False]),
        (lambda n: 0.69 * n, lambda n: math.inf, [True, False]),
    ],
)
def test_another_growth_is_noticed(tmp_path, monkeypatch, naive, curl, holds):
    rows = [{"ln_kappa_naive": naive(n), "ln_kappa_curl": curl(n)} for n in claims._SIZES]
    monkeypatch.setattr(stories, "bcp_growth", lambda *_: {"rows": rows})
    assert [one.holds for one in judged(claims.growth, best_choice(tmp_path / "run"))] == [*holds, True]


def test_a_warm_up_that_is_too_small_makes_kappa_infinite(tmp_path):
    _, warm, _ = judged(claims.growth, best_choice(tmp_path / "run", warmup=1))
    assert (warm.measured, warm.holds) == ("infinite", False)


def steps(path, curl, multi):
    (claim,) = judged(claims.one_step_suffices, write_run(path, {"curl": curl, "multi_step": multi}))
    return claim


@pytest.mark.parametrize(
    ("curl", "multi", "holds"), [(0.30, 0.30, True), (0.29, 0.30, True), (0.27, 0.30, False), (0.19, 0.19, False)]
)
def test_one_step_does_as_well_as_many(tmp_path, curl, multi, holds):
    claim = steps(tmp_path / "run", after_warmup([curl] * 9), after_warmup([multi] * 9))
    assert claim.holds == holds
    assert claim.measured == f"{curl:.4f} against {multi:.4f}"


def test_the_steps_are_compared_at_samples_that_both_have(tmp_path):
    slow = after_warmup([0.2] * 10 + [0.4] * 10)
    claim = steps(tmp_path / "run", slow, after_warmup([0.3] * 10))
    assert "after 1,900 samples" in claim.claim
    assert (claim.measured, claim.holds) == ("0.2000 against 0.3000", False)
    assert steps(tmp_path / "other", slow, after_warmup([0.3] * 20)).holds


def test_one_that_is_still_on_a_smaller_problem_shows_nothing(tmp_path):
    for index, (own, many) in enumerate([(1000, 9000), (9000, 1000)]):
        curl, multi = (after_warmup([0.3] * 10, start=start) for start in (own, many))
        assert not steps(tmp_path / str(index), curl, multi).holds


def adversarial(path, curl, n=100, warmup=10):
    rows = {"direct": phase([0.0] * 60), "curl": after_warmup(curl)}
    return best_choice(path, n, warmup, "adversarial", rows=rows, optimum=0.6)


@pytest.mark.parametrize(("curl", "holds"), [([0.01] * 4, True), ([0.0, 0.4, 0.4, 0.4, 0.0], False)])
def test_the_adversarial_series_makes_the_curriculum_fail(tmp_path, curl, holds):
    value, kappa = claims_of(adversarial(tmp_path / "run", curl))
    assert (value.holds, kappa.holds) == (holds, True)
    assert value.required == "at most half of the optimum (0.3000)"
    assert kappa.measured == "82.89 against 68.62"


def test_a_warm_up_of_full_size_does_not_fail_there(tmp_path):
    _, kappa = claims_of(adversarial(tmp_path / "run", [0.01], n=5, warmup=5))
    assert not kappa.holds


def test_what_is_not_finished_is_refused(tmp_path):
    folder = write_run(tmp_path / "run", {"curl": after_warmup([0.3])}, is_finished=False)
    with pytest.raises(ValueError, match="is not finished: go on with `rampup resume "):
        claims_of(folder)


def test_a_claim_is_a_document(tmp_path):
    (claim, *_) = claims_of(best_choice(tmp_path / "run"))
    assert set(claim.document()) == {"experiment", "claim", "measured", "required", "pass"}
    assert json.loads(json.dumps(claim.document()))["pass"] is True


@pytest.mark.parametrize("name", sorted(set(config.shipped_names()) - {"bcp-multistep"}))
def test_quick_training_without_a_curriculum_gets_as_many_samples(name):
    experiment = config.load(name, preset="quick", overrides=[f"schemes={FOUR}"])
    length = "m" if experiment.problem.name == "adw" else "n"
    warmup = experiment.trainer.warmup_iterations * experiment.warmup.parameters[length]
    own = {scheme: experiment.iterations_of(scheme) * experiment.problem.parameters[length] for scheme in FOUR}
    assert min(own["direct"], own["naive_samp"]) >= warmup + max(own["curl"], own["fix_samp_curl"])
