"""Which solver ``solve`` takes by itself, and what to try where one fails."""

from __future__ import annotations

from math import ceil, floor, log, log10
from typing import Annotated, NamedTuple

import numpy as np

# What to try where a solver finds that a matrix, or a preconditioner, does not suit it.
OTHER_SOLVER = {
    "cg": "try --solver minres, which takes indefinite matrices, or --solver gmres",
    "minres": "try --solver gmres",
    "bicgstab": "try --solver gmres",
    "gmres": "try another --preconditioner",
}

ROUNDING = 1e-12  # a smaller residual that gets no smaller is as small as float64 makes it
MOST_ITERATIONS = 999_999_999  # of --maxiter

RESTART = 20  # of gmres, as in SciPy


class Outcome(NamedTuple):
    """How a solve without success went, as far as advice depends on it."""

    solver: str
    preconditioner: str
    dtype: str
    residual: float
    rtol: float
    iterations: int
    rows: int
    exhausted: bool  # all iterations that were allowed are used up
    broken: tuple[str, ...] = ()  # solvers that broke down or diverged before
    restart: int = RESTART
    zero_diagonal: bool = False  # the diagonal has zeros
    scattered: bool = False  # entries lie far from the diagonal
    ranks: int = 1


class Suggestion(NamedTuple):
    """Options to try, and why."""

    options: Annotated[str, "options to try, if the solver did not converge"]
    reason: Annotated[str, "why they may help"]


def suggestions(outcome: Outcome) -> list[Suggestion]:
    """What to try after a solve that did not reach the tolerance, the most promising first."""
    if not outcome.exhausted and outcome.residual < ROUNDING:
        return [_tolerance(outcome)]
    rules = (_precision, _preconditioner, _reordering, _multigrid, _restart, _iterations, _solver)
    return [found for rule in rules if (found := rule(outcome)) is not None]


def _precision(o: Outcome) -> Suggestion | None:
    if o.exhausted or o.dtype not in ("float32", "complex64"):
        return None
    double = np.result_type(o.dtype, np.float64)
    return Suggestion(f"--dtype {double}", f"rounding in {o.dtype} keeps the residual above the tolerance")


def _preconditioner(o: Outcome) -> Suggestion | None:
    if o.ranks > 1:
        options = "jacobi" if o.preconditioner == "none" else None
    elif o.solver in ("cg", "minres"):
        # Incomplete Cholesky factors are for positive definite matrices.
        options = "ic0" if o.solver == "cg" and o.preconditioner != "ic0" else None
    else:
        options = "ilu0" if o.preconditioner != "ilu0" and not o.zero_diagonal else None
    if options is None:
        return None
    return Suggestion(f"--preconditioner {options}", f"it may take fewer iterations than {o.preconditioner}")


def _reordering(o: Outcome) -> Suggestion | None:
    if not o.scattered or o.preconditioner not in ("ic0", "ilu0"):
        return None
    reason = "entries lie far from the diagonal; incomplete factors are better where they lie near it"
    return Suggestion("--reorder", reason)


def _multigrid(o: Outcome) -> Suggestion | None:
    if o.ranks > 1 or o.solver != "cg" or o.preconditioner == "amg":
        return None
    reason = "multigrid suits discretized elliptic equations, such as diffusion and elasticity"
    return Suggestion("--preconditioner amg", reason)


def _restart(o: Outcome) -> Suggestion | None:
    if o.solver != "gmres" or o.restart >= o.rows:
        return None
    reason = "gmres often stalls where it restarts after few iterations"
    return Suggestion(f"--solver gmres --restart {min(10 * o.restart, o.rows)}", reason)


def _iterations(o: Outcome) -> Suggestion | None:
    """More iterations, in two digits: as many as it takes at the same rate, or ten times as many."""
    if not o.exhausted:
        return None
    if o.residual < 0.5:
        needed = 1.1 * o.iterations * log(o.rtol) / log(o.residual)
        reason = "at the same rate the residual gets there"
    elif o.iterations < o.rows:
        needed, reason = 10.0 * o.iterations, "the residual may fall late"
    else:
        return None
    digit = 10 ** max(0, floor(log10(needed)) - 1)
    most = ceil(round(needed / digit, 6)) * digit
    return Suggestion(f"--maxiter {most}", reason) if most <= MOST_ITERATIONS else None


def _solver(o: Outcome) -> Suggestion | None:
    reasons = {
        "minres": ("gmres", "it takes every matrix, and preconditioners that are not symmetric"),
        "bicgstab": ("gmres", "its residual never grows"),
        "gmres": ("bicgstab", "it is not restarted, as gmres is, which may stall"),
    }
    other, reason = reasons.get(o.solver, (None, ""))
    return Suggestion(f"--solver {other}", reason) if other and other not in o.broken else None


def _tolerance(o: Outcome) -> Suggestion:
    digit = 10.0 ** floor(log10(o.residual))
    reached = ceil(o.residual / digit) * digit
    return Suggestion(f"--rtol {reached:.0e}", "float64 allows hardly more than was reached")
