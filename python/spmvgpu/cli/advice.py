"""What ``solve`` suggests to try where a solver fails."""

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
    "direct": "try --solver lsmr, which finds a least-squares solution",
}
_NEXT = {
    "minres": ("gmres", "it takes every matrix, and preconditioners that are not symmetric"),
    "bicgstab": ("gmres", "its residual never grows"),
    "gmres": ("bicgstab", "it is not restarted, as gmres is, which may stall"),
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


class Suggestion(NamedTuple):
    """Options to try, and why."""

    options: Annotated[str, "options to try, if the solver did not converge"]
    reason: Annotated[str, "why they may help"]


def suggestions(o: Outcome) -> list[Suggestion]:
    """What to try after a solve that did not reach the tolerance, the most promising first."""
    if not o.exhausted and o.residual < ROUNDING:
        digit = 10.0 ** floor(log10(o.residual))
        reached = ceil(o.residual / digit) * digit
        return [Suggestion(f"--rtol {reached:.0e}", "float64 allows hardly more than was reached")]
    single, better = o.dtype in ("float32", "complex64"), _better_preconditioner(o)
    most, rate = _iterations(o)
    other, why = _NEXT.get(o.solver, ("", ""))
    double = np.result_type(o.dtype, np.float64)
    rules = [
        (
            single and not o.exhausted,
            f"--dtype {double}",
            f"rounding in {o.dtype} keeps the residual above the tolerance",
        ),
        (
            better,
            f"--preconditioner {better}",
            f"it may take fewer iterations than {o.preconditioner}",
        ),
        (
            o.scattered and o.preconditioner in ("ic0", "ilu0"),
            "--reorder",
            "entries lie far from the diagonal; incomplete factors are better where they lie near it",
        ),
        (
            o.solver == "cg" and o.preconditioner != "amg",
            "--preconditioner amg",
            "multigrid suits discretized elliptic equations, such as diffusion and elasticity",
        ),
        (
            o.solver == "gmres" and o.restart < o.rows,
            f"--solver gmres --restart {min(10 * o.restart, o.rows)}",
            "gmres often stalls where it restarts after few iterations",
        ),
        (o.exhausted and 0 < most <= MOST_ITERATIONS, f"--maxiter {most}", rate),
        (other and other not in o.broken, f"--solver {other}", why),
    ]
    return [Suggestion(options, reason) for applies, options, reason in rules if applies]


def _better_preconditioner(o: Outcome) -> str:
    # Incomplete Cholesky factors are for positive definite matrices.
    name = {"cg": "ic0", "bicgstab": "ilu0", "gmres": "ilu0"}.get(o.solver, "")
    return "" if name == o.preconditioner or (name == "ilu0" and o.zero_diagonal) else name


def _iterations(o: Outcome) -> tuple[int, str]:
    """More iterations: as many as it takes at the same rate, or ten times as many."""
    if o.exhausted and o.residual < 0.5:
        needed, reason = log(o.rtol) / log(o.residual), "at the same rate the residual gets there"
        needed *= 1.1 * o.iterations
    else:
        needed, reason = 10.0 * o.iterations if o.iterations < o.rows else 0.0, "the residual may fall late"
    digit = 10 ** max(0, floor(log10(max(needed, 1.0))) - 1)  # of two
    return ceil(round(needed / digit, 6)) * digit, reason
