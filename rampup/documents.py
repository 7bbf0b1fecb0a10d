"""YAML documents: read, checked against a model, and what is not known is refused by name."""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound=BaseModel)

# Enough for a series of probabilities given number by number; aliases in YAML can stand for far more than is written.
_MOST_VALUES = 100_000
_MOST_DEPTH = 20


def document(path: str, kind: str) -> tuple[str, dict[str, Any]]:
    """A YAML file that holds a mapping: its name, and what is written there."""
    try:
        return path, mapping(path, parsed(path, Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise ValueError(f"cannot read the {kind} {path!r}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"the {kind} {path!r} is not UTF-8 text.") from None


class _Loader(yaml.SafeLoader):
    """YAML that knows 1e-3 for a number, as JSON and YAML 1.2 do."""


class Dumper(yaml.SafeDumper):
    """Writes what `_Loader` reads: a text that looks like 1e-3 gets quotes."""


for _kind in (_Loader, Dumper):
    _kind.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
    )


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    """A text; PyYAML would fold the line breaks of Unicode into blanks, did it not have to quote them."""
    style = '"' if any(mark in text for mark in "\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


Dumper.add_representer(str, _text_node)


def parsed(source: str, text: str) -> Any:
    """What a YAML text holds; `source` is what to call it in a complaint."""
    try:
        document = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError, TypeError) as error:
        # A tag on a text it does not fit (`!!int x`, `!!bool x`) fails in as many ways as there are tags.
        where = getattr(error, "problem_mark", None)
        line = f" (line {where.line + 1})" if where is not None else ""
        raise ValueError(
            f"{source} is not YAML{line}: {_one_line(getattr(error, 'problem', None) or 'it cannot be read')}."
        ) from None
    return plain(source, document)


def plain(source: str, document: Any) -> Any:
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


def mapping(source: str, value: Any) -> dict[str, Any]:
    """Return a value if it is a mapping of names to values."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{source} must hold a mapping of names to values.")
    return value


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
