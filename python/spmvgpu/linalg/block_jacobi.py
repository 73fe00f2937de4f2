"""The preconditioner by the inverses of the diagonal blocks."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from .._util.arguments import whole_number, with_hints
from .._util.show import fit
from .._util.types import HostArray
from ..devices import at_most
from ..operator.construct import aslinearoperator
from ..operator.operator import SparseOperator
from ..operator.stored import StoredMatrix
from .diagonals import diagonal_of, what_fits, with_unit_rows
from .preconditioners import (
    matrix_with,
    of_own_block,
    requested_device,
    square_operator,
)


class BlockJacobiOperator(SparseOperator):
    """Multiplication by the inverses of the blocks on the diagonal of a matrix, as `block_jacobi` returns it.

    A `SparseOperator`. Operators made of it, copies and pickles too, keep the values that they have.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> A = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 4.0]])
    >>> sg.linalg.block_jacobi(sg.aslinearoperator(A, device="cpu"), 2).toarray()
    array([[ 1.  , -1.  ,  0.  ],
           [-1.  ,  2.  ,  0.  ],
           [ 0.  ,  0.  ,  0.25]])
    """

    def __init__(self, stored: StoredMatrix, pattern_of: StoredMatrix | None = None, block: int = 0) -> None:
        super().__init__(stored)
        self._pattern_of, self._block = pattern_of, block  # the values of that matrix may change

    def update_values(self, data: object) -> None:
        """Compute the inverses again for a matrix with the same sparsity pattern and other values.

        As for every operator, `T`, `H` and whatever else was made of it before keep the old values.

        Parameters
        ----------
        data : sparse matrix, SparseOperator, dense matrix, or (nnz,) array
            The matrix or its values, as `SparseOperator.update_values` takes them.

        Raises
        ------
        TypeError, ValueError
            As `SparseOperator.update_values`. TypeError for a copy, which does not know the matrix.
        numpy.linalg.LinAlgError
            As `block_jacobi`. After an error, the preconditioner has the old values.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> A = np.array([[2.0, 1.0], [1.0, 1.0]])
        >>> M = sg.linalg.block_jacobi(sg.aslinearoperator(A, device="cpu"), 2)
        >>> M.update_values(A / 2)
        >>> M.toarray()
        array([[ 2., -2.],
               [-2.,  4.]])
        """
        stored = self._pattern_of
        with at_most(None if stored is None else stored.description.threads):
            super().update_values(_inverse_of_blocks(matrix_with(self, data).host, self._block).data)

    def __repr__(self) -> str:
        shown = super().__repr__().replace("SparseOperator", type(self).__name__)
        return fit(f"{shown[:-1]}, blocks of {self._block}>") if self._block else shown

    def __reduce__(self) -> tuple[object, ...]:
        return _block_jacobi_of, (SparseOperator(self._stored),)


def _block_jacobi_of(op: SparseOperator) -> BlockJacobiOperator:
    """What pickle calls."""
    return BlockJacobiOperator(op._stored)


@with_hints
@of_own_block
def block_jacobi(op: object, block: int = 3) -> BlockJacobiOperator:
    """Return the block Jacobi preconditioner of a matrix.

    It multiplies by the inverses of the square blocks on the diagonal. Use it for matrices with several
    unknowns per node, such as elasticity.

    Parameters
    ----------
    op : SparseOperator, array, sparse matrix or DistributedOperator
        Square. A matrix is converted with the defaults of `aslinearoperator`. For an operator over ranks,
        each rank makes the preconditioner of its diagonal block.
    block : int, default 3
        Rows of a block, from 1 to 1024. The last block may have fewer.

    Returns
    -------
    BlockJacobiOperator
        A `SparseOperator` on the device and of the dtype of `op`. It keeps the matrix in memory, for its
        `update_values`.

    Raises
    ------
    TypeError, ValueError
        If `op` is neither a matrix nor an operator that has one, is not square, or if `block` is out
        of range.
    numpy.linalg.LinAlgError
        If a block is not finite, or is singular to working precision.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.elasticity3d(4), device="cpu")
    >>> M = sg.linalg.block_jacobi(op, 3)
    >>> sg.linalg.cg(op, np.ones(op.shape[0]), M=M)[1]
    0
    """
    own = square_operator(op)
    size = whole_number("block", block, 1, 1024)
    inverse: SparseOperator = aslinearoperator(
        _inverse_of_blocks(own.tocsr(), size), device=requested_device(own)
    )
    return BlockJacobiOperator(inverse._stored, own._stored, size)


def _inverse_of_blocks(csr: sp.csr_array, size: int) -> sp.csr_array:
    """The matrix with the inverses of blocks, in which all their entries are stored."""
    n, A = csr.shape[0], with_unit_rows(csr).tocoo()
    within = A.row // size == A.col // size
    row, col = A.row[within], A.col[within]
    blocks = np.zeros((-(-n // size), size, size), np.result_type(csr.dtype, np.float64))
    blocks[row // size, row % size, col % size] = A.data[within]
    for missing in range(n, len(blocks) * size):  # the last block may have fewer rows of the matrix
        blocks[-1, missing % size, missing % size] = 1.0
    inverses = _inverses(blocks, csr, size)
    places = np.arange(len(blocks) + 1)
    inverse = sp.bsr_array((inverses, places[:-1], places), shape=(len(blocks) * size,) * 2)
    return sp.csr_array(inverse)[:n, :n].astype(csr.dtype)


def _inverses(blocks: HostArray, A: sp.csr_array, size: int) -> HostArray:
    """The inverses of blocks, or LinAlgError that says which one has none."""
    try:
        inverses: HostArray = np.linalg.inv(blocks)
    except np.linalg.LinAlgError:
        inverses = np.array([_inverse_or_nan(block) for block in blocks])
    with np.errstate(all="ignore"):
        # An inverse times its block has ones on its diagonal: how much larger are the terms of these sums?
        # Other than the condition number, that does not depend on how rows and columns are scaled.
        cancelled = np.abs(inverses * blocks.swapaxes(1, 2)).sum(axis=2).max(axis=1)
        fits = np.isfinite(inverses.astype(A.dtype)).all(axis=(1, 2))
    bad = np.flatnonzero(~(fits & (cancelled * np.finfo(A.dtype).eps < 1)))
    if len(bad):
        begin, end = int(bad[0]) * size, min((int(bad[0]) + 1) * size, A.shape[0])
        why, instead = "contains inf or NaN", "a matrix without them"
        if np.isfinite(blocks[bad[0]]).all():
            why = "is singular"
            instead = f"another block size than {size}, or {what_fits(diagonal_of(A), A.dtype)}"
        raise np.linalg.LinAlgError(
            f"block {bad[0]} of the diagonal, rows {begin} to {end - 1}, {why} (the first of {len(bad)} "
            f"among {len(blocks)} blocks); use {instead}"
        )
    return inverses


def _inverse_or_nan(block: HostArray) -> HostArray:
    try:
        inverse: HostArray = np.linalg.inv(block)
    except np.linalg.LinAlgError:
        return np.full_like(block, np.nan)
    return inverse
