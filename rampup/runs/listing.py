"""All the runs of a folder, one entry for each of their schemes."""

from pathlib import Path
from typing import Any

import yaml

from rampup.runs import checkpoint
from rampup.runs.folder import CONFIG, RunFolder


def listing(
    folder: str | Path, *, experiment: str | None = None, scheme: str | None = None, finished: bool | None = None
) -> list[dict[str, Any]]:
    """What came of the runs in a folder, the highest value first."""
    entries = [entry for path in sorted(Path(folder).glob(f"*/{CONFIG}")) for entry in _entries(RunFolder(path.parent))]
    kept = [
        entry
        for entry in entries
        if experiment in (None, entry["experiment"])
        and scheme in (None, entry["scheme"])
        and finished in (None, entry["is_finished"])
    ]
    return sorted(kept, key=lambda entry: -1.0 if entry["value"] is None else entry["value"], reverse=True)


def _config_of(folder: RunFolder) -> dict[str, Any]:
    try:
        config = yaml.safe_load(folder.config)
        return {name: config[name] for name in ("name", "schemes", "seeds")}
    except (yaml.YAMLError, TypeError, KeyError):
        raise ValueError(f"{str(folder.path / CONFIG)!r} is not the config of a run: mend or move it.") from None


def _entries(folder: RunFolder) -> list[dict[str, Any]]:
    """One entry for each scheme of a run: the mean over seeds of its last records."""
    config = _config_of(folder)
    last = {(record["scheme"], record["seed"]): record for record in folder.rows()}
    found = None if folder.summary is not None else checkpoint.last_good(folder.checkpoints)
    progress = 1.0 if folder.summary is not None else 0.0
    if found is not None:
        progress = found.facts["done"] / found.facts["total"]
    entries = []
    for name in config["schemes"]:
        own = [record for (scheme, _), record in last.items() if scheme == name]
        entries.append(
            {
                "folder": str(folder.path),
                "experiment": config["name"],
                "scheme": name,
                "seeds": len(config["seeds"]),
                "value": sum(record["value"] for record in own) / len(own) if own else None,
                "samples": max(record["samples"] for record in own) if own else None,
                "is_finished": folder.summary is not None,
                "progress": progress,
            }
        )
    return entries
