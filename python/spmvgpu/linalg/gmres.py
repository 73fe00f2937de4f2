"""The generalised minimal residual method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..arguments import one_of, whole_number, with_hints
from .stopping import check_limits
from .systems import solve


@with_hints
def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Any], object] | None = None,
    callback_type: str | None = None,
    residuals: list[float] | None = None,
    check_every: int | None = None,
) -> tuple[Any, int]:
    """Solve ``A x = b`` for any matrix by the generalised minimal residual method with restarts.

    The same call as `scipy.sparse.linalg.gmres`, with its tolerances and its preconditioning from the left.
    Everything stays on the operator's device: vectors, of its dtype, and scalars, in double precision.
    Repeated on the same device, it gives the same bits.

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
        Done when ``norm(b - A @ x) <= max(rtol * norm(b), atol)``, which is computed at every restart.
    restart : int, optional
        Iterations between restarts; 20 by default, and n at most. As many vectors are stored.
    maxiter : int, optional
        Most restarts, or most iterations where `callback_type` is "legacy"; ``10 * n`` by default.
    M : preconditioner, optional
        Approximates the inverse of `A`. `jacobi`, `block_jacobi`, `chebyshev`, a `SparseOperator` on
        the same device, or the inverse of a diagonal as a vector are applied on the device; any other
        `LinearOperator` is called with NumPy arrays.
    callback : callable, optional
        Called as `callback_type` says; the device waits for it.
    callback_type : {"x", "pr_norm", "legacy"}, optional
        "x": with the iterate after every restart. "pr_norm": with the norm of the preconditioned residual
        over that of `b` after every iteration. "legacy", the default as in SciPy: the same, and `maxiter`
        counts iterations.
    residuals : list, optional
        Filled with the norm of the preconditioned residual of the guess and after every iteration.
    check_every : int, optional
        Iterations between two looks of the host at a GPU that solves; by default ever more. What a GPU does
        beyond the end is lost time, and each look costs some.

    Returns
    -------
    x : (n,) array
        Of the library and on the device of `b`.
    info : int
        0: converged, by the true residual. Positive: `maxiter` (1 if that is 0), all that was allowed, also
        where the method cannot go on. Negative, with a warning: -12 for infinite numbers and NaN.

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
    >>> x, info = sg.linalg.gmres(op, np.array([5.0, 3.0]), rtol=1e-12)
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """

    def limits(unknowns: int, callback: Any) -> dict[str, Any]:
        kind = one_of("callback_type", "legacy" if callback_type is None else callback_type, _KINDS)
        length = 20 if restart is None else whole_number("restart", restart, 1, 2**20)
        return {
            **check_limits(rtol, atol, maxiter, 10 * unknowns, callback),
            "restart": min(length, unknowns),
            "legacy": callback is not None and kind == "legacy",
            "look_each": callback is not None and kind != "x",
            "look_restarts": callback is not None and kind == "x",
        }

    x, info, _ = solve(
        "gmres",
        A,
        b,
        x0,
        M,
        limits,
        callback=callback,
        residuals=residuals,
        check_every=check_every,
    )
    return x, info


_KINDS = ("x", "pr_norm", "legacy")
