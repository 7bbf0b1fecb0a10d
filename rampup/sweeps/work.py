"""What an engine does with some runs of a sweep, wherever that is: go on with each to its end."""

import time
from collections.abc import Callable, Sequence

from rampup import conductor
from rampup.runs.folder import RunFolder, TakenError

ShouldStop = Callable[[], bool]
Tell = Callable[[conductor.Standing], None]

# A worker that was given up may take so long to end, and holds its folder until then.
_PATIENCE = 60.0


def work(paths: Sequence[str], should_stop: ShouldStop = lambda: False, tell: Tell | None = None) -> dict[str, str]:
    """Bring runs that go together to their ends; return what went wrong, by folder."""
    folders = [RunFolder.open(path) for path in paths]
    try:
        _conducted(folders, should_stop, tell)
    except Exception as error:
        # Whatever it is, it is the end of this run and of no other.
        if len(folders) == 1:
            return {paths[0]: " ".join(str(error).split()) or type(error).__name__}
        return {path: problem for one in paths for path, problem in work([one], should_stop, tell).items()}
    return {}


def _conducted(folders: Sequence[RunFolder], should_stop: ShouldStop, tell: Tell | None) -> None:
    given_up = time.monotonic() + _PATIENCE
    while True:
        try:
            return conductor.conduct_all(folders, should_stop=should_stop, on_standing=tell)
        except TakenError:
            if time.monotonic() > given_up:
                raise
            time.sleep(1.0)
