"""The search of `solve` for a method: what is tried."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from .._core import SolverLimits
from .._util.types import HostArray
from ..arrays import AnyArray, taken
from ..arrays.products import kind_of
from ..operator.operator import SparseOperator
from ..operator.solve_info import SolveInfo
from . import krylov
from .choice import Choice, Step, choose
from .named import SYMMETRIC_SOLVERS
from .problem import Problem
from .stopping import Info, check_limits
from .systems import Callback
from .vectors import random_vector

_LARGEST_DIRECT = 100_000  # rows of which factors are made where all else has failed
_LANCZOS_STEPS = 12
_RESTART = 50  # of gmres, which is the last to be tried
# Iterations before a residual that has ceased to fall ends a method, and more of them, times the square root
# of the rows, with cg and minres, whose residuals may fall late; and with bicgstab on a GPU, where the
# triangular factors that come next take as long as a thousand iterations.
_PATIENCE, _PATIENCE_EACH, _PATIENCE_EACH_ON_GPU = 300, 3, 10
_FORECAST_FROM = 200  # iterations after which it is foreseen how many more there will be
_SETUP = 450, 0.025  # what multigrid has to save to be tried: iterations, and seconds
# Of an iteration of cg, on a GPU and on a CPU: seconds, and seconds for each row.
_OF_GPU, _OF_CPU = (5e-6, 4e-11), (0.0, 5e-9)


class Attempt(NamedTuple):
    """A method that was tried, and what came of it.

    Attributes
    ----------
    method : str
        "direct", or the name of a solver of `spmvgpu.linalg`.
    preconditioner : str
        Its name, or "none".
    outcome : str
        "converged", or what went wrong.
    iterations : int
    residual : float
        ``norm(b - A @ x) / norm(b)``, the largest of all columns. Infinity if there was no `x`.
    seconds : float
    """

    method: str
    preconditioner: str
    outcome: str
    iterations: int
    residual: float
    seconds: float

    def __str__(self) -> str:
        return str(Step(self.method, self.preconditioner))


class StalledError(Exception):
    """A residual has ceased to fall."""


class SlowError(StalledError):
    """A residual falls so slowly that another method is likely to be faster."""


class Search:
    """Methods that are tried one after the other, until one reaches the tolerance.

    Attributes
    ----------
    tried : list of Attempt
    reason : str
        Why the first one was chosen.
    """

    def __init__(self, problem: Problem, rtol: float, atol: float, nullspace: object) -> None:
        self._problem, self._rtol, self._atol = problem, rtol, atol
        self._nullspace = nullspace
        self.tried: list[Attempt] = []
        self.reason = ""
        self.device = "cpu"
        self._x: AnyArray = None
        self._best = np.inf

    @property
    def x(self) -> AnyArray:
        """The best approximation so far, as the caller gets it; None before there is one."""
        return self._problem.delivered(self._x)

    # Krylov methods

    def iterate(self) -> bool:
        """Try solvers of `spmvgpu.linalg`; whether one has found the solution."""
        problem = self._problem
        self.device = str(getattr(problem.op, "device", "cpu"))
        if self._begins_at_the_end():
            return True
        choice = self._choice()
        self.reason = self.reason or str(choice.reason)
        unsuitable: set[str] = set()
        steps = list(choice.steps)
        most = self._most_before_multigrid() if Step("cg", "amg") in steps else None
        while steps:
            step = steps.pop(0)
            if step.solver in unsuitable:
                continue
            outcome = self._attempt(step, most if step.solver == "cg" else None)
            most = None  # of the first step alone
            if outcome == "converged":
                return True
            if outcome == "slow":  # it is the way to the solution if no other is
                steps.insert(sum(other.solver == "cg" for other in steps), step)
            if outcome in ("indefinite", "unsymmetric"):
                unsuitable.add(step.solver)
        return False

    def _begins_at_the_end(self) -> bool:
        """Check what was given, and whether the guess is a solution."""
        x, info, how = self._run(Step("bicgstab", "none"), 0)
        if how.status == "not_finite":
            raise ValueError("b or x0 contains inf or NaN")
        if not np.all(info == 0):
            return False
        self.reason = "the initial guess is a solution, or b is zero"
        self.tried.append(Attempt("guess", "none", "converged", 0, _relative(how), how.seconds))
        self._x = x
        return True

    def _choice(self) -> Choice:
        problem = self._problem
        hermitian, on_gpu = problem.is_hermitian, self.device != "cpu"
        positive = problem.has_positive_diagonal
        choice = choose(
            hermitian,
            positive,
            "none" if problem.is_foreign else "auto",
            problem.kind,
            indefinite=hermitian and positive and not self._seems_definite(),
            divides=problem.divides,
            dominance=0.0 if hermitian or on_gpu else problem.dominance,
            on_gpu=on_gpu,
        )
        if problem.is_foreign and "cg" in choice.solvers:
            why = f"products with random vectors are those of a {problem.kind} matrix"
            choice = choice._replace(reason=why)
        return choice

    def _seems_definite(self) -> bool:
        """Whether a few steps of the Lanczos method, which those of cg are, find no negative eigenvalue."""
        problem = self._problem
        v = random_vector(problem.rows, problem.dtype, 2, problem.ordinal).owner
        M = problem.preconditioner("jacobi" if problem.divides else "none")
        limits = partial(check_limits, 1e-8, 0.0, _LANCZOS_STEPS, 10)
        _, _, how = krylov.run("cg", problem.op, v, None, M, limits, nullspace=self._nullspace, warns=False)
        return how.status not in ("indefinite", "bad_preconditioner")

    def _most_before_multigrid(self) -> float | None:
        """How many more iterations than so many of cg take longer than multigrid with its set-up; a guess."""
        op = self._problem.op
        if not isinstance(op, SparseOperator) or op._stored.description.is_divided:
            return None
        iterations, seconds = _SETUP
        fixed, each = _OF_CPU if op._ordinal < 0 else _OF_GPU
        return iterations + seconds / (fixed + each * self._problem.rows)

    def _attempt(self, step: Step, most: float | None = None) -> str:
        """Try a method; its status.

        It ends if it seems to take more than `most` further iterations, and multigrid suits the matrix.
        """
        start, x, iterations, residual = perf_counter(), None, 0, np.inf
        try:
            x, info, how = self._run(step, None, most)
        except SlowError as slow:
            status, outcome = "slow", f"was slow, {slow}"
        except StalledError as stalled:
            status, outcome = "stalled", f"stalled, {stalled}"
        except (ArithmeticError, ValueError, MemoryError, np.linalg.LinAlgError) as error:
            status, outcome = "refused", str(error)
            if step.solver == "minres" and "non-symmetric" in outcome:
                status = "unsymmetric"
        else:
            status, iterations, residual = how.status, how.iterations, _relative(how)
            if status == "converged" and not np.all(info == 0):
                status = "exhausted"
            outcome = _WORDS.get(status, f"broke down ({status})")
        seconds = perf_counter() - start
        self._keep(Attempt(*step, outcome, iterations, residual, seconds), x)
        return status

    def _keep(self, attempt: Attempt, x: AnyArray) -> None:
        self.tried.append(attempt)
        if x is not None and (attempt.residual < self._best or attempt.outcome == "converged"):
            self._best, self._x = attempt.residual, x

    def _run(
        self, step: Step, maxiter: int | None, slow: float | None = None
    ) -> tuple[AnyArray, Info, SolveInfo]:
        rows = self._problem.rows
        root = int(np.sqrt(rows))
        most = min(10 * rows, 1000 + 50 * root) if maxiter is None else maxiter
        each = _PATIENCE_EACH if step.solver in SYMMETRIC_SOLVERS else 0
        if step.solver == "bicgstab" and self.device != "cpu":
            each = _PATIENCE_EACH_ON_GPU
        patience = _PATIENCE + each * root

        def limits(unknowns: int, callback: Callback | None) -> SolverLimits:
            limits = check_limits(self._rtol, self._atol, most, 10, unknowns, callback)
            limits.restart, limits.legacy = min(_RESTART, unknowns), True
            return limits

        return krylov.run(
            step.solver,
            self._problem.op,
            *self._problem.vectors,
            self._problem.preconditioner(step.preconditioner),
            limits,
            watch=_Patience(patience, slow, self._rtol, self._atol, lambda: self._problem.suits_multigrid),
            nullspace=self._nullspace,
            warns=False,
        )

    # Direct solver

    def is_direct(self) -> bool:
        """Whether SciPy's direct solver can be tried."""
        problem = self._problem
        is_possible = not problem.is_foreign and problem.located.host is not None and self._nullspace is None
        return is_possible and problem.rows <= _LARGEST_DIRECT

    def direct(self) -> bool:
        """Try SciPy's direct solver on the CPU; whether it has found the solution."""
        start, problem = perf_counter(), self._problem
        self.reason = self.reason or f"the matrix is small ({problem.rows} rows)"
        self.device, b = "cpu", self._host_b()
        x, residual = None, np.inf
        try:
            matrix = problem.matrix.astype(problem.dtype)
            if not np.isfinite(matrix.data).all():
                raise ValueError("A contains inf or NaN")
            x, residual, is_solved = _by_factors(matrix, b, self._rtol, self._atol)
            outcome = "converged" if is_solved else _WORDS["stagnated"]
        except RuntimeError:  # of SuperLU
            outcome = "the matrix is singular"
        except MemoryError:
            outcome = "there is no memory for the factors"
        if x is not None:
            x = problem.library.from_host(x, problem.b)
        self._keep(Attempt("direct", "none", outcome, 0, residual, perf_counter() - start), x)
        return outcome == "converged"

    def _host_b(self) -> HostArray:
        problem, host = self._problem, self._problem.located.host
        assert host is not None
        n = problem.rows
        if kind_of(host.dtype) not in "biufc":
            raise TypeError(f"b has dtype {host.dtype}; allowed are numbers")
        if host.ndim not in (1, 2) or host.shape[0] != n or host.shape[1:] == (0,):
            raise ValueError(f"b has shape {host.shape}; a matrix of shape {(n, n)} needs ({n},) or ({n}, k)")
        if self._problem.x0 is not None:
            x0, library = taken("x0", self._problem.x0)
            shape = library.locate(x0, "x0").shape
            if shape != host.shape:
                raise ValueError(f"x0 has shape {shape}; it must have the shape of b, {host.shape}")
        b = host.astype(problem.dtype)
        if not np.isfinite(b).all():
            raise ValueError("b contains inf or NaN")
        return b.reshape(n) if b.shape == (n, 1) else b


