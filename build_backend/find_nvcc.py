"""Whether CUDA is built, with which nvcc, and why."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

Version = tuple[int, int]
OLDEST_NVCC: Version = (12, 0)
PIP_MAJOR = 13  # the first CUDA whose compiler is complete in pip's packages


class Nvcc(NamedTuple):
    path: str
    version: Version


class Decision(NamedTuple):
    """Whether CUDA is built, and why; `requires` names what must be installed first."""

    cuda: bool
    reason: str
    nvcc: str | None = None
    requires: tuple[str, ...] = ()


def decide(
    requested: str, system: Nvcc | None, from_pip: Nvcc | None, driver: Version | None, on_pip: bool
) -> Decision:
    """What to build.

    Parameters
    ----------
    requested : {"AUTO", "ON", "OFF"}
    system, from_pip : Nvcc or None
        Usable compilers that are there: the machine's own, and the one of pip's packages.
    driver : tuple of int or None
        The newest CUDA that the NVIDIA driver knows.
    on_pip : bool
        Whether pip has a compiler for this platform.
    """
    if requested == "OFF":
        return Decision(False, "SPMVGPU_CUDA is OFF")
    if system is not None:
        return Decision(True, f"nvcc {dotted(system.version)} is installed: {system.path}", system.path)
    if requested == "AUTO":
        if driver is None:
            return Decision(False, "neither nvcc nor an NVIDIA driver was found")
        why = f"an NVIDIA driver of CUDA {dotted(driver)} was found"
        if not on_pip:
            return Decision(False, f"{why}, but no nvcc, which pip does not have for this platform")
        if driver[0] < PIP_MAJOR:
            return Decision(
                False,
                f"{why}, but no nvcc, and that of pip needs a driver of CUDA {PIP_MAJOR}.0 or later: install "
                f"the CUDA Toolkit {dotted(driver)}, or a newer driver",
            )
    else:
        why = "SPMVGPU_CUDA is ON"
        if from_pip is None and not on_pip:
            raise RuntimeError(
                "SPMVGPU_CUDA=ON, but no nvcc was found, and pip has none for this platform; install the "
                "CUDA Toolkit"
            )
    if from_pip is not None:
        return Decision(True, f"{why}; nvcc {dotted(from_pip.version)} is the one of pip", from_pip.path)
    return Decision(True, why, requires=(requirement(driver),))


def requirement(driver: Version | None) -> str:
    """The compiler in pip's terms: not newer than the driver, which must compile its PTX."""
    versions = f"=={PIP_MAJOR}.*"
    if driver is not None and driver[0] == PIP_MAJOR:
        versions += f",<{PIP_MAJOR}.{driver[1] + 1}"
    return f"cuda-toolkit[nvcc,cudart,cccl]{versions}"


def dotted(version: Version) -> str:
    return ".".join(map(str, version))


# What is there


def requested_cuda(settings: Mapping[str, Any] | None, environment: Mapping[str, str]) -> str:
    """AUTO, ON or OFF: of ``-C cmake.define.SPMVGPU_CUDA``, or CMAKE_ARGS, or the environment."""
    settings = settings or {}
    defined = [
        str(settings[key])
        for key in ("cmake.define.SPMVGPU_CUDA", "skbuild.cmake.define.SPMVGPU_CUDA")
        if key in settings
    ]
    defined += re.findall(r"-D\s*SPMVGPU_CUDA(?::\w+)?=(\w+)", environment.get("CMAKE_ARGS", ""))[-1:]
    value = (defined or [environment.get("SPMVGPU_CUDA", "AUTO")])[0].upper()
    if value not in ("AUTO", "ON", "OFF"):
        raise ValueError(f"SPMVGPU_CUDA={value} is not allowed; give AUTO, ON or OFF")
    return value


def system_nvcc(environment: Mapping[str, str]) -> Nvcc | None:
    """The first nvcc of CUDA 12.0 or later: of CUDACXX, on PATH, or where toolkits are usually installed."""
    folders = [environment[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in environment]
    candidates = [
        environment.get("CUDACXX"),
        shutil.which("nvcc", path=environment.get("PATH")),
        *(os.path.join(folder, "bin", "nvcc") for folder in (*folders, "/usr/local/cuda")),
    ]
    return next((nvcc for path in candidates if path and (nvcc := usable(path))), None)


def pip_nvcc() -> Nvcc | None:
    """The nvcc of NVIDIA's pip packages, where they are installed beside this backend."""
    try:
        files = metadata.files("nvidia-cuda-nvcc") or []
    except metadata.PackageNotFoundError:
        return None
    paths = [Path(str(file.locate())) for file in files if file.name == "nvcc"]
    return next((nvcc for path in paths if (nvcc := usable(str(path)))), None)


def usable(path: str) -> Nvcc | None:
    """The compiler at a path, if it runs and is new enough."""
    try:
        says = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.search(r"release (\d+)\.(\d+)", says)
    if match is None:
        return None
    version = (int(match[1]), int(match[2]))
    return Nvcc(path, version) if version >= OLDEST_NVCC else None


def driver_version() -> Version | None:
    """The newest CUDA that the driver knows; asking starts no GPU."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(version)) != 0:
        return None
    return version.value // 1000, version.value % 1000 // 10


def has_pip_toolkit() -> bool:
    return platform.libc_ver()[0] == "glibc" and platform.machine() in ("x86_64", "aarch64")


def look(settings: Mapping[str, Any] | None, environment: Mapping[str, str]) -> Decision:
    """`decide` for this machine."""
    requested = requested_cuda(settings, environment)
    return decide(requested, system_nvcc(environment), pip_nvcc(), driver_version(), has_pip_toolkit())
