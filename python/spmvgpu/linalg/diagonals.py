"""Diagonals of matrices, and their inverses."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from .._util.types import DType, HostArray
from ..operator.operator import SparseOperator
from .systems import OverRanks


def empty_rows(csr: sp.csr_array) -> HostArray:
    """Of each row, whether it has no entry but zeros."""
    before = np.concatenate(([0], np.cumsum(csr.data != 0)))
    empty: HostArray = np.diff(before[csr.indptr]) == 0
    return empty


def diagonal_of(matrix: SparseOperator | OverRanks | sp.csr_array) -> HostArray:
    """The diagonal that preconditioners invert: there is a one in an empty row, whose residual stays."""
    diagonal: HostArray = matrix.diagonal()
    if diagonal.all():
        return diagonal
    try:
        rows = matrix.tocsr()
    except TypeError:  # the transpose of an operator over ranks holds columns
        return diagonal
    return np.where(empty_rows(rows), diagonal.dtype.type(1), diagonal)


def with_unit_rows(csr: sp.csr_array) -> sp.csr_array:
    """A canonical matrix, with a row of the identity in place of each empty one."""
    empty = empty_rows(csr)
    if not empty.any():
        return csr
    lengths, rows = np.diff(csr.indptr), np.flatnonzero(empty)
    stays = ~np.repeat(empty, lengths)
    places = np.cumsum(np.where(empty, 0, lengths))[rows]  # where new entries go among those that stay
    indptr = np.concatenate(([0], np.cumsum(np.where(empty, 1, lengths)))).astype(csr.indptr.dtype)
    indices, data = np.insert(csr.indices[stays], places, rows), np.insert(csr.data[stays], places, 1)
    made = sp.csr_array((data, indices, indptr), shape=csr.shape)
    made.has_canonical_format = True
    return made


def inverse_of(diagonal: HostArray, dtype: DType) -> HostArray:
    """The inverse of a diagonal; not finite where there is none.

    Imaginary parts that are rounding errors, of a Hermitian matrix that was computed, are left out.
    """
    rounding = np.sqrt(np.finfo(diagonal.dtype).eps)
    is_real = np.abs(diagonal.imag) <= rounding * np.abs(diagonal.real)
    with np.errstate(all="ignore"):
        inverse: HostArray = (1 / np.where(is_real, diagonal.real, diagonal)).astype(dtype)
    inverse[~np.isfinite(diagonal)] = np.nan
    return inverse


def positive_inverse(name: str, diagonal: HostArray, dtype: DType, first_row: int = 0) -> HostArray:
    """The inverse of a diagonal, or of a piece from `first_row` on; LinAlgError if it is not positive."""
    inverse = inverse_of(diagonal, dtype)
    bad = np.flatnonzero(~((inverse.real > 0) & (inverse.imag == 0) & np.isfinite(inverse)))
    if len(bad):
        raise np.linalg.LinAlgError(
            f"the matrix is not positive definite, which {name} requires: {len(bad)} of {len(diagonal)} "
            f"diagonal entries are not positive or have no finite inverse in {dtype}, the first in row "
            f"{first_row + bad[0]} ({diagonal[bad[0]]:g}); use {what_fits(diagonal, dtype)}"
        )
    return inverse.real.astype(dtype)


def what_fits(diagonal: HostArray, dtype: DType) -> str:
    """What solves with a matrix that a preconditioner refuses, for its message."""
    if not np.isfinite(diagonal).all():
        return "a matrix without inf or NaN"
    inverse = inverse_of(diagonal, dtype)
    if not np.isfinite(inverse).all():
        return "gmres or bicgstab without M, or minres without M if the matrix is symmetric"
    if not ((inverse.real > 0) & (inverse.imag == 0)).all():
        return (
            "gmres or bicgstab with M=1 / op.diagonal(), or minres with M=1 / abs(op.diagonal()) if the "
            "matrix is symmetric"
        )
    return "jacobi(op), with minres or gmres if the matrix is not positive definite"
