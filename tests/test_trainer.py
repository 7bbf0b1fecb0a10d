"""Training: schemes, stages, batches, determinism, and what happens when numbers go wrong."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from finite_problem import random_finite_problem

import rampup
from rampup.exact import bcp
from rampup.learn import programs, trainer
from rampup.learn.curriculum import checked_stages
from rampup.references.rules import Threshold

SMALL, LARGE = rampup.make("bcp", n=5), rampup.make("bcp", n=15)
FEATURES = rampup.as_features("monomial:4", LARGE)
QUICK = rampup.Settings(learning_rate=0.2, num_lanes=20, record_every=5)


def runs_of(*names, seeds=(0,), iterations=10):
    return [
        rampup.Run(name, rampup.scheme(name, LARGE, SMALL, iterations=iterations), seed)
        for name in names
        for seed in seeds
    ]


def test_the_eight_schemes_are_those_of_the_table():
    assert len(rampup.SCHEMES) == 8
    table = {
        "direct": [("zero", "on_policy")],
        "naive_samp": [("zero", "naive")],
        "curl": [("zero", "on_policy"), ("previous", "on_policy")],
        "fix_samp_curl": [("zero", "on_policy"), ("zero", "previous")],
    }
    for name, phases in table.items():
        for suffix, weight in (("", 0.0), ("_reg", 0.01)):
            stages = rampup.scheme(name + suffix, LARGE, SMALL, iterations=7, warmup_iterations=3)
            assert [(stage.start, stage.sampler) for stage in stages] == phases
            assert all(stage.regularisation == weight for stage in stages)
            assert stages[-1].problem is LARGE
            assert stages[-1].iterations == 7
            if len(stages) == 2:
                assert (stages[0].problem, stages[0].iterations) == (SMALL, 3)


@pytest.mark.slow
@pytest.mark.long
def test_what_is_compiled_ahead_is_all_that_is_run(monkeypatch):
    # As on a GPU: the runs of a group in one program.
    monkeypatch.setattr(trainer, "_batches", lambda group: [group])
    runs = [
        rampup.Run("direct", rampup.scheme("direct", LARGE, iterations=15)),
        rampup.Run("curl", rampup.scheme("curl", LARGE, SMALL, iterations=10)),
        rampup.Run("naive_samp_reg", rampup.scheme("naive_samp_reg", LARGE, iterations=5)),
    ]
    training = trainer.Training(runs, FEATURES, QUICK)
    # Factorisations of two programs in flight may wait for each other on the threads of a processor.
    pool = ThreadPoolExecutor(max_workers=1)
    monkeypatch.setattr(programs, "_pool", lambda: pool)
    wait(training.compile_ahead())
    forms = set(training._compiling)
    # The warm-up of one run; all three; two, none of them with a fixed sampler; one.
    assert len(forms) == 4
    asked = set()
    monkeypatch.setattr(trainer, "_form", lambda group, form=trainer._form: asked.add(form(group)) or form(group))
    with jax.log_compiles(), compiled_names() as names:
        while training.advance():
            pass
    assert asked == forms
    assert not [name for name in names if "updates" in name or "inspect" in name]
    plain = rampup.train(runs, FEATURES, QUICK)
    for one, other in zip(training.results, plain, strict=True):
        np.testing.assert_allclose(one.theta, other.theta, rtol=1e-8)


def test_what_was_not_begun_is_not_compiled_once_training_stops():
    begun, may_end, pool = threading.Event(), threading.Event(), programs._pool()
    workers = [pool.submit(lambda: begun.set() or may_end.wait(60)) for _ in range(4)]
    training = trainer.Training(runs_of("direct"), FEATURES, QUICK)
    waiting = training.compile_ahead()
    begun.wait(60)
    programs.stop_compiling()
    may_end.set()
    assert all(program.cancelled() for program in waiting)
    assert all(worker.result(60) for worker in workers)
    # It is compiled when it is needed, as without all this.
    assert training.advance()


@contextmanager
def compiled_names():
    """The messages of JAX about what it compiles meanwhile."""
    names, logger = [], logging.getLogger("jax._src.interpreters.pxla")
    handler = logging.Handler()
    handler.emit = lambda record: names.append(record.getMessage())
    logger.addHandler(handler)
    try:
        yield names
    finally:
        logger.removeHandler(handler)


@pytest.mark.long
@pytest.mark.slow
def test_all_eight_schemes_and_two_seeds_train_in_one_batch():
    reports = []
    results = rampup.train(runs_of(*rampup.SCHEMES, seeds=(0, 1)), FEATURES, QUICK, on_progress=reports.append)
    assert [result.run.name for result in results] == [name for name in rampup.SCHEMES for _ in range(2)]
    # Warm-up: the four curricula of both seeds in one batch; then all sixteen runs in another.
    assert sorted({len(report.latest) for report in reports}) == [8, 16]
    assert reports[-1].done == reports[-1].total == 16 * 10 + 8 * 10
    for result in results:
        last = result.rows[-1]
        assert last["iteration"] == 10
        warmup_samples = 10 * 5 * 20 if len(result.run.stages) == 2 else 0
        assert last["samples"] == 10 * 15 * 20 + warmup_samples
        assert [row["iteration"] for row in result.rows if row["stage"] == last["stage"]] == [0, 5, 10]
        assert result.theta.shape == (FEATURES.size,)
        assert last["residual"] < 1e-9
        assert last["direction_norm"] <= 10.0 * (1 + 1e-9)


def test_rows_speak_of_theta_before_the_update():
    (result,) = rampup.train(runs_of("direct"), FEATURES, QUICK)
    first, last = result.rows[0], result.rows[-1]
    uniform = bcp.values(LARGE.record_probs, bcp.naive_policy(15)).start
    assert first["value"] == pytest.approx(float(uniform), rel=1e-12)
    learned = bcp.log_linear_policy(FEATURES, jnp.asarray(result.theta), 15)
    assert last["value"] == pytest.approx(float(bcp.values(LARGE.record_probs, learned).start), rel=1e-12)
    best = bcp.optimum(LARGE.record_probs)
    assert last["reference_value"] == pytest.approx(float(best.value), rel=1e-12)
    on_policy, target = (bcp.on_policy(LARGE.record_probs, one) for one in (learned, best.policy))
    exact = bcp.relative_condition(FEATURES, learned, target, on_policy).ln
    assert last["ln_kappa"] == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.slow
def test_a_fixed_sampler_is_the_policy_of_the_warm_up():
    (result,) = rampup.train(runs_of("fix_samp_curl"), FEATURES, QUICK)
    sampler = bcp.log_linear_policy(FEATURES, jnp.asarray(result.thetas[0]), 15)
    at_zero, best = bcp.naive_policy(15), bcp.optimum(LARGE.record_probs).policy
    exact = bcp.relative_condition(
        FEATURES, at_zero, bcp.on_policy(LARGE.record_probs, best), bcp.grafted(LARGE.record_probs, sampler)
    )
    first = next(row for row in result.rows if row["stage"] == 1)
    assert first["ln_kappa"] == pytest.approx(float(exact.ln), rel=1e-9)


@pytest.mark.slow
@pytest.mark.long
def test_any_policy_can_be_the_sampler():
    rule = Threshold(15, jnp.asarray(5))
    stages = checked_stages([rampup.Stage(LARGE, 10, sampler=rule)])
    for estimator in ("algorithm4", "exact"):
        settings = rampup.Settings(learning_rate=0.2, num_lanes=20, record_every=5, estimator=estimator)
        (result,) = rampup.train([rampup.Run("rule", stages)], FEATURES, settings)
        assert result.rows[0]["ln_kappa"] < 1.0
        assert result.rows[-1]["value"] > result.rows[0]["value"]


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    first, again = (rampup.train(runs_of("curl", seeds=(3,)), FEATURES, QUICK)[0] for _ in range(2))
    (other,) = rampup.train(runs_of("curl", seeds=(4,)), FEATURES, QUICK)
    assert np.array_equal(first.theta, again.theta)
    assert first.rows == again.rows
    assert not np.array_equal(first.theta, other.theta)


@pytest.mark.slow
@pytest.mark.long
def test_a_run_does_not_depend_on_the_rest_of_its_batch():
    # Well-conditioned features and enough lanes: round-off stays round-off until an action is sampled differently.
    features = rampup.as_features("legendre:2", LARGE)
    settings = rampup.Settings(learning_rate=0.2, num_lanes=50, record_every=1)
    (alone,) = rampup.train(runs_of("curl_reg", seeds=(1,), iterations=2), features, settings)
    batch = rampup.train(runs_of("direct", "curl_reg", "fix_samp_curl", seeds=(0, 1), iterations=2), features, settings)
    twin = next(result for result in batch if (result.run.name, result.run.seed) == ("curl_reg", 1))
    for one, other in zip(alone.thetas, twin.thetas, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    for row, other in zip(alone.rows, twin.rows, strict=True):
        assert row["value"] == pytest.approx(other["value"], rel=1e-9)
        assert row["err"] == pytest.approx(other["err"], rel=1e-8, abs=1e-9)


@pytest.mark.slow
def test_finite_lmdps_train_like_any_other_problem():
    problem, features, _, _, (target, _) = random_finite_problem(2, 3)
    reference_fn = lambda observation: target[observation[0].astype(int)]
    for estimator in ("algorithm4", "exact"):
        settings = rampup.Settings(learning_rate=0.5, num_lanes=50, record_every=20, estimator=estimator)
        run = rampup.Run("direct", rampup.scheme("direct", problem, iterations=20))
        (result,) = rampup.train([run], features, settings, reference_for=lambda problem: reference_fn)
        assert result.rows[-1]["value_interval"][0] > result.rows[0]["value_interval"][1]


@pytest.mark.slow
@pytest.mark.long
def test_hyper_parameters_are_a_batch_axis_too():
    stages = rampup.scheme("direct", LARGE, iterations=5)
    rates = 0.05, 0.4
    batch = rampup.train([rampup.Run("direct", stages, learning_rate=rate) for rate in rates], FEATURES, QUICK)
    for rate, result in zip(rates, batch, strict=True):
        settings = rampup.Settings(learning_rate=rate, num_lanes=20, record_every=5)
        (alone,) = rampup.train([rampup.Run("direct", stages)], FEATURES, settings)
        np.testing.assert_allclose(result.theta, alone.theta, rtol=1e-5, atol=1e-8)


@pytest.mark.slow
def test_multi_step_moves_on_when_a_size_is_solved():
    sizes = [rampup.make("bcp", n=n) for n in (4, 8, 12)]
    settings = rampup.Settings(learning_rate=0.2, record_every=10, estimator="exact")
    stages = rampup.multi_step(sizes, iterations=400, promote_at=0.9)
    (result,) = rampup.train([rampup.Run("multi_step", stages)], FEATURES, settings)
    lengths = [max(row["iteration"] for row in result.rows if row["stage"] == stage) for stage in range(3)]
    assert all(0 < length < 400 for length in lengths[:2])
    assert lengths[2] == 400
    ends = [[row for row in result.rows if row["stage"] == stage][-1] for stage in range(2)]
    assert all(row["value"] >= 0.9 * row["reference_value"] for row in ends)
    assert result.rows[-1]["value"] >= 0.95 * result.rows[-1]["reference_value"]
    assert len(result.thetas) == 3


@pytest.mark.slow
def test_a_curriculum_learns_where_direct_training_does_not():
    small, large = rampup.make("bcp", n=10), rampup.make("bcp", n=30)
    features = rampup.as_features("monomial:5", large)
    runs = [
        rampup.Run(name, rampup.scheme(name, large, small, iterations=60, warmup_iterations=200), seed)
        for name in ("curl", "direct")
        for seed in range(2)
    ]
    settings = rampup.Settings(learning_rate=0.2, num_lanes=50, record_every=200)
    values = [result.rows[-1]["value"] for result in rampup.train(runs, features, settings)]
    assert np.mean(values[:2]) > 0.3
    assert np.mean(values[2:]) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("name", ["okd", "adw"])
def test_okd_and_adw_learn(name):
    problem = {"okd": rampup.make("okd", n=6, B=0.8, V=1.2), "adw": rampup.make("adw", n=2, m=5, V=1.5)}[name]
    features = rampup.as_features("monomial:2", problem)
    settings = rampup.Settings(learning_rate=0.2, num_lanes=100, record_every=60)
    run = rampup.Run("direct", rampup.scheme("direct", problem, iterations=60))
    (result,) = rampup.train([run], features, settings)
    first, last = result.rows[0], result.rows[-1]
    assert last["value_interval"][0] > first["value_interval"][1] + 0.1
    assert last["value_interval"][0] < last["value"] < last["value_interval"][1]
    assert np.isfinite(last["ln_kappa"])
    assert last["kappa_rank"] <= features.size
    assert 0 < last["kappa_tolerance"] < 1e-10


def test_non_finite_numbers_stop_the_run_with_a_sentence_and_keep_the_rows():
    broken = [rampup.Run("direct", rampup.scheme("direct", LARGE, iterations=20), learning_rate=1e308)]
    with pytest.raises(rampup.NonFiniteError, match="lower `learning_rate`") as caught:
        rampup.train(broken, FEATURES, QUICK)
    assert "run 'direct' with seed 0" in str(caught.value)
    (result,) = caught.value.results
    assert len(result.rows) >= 1
    assert all(np.isfinite(row["value"]) for row in result.rows)


REFUSED = [
    (lambda: rampup.scheme("curll", LARGE, SMALL, iterations=5), "unknown scheme 'curll': did you mean 'curl'?"),
    (lambda: rampup.scheme("curl", LARGE, iterations=5), "a curriculum needs a small problem to warm up on"),
    (lambda: rampup.scheme("direct", LARGE, iterations=0), "`iterations` must be a whole number of at least 1"),
    (lambda: rampup.Stage(LARGE, 5, regularisation=-1), "`regularisation` must be a number of at least 0, got -1."),
    (lambda: rampup.Stage(LARGE, 5, sampler="nave"), "unknown sampler 'nave'"),
    (lambda: rampup.Stage(LARGE, 5, start="before"), "unknown start 'before'"),
    (lambda: rampup.Run("x", (rampup.Stage(LARGE, 5, start="previous"),)), "the first stage must start from zero"),
    (lambda: rampup.Run("x", ()), "a curriculum must have at least one stage."),
    (lambda: rampup.Run("x", rampup.scheme("direct", LARGE, iterations=5), seed=-1), "`seed` must be a whole number"),
    (lambda: rampup.Settings(learning_rate=0), "`learning_rate` must be a positive number, got 0."),
    (lambda: rampup.Settings(radius=float("nan")), "`radius` must be a positive number, got nan."),
    (lambda: rampup.Settings(num_lanes=0), "`num_lanes` must be a whole number of at least 1, got 0."),
    (lambda: rampup.Settings(estimator="exct"), "unknown estimator 'exct': did you mean 'exact'?"),
    (lambda: rampup.Settings(solver="newton"), "unknown solver 'newton'"),
    (lambda: rampup.train([], FEATURES), "`runs` must hold at least one run."),
]


@pytest.mark.parametrize(("make", "sentence"), REFUSED, ids=[entry[1][:40] for entry in REFUSED])
def test_bad_plans_are_refused_with_a_sentence(make, sentence):
    with pytest.raises(ValueError, match=r"[.?]") as caught:
        make()
    assert str(caught.value).startswith(sentence)


def test_the_exact_estimator_refuses_other_problems():
    problem = rampup.make("okd", n=3, B=1, V=1)
    run = rampup.Run("direct", rampup.scheme("direct", problem, iterations=5))
    with pytest.raises(ValueError, match="the exact estimator is for problem bcp and finite LMDPs"):
        rampup.train([run], rampup.as_features("monomial:2", problem), rampup.Settings(estimator="exact"))


def test_training_refuses_single_precision():
    with jax.enable_x64(False), pytest.raises(ValueError, match="64-bit"):
        rampup.train(runs_of("direct"), FEATURES, QUICK)
