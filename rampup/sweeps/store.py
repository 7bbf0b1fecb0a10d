"""A sweep on disk: its plan, a folder for each of its runs, and the table of what came of them."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rampup import conductor, config
from rampup.recipes import with_auto
from rampup.runs.files import make_folder, write_whole
from rampup.runs.folder import RunFolder
from rampup.runs.parquet import write_table
from rampup.runs.schemes import samples_to_reach
from rampup.sweeps import plan
from rampup.sweeps.plan import Sweep, Task, flat, tasks_of

SWEEP, TABLE, REPORT = "sweep.yaml", "results.parquet", "report.html"


class Store:
    """The folder of a sweep; nothing outside it is written."""

    def __init__(self, path: Path, sweep: Sweep):
        self.path, self.sweep = path, sweep
        self.tasks = tasks_of(sweep, str(path / SWEEP))

    @classmethod
    def begin(cls, path: str | Path, sweep: Sweep, source: str) -> "Store":
        """Make the folder of a new sweep, once every run of it is known to be possible."""
        place = Path(path)
        made: dict[str, Any] = {}
        for task in tasks_of(sweep, source):
            conductor.plan(task.experiment, made)
        if place.exists() and any(place.iterdir()):
            has_sweep = (place / SWEEP).is_file()
            advice = "go on with `--resume`, or give another `--out`" if has_sweep else "give another `--out`"
            raise ValueError(
                f"the folder {str(path)!r} {'holds a sweep already' if has_sweep else 'is not empty'}: {advice}."
            )
        make_folder(place / "runs")
        write_whole(place / SWEEP, plan.as_yaml(sweep).encode())
        return cls(place, sweep)

    @classmethod
    def open(cls, path: str | Path, sweep: Sweep) -> "Store":
        """Open the folder of a sweep that was begun; it must be this one."""
        place = Path(path)
        if not (place / SWEEP).is_file():
            raise ValueError(f"there is no sweep in {str(path)!r} to go on with: leave out `--resume`.")
        kept = plan.read(str(place / SWEEP))
        if kept != sweep:
            raise ValueError(f"the sweep in {str(path)!r} is another one than the file says: give another `--out`.")
        return cls(place, kept)

    def folder(self, task: Task) -> RunFolder:
        """The folder of a run, which is made when it is first asked for."""
        path = self.path / "runs" / f"{task.number:05d}"
        if not (path / "config.yaml").is_file():
            return RunFolder.create(path, config.as_yaml(with_auto(task.experiment)))
        return RunFolder(path)

    def is_finished(self, task: Task) -> bool:
        return (self.path / "runs" / f"{task.number:05d}" / "summary.json").is_file()

    def rows(self, failures: Mapping[int, str]) -> list[dict[str, Any]]:
        """A row for each run: its settings, and what came of it, or why nothing did."""
        axes = dict.fromkeys(key for task in self.tasks for key in task.point)
        return [self._row(task, axes, failures.get(task.number)) for task in self.tasks]

    def _row(self, task: Task, axes: Mapping[str, None], failure: str | None) -> dict[str, Any]:
        own = {"run": task.number} | {key: flat(task.point.get(key)) for key in axes}
        own |= {"scheme": task.scheme, "seed": task.seed, "state": "finished", "error": None}
        blank = dict.fromkeys(("value", "value_low", "value_high", "reference_value", "optimal_value", "ln_kappa"))
        blank |= dict.fromkeys(("avg_err", "samples", "samples_to_90_percent", "seconds"))
        if not self.is_finished(task):
            return own | {"state": "open" if failure is None else "failed", "error": failure} | blank
        folder = self.folder(task)
        records, summary = folder.rows(), folder.summary
        assert summary is not None
        last = records[-1]
        found = {name: last[name] for name in blank if name in last}
        reached = samples_to_reach(records, task.scheme, 0.9)
        return own | blank | found | {"optimal_value": summary["optimal_value"], "samples_to_90_percent": reached}

    def write_table(self, rows: Sequence[Mapping[str, Any]]) -> Path:
        """All rows as one Parquet file."""
        write_table([{name: _plain(value) for name, value in row.items()} for row in rows], self.path / TABLE)
        return self.path / TABLE


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