_WORDS = {
    "converged": "converged",
    "exhausted": "did not converge",
    "stagnated": "came to where rounding errors keep the residual",
    "least_squares": "found that the system has no solution",
    "indefinite": "found that the matrix is not positive definite",
    "bad_preconditioner": "found that the preconditioner is not positive definite",
    "singular": "found that the matrix may be singular",
    "not_finite": "came to numbers that are not finite",
}


class _Patience:
    """Ends a method whose residual has ceased to fall; called with each look at a solve."""

    def __init__(
        self, patience: int, most: float | None, rtol: float, atol: float, may_end: Callable[[], bool]
    ) -> None:
        self._patience, self._most, self._may_end = patience, most, may_end
        self._rtol, self._atol = rtol, atol
        self._best: list[tuple[int, float]] = []  # iterations, and the smallest residual up to there
        self._third = 0  # which of them was at a third of the iterations

    def __call__(self, iterations: int, residual: float, norm_b: float) -> None:
        best = min(residual, self._best[-1][1]) if self._best else residual
        self._best.append((iterations, best))
        if iterations < (self._patience if self._most is None else _FORECAST_FROM):
            return
        while self._third + 1 < len(self._best) and 3 * self._best[self._third + 1][0] <= iterations:
            self._third += 1
        since, before = self._best[self._third]
        if self._most is not None:
            goal = max(self._rtol * norm_b, self._atol)
            more = _forecast(iterations - since, before, best, goal)
            if more > self._most and self._may_end():
                raise SlowError(
                    f"at a relative residual of {best / (norm_b or 1.0):.1e} after {iterations} iterations"
                )
        if iterations >= self._patience and best > 0.7 * before:
            raise StalledError(
                f"at a relative residual of {best / (norm_b or 1.0):.1e} after {iterations} iterations"
            )


