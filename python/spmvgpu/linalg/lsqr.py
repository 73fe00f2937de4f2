"""Least squares by the bidiagonalisation of Golub and Kahan: the methods LSQR and LSMR."""

from __future__ import annotations

from math import hypot, inf, sqrt

import numpy as np

from .._util.arguments import whole_number, with_hints
from ..arrays import AnyArray
from .least_squares import NOT_YET, LeastSquaresProblem, StoppingTests, each_column, times_power
from .systems import agreement_of
from .typed import by_library
from .vectors import NO_VECTOR, staged


@by_library
@with_hints
@each_column
def lsqr(
    A: object,
    b: object,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    iter_lim: int | None = None,
    show: bool = False,
    calc_var: bool = False,
    x0: object = None,
) -> tuple[AnyArray, int, int, float, float, float, float, float, float, AnyArray]:
    """Solve ``A x = b``, or find the least-squares solution, by the method LSQR.

    `scipy.sparse.linalg.lsqr` has the same arguments and results. It minimizes ``norm(b - A @ x)**2 + damp**2
    * norm(x - x0)**2``. All vectors stay on the device of `A`, and a few numbers go to the host in each
    iteration. The same call on the same device gives the same bits.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix, LinearOperator or DistributedOperator
        Any matrix, of shape (m, n). Pass a `SparseOperator` to solve more than once: a matrix is converted in
        each call. It stores its conjugate transpose also. A `LinearOperator` of another library is called
        with NumPy vectors, and needs `rmatvec`. The ranks of a `DistributedOperator` all call the solver,
        each with its pieces of `b` and `x0`.
    b : (m,) or (m, k) array
        Right-hand side, or several of them as columns: a NumPy array, or an array of another library on the
        device of `A`. It is cast to the dtype of `A`. It may be complex only if `A` is. Several columns are
        solved for one after the other, and what is returned as a number is an array with the number of each.
    damp : float, default 0.0
        Damping coefficient.
    atol, btol : float, default 1e-6
        Tolerances. The solver stops if ``norm(r) <= btol * norm(b) + atol * norm(A) * norm(x)`` for ``r = b -
        A @ x``, or if ``norm(A.H @ r) <= atol * norm(A) * norm(r)``, both by estimates.
    conlim : float, default 1e8
        The solver stops if the estimate of the condition number of `A` exceeds this. 0 stands for no limit.
    iter_lim : int, optional
        Maximum number of iterations. The default is ``2 * n``.
    show : bool, default False
        Print the estimates after each iteration.
    calc_var : bool, default False
        Whether to estimate the diagonal of the inverse of ``A.H @ A + damp**2 * I``.
    x0 : (n,) or (n, k) array, optional
        Initial guess, of NumPy or on the device of `b`. The default is zero.

    Returns
    -------
    x : (n,) or (n, k) array
        Solution, of the library and on the device of `b`. For `b` of shape (m, 1) it has shape (n,).
    istop : int
        Why the solver stopped. 0: `x0` is the solution. 1: ``A x = b`` is solved. 2: a least-squares
        solution. 3: the condition number exceeds `conlim`. 4 to 6: as 1 to 3, as far as double precision
        goes. 7: `iter_lim` is reached.
    itn : int
        Number of iterations.
    r1norm, r2norm : float
        ``norm(r)``, and ``sqrt(norm(r)**2 + damp**2 * norm(x - x0)**2)``.
    anorm, acond : float
        Estimates of the Frobenius norm and of the condition number of ``[A; damp * I]``.
    arnorm : float
        Estimate of ``norm(A.H @ r - damp**2 * (x - x0))``.
    xnorm : float
        ``norm(x - x0)``.
    var : (n,) or (n, k) array
        The estimates that `calc_var` asks for, or zeros.

    Raises
    ------
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a device that is not allowed, or if `A`, `b` or `x0`
        contains infinity or NaN.

    See Also
    --------
    lsmr : Its ``norm(A.H @ r)`` falls in every iteration, so that it can be stopped earlier.

    References
    ----------
    .. [1] C. C. Paige and M. A. Saunders, "LSQR: An algorithm for sparse linear equations and sparse least
       squares", 1982.
    .. [2] G. H. Golub and W. Kahan, "Calculating the singular values and pseudo-inverse of a matrix", 1965.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> A = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> x, istop, *rest = sg.linalg.lsqr(A, np.array([1.0, 0.0, -1.0]))
    >>> x.round(6), istop
    (array([ 1., -1.]), 1)
    """
    with agreement_of(A):
        tests = StoppingTests(damp, atol, btol, conlim)
        problem = LeastSquaresProblem(A, b, x0)
        most = 2 * problem.shape[1] if iter_lim is None else whole_number("iter_lim", iter_lim, 0)
    problem.begin(**vars(tests), iter_lim=most, calc_var=bool(calc_var))
    problem.check_finite()
    variances = np.zeros(problem.space.shape[0], problem.dtype)
    on_device = staged(variances, problem.ordinal) if calc_var else NO_VECTOR
    alpha, beta, norm_b = problem.alpha, problem.beta, problem.norm_b
    damp = times_power(tests.damp, -problem.a)

    istop = itn = 0
    norm_A = cond = norm_x = 0.0
    norm_ar, residual = alpha * beta, beta
    rho_bar, phi_bar = alpha, beta
    damped = inverse_squares = xs_squared = 0.0  # sums of squares over the iterations
    z, cos_x, sin_x = 0.0, -1.0, 0.0  # of the rotations that give norm(x)
    w_squared = 1.0
    solves = norm_ar > 0
    if solves:
        norm_A = alpha
        alpha, beta, _, w_squared = problem.advance(NOT_YET)
    while solves and istop == 0 and itn < most:
        itn += 1
        norm_A = hypot(norm_A, beta, damp)
        # One rotation takes the damping out of the bidiagonal matrix, another one its lower entry.
        cos, sin, rho = _rotation(rho_bar, damp)
        psi, phi_bar = sin * phi_bar, cos * phi_bar
        cos, sin, rho = _rotation(rho, beta)
        theta, rho_bar = sin * alpha, -cos * alpha
        phi, phi_bar = cos * phi_bar, sin * phi_bar
        tau = sin * phi
        inverse_squares += w_squared * (1 / rho) ** 2
        delta, gamma_bar = sin_x * rho, -cos_x * rho
        right = phi - delta * z
        norm_x = hypot(sqrt(xs_squared), right / gamma_bar)
        gamma = hypot(gamma_bar, theta)
        cos_x, sin_x, z = gamma_bar / gamma, theta / gamma, right / gamma
        xs_squared += z**2
        cond = norm_A * sqrt(inverse_squares)
        damped += psi**2
        residual, norm_ar = sqrt(phi_bar**2 + damped), alpha * abs(tau)
        istop = tests.reason(residual, norm_ar, norm_A, cond, norm_x, norm_b, itn >= most)
        if show:
            print(f"lsqr {itn:6d} {problem.of_residual(residual):.6e} {problem.of_normal(norm_ar):.6e}")
        factors = (0.0, phi / rho, 1.0, -theta / rho)
        norm_A = hypot(norm_A, alpha) if istop == 0 else norm_A
        alpha, beta, _, w_squared = problem.advance(factors, False, on_device.pointer, (1 / rho) ** 2)
    undamped = residual**2 - (damp * sqrt(xs_squared)) ** 2
    if calc_var:
        on_device.read(variances)
        variances *= 4.0**-problem.a
    residuals = np.copysign(sqrt(abs(undamped)), undamped), residual
    norms = *map(problem.of_residual, residuals), problem.of_matrix(norm_A), cond, problem.of_normal(norm_ar)
    estimates = problem.library.from_host(variances, problem.given)
    return problem.solution(), istop, itn, *norms, problem.of_x(norm_x), estimates


