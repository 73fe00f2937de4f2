"""The part of cuSPARSE's generic API that a product needs, called through ctypes."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p
from functools import cache
from typing import Any

import numpy as np

# Values of the enumerations in cusparse.h and library_types.h.
NON_TRANSPOSE = 0
INDEX_32I = 2
BASE_ZERO = 0
ORDER_ROW = 2
# cudaDataType
VALUE_TYPES = {
    np.dtype(np.float32): 0,
    np.dtype(np.float64): 1,
    np.dtype(np.complex64): 4,
    np.dtype(np.complex128): 5,
}
ALGORITHMS = {"coo_alg1": 1, "csr_alg1": 2, "csr_alg2": 3, "coo_alg2": 4, "sell": 5, "bsr": 6}
OPERATION_ALGORITHMS = {"spmvop_alg1": 1, "spmvop_alg2": 2}
LIBRARY_VARIABLE = "CUSPARSE_LIBRARY"

_OPERATION = [c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int]
_SPMV = [c_void_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int]
PROTOTYPES: dict[str, list[Any]] = {
    "cusparseCreate": [POINTER(c_void_p)],
    "cusparseGetVersion": [c_void_p, POINTER(c_int)],
    "cusparseSetStream": [c_void_p, c_void_p],
    "cusparseCreateDnVec": [POINTER(c_void_p), c_int64, c_void_p, c_int],
    "cusparseDestroyDnVec": [c_void_p],
    "cusparseCreateCsr": [POINTER(c_void_p), *[c_int64] * 3, *[c_void_p] * 3, *[c_int] * 4],
    "cusparseCreateCoo": [POINTER(c_void_p), *[c_int64] * 3, *[c_void_p] * 3, *[c_int] * 3],
    "cusparseCreateSlicedEll": [POINTER(c_void_p), *[c_int64] * 5, *[c_void_p] * 3, *[c_int] * 4],
    "cusparseCreateBsr": [POINTER(c_void_p), *[c_int64] * 5, *[c_void_p] * 3, *[c_int] * 5],
    "cusparseDestroySpMat": [c_void_p],
    "cusparseSpMV_bufferSize": [*_SPMV, POINTER(c_size_t)],
    "cusparseSpMV_preprocess": [*_SPMV, c_void_p],
    "cusparseSpMV": [*_SPMV, c_void_p],
    "cusparseSpMVOp_bufferSize": [*_OPERATION, POINTER(c_size_t)],
    "cusparseSpMVOp_createDescr": [c_void_p, POINTER(c_void_p), *_OPERATION[1:], c_void_p],
    "cusparseSpMVOp_destroyDescr": [c_void_p],
    "cusparseSpMVOp_createPlan": [c_void_p, c_void_p, POINTER(c_void_p), c_void_p, c_size_t],
    "cusparseSpMVOp_destroyPlan": [c_void_p],
    "cusparseSpMVOp": [c_void_p] * 7,
}


class CusparseError(RuntimeError):
    """A call that cuSPARSE refused."""


class Cusparse:
    """The loaded library and one handle."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        library.cusparseGetErrorString.argtypes = [c_int]
        library.cusparseGetErrorString.restype = c_char_p
        for name, arguments in PROTOTYPES.items():
            function = getattr(library, name, None)
            if function is not None:  # older versions lack some formats: `call` says so when asked for one
                function.argtypes = arguments
                function.restype = c_int
        handle = c_void_p()
        self.call("cusparseCreate", byref(handle))
        self.handle = handle
        version = c_int()
        self.call("cusparseGetVersion", handle, byref(version))
        self.version = f"{version.value // 1000}.{version.value // 100 % 10}.{version.value % 100}"

    def has(self, name: str) -> bool:
        """Whether this version has a function."""
        return hasattr(self._library, name)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function and raise if it does not return success."""
        function = getattr(self._library, name, None)
        if function is None:
            raise CusparseError(f"{name} is not in this version of cuSPARSE")
        status = function(*arguments)
        if status:
            text = self._library.cusparseGetErrorString(status).decode()
            raise CusparseError(f"{name} failed with status {status}: {text}")


@cache
def load() -> Cusparse:
    """The cuSPARSE that CUSPARSE_LIBRARY names, or else that of CuPy."""
    import cupy

    cupy.cuda.device.get_cusparse_handle()  # makes CuPy load it
    named = os.environ.get(LIBRARY_VARIABLE)
    return Cusparse(ctypes.CDLL(named or _loaded_path() or "libcusparse.so.12"))


def _loaded_path() -> str | None:
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if "libcusparse.so" in path:
                return path
    return None


class _Operands:
    """Descriptors of a matrix and of two vectors, and the CuPy arrays that they point to, which it keeps."""

    def __init__(self, matrix: c_void_p, arrays: tuple[Any, ...], x: Any, y: Any) -> None:
        self.api = load()
        self.matrix, self._arrays = matrix, (*arrays, x, y)
        self.x, self.y = c_void_p(), c_void_p()
        self.value_type = VALUE_TYPES[x.dtype]
        self.api.call("cusparseCreateDnVec", byref(self.x), x.size, x.data.ptr, self.value_type)
        self.api.call("cusparseCreateDnVec", byref(self.y), y.size, y.data.ptr, self.value_type)
        # Read by the host whenever a product is queued, so they live as long as this does.
        self._alpha, self._beta = np.ones(1, x.dtype), np.zeros(1, x.dtype)
        self.alpha, self.beta = self._alpha.ctypes.data, self._beta.ctypes.data
        self.api.call("cusparseSetStream", self.api.handle, None)

    def buffer_for(self, function: str, *arguments: Any) -> Any:
        """Memory of the size that a function says."""
        import cupy

        size = c_size_t()
        self.api.call(function, *arguments, byref(size))
        return cupy.empty(max(size.value, 1), dtype=cupy.uint8)

    def __del__(self) -> None:
        self.api.call("cusparseDestroySpMat", self.matrix)
        self.api.call("cusparseDestroyDnVec", self.x)
        self.api.call("cusparseDestroyDnVec", self.y)


class Product:
    """``y = A @ x`` by one algorithm, with descriptors of its own: preprocessing leaves its mark on them."""

    def __init__(
        self,
        matrix: c_void_p,
        arrays: tuple[Any, ...],
        x: Any,
        y: Any,
        algorithm: int,
        preprocess: bool = False,
    ) -> None:
        """Takes over the matrix descriptor and keeps the CuPy `arrays` it points to."""
        import cupy

        self._operands = o = _Operands(matrix, arrays, x, y)
        self._common = (
            o.api.handle, NON_TRANSPOSE, o.alpha, o.matrix, o.x, o.beta, o.y, o.value_type, algorithm,
        )  # fmt: skip
        self._buffer = o.buffer_for("cusparseSpMV_bufferSize", *self._common)
        if preprocess:
            o.api.call("cusparseSpMV_preprocess", *self._common, self._buffer.data.ptr)
            cupy.cuda.runtime.deviceSynchronize()

    def __call__(self, stream: int) -> None:
        api = self._operands.api
        api.call("cusparseSetStream", api.handle, stream)
        api.call("cusparseSpMV", *self._common, self._buffer.data.ptr)


class Operation:
    """``y = A @ x`` by ``cusparseSpMVOp``, which compiles a kernel for the product; from cuSPARSE 12.8 on."""

    def __init__(self, matrix: c_void_p, arrays: tuple[Any, ...], x: Any, y: Any, algorithm: int) -> None:
        """Takes over the matrix descriptor and keeps the CuPy `arrays` it points to."""
        import cupy

        self._descriptor, self._plan = c_void_p(), c_void_p()
        self._operands = o = _Operands(matrix, arrays, x, y)
        common = (NON_TRANSPOSE, o.matrix, o.x, o.y, o.y, o.value_type, algorithm)
        self._buffer = o.buffer_for("cusparseSpMVOp_bufferSize", o.api.handle, *common)
        o.api.call(
            "cusparseSpMVOp_createDescr",
            o.api.handle,
            byref(self._descriptor),
            *common,
            self._buffer.data.ptr,
        )
        o.api.call("cusparseSpMVOp_createPlan", o.api.handle, self._descriptor, byref(self._plan), None, 0)
        cupy.cuda.runtime.deviceSynchronize()

    def __call__(self, stream: int) -> None:
        o = self._operands
        o.api.call("cusparseSetStream", o.api.handle, stream)
        o.api.call("cusparseSpMVOp", o.api.handle, self._plan, o.alpha, o.beta, o.x, o.y, o.y)

    def __del__(self) -> None:
        if self._plan:
            self._operands.api.call("cusparseSpMVOp_destroyPlan", self._plan)
        if self._descriptor:
            self._operands.api.call("cusparseSpMVOp_destroyDescr", self._descriptor)
