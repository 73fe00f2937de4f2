"""A rank's rows, cut into the block that meets its own piece of x and the block that meets others'."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ..inputs.compressed import storage_dtype, wanted_dtype
from ..operator.construct import aslinearoperator
from .ranges import Ranges

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Blocks:
    """The operators of both blocks.

    Attributes
    ----------
    inner : SparseOperator
        Every row, with the columns that belong to the rank's own piece of x.
    halo : SparseOperator or None
        The rows in `boundary` only, with the columns in `needed`; None where there are no such.
    boundary : array of int
        The rows that need entries of x from other ranks, ascending.
    needed : array of int64
        Those entries, by their numbers in the whole x, ascending.
    """

    inner: Any
    halo: Any
    boundary: Array
    needed: Array

    def conj(self) -> Blocks:
        halo = None if self.halo is None else self.halo.conj()
        return Blocks(self.inner.conj(), halo, self.boundary, self.needed)

    def tocsr(self, cols: Ranges) -> sp.csr_array:
        """The rank's rows with their global columns, as one canonical matrix."""
        inner = self.inner.tocsr().tocoo()
        row, col, data = [inner.row], [inner.col.astype(np.int64) + cols.begin], [inner.data]
        if self.halo is not None:
            halo = self.halo.tocsr().tocoo()
            row.append(self.boundary[halo.row])
            col.append(self.needed[halo.col])
            data.append(halo.data)
        places = (np.concatenate(row), np.concatenate(col))
        shape = (self.inner.shape[0], cols.total)
        return sp.csr_array(sp.coo_array((np.concatenate(data), places), shape=shape)).sorted_indices()


def local_rows(A: Any, dtype: Any) -> sp.csr_array:
    """What a rank gives, checked, as CSR of a type that operators are stored in.

    Raises
    ------
    TypeError, ValueError
        If it is no matrix, or a broken one.
    """
    wanted = wanted_dtype(dtype)
    if isinstance(A, np.ndarray) and A.ndim == 2:
        A = sp.csr_array(A)
    if not sp.issparse(A) or len(A.shape) != 2:
        raise TypeError(
            f"A_local must be a SciPy sparse matrix with the rows of this rank, not {type(A).__name__}"
        )
    stored = storage_dtype(A.dtype, wanted)
    csr = sp.csr_array(A)
    csr.check_format(full_check=True)  # what follows trusts the index arrays
    return csr if csr.dtype == stored else csr.astype(stored)


def split(csr: sp.csr_array, cols: Ranges) -> tuple[sp.csr_array, sp.csr_array | None, Array, Array]:
    """Both blocks of a rank's rows as matrices, and what `Blocks` calls boundary and needed."""
    rows, (begin, end) = csr.shape[0], (cols.begin, cols.end)
    own = csr if len(cols) == csr.shape[1] else csr[:, begin:end]
    columns = own.indices.astype(np.int32, copy=False)
    inner = sp.csr_array((own.data, columns, _narrow(own.indptr)), shape=(rows, len(cols)))
    outside = np.diff(csr.indptr) - np.diff(own.indptr)
    boundary = np.flatnonzero(outside)
    if boundary.size == 0:
        return inner, None, boundary, np.empty(0, np.int64)
    there = csr[boundary]
    beyond = (there.indices < begin) | (there.indices >= end)
    needed, columns = np.unique(there.indices[beyond], return_inverse=True)
    offsets = _narrow(np.concatenate(([0], np.cumsum(outside[boundary], dtype=np.int64))))
    arrays = (there.data[beyond], columns.reshape(-1).astype(np.int32), offsets)
    halo = sp.csr_array(arrays, shape=(len(boundary), len(needed)))
    return inner, halo, boundary, needed.astype(np.int64)


def _narrow(offsets: Array) -> Array:
    return offsets.astype(np.int32) if offsets[-1] <= np.iinfo(np.int32).max else offsets


def build(
    inner: sp.csr_array, halo: sp.csr_array | None, boundary: Array, needed: Array, format: Any, **wanted: Any
) -> Blocks:
    """The operators: the inner block as asked for, the halo in the format that suits it.

    Raises
    ------
    As `aslinearoperator` does, of which `wanted` has the other arguments.
    """
    own = aslinearoperator(inner, format, **wanted)
    if halo is None:
        return Blocks(own, None, boundary, needed)
    general = {name: wanted[name] for name in ("device", "dtype", "tune")}
    return Blocks(own, aslinearoperator(halo, "auto", **general), boundary, needed)
