"""Devices: which ones there are, and which one a name stands for."""

from __future__ import annotations

import os
import platform
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from . import _core
from ._util.arguments import whole_number
from ._util.show import Brief

if TYPE_CHECKING:
    from ._core import ThreadBound

CPU = -1  # what the core calls the CPU where it asks for a device number


@dataclass(frozen=True, repr=False)
class DeviceInfo(Brief):
    """A device that can hold operators.

    Attributes
    ----------
    name : str
        Value of the argument `device` of `aslinearoperator`: "cpu", "cuda:0", ...
    model : str
        Product name.
    memory_total : int
        Bytes of memory.
    memory_free : int
        Bytes of memory that operators can use. This includes memory kept for reuse, see `release_memory`.
    multiprocessors : int
        Number of streaming multiprocessors of a GPU, or of threads of the CPU.
    compute_capability : tuple of int or None
        ``(major, minor)`` of a GPU.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> cpu = sg.devices()[0]
    >>> cpu.name, 0 < cpu.memory_free <= cpu.memory_total
    ('cpu', True)
    """

    name: str
    model: str
    memory_total: int
    memory_free: int
    multiprocessors: int
    compute_capability: tuple[int, int] | None = None


def devices() -> tuple[DeviceInfo, ...]:
    """Return the devices of this machine, the CPU first.

    Returns
    -------
    tuple of DeviceInfo

    Examples
    --------
    >>> import spmvgpu as sg
    >>> [device.name for device in sg.devices() if device.compute_capability is None]
    ['cpu']
    """
    cpu = _core.device_properties(CPU)
    found = [DeviceInfo("cpu", _cpu_model(), cpu["memory_total"], cpu["memory_free"], cpu["multiprocessors"])]
    for ordinal in range(_core.device_count()):
        gpu = _core.device_properties(ordinal)
        found.append(
            DeviceInfo(
                device_name(ordinal),
                gpu["model"],
                gpu["memory_total"],
                gpu["memory_free"] + gpu["memory_idle"],
                gpu["multiprocessors"],
                gpu["compute_capability"],
            )
        )
    return tuple(found)


def release_memory() -> None:
    """Return unused GPU memory to the driver, for other libraries.

    Memory of a deleted operator is kept for the next one, up to 1/8 of the memory of a GPU, and up to 1/4
    on GPUs that work together. An allocation by the driver takes longer than a product with a small matrix.
    Memory is also released when an operator does not fit otherwise.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> sg.release_memory()
    """
    for ordinal in range(_core.device_count()):
        _core.release_idle_memory(ordinal)


def limit_threads(threads: int) -> ThreadBound:
    """Limit the number of CPU threads of the calling thread's products and solves.

    The limit acts at once. In a ``with`` statement, it ends with the block. Otherwise it lasts until the next
    call, or until `restore` of the returned object. Other Python threads are not affected. Results have the
    same bits for any number of threads.

    Parameters
    ----------
    threads : int
        At least 1.

    Returns
    -------
    ThreadBound
        A context manager. Its method `restore` restores the previous limit.

    Raises
    ------
    TypeError, ValueError
        If `threads` is not an integer, or less than 1.

    Notes
    -----
    The default is the value of the environment variable ``SPMVGPU_NUM_THREADS``, or else of
    ``OMP_NUM_THREADS``, at the first product. Without both, it is the number of cores of the process.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.eye(3), device="cpu")
    >>> with sg.limit_threads(1):
    ...     y = op @ np.ones(3)
    >>> limit = sg.limit_threads(1)
    >>> y = op @ np.ones(3)
    >>> limit.restore()
    """
    return _core.limit_threads(thread_count("threads", threads))


def at_most(threads: int | None) -> AbstractContextManager[None]:
    """As `limit_threads`, for a block; None is no limit, and one that is lower already stays."""
    return nullcontext() if threads is None else _core.at_most(threads)


