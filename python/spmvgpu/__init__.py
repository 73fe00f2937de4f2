"""SciPy sparse matrices as fast operators on GPUs and CPU cores.

>>> import numpy as np, scipy.sparse as sp, spmvgpu as sg
>>> A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(5, 5))
>>> op = sg.aslinearoperator(A, device="cpu")
>>> op @ np.ones(5)
array([1., 0., 0., 0., 1.])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import cache, linalg, partition
from ._core import CudaError, FormatError
from .construct import aslinearoperator
from .devices import DeviceInfo, build_info, devices, limit_threads
from .model.predict import Prediction, Predictions, predict, separator
from .multi import DistributedVector, MultiDeviceOperator
from .operator import SparseOperator
from .tune import estimate, format_options, formats

if TYPE_CHECKING:
    from . import gallery, matrix_io, plot, plot_partition, plot_symmetric

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
    "separator",
]

# Imported when they are used first, so that a process that does without them starts sooner.
_LAZY = ("gallery", "matrix_io", "plot", "plot_partition", "plot_symmetric")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
