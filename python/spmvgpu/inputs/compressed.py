"""CSR arrays that nobody has checked, made into canonical CSR: copied, checked, sorted, summed.

Every way from a caller's matrix to an operator ends here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._util.value_types import NAMES, is_value_type

#: The largest row and column.
INDEX_LIMIT = int(np.iinfo(np.int32).max)

#: The most stored entries of a matrix in one format, whose arrays have int32 indices. One with more has int64
#: indices as CSR, and is stored in pieces of neighbouring rows.
ENTRY_LIMIT = INDEX_LIMIT

_ALLOWED_TYPES = f"allowed are {NAMES}, and integers or bool (as float64)"


def compressed(
    data: Any,
    indices: Any,
    indptr: Any,
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    *,
    axis: str = "column",
) -> Any:
    """A canonical ``csr_array`` with index arrays of its own, from any arrays.

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
    csr = sp.csr_array((values, indices, indptr), shape=shape)
    csr.has_canonical_format = True
    return csr


def pattern(
    indices: Any, indptr: Any, shape: tuple[int, int], *, axis: str = "column"
) -> tuple[Any, Any, bool]:
    """Checked copies of (indptr, indices), and whether each row's indices increase."""
    for name, array in (("indices", indices), ("indptr", indptr)):
        if array.ndim != 1:
            raise ValueError(f"{name} must be 1-D; it has {array.ndim} dimensions")
        check_integers(name, array)
    check_lengths(shape)
    rows, cols = shape
    if indptr.size != rows + 1:
        raise ValueError(f"indptr has length {indptr.size}; {rows} rows need {rows + 1}")
    is_wide = indices.size > ENTRY_LIMIT
    is_narrow = not is_wide and all(np.can_cast(array.dtype, np.int32) for array in (indices, indptr))
    given = np.int32 if is_narrow else np.int64
    indptr, indices = (np.require(array, given, ["C", "ALIGNED"]) for array in (indptr, indices))
    if is_wide:
        return _core.copy_wide_pattern(indptr, indices, cols, axis)
    return _core.copy_pattern(indptr, indices, cols, axis)


def rows_of(csr: Any, rows: range) -> Any:
    """Neighbouring rows of a canonical matrix: a window on its arrays."""
    begin, end = int(csr.indptr[rows.start]), int(csr.indptr[rows.stop])
    indptr = csr.indptr[rows.start : rows.stop + 1] - begin
    return _of_arrays(csr.data[begin:end], csr.indices[begin:end], indptr, csr.shape[1])


def narrowed(csr: Any) -> Any:
    """The matrix with int32 indices, unless it has too many entries for them."""
    if csr.nnz > ENTRY_LIMIT:
        return csr
    indices, indptr = (array.astype(np.int32, copy=False) for array in (csr.indices, csr.indptr))
    return _of_arrays(csr.data, indices, indptr, csr.shape[1])


def _of_arrays(data: Any, indices: Any, indptr: Any, columns: int) -> Any:
    """A matrix over these very arrays; SciPy's constructor copies windows on less than half of an array."""
    csr = sp.csr_array((len(indptr) - 1, columns), dtype=data.dtype)
    csr.data, csr.indices, csr.indptr = data, indices, indptr
    return csr


def pieces_of(csr: Any) -> Iterator[Any]:
    """The matrix in pieces of neighbouring rows that fit one format each, with int32 indices; often one.

    One after the other, so that no more than one need be there besides the matrix.
    """
    if not sp.issparse(csr):
        yield csr  # on a device, where one piece is all there is
        return
    start, rows = 0, csr.shape[0]
    while start < rows or start == 0:
        end = int(np.searchsorted(csr.indptr, csr.indptr[start] + ENTRY_LIMIT, side="right")) - 1
        end = min(max(end, start + 1), rows)
        piece = csr if (start, end) == (0, rows) else rows_of(csr, range(start, end))
        arrays = (array.astype(np.int32, copy=False) for array in (piece.indices, piece.indptr))
        yield sp.csr_array((piece.data, *arrays), shape=piece.shape)
        if end == rows:
            return
        start = end


def transpose(csr: Any) -> Any:
    """The transposed matrix of a canonical csr_array, canonical too."""
    shape = csr.shape[::-1]
    if csr.indptr.dtype == np.int32:
        arrays = _core.transpose(csr.indptr, csr.indices, csr.data, csr.shape[1])
        transposed = sp.csr_array(arrays, shape=shape)
    else:  # of more entries than the core counts
        transposed = sp.csr_array(csr.T)
    transposed.has_canonical_format = True  # columns come in the order of the rows that they were
    return transposed


def check_integers(name: str, array: Any) -> None:
    """Refuse indices that are not whole numbers; an empty list, which NumPy takes for floats, may pass."""
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, not {array.dtype}")


def check_lengths(shape: tuple[int, int]) -> None:
    if max(shape) > INDEX_LIMIT:
        raise ValueError(
            f"shape {shape} is too large; at most {INDEX_LIMIT} (2**31 - 1) rows and columns are allowed"
        )


def wanted_dtype(dtype: Any) -> np.dtype[Any] | None:
    """The dtype that a caller asks for, checked; None if it asks for none."""
    if dtype is None:
        return None
    try:
        wanted: np.dtype[Any] = np.dtype(dtype).newbyteorder("=")
    except Exception as error:  # NumPy raises what it pleases: TypeError, ValueError, SyntaxError, ...
        raise TypeError(f"dtype={dtype!r} is not a dtype; allowed are {NAMES}") from error
    if not is_value_type(wanted):
        raise TypeError(f"dtype {wanted} is not supported; allowed are {NAMES}")
    return wanted


def storage_dtype(given: np.dtype[Any], wanted: np.dtype[Any] | None) -> np.dtype[Any]:
    """The type that values of a given type are stored in."""
    if given.kind not in "biufc":
        raise TypeError(f"dtype {given} is not supported; {_ALLOWED_TYPES}")
    if wanted is not None:
        if given.kind == "c" and wanted.kind != "c":
            raise TypeError(
                f"dtype {given} cannot be stored as {wanted}, which has no imaginary part; give A.real or a "
                "complex dtype"
            )
        return wanted
    native = given.newbyteorder("=")
    if is_value_type(native):
        return native
    if given.itemsize > 8:
        raise TypeError(f"dtype {given} is not supported; {_ALLOWED_TYPES}. Give dtype= to round the values")
    return np.dtype(np.float64)
