"""What a report of a bug should say about the machine and the software on it."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version

from . import _core, cache
from ._util.show import in_bytes
from .devices import build_info, cuda_error, devices, nvidia_driver

_LIBRARIES = {
    "NumPy": "numpy",
    "SciPy": "scipy",
    "CuPy": "cupy",
    "PyTorch": "torch",
    "JAX": "jax",
    "PyAMG": "pyamg",
    "mpi4py": "mpi4py",
}
_VARIABLES = (
    "SPMVGPU_DEVICE",
    "SPMVGPU_NUM_THREADS",
    "SPMVGPU_CACHE_DIR",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
)


def show_versions() -> None:
    """Print the versions, devices and settings that a report of a bug should contain.

    Libraries are found by their metadata and not imported.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> sg.show_versions()  # doctest: +ELLIPSIS
    spmvgpu      ...
    Python       ...
    """
    for name, value in _facts():
        print(f"{name:<12} {value}")


def _facts() -> Iterator[tuple[str, str]]:
    build = build_info()
    yield "spmvgpu", build["version"]
    yield "Python", f"{platform.python_version()} on {platform.platform()}"
    installed = packages_distributions()
    for name, module in _LIBRARIES.items():
        found = installed.get(module)
        yield name, version(found[0]) if found else "not installed"
    yield "compiler", build["compiler"]
    if build["cuda"]:
        yield "CUDA", f"{build['cuda_version']} for {build['cuda_architectures']}"
    else:
        yield "CUDA", f"not built: {build['cuda_reason']}"
    yield "driver", nvidia_driver() or "none"
    found_devices = devices()
    for device in found_devices:
        memory = f"{in_bytes(device.memory_free)} of {in_bytes(device.memory_total)} free"
        if device.compute_capability is not None:
            memory = "compute capability {}.{}, {}".format(*device.compute_capability, memory)
        yield device.name, f"{device.model}, {memory}"
    if len(found_devices) == 1:
        yield "cuda:0", _why_no_gpu()
    yield "threads", f"at most {_core.max_threads()}"
    kept = cache.info()
    yield "cache", f"{kept.directory}, {in_bytes(kept.bytes)}" if kept.directory else "none"
    for variable in _VARIABLES:
        if variable in os.environ:
            yield "variable", f"{variable}={os.environ[variable]}"


def _why_no_gpu() -> str:
    if why := cuda_error():
        return f"not usable: {why}"
    try:
        _core.device_properties(0)
    except _core.CudaError as error:
        return f"not usable: {error}"
    return "not usable"
