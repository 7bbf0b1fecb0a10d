"""Training by names: from the words of a command line to runs, and from results to a plain document."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rampup import arguments
from rampup.exact import bcp
from rampup.features import as_features
from rampup.learn.curriculum import scheme
from rampup.learn.trainer import Progress, Run, RunResult, Settings, train
from rampup.problems import PROBLEMS, make
from rampup.problems.bcp import BCP
from rampup.references import REFERENCE_NAMES, policy_named
from rampup.runs.files import make_folder
from rampup.runs.policy_file import write_policy

PAPER_FEATURES = {"bcp": "monomial:10", "okd": "monomial:3", "adw": "monomial:3"}
PAPER_LEARNING_RATES = {"bcp": 0.2, "okd": 0.1, "adw": 0.1}


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
    arguments.known_name("problem", name, PROBLEMS)
    problem = make(name, **parameters)
    warmup = make(name, **(parameters | warmup_changes)) if warmup_changes else None
    features = features or PAPER_FEATURES[name]
    basis = as_features(features, problem)
    rate = PAPER_LEARNING_RATES[name] if learning_rate is None else learning_rate
    chosen = Settings(learning_rate=rate, **settings)
    lengths = {"iterations": iterations, "warmup_iterations": warmup_iterations, "regularisation": regularisation}
    runs = [
        Run(one, scheme(one, problem, warmup, **lengths), seed)
        for one in schemes
        for seed in range(arguments.integer("seeds", seeds, least=1))
    ]
    if save is not None:
        make_folder(save)
    reference = reference or REFERENCE_NAMES[name]
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
            )
    optimal_value = float(bcp.optimum(problem.record_probs).value) if isinstance(problem, BCP) else None
    return {
        "problem": name,
        "parameters": parameters,
        "warmup": warmup_changes,
        "reference": reference,
        "runs": [_summary(result, optimal_value) for result in results],
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
