"""What there is to choose from: problems with their parameters, distributions, series and features."""

import inspect
from typing import Any

from rampup.features import BASES
from rampup.problems import PROBLEMS, find
from rampup.problems.distributions import DISTRIBUTIONS
from rampup.problems.own import announced_names


def catalogue() -> dict[str, Any]:
    """Return the names a user can give, found in the code itself."""
    return {
        "problems": [
            {
                "name": name,
                "about": (inspect.getmodule(problem).__doc__ or "").strip(),
                "parameters": _parameters(problem),
            }
            for name in [*PROBLEMS, *announced_names()]
            for problem in [find(name)]
        ],
        "distributions": {name: _parameters(distribution) for name, distribution in DISTRIBUTIONS.items()},
        "series": ["classical", "adversarial", "random:SEED", "paper:SEED", "FILE.json", "a list P_1..P_n"],
        "features": [*(f"{name}:D0" for name in BASES), "one_hot"],
    }


def _parameters(function: Any) -> dict[str, Any]:
    """Names and defaults; None where a value must be given."""
    signature = inspect.signature(function).parameters.values()
    return {one.name: None if one.default is inspect.Parameter.empty else one.default for one in signature}
