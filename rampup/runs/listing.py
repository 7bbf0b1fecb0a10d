"""Runs on disk, one entry for each of their schemes: a list of them all, or some side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from rampup.runs import checkpoint
from rampup.runs.folder import CONFIG, RunFolder
from rampup.runs.schemes import samples_to_reach, scheme_results

# A scheme has arrived when it earns this part of what the reference does.
ARRIVED = 0.9

_NOTHING_YET = {"value": None, "interval": None, "ln_kappa": None, "samples": None}


def runs_in(folder: str | Path) -> list[RunFolder]:
    """The runs inside a folder, by name."""
    return [RunFolder(path.parent) for path in sorted(Path(folder).glob(f"*/{CONFIG}"))]


def chosen_runs(
    folders: Sequence[RunFolder], *, experiment: str | None = None, finished: bool | None = None
) -> list[RunFolder]:
    """Those of some runs that are of an experiment, finished or not."""
    return [
        folder
        for folder in folders
        if experiment in (None, _config_of(folder)["name"]) and finished in (None, folder.summary is not None)
    ]


def listing(folders: Sequence[RunFolder], *, scheme: str | None = None) -> list[dict[str, Any]]:
    """What came of runs, the highest value first."""
    entries = [entry for folder in folders for entry in _entries(folder) if scheme in (None, entry["scheme"])]
    return sorted(entries, key=lambda entry: -1.0 if entry["value"] is None else entry["value"], reverse=True)


def comparison(folders: Sequence[RunFolder], *, scheme: str | None = None) -> list[dict[str, Any]]:
    """The same scheme by scheme, the runs in the order given."""
    entries = [entry for folder in folders for entry in _entries(folder) if scheme in (None, entry["scheme"])]
    order = list(dict.fromkeys(entry["scheme"] for entry in entries))
    return sorted(entries, key=lambda entry: order.index(entry["scheme"]))


def _config_of(folder: RunFolder) -> dict[str, Any]:
    try:
        config = yaml.safe_load(folder.config)
        return {name: config[name] for name in ("name", "schemes", "seeds")}
    except (yaml.YAMLError, TypeError, KeyError):
        raise ValueError(f"{str(folder.path / CONFIG)!r} is not the config of a run: mend or move it.") from None


def _progress(folder: RunFolder) -> float:
    """Which part of a run is done."""
    if folder.summary is not None:
        return 1.0
    found = checkpoint.last_good(folder.checkpoints)
    return 0.0 if found is None else found.facts["done"] / found.facts["total"]


def _entries(folder: RunFolder) -> list[dict[str, Any]]:
    """One entry for each scheme of a run: the mean over seeds of its last records."""
    config, records, is_finished = _config_of(folder), folder.rows(), folder.summary is not None
    results = {one["scheme"]: one for one in scheme_results(records, config["schemes"])}
    common = {
        "folder": str(folder.path),
        "experiment": config["name"],
        "is_finished": is_finished,
        "progress": _progress(folder),
        "seconds": max((record["seconds"] for record in records), default=None),
    }
    return [
        common
        | results.get(name, {"scheme": name} | _NOTHING_YET)
        | {
            "seeds": len(config["seeds"]),
            # The last records of a run under way may be of a warm-up, whose reference is another.
            "samples_to_reference": samples_to_reach(records, name, ARRIVED) if is_finished else None,
        }
        for name in config["schemes"]
    ]
