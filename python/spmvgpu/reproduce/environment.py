"""What a results file says about the machine, the software and the code it was measured with."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import spmvgpu as sg

COMMIT_VARIABLE = "SPMVGPU_COMMIT"
CODE = ("cpp", "python", "CMakeLists.txt")


def describe(device: str) -> dict[str, Any]:
    """The environment of a run on "cpu" or "cuda:N"."""
    info = next(info for info in sg.devices() if info.name == device)
    build = sg.build_info()
    on_gpu = device != "cpu"
    capability = info.compute_capability
    return {
        "device": info.model,
        "backend": device,
        "driver": driver_version() if on_gpu else None,
        "cuda": build["cuda_version"] if on_gpu else None,
        "compute_capability": ".".join(map(str, capability)) if capability else None,
        "multiprocessors": info.multiprocessors if on_gpu else None,
        "threads": None if on_gpu else info.multiprocessors,
        "commit": commit(Path(__file__).parents[3], CODE),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": {
            "spmvgpu": sg.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        "build": build,
    }


def commit(root: Path, code: tuple[str, ...]) -> str:
    """The commit that the variable names, else the one checked out, marked if the code differs from it.

    Parameters
    ----------
    root : Path
        Where the checkout would be.
    code : tuple of str
        What is code in it: paths, as git takes them.

    Returns
    -------
    str
        "unknown" if `root` is no checkout.
    """
    given = os.environ.get(COMMIT_VARIABLE)
    if given:
        return given
    if not (root / ".git").exists():  # installed, not a checkout
        return "unknown"
    head = _output("git", "-C", str(root), "rev-parse", "HEAD")
    changes = _output("git", "-C", str(root), "status", "--porcelain", "--", *code)
    return (head or "unknown") + ("+changes" if changes else "")


def driver_version() -> str:
    """Version of the NVIDIA driver, or "unknown"."""
    lines = _output("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split()
    return lines[0] if lines else "unknown"


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
