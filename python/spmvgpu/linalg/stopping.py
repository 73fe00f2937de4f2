"""Stopping criteria of the solvers, and what they return or warn of when a solve ends."""

from __future__ import annotations

import warnings
from dataclasses import fields

import numpy as np

from .._core import SolverLimits, SolverReport
from .._util.arguments import real_number, whole_number
from .._util.types import DType
from ..operator.solve_info import SolveInfo

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
    """A solver stopped without a solution before it reached ``maxiter``.

    The message says why.
    """


def check_limits(
    rtol: object, atol: object, maxiter: object, default: int, unknowns: int, callback: object
) -> SolverLimits:
    """Check the limits of a solve and return them as the core takes them.

    `default` is that of `maxiter` for each unknown. With a callback, the core stops after each iteration.
    """
    limits = SolverLimits()
    limit = default * unknowns if maxiter is None else whole_number("maxiter", maxiter, 0)
    limits.maxiter = min(limit, _MOST_ITERATIONS)
    limits.rtol, limits.atol = tolerance("rtol", rtol), tolerance("atol", atol)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={callback!r} is not allowed; give a function of the iterate, or None")
    limits.look_each = callback is not None
    return limits


def info_from(solver: str, report: SolverReport) -> SolveInfo:
    """The report of the core, whose names are those of `SolveInfo`."""
    return SolveInfo(solver, *(getattr(report, field.name) for field in fields(SolveInfo)[1:]))


def values_of(limits: SolverLimits) -> dict[str, float]:
    """All limits by name."""
    names = [name for name, kind in vars(SolverLimits).items() if isinstance(kind, property)]
    return {name: getattr(limits, name) for name in names}


def check_residuals(residuals: object) -> None:
    if residuals is not None and not isinstance(residuals, list):
        raise TypeError(f"residuals={residuals!r} is not allowed; give a list, which is filled, or None")


def tolerance(name: str, value: object) -> float:
    return real_number(name, value, "a non-negative real number", lambda number: number >= 0)


def info_of(how: SolveInfo, dtype: DType, offending: float, maxiter: int) -> int:
    """Return SciPy's `info` for the way a solve ended, and warn about a breakdown or stagnation.

    Raises
    ------
    ValueError
        Where SciPy raises it: `minres` found that the matrix or `M` is not as it must be.
    """
    solver, status = how.solver, how.status
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
    precision = "" if precise else ", or so close to singular that it needs float64"
    message = {
        "indefinite": f"the matrix is not positive definite (p @ A @ p = {offending:g}){precision}",
        "bad_preconditioner": f"M is not positive definite (r @ M @ r = {offending:g})",
        "rho": f"the residual is orthogonal to the initial one (inner product {offending:g})",
        "omega": f"a step length is zero or not finite ({offending:g})",
        "singular": "the Krylov subspace ended before the residual was small: the matrix may be singular",
        "not_finite": "there are infinite numbers or NaN: check the matrix, b, x0 and M, or scale the system "
        f"if {dtype} overflows",
    }[status]
    _warn(f"{solver} broke down after {how.iterations} iterations: {message}")
    return _BREAKDOWN.get(status, maxiter)


# Why minres refuses a matrix or an M, in the words of SciPy.
_NOT_SYMMETRIC = {
    "unsymmetric": "non-symmetric matrix: the check differs by",
    "unsymmetric_preconditioner": "non-symmetric preconditioner: the check differs by",
    "bad_preconditioner": "indefinite preconditioner, or a non-symmetric matrix: r @ M @ r =",
}


def _warn(message: str) -> None:
    warnings.warn(message, SolverWarning, stacklevel=6)
