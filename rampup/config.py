"""Experiments as YAML: read, merged with a preset and overrides, checked; what is not known is refused by name."""

import difflib
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictInt,
    Tag,
    field_validator,
    model_validator,
)

from rampup import documents
from rampup.problems import check_name

# More updates than any machine makes in a lifetime, and far from where counters overflow.
_MOST_UPDATES = 10**9
# So many that counters of them stay exact where they are turned into floating-point numbers.
_MOST_SAMPLES = 10**15
# More episodes at once than any memory holds.
_MOST_EPISODES = 10**7
# The two forms of a length, by names that no key has.
_ONE, _EACH = "<one>", "<each>"

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
AtLeastZero = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
Updates = Annotated[StrictInt, Field(ge=1, le=_MOST_UPDATES)]
Episodes = Annotated[StrictInt, Field(ge=2, le=_MOST_EPISODES)]
Lengths = Annotated[
    Annotated[Updates, Tag(_ONE)] | Annotated[dict[str, Updates], Tag(_EACH)],
    Discriminator(lambda value: _EACH if isinstance(value, dict) else _ONE),
]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ProblemConfig(_Model):
    """A problem by name, with its parameters."""

    name: str
    parameters: dict[str, Any] = {}

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        """Whether there may be such a problem; a file of the user's own is not run to find out."""
        try:
            check_name(name)
        except ValueError as error:
            raise ValueError(str(error).rstrip(".")) from None
        return name


class WarmupConfig(_Model):
    """The parameters in which the small problem differs from the large one."""

    parameters: dict[str, Any]


class MultiStepConfig(_Model):
    """Kong et al.'s bootstrapping: sizes in order, each a set of parameters that differ, the problem itself last."""

    sizes: list[dict[str, Any]] = Field(min_length=1)
    promote_at: Positive = 0.9


class AutoConfig(_Model):
    """What the scheme `auto` does: chosen once, by predicted kappa, when the run is begun."""

    warmup: dict[str, Any] | None
    """The parameters in which its small problem differs; None where no warm-up pays."""
    part: float = Field(ge=0, lt=1)
    """Of all samples, those for the small problem."""
    why: str = ""


class EffortConfig(_Model):
    """How many episodes a sampled inspection plays."""

    episodes: Episodes = 1024
    groups: Episodes = 8
    replicates: Episodes = 16


class TrainerConfig(_Model):
    """How to train; lengths are one number for all schemes, or one for each."""

    iterations: Lengths | None = None
    warmup_iterations: Updates | None = None
    """None for as many as after it."""
    samples: StrictInt | None = Field(default=None, ge=1, le=_MOST_SAMPLES)
    """In place of `iterations`: as many in all for every scheme, the warm-up counted, half of them where it has any."""
    learning_rate: Positive
    num_lanes: StrictInt = Field(default=100, ge=1, le=_MOST_EPISODES)
    radius: Positive = 10.0
    clip: Positive = 15.0
    regularisation: AtLeastZero = 0.01
    estimator: Literal["algorithm4", "paired", "exact"] = "algorithm4"
    solver: Literal["ball", "ridge_project"] = "ball"
    steps_per_iteration: Updates | None = None
    record_every: Updates = 100
    effort: EffortConfig = EffortConfig()


class Experiment(_Model):
    """Everything an experiment is: the resolved config that a run folder keeps."""

    name: str = Field(min_length=1, max_length=200)
    about: str = ""
    problem: ProblemConfig
    warmup: WarmupConfig | None = None
    multi_step: MultiStepConfig | None = None
    auto: AutoConfig | None = None
    features: str
    reference: str | None = None
    schemes: list[str] = Field(min_length=1)
    seeds: list[StrictInt] = Field(min_length=1)
    trainer: TrainerConfig

    @field_validator("seeds", mode="before")
    @classmethod
    def _first_seeds(cls, value: Any) -> Any:
        """A number of seeds stands for 0, 1, and so on."""
        if isinstance(value, int) and not isinstance(value, bool):
            if not 1 <= value <= 10_000:
                raise ValueError(f"must be between 1 and 10000, got {value}")
            return list(range(value))
        return value

    @model_validator(mode="after")
    def _lengths_for_all(self) -> "Experiment":
        lengths = self.trainer.iterations
        if (lengths is None) == (self.trainer.samples is None):
            raise ValueError("`trainer` must have either `iterations` or `samples`")
        if isinstance(lengths, dict):
            missing = [scheme for scheme in self.schemes if plain_name(scheme) not in lengths and scheme not in lengths]
            if missing:
                raise ValueError(f"trainer.iterations has no entry for the scheme {missing[0]!r}")
        if len(set(self.schemes)) < len(self.schemes) or len(set(self.seeds)) < len(self.seeds):
            raise ValueError("schemes and seeds must not repeat")
        return self

    def iterations_of(self, scheme: str) -> int:
        """How long the final phase of a scheme is."""
        lengths = self.trainer.iterations
        assert lengths is not None
        if isinstance(lengths, int):
            return lengths
        return lengths[scheme] if scheme in lengths else lengths[plain_name(scheme)]


