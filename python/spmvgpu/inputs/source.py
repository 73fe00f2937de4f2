"""Matrices on a GPU in CSR, of which formats are planned and made: they cross the bus once, or not at all."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .. import _core
from .._util.lazy import lazy
from .._util.steps import step
from .._util.value_types import CsrSource, Matrix, is_value_type, value_type
from ..arrays import Located, library_of
from ..devices import CPU
from . import compressed
from .compressed import INDEX_LIMIT, storage_dtype, transpose


class DeviceCsr:
    """A canonical matrix in CSR on a device.

    It goes where a canonical ``csr_array`` goes while a format is chosen. What is not planned on the device
    finds the arrays in host memory under SciPy's names, and has them fetched.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    nnz : int
    ordinal : int
        The device.
    """

    def __init__(self, source: CsrSource, dtype: np.dtype[Any], host: Any = None) -> None:
        self._source = source
        self.shape = (source.rows, source.cols)
        self.dtype = dtype
        self.nnz = source.nnz
        self.ordinal = source.ordinal
        if host is not None:
            self.host = host

    @lazy
    def host(self) -> Any:
        """The matrix as a canonical ``csr_array``."""
        csr = sp.csr_array(self._source.to_csr(), shape=self.shape)
        csr.has_canonical_format = True
        return csr

    @property
    def data(self) -> npt.NDArray[Any]:
        return cast("npt.NDArray[Any]", self.host.data)

    @property
    def indices(self) -> npt.NDArray[np.int32]:
        return cast("npt.NDArray[np.int32]", self.host.indices)

    @property
    def indptr(self) -> npt.NDArray[np.int32]:
        return cast("npt.NDArray[np.int32]", self.host.indptr)

    def sample(self, row_step: int, entry_step: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """``indptr[::row_step], indices[::entry_step]``, without the others."""
        if "host" in self.__dict__:
            return self.indptr[::row_step], self.indices[::entry_step]
        return self._source.sample(row_step, entry_step)

    @lazy
    def features(self) -> dict[str, Any]:
        """What `planning.predict.features` gives."""
        return self._source.features()

    def plan(self, format: str, options: dict[str, Any], processors: int | None = None) -> _core.Plan:
        """What `formats.plan_csr` gives, for the matrix's own device."""
        return self._source.plan(format, options, processors)

    def build(self, format: str, options: dict[str, Any]) -> Matrix:
        """The matrix in a format, on the same device."""
        return self._source.build(format, options)

    def leave_device(self) -> Any:
        """The matrix in host memory, as it goes on: there is none on the device any more."""
        host = self.host
        del self._source
        return host

    def transposed(self) -> DeviceCsr:
        return DeviceCsr(self._source.transposed(), self.dtype)

    def clustering(self) -> float:
        """What fraction of the columns of a row's neighbours repeat; of a square matrix, from a sample."""
        return self._source.clustering()

    def by_clusters(self) -> tuple[_core.Permutation, DeviceCsr]:
        """An order of the rows and columns of a square matrix by clusters, and the matrix in it.

        Raises
        ------
        ValueError
            For a matrix that is not square, or has a very long row.
        """
        permutation, source = self._source.by_clusters()
        return permutation, DeviceCsr(source, self.dtype)


def on_device(csr: Any, ordinal: int) -> Any:
    """A canonical matrix on a GPU; itself where it is on the device already, or is to stay in host memory.

    That is so for the CPU, for more entries than one format holds, and where the GPU has no room: what is
    made of it then needs no copy as CSR besides, or says how much was asked for.
    """
    if ordinal == CPU or isinstance(csr, DeviceCsr) or csr.nnz > compressed.ENTRY_LIMIT:
        return csr
    try:
        with step("upload"):
            source = value_type(csr.dtype).source(csr.indptr, csr.indices, csr.data, csr.shape[1], ordinal)
    except MemoryError:
        return csr
    return DeviceCsr(source, csr.dtype, csr)


def in_host_memory(csr: Any) -> Any:
    """A canonical matrix, wherever it is, as a ``csr_array``."""
    return csr.host if isinstance(csr, DeviceCsr) else csr


