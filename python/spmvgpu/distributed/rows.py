"""What a rank holds: its rows, as a block and a halo.

The columns that belong to the rank's own piece of x are the block. The columns that belong to the pieces of
other ranks are the halo, which has only the rows and columns with entries::

                 own piece of x
    x:  . . . . | # # # # # # | . . . .
        - - - - +-------------+ - - - -
          o     |             |              o: an entry of the halo, in a row of `boundary`
                |    block    |   o             and a column of `needed`
            o   |             | o
        - - - - +-------------+ - - - -
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .._core import CsrSource
from .._util.types import Device, Format, HostArray
from ..arrays import is_sparse, on_host
from ..devices import CPU
from ..inputs.limits import ENTRY_LIMIT
from ..inputs.source import storage_dtype, wanted_dtype
from ..operator.construct import aslinearoperator
from ..operator.new_values import check_type
from ..operator.operator import SparseOperator
from .ranges import Ranges


@dataclass(frozen=True)
class LocalRows:
    """The operators of a rank's rows.

    Attributes
    ----------
    block : SparseOperator
        Every row, with the columns that belong to the rank's own piece of x.
    halo : SparseOperator or None
        The rows in `boundary` only, with the columns in `needed`; None where there are none.
    boundary : array of int
        The rows that need entries of x from other ranks, ascending.
    needed : array of int64
        The entries that they need, by their numbers in the whole x, ascending.
    """

    block: SparseOperator
    halo: SparseOperator | None
    boundary: HostArray
    needed: HostArray

    @property
    def operators(self) -> list[SparseOperator]:
        """The block, and the halo if there is one."""
        return [self.block] if self.halo is None else [self.block, self.halo]

    def conj(self) -> LocalRows:
        """The complex conjugate of the rows."""
        halo = None if self.halo is None else self.halo.conj()
        return LocalRows(self.block.conj(), halo, self.boundary, self.needed)

    def snapshot(self) -> LocalRows:
        """The same, with operators that keep the values that they have now."""
        halo = None if self.halo is None else self.halo._snapshot()
        return LocalRows(self.block._snapshot(), halo, self.boundary, self.needed)

    def divided(self, csr: sp.csr_array, cols: Ranges) -> list[sp.csr_array]:
        """Other rows, of which the block and the halo have all entries, for each of the operators.

        Raises
        ------
        ValueError
            For an entry outside of the block that the halo does not have.
        """
        entries = csr.tocoo()
        outside = (entries.col < cols.begin) | (entries.col >= cols.end)
        row, col = entries.row[outside], entries.col[outside]
        at_row, at_col = np.searchsorted(self.boundary, row), np.searchsorted(self.needed, col)
        lost = (np.append(self.boundary, -1)[at_row] != row) | (np.append(self.needed, -1)[at_col] != col)
        if lost.any():
            k = int(np.argmax(lost))
            raise ValueError(
                f"data has an entry in row {row[k]} of this rank and column {col[k]}, where the old matrix "
                "has none; entries may be left out, which become zero, but none may be added"
            )
        halo = sp.coo_array(
            (entries.data[outside], (at_row, at_col)), shape=(len(self.boundary), len(self.needed))
        )
        return [csr[:, cols.begin : cols.end], sp.csr_array(halo)][: len(self.operators)]

    def tocsr(self, cols: Ranges) -> sp.csr_array:
        """The rank's rows with the column numbers of the whole matrix, as one canonical matrix."""
        block = self.block.tocsr().tocoo()
        row, col, data = [block.row], [block.col.astype(np.int64) + cols.begin], [block.data]
        if self.halo is not None:
            halo = self.halo.tocsr().tocoo()
            row.append(self.boundary[halo.row])
            col.append(self.needed[halo.col])
            data.append(halo.data)
        places = (np.concatenate(row), np.concatenate(col))
        shape = (self.block.shape[0], cols.total)
        return sp.csr_array(sp.coo_array((np.concatenate(data), places), shape=shape)).sorted_indices()


