"""Intel MKL on the CPU: its inspector looks at the matrix once, for many products."""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .base import Job, NotApplicableError, Variant
from .problem import Problem

NAME = "mkl"
DEVICES = ("cpu",)
THREADED = True

#: For so long MKL's threads look for more work after a product, and keep the cores from whoever comes next.
SETTLE_SECONDS = 0.3

LIBRARY_VARIABLE = "MKL_RT"  # the library, if it is not where `pip install mkl` puts it

# Of mkl_spblas.h.
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
    found = (
        ctypes.c_int * 64
    )()  # more than struct MKLVersion takes, of which the first three are the version
    _library().mkl_get_version(found)
    return {"mkl": ".".join(map(str, found[:3]))}


class _Inspected:
    """A matrix in a handle of MKL, which is destroyed with it."""

    def __init__(self, A: sp.csr_array) -> None:
        if A.dtype.char not in _PREFIXES:
            raise NotApplicableError(f"MKL is measured with real matrices, and this one is {A.dtype}")
        prefix, self._number = _PREFIXES[A.dtype.char]
        self._mkl, self._handle, self._kept = _library(), ctypes.c_void_p(), A
        self._multiply = self._mkl[f"mkl_sparse_{prefix}_mv"]
        begin, end = A.indptr[:-1], A.indptr[1:]
        arrays = (_address(array) for array in (begin, end, A.indices, A.data))
        create = self._mkl[f"mkl_sparse_{prefix}_create_csr"]
        _check(create(ctypes.byref(self._handle), _BASE_ZERO, *A.shape, *arrays))
        weakref.finalize(self, self._mkl.mkl_sparse_destroy, self._handle)
        _check(self._mkl.mkl_sparse_set_mv_hint(self._handle, _NOT_TRANSPOSED, _General(), _CALLS))
        _check(self._mkl.mkl_sparse_optimize(self._handle))

    def multiply(self, x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> None:
        one, zero = self._number(1), self._number(0)
        how = _NOT_TRANSPOSED, one, self._handle, _General()
        _check(self._multiply(*how, _address(x), zero, _address(y)))


def _address(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def _check(status: int) -> None:
    if status != _SUCCESS:
        raise RuntimeError(f"MKL says {status}")


def prepare(problem: Problem) -> list[Job]:
    def build() -> Variant:
        A, x = sp.csr_array(problem.matrix), problem.x
        inspected, y = _Inspected(A), np.zeros(A.shape[0], problem.dtype)

        def call() -> np.ndarray[Any, Any]:
            inspected.multiply(x, y)
            return y

        return Variant(NAME, "csr", problem.csr_bytes, call, call=call, settle_seconds=SETTLE_SECONDS)

    return [Job("csr", build)]
