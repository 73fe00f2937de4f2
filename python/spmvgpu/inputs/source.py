"""Matrices as callers give them: an adapter for each kind, and checks of their arrays on a device."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import CsrSource
from .._util.steps import took
from .._util.types import DType, HostArray
from .._util.value_types import is_value_type
from ..arrays import ArrayInfo, as_array, library_of, on_host
from . import limits
from .compressed import compressed, csr_of_dense, csr_of_sparse, storage_dtype
from .csr import CanonicalCsr
from .limits import INDEX_LIMIT

ALLOWED = "give a sparse matrix, a (data, indices, indptr) tuple with shape=, or a 2-D array"


class Source:
    """A matrix that a caller gave, whose arrays are not checked.

    Attributes
    ----------
    given : object
    shape : tuple of int
        Of any length.
    dtype : numpy.dtype
    """

    def __init__(self, given: Any) -> None:
        self.given = given

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.given.shape)

    @property
    def dtype(self) -> DType:
        dtype: DType = np.dtype(self.given.dtype)
        return dtype

    def csr(self) -> tuple[Any, ...] | None:
        """(data, indices, indptr) where they lie; None for what is no CSR matrix."""
        return None

    def host(self) -> Any:
        """The matrix as a SciPy sparse matrix, or as a NumPy array."""
        return self.given

    def on_host(self, wanted: DType | None) -> CanonicalCsr:
        """The checked matrix in host memory, of the dtype of `wanted_dtype`."""
        matrix = self.host()
        return csr_of_sparse(matrix, wanted) if sp.issparse(matrix) else csr_of_dense(matrix, wanted)

    def on_device(self, ordinal: int, wanted: DType | None) -> CanonicalCsr | None:
        """The matrix on a GPU, where it is checked: it crosses the bus once, or not at all.

        None for what is no CSR matrix with int32 indices, has no value type, or is not canonical: `on_host`
        converts it, or refuses it with the reason. What is checked is a copy, as there: a thread that changes
        the arrays meanwhile brings no index out of range into it.
        """
        shape = self.shape
        arrays = self.csr() if len(shape) == 2 and max(shape) <= INDEX_LIMIT else None
        if arrays is None:
            return None
        names = ("data", "indices", "indptr")
        found = [_locate(name, array) for name, array in zip(names, arrays, strict=True)]
        if any(array is None for array in found):
            return None
        data, indices, indptr = located = cast("list[ArrayInfo]", found)
        rows, cols = shape
        if not _fits(data, indices, indptr, rows) or storage_dtype(data.dtype, wanted) != data.dtype:
            return None
        try:
            if data.host is not None and indices.host is not None and indptr.host is not None:
                source, steps = CsrSource.checked(indptr.host, indices.host, data.host, cols, ordinal)
            elif {array.ordinal for array in located} == {ordinal}:
                for stream in {array.library.stream(array) for array in located}:  # what is queued is done
                    _core.synchronize(stream, ordinal)
                pointers = (indptr.pointer, indices.pointer, data.pointer)
                source, steps = CsrSource.checked_at(
                    data.dtype, *pointers, rows, cols, data.shape[0], ordinal
                )
            else:
                return None
        except (MemoryError, ValueError):  # `on_host` finds out what is wrong with it, if anything is
            return None
        took(steps)
        if source is None:
            return None
        return CanonicalCsr.on(source, (rows, cols), data.dtype, data.shape[0], ordinal)


def _locate(name: str, array: Any) -> ArrayInfo | None:
    if isinstance(array, np.ma.MaskedArray):
        return None
    library = library_of(array)
    return None if library is None else library.locate(array, name)


def _fits(data: ArrayInfo, indices: ArrayInfo, indptr: ArrayInfo, rows: int) -> bool:
    return (
        all(len(array.shape) == 1 and array.contiguous for array in (data, indices, indptr))
        and indices.dtype == indptr.dtype == np.int32
        and indptr.shape == (rows + 1,)
        and data.shape == indices.shape
        and data.shape[0] <= limits.ENTRY_LIMIT
        and is_value_type(data.dtype)
    )


class ScipySource(Source):
    """A sparse matrix or array of SciPy's."""

    def csr(self) -> tuple[Any, ...] | None:
        if getattr(self.given, "format", None) != "csr":
            return None
        return tuple(getattr(self.given, name, None) for name in ("data", "indices", "indptr"))


class CupySource(ScipySource):
    """A sparse matrix of CuPy's."""

    def host(self) -> Any:
        return self.given.get()


class DenseSource(Source):
    """An array of any library and dimensions, or what NumPy makes one of."""

    def __init__(self, given: Any) -> None:
        dense = array_on_host("A", given)
        if dense.ndim == 0:
            raise TypeError(f"A is of type {type(given).__name__}, not a matrix; {ALLOWED}")
        super().__init__(dense)
        self._kind = type(given).__name__

    def on_host(self, wanted: DType | None) -> CanonicalCsr:
        if self.given.ndim != 2:
            raise ValueError(f"A is of type {self._kind} and has {self.given.ndim} dimensions; {ALLOWED}")
        return super().on_host(wanted)


class CsrArrays(Source):
    """The arrays (data, indices, indptr) of a matrix of a given shape."""

    def __init__(self, arrays: tuple[Any, ...], shape: Any) -> None:
        if len(arrays) != 3:
            raise ValueError(f"a tuple must be (data, indices, indptr); this one has {len(arrays)} entries")
        if shape is None:
            raise TypeError("a (data, indices, indptr) tuple needs shape=(rows, columns)")
        super().__init__(arrays)
        self._shape = _checked_shape(shape)

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    def csr(self) -> tuple[Any, ...]:
        arrays: tuple[Any, ...] = self.given
        return arrays

    def on_host(self, wanted: DType | None) -> CanonicalCsr:
        data, indices, indptr = map(array_on_host, ("data", "indices", "indptr"), self.given)
        return compressed(data, indices, indptr, self._shape, storage_dtype(data.dtype, wanted))


def _checked_shape(shape: Any) -> tuple[int, int]:
    try:
        rows, cols = shape
        checked = (int(rows), int(cols))
    except (TypeError, ValueError, OverflowError, np.ma.MaskError):
        raise ValueError(f"shape must be two whole numbers (rows, columns), not {shape!r}") from None
    if checked != (rows, cols) or min(checked) < 0 or max(checked) > INDEX_LIMIT:
        raise ValueError(f"shape must be two whole numbers from 0 to {INDEX_LIMIT}, not {shape!r}")
    return checked


def array_on_host(name: str, array: object) -> HostArray:
    return as_array(name, array) if library_of(array) is None else on_host(name, array)


class ForeignOperator(Source):
    """An operator of another library, whose products are all that is known."""

    def host(self) -> Any:
        raise TypeError(f"A is a {type(self.given).__name__}, whose entries cannot be read; {ALLOWED}")
