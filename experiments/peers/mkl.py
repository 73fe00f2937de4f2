"""Intel MKL on the CPU: its inspector looks at the matrix once, for many products."""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .base import Job, NotApplicableError, Variant
from .problem import Problem

Array = npt.NDArray[Any]

NAME = "mkl"
DEVICES = ("cpu",)
THREADED = True

LIBRARY_VARIABLE = "MKL_RT"  # the library, if it is not where `pip install mkl` puts it

# Constants of mkl_spblas.h.
_SUCCESS, _NOT_TRANSPOSED, _BASE_ZERO = 0, 10, 0
_CALLS = 1000  # products that the inspector is told to expect
_PREFIXES = {"f": ("s", ctypes.c_float), "d": ("d", ctypes.c_double)}


class _General(ctypes.Structure):
    """``struct matrix_descr`` of a general matrix."""

    _fields_ = (("type", ctypes.c_int), ("mode", ctypes.c_int), ("diag", ctypes.c_int))

    def __init__(self) -> None:
        super().__init__(20, 0, 0)


def _library() -> ctypes.CDLL:
    given = os.environ.get(LIBRARY_VARIABLE)
    installed = sorted(Path(sys.prefix, "lib").glob("libmkl_rt.so*"))
    return ctypes.CDLL(given or (str(installed[-1]) if installed else "libmkl_rt.so"))


def available() -> str | None:
    """None, or the reason why this peer cannot run."""
    try:
        _library()
    except OSError as error:
        return str(error)
    return None


def versions() -> dict[str, str]:
    found = (ctypes.c_int * 64)()  # struct MKLVersion, which is smaller, begins with the three numbers
    _library().mkl_get_version(found)
    return {"mkl": ".".join(map(str, found[:3]))}


class _Product:
    """``A @ x`` with the handle of a matrix, which is destroyed with it."""

    #: For so long its threads look for more work after a product, and keep the cores from whoever comes next.
    settle_seconds = 0.3

    def __init__(self, A: sp.csr_array, x: Array) -> None:
        if A.dtype.char not in _PREFIXES:
            raise NotApplicableError(f"MKL is measured with real matrices, and this one is {A.dtype}")
        prefix, number = _PREFIXES[A.dtype.char]
        library, handle = _library(), ctypes.c_void_p()
        arrays = A.indptr[:-1], A.indptr[1:], A.indices, A.data
        create = library[f"mkl_sparse_{prefix}_create_csr"]
        _check(create(ctypes.byref(handle), _BASE_ZERO, *A.shape, *map(_address, arrays)))
        weakref.finalize(self, library.mkl_sparse_destroy, handle)
        _check(library.mkl_sparse_set_mv_hint(handle, _NOT_TRANSPOSED, _General(), _CALLS))
        _check(library.mkl_sparse_optimize(handle))
        self._kept = A, x
        self._y = np.zeros(A.shape[0], A.dtype)
        self._multiply = library[f"mkl_sparse_{prefix}_mv"]
        self._arguments = (
            _NOT_TRANSPOSED, number(1), handle, _General(), _address(x), number(0), _address(self._y)
        )  # fmt: skip

    def __call__(self) -> Array:
        _check(self._multiply(*self._arguments))
        return self._y


def _address(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _check(status: int) -> None:
    if status != _SUCCESS:
        raise RuntimeError(f"MKL says {status}")


def prepare(problem: Problem) -> list[Job]:
    def build() -> Variant:
        product = _Product(sp.csr_array(problem.matrix), problem.x)
        return Variant(NAME, "csr", problem.csr_bytes, product, call=product)

    return [Job("csr", build)]
