"""Krylov solvers: functions with the arguments of SciPy's, whose methods are in the core."""

from __future__ import annotations

import numpy as np

from .._util.arguments import with_hints
from ..arrays import AnyArray
from .krylov import KrylovRequest, run
from .stopping import Info, Residuals, warn
from .systems import Callback
from .typed import by_library


@by_library
@with_hints
def cg(
    A: object,
    b: object,
    x0: object = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: object = None,
    nullspace: object = None,
    callback: Callback | None = None,
    residuals: Residuals | None = None,
    check_every: int | None = None,
    flexible: bool = False,
) -> tuple[AnyArray, Info]:
    """Solve ``A x = b`` by the conjugate gradient method.

    `A` is symmetric or Hermitian, and positive definite. `scipy.sparse.linalg.cg` has the same arguments.
    All vectors stay on the device of `A`. Scalars are float64. The same call on the same device gives the
    same bits.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix or LinearOperator
        Symmetric or Hermitian, and positive definite. This is not checked. Pass a `SparseOperator` to solve
        more than once: a matrix is converted in each call. A `LinearOperator` of another library is called
        with a NumPy vector in each iteration. The ranks of a `DistributedOperator` all call the solver, each
        with its pieces of `b` and `x0`.
    b : (n,) or (n, k) array
        Right-hand side, or several of them as columns: a NumPy array, or an array of another library on the
        device of `A`. It is cast to the dtype of `A`. It may be complex only if `A` is. Several columns are
        solved for together, with one product of all of them in each iteration, and each converges separately.
        Their vectors are whole on one device. Over ranks one column is solved for after the other.
    x0 : array of the shape of `b`, or "Mb", optional
        Initial guess, of NumPy or on the device of `b`. "Mb" stands for ``M @ b``. The default is zero.
    rtol, atol : float
        Tolerances. The solver stops if ``norm(b - A @ x) <= max(rtol * norm(b), atol)``. It computes this
        residual from `x` before it returns.
    maxiter : int, optional
        Maximum number of iterations. The default is ``10 * n``.
    M : preconditioner or str, optional
        Approximate inverse of `A`, positive definite. A name makes the preconditioner of `spmvgpu.linalg` for
        this call: "jacobi", "block_jacobi", "chebyshev", "ic0", "ilu0" or "amg". A preconditioner of
        `spmvgpu.linalg`, a `SparseOperator` on the same device, and a vector that holds the inverse of a
        diagonal are applied on the device. Any other `LinearOperator` is called with NumPy arrays.
    nullspace : "constant" or (n,) or (n, m) array, optional
        Null space of a singular `A`, with a basis in the columns, which need not be orthonormal. "constant"
        stands for a vector of ones. The solver solves for the part of `b` that is orthogonal to it, keeps
        preconditioned residuals orthogonal to it, and returns the solution that is orthogonal to it. Vectors
        are whole on one device then. Each rank of a `DistributedOperator` gives its rows of the basis.
    callback : callable, optional
        Called as ``callback(xk)`` after each iteration. The device waits for it. `xk` is the same array in
        each call: copy it to keep it.
    residuals : list, optional
        Receives ``norm(b - A @ x)`` of the initial guess and after each iteration. Of several columns these
        are arrays, in which a column that has ended keeps its last norm.
    check_every : int, optional
        On a GPU, number of iterations between two checks for convergence by the host. A check costs time, and
        so do iterations after convergence. By default the interval grows during the solve.
    flexible : bool, default False
        Whether `M` may be another map in each iteration, such as a solver that stops at a tolerance: the
        flexible method [3]_, with the formula of Polak and Ribiere. It takes one more inner product.

    Returns
    -------
    x : (n,) or (n, k) array
        Solution, of the library and on the device of `b`.
    info : int or (k,) array of int
        0 if the residual is within the tolerances. Positive if it is not after `maxiter` iterations, or if
        rounding errors prevent it: the number of iterations, at least 1. Negative if the method breaks down:
        -10 and -11 as in SciPy, -12 for infinity or NaN. Of several columns, an array with the number of
        each.

    Raises
    ------
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a device that is not allowed, if `A` does not map
        `nullspace` to zero.

    Warns
    -----
    SolverWarning
        If the method breaks down or stagnates.

    See Also
    --------
    spmvgpu.SparseOperator.solve_info : How the last solve went.

    References
    ----------
    .. [1] M. R. Hestenes and E. Stiefel, "Methods of conjugate gradients for solving linear systems", 1952.
    .. [2] Y. Saad, "Iterative Methods for Sparse Linear Systems", 2nd ed., SIAM, 2003, algorithm 9.1.
    .. [3] Y. Notay, "Flexible conjugate gradients", SIAM J. Sci. Comput. 22, 2000.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [1.0, 3.0]]), device="cpu")
    >>> x, info = sg.linalg.cg(op, np.array([1.0, 2.0]), rtol=1e-12)
    >>> x.round(6), info
    (array([0.090909, 0.636364]), 0)
    """
    shared = x0, M, rtol, atol, maxiter, nullspace, callback, residuals, check_every
    return run(A, b, KrylovRequest("cg", *shared, flexible=flexible))[:2]


