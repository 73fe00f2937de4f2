"""The part of cuSPARSE's generic API that a product needs, called through ctypes."""

from __future__ import annotations

import ctypes
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
    """The cuSPARSE that CuPy uses, so that all peers run the same library."""
    import cupy

    cupy.cuda.device.get_cusparse_handle()  # makes CuPy load it
    return Cusparse(ctypes.CDLL(_loaded_path() or "libcusparse.so.12"))


def _loaded_path() -> str | None:
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[-1].strip()
            if "libcusparse.so" in path:
                return path
    return None


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

        self._api = load()
        self._matrix, self._arrays = matrix, (*arrays, x, y)
        self._x, self._y = c_void_p(), c_void_p()
        value_type = VALUE_TYPES[x.dtype]
        self._api.call("cusparseCreateDnVec", byref(self._x), x.size, x.data.ptr, value_type)
        self._api.call("cusparseCreateDnVec", byref(self._y), y.size, y.data.ptr, value_type)
        # Read by the host whenever a product is queued, so they live as long as this does.
        self._alpha, self._beta = np.ones(1, x.dtype), np.zeros(1, x.dtype)
        self._common = (
            self._api.handle, NON_TRANSPOSE, self._alpha.ctypes.data, self._matrix, self._x,
            self._beta.ctypes.data, self._y, value_type, algorithm,
        )  # fmt: skip
        self._api.call("cusparseSetStream", self._api.handle, None)
        size = c_size_t()
        self._api.call("cusparseSpMV_bufferSize", *self._common, byref(size))
        self._buffer = cupy.empty(max(size.value, 1), dtype=cupy.uint8)
        if preprocess:
            self._api.call("cusparseSpMV_preprocess", *self._common, self._buffer.data.ptr)
            cupy.cuda.runtime.deviceSynchronize()

    def __call__(self, stream: int) -> None:
        self._api.call("cusparseSetStream", self._api.handle, stream)
        self._api.call("cusparseSpMV", *self._common, self._buffer.data.ptr)

    def __del__(self) -> None:
        self._api.call("cusparseDestroySpMat", self._matrix)
        self._api.call("cusparseDestroyDnVec", self._x)
        self._api.call("cusparseDestroyDnVec", self._y)
