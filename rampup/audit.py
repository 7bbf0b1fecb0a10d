"""What the theory says of a finished run: kappa predicted beside kappa measured, and the terms of Theorem 1."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rampup import streams
from rampup.advice import advise
from rampup.features import Features, OneHot, Polynomial
from rampup.learn.inspection import Effort, sampled_kappa
from rampup.learn.trainer import Run, RunResult
from rampup.plans import Plan
from rampup.policy import LogLinear, largest_feature_norm
from rampup.problems.base import Problem
from rampup.problems.bcp import BCP
from rampup.references.rules import Naive
from rampup.runs.schemes import Record, final_phases
from rampup.stories import reference_named
from rampup.theory import performance_bound
from rampup.types import Real

# Each term of the bound is a number for every update: more than these are more than memory is for.
_MOST_UPDATES = 10_000_000


def audit(chosen: Plan, records: Sequence[Record], results: Sequence[RunResult] = ()) -> dict[str, Any]:
    """By scheme: ln kappa predicted where its final phase begins, and Theorem 1 held against its first seed.

    Both of the best choice problem only, where they are exact and take seconds. Of other problems: ln kappa where the
    final phase began, against the best policy that was learned. Infinite numbers are the string "inf".
    """
    if not isinstance(chosen.problem, BCP):
        learned = {result.run.name: result for result in reversed(results)}
        against_best = _against_best(chosen, records, learned) if learned else {}
        return _spelled({"predictions": {}, "bounds": {}, "against_best": against_best})
    first: dict[str, Run] = {}
    for run in chosen.runs:
        first.setdefault(run.name, run)
    bounds = {name: _bound(chosen, run, final_phases(records, name)[0]) for name, run in first.items()}
    found = {name: bound for name, bound in bounds.items() if bound is not None}
    return _spelled({"predictions": _predictions(chosen, first), "bounds": found, "against_best": {}})


def _against_best(
    chosen: Plan, records: Sequence[Record], learned: Mapping[str, RunResult]
) -> dict[str, dict[str, Any]]:
    """ln kappa at theta = 0 of every scheme's sampler, what it rolled in with first, for the best policy as target.

    The paper's reference for AdWords is such a policy: the classical rules do badly there.
    """
    problem, features = chosen.problem, chosen.features
    best = max(learned, key=lambda name: final_phases(records, name)[0][-1]["value"])

    def policy(theta: np.ndarray) -> LogLinear:
        return LogLinear(problem, features, jnp.asarray(theta))

    found = {}
    for name, result in learned.items():
        taught = len(result.thetas) > 1
        roll_in = policy(result.thetas[-2] if taught else np.zeros(features.size))
        ln_kappa, spread = jax.device_get(_ln_kappa(problem, features, policy(learned[best].theta), roll_in))
        found[name] = {"target": best, "ln_kappa": float(ln_kappa), "error": float(spread)}
    return found


@eqx.filter_jit
def _ln_kappa(problem: Problem, features: Features, target: LogLinear, roll_in: LogLinear) -> tuple[Real, Real]:
    condition, spread = sampled_kappa(
        problem,
        features,
        jnp.zeros(features.size),
        streams.key(0),
        reference_fn=target,
        roll_in_fn=roll_in,
        branch_fn=Naive(problem.num_actions),
        effort=Effort(),
    )
    return condition.ln, spread


def _predictions(chosen: Plan, first: Mapping[str, Run]) -> dict[str, Any]:
    """Kappa at theta = 0 of naive sampling, or of the optimal policy of the problem that was trained on before."""
    before = {name: run.stages[-2].problem for name, run in first.items() if len(run.stages) > 1}
    teachers = {id(problem): problem for problem in before.values()}
    experiment = chosen.experiment
    candidates = advise(
        chosen.problem,
        features=experiment.features,
        warmups=[({"n": problem.horizon}, problem) for problem in teachers.values()],
        reference_for=reference_named(experiment.problem.name, chosen.reference),
    )["candidates"]
    told = [{name: one[name] for name in ("sampler", "ln_kappa")} for one in candidates]
    taught = dict(zip(teachers, told[1:], strict=True))
    return {name: taught[id(before[name])] if name in before else told[0] for name in first}


def _bound(chosen: Plan, run: Run, rows: Sequence[Record]) -> dict[str, Any] | None:
    """Theorem 1 for the final phase of a run, each recorded row standing for the updates until the next.

    The losses of the second line are known where the rows have them; the first line needs none.
    """
    stage, settings = run.stages[-1], chosen.settings
    spans = np.diff([row["iteration"] for row in rows])
    rows = rows[:-1]
    is_known = all(row["err"] is not None and row["potential"] is not None for row in rows)
    is_bounded = isinstance(chosen.features, OneHot | Polynomial)
    is_contracting = settings.learning_rate * stage.regularisation < 1
    if not (is_known and is_bounded and is_contracting and 0 < spans.sum() <= _MOST_UPDATES):
        return None
    has_losses = all(row.get("excess_risk") is not None and row.get("transfer_error") is not None for row in rows)
    losses = {name: [row[name] if has_losses else 0.0 for row in rows] for name in ("excess_risk", "transfer_error")}
    bound = performance_bound(
        fitting_errors=np.repeat([row["err"] for row in rows], spans),
        excess_risks=np.array(losses["excess_risk"]),
        transfer_errors=np.array(losses["transfer_error"]),
        ln_kappas=np.array([math.inf if row["ln_kappa"] is None else row["ln_kappa"] for row in rows]),
        initial_potential=rows[0]["potential"],
        horizon=stage.problem.horizon,
        learning_rate=settings.learning_rate,
        regularisation=stage.regularisation,
        feature_norm=largest_feature_norm(stage.problem, chosen.features),
        radius=settings.radius,
    )
    unknown = {} if has_losses else {"transfer": None, "statistical": None}
    # With regularisation the theorem bounds another gap, that of values with their entropy.
    gaps = [row["reference_value"] - row["value"] for row in rows] if stage.regularisation == 0 else []
    return {
        "seed": run.seed,
        "updates": int(spans.sum()),
        "rows": len(rows),
        "gap": min(gaps, default=None),
        "terms": bound._asdict() | unknown,
        "first_line": bound.first_line,
        "second_line": bound.second_line if has_losses else None,
    }


def _spelled(value: Any) -> Any:
    """A document fit for JSON."""
    if isinstance(value, dict):
        return {name: _spelled(inner) for name, inner in value.items()}
    return str(value) if isinstance(value, float) and math.isinf(value) else value