@by_library
@with_hints
@each_column
def lsmr(
    A: object,
    b: object,
    damp: float = 0.0,
    atol: float = 1e-6,
    btol: float = 1e-6,
    conlim: float = 1e8,
    maxiter: int | None = None,
    show: bool = False,
    x0: object = None,
) -> tuple[AnyArray, int, int, float, float, float, float, float]:
    """Solve ``A x = b``, or find the least-squares solution, by the method LSMR.

    `scipy.sparse.linalg.lsmr` has the same arguments and results. It minimizes ``norm(b - A @ x)**2 + damp**2
    * norm(x - x0)**2``, and is `minres` for the normal equations: ``norm(A.H @ r)`` falls in every iteration.
    All vectors stay on the device of `A`, and a few numbers go to the host in each iteration. The same call
    on the same device gives the same bits.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix, LinearOperator or DistributedOperator
        Any matrix, of shape (m, n). Pass a `SparseOperator` to solve more than once: a matrix is converted in
        each call. It stores its conjugate transpose also. A `LinearOperator` of another library is called
        with NumPy vectors, and needs `rmatvec`. The ranks of a `DistributedOperator` all call the solver,
        each with its pieces of `b` and `x0`.
    b : (m,) or (m, k) array
        Right-hand side, or several of them as columns: a NumPy array, or an array of another library on the
        device of `A`. It is cast to the dtype of `A`. It may be complex only if `A` is. Several columns are
        solved for one after the other, and what is returned as a number is an array with the number of each.
    damp : float, default 0.0
        Damping coefficient.
    atol, btol : float, default 1e-6
        Tolerances. The solver stops if ``norm(r) <= btol * norm(b) + atol * norm(A) * norm(x)`` for ``r = b -
        A @ x``, or if ``norm(A.H @ r) <= atol * norm(A) * norm(r)``, both by estimates.
    conlim : float, default 1e8
        The solver stops if the estimate of the condition number of `A` exceeds this. 0 stands for no limit.
    maxiter : int, optional
        Maximum number of iterations. The default is ``min(m, n)``.
    show : bool, default False
        Print the estimates after each iteration.
    x0 : (n,) or (n, k) array, optional
        Initial guess, of NumPy or on the device of `b`. The default is zero.

    Returns
    -------
    x : (n,) or (n, k) array
        Solution, of the library and on the device of `b`. For `b` of shape (m, 1) it has shape (n,).
    istop : int
        Why the solver stopped. 0: `x0` is the solution. 1: ``A x = b`` is solved. 2: a least-squares
        solution. 3: the condition number exceeds `conlim`. 4 to 6: as 1 to 3, as far as double precision
        goes. 7: `maxiter` is reached.
    itn : int
        Number of iterations.
    normr : float
        ``norm(b - A @ x)``, with ``damp * (x - x0)`` beside it if there is damping.
    normar : float
        ``norm(A.H @ r)``, in the same way.
    norma, conda : float
        Estimates of the Frobenius norm and of the condition number of ``[A; damp * I]``.
    normx : float
        ``norm(x)``.

    Raises
    ------
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a device that is not allowed, or if `A`, `b` or `x0`
        contains infinity or NaN.

    See Also
    --------
    lsqr : Its ``norm(r)`` is the smallest that is possible in each iteration.

    References
    ----------
    .. [1] D. C.-L. Fong and M. A. Saunders, "LSMR: An iterative algorithm for sparse least-squares problems",
       2011.
    .. [2] G. H. Golub and W. Kahan, "Calculating the singular values and pseudo-inverse of a matrix", 1965.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> A = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> x, istop, *rest = sg.linalg.lsmr(A, np.array([1.0, 0.0, -1.0]))
    >>> x.round(6), istop
    (array([ 1., -1.]), 1)
    """
    with agreement_of(A):
        tests = StoppingTests(damp, atol, btol, conlim)
        problem = LeastSquaresProblem(A, b, x0)
        most = min(problem.shape) if maxiter is None else whole_number("maxiter", maxiter, 0)
    problem.begin(**vars(tests), maxiter=most)
    problem.check_finite()
    alpha, beta, norm_b = problem.alpha, problem.beta, problem.norm_b
    damp = times_power(tests.damp, -problem.a)

    istop = itn = 0
    norm_A, cond, norm_x = alpha, 1.0, 0.0
    norm_ar, residual = alpha * beta, beta
    # The first QR factorization, of the bidiagonal matrix, and the second one, of what it gives.
    alpha_bar, rho, rho_bar, cos_bar, sin_bar = alpha, 1.0, 1.0, 1.0, 0.0
    zeta, zeta_bar = 0.0, alpha * beta
    # The third one, for the norm of the residual.
    beta_dd, beta_d, rho_d, tau_tilde, theta_tilde, damped = beta, 0.0, 1.0, 0.0, 0.0, 0.0
    largest, smallest = 0.0, inf  # entries on the diagonal of the second triangle
    solves = norm_ar > 0
    if solves or x0 is not None:
        alpha, beta, x_squared, _ = problem.advance(NOT_YET)
        norm_x = _root(x_squared)
    while solves and istop == 0 and itn < most:
        itn += 1
        norm_A = hypot(norm_A, beta)
        cos_hat, sin_hat, alpha_hat = _rotation(alpha_bar, damp)
        rho_before, rho_bar_before, zeta_before = rho, rho_bar, zeta
        cos, sin, rho = _rotation(alpha_hat, beta)
        theta, alpha_bar = sin * alpha, cos * alpha
        theta_bar, rho_left = sin_bar * rho, cos_bar * rho
        cos_bar, sin_bar, rho_bar = _rotation(rho_left, theta)
        zeta, zeta_bar = cos_bar * zeta_bar, -sin_bar * zeta_bar

        factors = (
            -theta_bar * rho / (rho_before * rho_bar_before),
            zeta / (rho * rho_bar),
            1.0,
            -theta / rho,
        )
        new_alpha, new_beta, x_squared, _ = problem.advance(factors, True)
        norm_x = _root(x_squared)

        beta_acute, beta_check = cos_hat * beta_dd, -sin_hat * beta_dd
        beta_hat, beta_dd = cos * beta_acute, -sin * beta_acute
        cos_tilde, sin_tilde, rho_tilde = _rotation(rho_d, theta_bar)
        theta_tilde_before, theta_tilde = theta_tilde, sin_tilde * rho_bar
        rho_d = cos_tilde * rho_bar
        beta_d = -sin_tilde * beta_d + cos_tilde * beta_hat
        tau_tilde = (zeta_before - theta_tilde_before * tau_tilde) / rho_tilde
        tau_d = (zeta - theta_tilde * tau_tilde) / rho_d
        damped += beta_check**2
        residual = sqrt(damped + (beta_d - tau_d) ** 2 + beta_dd**2)

        largest = max(largest, rho_bar_before)
        if itn > 1:
            smallest = min(smallest, rho_bar_before)
        cond = max(largest, rho_left) / min(smallest, rho_left) if rho_left != 0 else inf
        norm_ar = abs(zeta_bar)
        istop = tests.reason(residual, norm_ar, norm_A, cond, norm_x, norm_b, itn >= most)
        if show:
            print(f"lsmr {itn:6d} {problem.of_residual(residual):.6e} {problem.of_normal(norm_ar):.6e}")
        norm_A = hypot(norm_A, alpha) if istop == 0 else norm_A
        alpha, beta = new_alpha, new_beta
    norms = problem.of_residual(residual), problem.of_normal(norm_ar), problem.of_matrix(norm_A)
    return problem.solution(), istop, itn, *norms, cond, problem.of_x(norm_x)


def _rotation(a: float, b: float) -> tuple[float, float, float]:
    """``(c, s, r)`` of the plane rotation that takes (a, b) to (r, 0)."""
    if b == 0:
        return (-1.0 if a < 0 else 1.0), 0.0, abs(a)
    r = hypot(a, b)
    return a / r, b / r, r


def _root(value: float) -> float:
    return sqrt(max(value, 0.0))
