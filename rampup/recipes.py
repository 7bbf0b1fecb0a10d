"""The recipe `auto`: which warm-up, and for how long, by the kappa that is predicted before anything is trained."""

import json
import math
from functools import cache
from typing import Any

from rampup.advice import BUDGET, OnProgress
from rampup.config import AutoConfig, Experiment
from rampup.problems import make
from rampup.stories import advice

# However the prediction comes out, both phases are long enough for it to be wrong by a factor.
_LEAST_PART, _GREATEST_PART = 0.1, 0.6


def with_auto(experiment: Experiment, on_progress: OnProgress | None = None) -> Experiment:
    """An experiment that has the scheme `auto` with what that is to do; any other as it is."""
    if "auto" not in experiment.schemes or experiment.auto is not None:
        return experiment
    given = experiment.problem
    key = json.dumps([given.name, given.parameters, experiment.features, experiment.reference], sort_keys=True)
    return experiment.model_copy(update={"auto": _chosen(key, on_progress)})


@cache
def _chosen(key: str, on_progress: OnProgress | None) -> AutoConfig:
    name, parameters, features, reference = json.loads(key)
    common: dict[str, Any] = {"features": features, "reference": reference, "budget": BUDGET, "seed": 0}
    answer = advice(name, parameters, {}, [], **common, on_progress=on_progress)
    if answer["warmup"] is None:
        return AutoConfig(warmup=None, part=0.0, why=answer["why"])
    (best,) = (one for one in answer["candidates"] if one["warmup"] == answer["warmup"])
    small, large = (make(name, **(parameters | changes)).horizon for changes in (answer["warmup"], {}))
    return AutoConfig(warmup=answer["warmup"], part=_part(best, small, large), why=answer["why"])


def _part(best: dict[str, Any], small: int, large: int) -> float:
    """Samples of the warm-up as a part of all: each phase needs H kappa, up to a constant that both have."""
    ln_warmup, ln_final = math.log(small) + best["ln_kappa_warmup"], math.log(large) + best["ln_kappa"]
    part = 1 / (1 + math.exp(min(ln_final - ln_warmup, 700.0)))
    return round(min(max(part, _LEAST_PART), _GREATEST_PART), 4)