def thread_count(name: str, threads: Any) -> int:
    """Check a number of threads."""
    return min(whole_number(name, threads, 1), 2**31 - 1)


def build_info() -> dict[str, Any]:
    """Return how the compiled core was built.

    Returns
    -------
    dict
        The version, the CUDA version and architectures, and the compiler.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> sg.build_info()["version"] == sg.__version__
    True
    """
    return _core.build_info()


def device_name(ordinal: int) -> str:
    """``"cpu"`` or ``"cuda:N"``."""
    return "cpu" if ordinal == CPU else f"cuda:{ordinal}"


def resolve_device(device: object) -> int:
    """The number of the device that a caller named.

    Only ``"auto"`` falls back to the CPU, with a warning if that is for an error of CUDA. The environment
    variable ``SPMVGPU_DEVICE`` says what ``"auto"`` means; an empty one says nothing.

    Raises
    ------
    TypeError, ValueError
        If `device` is not a device's name.
    CudaError
        If a CUDA device is asked for that is not there.
    """
    if not isinstance(device, str):
        raise TypeError(
            f"device must be a string, not {type(device).__name__}; {_ALLOWED}, or a list of them"
        )
    name = automatic_device() if device == "auto" else device
    if name == "auto":
        if _core.device_count() > 0:
            return 0
        if error := cuda_error():
            _warn_once(f"operators are on the CPU: {error}; device='cpu' does without this warning")
        return CPU
    if name == "cpu":
        return CPU
    kind, _, number = name.partition(":")
    if kind != "cuda" or (":" in name and not (number.isascii() and number.isdigit())):
        source = "" if name == device else " in the environment variable SPMVGPU_DEVICE"
        raise ValueError(f"unknown device {name!r}{source}; {_ALLOWED}")
    # A number with more digits than any device has may be too long for the core, or for Python, to read.
    ordinal = int(number or 0) if len(number) < 10 else 10**9
    if ordinal >= _core.device_count():
        if why := cuda_error():
            raise _core.CudaError(f"device={name!r}: {why}; or give device='cpu'")
        try:
            _core.device_properties(ordinal)  # raises CudaError that says what is missing
        except _core.CudaError as error:
            raise _core.CudaError(f"device={name!r}: {error}") from None
    return ordinal


def cuda_error() -> str | None:
    """CUDA's error of listing the GPUs, with the driver here and the one needed.

    None without an error: there are GPUs, or no GPU, or no driver.
    """
    driver = _core.driver()
    return _with_drivers(driver["error"], driver["version"], driver["needed"]) if driver["error"] else None


_OLDEST_DRIVERS = {12: "525", 13: "580"}  # for a major version of CUDA


@lru_cache
def _with_drivers(error: str, version: int, needed: int) -> str:
    here, major = nvidia_driver(), needed // 1000
    text = f"{error}; the NVIDIA driver is of CUDA {version // 1000}.{version % 1000 // 10}"
    text += f" (driver {here})" if here else ""
    text += f", and this build needs one of CUDA {major}"
    text += f" (driver {_OLDEST_DRIVERS[major]} or later)" if major in _OLDEST_DRIVERS else ""
    if version // 1000 >= major:
        return text
    builds = min(_OLDEST_DRIVERS) <= version // 1000
    own = f", or build spmvgpu with the CUDA Toolkit {version // 1000}" if builds else ""
    return f"{text}: install a newer driver{own}"


@lru_cache
def _warn_once(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=4)


def nvidia_driver() -> str | None:
    """Version of the NVIDIA driver, as ``nvidia-smi`` says it; None without it."""
    import subprocess  # takes longer than a first product needs of the rest

    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return None
    return lines[0] if lines else None


def automatic_device() -> str:
    """What "auto" means by the environment: "auto" where that says nothing."""
    return os.environ.get("SPMVGPU_DEVICE", "").strip() or "auto"


_ALLOWED = "allowed are 'auto', 'cpu', 'cuda' and 'cuda:N'"


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
