"""A run on disk: its config, where it was made, its metrics as they come, checkpoints and policies."""

import fcntl
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from rampup.runs import checkpoint
from rampup.runs.checkpoint import Checkpoint
from rampup.runs.files import make_folder, write_whole

CONFIG, PROVENANCE, METRICS = "config.yaml", "provenance.json", "metrics.jsonl"
SUMMARY, PORTRAITS = "summary.json", "portraits.json"


class RunFolder:
    """The files of one run; nothing outside its folder is ever written."""

    def __init__(self, path: str | Path):
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | Path, config: str, provenance: Mapping[str, Any]) -> "RunFolder":
        """Make the folder of a new run; one that holds anything already is refused."""
        folder = cls(path)
        make_folder(path)
        if any(entry.name != ".lock" for entry in folder.path.iterdir()):
            raise ValueError(
                f"the folder {str(path)!r} is not empty: go on with `rampup resume {path}`, or give another `--out`."
            )
        make_folder(folder.path / "policies")
        make_folder(folder.checkpoints)
        write_whole(folder.path / PROVENANCE, (json.dumps(provenance, indent=1) + "\n").encode())
        # Last: from here on it is a run.
        write_whole(folder.path / CONFIG, config.encode())
        return folder

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
    def provenance(self) -> dict[str, Any]:
        return json.loads(self._text(PROVENANCE))

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

    def rows(self) -> list[dict[str, Any]]:
        """The metrics recorded so far; a last line that was cut short does not count."""
        lines = self._text(METRICS).split("\n")[:-1] if (self.path / METRICS).is_file() else []
        return [json.loads(line) for line in lines]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep a second process out of the folder as long as this one works in it."""
        with open(self.path / ".lock", "wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ValueError(
                    f"another process is at work in {str(self.path)!r}: wait for it, or stop it."
                ) from None
            yield

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
        self.folder, self.file = folder, file

    def append(self, record: Mapping[str, Any]) -> None:
        self._do(lambda: self.file.write((json.dumps(record, allow_nan=False) + "\n").encode()))

    def flush(self) -> None:
        self._do(self.file.flush)

    def save(self, arrays: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
        """Write a checkpoint; the metrics it stands on are forced to disk before."""
        self.flush()
        self._do(lambda: os.fsync(self.file.fileno()))
        size = self.file.tell()
        checkpoint.save(self.folder.checkpoints, Checkpoint(dict(arrays), {**facts, "metrics_bytes": size}))

    def _do(self, write) -> None:
        try:
            write()
        except OSError as error:
            raise ValueError(f"cannot write {str(self.folder.path / METRICS)!r}: {error.strerror}.") from None


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
