"""SciPy sparse matrices as fast operators on GPUs and CPU cores.

>>> import numpy as np, scipy.sparse as sp, spmvgpu as sg
>>> A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(5, 5))
>>> op = sg.aslinearoperator(A, device="cpu")
>>> op @ np.ones(5)
array([1., 0., 0., 0., 1.])
"""

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ._core import CudaError, FormatError
from .devices import DeviceInfo, build_info, devices, limit_threads, release_memory
from .formats import format_options, formats

if TYPE_CHECKING:
    from . import cache, distributed, gallery, linalg, matrix_io, partition, planning, plot
    from . import jax as jax
    from . import torch as torch
    from ._util.progress import progress
    from .multi_device.operator import MultiDeviceOperator, MultiDeviceVector
    from .operator.batch import BatchedOperator
    from .operator.construct import aslinearoperator
    from .operator.operator import SparseOperator
    from .planning.predict import estimate, predict
    from .versions import show_versions

__version__ = build_info()["version"]

# What differentiates for a library. They are public names where it is installed.
_OF_LIBRARIES = ("jax", "torch")

# What is public, and all that `dir` shows.
__all__ = [
    "BatchedOperator",
    "CudaError",
    "DeviceInfo",
    "FormatError",
    "MultiDeviceOperator",
    "MultiDeviceVector",
    "SparseOperator",
    "aslinearoperator",
    "build_info",
    "cache",
    "devices",
    "distributed",
    "estimate",
    "format_options",
    "formats",
    "gallery",
    "limit_threads",
    "linalg",
    "matrix_io",
    "partition",
    "planning",
    "plot",
    "predict",
    "progress",
    "release_memory",
    "show_versions",
]

# Of these names, the modules that have them. They are imported at first use, so that a process starts sooner;
# every other name is that of a module, or was imported above.
_MODULE_OF = {
    "BatchedOperator": "operator.batch",
    "MultiDeviceVector": "multi_device.operator",
    "MultiDeviceOperator": "multi_device.operator",
    "SparseOperator": "operator.operator",
    "aslinearoperator": "operator.construct",
    "estimate": "planning.predict",
    "predict": "planning.predict",
    "progress": "_util.progress",
    "show_versions": "versions",
}


def _is_installed(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except (ImportError, ValueError):  # what finders raise who hide a library
        return False


__all__ += [library for library in _OF_LIBRARIES if _is_installed(library)]


def __getattr__(name: str) -> Any:
    if name == "DistributedVector":
        warnings.warn(
            "spmvgpu.DistributedVector is deprecated; use spmvgpu.MultiDeviceVector",
            DeprecationWarning,
            stacklevel=2,
        )
        name = "MultiDeviceVector"
    if name in _MODULE_OF:
        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        return value
    if name in _OF_LIBRARIES:
        try:
            return import_module(f"{__name__}.{name}")
        except ImportError as missing:
            raise AttributeError(str(missing), name=name) from missing  # which `hasattr` and `help` expect
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__all__", "__doc__", "__name__", "__version__"]
