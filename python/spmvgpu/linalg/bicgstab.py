"""The stabilised biconjugate gradient method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arguments import with_hints
from .stopping import check_limits
from .systems import solve


@with_hints
def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Any], object] | None = None,
    residuals: list[float] | None = None,
    check_every: int | None = None,
) -> tuple[Any, int]:
    """Solve ``A x = b`` for any matrix by the stabilised biconjugate gradient method.

    The same call as `scipy.sparse.linalg.bicgstab`. Everything stays on the operator's device: vectors, of
    its dtype, and scalars, in double precision. Repeated on the same device, it gives the same bits.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix or LinearOperator
        Square. One of `spmvgpu.distributed` may be given by all its ranks, with their pieces of vectors. A
        `SparseOperator` is the fastest; one over several GPUs, or several parts of the CPU, keeps the vectors
        in pieces there. Anything else that SciPy takes is converted; products of a `LinearOperator` are
        computed by calling it with NumPy arrays, in every iteration.
    b : (n,) or (n, 1) array
        Right-hand side, which is converted to the operator's dtype; complex only where that is. A NumPy
        array, what NumPy makes one of, or an array of another library on the operator's device, or on one of
        several.
    x0 : (n,) or (n, 1) array or "Mb", optional
        First guess, in host memory like `b` or of the same library; zero by default.
    rtol, atol : float
        Done when ``norm(b - A @ x) <= max(rtol * norm(b), atol)``. Once the residual that the method updates
        is that small, the true one is computed, and the method goes on from it if it is not.
    maxiter : int, optional
        Most iterations; ``10 * n`` by default.
    M : preconditioner, optional
        Approximates the inverse of `A`. `jacobi`, `block_jacobi`, `chebyshev`, a `SparseOperator` on
        the same device, or the inverse of a diagonal as a vector are applied on the device; any other
        `LinearOperator` is called with NumPy arrays.
    callback : callable, optional
        Called as ``callback(xk)`` after every iteration; the device waits for it. `xk` is the same array in
        every call; copy it to keep it.
    residuals : list, optional
        Filled with ``norm(b - A @ x)`` of the guess and after every iteration.
    check_every : int, optional
        Iterations between two looks of the host at a GPU that solves; by default ever more. What a GPU does
        beyond the end is lost time, and each look costs some.

    Returns
    -------
    x : (n,) array
        Of the library and on the device of `b`.
    info : int
        0: converged, by the true residual. Positive: the number of iterations, all that were allowed (1 if
        none were), or all that helped. Negative: the method broke down, and a warning says how: -10, -11 as
        in SciPy, -12 for infinite numbers and NaN.

    Warns
    -----
    SolverWarning
        Where the method breaks down or stagnates.

    Raises
    ------
    TypeError, ValueError
        For arguments of wrong type, shape, dtype or device.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
    >>> x, info = sg.linalg.bicgstab(op, np.array([5.0, 3.0]), rtol=1e-12)
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """
    x, info, _ = solve(
        "bicgstab",
        A,
        b,
        x0,
        M,
        lambda unknowns, callback: check_limits(rtol, atol, maxiter, 10 * unknowns, callback),
        callback=callback,
        residuals=residuals,
        check_every=check_every,
    )
    return x, info
