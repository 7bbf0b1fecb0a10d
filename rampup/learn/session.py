"""Training by names: from the words of a command line to runs, and from results to a plain document."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rampup import arguments
from rampup.checks import make_checked
from rampup.exact.known import optimal_value
from rampup.features import as_features
from rampup.learn.curriculum import scheme
from rampup.learn.trainer import Progress, Run, RunResult, Settings, train
from rampup.problems import units_of
from rampup.references import policy_named, reference_name
from rampup.runs.files import make_folder
from rampup.runs.policy_file import write_policy


def train_session(
    name: str,
    parameters: dict[str, Any],
    warmup_changes: dict[str, Any],
    schemes: Sequence[str],
    *,
    seeds: int,
    iterations: int,
    warmup_iterations: int | None,
    features: str | None,
    learning_rate: float | None,
    regularisation: float,
    reference: str | None,
    save: str | None,
    on_progress: Callable[[Progress], None] | None,
    **settings: Any,
) -> dict[str, Any]:
    """Train every scheme with every seed and say what came of it.

    Args:
        warmup_changes: the parameters in which the warm-up problem differs; none means there is no warm-up problem.
        reference: the name or the file of the policy to measure against.
        save: a folder for the policies.
    """
    problem = make_checked(name, parameters)
    warmup = make_checked(name, parameters | warmup_changes) if warmup_changes else None
    features = features or problem.usual_features
    basis = as_features(features, problem)
    rate = problem.usual_learning_rate if learning_rate is None else learning_rate
    chosen = Settings(learning_rate=rate, **settings)
    lengths = {"iterations": iterations, "warmup_iterations": warmup_iterations, "regularisation": regularisation}
    runs = [
        Run(one, scheme(one, problem, warmup, **lengths), seed)
        for one in schemes
        for seed in range(arguments.integer("seeds", seeds, least=1))
    ]
    if save is not None:
        make_folder(save)
    reference = reference or reference_name(type(problem))
    results = train(
        runs, basis, chosen, reference_for=lambda one: policy_named(one, reference), on_progress=on_progress
    )
    if save is not None:
        for result in results:
            write_policy(
                Path(save) / f"{result.run.name}-{result.run.seed}.json",
                problem=name,
                parameters=parameters,
                features=features,
                theta=result.theta,
                provenance={"scheme": result.run.name, "seed": result.run.seed, "warmup": warmup_changes},
                **({"units": units_of(problem)} if units_of(problem) else {}),
            )
    best = optimal_value(problem)
    return {
        "problem": name,
        "parameters": parameters,
        "warmup": warmup_changes,
        "reference": reference,
        "runs": [_summary(result, best) for result in results],
    }


def _summary(result: RunResult, optimal_value: float | None) -> dict[str, Any]:
    """The last row of a run, with what it can be compared to and the way it took."""
    last = result.rows[-1]
    return {
        **last,
        "optimal_value": optimal_value,
        "theta": result.theta.tolist(),
        "rows": result.rows,
    }