@by_library
@with_hints
def bicgstab(
    A: object,
    b: object,
    x0: object = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: object = None,
    nullspace: object = None,
    callback: Callback | None = None,
    residuals: Residuals | None = None,
    check_every: int | None = None,
) -> tuple[AnyArray, Info]:
    """Solve ``A x = b`` by the stabilized biconjugate gradient method.

    `A` is any square matrix. `scipy.sparse.linalg.bicgstab` has the same arguments. All vectors stay on
    the device of `A`. Scalars are float64. The same call on the same device gives the same bits.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix or LinearOperator
        Square. Pass a `SparseOperator` to solve more than once: a matrix is converted in each call. A
        `LinearOperator` of another library is called with a NumPy vector in each iteration. The ranks of a
        `DistributedOperator` all call the solver, each with its pieces of `b` and `x0`.
    b : (n,) or (n, k) array
        Right-hand side, or several of them as columns: a NumPy array, or an array of another library on the
        device of `A`. It is cast to the dtype of `A`. It may be complex only if `A` is. Several columns are
        solved for together, with one product of all of them in each iteration, and each converges separately.
        Their vectors are whole on one device. Over ranks one column is solved for after the other.
    x0 : array of the shape of `b`, or "Mb", optional
        Initial guess, of NumPy or on the device of `b`. "Mb" stands for ``M @ b``. The default is zero.
    rtol, atol : float
        Tolerances. The solver stops if ``norm(b - A @ x) <= max(rtol * norm(b), atol)``. It computes this
        residual from `x` before it returns.
    maxiter : int, optional
        Maximum number of iterations. The default is ``10 * n``.
    M : preconditioner or str, optional
        Approximate inverse of `A`. A name makes the preconditioner of `spmvgpu.linalg` for this call:
        "jacobi", "block_jacobi", "chebyshev", "ic0", "ilu0" or "amg". A preconditioner of `spmvgpu.linalg`, a
        `SparseOperator` on the same device, and a vector that holds the inverse of a diagonal are applied on
        the device. Any other `LinearOperator` is called with NumPy arrays.
    nullspace : "constant" or (n,) or (n, m) array, optional
        Null space of a singular `A`, with a basis in the columns, which need not be orthonormal. "constant"
        stands for a vector of ones. The solver keeps preconditioned residuals orthogonal to it, and returns
        the solution that is orthogonal to it. If the adjoint of `A` has the same null space, it solves for
        the part of `b` that is orthogonal to it. Vectors are whole on one device then. Each rank of a
        `DistributedOperator` gives its rows of the basis.
    callback : callable, optional
        Called as ``callback(xk)`` after each iteration. The device waits for it. `xk` is the same array in
        each call: copy it to keep it.
    residuals : list, optional
        Receives ``norm(b - A @ x)`` of the initial guess and after each iteration. Of several columns these
        are arrays, in which a column that has ended keeps its last norm.
    check_every : int, optional
        On a GPU, number of iterations between two checks for convergence by the host. A check costs time, and
        so do iterations after convergence. By default the interval grows during the solve.

    Returns
    -------
    x : (n,) or (n, k) array
        Solution, of the library and on the device of `b`.
    info : int or (k,) array of int
        0 if the residual is within the tolerances. Positive if it is not after `maxiter` iterations, or if
        rounding errors prevent it: the number of iterations, at least 1. Negative if the method breaks down:
        -10 and -11 as in SciPy, -12 for infinity or NaN. Of several columns, an array with the number of
        each.

    Raises
    ------
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a device that is not allowed, if `A` does not map
        `nullspace` to zero.

    Warns
    -----
    SolverWarning
        If the method breaks down or stagnates.

    See Also
    --------
    spmvgpu.SparseOperator.solve_info : How the last solve went.

    References
    ----------
    .. [1] H. A. van der Vorst, "Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG for the solution
       of nonsymmetric linear systems", 1992.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
    >>> x, info = sg.linalg.bicgstab(op, np.array([5.0, 3.0]), rtol=1e-12)
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """
    shared = x0, M, rtol, atol, maxiter, nullspace, callback, residuals, check_every
    return run(A, b, KrylovRequest("bicgstab", *shared))[:2]


