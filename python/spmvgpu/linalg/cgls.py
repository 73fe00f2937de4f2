"""Conjugate gradients for least squares."""

from __future__ import annotations

from math import sqrt

import numpy as np

from .._util.arguments import real_number, whole_number, with_hints
from ..arrays import AnyArray
from .least_squares import LeastSquares, each_column, times_power
from .stopping import tolerance, warn
from .vectors import NO_VECTOR

_AT_ONCE = 16  # iterations between two looks at the residual
_DEPTH = 5  # calls from a warning to the caller


@with_hints
@each_column
def cgls(
    A: object,
    b: object,
    x0: object = None,
    *,
    damp: float = 0.0,
    rtol: float = 1e-6,
    atol: float = 0.0,
    maxiter: int | None = None,
) -> tuple[AnyArray, int]:
    """Solve ``A x = b``, or find the least-squares solution, by conjugate gradients.

    It minimizes ``norm(b - A @ x)**2 + damp**2 * norm(x)**2``: `cg` for the normal equations, with the
    residual of ``A x = b`` itself. All vectors stay on the device of `A`, and the host looks at the residual
    after every 16 iterations only. The same call on the same device gives the same bits.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix or LinearOperator
        Any matrix, of shape (m, n), as `lsqr` takes it.
    b : (m,) or (m, k) array
        Right-hand side, or several of them as columns: a NumPy array, or an array of another library on the
        device of `A`. It is cast to the dtype of `A`. It may be complex only if `A` is. Several columns are
        solved for one after the other.
    x0 : (n,) or (n, k) array, optional
        Initial guess, of NumPy or on the device of `b`. The default is zero.
    damp : float, default 0.0
        Damping coefficient.
    rtol, atol : float
        Tolerances. The solver stops if ``norm(s) <= max(rtol * norm(A.H @ b), atol)`` for ``s = A.H @ (b - A
        @ x) - damp**2 * x``. It computes `s` from `x` before it returns.
    maxiter : int, optional
        Maximum number of iterations. The default is ``2 * n``.

    Returns
    -------
    x : (n,) or (n, k) array
        Solution, of the library and on the device of `b`. For `b` of shape (m, 1) it has shape (n,).
    info : int or (k,) array of int
        0 if `s` is within the tolerances. Positive if it is not after `maxiter` iterations, or if rounding
        errors prevent it: the number of iterations, at least 1. -12 for infinity or NaN. Of several
        columns, an array with the number of each.

    Raises
    ------
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a device that is not allowed.

    Warns
    -----
    SolverWarning
        If the method stagnates, or for infinity or NaN.

    References
    ----------
    .. [1] M. R. Hestenes and E. Stiefel, "Methods of conjugate gradients for solving linear systems", 1952.
    .. [2] C. C. Paige and M. A. Saunders, "LSQR: An algorithm for sparse linear equations and sparse least
       squares", 1982, section 7.1.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> A = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> x, info = sg.linalg.cgls(A, np.array([1.0, 0.0, -1.0]))
    >>> x.round(6), info
    (array([ 1., -1.]), 0)
    """
    damping = real_number("damp", damp, "a finite real number", lambda number: bool(np.isfinite(number)))
    relative, absolute = tolerance("rtol", rtol), tolerance("atol", atol)
    problem = LeastSquares(A, b, x0)
    most = 2 * problem.shape[1] if maxiter is None else whole_number("maxiter", maxiter, 0)
    if problem.normal_b == 0 and problem.is_finite:
        problem.start(NO_VECTOR)  # zero is the solution

    core, x = problem.core, problem.x.pointer
    iterations, before, exponent_before = 0, np.inf, 0
    while True:
        # Norms are those of the scaled system, whose squares neither overflow nor underflow. The first one is
        # computed from x itself, and not updated by the method.
        exponent = problem.a + problem.b
        goal = max(relative * problem.normal_b, times_power(absolute, -exponent))
        first = core.start_descent(x, times_power(damping, -problem.a), goal)
        norm = sqrt(first) if first >= 0 else np.nan
        if not problem.is_finite or not np.isfinite(norm):
            info = -12
            warn("cgls broke down: there are infinite numbers or NaN: check the matrix, b and x0", _DEPTH)
            break
        if norm <= goal:
            info = 0
            break
        if iterations >= most:
            info = max(iterations, 1)
            break
        if not norm < 0.5 * times_power(before, exponent_before - exponent):
            info = max(iterations, 1)
            warn(
                f"cgls stagnated after {iterations} iterations: norm(A.H @ r - damp**2 * x) is "
                f"{problem.of_normal(norm):.2e}, and rounding keeps it above {problem.of_normal(goal):.2e}",
                _DEPTH,
            )
            break
        before, exponent_before, done, has_ended = norm, exponent, 0, False
        while not has_ended and iterations + done < most:
            now, _, has_ended = core.descend(x, min(_AT_ONCE, most - iterations - done))
            has_ended = has_ended or now == done
            done = now
        iterations += done
        problem.start_again()
    return problem.solution(), info
