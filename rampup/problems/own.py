"""Problems of the user's own: a class in a Python file, FILE.py:CLASS, or an entry point of an installed package."""

import importlib.util
import re
import sys
import traceback
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from rampup.problems.base import Problem

GROUP = "rampup.problems"
"""The entry points by which a package announces its problems."""


def is_file_and_class(name: str) -> bool:
    """Whether a problem is given as FILE.py:CLASS."""
    return re.fullmatch(r".*\.py:[^:/]*", name, flags=re.DOTALL) is not None


@cache
def _entries() -> dict[str, EntryPoint]:
    """What installed packages announce; looking through all of them takes a while."""
    return {one.name: one for one in entry_points(group=GROUP)}


def announced_names() -> list[str]:
    """The problems that installed packages announce."""
    return sorted(_entries())


def announced(name: str) -> type[Problem]:
    """The problem that a package announces by a name."""
    entry = _entries()[name]
    try:
        found = entry.load()
    except Exception as error:
        raise ValueError(f"the problem {name!r} ({entry.value}) cannot be loaded: {said(error)}.") from None
    return _checked(found, name)


def from_file(name: str) -> type[Problem]:
    """The class of FILE.py:CLASS; the file is run, as Python does with what is imported."""
    path, _, class_name = name.rpartition(":")
    module = _module(str(Path(path).absolute()), path)
    known = [key for key, one in vars(module).items() if _is_own(one, module)]
    if class_name not in known:
        there = f"it has {', '.join(known)}" if known else "it has no class of `rampup.Problem`"
        raise ValueError(f"{path!r} has no problem {class_name!r}: {there}.")
    return _checked(getattr(module, class_name), name)


@cache
def _module(absolute: str, path: str) -> ModuleType:
    if not Path(absolute).is_file():
        raise ValueError(f"cannot read the problem file {path!r}: there is no such file.")
    spec = importlib.util.spec_from_file_location(f"rampup_own_{Path(path).stem}", absolute)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look for the module that a class says it is of.
    sys.modules[module.__name__] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module.__name__]
        raise ValueError(f"the problem file {path!r} cannot be loaded: {said(error, absolute)}.") from None
    return module


def _is_own(value: Any, module: ModuleType) -> bool:
    return isinstance(value, type) and issubclass(value, Problem) and value.__module__ == module.__name__


def _checked(found: Any, name: str) -> type[Problem]:
    if not isinstance(found, type) or not issubclass(found, Problem):
        raise ValueError(f"the problem {name!r} must be a subclass of `rampup.Problem`, got {found!r:.80}.")
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        raise ValueError(f"the problem {name!r} lacks {', '.join(f'`{one}`' for one in missing)}.")
    return found


def said(error: Exception, path: str | None = None) -> str:
    """What went wrong, and on which line of a file."""
    lines = [error.lineno] if isinstance(error, SyntaxError) else []
    lines += [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    where = f" (line {lines[-1]})" if lines and lines[-1] else ""
    text = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())[:300]
    return f"{type(error).__name__}: {text}{where}"
