"""Facts in a results file about the machine, the software and the code it was measured with."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import spmvgpu as sg
from spmvgpu._core import device_properties
from spmvgpu.devices import nvidia_driver, resolve_device

COMMIT_VARIABLE = "SPMVGPU_COMMIT"
CODE = ("cpp", "python", "CMakeLists.txt", "pyproject.toml", "experiments", "generators")
ROOT = Path(__file__).parents[1]


def describe(device: str, peers: Iterable[Any] = ()) -> dict[str, Any]:
    """The environment of a run on "cpu" or "cuda:N" beside peers."""
    known = {info.name: info for info in sg.devices()}
    info, cpu, build = known[device], known["cpu"], sg.build_info()
    on_gpu = device != "cpu"
    versions = {"python": platform.python_version(), "numpy": np.__version__, "scipy": scipy.__version__}
    versions["spmvgpu"] = sg.__version__
    for peer in peers:
        versions.update(peer.versions())
    return {
        "device": info.model,
        "backend": device,
        "driver": nvidia_driver() or "unknown" if on_gpu else None,
        "cuda": build["cuda_version"] if on_gpu else None,
        "compute_capability": ".".join(map(str, info.compute_capability or ())) or None,
        "multiprocessors": info.multiprocessors if on_gpu else None,
        "threads": None if on_gpu else info.multiprocessors,
        "cache_bytes": device_properties(resolve_device(device))["l2_bytes"] if on_gpu else None,
        "cpu": cpu.model,
        "cores": usable_cores(),
        "commit": commit(ROOT),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": versions,
        "build": build,
    }


def usable_cores() -> int:
    """Number of cores this process may use; ``taskset`` can limit them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def commit(root: Path) -> str:
    """The commit that the variable names, else the one checked out, marked if the code differs from it.

    Parameters
    ----------
    root : Path
        Where the checkout would be; "unknown" if it is none.
    """
    given = os.environ.get(COMMIT_VARIABLE)
    if given:
        return given
    if not (root / ".git").exists():  # a copy without history
        return "unknown"
    head = _output("git", "-C", str(root), "rev-parse", "HEAD")
    changes = _output("git", "-C", str(root), "status", "--porcelain", "--", *CODE)
    return (head or "unknown") + ("+changes" if changes else "")


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def slug(environment: dict[str, Any]) -> str:
    """Folder name of the device: letters, digits and dashes."""
    name = environment["device"]
    if environment["cuda"] is None:
        name = f"{name} {environment['cores']} cores"
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", name.lower())).strip("-")
