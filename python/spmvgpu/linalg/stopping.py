"""Stopping criteria of the solvers, and what they return or warn of when a solve ends."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, TypeAlias, overload

import numpy as np

from .._core import SolverLimits, SolverReports
from .._util.arguments import real_number
from .._util.types import DType, HostArray
from ..operator.solve_info import SolveInfo

#: A solver returns this beside x: SciPy's number, or an array with one for each column. Type checkers are not
#: told which: they rarely know how many dimensions b has, and refuse an int where it might be an array.
Info: TypeAlias = Any
#: A solver appends norms, or arrays with the norms of all columns.
Residuals: TypeAlias = list[float] | list[HostArray]

# Values of `info` for the ways in which a method breaks down, SciPy's where it has any.
_BREAKDOWN = {
    "rho": -10,
    "bad_preconditioner": -10,
    "indefinite": -11,
    "omega": -11,
    "not_finite": -12,
    "out_of_range": -12,
}


class SolverWarning(RuntimeWarning):
    """A solver stopped without a solution before it reached ``maxiter``.

    The message says why.
    """


def info_from(solver: str, reports: SolverReports, is_vector: bool) -> SolveInfo:
    """What the core reports of a solve."""
    columns = Columns(solver, reports)
    return columns[0] if is_vector else _of_all(columns, reports.numbers, reports.failed())


class Columns(Sequence[SolveInfo]):
    """How the solve of each column went, made of the core's reports when it is asked for."""

    # The core has the names of `SolveInfo`.
    _NAMES: ClassVar = [field.name for field in fields(SolveInfo)[1:-1]]

    def __init__(self, solver: str, reports: SolverReports) -> None:
        self._solver, self._reports = solver, reports

    def __len__(self) -> int:
        return len(self._reports)

    @overload
    def __getitem__(self, column: int) -> SolveInfo: ...
    @overload
    def __getitem__(self, column: slice) -> Sequence[SolveInfo]: ...
    def __getitem__(self, column: int | slice) -> SolveInfo | Sequence[SolveInfo]:
        which = range(len(self))[column]
        if isinstance(which, range):
            return tuple(self[j] for j in which)
        report = self._reports[which]
        return SolveInfo(self._solver, *(getattr(report, name) for name in self._NAMES))

    def __reduce__(self) -> tuple[object, ...]:
        return tuple, (tuple(self),)

    def __repr__(self) -> str:
        return f"<{len(self)} SolveInfo>"


def info_of_columns(each: Sequence[SolveInfo]) -> SolveInfo:
    """How the solves of all columns went."""

    def numbers(name: str) -> HostArray:
        return np.array([getattr(how, name) for how in each])

    failed = [j for j, how in enumerate(each) if how.status not in ("converged", "least_squares")]
    return _of_all(tuple(each), numbers, failed)


def _of_all(
    each: Sequence[SolveInfo], numbers: Callable[[str], HostArray], failed: Sequence[int]
) -> SolveInfo:
    residual, goal = numbers("true_residual"), numbers("goal")
    with np.errstate(invalid="ignore"):
        sizes = residual / np.where(goal > 0, goal, 1.0)
    worst = each[int(np.lexsort((sizes, residual > goal))[-1])]
    most: dict[str, Any] = {
        name: int(numbers(name).max()) for name in ("iterations", "products", "preconditionings")
    }
    status = each[failed[0]].status if len(failed) else worst.status
    return replace(worst, status=status, columns=each, **most)


def residuals_of_columns(each: Sequence[Sequence[float]]) -> Sequence[HostArray]:
    """An array of the recorded residuals of all columns after each iteration.

    A column that has ended before others keeps its last one.
    """
    length = max(map(len, each))
    columns = [np.pad(residuals, (0, length - len(residuals)), "edge") for residuals in each]
    return list(np.array(columns).T)


def values_of(limits: SolverLimits) -> dict[str, float]:
    """All limits by name."""
    names = [name for name, kind in vars(SolverLimits).items() if isinstance(kind, property)]
    return {name: getattr(limits, name) for name in names}


def tolerance(name: str, value: object) -> float:
    return real_number(name, value, "a non-negative real number", lambda number: number >= 0)


def infos_of(how: SolveInfo, dtype: DType, reports: SolverReports, maxiter: int, warns: bool = True) -> Info:
    """Return SciPy's `info` for the way a solve ended, and, if `warns`, warn about a breakdown or stagnation.

    Raises
    ------
    ValueError
        Where SciPy raises it: `minres` found that the matrix or `M` is not as it must be.
    """
    columns = how.columns or (how,)
    info, problems = np.zeros(len(columns), int), []
    for j in reports.failed():
        info[j], problem = _info_of(columns[j], dtype, reports[j].offending_value, maxiter)
        if problem is not None:
            problems.append((j, problem))
    if problems and warns:
        (j, problem), count = problems[0], len(problems)
        others = f", the first of {count} such columns" if count > 1 else ""
        warn(f"column {j}{others}: {problem}" if how.columns else problem, stacklevel=6)
    return info if how.columns else int(info[0])


def _info_of(how: SolveInfo, dtype: DType, offending: float, maxiter: int) -> tuple[int, str | None]:
    """SciPy's `info`, and what to warn of."""
    solver, status = how.solver, how.status
    if status in ("converged", "least_squares"):
        return 0, None
    if status == "exhausted":
        return max(maxiter, 1), None  # SciPy's 0 for maxiter=0 would say that there is a solution
    if solver == "minres" and status in _NOT_SYMMETRIC:
        raise ValueError(f"{_NOT_SYMMETRIC[status]} {offending:g}")
    precise = dtype in (np.float64, np.complex128)
    if status == "stagnated":
        advice = "" if precise else "; try float64"
        return max(how.iterations, 1), (
            f"{solver} stagnated after {how.iterations} iterations: norm(b - A @ x) is "
            f"{how.true_residual:.2e}, and rounding keeps it above {how.goal:.2e}{advice}"
        )
    precision = "" if precise else ", or so close to singular that it needs float64"
    message = {
        "indefinite": f"the matrix is not positive definite (p @ A @ p = {offending:g}){precision}",
        "bad_preconditioner": f"M is not positive definite (r @ M @ r = {offending:g})",
        "rho": f"the residual is orthogonal to the initial one (inner product {offending:g})",
        "omega": f"a step length is zero or not finite ({offending:g})",
        "singular": "the Krylov subspace ended before the residual was small: the matrix may be singular",
        "not_finite": "there are infinite numbers or NaN: check the matrix, b, x0 and M, or scale the system "
        f"if {dtype} overflows",
        "out_of_range": f"numbers are out of the range of {dtype}; scale the system",
    }[status]
    return (
        _BREAKDOWN.get(status, maxiter),
        f"{solver} broke down after {how.iterations} iterations: {message}",
    )


# Why minres refuses a matrix or an M, in the words of SciPy.
_NOT_SYMMETRIC = {
    "unsymmetric": "non-symmetric matrix: the check differs by",
    "unsymmetric_preconditioner": "non-symmetric preconditioner: the check differs by",
    "bad_preconditioner": "indefinite preconditioner, or a non-symmetric matrix: r @ M @ r =",
}


def warn(message: str, stacklevel: int = 4) -> None:
    """Warn the caller of a solver, which is `stacklevel` calls away."""
    warnings.warn(message, SolverWarning, stacklevel=stacklevel)
