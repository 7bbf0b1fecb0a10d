"""Checkpoints: arrays in safetensors files, each with its checksum; the last one that is whole counts."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load as arrays_from
from safetensors.numpy import save as bytes_of

from rampup.runs.files import write_whole

# The one in use and the one before it: a crash while writing can spoil only a third.
_KEPT = 2


class Checkpoint(NamedTuple):
    """Arrays, and plain facts beside them."""

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write the next checkpoint of a folder, arrays first; it exists from the moment its manifest does."""
    number = max(_numbers(folder), default=-1) + 1
    content = bytes_of(checkpoint.arrays)
    manifest = {"sha256": hashlib.sha256(content).hexdigest(), "facts": checkpoint.facts}
    write_whole(_arrays_file(folder, number), content)
    write_whole(_manifest_file(folder, number), _signed(manifest))
    for old in sorted(_numbers(folder))[:-_KEPT]:
        _manifest_file(folder, old).unlink(missing_ok=True)
        _arrays_file(folder, old).unlink(missing_ok=True)


def last_good(folder: Path, is_usable: Callable[[dict[str, Any]], bool] = lambda facts: True) -> Checkpoint | None:
    """Read the newest checkpoint that is whole, unchanged, and usable by its facts; nothing if there is none."""
    for number in sorted(_numbers(folder), reverse=True):
        checkpoint = _read(folder, number)
        if checkpoint is not None and is_usable(checkpoint.facts):
            return checkpoint
    return None


def _read(folder: Path, number: int) -> Checkpoint | None:
    try:
        manifest = json.loads(_manifest_file(folder, number).read_bytes())
        given = manifest.pop("manifest_sha256")
        content = _arrays_file(folder, number).read_bytes()
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    if given != _digest(manifest) or manifest["sha256"] != hashlib.sha256(content).hexdigest():
        return None
    return Checkpoint(arrays_from(content), manifest["facts"])


def _signed(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest | {"manifest_sha256": _digest(manifest)}, indent=1).encode()


def _digest(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _arrays_file(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.safetensors"


def _manifest_file(folder: Path, number: int) -> Path:
    return folder / f"{number:06d}.json"


def _numbers(folder: Path) -> list[int]:
    return [int(file.stem) for file in folder.glob("*.json") if file.stem.isdecimal()]
