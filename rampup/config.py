"""Experiments as YAML: read, merged with a preset and overrides, checked; what is not known is refused by name."""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictInt,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)

from rampup.problems import check_name

Model = TypeVar("Model", bound=BaseModel)

# More updates than any machine makes in a lifetime, and far from where counters overflow.
_MOST_UPDATES = 10**9
# So many that counters of them stay exact where they are turned into floating-point numbers.
_MOST_SAMPLES = 10**15
# More episodes at once than any memory holds.
_MOST_EPISODES = 10**7
# Enough for a series of probabilities given number by number; aliases in YAML can stand for far more than is written.
_MOST_VALUES = 100_000
_MOST_DEPTH = 20

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
        document = _merged(document, _mapping(f"{source}: `presets.{preset}`", presets[preset]))
    override_all(document, overrides)
    return checked(document, source)


def is_file_name(name: str) -> bool:
    """Whether an experiment is given as a file, not by name."""
    return name.endswith((".yaml", ".yml")) or "/" in name


def document(path: str, kind: str) -> tuple[str, dict[str, Any]]:
    """A YAML file that holds a mapping: its name, and what is written there."""
    try:
        return path, _mapping(path, _parsed(path, Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"cannot read the {kind} {path!r}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"the {kind} {path!r} is not UTF-8 text.") from None


def _document(name: str) -> tuple[str, dict[str, Any]]:
    """Where an experiment comes from, and what is written there."""
    if is_file_name(name):
        return document(name, "experiment file")
    if name not in shipped_names():
        near = difflib.get_close_matches(name, shipped_names(), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"unknown experiment {name!r}: {hint}known are {', '.join(shipped_names())}, or a YAML file.")
    return name, _mapping(name, _parsed(name, _folder().joinpath(f"{name}.yaml").read_text(encoding="utf-8")))


class _Loader(yaml.SafeLoader):
    """YAML that knows 1e-3 for a number, as JSON and YAML 1.2 do."""


class _Dumper(yaml.SafeDumper):
    """Writes what `_Loader` reads: a text that looks like 1e-3 gets quotes."""


for _kind in (_Loader, _Dumper):
    _kind.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
    )


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    """A text; PyYAML would fold the line breaks of Unicode into blanks, did it not have to quote them."""
    style = '"' if any(mark in text for mark in "\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text_node)


def _parsed(source: str, text: str) -> Any:
    try:
        document = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, TypeError) as error:
        # A tag on a text it does not fit (`!!int x`, `!!bool x`) fails in as many ways as there are tags.
        where = getattr(error, "problem_mark", None)
        line = f" (line {where.line + 1})" if where is not None else ""
        raise ValueError(
            f"{source} is not YAML{line}: {_one_line(getattr(error, 'problem', None) or 'it cannot be read')}."
        ) from None
    return _plain(source, document)


def _plain(source: str, document: Any) -> Any:
    """Return a document that holds nothing but names, texts, numbers and lists of them, and not too many."""
    waiting, count = [(document, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        count += 1
        if depth > _MOST_DEPTH:
            raise ValueError(f"{source}: it is nested more than {_MOST_DEPTH} deep.")
        if count + len(waiting) > _MOST_VALUES:
            raise ValueError(f"{source}: it holds more than {_MOST_VALUES} values.")
        if isinstance(value, dict):
            if wrong := [key for key in value if not isinstance(key, str)]:
                raise ValueError(f"{source}: the names in a mapping must be texts, got {wrong[0]!r:.60}.")
            waiting += [(inner, depth + 1) for inner in value.values()]
        elif isinstance(value, list):
            waiting += [(inner, depth + 1) for inner in value]
        elif value is not None and not isinstance(value, str | int | float):
            raise ValueError(f"{source}: a {type(value).__name__} has no place in it, got {value!r:.60}.")
    return document


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _mapping(source: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{source} must hold a mapping of names to values.")
    return value


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
        return _plain(source, json.loads(text))
    except (json.JSONDecodeError, RecursionError):
        return _parsed(source, text)


def parsed(text: str, source: str) -> Experiment:
    """Read a resolved config, as a run folder keeps it."""
    return checked(_parsed(source, text), source)


def checked(document: Any, source: str) -> Experiment:
    """Return the experiment if the document is one; else one sentence about the first thing wrong."""
    return validated(Experiment, document, source)


def validated(model: type[Model], document: Any, source: str) -> Model:
    """What a model makes of a document; else one sentence about the first thing wrong."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        # A misspelt key is also a missing one: the first says more.
        first = min(error.errors(include_url=False), key=lambda problem: problem["type"] != "extra_forbidden")
        raise ValueError(f"{source}: {_one_line(_sentence(model, first))}") from None
    except RecursionError:
        raise ValueError(f"{source}: it is nested too deeply.") from None


def _sentence(model: type[BaseModel], problem: Any) -> str:
    # The forms that a value may have are told apart by names that no key has.
    path = ".".join(str(part) for part in problem["loc"] if not str(part).startswith("<"))
    if problem["type"] == "extra_forbidden":
        known = _fields_at(model, problem["loc"][:-1])
        near = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return f"unknown key `{path}`{f': {hint}known are ' if known else ''}{', '.join(known)}."
    if problem["type"] == "missing":
        return f"`{path}` is missing."
    given = f", got {problem['input']!r:.60}" if not isinstance(problem["input"], dict) else ""
    message = problem["msg"].removeprefix("Value error, ")
    return (
        f"`{path}`: {message[:1].lower()}{message[1:]}{'' if 'got' in message else given}." if path else f"{message}."
    )


def _fields_at(model: Any, location: Sequence[Any]) -> list[str]:
    """The keys known at a place of a document."""
    for part in location:
        annotation = _fields(model)[part].annotation if part in _fields(model) else None
        model = next((one for one in (annotation, *get_args(annotation)) if hasattr(one, "model_fields")), None)
        if model is None:
            return []
    return list(_fields(model))


def _fields(model: Any) -> dict[str, Any]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def as_yaml(experiment: Experiment) -> str:
    """The resolved config, every default spelled out."""
    return yaml.dump(experiment.model_dump(mode="json"), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
