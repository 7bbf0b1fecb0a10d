"""A learned policy as a small JSON file that a person can read: features, theta, where it comes from, a checksum."""

import hashlib
import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from rampup import arguments
from rampup.features import as_features
from rampup.policy import LogLinear
from rampup.problems import PROBLEMS, name_of
from rampup.problems.base import Problem
from rampup.runs.files import write_whole

FORMAT = "rampup-policy"
VERSION = 1


def write_policy(
    path: str | Path,
    *,
    problem: str,
    parameters: dict[str, Any],
    features: str,
    theta: np.ndarray,
    provenance: dict[str, Any] | None = None,
) -> None:
    """Write pi_theta with the problem it was trained on.

    Args:
        features: by name, as in "monomial:3".
        provenance: anything worth knowing about how it was trained; must be fit for JSON.
    """
    arguments.known_name("problem", problem, PROBLEMS)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "problem": problem,
        "parameters": parameters,
        "features": features,
        "theta": arguments.finite_array("theta", theta, ndim=1).tolist(),
        "provenance": provenance or {},
    }
    try:
        # As it will be read again: JSON makes keys strings.
        document = json.loads(json.dumps(document, allow_nan=False))
    except (TypeError, ValueError):
        raise ValueError("`parameters` and `provenance` must be fit for JSON, all numbers finite.") from None
    document["sha256"] = _checksum(document)
    write_whole(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())


def read_policy(path: str | Path, problem: Problem) -> LogLinear:
    """Read a policy for a problem, of any size, of the kind it was trained on."""
    document = _read(path)
    if document["problem"] != name_of(problem):
        raise ValueError(f"the policy file {str(path)!r} is for {document['problem']}, not for {name_of(problem)}.")
    features = as_features(document["features"], problem)
    theta = arguments.finite_array("theta", document["theta"], ndim=1)
    if len(theta) != features.size:
        raise ValueError(
            f"the policy file {str(path)!r} holds {len(theta)} parameters, but {document['features']!r} needs "
            f"{features.size} here: it was trained on another size."
        )
    return LogLinear(problem, features, jnp.asarray(theta))


def _read(path: str | Path) -> dict[str, Any]:
    """The document of a policy file, if it is one, whole, unchanged, and of a version we know."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read the policy file {str(path)!r}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{str(path)!r} is not a policy file, or was cut short: it holds no whole JSON.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{str(path)!r} is not a policy file of Rampup.")
    version = document.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ValueError(
            f"the policy file {str(path)!r} has version {version!r}, this Rampup reads up to {VERSION}: upgrade Rampup."
        )
    given = document.pop("sha256", None)
    if given != _checksum(document):
        raise ValueError(f"the policy file {str(path)!r} was changed after it was written: its checksum does not fit.")
    if missing := {"problem", "parameters", "features", "theta", "provenance"} - set(document):
        raise ValueError(f"the policy file {str(path)!r} lacks {', '.join(sorted(missing))}.")
    return document


def _checksum(document: dict[str, Any]) -> str:
    """SHA-256 of the document in one canonical spelling; a number that is not finite has none."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
