"""Matrices of callers, made into canonical CSR: copied, checked, sorted, summed.

Arrays of a SciPy matrix may have been broken, or replaced by others, after it was made, and SciPy's own
conversions would follow them out of bounds. So every array is copied, the copy is checked, and SciPy converts
the copy.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import CsrSource
from .._util.steps import took
from .._util.types import DType, HostArray
from .._util.value_types import NAMES, is_value_type
from ..arrays import ArrayInfo, as_array, library_of
from ..devices import CPU
from . import limits
from .csr import CanonicalCsr
from .limits import INDEX_LIMIT

_ALLOWED_TYPES = f"allowed are {NAMES}, and integers or bool (as float64)"


class Source:
    """A matrix that a caller gave, whose arrays are not checked.

    Attributes
    ----------
    given : object
    shape : tuple of int
        Of any length.
    dtype : numpy.dtype
    first : int
        The first offset of a CSR matrix, which is taken off all of them.
    """

    first = 0

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

    def located_csr(self) -> tuple[ArrayInfo, ...] | None:
        """(data, indices, indptr) of a CSR matrix, if their lengths and types are right."""
        arrays, shape = self.csr(), self.shape
        if arrays is None or len(shape) != 2 or min(shape) < 0 or max(shape) > INDEX_LIMIT:
            return None
        located = tuple(filter(None, map(_locate, ("data", "indices", "indptr"), arrays)))
        if len(located) < 3 or not all(len(array.shape) == 1 and array.contiguous for array in located):
            return None
        data, indices, indptr = located
        fits = data.shape == indices.shape and indptr.shape == (shape[0] + 1,) and is_value_type(data.dtype)
        return located if fits and all(array.dtype in (np.int32, np.int64) for array in located[1:]) else None

    def host(self) -> Any:
        """The matrix as a SciPy sparse matrix, or as a NumPy array."""
        return self.given

    def on_host(self, wanted: DType | None) -> CanonicalCsr:
        """The checked matrix in host memory, of the dtype of `wanted_dtype`."""
        return csr_of_sparse(self.host(), wanted)

    def on_device(self, ordinal: int, wanted: DType | None) -> CanonicalCsr | None:
        """The matrix on a GPU, where it is checked: it crosses the bus once, or not at all.

        None for what is no CSR matrix with int32 indices, has no value type, or is not canonical: `on_host`
        converts it, or refuses it with the reason. What is checked is a copy, as there: a thread that changes
        the arrays meanwhile brings no index out of range into it.
        """
        located = self.located_csr()
        if located is None:
            return None
        data, indices, indptr = located
        rows, cols = self.shape
        fits = indices.dtype == indptr.dtype == np.int32 and data.shape[0] <= limits.ENTRY_LIMIT
        if not fits or storage_dtype(data.dtype, wanted) != data.dtype:
            return None
        try:
            if data.host is not None and indices.host is not None and indptr.host is not None:
                source, steps = CsrSource.checked(indptr.host, indices.host, data.host, cols, ordinal)
            elif (
                data.host is None
                and data.ordinal == indices.ordinal
                and indptr.ordinal in (CPU, data.ordinal)
            ):
                on_gpu = [array for array in located if array.host is None]
                for stream in {array.library.stream(array) for array in on_gpu}:  # what is queued is done
                    _core.synchronize(stream, data.ordinal)
                offsets = indptr.pointer if indptr.host is None else indptr.host
                source, steps = CsrSource.checked_at(
                    data.dtype,
                    offsets,
                    indices.pointer,
                    data.pointer,
                    rows,
                    cols,
                    data.shape[0],
                    data.ordinal,
                    ordinal,
                    self.first,
                )
            else:
                return None
        except (MemoryError, ValueError):  # `on_host` finds out what is wrong with it, if anything is
            return None
        took(steps)
        if source is None:
            return None
        return CanonicalCsr.on(source, ((rows, cols), data.dtype, data.shape[0], ordinal))


def _locate(name: str, array: Any) -> ArrayInfo | None:
    if isinstance(array, np.ma.MaskedArray):
        return None
    library = library_of(array)
    return None if library is None else library.locate(array, name)


def csr_of_sparse(A: Any, wanted: DType | None) -> CanonicalCsr:
    """A SciPy sparse matrix or array as a canonical matrix; `wanted` is of `wanted_dtype`.

    Raises
    ------
    TypeError
        For values or indices of a type that is not supported.
    ValueError
        For arrays that do not describe a matrix.
    """
    dimensions = len(A.shape)  # ndim is 2 in older versions of SciPy, whatever the shape
    if dimensions != 2:
        raise ValueError(f"A must have 2 dimensions, not {dimensions}")
    check_lengths(A.shape)
    try:
        if A.format not in _CONVERSIONS:
            A = A.tocsr()
        given = A.dtype if A.format in ("lil", "dok") else as_array("data", A.data).dtype
        return _CONVERSIONS[A.format](A, storage_dtype(given, wanted))
    except (AttributeError, IndexError, KeyError, OverflowError) as error:
        raise ValueError(
            f"A is an invalid {type(A).__name__}: its attributes do not fit together ({error})"
        ) from error


def csr_of_dense(dense: HostArray, wanted: DType | None) -> CanonicalCsr:
    """A 2-D array as a canonical matrix."""
    dtype = storage_dtype(dense.dtype, wanted)
    # A copy, so that no other thread changes what is counted before it is stored.
    return _from_csr(sp.csr_array(np.array(dense, dtype, order="C")), dtype)


def _arrays(A: Any, *names: str) -> list[HostArray]:
    return [as_array(name, getattr(A, name)) for name in names]


def _from_csr(A: Any, dtype: DType) -> CanonicalCsr:
    data, indices, indptr = _arrays(A, "data", "indices", "indptr")
    return compressed(data, indices, indptr, A.shape, dtype)


def _from_csc(A: Any, dtype: DType) -> CanonicalCsr:
    data, indices, indptr = _arrays(A, "data", "indices", "indptr")
    return compressed(data, indices, indptr, A.shape[::-1], dtype, axis="row").transposed()


def _from_bsr(A: Any, dtype: DType) -> CanonicalCsr:
    data, indices, indptr = _arrays(A, "data", "indices", "indptr")
    if data.ndim != 3 or data.shape[0] != indices.size or 0 in data.shape[1:]:
        raise ValueError(
            f"mismatched lengths: data has shape {data.shape}, but there are {indices.size} block indices"
        )
    shape = tuple(length // block for length, block in zip(A.shape, data.shape[1:], strict=True))
    if np.any(np.multiply(shape, data.shape[1:]) != A.shape):
        raise ValueError(f"shape {A.shape} cannot be divided into blocks of shape {data.shape[1:]}")
    indptr, indices, _ = pattern(indices, indptr, shape, axis="block column")
    copy = sp.bsr_array((np.array(data, dtype, order="C"), indices, indptr), shape=A.shape)
    return _from_csr(copy.tocsr(), dtype)


def _from_coo(A: Any, dtype: DType) -> CanonicalCsr:
    (data,), indices = _arrays(A, "data"), []
    for name, length in zip(("row", "col"), A.shape, strict=True):
        (array,) = _arrays(A, name)
        if array.ndim != 1 or array.shape != data.shape:
            raise ValueError(f"mismatched lengths: data has shape {data.shape}, {name} {array.shape}")
        check_integers(f"{name} indices", array)
        copy = np.array(array)
        if copy.size and (copy.min() < 0 or copy.max() >= length):
            raise ValueError(
                f"{name} indices must lie in 0..{length - 1}; these reach from {copy.min()} to {copy.max()}"
            )
        indices.append(copy.astype(np.int32, copy=False))
    coo = sp.coo_array((np.array(data, dtype), tuple(indices)), shape=A.shape)
    coo.has_canonical_format = True  # else SciPy would sort; `compressed` does so on all cores
    return _from_csr(coo.tocsr(), dtype)


def _from_dia(A: Any, dtype: DType) -> CanonicalCsr:
    data, offsets = _arrays(A, "data", "offsets")
    if data.ndim != 2 or offsets.shape != data.shape[:1]:
        raise ValueError(f"mismatched lengths: data has shape {data.shape}, offsets {offsets.shape}")
    check_integers("offsets", offsets)
    copy = np.array(offsets) if offsets.size else np.zeros(0, np.int32)  # none may be of any type
    if len(np.unique(copy)) != copy.size:
        raise ValueError("offsets contains a diagonal twice")
    inside = (copy > -A.shape[0]) & (copy < A.shape[1])  # SciPy would wrap what does not fit int32
    diagonals = np.array(data, dtype, order="C")[inside]
    dia = sp.dia_array((diagonals, copy[inside].astype(np.int32)), shape=A.shape)
    return _from_csr(dia.tocsr(), dtype)


def _from_lil(A: Any, dtype: DType) -> CanonicalCsr:
    if not all(isinstance(row, list) for lists in (A.rows, A.data) for row in lists):
        raise ValueError("rows and data of a lil matrix must contain lists only")
    rows, values = ([list(row) for row in lists] for lists in (A.rows, A.data))
    lengths = [len(row) for row in rows]
    if lengths != [len(row) for row in values]:
        raise ValueError("mismatched lengths of the lists in rows and data of the lil matrix")
    data, indices = (as_array(name, [*chain(*lists)]) for name, lists in (("data", values), ("rows", rows)))
    storage_dtype(data.dtype, dtype)
    indptr = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    return compressed(data, indices, indptr, A.shape, dtype)


_CONVERSIONS: dict[str, Callable[[Any, DType], CanonicalCsr]] = {
    "csr": _from_csr,
    "csc": _from_csc,
    "bsr": _from_bsr,
    "coo": _from_coo,
    "dia": _from_dia,
    "lil": _from_lil,
    "dok": lambda A, dtype: _from_coo(A.tocoo(), dtype),  # SciPy checks the keys
}


def compressed(
    data: HostArray,
    indices: HostArray,
    indptr: HostArray,
    shape: tuple[int, int],
    dtype: DType,
    *,
    axis: str = "column",
) -> CanonicalCsr:
    """A canonical matrix with index arrays of its own, from any arrays.

    Parameters
    ----------
    data, indices, indptr : ndarray
        Of any integer types, and of numbers, with any strides.
    shape : tuple of int
    dtype : dtype
        A value type. Values are converted before duplicates are summed, so that a sum is not bounded
        by the type that they come in.
    axis : {"column", "row"}
        What messages call `indices`: of CSC arrays, which describe the transposed matrix, they are rows.

    Raises
    ------
    TypeError, ValueError
        For arrays that do not describe a matrix.
    """
    if data.ndim != 1:
        raise ValueError(f"data must be 1-D; it has {data.ndim} dimensions")
    if data.size != indices.size:
        raise ValueError(f"mismatched lengths: data has {data.size} entries, indices {indices.size}")
    indptr, indices, is_canonical = pattern(indices, indptr, shape, axis=axis)
    values = np.require(data, dtype, ["C", "ALIGNED"])
    if not is_canonical:
        values = np.array(values)  # our own, to be sorted in place
        left = _core.sum_duplicates(indptr, indices, values)
        indices, values = indices[:left], values[:left]
    return CanonicalCsr(values, indices, indptr, shape)


def pattern(
    indices: HostArray, indptr: HostArray, shape: tuple[int, int], *, axis: str = "column"
) -> tuple[HostArray, HostArray, bool]:
    """Checked copies of (indptr, indices), and whether each row's indices increase."""
    for name, array in (("indices", indices), ("indptr", indptr)):
        if array.ndim != 1:
            raise ValueError(f"{name} must be 1-D; it has {array.ndim} dimensions")
        check_integers(name, array)
    check_lengths(shape)
    rows, cols = shape
    if indptr.size != rows + 1:
        raise ValueError(f"indptr has length {indptr.size}; {rows} rows need {rows + 1}")
    is_wide = indices.size > limits.ENTRY_LIMIT
    is_narrow = not is_wide and all(np.can_cast(array.dtype, np.int32) for array in (indices, indptr))
    given = np.int32 if is_narrow else np.int64
    indptr, indices = (np.require(array, given, ["C", "ALIGNED"]) for array in (indptr, indices))
    if is_wide:
        return _core.copy_wide_pattern(indptr, indices, cols, axis)
    return _core.copy_pattern(indptr, indices, cols, axis)


