"""Where and with what a run is made."""

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import jax


def provenance(files: Iterable[str] = ()) -> dict[str, Any]:
    """Where and with what a run is made: whatever the bits of its result depend on.

    Args:
        files: what the user's problem is made of.
    """
    packages = "rampup", "jax", "jaxlib", "numpy", "scipy", "equinox"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    threads = "PJRT_NPROC", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "XLA_FLAGS"
    device = jax.devices()[0]
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in packages},
        "platform": platform.platform(),
        "device": {
            "kind": device.device_kind,
            "platform": device.platform,
            "count": jax.device_count(),
            "visible": visible,
        },
        "threads": {"cpu_count": os.cpu_count()} | {name: os.environ[name] for name in threads if name in os.environ},
        "inputs": {path: digest(path) for path in files},
        "git_commit": _git_commit(),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
    }


def digest(path: str) -> str | None:
    """SHA-256 of a file; nothing if it cannot be read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _git_commit() -> str | None:
    """The commit of the source the package runs from; nothing for an installed one."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