@by_library
@with_hints
def gmres(
    A: object,
    b: object,
    x0: object = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: object = None,
    nullspace: object = None,
    callback: Callback | None = None,
    callback_type: str | None = None,
    residuals: Residuals | None = None,
    check_every: int | None = None,
    flexible: bool = False,
) -> tuple[AnyArray, Info]:
    """Solve ``A x = b`` by the restarted generalized minimal residual method.

    `A` is any square matrix. `scipy.sparse.linalg.gmres` has the same arguments and tolerances, and also
    preconditions from the left. So the norm of the preconditioned residual, ``M @ (b - A @ x)``, never grows.
    The norm of ``b - A @ x`` may, if `M` does not suit `A`. All vectors stay on the device of `A`. Scalars
    are float64. The same call on the same device gives the same bits.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix or LinearOperator
        Square. Pass a `SparseOperator` to solve more than once: a matrix is converted in each call. A
        `LinearOperator` of another library is called with a NumPy vector in each iteration. The ranks of a
        `DistributedOperator` all call the solver, each with its pieces of `b` and `x0`.
    b : (n,) or (n, k) array
        Right-hand side, or several of them as columns: a NumPy array, or an array of another library on the
        device of `A`. It is cast to the dtype of `A`. It may be complex only if `A` is. Several columns are
        solved for together, with one product of all of them in each iteration, and each converges separately.
        Their vectors are whole on one device. Over ranks one column is solved for after the other.
    x0 : array of the shape of `b`, or "Mb", optional
        Initial guess, of NumPy or on the device of `b`. "Mb" stands for ``M @ b``. The default is zero.
    rtol, atol : float
        Tolerances. The solver stops if ``norm(b - A @ x) <= max(rtol * norm(b), atol)``. It computes this
        residual at each restart.
    restart : int, optional
        Iterations between restarts, and number of vectors stored. The default is 20, or n if that is less.
    maxiter : int, optional
        Maximum number of restarts, or of iterations if `callback_type` is "legacy". The default is ``10 *
        n``.
    M : preconditioner or str, optional
        Approximate inverse of `A`. A name makes the preconditioner of `spmvgpu.linalg` for this call:
        "jacobi", "block_jacobi", "chebyshev", "ic0", "ilu0" or "amg". A preconditioner of `spmvgpu.linalg`, a
        `SparseOperator` on the same device, and a vector that holds the inverse of a diagonal are applied on
        the device. Any other `LinearOperator` is called with NumPy arrays.
    nullspace : "constant" or (n,) or (n, m) array, optional
        Null space of a singular `A`, with a basis in the columns, which need not be orthonormal. "constant"
        stands for a vector of ones. The solver keeps preconditioned residuals orthogonal to it, and returns
        the solution that is orthogonal to it. If the adjoint of `A` has the same null space, it solves for
        the part of `b` that is orthogonal to it. Vectors are whole on one device then. Each rank of a
        `DistributedOperator` gives its rows of the basis.
    callback : callable, optional
        Called as `callback_type` says. The device waits for it.
    callback_type : {"x", "pr_norm", "legacy"}, optional
        "x": ``callback(xk)`` after each restart. "pr_norm": ``callback(norm)`` after each iteration, with the
        norm of the preconditioned residual divided by the norm of `b`, or an array with these numbers of all
        columns. "legacy", SciPy's default: as "pr_norm", and `maxiter` counts iterations.
    residuals : list, optional
        Receives the norm of the preconditioned residual of the initial guess and after each iteration. Of
        several columns these are arrays, in which a column that has ended keeps its last norm.
    check_every : int, optional
        On a GPU, number of iterations between two checks for convergence by the host. A check costs time, and
        so do iterations after convergence. By default the interval grows during the solve.
    flexible : bool, default False
        Whether `M` may be another map in each iteration, such as a solver that stops at a tolerance: the
        flexible method [2]_. It preconditions from the right, stores `restart` more vectors, and its residual
        is the system's, ``b - A @ x``, in `residuals` and for `callback`, too.

    Returns
    -------
    x : (n,) or (n, k) array
        Solution, of the library and on the device of `b`.
    info : int or (k,) array of int
        0 if the residual is within the tolerances. `maxiter`, at least 1, if the limit is reached or the
        method cannot continue. -12 for infinity or NaN. Of several columns, an array with the number of each.

    Raises
    ------
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a device that is not allowed, if `A` does not map
        `nullspace` to zero.

    Warns
    -----
    SolverWarning
        If the method breaks down or stagnates, or if `maxiter` is reached and ``norm(b - A @ x)`` is larger
        than ``norm(b)``, with an `M`.

    See Also
    --------
    spmvgpu.SparseOperator.solve_info : How the last solve went.

    References
    ----------
    .. [1] Y. Saad and M. H. Schultz, "GMRES: a generalized minimal residual algorithm for solving
       nonsymmetric linear systems", 1986.
    .. [2] Y. Saad, "A flexible inner-outer preconditioned GMRES algorithm", SIAM J. Sci. Comput. 14, 1993.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
    >>> x, info = sg.linalg.gmres(op, np.array([5.0, 3.0]), rtol=1e-12)
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """
    shared = x0, M, rtol, atol, maxiter, nullspace, callback, residuals, check_every
    x, info, how = run(A, b, KrylovRequest("gmres", *shared, restart, callback_type, flexible=flexible))
    worst = max(how.columns or [how], key=lambda column: column.true_residual / (column.norm_b or 1.0))
    if M is not None and not flexible and worst.status == "exhausted" and worst.true_residual > worst.norm_b:
        warn(
            f"gmres ended with norm(b - A @ x) = {worst.true_residual:.2e}, norm(b) is {worst.norm_b:.2e}: "
            "only the norm of M @ (b - A @ x) never grows; try another M, or none"
        )
    return x, info


