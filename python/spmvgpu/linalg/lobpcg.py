"""Eigenvalues of symmetric matrices by LOBPCG."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse.linalg as sla

from ..arguments import with_hints
from ..arrays import host_array
from ..construct import aslinearoperator


@with_hints
def lobpcg(
    A: Any,
    X: Any,
    B: Any = None,
    M: Any = None,
    Y: Any = None,
    tol: float | None = None,
    maxiter: int | None = None,
    largest: bool = True,
    verbosityLevel: int = 0,
    retLambdaHistory: bool = False,
    retResidualNormsHistory: bool = False,
    restartControl: int = 20,
) -> Any:
    """Some eigenvalues and eigenvectors of a symmetric matrix.

    This is `scipy.sparse.linalg.lobpcg` with its arguments and results: matrices are made into operators, so
    that products with the columns of `X` are computed on their device, several columns at once; the dense
    algebra of the small problems is SciPy's, on the CPU.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix or LinearOperator
        Symmetric.
    X : (n, k) array
        First guess of the eigenvectors, in host memory; not changed.
    B, M : like A, optional
        The right-hand matrix of a generalised problem, and a preconditioner.
    Y, tol, maxiter, largest, verbosityLevel, retLambdaHistory, retResidualNormsHistory, restartControl
        As in SciPy.

    Returns
    -------
    w : (k,) numpy.ndarray
    v : (n, k) numpy.ndarray
        Followed by the histories that were asked for.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> A = sg.gallery.poisson1d(100)
    >>> w, v = sg.linalg.lobpcg(A, np.random.default_rng(0).standard_normal((100, 3)), tol=1e-4, maxiter=200)
    >>> bool(3.9 < w[0] < 4.0)
    True
    """
    return sla.lobpcg(
        _operator(A),
        np.array(host_array("X", X)),  # SciPy writes to it
        B=_operator(B),
        M=_operator(M),
        Y=None if Y is None else host_array("Y", Y),
        tol=tol,
        maxiter=maxiter,
        largest=largest,
        verbosityLevel=verbosityLevel,
        retLambdaHistory=retLambdaHistory,
        retResidualNormsHistory=retResidualNormsHistory,
        restartControl=restartControl,
    )


def _operator(matrix: Any) -> Any:
    """A matrix as one of our operators; operators and functions as they are."""
    has_products = callable(matrix) or hasattr(matrix, "matvec")
    return matrix if matrix is None or has_products else aslinearoperator(matrix)
