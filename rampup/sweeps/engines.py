"""Who does the work of a sweep: this process, batch after batch, or the workers of a Ray cluster."""

import os
import re
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import jax

from rampup import conductor
from rampup.runtime import set_up
from rampup.sweeps.plan import Task
from rampup.sweeps.store import Store
from rampup.sweeps.work import ShouldStop, Tell, work

Batch = list[Task]
Done = Callable[[Sequence[Task], dict[str, str]], None]
"""Told of some runs that came to an end, and what went wrong with which folder."""

RUNS_ON_A_GPU = 32
"""So many runs fill a GPU; a CPU is filled by one."""


def batches(tasks: Sequence[Task], most: int) -> list[Batch]:
    """Runs that can be one program, at most so many at a time."""
    alike: dict[str, list[Task]] = {}
    for task in tasks:
        alike.setdefault(conductor.go_together(task.experiment), []).append(task)
    return [own[first : first + most] for own in alike.values() for first in range(0, len(own), most)]


def run_here(
    store: Store, tasks: Sequence[Task], done: Done, should_stop: ShouldStop, most: int | None, tell: Tell
) -> None:
    """One batch after another, in this process."""
    for batch in batches(tasks, most or (1 if jax.default_backend() == "cpu" else RUNS_ON_A_GPU)):
        if should_stop():
            return
        paths = [str(store.folder(task).path) for task in batch]
        failures = work(paths, should_stop, tell)
        if should_stop():
            return
        done(batch, failures)


@contextmanager
def ray_cluster(address: str | None) -> Iterator[Any]:
    """A cluster that is running, or one of this machine's cores for as long as it is needed."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None and "RAY_AUTH_MODE" not in os.environ:
        # A cluster runs what it is given: ours takes it from us alone. Ray would keep a token of its own in the home.
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ValueError("`--engine ray` needs Ray: install it with `pip install 'rampup[ray]'`.") from None
    quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": True}
    if address is None:
        ray.init(include_dashboard=False, **quiet)
    else:
        _knock(address)
        try:
            ray.init(address=address, **quiet)
        except Exception as error:
            raise _no_welcome(address, error) from None
    # What Ray prints of workers that died would stand in the midst of our own output.
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        try:
            yield ray
        finally:
            ray.shutdown()


def _knock(address: str) -> None:
    """See whether anybody is there: Ray itself would try for minutes."""
    found = re.fullmatch(r"(?:ray://)?([^\s:/]+):(\d{1,5})", address)
    if address == "auto":
        return
    if found is None:
        raise ValueError(
            f"`--address` is host:port of the head of a Ray cluster, ray://host:port, or auto, got {address!r}."
        )
    try:
        socket.create_connection((found[1], int(found[2])), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise _no_answer(address, error) from None


def _no_answer(address: str, error: Exception) -> ValueError:
    reason = getattr(error, "strerror", None) or type(error).__name__
    return ValueError(
        f"no Ray cluster answers at {address!r} ({reason}): start one with `ray start --head`, or leave out "
        "`--address` for one on this machine."
    )


def _no_welcome(address: str, error: Exception) -> ValueError:
    """Somebody answers there, but does not let us in."""
    return ValueError(
        f"the Ray cluster at {address!r} does not let us in ({type(error).__name__}): if it was started with a token, "
        "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN to it; else see that this is the port of its head."
    )


def run_on_ray(
    ray: Any, store: Store, tasks: Sequence[Task], done: Done, should_stop: ShouldStop, most: int | None
) -> None:
    """As many batches at a time as the cluster has room for; one whose worker dies is given to another."""
    has_gpu = ray.cluster_resources().get("GPU", 0) >= 1
    wanted = {"num_gpus": 1} if has_gpu else {"num_cpus": 1}
    # A worker has one core, and JAX must not take more of them: others have theirs.
    alone = {"NPROC": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
    # What one worker has compiled, the next one that is started need not.
    programs = {
        "JAX_COMPILATION_CACHE_DIR": str((store.path / ".programs").resolve()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    }
    environment = {"env_vars": programs | ({} if has_gpu else alone)}
    remote = ray.remote(max_retries=1000, runtime_env=environment, **wanted)(_work_there)
    waiting = {}
    for batch in batches(tasks, most or (RUNS_ON_A_GPU if has_gpu else 1)):
        paths = [str(store.folder(task).path.resolve()) for task in batch]
        waiting[remote.remote(paths, str(Path.cwd()))] = batch
    while waiting:
        ready, _ = ray.wait(list(waiting), timeout=0.5)
        for one in ready:
            batch = waiting.pop(one)
            done(batch, _got(ray, one, [str(store.folder(task).path) for task in batch]))
        if should_stop():
            for one in waiting:
                ray.cancel(one, force=True)
            return


def _got(ray: Any, reference: Any, paths: Sequence[str]) -> dict[str, str]:
    """What a worker returned; or that it was lost more often than Ray tries."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayError as error:
        return dict.fromkeys(paths, f"its worker was lost: {type(error).__name__}")


def _work_there(paths: Sequence[str], place: str) -> dict[str, str]:
    """The work of a batch in a worker's process."""
    set_up()
    os.chdir(place)
    return work(paths)
