"""A run on disk: its config, where it was made, its metrics as they come, checkpoints and policies."""

import fcntl
import hashlib
import json
import math
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from rampup.runs import checkpoint
from rampup.runs.checkpoint import Checkpoint
from rampup.runs.files import make_folder, write_whole

CONFIG, PROVENANCE, METRICS = "config.yaml", "provenance.json", "metrics.jsonl"
SUMMARY, PORTRAITS, THEORY = "summary.json", "portraits.json", "theory.json"


class TakenError(ValueError):
    """Another process is at work in a folder."""


class RunFolder:
    """The files of one run; nothing outside its folder is ever written."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | Path, config: str, provenance: Mapping[str, Any] | None = None) -> "RunFolder":
        """Make the folder of a new run; one that holds anything already is refused.

        Args:
            provenance: where it is begun; whoever goes on with it will say so otherwise.
        """
        folder = cls(path)
        make_folder(path)
        folder.refuse_if_taken()
        # First: from here on it is a run, and all else can be made again.
        write_whole(folder.path / CONFIG, config.encode())
        if provenance is not None:
            folder.write_provenance(provenance)
        make_folder(folder.path / "policies")
        make_folder(folder.checkpoints)
        return folder

    def refuse_if_taken(self) -> None:
        """Refuse a folder that holds anything already."""
        if (self.path / CONFIG).exists():
            raise ValueError(
                f"the folder {str(self.path)!r} holds a run already: go on with `{self.resume_command}`, or give "
                "another `--out`."
            )
        # A lock, or a piece of a config, is all that a crash at this point leaves.
        found = self.path.iterdir() if self.path.is_dir() else ()
        if any(entry.name != ".lock" and not entry.match(f".{CONFIG}.*.part") for entry in found):
            raise ValueError(f"the folder {str(self.path)!r} is not empty: give another `--out`.")

    @classmethod
    def open(cls, path: str | Path) -> "RunFolder":
        """Open the folder of a run that exists."""
        folder = cls(path)
        if not (folder.path / CONFIG).is_file():
            raise ValueError(f"{str(path)!r} is not the folder of a run: it has no {CONFIG}.")
        return folder

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def config(self) -> str:
        return self._text(CONFIG)

    @property
    def resume_command(self) -> str:
        """What to type to go on."""
        return f"rampup resume {shlex.quote(str(self.path))}"

    @property
    def provenance(self) -> dict[str, Any] | None:
        """Where the run was begun; nothing if it was interrupted before that was written."""
        return json.loads(self._text(PROVENANCE)) if (self.path / PROVENANCE).is_file() else None

    def write_provenance(self, provenance: Mapping[str, Any]) -> None:
        write_whole(self.path / PROVENANCE, (json.dumps(provenance, indent=1) + "\n").encode())

    @property
    def summary(self) -> dict[str, Any] | None:
        """What came of the run; nothing while it is not finished."""
        return json.loads(self._text(SUMMARY)) if (self.path / SUMMARY).is_file() else None

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        write_whole(self.path / SUMMARY, (json.dumps(summary, indent=1, allow_nan=False) + "\n").encode())

    def _text(self, name: str) -> str:
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                f"cannot read {str(self.path / name)!r}: {getattr(error, 'strerror', None) or error}."
            ) from None

    def write_portraits(self, portraits: Mapping[str, Any]) -> None:
        """Keep pictures of policies, by name, as arrays to draw."""
        write_whole(self.path / PORTRAITS, json.dumps(portraits, allow_nan=False).encode())

    def portraits(self) -> dict[str, Any]:
        return json.loads(self._text(PORTRAITS)) if (self.path / PORTRAITS).is_file() else {}

    def write_theory(self, theory: Mapping[str, Any]) -> None:
        """Keep what the theory says of the run."""
        write_whole(self.path / THEORY, (json.dumps(theory, indent=1, allow_nan=False) + "\n").encode())

    def theory(self) -> dict[str, Any]:
        """By scheme, predictions and bounds; nothing of a run that is not finished."""
        known = json.loads(self._text(THEORY)) if (self.path / THEORY).is_file() else {}
        return {"predictions": {}, "bounds": {}, "against_best": {}} | known

    def rows(self) -> list[dict[str, Any]]:
        """The metrics recorded so far; a last line that was cut short does not count."""
        lines = self._text(METRICS).split("\n")[:-1] if (self.path / METRICS).is_file() else []
        return [json.loads(line) for line in lines]

    def last_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint to go on from: whole, and with the metrics it stands on still there."""
        size = (self.path / METRICS).stat().st_size if (self.path / METRICS).is_file() else 0
        found = checkpoint.last_good(self.checkpoints, lambda facts: facts["metrics_bytes"] <= size)
        if found is not None and found.facts.get("config_sha256") not in (None, self.config_digest):
            raise ValueError(
                f"{str(self.path / CONFIG)!r} was changed after the run began, which would make it another run: put it "
                "back, or begin a new one with `rampup run`."
            )
        return found

    @property
    def config_digest(self) -> str:
        return hashlib.sha256(self.config.encode()).hexdigest()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second process out of the folder as long as this one works in it; a full disk is one sentence."""
        try:
            with open(self.path / ".lock", "wb") as lock:
                self._take(lock)
                for piece in self.path.rglob(".*.part"):
                    piece.unlink()
                yield
        except OSError as error:
            raise ValueError(
                f"cannot write in {str(self.path)!r}: {error.strerror or error}; once that is mended, go on with "
                f"`{self.resume_command}`."
            ) from None

    def _take(self, lock: BinaryIO) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TakenError(f"another process is at work in {str(self.path)!r}: wait for it, or stop it.") from None

    @contextmanager
    def recording(self, keep: int) -> Iterator["Recording"]:
        """Append to the metrics, of which only the first `keep` bytes count."""
        with open(self.path / METRICS, "ab") as file:
            file.truncate(keep)
            file.seek(0, os.SEEK_END)
            yield Recording(self, file)


class Recording:
    """Metrics and checkpoints of a run under way, always in step."""

    def __init__(self, folder: RunFolder, file: BinaryIO):
        self.folder, self.file, self.config_digest = folder, file, folder.config_digest

    def append(self, record: Mapping[str, Any]) -> None:
        self.file.write((json.dumps(record, allow_nan=False) + "\n").encode())

    def flush(self) -> None:
        self.file.flush()

    def save(self, arrays: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Write a checkpoint; the metrics it stands on are forced to disk before."""
        self.flush()
        os.fsync(self.file.fileno())
        own = {"metrics_bytes": self.file.tell(), "config_sha256": self.config_digest}
        checkpoint.save(self.folder.checkpoints, Checkpoint(dict(arrays), {**facts, **own}))


def record_of(row: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """A row of the trainer as a flat record that any tool reads: an infinite kappa is null and said beside it."""
    record = {}
    for name, value in row.items():
        if isinstance(value, list):
            record[f"{name.removesuffix('_interval')}_low"], record[f"{name.removesuffix('_interval')}_high"] = map(
                _finite, value
            )
        else:
            record[name] = _finite(value)
    record["kappa_is_infinite"] = math.isinf(row["ln_kappa"])
    record["seconds"] = round(seconds, 3)
    return record


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
