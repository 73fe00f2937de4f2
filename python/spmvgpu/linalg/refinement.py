"""Iterative refinement: the precision of an operator for the work, and double precision for the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple, TypeAlias

import numpy as np

from .._util.types import HostArray
from ..arrays import on_host
from ..operator.solve_info import SolveInfo
from .krylov import Watch
from .problem import DoubleSystem

#: Solves for a right-hand side within a tolerance and a number of iterations.
Solve: TypeAlias = Callable[[HostArray, float, int, Watch], tuple[HostArray, SolveInfo]]


class Refined(NamedTuple):
    """What came of `refine`.

    Attributes
    ----------
    x : array
    how : SolveInfo
        Of all rounds together, with the residual of `x`.
    rounds : int
    verify_seconds : float
        Time for the residuals.
    """

    x: HostArray
    how: SolveInfo
    rounds: int
    verify_seconds: float


def refine(problem: DoubleSystem, solve: Solve, rtol: float, maxiter: int, watch: Watch) -> Refined:
    """Solve, and solve again for the correction while the true residual is too large and gets smaller.

    The residual that a solver updates drifts from the true one by rounding: hardly in double precision, but
    in single precision long before a usual tolerance.
    """
    double = np.result_type(problem.dtype, np.float64)
    least = 1000 * float(np.finfo(problem.dtype).eps)
    residual = on_host("b", problem.b)
    x = np.zeros(len(residual), double)
    left = norm_b = problem.norm(residual)
    done, rounds, verify_seconds = 0, 0, 0.0
    while True:
        scale, before = left or 1.0, done

        def look(
            iterations: int, norm: float, of_1: float, scale: float = scale, before: int = before
        ) -> None:
            watch(before + iterations, norm / (of_1 or 1.0) * scale, norm_b)

        right, goal = (residual / scale).astype(problem.dtype), max(rtol * norm_b / scale, least)
        correction, how = solve(right, goal, maxiter - done, look)
        start = perf_counter()
        x += scale * correction.astype(double)
        residual, previous = problem.residual(x), left
        left = problem.norm(residual)
        verify_seconds += perf_counter() - start
        done, rounds, status = done + how.iterations, rounds + 1, how.status
        if left <= rtol * norm_b:
            status = "converged"
        elif status == "converged":
            status = "exhausted" if done >= maxiter else "stagnated"
        may_go_on = how.status in ("converged", "stagnated") and left <= 0.5 * previous
        if status == "converged" or done >= maxiter or not may_go_on:
            total = replace(how, status=status, iterations=done, true_residual=left, norm_b=norm_b)
            return Refined(x, total, rounds, verify_seconds)
