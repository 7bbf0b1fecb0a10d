"""A learned policy as a small JSON file that a person can read: features, theta, where it comes from, a checksum."""

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from rampup import arguments
from rampup.features import as_features
from rampup.policy import LogLinear
from rampup.portable.rampup_policy import FORMAT, VERSION, checksum, read
from rampup.problems import check_name, is_kind, name_of, units_of
from rampup.problems.base import Problem
from rampup.runs.files import write_whole


def write_policy(
    path: str | Path,
    *,
    problem: str,
    parameters: dict[str, Any],
    features: str,
    theta: np.ndarray,
    provenance: dict[str, Any] | None = None,
    **more: Any,
) -> None:
    """Write pi_theta with the problem it was trained on.

    Args:
        features: by name, as in "monomial:3".
        provenance: anything worth knowing about how it was trained; must be fit for JSON.
        more: what an exported policy says besides.
    """
    check_name(problem)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "problem": problem,
        "parameters": parameters,
        "features": features,
        "theta": arguments.finite_array("theta", theta, ndim=1).tolist(),
        "provenance": provenance or {},
        **more,
    }
    try:
        # As it will be read again: JSON makes keys strings.
        document = json.loads(json.dumps(document, allow_nan=False))
    except (TypeError, ValueError):
        raise ValueError("`parameters` and `provenance` must be fit for JSON, all numbers finite.") from None
    document["sha256"] = checksum(document)
    write_whole(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())


def read_policy(path: str | Path, problem: Problem) -> LogLinear:
    """Read a policy for a problem, of any size, of the kind it was trained on."""
    document = read(path)
    if not is_kind(problem, document["problem"]):
        raise ValueError(f"the policy file {str(path)!r} is for {document['problem']}, not for {name_of(problem)}.")
    units = document.get("units") or document.get("rules", {}).get("units") or {}
    if units != units_of(problem):
        raise ValueError(
            f"the policy file {str(path)!r} was trained in units of {_shown(units)}, but this problem is in units of "
            f"{_shown(units_of(problem))}: give it the same `data`."
        )
    features = as_features(document["features"], problem)
    theta = arguments.finite_array("theta", document["theta"], ndim=1)
    if len(theta) != features.size:
        raise ValueError(
            f"the policy file {str(path)!r} holds {len(theta)} parameters, but {document['features']!r} needs "
            f"{features.size} here: it was trained on another size."
        )
    return LogLinear(problem, features, jnp.asarray(theta))


def _shown(units: dict[str, float]) -> str:
    return ", ".join(f"{value:g} ({name})" for name, value in units.items()) or "1"