def checked_rows(A: sp.sparray | HostArray, dtype: npt.DTypeLike | None) -> sp.csr_array:
    """The rows that a rank gives, as CSR of a type that operators are stored in.

    Raises
    ------
    TypeError, ValueError
        If they are no matrix, or a broken one.
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
    csr.check_format(full_check=True)  # the functions below trust the index arrays
    return csr.astype(stored, copy=False)


def rows_with(data: object, local: LocalRows, cols: Ranges) -> sp.csr_array:
    """The rows of a rank with the values that a caller gives `DistributedOperator.update_values`.

    Raises
    ------
    TypeError, ValueError
        If these are none, of another shape, or would be rounded.
    """
    dtype, shape = local.block.dtype, (local.block.shape[0], cols.total)
    if is_sparse(data) or len(getattr(data, "shape", ())) == 2:
        check_type(getattr(data, "dtype", dtype), dtype)
        made = checked_rows(cast("sp.sparray", data), dtype)
        if made.shape != shape:
            raise ValueError(f"data is a matrix of shape {made.shape}; the rows of this rank have {shape}")
        return made
    values = on_host("data", data)
    check_type(values.dtype, dtype)
    rows = local.tocsr(cols)
    if values.shape != (rows.nnz,):
        raise ValueError(
            f"data has shape {values.shape}; it must have shape ({rows.nnz},), in the order of "
            f"op.tocsr().data, or be a matrix of shape {shape}"
        )
    return sp.csr_array((values.astype(dtype), rows.indices, rows.indptr), shape=shape)


def split(csr: sp.csr_array, cols: Ranges) -> tuple[sp.csr_array, sp.csr_array | None, HostArray, HostArray]:
    """The matrices of the block and the halo, and `boundary` and `needed` of `LocalRows`."""
    begin, end = cols.begin, cols.end
    block = _columns(csr, begin, end)
    outside = np.diff(csr.indptr) - np.diff(block.indptr)
    boundary = np.flatnonzero(outside)
    if boundary.size == 0:
        return block, None, boundary, np.empty(0, np.int64)
    there = csr[boundary]
    beyond = (there.indices < begin) | (there.indices >= end)
    needed, columns = np.unique(there.indices[beyond], return_inverse=True)
    offsets = _narrow(np.concatenate(([0], np.cumsum(outside[boundary], dtype=np.int64))))
    arrays = (there.data[beyond], columns.reshape(-1).astype(np.int32), offsets)
    halo = sp.csr_array(arrays, shape=(len(boundary), len(needed)))
    return block, halo, boundary, needed.astype(np.int64)


def _columns(csr: sp.csr_array, begin: int, end: int) -> sp.csr_array:
    """Some columns, as a matrix with int32 indices; by all cores, if there are no more than int32 numbers."""
    shape = (csr.shape[0], end - begin)
    if max(csr.nnz, csr.shape[1]) <= ENTRY_LIMIT:
        offsets, columns = (np.require(array, np.int32, ["C", "A"]) for array in (csr.indptr, csr.indices))
        if begin == 0 and end == csr.shape[1]:
            return sp.csr_array((csr.data, columns, offsets), shape=shape)
        source = CsrSource(offsets, columns, np.require(csr.data, None, ["C", "A"]), csr.shape[1], CPU)
        return sp.csr_array(source.columns(begin, end).to_csr(), shape=shape)
    own = csr[:, begin:end]
    return sp.csr_array((own.data, own.indices.astype(np.int32), _narrow(own.indptr)), shape=shape)


def _narrow(offsets: HostArray) -> HostArray:
    return offsets.astype(np.int32) if offsets[-1] <= np.iinfo(np.int32).max else offsets


def build(
    csr: sp.csr_array,
    cols: Ranges,
    format: Format,
    device: Device,
    symmetric: Literal["hermitian"] | bool | None,
    tune: str,
    options: Mapping[str, Any],
) -> LocalRows:
    """Build the operators: the block as asked for, the halo in the format that suits it.

    It raises what `spmvgpu.aslinearoperator` raises, whose arguments these are.
    """
    block, halo, boundary, needed = split(csr, cols)
    own = aslinearoperator(block, format, device, symmetric=symmetric, tune=tune, **options)
    others = None if halo is None else aslinearoperator(halo, device=device, tune=tune)
    return LocalRows(own, others, boundary, needed)
