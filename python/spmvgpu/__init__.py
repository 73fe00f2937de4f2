"""SciPy sparse matrices as fast operators on GPUs and CPU cores.

>>> import numpy as np, scipy.sparse as sp, spmvgpu as sg
>>> A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(5, 5))
>>> op = sg.aslinearoperator(A, device="cpu")
>>> op @ np.ones(5)
array([1., 0., 0., 0., 1.])
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ._core import CudaError, FormatError
from .devices import DeviceInfo, build_info, devices, limit_threads, release_memory
from .formats import estimate, format_options, formats

if TYPE_CHECKING:
    from . import (
        cache,
        distributed,
        gallery,
        linalg,
        matrix_io,
        partition,
        plot,
        plot_partition,
        plot_symmetric,
    )
    from . import torch as torch
    from .construct import aslinearoperator
    from .operator import SparseOperator
    from .planning.model.predict import Prediction, Predictions, predict, separator
    from .spread import DistributedVector, MultiDeviceOperator

__version__ = build_info()["version"]

__all__ = [
    "CudaError",
    "DeviceInfo",
    "DistributedVector",
    "FormatError",
    "MultiDeviceOperator",
    "Prediction",
    "Predictions",
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
    "plot",
    "plot_partition",
    "plot_symmetric",
    "predict",
    "release_memory",
    "separator",
]

# What is imported when it is used first, so that a process starts sooner: modules, and names of others.
_MODULES = (
    "cache",
    "distributed",
    "gallery",
    "linalg",
    "matrix_io",
    "partition",
    "plot",
    "plot_partition",
    "plot_symmetric",
    "torch",
)
_NEEDS = {"torch": "torch"}  # modules that are not there without a library that is optional
_MODULE_OF = {
    "DistributedVector": "spread",
    "MultiDeviceOperator": "spread",
    "Prediction": "planning.model.predict",
    "Predictions": "planning.model.predict",
    "SparseOperator": "operator",
    "aslinearoperator": "construct",
    "predict": "planning.model.predict",
    "separator": "planning.model.predict",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        try:
            return import_module(f"{__name__}.{name}")
        except ImportError as missing:
            if name not in _NEEDS:
                raise
            raise AttributeError(str(missing), name=name) from missing  # which `hasattr` and `help` expect
    if name in _MODULE_OF:
        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    left_out = {module for module, library in _NEEDS.items() if not _is_installed(library)}
    return sorted({*globals(), *_MODULES, *_MODULE_OF} - left_out)


def _is_installed(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except (ImportError, ValueError):  # what finders raise who hide a library
        return False
