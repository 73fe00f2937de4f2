"""Unchecked CSR arrays, made into canonical CSR: copied, checked, sorted, summed.

Every way from a caller's matrix to an operator ends here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._util.types import DType, HostArray
from .._util.value_types import NAMES, is_value_type
from . import limits
from .csr import CanonicalCsr
from .limits import INDEX_LIMIT

_ALLOWED_TYPES = f"allowed are {NAMES}, and integers or bool (as float64)"


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
    if max(shape) > INDEX_LIMIT:
        raise ValueError(
            f"shape {shape} is too large; at most {INDEX_LIMIT} (2**31 - 1) rows and columns are allowed"
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
