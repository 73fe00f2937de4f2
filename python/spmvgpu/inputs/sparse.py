"""SciPy's sparse matrices, of every kind, and dense ones, made into canonical CSR.

Their arrays may have been broken, or replaced by others, after they were made, and SciPy's own conversions
would follow them out of bounds. So every array is copied, the copy is checked, and SciPy converts the copy.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._util.types import DType, HostArray
from ..arrays import as_array
from .compressed import check_integers, check_lengths, compressed, pattern, storage_dtype
from .csr import CanonicalCsr

_Wanted = DType | None


def csr_of_sparse(A: Any, wanted: _Wanted) -> CanonicalCsr:
    """A SciPy sparse matrix or array as a canonical matrix.

    Parameters
    ----------
    A : sparse matrix or array
    wanted : dtype or None
        As `canonical_csr` takes it, checked.

    Raises
    ------
    TypeError
        For values or indices of a type that is not supported.
    ValueError
        For arrays that do not describe a matrix.
    """
    dimensions = len(A.shape)  # of older versions of SciPy, ndim is 2 whatever the shape
    if dimensions != 2:
        raise ValueError(f"A must have 2 dimensions, not {dimensions}")
    check_lengths(A.shape)
    convert = _CONVERSIONS.get(A.format)
    if convert is None:
        A, convert = A.tocsr(), _from_csr
    try:
        return convert(A, wanted)
    except (AttributeError, IndexError, KeyError, OverflowError) as error:
        raise ValueError(
            f"A is an invalid {type(A).__name__}: its attributes do not fit together ({error})"
        ) from error


def csr_of_dense(dense: HostArray, wanted: _Wanted) -> CanonicalCsr:
    """A 2-D array as a canonical matrix."""
    target = storage_dtype(dense.dtype, wanted)
    # A copy, so that no other thread changes what is counted before it is stored.
    return _from_csr(sp.csr_array(np.array(dense, target, order="C")), target)


def _from_csr(A: Any, wanted: _Wanted) -> CanonicalCsr:
    data, indices, indptr = _arrays(A, "data", "indices", "indptr")
    return compressed(data, indices, indptr, A.shape, storage_dtype(data.dtype, wanted))


def _from_csc(A: Any, wanted: _Wanted) -> CanonicalCsr:
    data, indices, indptr = _arrays(A, "data", "indices", "indptr")
    dtype = storage_dtype(data.dtype, wanted)
    transposed = compressed(data, indices, indptr, A.shape[::-1], dtype, axis="row")
    return transposed.transposed()


def _from_bsr(A: Any, wanted: _Wanted) -> CanonicalCsr:
    data, indices, indptr = _arrays(A, "data", "indices", "indptr")
    dtype = storage_dtype(data.dtype, wanted)
    if data.ndim != 3 or data.shape[0] != indices.size or 0 in data.shape[1:]:
        raise ValueError(
            f"mismatched lengths: data has shape {data.shape}, but there are {indices.size} block indices"
        )
    blocks = data.shape[1:]
    if A.shape[0] % blocks[0] or A.shape[1] % blocks[1]:
        raise ValueError(f"shape {A.shape} cannot be divided into blocks of shape {blocks}")
    shape = (A.shape[0] // blocks[0], A.shape[1] // blocks[1])
    indptr, indices, _ = pattern(indices, indptr, shape, axis="block column")
    copy = sp.bsr_array((np.array(data, dtype, order="C"), indices, indptr), shape=A.shape)
    return _from_csr(copy.tocsr(), wanted)


def _from_coo(A: Any, wanted: _Wanted) -> CanonicalCsr:
    data, row, col = _arrays(A, "data", "row", "col")
    return _from_triplets(data, row, col, A.shape, wanted)


def _from_triplets(
    data: HostArray, row: HostArray, col: HostArray, shape: tuple[int, int], wanted: _Wanted
) -> CanonicalCsr:
    dtype = storage_dtype(data.dtype, wanted)
    row, col = _checked_indices("row", row, data, shape[0]), _checked_indices("col", col, data, shape[1])
    coo = sp.coo_array((np.array(data, dtype), (row, col)), shape=shape)
    coo.has_canonical_format = True  # else SciPy would sort; `compressed` does so on all cores
    return _from_csr(coo.tocsr(), wanted)


def _checked_indices(name: str, indices: HostArray, data: HostArray, length: int) -> HostArray:
    """Copies of row or column numbers, as int32."""
    if indices.ndim != 1 or indices.shape != data.shape:
        raise ValueError(f"mismatched lengths: data has shape {data.shape}, {name} {indices.shape}")
    check_integers(f"{name} indices", indices)
    copy = np.array(indices)
    if copy.size and (copy.min() < 0 or copy.max() >= length):
        raise ValueError(
            f"{name} indices must lie in 0..{length - 1}; these reach from {copy.min()} to {copy.max()}"
        )
    return copy.astype(np.int32, copy=False)


def _from_dia(A: Any, wanted: _Wanted) -> CanonicalCsr:
    data, offsets = _arrays(A, "data", "offsets")
    dtype = storage_dtype(data.dtype, wanted)
    if data.ndim != 2 or offsets.shape != data.shape[:1]:
        raise ValueError(f"mismatched lengths: data has shape {data.shape}, offsets {offsets.shape}")
    check_integers("offsets", offsets)
    copy = np.array(offsets) if offsets.size else np.zeros(0, np.int32)  # none may be of any type
    if len(np.unique(copy)) != copy.size:
        raise ValueError("offsets contains a diagonal twice")
    inside = (copy > -A.shape[0]) & (copy < A.shape[1])  # SciPy would wrap what does not fit int32
    diagonals = np.array(data, dtype, order="C")[inside]
    dia = sp.dia_array((diagonals, copy[inside].astype(np.int32)), shape=A.shape)
    return _from_csr(dia.tocsr(), wanted)


def _from_lil(A: Any, wanted: _Wanted) -> CanonicalCsr:
    for name, lists in (("rows", A.rows), ("data", A.data)):
        if not all(isinstance(row, list) for row in lists):
            raise ValueError(f"{name} of a lil matrix must contain lists only")
    rows, values = ([list(row) for row in lists] for lists in (A.rows, A.data))
    lengths = [len(row) for row in rows]
    if lengths != [len(row) for row in values]:
        raise ValueError(
            "mismatched lengths: rows and data of the lil matrix have lists of different lengths"
        )
    data = _flat("data", values)
    dtype = storage_dtype(data.dtype, storage_dtype(A.dtype, wanted))
    indptr = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    return compressed(data, _flat("rows", rows), indptr, A.shape, dtype)


def _from_dok(A: Any, wanted: _Wanted) -> CanonicalCsr:
    entries = list(A.items())
    for key, _ in entries:
        if not isinstance(key, tuple) or len(key) != 2:
            raise ValueError(f"the keys of a dok matrix must be pairs (row, column), not {key!r}")
    data = as_array("values", [value for _, value in entries])
    row, col = (as_array("keys", [key[axis] for key, _ in entries]) for axis in (0, 1))
    return _from_triplets(data, row, col, A.shape, storage_dtype(A.dtype, wanted))


def _flat(name: str, lists: list[list[Any]]) -> HostArray:
    """All entries in one array, of the type that NumPy finds."""
    return as_array(name, list(chain.from_iterable(lists)))


def _arrays(A: Any, *names: str) -> list[HostArray]:
    return [as_array(name, getattr(A, name)) for name in names]


_CONVERSIONS: dict[str, Callable[[Any, _Wanted], CanonicalCsr]] = {
    "csr": _from_csr,
    "csc": _from_csc,
    "bsr": _from_bsr,
    "coo": _from_coo,
    "dia": _from_dia,
    "lil": _from_lil,
    "dok": _from_dok,
}
