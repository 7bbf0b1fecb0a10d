"""One run by several processes: each of them works in a child, so that its end, whatever it is, is one sentence."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from rampup.cli.app import fail_with

# The end of the pipe by which a child notices that its parent is gone.
_PIPE = "RAMPUP_PARENT_PIPE"
# What a child ends with when another process is gone; others end by themselves, in the midst of the runtime.
_LOST = 75


@contextmanager
def member(coordinator: str | None, process_id: int | None, num_processes: int | None) -> Iterator[None]:
    """Be one of the processes of a run, if there are several; the options are those of the command."""
    given = coordinator, process_id, num_processes
    if all(one is None for one in given):
        yield
        return
    if coordinator is None or process_id is None or num_processes is None:
        raise ValueError("`--coordinator`, `--process-id` and `--num-processes` go together: give all three.")
    _check(coordinator, process_id, num_processes)
    if _PIPE not in os.environ:
        raise typer.Exit(_supervised())
    from rampup import processes

    _end_with_parent(int(os.environ[_PIPE]))
    _keep_the_runtime_quiet()
    try:
        processes.join(coordinator, process_id, num_processes)
        yield
    except processes.LostError as error:
        print(f"rampup: {error}: {_ADVICE}", file=sys.stderr)
        _leave(_LOST)
    except Exception as error:
        try:
            fail_with(error)
        except SystemExit as left:
            _leave(int(left.code or 0))


_ADVICE = (
    "nothing recorded is lost; start all processes again, with `rampup resume FOLDER` and the same three options, or "
    "with the command as it was if there is no folder yet."
)


def _leave(code: int) -> None:
    """End at once: the runtime would wait for the other processes, who do not come."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _check(coordinator: str, process_id: int, num_processes: int) -> None:
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"`--coordinator` is the first process's address as host:port, got {coordinator!r}.")
    if num_processes < 1 or not 0 <= process_id < num_processes:
        raise ValueError(f"`--process-id` must be 0 to {max(num_processes, 1) - 1}, one for each process.")


def _supervised() -> int:
    """Run the same command in a child and return how it ended; the runtime may end it at any moment."""
    reading, writing = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-m", "rampup", *sys.argv[1:]],
        env=os.environ | {_PIPE: str(reading)},
        pass_fds=[reading],
        process_group=0,
    )
    os.close(reading)

    def hand_on(number: int, frame: Any) -> None:
        child.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, hand_on)
    code = child.wait()
    os.close(writing)
    if code == -signal.SIGTERM:
        return 143
    if code < 0:
        print(f"rampup: another process of this run is gone, or never came: {_ADVICE}", file=sys.stderr)
    return 1 if code < 0 or code == _LOST else code


def _end_with_parent(pipe: int) -> None:
    def wait() -> None:
        os.read(pipe, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _keep_the_runtime_quiet() -> None:
    """Let only Python write to the terminal: what the runtime has to say would stand between our lines."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        stream.flush()
        own = os.dup(number)
        os.dup2(nowhere, number)
        setattr(sys, name, os.fdopen(own, "w", encoding=stream.encoding, errors=stream.errors, buffering=1))
