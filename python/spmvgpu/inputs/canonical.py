"""Whatever a caller calls a sparse matrix, checked and made into canonical CSR."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from .. import _core
from .._util.types import DType, HostArray
from ..arrays import as_array, library_of, on_host
from .compressed import compressed, storage_dtype, wanted_dtype
from .csr import CanonicalCsr
from .limits import ENTRY_LIMIT, INDEX_LIMIT
from .sparse import csr_of_sparse, scipy_sparse

Symmetric = Literal["lower", "upper", "hermitian"] | bool | None


def canonical_csr(
    A: Any, *, shape: Any = None, dtype: Any = None, symmetric: Symmetric = None
) -> CanonicalCsr:
    """`A` with sorted indices, no duplicates, and data of a value type.

    The index arrays are copies, and the copies are what is checked: a thread that changes those of `A`
    meanwhile may change which matrix this is, but brings no index out of range into it.

    Parameters
    ----------
    A : SciPy or CuPy sparse matrix or array, SparseOperator, (data, indices, indptr) tuple, or 2-D array
        Never changed; the values of the result may share its memory.
    shape : tuple of int, optional
        Needed with, and only with, a tuple.
    dtype : dtype, optional
        A value type. By default such a type stays and every other real one becomes float64.
    symmetric : {None, False, True, "lower", "upper", "hermitian"}
        With "lower" or "upper", `A` holds that triangle of a symmetric matrix and is completed; with
        "hermitian", it is checked that `A` is its own conjugate transpose.

    Raises
    ------
    TypeError
        For a dtype that is not supported, or an `A` that is no matrix.
    ValueError
        For arrays that do not describe a matrix, and for one that is not as `symmetric` says.
    """
    declared = checked_symmetry(symmetric)
    csr = _as_csr(A, shape, wanted_dtype(dtype))
    return csr if declared is None else _complete(csr, declared)


_Declared = Literal[True, "lower", "upper", "hermitian"]


def checked_symmetry(symmetric: Any) -> _Declared | None:
    """What a caller says of a matrix's symmetry; None where it says nothing."""
    if symmetric is None or (isinstance(symmetric, bool | np.bool_) and not symmetric):
        return None
    if isinstance(symmetric, bool | np.bool_):
        return True
    allowed = "give None or False, True, 'lower', 'upper' or 'hermitian'"
    if not isinstance(symmetric, str):
        raise TypeError(f"symmetric={symmetric!r} is not allowed; {allowed}")
    if symmetric == "lower":
        return "lower"
    if symmetric == "upper":
        return "upper"
    if symmetric == "hermitian":
        return "hermitian"
    raise ValueError(f"symmetric={symmetric!r} is not allowed; {allowed}")


def _as_csr(A: Any, shape: Any, wanted: DType | None) -> CanonicalCsr:
    if isinstance(A, tuple):
        return _from_arrays(A, shape, wanted)
    if shape is not None:
        raise TypeError("shape= is allowed only with a (data, indices, indptr) tuple; leave it out")
    matrix = matrix_of(A)
    return csr_of_sparse(matrix, wanted) if sp.issparse(matrix) else _from_dense(matrix, type(A), wanted)


def matrix_of(A: Any) -> Any:
    """What a caller calls a matrix: as a SciPy sparse matrix, or as a NumPy array of any dimensions.

    Raises
    ------
    TypeError
        For what is neither.
    """
    if isinstance(A, str | bytes | os.PathLike):
        raise TypeError(f"A is {A!r}, not a matrix; read a file with spmvgpu.matrix_io.read_matrix(path)")
    if isinstance(A, LinearOperator) and not hasattr(A, "tocsr"):
        raise TypeError(f"A is a {type(A).__name__}, whose entries cannot be read; {_ALLOWED}")
    sparse = scipy_sparse(A)
    if sparse is not None:
        return sparse
    dense = _on_host("A", A)
    if dense.ndim == 0:
        raise TypeError(f"A is of type {type(A).__name__}, not a matrix; {_ALLOWED}")
    return dense