def plain_name(scheme: str) -> str:
    """A scheme without its regularisation: the paper gives both the same length."""
    return scheme.removesuffix("_reg")


def shipped_names() -> list[str]:
    """The experiments inside the package."""
    return sorted(Path(entry.name).stem for entry in _folder().iterdir() if entry.name.endswith(".yaml"))


def _folder() -> Any:
    return resources.files("rampup.experiments")


def load(name: str, *, preset: str = "paper", overrides: Sequence[str] = ()) -> Experiment:
    """Read an experiment by its name or the path of a YAML file.

    Args:
        preset: "paper" is the file as it stands; any other is merged over it from its `presets`.
        overrides: `key=value` each, with dots for keys inside keys; values are YAML.
    """
    source, document = _document(name)
    presets = document.pop("presets", None) or {}
    if not isinstance(presets, dict):
        raise ValueError(f"{source}: `presets` must hold a mapping of presets by name.")
    if preset != "paper":
        if preset not in presets:
            raise ValueError(
                f"{source}: unknown preset {preset!r}: known are {', '.join(['paper', *map(str, presets)])}."
            )
        document = _merged(document, documents.mapping(f"{source}: `presets.{preset}`", presets[preset]))
    override_all(document, overrides)
    return checked(document, source)


def is_file_name(name: str) -> bool:
    """Whether an experiment is given as a file, not by name."""
    return name.endswith((".yaml", ".yml")) or "/" in name


def _document(name: str) -> tuple[str, dict[str, Any]]:
    """Where an experiment comes from, and what is written there."""
    if is_file_name(name):
        return documents.document(name, "experiment file")
    if name not in shipped_names():
        near = difflib.get_close_matches(name, shipped_names(), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown experiment {name!r}: {hint}known are {', '.join(shipped_names())}, or a YAML file.")
    return name, documents.mapping(
        name, documents.parsed(name, _folder().joinpath(f"{name}.yaml").read_text(encoding="utf-8"))
    )


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """One mapping over another: mappings inside are merged too, anything else is replaced."""
    merged = dict(base)
    for key, value in changes.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged


def override_all(document: dict[str, Any], overrides: Sequence[str]) -> None:
    """Set leaves of a document, `key.inside=value` each."""
    for override in overrides:
        _override(document, override)


def _override(document: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    if not equals or not all(path.split(".")):
        raise ValueError(f"`--set` takes key=value with dots for keys inside keys, got {override!r}.")
    _put(document, path, _value(text), "--set ")


def _put(document: dict[str, Any], path: str, value: Any, how: str = "") -> None:
    """Set a leaf by its path, with dots for keys inside keys."""
    *outer, last = path.split(".")
    place = document
    for key in outer:
        inner = place.get(key)
        if inner is None:
            inner = {}
        if not isinstance(inner, dict):
            raise ValueError(f"`{how}{path}`: {key!r} holds a value, not further keys.")
        place[key] = place = dict(inner)
    place[last] = value


def changed(experiment: Experiment, changes: Mapping[str, Any], source: str) -> Experiment:
    """An experiment with some leaves set otherwise, by their paths."""
    document = experiment.model_dump(mode="json")
    for path, value in changes.items():
        _put(document, path, value)
    return checked(document, source)


def _value(text: str) -> Any:
    """A value as JSON where it is that, which knows 1e-3 for a number; else as YAML."""
    source = "the value of `--set`"
    try:
        return documents.plain(source, json.loads(text))
    except (json.JSONDecodeError, RecursionError):
        return documents.parsed(source, text)


def parsed(text: str, source: str) -> Experiment:
    """Read a resolved config, as a run folder keeps it."""
    return checked(documents.parsed(source, text), source)


def checked(document: Any, source: str) -> Experiment:
    """Return the experiment if the document is one; else one sentence about the first thing wrong."""
    return documents.validated(Experiment, document, source)


def as_yaml(experiment: Experiment) -> str:
    """The resolved config, every default spelled out."""
    return yaml.dump(
        experiment.model_dump(mode="json"), Dumper=documents.Dumper, sort_keys=False, allow_unicode=True, width=100
    )
