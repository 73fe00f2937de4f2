"""Eigenvalues of symmetric matrices by LOBPCG."""

from __future__ import annotations

from typing import Any

import scipy.sparse.linalg as sla

from .._util.arguments import with_hints
from .._util.types import HostArray
from ..arrays import host_array
from ..operator.construct import as_operator
from .systems import refuse_ranks


@with_hints
def lobpcg(
    A: object,
    X: object,
    B: object = None,
    M: object = None,
    Y: object = None,
    tol: float | None = None,
    maxiter: int | None = None,
    largest: bool = True,
    verbosityLevel: int = 0,
    retLambdaHistory: bool = False,
    retResidualNormsHistory: bool = False,
    restartControl: int = 20,
) -> Any:
    """Find eigenvalues and eigenvectors of a symmetric matrix by LOBPCG.

    This calls `scipy.sparse.linalg.lobpcg`. Products with the columns of `X` run on the device of the
    operator, several columns at once. SciPy does the dense algebra on the CPU.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix or LinearOperator
        Symmetric or Hermitian. A matrix is converted to an operator.
    X : (n, k) array
        Initial guess of the eigenvectors, in host memory. It is not changed.
    B : like `A`, optional
        Right-hand matrix of a generalized problem.
    M : like `A`, optional
        Preconditioner.
    Y, tol, maxiter, largest, verbosityLevel, retLambdaHistory, retResidualNormsHistory, restartControl
        As in `scipy.sparse.linalg.lobpcg`.

    Returns
    -------
    w : (k,) numpy.ndarray
        Eigenvalues.
    v : (n, k) numpy.ndarray
        Eigenvectors.
    histories : list of numpy.ndarray
        Returned only if `retLambdaHistory` or `retResidualNormsHistory` is set.

    Raises
    ------
    TypeError, ValueError
        As `spmvgpu.aslinearoperator` for a matrix, and as SciPy for the other arguments. If `X` or `Y` has a
        shape that does not fit, or is on a GPU.

    References
    ----------
    .. [1] A. V. Knyazev, "Toward the optimal preconditioned eigensolver: locally optimal block preconditioned
       conjugate gradient method", 2001.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> A = sg.gallery.poisson1d(100)
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> w, v = sg.linalg.lobpcg(A, X, tol=1e-4, maxiter=200)
    >>> bool(3.9 < w[0] < 4.0)
    True
    """
    refuse_ranks(A)
    op, start = _operator(A), _columns("X", X, A)
    if start.shape[1] == 0:
        raise ValueError(f"X has shape {start.shape}; give at least one column")
    constraints = None if Y is None else _columns("Y", Y, A)
    options = tol, maxiter, largest, verbosityLevel, retLambdaHistory, retResidualNormsHistory, restartControl
    # SciPy writes to the start.
    return sla.lobpcg(op, start.copy(), _operator(B), _operator(M), constraints, *options)


def _columns(name: str, given: object, A: object) -> HostArray:
    """Columns in host memory of the length that the matrix has, if it has one."""
    columns = host_array(name, given)
    rows = getattr(A, "shape", columns.shape)[0]
    if columns.ndim != 2 or columns.shape[0] != rows:
        raise ValueError(f"{name} has shape {columns.shape}; give columns, ({rows}, k)")
    return columns


def _operator(matrix: object) -> object:
    """A matrix as one of our operators; operators and functions as they are."""
    is_as_scipy_takes = matrix is None or callable(matrix) or isinstance(matrix, sla.LinearOperator)
    return matrix if is_as_scipy_takes else as_operator(matrix)