def _forecast(iterations: int, before: float, now: float, goal: float) -> float:
    """How many more iterations there will be if a residual goes on to fall as it did in the last ones."""
    if now <= goal or goal <= 0:
        return 0.0
    fall = np.log(before / now)
    return float(iterations * np.log(now / goal) / fall) if fall > 0 else np.inf


def _relative(how: SolveInfo) -> float:
    """The largest relative residual of all columns."""
    columns = how.columns or (how,)
    return max(c.true_residual / c.norm_b if c.norm_b > 0 else c.true_residual for c in columns)


def _norms(X: HostArray) -> HostArray:
    """Of columns, without squares that leave the range of numbers."""
    sizes = np.abs(X).max(axis=0, initial=0.0)
    norms: HostArray = sizes * np.linalg.norm(X / np.where(sizes > 0, sizes, 1.0), axis=0)
    return norms


def _by_factors(A: sp.csr_array, b: HostArray, rtol: float, atol: float) -> tuple[HostArray, float, bool]:
    """The solution with the factors of a matrix, its relative residual, and whether that is small enough."""
    most_refinements = 3
    sizes = _norms(b)
    goals = np.maximum(rtol * sizes, atol)
    if not A.shape[0]:
        return np.zeros_like(b), 0.0, True
    factors = sla.splu(A.tocsc())
    x = factors.solve(b)
    for refinement in range(most_refinements + 1):
        residual = b - A @ x
        norms = _norms(residual)
        is_solved = bool((norms <= goals).all())
        if is_solved or not np.isfinite(norms).all() or refinement == most_refinements:
            break
        x = x + factors.solve(residual)
    relative = norms / np.where(sizes > 0, sizes, 1.0)
    worst = float(np.max(relative, initial=0.0))
    return x, worst if np.isfinite(worst) else np.inf, is_solved