@by_library
@with_hints
def minres(
    A: object,
    b: object,
    x0: object = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    shift: float = 0.0,
    maxiter: int | None = None,
    M: object = None,
    nullspace: object = None,
    callback: Callback | None = None,
    show: bool = False,
    check: bool = False,
    residuals: Residuals | None = None,
    check_every: int | None = None,
) -> tuple[AnyArray, Info]:
    """Solve ``(A - shift * I) x = b`` by the minimal residual method.

    `A` is symmetric or Hermitian. It may be indefinite or singular. `scipy.sparse.linalg.minres`
    has the same arguments, but this solver stops like the others of this module. All vectors stay on
    the device of `A`. Scalars are float64. The same call on the same device gives the same bits.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix or LinearOperator
        Symmetric or Hermitian. Pass a `SparseOperator` to solve more than once: a matrix is converted in each
        call. A `LinearOperator` of another library is called with a NumPy vector in each iteration. The ranks
        of a `DistributedOperator` all call the solver, each with its pieces of `b` and `x0`.
    b : (n,) or (n, k) array
        Right-hand side, or several of them as columns: a NumPy array, or an array of another library on the
        device of `A`. It is cast to the dtype of `A`. It may be complex only if `A` is. Several columns are
        solved for together, with one product of all of them in each iteration, and each converges separately.
        Their vectors are whole on one device. Over ranks one column is solved for after the other.
    x0 : array of the shape of `b`, or "Mb", optional
        Initial guess, of NumPy or on the device of `b`. "Mb" stands for ``M @ b``. The default is zero.
    rtol, atol : float
        Tolerances. The solver stops if ``norm(b - A @ x) <= max(rtol * norm(b), atol)``. It computes this
        residual from `x` before it returns. A singular system may have no solution. Then the solver stops at
        a least-squares solution, and ``solve_info.status`` is "least_squares": the method finds ``norm(A @ r)
        <= 1.5e-8 * norm(A) * norm(r)``, or 3.5e-4 in place of 1.5e-8 in single precision, and it is at most
        ten times that if computed from `x`. With `M`, this is ``norm(A @ M @ r)``, and the norms are ``sqrt(r
        @ M @ r)``.
    shift : float, default 0.0
        Shift of the diagonal.
    maxiter : int, optional
        Maximum number of iterations. The default is ``5 * n``.
    M : preconditioner or str, optional
        Approximate inverse of `A`, symmetric positive definite. A name makes the preconditioner of
        `spmvgpu.linalg` for this call: "jacobi", "block_jacobi", "chebyshev", "ic0", "ilu0" or "amg". A
        preconditioner of `spmvgpu.linalg`, a `SparseOperator` on the same device, and a vector that holds the
        inverse of a diagonal are applied on the device. Any other `LinearOperator` is called with NumPy
        arrays.
    nullspace : "constant" or (n,) or (n, m) array, optional
        Null space of a singular ``A - shift * I``, with a basis in the columns, which need not be
        orthonormal. "constant" stands for a vector of ones. The solver solves for the part of `b` that is
        orthogonal to it, keeps preconditioned residuals orthogonal to it, and returns the solution that is
        orthogonal to it. Vectors are whole on one device then. Each rank of a `DistributedOperator` gives its
        rows of the basis.
    callback : callable, optional
        Called as ``callback(xk)`` after each iteration. The device waits for it. `xk` is the same array in
        each call: copy it to keep it.
    show : bool, default False
        Print the residual norms after the solve; the largest of all columns.
    check : bool, default False
        Check first that `A` and `M` are symmetric.
    residuals : list, optional
        Receives the estimate of ``norm(b - A @ x)`` of the initial guess and after each iteration. Of several
        columns these are arrays, in which a column that has ended keeps its last norm.
    check_every : int, optional
        On a GPU, number of iterations between two checks for convergence by the host. A check costs time, and
        so do iterations after convergence. By default the interval grows during the solve.

    Returns
    -------
    x : (n,) or (n, k) array
        Solution, of the library and on the device of `b`.
    info : int or (k,) array of int
        0 if the residual is within the tolerances, or for a least-squares solution. Positive if it is not
        after `maxiter` iterations, or if rounding errors prevent it: the number of iterations, at least 1.
        -12 for infinity or NaN. Of several columns, an array with the number of each.

    Raises
    ------
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a device that is not allowed, if `A` does not map
        `nullspace` to zero, if `A` or `M` is found not to be symmetric, or if `M` is found not to be positive
        definite.

    Warns
    -----
    SolverWarning
        If the method breaks down or stagnates.

    See Also
    --------
    spmvgpu.SparseOperator.solve_info : How the last solve went.

    References
    ----------
    .. [1] C. C. Paige and M. A. Saunders, "Solution of sparse indefinite systems of linear equations", 1975.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [1.0, -3.0]]), device="cpu")
    >>> x, info = sg.linalg.minres(op, np.array([5.0, -2.0]), rtol=1e-12)
    >>> x.round(6), info
    (array([1., 1.]), 0)
    """

    history: Residuals | None = [] if show and residuals is None else residuals
    before = len(history) if isinstance(history, list) else 0
    shared = x0, M, rtol, atol, maxiter, nullspace, callback, history, check_every
    x, info, how = run(A, b, KrylovRequest("minres", *shared, shift=shift, check=check))
    if show:
        assert history is not None
        for k, norm in enumerate(history[before:]):
            print(f"minres {k:6d} {np.asarray(norm).max():.6e}")
        print(f"minres: {how.status}, norm(b - A @ x) = {how.true_residual:.6e}")
    return x, info
