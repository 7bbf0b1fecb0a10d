"""An experiment for a problem that nobody has made one for yet: from scratch and with a warm-up, at the same cost."""

from collections.abc import Sequence
from typing import Any

from rampup import config
from rampup.config import Experiment
from rampup.problems import find, make
from rampup.problems.own import is_file_and_class
from rampup.problems.sizes import part_of

# As many samples as quick experiments take, on the problem itself and before it; a row for a point of a smooth curve.
_ITERATIONS, _RECORD_EVERY = 150, 10
# A warm-up on a fifth is cheap, and large enough for most that can be learned on few arrivals.
_FRACTION = 0.2


def outline(problem: str, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment of a problem by name; `overrides` as in `config.load`."""
    kind = find(problem)
    document: dict[str, Any] = {
        "name": problem.rpartition(":")[2] if is_file_and_class(problem) else problem,
        "problem": {"name": problem, "parameters": {}},
        "features": kind.usual_features,
        "schemes": ["direct"],
        "seeds": 2,
        "trainer": {
            "learning_rate": kind.usual_learning_rate,
            "iterations": _ITERATIONS,
            # Returns that are all much the same tell little of an action; both sides of a coin on one instance do.
            "estimator": "paired",
            "record_every": _RECORD_EVERY,
        },
    }
    config.override_all(document, overrides)
    parameters = document["problem"]["parameters"]
    if kind.size_parameters and "warmup" not in document:
        document["warmup"] = {"parameters": part_of(kind, parameters, _FRACTION)}
        if not any(one.partition("=")[0].startswith(("schemes", "trainer.iterations")) for one in overrides):
            document["schemes"] = ["direct", "curl"]
            document["trainer"]["iterations"] = _same_cost(problem, parameters, document["warmup"]["parameters"])
    return config.checked(document, problem)


def _same_cost(problem: str, parameters: dict[str, Any], changes: dict[str, Any]) -> dict[str, int]:
    """Lengths with which all schemes take as many samples, the warm-up counted."""
    small, large = make(problem, **(parameters | changes)).horizon, make(problem, **parameters).horizon
    return {"direct": _ITERATIONS + -(-_ITERATIONS * small // large), "curl": _ITERATIONS}