def check_integers(name: str, array: HostArray) -> None:
    """Refuse indices that are not whole numbers; an empty list, which NumPy takes for floats, may pass."""
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, not {array.dtype}")


def check_lengths(shape: tuple[int, int]) -> None:
    if min(shape) < 0 or max(shape) > INDEX_LIMIT:
        problem = "negative" if min(shape) < 0 else "too large"
        raise ValueError(
            f"shape {shape} is {problem}; at most {INDEX_LIMIT} (2**31 - 1) rows and columns are allowed"
        )


def wanted_dtype(dtype: Any) -> DType | None:
    """The dtype that a caller asks for, checked; None if it asks for none."""
    if dtype is None:
        return None
    try:
        wanted: DType = np.dtype(dtype).newbyteorder("=")
    except Exception as error:  # NumPy raises what it pleases: TypeError, ValueError, SyntaxError, ...
        raise TypeError(f"dtype={dtype!r} is not a dtype; allowed are {NAMES}") from error
    if not is_value_type(wanted):
        raise TypeError(f"dtype {wanted} is not supported; allowed are {NAMES}")
    return np.dtype(wanted.type)


def storage_dtype(given: DType, wanted: DType | None) -> DType:
    """The type that values of a given type are stored in, as the object that NumPy gives its arrays."""
    if given.kind not in "biufc":
        raise TypeError(f"dtype {given} is not supported; {_ALLOWED_TYPES}")
    if wanted is not None:
        if given.kind == "c" and wanted.kind != "c":
            raise TypeError(
                f"dtype {given} cannot be stored as {wanted}, which has no imaginary part; give A.real or a "
                "complex dtype"
            )
        return wanted
    native: DType = np.dtype(given.type)  # `newbyteorder` makes another object
    if is_value_type(native):
        return native
    if given.itemsize > 8:
        raise TypeError(f"dtype {given} is not supported; {_ALLOWED_TYPES}. Give dtype= to round the values")
    return np.dtype(np.float64)
