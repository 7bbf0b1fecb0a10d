"""An experiment for a problem that nobody has made one for yet: from scratch and with a warm-up, at the same cost."""

from collections.abc import Sequence
from typing import Any

from rampup import config
from rampup.config import Experiment
from rampup.learn.estimators import EPISODES_PER_LANE
from rampup.problems import find, make
from rampup.problems.own import is_file_and_class
from rampup.problems.sizes import part_of

# As many samples as so many updates on the problem itself take, and a row of them for each point of a smooth curve.
_UPDATES, _RECORD_EVERY = 150, 10
_SEEDS = 3
# A warm-up on a fifth is cheap, and large enough for most that can be learned on few arrivals.
_STEPS = 0.2, 0.4, 0.7
_NUM_LANES = 100


def outline(problem: str, overrides: Sequence[str] = ()) -> Experiment:
    """The experiment of a problem by name: all ways to learn it at equal cost; `overrides` as in `config.load`."""
    kind = find(problem)
    document: dict[str, Any] = {
        "name": problem.rpartition(":")[2] if is_file_and_class(problem) else problem,
        "problem": {"name": problem, "parameters": {}},
        "features": kind.usual_features,
        "schemes": ["direct"],
        "seeds": _SEEDS,
        "trainer": {
            "learning_rate": kind.usual_learning_rate,
            "num_lanes": _NUM_LANES,
            # Returns that are all much the same tell little of an action; both sides of a coin on one instance do.
            "estimator": "paired",
            "record_every": _RECORD_EVERY,
        },
    }
    given = {one.partition("=")[0] for one in overrides}
    config.override_all(document, overrides)
    parameters, trainer = document["problem"]["parameters"], document["trainer"]
    if kind.size_parameters:
        sizes = [part_of(kind, parameters, fraction) for fraction in _STEPS]
        document.setdefault("warmup", {"parameters": sizes[0]})
        document.setdefault("multi_step", {"sizes": [*sizes, {}]})
        if "schemes" not in given:
            document["schemes"] = ["direct", "curl", "multi_step", "auto"]
    if not {"iterations", "samples"} & set(trainer):
        lanes = trainer["num_lanes"] * EPISODES_PER_LANE.get(trainer["estimator"], 1)
        trainer["samples"] = _UPDATES * make(problem, **parameters).horizon * lanes
    return config.checked(document, problem)
