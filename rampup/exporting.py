"""From a finished run to a file with which any program decides: the policy, the rules, and how good it is."""

from pathlib import Path
from typing import Any

from rampup.evaluation import online_optimum
from rampup.portable.rampup_policy import PROBLEMS as READABLE
from rampup.portable.rampup_policy import read
from rampup.problems import make, units_of
from rampup.problems.adw import ADW
from rampup.problems.auction import Auction
from rampup.problems.base import Problem
from rampup.problems.choice import Choice
from rampup.problems.knapsack import Knapsack
from rampup.problems.okd import OKD
from rampup.runs.folder import RunFolder
from rampup.runs.policy_file import write_policy


def rules_of(problem: Problem) -> dict[str, Any]:
    """What a reader must know of a problem, as numbers."""
    rules: dict[str, Any] = {"horizon": problem.horizon}
    unit = 1.0
    if isinstance(problem, Knapsack):
        largest = problem.bounds()[1][1:3]
        rules |= {"budget": float(problem.budget) * problem.size_unit}
        rules |= {"largest_size": float(largest[0]) * problem.size_unit}
        rules |= {"largest_value": float(largest[1]) * problem.value_unit}
        unit = problem.value_unit
    if isinstance(problem, Auction):
        unit, advertisers = problem.bid_unit, problem.num_actions - 1
        rules |= {"advertisers": advertisers, "budgets": (problem.budgets() * unit).tolist()}
        rules |= {"highest_bids": [float(one) * unit for one in problem.bounds()[1][1 : 1 + advertisers]]}
    if isinstance(problem, OKD | ADW):
        rules |= {"target": float(problem.target) * unit}
    if isinstance(problem, Choice):
        rules |= {"picks": problem.num_picks}
        if problem.payoffs is None:
            rules |= {"largest_value": problem.value_distribution.support()[1]}
    units = units_of(problem)
    return rules | ({"units": units} if units else {})


def export(
    folder: RunFolder,
    path: str | Path,
    *,
    scheme: str | None = None,
    seed: int | None = None,
    with_optimum: bool = False,
) -> dict[str, Any]:
    """Write the policy of a run, by default the best one, and return what the file says of it."""
    summary = folder.summary
    if summary is None:
        raise ValueError(f"the run in {str(folder.path)!r} is not finished: go on with `{folder.resume_command}`.")
    found = {(row["scheme"], row["seed"]): row for row in folder.rows()}
    fitting = {key: row for key, row in found.items() if scheme in (None, key[0]) and seed in (None, key[1])}
    if not fitting:
        known = ", ".join(f"{name} (seeds {_seeds(found, name)})" for name in dict.fromkeys(key[0] for key in found))
        raise ValueError(f"the run in {str(folder.path)!r} has no such policy: it has {known}.")
    chosen = max(fitting, key=lambda key: fitting[key]["value"])
    document, row = read(folder.path / "policies" / f"{chosen[0]}-{chosen[1]}.json"), fitting[chosen]
    if document["problem"] not in READABLE:
        raise ValueError(
            f"the readers know {', '.join(READABLE)}, not {document['problem']}: play the files in "
            f"{str(folder.path / 'policies')!r} with `rampup evaluate --problem`."
        )
    problem = make(document["problem"], **document["parameters"])
    optimum = _optimum(problem, summary, with_optimum)
    measured = {
        "success": row["value"],
        "interval": [row["value_low"], row["value_high"]],
        "reference": {"name": summary["reference"], "success": row["reference_value"]},
        "optimum": optimum,
        "gap_to_optimum": None if optimum is None else [max(end - row["value"], 0.0) for end in optimum],
    }
    write_policy(
        path,
        problem=document["problem"],
        parameters=document["parameters"],
        features=document["features"],
        theta=document["theta"],
        provenance=document["provenance"] | {"run": folder.provenance or {}},
        rules=rules_of(problem),
        measured=measured,
    )
    return {"scheme": chosen[0], "seed": chosen[1], "path": str(path), **measured}


def _seeds(found: dict[tuple[str, int], Any], scheme: str) -> str:
    return ", ".join(str(seed) for name, seed in found if name == scheme)


def _optimum(problem: Problem, summary: dict[str, Any], is_wanted: bool) -> list[float] | None:
    """Between which numbers the best success rate of any online player lies, where that is known or asked for."""
    if summary["optimal_value"] is not None:
        return [summary["optimal_value"]] * 2
    if not is_wanted:
        return None
    bounds = online_optimum(problem, {})
    return None if bounds is None else [bounds.lower, bounds.upper]
