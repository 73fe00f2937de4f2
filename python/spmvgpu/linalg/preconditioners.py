"""Preconditioners that solvers apply on the device: so far, diagonals."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator

from ..arrays import library_of
from ..operator import SparseOperator
from .vectors import DeviceVector, Vectors, check_operator, check_square, is_distributed, staged_numpy


class Jacobi(LinearOperator):  # type: ignore[misc]
    """Multiplication with the inverse of a matrix's diagonal: a preconditioner for `cg` here and in SciPy.

    Attributes
    ----------
    inverse_diagonal : (n,) numpy.ndarray
        Read-only: the copies on devices are made from it once.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> M = sg.linalg.Jacobi(np.array([0.25, 0.5]))
    >>> M @ np.ones(2)
    array([0.25, 0.5 ])
    """

    def __init__(self, inverse_diagonal: npt.NDArray[Any]) -> None:
        own = np.array(inverse_diagonal)
        own.flags.writeable = False
        super().__init__(own.dtype, (len(own), len(own)))
        self._inverse_diagonal = own
        self._copies: dict[tuple[int, np.dtype[Any]], DeviceVector] = {}

    @property
    def inverse_diagonal(self) -> npt.NDArray[Any]:
        return self._inverse_diagonal

    def _matvec(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        y: npt.NDArray[Any] = self.inverse_diagonal * np.asarray(x).ravel()
        return y

    def _adjoint(self) -> Jacobi:
        return self

    def _on_device(self, op: SparseOperator) -> DeviceVector:
        """A copy for an operator of the same size, made once for each device and dtype."""
        if op.shape != self.shape:
            raise ValueError(
                f"M has shape {self.shape}; an operator of shape {op.shape} needs one of its own"
            )
        key = op._ordinal, op.dtype
        if key not in self._copies:
            self._copies[key] = staged_numpy(op, self.inverse_diagonal)
        return self._copies[key]

    def __reduce__(self) -> tuple[Any, ...]:
        return Jacobi, (self.inverse_diagonal,)


def jacobi(op: Any) -> Jacobi:
    """The Jacobi preconditioner of a matrix: the inverse of its diagonal.

    Parameters
    ----------
    op : SparseOperator or DistributedOperator

    Returns
    -------
    Jacobi
        Of a distributed operator, that of this rank's piece of the diagonal.

    Raises
    ------
    numpy.linalg.LinAlgError
        If an entry of the diagonal is not positive, so that the matrix is not positive definite.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [1.0, 2.0]]), device="cpu")
    >>> sg.linalg.jacobi(op).inverse_diagonal
    array([0.25, 0.5 ])
    """
    if is_distributed(op):
        with op.agreement():
            check_square(op)
            return _of_diagonal(op.diagonal(), op.dtype, op.row_ranges.begin)
    check_operator(op)
    return _of_diagonal(op.tocsr().diagonal(), op.dtype, 0)


def _of_diagonal(diagonal: npt.NDArray[Any], dtype: np.dtype[Any], first_row: int) -> Jacobi:
    """The preconditioner of a diagonal, or of a piece that begins in row `first_row`."""
    bad = np.flatnonzero(~((diagonal > 0) & np.isfinite(diagonal)))
    if len(bad):
        raise np.linalg.LinAlgError(
            f"the matrix is not positive definite: {len(bad)} of {len(diagonal)} diagonal entries are not "
            f"positive numbers, the first in row {first_row + bad[0]} ({diagonal[bad[0]]:g})"
        )
    return Jacobi((1 / diagonal).astype(dtype))


def inverse_diagonal(op: SparseOperator, M: Any, vectors: Vectors) -> DeviceVector:
    if isinstance(M, Jacobi):
        return M._on_device(op)
    if isinstance(M, np.ndarray) and (M.ndim == 1 or M.shape == (op.shape[0], 1)):
        return staged_numpy(op, M)
    if isinstance(M, np.ndarray) or library_of(M) is None:
        raise TypeError(
            "M must be spmvgpu.linalg.jacobi(op) or the inverse of a diagonal as a 1-D array, "
            f"not {type(M).__name__}; for other preconditioners use scipy.sparse.linalg.cg(op, b, M=M)"
        )
    return vectors.take("M", M)
