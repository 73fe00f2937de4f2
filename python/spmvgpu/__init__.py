"""SciPy sparse matrices as fast operators on GPUs and CPU cores.

>>> import numpy as np, scipy.sparse as sp, spmvgpu as sg
>>> A = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(5, 5))
>>> op = sg.aslinearoperator(A, device="cpu")
>>> op @ np.ones(5)
array([1., 0., 0., 0., 1.])
"""

from . import cache, linalg, partition
from ._core import CudaError, FormatError
from .construct import aslinearoperator
from .devices import DeviceInfo, build_info, devices, limit_threads
from .model.predict import Prediction, Predictions, predict, separator
from .multi import DistributedVector, MultiDeviceOperator
from .operator import SparseOperator
from .tune import estimate, format_options, formats

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
    "limit_threads",
    "linalg",
    "partition",
    "predict",
    "separator",
]
