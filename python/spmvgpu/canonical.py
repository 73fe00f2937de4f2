"""Whatever a caller calls a sparse matrix, checked and made into canonical CSR."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

Symmetric = Literal[True, "lower", "upper"] | None

_INDEX_LIMIT = np.iinfo(np.int32).max


def canonical_csr(
    A: Any, *, shape: Any = None, dtype: Any = None, symmetric: Symmetric = None, wide: bool = False
) -> Any:
    """`A` as a ``csr_array`` with sorted int32 indices, no duplicates, and float32 or float64 data.

    Parameters
    ----------
    A : SciPy or CuPy sparse matrix or array, (data, indices, indptr) tuple, or dense 2-D array
        Never changed; the result has memory of its own, which an operator may keep.
    shape : tuple of int, optional
        Needed with, and only with, a tuple.
    dtype : dtype, optional
        float32 or float64. By default float32 stays and every other real type becomes float64.
    symmetric : {None, True, "lower", "upper"}
        With "lower" or "upper", `A` holds that triangle of a symmetric matrix and is completed.
    wide : bool
        Let a matrix with 2**31 or more stored entries pass, with int64 indices.

    Raises
    ------
    TypeError
        For a dtype that is not real, or an `A` that is no matrix.
    ValueError
        For arrays that do not describe a matrix.
    """
    csr = _as_csr(A, shape)
    target = _storage_dtype(csr.dtype, dtype)
    if csr.nnz > _INDEX_LIMIT and not wide:
        raise ValueError(
            f"the matrix has {csr.nnz} stored entries; at most {_INDEX_LIMIT} (2**31 - 1) fit one operator. "
            "Give a list of devices, device=[...], which may be a list of one"
        )
    index = np.int32 if csr.nnz <= _INDEX_LIMIT else csr.indices.dtype
    csr = sp.csr_array(
        (csr.data.astype(target), csr.indices.astype(index), csr.indptr.astype(index)), shape=csr.shape
    )
    if not csr.has_canonical_format:
        csr.sum_duplicates()
    if symmetric is not None:
        csr = _complete(csr, symmetric)
    return csr


def _as_csr(A: Any, shape: Any) -> Any:
    if isinstance(A, tuple):
        return _from_arrays(A, shape)
    if shape is not None:
        raise TypeError(
            "shape= goes with a (data, indices, indptr) tuple only; this matrix has a shape of its own"
        )
    if type(A).__module__.partition(".")[0] in ("cupy", "cupyx") and hasattr(A, "get"):
        A = A.get()
    if sp.issparse(A):
        _refuse_dtype(A.dtype)
        if A.ndim != 2:
            raise ValueError(f"A must have 2 dimensions, not {A.ndim}")
        _check_sparse(A)
        return A.tocsr()
    dense = np.asarray(A)
    _refuse_dtype(dense.dtype)
    if dense.ndim != 2:
        raise ValueError(
            "A must be a sparse matrix, a (data, indices, indptr) tuple or a 2-D array; "
            f"this has {dense.ndim} dimensions"
        )
    return sp.csr_array(dense.astype(_storage_dtype(dense.dtype, None), copy=False))


def _check_sparse(A: Any) -> None:
    """Refuse a SciPy object whose arrays were broken after it was made.

    SciPy's own conversions would follow them out of bounds.
    """
    rows, cols = A.shape
    if A.format in ("csr", "csc"):
        _check_structure(A.data, A.indices, A.indptr, A.shape if A.format == "csr" else (cols, rows))
    elif A.format == "bsr":
        height, width = A.blocksize
        _check_structure(A.data[:, 0, 0], A.indices, A.indptr, (rows // height, cols // width))
    else:
        _check_lengths(A.shape)
        if A.format == "coo":
            for name, indices, length in (("row", A.row, rows), ("col", A.col, cols)):
                if indices.size != A.data.size:
                    raise ValueError(
                        f"mismatched lengths: data has {A.data.size} entries, {name} {indices.size}"
                    )
                _check_range(f"{name} indices", indices, length)


def _from_arrays(arrays: tuple[Any, ...], shape: Any) -> Any:
    if len(arrays) != 3:
        raise ValueError(f"a tuple must be (data, indices, indptr); this one has {len(arrays)} entries")
    if shape is None:
        raise TypeError("a (data, indices, indptr) tuple needs shape=(rows, columns)")
    data, indices, indptr = (np.asarray(array) for array in arrays)
    _refuse_dtype(data.dtype)
    for name, array in (("indices", indices), ("indptr", indptr)):
        if array.dtype.kind not in "iu":
            raise TypeError(f"{name} must hold integers, not {array.dtype}")
    rows_cols = _check_shape(shape)
    _check_structure(data, indices, indptr, rows_cols)
    return sp.csr_array((data, indices, indptr), shape=rows_cols)


def _check_shape(shape: Any) -> tuple[int, int]:
    try:
        rows, cols = shape
        checked = (int(rows), int(cols))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"shape must be two whole numbers (rows, columns), not {shape!r}") from None
    if checked != (rows, cols) or min(checked) < 0 or max(checked) > _INDEX_LIMIT:
        raise ValueError(f"shape must be two whole numbers from 0 to {_INDEX_LIMIT}, not {shape!r}")
    return checked


def _check_structure(data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> None:
    """Refuse arrays that a kernel would follow out of bounds. SciPy itself checks only part of this."""
    rows, cols = shape
    if not data.ndim == indices.ndim == indptr.ndim == 1:
        raise ValueError(
            "data, indices and indptr must be 1-D; "
            f"they have {data.ndim}, {indices.ndim} and {indptr.ndim} dimensions"
        )
    _check_lengths(shape)
    if indptr.size != rows + 1:
        raise ValueError(f"indptr has length {indptr.size}; {rows} rows need {rows + 1}")
    if indptr[0] != 0:
        raise ValueError(f"indptr must begin with 0, not {indptr[0]}")
    if (indptr[1:] < indptr[:-1]).any():
        row = int(np.argmax(indptr[1:] < indptr[:-1]))
        raise ValueError(
            f"indptr must not decrease; it goes from {indptr[row]} to {indptr[row + 1]} at row {row}"
        )
    if not data.size == indices.size == indptr[-1]:
        raise ValueError(
            f"mismatched lengths: data has {data.size} entries, indices {indices.size}, "
            f"and indptr ends with {indptr[-1]}"
        )
    _check_range("column indices", indices, cols)


def _check_lengths(shape: tuple[int, int]) -> None:
    if max(shape) > _INDEX_LIMIT:
        raise ValueError(
            f"shape {shape} is too large: at most {_INDEX_LIMIT} (2**31 - 1) rows and columns fit"
        )


def _check_range(name: str, indices: Any, length: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= length):
        raise ValueError(
            f"{name} must lie in 0..{length - 1}; these reach from {indices.min()} to {indices.max()}"
        )


def _refuse_dtype(dtype: np.dtype[Any]) -> None:
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise TypeError(
            f"dtype {dtype} is not supported; allowed are float32, float64, and integers or bool (as float64)"
        )


def _storage_dtype(given: np.dtype[Any], wanted: Any) -> np.dtype[Any]:
    if wanted is None:
        return np.dtype(np.float32 if given.newbyteorder("=") == np.float32 else np.float64)
    dtype: np.dtype[Any] = np.dtype(wanted).newbyteorder("=")
    if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise TypeError(f"dtype {dtype} is not supported; allowed are float32 and float64")
    return dtype


def _complete(csr: Any, symmetric: Any) -> Any:
    if symmetric not in (True, "lower", "upper"):
        raise ValueError(f"symmetric={symmetric!r} is not allowed; give None, True, 'lower' or 'upper'")
    if csr.shape[0] != csr.shape[1]:
        raise ValueError(f"a symmetric matrix is square; this one has shape {csr.shape}")
    if symmetric is True:
        return csr
    rows = np.repeat(np.arange(csr.shape[0], dtype=np.int32), np.diff(csr.indptr))
    outside = csr.indices > rows if symmetric == "lower" else csr.indices < rows
    if outside.any():
        k = int(np.argmax(outside))
        raise ValueError(
            f"symmetric={symmetric!r}, but entry ({rows[k]}, {csr.indices[k]}) lies outside that triangle; "
            "give symmetric=True for a matrix that is stored in full"
        )
    # Through coordinates, so that explicitly stored zeros stay.
    mirrored = csr.indices != rows
    data = np.concatenate([csr.data, csr.data[mirrored]])
    all_rows = np.concatenate([rows, csr.indices[mirrored]])
    all_cols = np.concatenate([csr.indices, rows[mirrored]])
    full = sp.coo_array((data, (all_rows, all_cols)), shape=csr.shape).tocsr()
    full.sort_indices()
    return full
