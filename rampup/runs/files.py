"""Writing a file so that a crash leaves either the old one or the new one, never a piece."""

import os
import secrets
from itertools import count
from pathlib import Path


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file beside its place, force it to disk, and move it there."""
    target = Path(path)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(beside, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, target)
        finally:
            beside.unlink(missing_ok=True)
        _force_folder(target.parent)
    except OSError as error:
        raise ValueError(f"cannot write {str(path)!r}: {error.strerror}.") from None


def _force_folder(folder: Path) -> None:
    """Make a rename survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: str | Path) -> None:
    """Make a folder, with those above it, if it is not there."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"cannot make the folder {str(path)!r}: {error.strerror}.") from None


def make_new_folder(path: str | Path) -> Path:
    """Make a folder that was not there: of this name, or with -2, -3 and so on after it; making it decides the name."""
    wanted = Path(path)
    make_folder(wanted.parent)
    for number in count(1):
        place = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        try:
            place.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise ValueError(f"cannot make the folder {str(place)!r}: {error.strerror}.") from None
        return place
    raise AssertionError("there is always a next number")
