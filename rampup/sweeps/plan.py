"""A sweep as YAML: a base experiment, and what of it is varied, by a grid, a list of points, or at random."""

import itertools
import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict, Discriminator, Field, StrictInt, Tag, model_validator

from rampup import config, documents
from rampup.config import Experiment

MOST_RUNS = 10_000
"""More than anybody looks at; each has a folder of its own."""

Values = Annotated[list[Any], Field(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Range(_Model):
    """Where a setting is drawn from; whole numbers if both ends are."""

    low: int | float
    high: int | float
    scale: Literal["linear", "log"] = "linear"

    @model_validator(mode="after")
    def _is_a_range(self) -> "Range":
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise ValueError(f"`low` must be below `high`, got {self.low} and {self.high}")
        if self.scale == "log" and self.low <= 0:
            raise ValueError(f"`low` must be above 0 on a logarithmic scale, got {self.low}")
        return self

    def drawn(self, chance: np.random.Generator) -> int | float:
        """A number from the range, both ends of whole numbers among them."""
        whole = isinstance(self.low, int) and isinstance(self.high, int)
        low, high = (self.low - 0.5, self.high + 0.5) if whole else (self.low, self.high)
        if self.scale == "log":
            number = math.exp(chance.uniform(math.log(max(low, self.low / 2)), math.log(high)))
        else:
            number = chance.uniform(low, high)
        return min(max(round(number), self.low), self.high) if whole else float(number)


Axis = Annotated[
    Annotated[Range, Tag("<range>")] | Annotated[Values, Tag("<choices>")],
    Discriminator(lambda value: "<choices>" if isinstance(value, list) else "<range>"),
]


class Random(_Model):
    """Points at random: each axis a range, or a list to choose from."""

    count: StrictInt = Field(ge=1, le=MOST_RUNS)
    seed: StrictInt = Field(default=0, ge=0)
    axes: dict[str, Axis] = Field(min_length=1)

    def points(self) -> list[dict[str, Any]]:
        chance = np.random.default_rng(self.seed)

        def drawn(axis: Range | list[Any]) -> Any:
            return axis.drawn(chance) if isinstance(axis, Range) else axis[int(chance.integers(len(axis)))]

        return [{key: drawn(axis) for key, axis in self.axes.items()} for _ in range(self.count)]


class Sweep(_Model):
    """A sweep; its points are all combinations of the grid, the list and the random ones, as far as there are any."""

    name: str = Field(default="sweep", min_length=1, max_length=200)
    about: str = ""
    experiment: str | dict[str, Any]
    preset: str = "paper"
    changes: dict[str, Any] = Field(default={}, alias="set")
    grid: dict[str, Values] = {}
    listed: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = Field(default=None, alias="list")
    random: Random | None = None
    schemes: Annotated[list[str], Field(min_length=1)] | None = None
    seeds: Any = None

    @property
    def points(self) -> list[dict[str, Any]]:
        """What is set otherwise in each point, in order."""
        grid = [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]
        kinds = [grid, self.listed or [{}], self.random.points() if self.random else [{}]]
        return [{**first, **second, **third} for first, second, third in itertools.product(*kinds)]


class Task(NamedTuple):
    """One run of a sweep: a point, a scheme and a seed."""

    number: int
    point: dict[str, Any]
    experiment: Experiment

    @property
    def scheme(self) -> str:
        return self.experiment.schemes[0]

    @property
    def seed(self) -> int:
        return self.experiment.seeds[0]


def read(path: str) -> Sweep:
    """Read a sweep file; its experiment is a name, a file beside it, or the experiment itself."""
    source, document = documents.document(path, "sweep file")
    sweep = documents.validated(Sweep, document, source)
    base = _base(sweep, Path(path).parent, source)
    # Resolved: what the experiment was when the sweep was begun is what all its runs are of.
    kept = {"experiment": base.model_dump(mode="json"), "preset": "paper", "set": {}, "schemes": None, "seeds": None}
    return documents.validated(Sweep, sweep.model_dump(mode="json", by_alias=True) | kept, source)


def _base(sweep: Sweep, place: Path, source: str) -> Experiment:
    if isinstance(sweep.experiment, str):
        name = sweep.experiment
        if config.is_file_name(name):
            name = str(place / name)
        base = config.load(name, preset=sweep.preset)
    else:
        base = config.checked(sweep.experiment, source)
    changes = dict(sweep.changes)
    changes |= {} if sweep.schemes is None else {"schemes": sweep.schemes}
    changes |= {} if sweep.seeds is None else {"seeds": sweep.seeds}
    return config.changed(base, changes, source)


def tasks_of(sweep: Sweep, source: str) -> list[Task]:
    """Every run of a sweep that `read` has resolved, checked."""
    base = config.checked(sweep.experiment, source)
    points = sweep.points
    if len(points) * len(base.schemes) * len(base.seeds) > MOST_RUNS:
        raise ValueError(f"{source}: a sweep has at most {MOST_RUNS} runs.")
    tasks = []
    for point in points:
        for key in point:
            if key.split(".")[0] in ("schemes", "seeds", "name", "about"):
                raise ValueError(f"{source}: `{key}` is no axis: give `schemes` and `seeds` of the sweep itself.")
        whole = config.changed(base, point, source)
        for scheme, seed in itertools.product(whole.schemes, whole.seeds):
            own = whole.model_copy(update={"schemes": [scheme], "seeds": [seed]})
            tasks.append(Task(len(tasks), point, own))
    return tasks


def as_yaml(sweep: Sweep) -> str:
    """A sweep as a file that reads as the same."""
    kept = sweep.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, width=100)


def flat(value: Any) -> Any:
    """A setting as it stands in a table: a number, a text or a truth as it is, anything else as JSON."""
    return json.dumps(value) if isinstance(value, dict | list) else value
