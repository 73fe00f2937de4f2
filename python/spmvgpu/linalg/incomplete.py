"""Incomplete factorisations without fill-in, solved with on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..operator import SparseOperator
from ..value_types import core_class
from .preconditioners import DevicePreconditioner, check_operator


class IncompleteFactors(DevicePreconditioner):
    """Division by incomplete factors of a matrix; made by `ilu0` and `ic0`.

    Attributes
    ----------
    nbytes : int
        Bytes of the factors on their device.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[2.0, 1.0], [0.0, 4.0]]), device="cpu")
    >>> sg.linalg.ilu0(op) @ np.array([4.0, 4.0])  # no entry is left out, so it is the inverse
    array([1.5, 1. ])
    """

    def __init__(self, op: SparseOperator, factors: Any, is_symmetric: bool) -> None:
        super().__init__(op)
        self._factors = factors
        self._is_symmetric = is_symmetric

    @property
    def nbytes(self) -> int:
        return int(self._factors.nbytes)

    def _core_map(self) -> Any:
        return core_class("FactorsMap", self.dtype)(self._factors, self._memory)

    def _adjoint(self) -> IncompleteFactors:
        if self._is_symmetric:
            return self
        raise NotImplementedError(
            "incomplete LU factors are not applied transposed; ic0 is its own transpose"
        )


def ilu0(op: SparseOperator) -> IncompleteFactors:
    """The incomplete LU factors of a matrix that have its own entries and no others.

    Saad, Iterative Methods for Sparse Linear Systems, section 10.3. The factors are computed on the CPU, in
    double precision, and solved with on the operator's device: row by row, as soon as the unknowns are known
    that a row needs (Liu et al. 2016). How much that does at once is up to the matrix: a grid of n x n points
    in their natural order has 2 n - 1 steps that follow each other.

    Parameters
    ----------
    op : SparseOperator
        Square; a preconditioner for `bicgstab` and `gmres`.

    Returns
    -------
    IncompleteFactors

    Raises
    ------
    numpy.linalg.LinAlgError
        If a row has no entry on the diagonal, or its pivot comes out as zero or not finite.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu")
    >>> x, info = sg.linalg.bicgstab(op, np.ones(900), M=sg.linalg.ilu0(op))
    >>> info, op.solve_info.iterations < 25
    (0, True)
    """
    return IncompleteFactors(op, _factors(op), is_symmetric=False)


def ic0(op: SparseOperator) -> IncompleteFactors:
    """The incomplete Cholesky factors of a symmetric or Hermitian positive definite matrix, without fill-in.

    They are those of `ilu0`, of which the pivots are shared out differently: a preconditioner that is
    symmetric, or Hermitian, and positive definite as `cg` and `minres` need it.

    Parameters
    ----------
    op : SparseOperator
        Symmetric or Hermitian positive definite; that it is symmetric is not checked.

    Returns
    -------
    IncompleteFactors

    Raises
    ------
    numpy.linalg.LinAlgError
        If a row has no entry on the diagonal, or its pivot comes out as not positive, which may happen to
        matrices that are positive definite.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(sg.gallery.poisson2d(30), device="cpu")
    >>> x, info = sg.linalg.cg(op, np.ones(900), M=sg.linalg.ic0(op))
    >>> info, op.solve_info.iterations < 30
    (0, True)
    """
    factors = _factors(op)
    if factors.nonpositive_row >= 0:
        raise np.linalg.LinAlgError(
            f"the pivot of row {factors.nonpositive_row} is not positive: the matrix is not positive "
            "definite, or its incomplete factors do not exist; give jacobi, or a larger diagonal"
        )
    return IncompleteFactors(op, factors, is_symmetric=True)


def _factors(op: Any) -> Any:
    check_operator(op)
    csr = op.tocsr()
    if csr.indptr.dtype != np.int32:
        raise ValueError(f"op has {csr.nnz} stored entries; factors are of up to 2**31 - 1")
    factors = core_class("IncompleteFactors", op.dtype)(csr.indptr, csr.indices, csr.data, op._ordinal)
    if factors.failed_row >= 0:
        raise np.linalg.LinAlgError(
            f"row {factors.failed_row} has no pivot: its diagonal entry is not stored, or comes out as zero "
            "or not finite when the rows before it are eliminated"
        )
    return factors
