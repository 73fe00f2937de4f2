"""When solvers stop: what callers may ask for, and what they are told about how a solve ended."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..arguments import real_number, whole_number
from ..show import Brief

_MOST_ITERATIONS = 2**31 - 1  # as many as the core counts

# What `info` is for each way in which a method breaks down; SciPy's numbers where it has any.
_BREAKDOWN = {
    "rho": -10,
    "bad_preconditioner": -10,
    "indefinite": -11,
    "omega": -11,
    "not_finite": -12,
}


class SolverWarning(RuntimeWarning):
    """A solver ended without a solution, before its iterations were used up; the message says why."""


@dataclass(frozen=True, repr=False)
class SolveInfo(Brief):
    """How the last solve with an operator went; see `SparseOperator.solve_info`.

    Attributes
    ----------
    solver : str
    status : str
        "converged"; "least_squares" where minres found that the system has no solution, and `x` is the one
        that comes nearest; "exhausted" where all iterations that were allowed are used up; "stagnated" where
        rounding keeps the true residual above the goal; or the name of a breakdown.
    iterations : int
        Of gmres, inner ones.
    residual : float
        The norm that the method updates; of gmres, in the end, of ``b - A @ x``.
    true_residual : float
        ``norm(b - A @ x)``, computed from the solution.
    goal : float
        What the true residual was to fall below: ``max(rtol * norm(b), atol)``.
    products, preconditionings : int
        Products with the matrix that the solve made use of, and applications of `M` that is no diagonal. What
        a GPU had queued beyond the end of the solve does not count.
    seconds : float
        From the first piece of work to the last, without the transfer of NumPy arrays unless they go in
        pieces to several devices.
    product_seconds, precondition_seconds : float
        The part of it in products, and in `M`; 0 on a GPU, where they are queued beside the rest.
    pieces : int
        Devices that each kept a piece of the vectors; 1 if these were whole.
    resident : bool
        Whether one kernel did all iterations between two looks of the host, as on a GPU it does for small
        systems with cg, bicgstab and minres.
    chained : bool
        Whether one kernel did all that lies between two products, as on a GPU it does for other systems with
        these solvers, and with gmres.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [1.0, 3.0]]), device="cpu")
    >>> x, _ = sg.linalg.cg(op, np.ones(2), rtol=1e-10)
    >>> op.solve_info.status, op.solve_info.iterations
    ('converged', 2)
    """

    solver: str
    status: str
    iterations: int
    residual: float
    true_residual: float
    goal: float
    products: int
    preconditionings: int
    seconds: float
    product_seconds: float
    precondition_seconds: float
    pieces: int
    resident: bool
    chained: bool


def check_limits(rtol: Any, atol: Any, maxiter: Any, most: int, callback: Any) -> dict[str, Any]:
    """When a solver ends, as the core takes it; TypeError or ValueError for what is not allowed.

    `most` iterations by default, after each of which the core looks up where there is a callback.
    """
    limit = most if maxiter is None else whole_number("maxiter", maxiter, 0)
    limits = {"rtol": tolerance("rtol", rtol), "atol": tolerance("atol", atol)}
    check_callback(callback)
    return {**limits, "maxiter": min(limit, _MOST_ITERATIONS), "look_each": callback is not None}


def check_callback(callback: Any) -> None:
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={callback!r} is not allowed; give a function of the iterate, or None")


def check_residuals(residuals: Any) -> None:
    if residuals is not None and not isinstance(residuals, list):
        raise TypeError(f"residuals={residuals!r} is not allowed; give a list, which is filled, or None")


def tolerance(name: str, value: Any) -> float:
    allowed = "a non-negative real number"
    number = real_number(name, value, allowed)
    if number < 0:
        raise ValueError(f"{name}={value!r} is not allowed; give {allowed}")
    return number


def info_of(solver: str, dtype: Any, how: SolveInfo, offending: float, maxiter: int) -> int:
    """SciPy's `info` for the way a solve ended; warns where there is no solution and iterations are left.

    Raises
    ------
    ValueError
        Where SciPy raises it: minres found that the matrix or `M` is not as it must be.
    """
    status = how.status
    if status in ("converged", "least_squares"):
        return 0
    if status == "exhausted":
        return max(maxiter, 1)  # SciPy's 0 for maxiter=0 would say that there is a solution
    if solver == "minres" and status in _NOT_SYMMETRIC:
        raise ValueError(f"{_NOT_SYMMETRIC[status]} {offending:g}")
    precise = dtype in (np.float64, np.complex128)
    if status == "stagnated":
        advice = "" if precise else "; try float64"
        _warn(
            f"{solver} stagnated after {how.iterations} iterations: norm(b - A @ x) is "
            f"{how.true_residual:.2e}, and rounding keeps it above {how.goal:.2e}{advice}"
        )
        return max(how.iterations, 1)
    precision = "" if precise else ", or so nearly singular that it takes float64"
    message = {
        "indefinite": f"the matrix is not positive definite (p @ A @ p = {offending:g}){precision}",
        "bad_preconditioner": f"M is not positive definite (r @ M @ r = {offending:g})",
        "rho": f"the residual is orthogonal to the first one (their product is {offending:g})",
        "omega": f"a step has length zero, or no length at all ({offending:g})",
        "singular": "the Krylov space ended before the residual was small: the matrix may be singular",
        "not_finite": "infinite numbers or NaN: they are in the matrix, b, x0 or M, "
        f"or {dtype} overflows, and the system must be scaled",
    }[status]
    _warn(f"{solver} broke down after {how.iterations} iterations: {message}")
    return _BREAKDOWN.get(status, maxiter)


# How minres ends for a matrix or an M that does not suit it.
_NOT_SYMMETRIC = {
    "unsymmetric": "non-symmetric matrix: the check is off by",
    "unsymmetric_preconditioner": "non-symmetric preconditioner: the check is off by",
    "bad_preconditioner": "indefinite preconditioner, or a matrix that is not symmetric: r @ M @ r =",
}


def _warn(message: str) -> None:
    warnings.warn(message, SolverWarning, stacklevel=6)