_ALLOWED = "give a sparse matrix, a (data, indices, indptr) tuple with shape=, or a 2-D array"


def _on_host(name: str, array: object) -> HostArray:
    return as_array(name, array) if library_of(array) is None else on_host(name, array)


def _from_arrays(arrays: tuple[Any, ...], shape: Any, wanted: DType | None) -> CanonicalCsr:
    if len(arrays) != 3:
        raise ValueError(f"a tuple must be (data, indices, indptr); this one has {len(arrays)} entries")
    if shape is None:
        raise TypeError("a (data, indices, indptr) tuple needs shape=(rows, columns)")
    data, indices, indptr = map(_on_host, ("data", "indices", "indptr"), arrays)
    return compressed(data, indices, indptr, _checked_shape(shape), storage_dtype(data.dtype, wanted))


def _from_dense(dense: HostArray, given: type, wanted: DType | None) -> CanonicalCsr:
    if dense.ndim != 2:
        raise ValueError(f"A is of type {given.__name__} and has {dense.ndim} dimensions; {_ALLOWED}")
    target = storage_dtype(dense.dtype, wanted)
    # A copy, so that no other thread changes what is counted before it is stored.
    csr = sp.csr_array(np.array(dense, target, order="C"))
    return compressed(csr.data, csr.indices, csr.indptr, csr.shape, target)


def _checked_shape(shape: Any) -> tuple[int, int]:
    try:
        rows, cols = shape
        checked = (int(rows), int(cols))
    except (TypeError, ValueError, OverflowError, np.ma.MaskError):
        raise ValueError(f"shape must be two whole numbers (rows, columns), not {shape!r}") from None
    if checked != (rows, cols) or min(checked) < 0 or max(checked) > INDEX_LIMIT:
        raise ValueError(f"shape must be two whole numbers from 0 to {INDEX_LIMIT}, not {shape!r}")
    return checked


def _complete(csr: CanonicalCsr, symmetric: _Declared) -> CanonicalCsr:
    if csr.shape[0] != csr.shape[1]:
        kind = "Hermitian" if symmetric == "hermitian" else "symmetric"
        raise ValueError(f"a {kind} matrix is square; this one has shape {csr.shape}")
    if symmetric is True:
        return csr
    if symmetric == "hermitian":
        _check_hermitian(csr)
        return csr
    rows = np.repeat(np.arange(csr.shape[0], dtype=np.int32), np.diff(csr.indptr))
    outside = csr.indices > rows if symmetric == "lower" else csr.indices < rows
    if outside.any():
        k = int(np.argmax(outside))
        raise ValueError(
            f"symmetric={symmetric!r}, but entry ({rows[k]}, {csr.indices[k]}) is outside this triangle; "
            "give symmetric=True for a matrix that is stored in full"
        )
    mirrored = csr.indices != rows
    # Through coordinates, so that explicitly stored zeros stay.
    data = np.concatenate([csr.data, csr.data[mirrored]])
    all_rows = np.concatenate([rows, csr.indices[mirrored]])
    all_cols = np.concatenate([csr.indices, rows[mirrored]])
    full = sp.coo_array((data, (all_rows, all_cols)), shape=csr.shape)
    full.has_canonical_format = True  # else SciPy would sort; `compressed` does so on all cores
    full = full.tocsr()
    return compressed(full.data, full.indices, full.indptr, full.shape, csr.dtype)


def _check_hermitian(csr: CanonicalCsr) -> None:
    if csr.indptr.dtype != np.int32:
        raise ValueError(
            f"symmetric='hermitian' is allowed for at most {ENTRY_LIMIT} (2**31 - 1) stored entries, which "
            f"are checked; this matrix has {csr.nnz}; leave it out"
        )
    found = _core.asymmetry(csr.indptr, csr.indices, csr.data, True)
    if found:
        raise ValueError(f"symmetric='hermitian', but the matrix is not: {found}")
