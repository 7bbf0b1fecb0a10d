"""What an engine does with some runs of a sweep, wherever that is: go on with each to its end."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rampup import conductor
from rampup.runs.folder import RunFolder, TakenError

# A worker that was given up may take so long to end, and holds its folder until then.
_PATIENCE = 60.0


def work(paths: Sequence[str], should_stop: Callable[[], bool] = lambda: False) -> dict[str, str]:
    """Bring runs that go together to their ends; return what went wrong, by folder."""
    folders = [RunFolder.open(path) for path in paths]
    try:
        _conducted(folders, should_stop)
    except (ValueError, ArithmeticError) as error:
        if len(folders) == 1:
            return {paths[0]: " ".join(str(error).split())}
        # One of them; the others go on without it.
        return {path: problem for one in paths for path, problem in work([one], should_stop).items()}
    return {}


def _conducted(folders: Sequence[RunFolder], should_stop: Callable[[], bool]) -> None:
    given_up = time.monotonic() + _PATIENCE
    while True:
        try:
            return conductor.conduct_all(folders, should_stop=should_stop)
        except TakenError:
            if time.monotonic() > given_up:
                raise
            time.sleep(1.0)


def done_of(path: Path) -> float:
    """How much of a run is done, as its last checkpoint says."""
    found = RunFolder(path).last_checkpoint()
    return 0.0 if found is None else found.facts["done"] / found.facts["total"]
