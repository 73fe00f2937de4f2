"""What the least-squares solvers share, and conjugate gradients for least squares."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from math import inf, isfinite, ldexp, sqrt
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from .. import _core
from .._util.arguments import real_number, whole_number, with_hints
from ..arrays import AnyArray, array_and_library
from ..operator.construct import as_operator
from .stopping import tolerance, warn
from .systems import OverRanks, Rectangle, agreement_of, column_count
from .typed import by_library
from .vectors import NO_VECTOR, DeviceVector, columns_of, zero_column

_P = ParamSpec("_P")
_R = TypeVar("_R")

_AT_ONCE = 16  # iterations of cgls between two looks at the residual
_DEPTH = 5  # calls from a warning of cgls to the caller
NOT_YET = (0.0, 0.0, 0.0, 1.0)  # the factors of `LeastSquaresProblem.advance` that leave x and w as they are


class LeastSquaresProblem:
    """A least-squares problem that is solved on a device.

    The core may solve a scaled problem, where numbers are far from 1: ``2**-a A`` and ``2**-b r`` for the
    matrix and the first residual. What it gives and what it is given is of that one.

    Parameters
    ----------
    A, b, x0
        As a caller gives them.

    Attributes
    ----------
    beta, alpha : float
        ``norm(r)`` and ``norm(A.H @ r) / norm(r)`` of the first residual r.
    norm_b, normal_b : float
        ``norm(b)`` and ``norm(A.H @ b)``, scaled as `beta` and ``alpha * beta`` are.
    a, b : int
        Exponents of the scaling. They change when a solve begins again.
    """

    def __init__(self, A: object, b: object, x0: object) -> None:
        """Take the vectors; all ranks call `begin` next, once each has checked its other arguments."""
        rectangle = Rectangle(A, b)
        rows, columns = rectangle.rows, rectangle.columns
        vectors = rows.vectors(False)
        self._right = vectors.take("b", rows.b)
        self._vectors = vectors.of(columns)
        self._guess = NO_VECTOR if x0 is None else self._vectors.take("x0", x0)
        self._has_guess = x0 is not None
        self._vectors.wait()
        self.dtype, self.library, self.given = rows.dtype, rows.library, rows.b
        self.ordinal = vectors.ordinal
        self.shape, self.space = (rows.unknowns, columns.unknowns), columns
        self.x = self._vectors.new()
        lengths, threads = (rows.shape[0], columns.shape[0]), rows.max_threads
        self.core = _core.LeastSquares(
            rectangle.product, rectangle.adjoint, *lengths, rows.memory, threads, rows.ranks
        )
        self.a = self.b = 0
        self.norm_b = self.normal_b = 0.0

    def begin(self, **arguments: object) -> None:
        """Begin with the guess of the caller; all ranks with the same arguments."""
        self.space.check_same(**arguments, **{"x0 is None": not self._has_guess})
        self.start(NO_VECTOR)
        self.norm_b, self.normal_b = self.beta, self.alpha * self.beta
        if self._has_guess:
            self.start(self._guess)

    def start(self, guess: DeviceVector) -> None:
        """Begin with a vector, or with x = 0."""
        a, b = self.a, self.b
        started = self.core.start(self._right.pointer, guess.pointer, self.x.pointer)
        self.beta, self.alpha, self.b, self.a = started
        self.norm_b = times_power(self.norm_b, b - self.b)
        self.normal_b = times_power(self.normal_b, a + b - self.a - self.b)

    @property
    def is_finite(self) -> bool:
        return isfinite(self.beta) and isfinite(self.alpha)

    def check_finite(self) -> None:
        """Refuse, with ValueError, what contains infinity or NaN."""
        if not self.is_finite:
            raise ValueError("A, b or x0 contains inf or NaN, or their products overflow")

    def advance(
        self, factors: Sequence[float], has_p: bool = False, variances: int = 0, of_variance: float = 0.0
    ) -> tuple[float, float, float, float]:
        """The vectors of an iteration and the next step: ``alpha, beta, norm(x)**2, norm(w)**2``."""
        found = self.core.next(self.x.pointer, factors, has_p, variances, of_variance)
        if not all(map(isfinite, found[:3])):
            raise ValueError("A or b contains inf or NaN, or their products overflow")
        return found

    def start_again(self) -> None:
        """Begin with the solution so far."""
        self.core.finish(self.x.pointer)
        self.start(self.x)

    def solution(self) -> AnyArray:
        """The solution for the caller."""
        self.core.finish(self.x.pointer)
        return self._vectors.result()

    def of_residual(self, norm: float) -> float:
        """The norm of a residual, as it is without the scaling."""
        return times_power(norm, self.b)

    def of_matrix(self, norm: float) -> float:
        return times_power(norm, self.a)

    def of_normal(self, norm: float) -> float:
        return times_power(norm, self.a + self.b)

    def of_x(self, norm: float) -> float:
        return times_power(norm, self.b - self.a)


class StoppingTests:
    """When `lsqr` and `lsmr` stop, by estimates of norms; the arguments of callers."""

    def __init__(self, damp: object, atol: object, btol: object, conlim: object) -> None:
        self.damp = real_number("damp", damp, "a finite real number", isfinite)
        self.atol, self.btol = tolerance("atol", atol), tolerance("btol", btol)
        limit = 0.0 if conlim is None else tolerance("conlim", conlim)
        self.least_inverse = 1 / limit if limit > 0 else 0.0

    def reason(
        self, r: float, normal_r: float, A: float, cond_A: float, x: float, b: float, is_last: bool
    ) -> int:
        """SciPy's `istop` for estimates of norms, 0 to go on.

        Of the reasons that hold the strongest is given: the residual, that of the normal equations, the
        condition, each within its tolerance and then within rounding errors, and the number of iterations.
        """
        relative = r / (b + A * x) if b + A * x > 0 else inf
        gradient = normal_r / (A * r) if A * r > 0 else inf
        inverse = 1 / cond_A if cond_A > 0 else inf
        within = (
            r <= self.btol * b + self.atol * (A * x),
            gradient <= self.atol,
            inverse <= self.least_inverse,
        )
        rounding = (1 + number <= 1 for number in (relative, gradient, inverse))
        return next((istop for istop, is_so in enumerate((*within, *rounding, is_last), 1) if is_so), 0)


def times_power(number: float, exponent: int) -> float:
    """``number * 2**exponent``, infinite where that is larger than all numbers."""
    try:
        return ldexp(number, exponent)
    except OverflowError:
        return inf


def each_column(solver: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a solver for one right-hand side, so that it solves for each column of several.

    Solutions become the columns of one array, and numbers the entries of one. A single column is solved for
    as a vector.
    """
    signature = inspect.signature(solver)

    @wraps(solver)
    def solve(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        given = signature.bind(*args, **kwargs).arguments
        A = given["A"]
        with agreement_of(A):
            b, library = array_and_library("b", given["b"])
            count = column_count(b, library)
        if isinstance(A, OverRanks):
            A._check_same(columns=count)
        if count is None:
            return solver(*args, **kwargs)
        with agreement_of(A):
            op = A if isinstance(A, OverRanks) else as_operator(A, b)
            rows, unknowns = op.local_shape if isinstance(op, OverRanks) else op.shape
            columns = columns_of("b", b, library, (rows, count))
            guesses: list[AnyArray] = [None] * count
            if given.get("x0") is not None:
                guesses = columns_of("x0", *array_and_library("x0", given["x0"]), (unknowns, count))
        if not columns:  # one stands for the type of the results, and for the checks of the other arguments
            columns, guesses = [zero_column(b, library)], [None]
        one: Callable[..., Any] = solver
        solved = [
            one(**{**given, "A": op, "b": column, "x0": guess})
            for column, guess in zip(columns, guesses, strict=True)
        ]
        results = zip(*solved, strict=True)  # vectors become the columns of an array
        together = (library.stacked(r) if np.ndim(r[0]) else np.array(r) for r in results)
        return cast(_R, tuple(result[..., :count] for result in together))

    return solve


@by_library
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
    A : SparseOperator, array, sparse matrix, LinearOperator or DistributedOperator
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
    with agreement_of(A):
        damping = real_number("damp", damp, "a finite real number", lambda number: bool(np.isfinite(number)))
        relative, absolute = tolerance("rtol", rtol), tolerance("atol", atol)
        problem = LeastSquaresProblem(A, b, x0)
        most = 2 * problem.shape[1] if maxiter is None else whole_number("maxiter", maxiter, 0)
    problem.begin(damp=damping, rtol=relative, atol=absolute, maxiter=most)
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
