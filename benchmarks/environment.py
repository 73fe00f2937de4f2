"""What a results file says about the machine, the software and the code it was measured with."""

from __future__ import annotations

import os
import platform
import re
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

import spmvgpu as sg
from spmvgpu.reproduce.environment import commit, driver_version

CODE = ("cpp", "python", "CMakeLists.txt", "pyproject.toml", "benchmarks/*.py")


def describe(device: str, peers: list[Any]) -> dict[str, Any]:
    """The environment of a run on "cpu" or "cuda:N"; bandwidth is measured by the caller."""
    versions = {"python": platform.python_version(), "numpy": np.__version__}
    for peer in peers:
        versions.update(peer.versions())
    build = sg.build_info()
    cpu = sg.devices()[0].model
    common = {
        "commit": commit(Path(__file__).parents[1], CODE),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": versions,
        "build": {key: build.get(key) for key in ("compiler", "cuda_version", "cuda_architectures")},
        "cpu": cpu,
        "cores": os.cpu_count(),
    }
    if device == "cpu":
        return {
            "device": cpu,
            "driver": None,
            "cuda": None,
            "cache_bytes": last_level_cache(),
            **common,
        }
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.Device().id)
    return {
        "device": properties["name"].decode(),
        "driver": driver_version(),
        "cuda": dotted(cupy.cuda.runtime.runtimeGetVersion()),
        "multiprocessors": int(properties["multiProcessorCount"]),
        "cache_bytes": int(cupy.cuda.Device().attributes["L2CacheSize"]),
        **common,
    }


def slug(environment: dict[str, Any]) -> str:
    """Folder name of the device: letters, digits and dashes."""
    name = environment["device"]
    if environment["cuda"] is None:
        name = f"{name} {environment['cores']} cores"
    return re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)", "", name.lower())).strip("-")


def last_level_cache() -> int:
    """Bytes of the largest CPU cache, 0 if the system does not say."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = [0]
    for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = file.read_text().strip()
        sizes.append(int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text))
    return max(sizes)


def dotted(version: int) -> str:
    """CUDA's 13000 as "13.0"."""
    return f"{version // 1000}.{version % 1000 // 10}"


def cpu_copy_bandwidth(threads: int, megabytes: int = 512) -> float:
    """Bytes read plus written per second by a large copy in memory, cut among threads."""
    source = np.ones(megabytes << 17)
    target = np.empty_like(source)
    pieces = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
    with ThreadPoolExecutor(threads) as pool:
        best = float("inf")
        for _ in range(5):
            start = time.perf_counter()
            list(pool.map(lambda pair: np.copyto(*pair), pieces))  # NumPy releases the lock while it copies
            best = min(best, time.perf_counter() - start)
    return 2 * source.nbytes / best
