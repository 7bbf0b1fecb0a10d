"""Theorem 1 for a run on the best choice problem: both sides and every term, measured exactly at each update."""

from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from rampup import streams, theory
from rampup.diagnostics import Diagnosis, diagnose
from rampup.exact import bcp
from rampup.exact.finite import require_double_precision
from rampup.exact.npg import bound_of
from rampup.features import Features, check_fits
from rampup.learn import npg
from rampup.learn.curriculum import Stages
from rampup.learn.npg import Hyper, Method
from rampup.learn.sampler import Behaviour
from rampup.learn.trainer import Run, Settings, train
from rampup.policy import LogLinear, largest_feature_norm
from rampup.problems.bcp import BCP
from rampup.types import Key, PolicyFn, Theta


class BoundedRun(NamedTuple):
    """min over t of V* - V^t, which Theorem 1 bounds, and the terms of its bound."""

    gap: float
    bound: theory.PerformanceBound
    diagnosis: Diagnosis
    """Of every update."""


def bounded_run(stages: Stages, features: Features, settings: Settings, seed: int = 0) -> BoundedRun:
    """Train a curriculum and hold Theorem 1 against the updates of its last stage.

    The run is the one that `train` makes of the same stages, settings and seed.
    """
    require_double_precision()
    final = stages[-1]
    problem = final.problem
    if not isinstance(problem, BCP):
        raise ValueError("the terms of Theorem 1 can be measured on the best choice problem only.")
    check_fits(features, problem)
    before = _theta_before(Run("bound", stages, seed), features, settings)
    zero = jnp.zeros(features.size)
    start = zero if before is None or final.start == "zero" else jnp.asarray(before)
    sampler = None
    if final.sampler != "on_policy":
        theta = jnp.asarray(before) if final.sampler == "previous" and before is not None else zero
        sampler = final.sampler if callable(final.sampler) else LogLinear(problem, features, theta)
    # As the trainer draws them: the last stage has number 0, its updates stream 0.
    key = jax.random.fold_in(jax.random.fold_in(streams.key(seed), 0), 0)
    numbers = settings.learning_rate, final.regularisation, settings.radius, settings.clip
    hyper = Hyper(*(jnp.asarray([float(number)]) for number in numbers))
    method = Method(settings.num_lanes, settings.estimator, settings.solver)
    given = problem, features, method, hyper, sampler, key, start
    diagnosis, is_broken = jax.device_get(_diagnosed_updates(*given, jnp.arange(final.iterations)))
    if is_broken:
        raise FloatingPointError(
            f"the run met a number that is not finite: lower `learning_rate` (now {settings.learning_rate}) or "
            f"`radius` (now {settings.radius})."
        )
    bound = bound_of(
        diagnosis,
        horizon=problem.horizon,
        learning_rate=settings.learning_rate,
        regularisation=final.regularisation,
        feature_norm=largest_feature_norm(problem, features),
        radius=settings.radius,
    )
    return BoundedRun(float(np.min(diagnosis.gap)), bound, diagnosis)


def _theta_before(run: Run, features: Features, settings: Settings) -> np.ndarray | None:
    """What the last stage starts from, or samples by; nothing where it is the only one."""
    if len(run.stages) == 1:
        return None
    # A single update of the last stage keeps the others what they are in the whole run, random numbers included.
    short = replace(run, stages=(*run.stages[:-1], replace(run.stages[-1], iterations=1)))
    return train([short], features, settings)[0].thetas[-2]


@eqx.filter_jit
def _diagnosed_updates(
    problem: BCP,
    features: Features,
    method: Method,
    hyper: Hyper,
    sampler: PolicyFn | None,
    key: Key,
    start: Theta,
    iterations: Array,
) -> tuple[Diagnosis, Array]:
    behaviour = None if sampler is None else Behaviour(jnp.ones(1, bool), jnp.zeros((1, features.size)))
    optimal = bcp.optimum(problem.record_probs).policy
    sampler_table = None if sampler is None else bcp.tabulated(sampler, problem.horizon)

    def update(state, _):
        after, solution = npg.step(problem, features, method, hyper, behaviour, sampler, key[None], state)
        return after, (state.theta[0], solution.direction[0])

    last, (thetas, directions) = jax.lax.scan(update, npg.opening(start[None]), iterations)

    weight = jnp.zeros(()) if hyper.regularisation is None else hyper.regularisation[0]

    def of_update(given):
        theta, direction = given
        at = bcp.snapshot(problem.record_probs, features, theta, optimal, sampler_table, weight)
        return diagnose(at, direction, radius=hyper.radius[0])

    return jax.lax.map(of_update, (thetas, directions)), last.is_broken[0]


def bound_document(run: BoundedRun) -> dict[str, Any]:
    """A bounded run as plain numbers."""
    return {
        "gap": run.gap,
        "first_line": run.bound.first_line,
        "second_line": run.bound.second_line,
        "dominant": run.bound.dominant,
        "terms": run.bound._asdict(),
        "ln_kappa": float(np.max(run.diagnosis.ln_kappa)),
        "excess_risk": float(np.max(run.diagnosis.excess_risk)),
        "transfer_error": float(np.max(run.diagnosis.transfer_error)),
        "updates": len(run.diagnosis.gap),
    }
