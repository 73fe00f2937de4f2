"""The minimal residual method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arguments import real_number, with_hints
from .stopping import check_limits
from .systems import solve


@with_hints
def minres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    shift: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Any], object] | None = None,
    show: bool = False,
    check: bool = False,
    residuals: list[float] | None = None,
    check_every: int | None = None,
) -> tuple[Any, int]:
    """Solve ``(A - shift * I) x = b`` for a symmetric or Hermitian matrix, definite, singular or neither.

    The same call as `scipy.sparse.linalg.minres`, which ends by other tests. Everything stays on the
    operator's device: vectors, of its dtype, and scalars, in double precision. Repeated on the same device,
    it gives the same bits.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix or LinearOperator
        Symmetric, or complex and Hermitian. One of `spmvgpu.distributed` may be given by all its ranks, with
        their pieces of vectors. A `SparseOperator` is the fastest; one over several GPUs, or several parts
        of the CPU, keeps the vectors in pieces there. Anything else that SciPy takes is converted; products
        of a `LinearOperator` are computed by calling it with NumPy arrays, in every iteration.
    b : (n,) or (n, 1) array
        Right-hand side, which is converted to the operator's dtype; complex only where that is. A NumPy
        array, what NumPy makes one of, or an array of another library on the operator's device, or on one of
        several.
    x0 : (n,) or (n, 1) array or "Mb", optional
        First guess, in host memory like `b` or of the same library; zero by default.
    rtol, atol : float
        Done when ``norm(b - A @ x) <= max(rtol * norm(b), atol)``. Once the residual as the method estimates
        it is that small, the true one is computed, and the method goes on if it is not. A singular system
        may have no solution. Then `minres` ends when ``norm(r)`` falls no more and ``norm(A @ r)`` is below
        1.5e-8 of ``norm(A) * norm(r)`` (3.5e-4 in single precision): `x` is a least-squares solution, and
        ``solve_info.status`` is "least_squares". With `M` these norms are those of `M`.
    shift : float
    maxiter : int, optional
        Most iterations; ``5 * n`` by default.
    M : preconditioner, optional
        Approximates the inverse of `A`, symmetric positive definite. `jacobi`, `block_jacobi`, `chebyshev`,
        a `SparseOperator` on the same device, or the inverse of a diagonal as a vector are applied on the
        device; any other `LinearOperator` is called with NumPy arrays.
    callback : callable, optional
        Called as ``callback(xk)`` after every iteration; the device waits for it. `xk` is the same array in
        every call; copy it to keep it.
    show : bool
        Print the residual of every iteration, once all are done.
    check : bool
        Look first whether the matrix and `M` are symmetric.
    residuals : list, optional
        Filled with ``norm(b - A @ x)``, as it is estimated, of the guess and after every iteration.
    check_every : int, optional
        Iterations between two looks of the host at a GPU that solves; by default ever more. What a GPU does
        beyond the end is lost time, and each look costs some.

    Returns
    -------
    x : (n,) array
        Of the library and on the device of `b`.
    info : int
        0: converged, by the true residual, or a least-squares solution. Positive: the number of iterations,
        all that were allowed (1 if none were), or all that helped. Negative, with a warning: -12 for infinite
        numbers and NaN.

    Warns
    -----
    SolverWarning
        Where the method breaks down or stagnates.

    Raises
    ------
    TypeError, ValueError
        For arguments of wrong type, shape, dtype or device; for a matrix or an `M` that shows not to be
        symmetric, or an `M` that shows not to be positive definite.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [1.0, -3.0]]), device="cpu")
    >>> x, info = sg.linalg.minres(op, np.array([5.0, -2.0]), rtol=1e-12)
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """

    def limits(unknowns: int, callback: Any) -> dict[str, Any]:
        return {
            **check_limits(rtol, atol, maxiter, 5 * unknowns, callback),
            "shift": real_number("shift", shift),
            "check": bool(check),
        }

    history: list[float] | None = [] if show and residuals is None else residuals
    before = len(history) if isinstance(history, list) else 0
    x, info, how = solve(
        "minres",
        A,
        b,
        x0,
        M,
        limits,
        callback=callback,
        residuals=history,
        check_every=check_every,
    )
    if show:
        assert history is not None
        for k, norm in enumerate(history[before:]):
            print(f"minres {k:6d} {norm:.6e}")
        print(f"minres: {how.status}, norm(b - A @ x) = {how.true_residual:.6e}")
    return x, info