def transpose_for(csr: Any, ordinal: int) -> Any:
    """The transpose of a canonical matrix, made on the device that it is for, if that has room."""
    there = on_device(csr, ordinal)
    if isinstance(there, DeviceCsr) and ordinal != CPU:
        try:
            return there.transposed()
        except MemoryError:
            pass
    return transpose(in_host_memory(csr))


def device_csr(A: Any, ordinal: int, shape: Any, wanted: np.dtype[Any] | None) -> DeviceCsr | None:
    """A matrix that nobody has checked, on a GPU, where it is checked.

    None for what is no CSR matrix with int32 indices, has no value type, or is not canonical: that takes the
    way through host memory, where it is converted, or refused with the reason. What is checked is a copy, as
    there: a thread that changes the arrays of `A` meanwhile brings no index out of range into it.

    Parameters
    ----------
    A : SciPy or CuPy sparse matrix, or (data, indices, indptr) tuple
    ordinal : int
        A GPU.
    shape : tuple of int or None
        Of a tuple.
    wanted : dtype or None
        As `canonical_csr` takes it, checked.
    """
    arrays, shape = _csr_arrays(A, shape)
    if arrays is None or shape is None:
        return None
    names = ("data", "indices", "indptr")
    located = [_locate(name, array) for name, array in zip(names, arrays, strict=True)]
    if any(found is None for found in located):
        return None
    found = cast("list[Located]", located)
    data, indices, indptr = found
    if not _fits(data, indices, indptr, shape) or storage_dtype(data.dtype, wanted) != data.dtype:
        return None
    kind = value_type(data.dtype).source
    try:
        if {array.ordinal for array in found} == {CPU}:
            with step("upload"):
                source = kind(indptr.host, indices.host, data.host, shape[1], ordinal)
        elif {array.ordinal for array in found} == {ordinal}:
            _wait_for(arrays, found)
            nnz = data.shape[0]
            with step("upload"):  # a copy within the device
                source = kind.at(
                    indptr.pointer, indices.pointer, data.pointer, shape[0], shape[1], nnz, ordinal
                )
        else:
            return None
        with step("checks"):
            return DeviceCsr(source, data.dtype) if source.is_canonical() else None
    except (MemoryError, ValueError):  # what is wrong with it, if anything, is found out on the other way
        return None


def _csr_arrays(A: Any, shape: Any) -> tuple[Any, Any]:
    """(data, indices, indptr) of what is CSR, and its shape, as far as they can be relied on."""
    if isinstance(A, tuple):
        lengths = shape if isinstance(shape, tuple) else ()
        plain = len(lengths) == 2 and all(type(n) is int and 0 <= n <= INDEX_LIMIT for n in lengths)
        return (A, shape) if len(A) == 3 and plain else (None, None)
    is_ours = sp.issparse(A) or type(A).__module__.partition(".")[0] == "cupyx"
    if shape is not None or not is_ours or getattr(A, "format", None) != "csr" or len(A.shape) != 2:
        return None, None
    if max(A.shape) > INDEX_LIMIT:
        return None, None
    return tuple(getattr(A, name, None) for name in ("data", "indices", "indptr")), tuple(map(int, A.shape))


def _locate(name: str, array: Any) -> Located | None:
    if isinstance(array, np.ma.MaskedArray):
        return None
    library = library_of(array)
    return None if library is None else library.locate(array, name)


def _fits(data: Located, indices: Located, indptr: Located, shape: tuple[int, int]) -> bool:
    arrays = (data, indices, indptr)
    return (
        all(len(array.shape) == 1 and array.contiguous for array in arrays)
        and indices.dtype == indptr.dtype == np.int32
        and indptr.shape == (shape[0] + 1,)
        and data.shape == indices.shape
        and data.shape[0] <= compressed.ENTRY_LIMIT
        and is_value_type(data.dtype)
    )


def _wait_for(arrays: Any, located: list[Located]) -> None:
    """What their libraries have queued for the arrays is done."""
    streams = {(library_of(array).stream(at), at.ordinal) for array, at in zip(arrays, located, strict=True)}  # type: ignore[union-attr]
    for stream, ordinal in streams:
        _core.synchronize(stream, ordinal)
