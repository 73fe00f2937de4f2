"""The search of `solve` for a method: what is tried."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass, replace
from time import perf_counter
from typing import NamedTuple

import numpy as np
from scipy.sparse.csgraph import connected_components

from .._util.steps import step, tell
from .._util.types import HostArray
from ..arrays import AnyArray
from ..devices import CPU
from ..operator.solve_info import SolveInfo
from . import cudss, krylov
from .approaches import DIRECT, Approach, choose
from .direct import splu
from .factors import contradiction, solve_by_factors
from .forecast import Patience, Rival
from .krylov import KrylovRequest, Watch
from .named import SYMMETRIC_SOLVERS, named
from .problem import DoubleSystem, refine
from .stopping import Info, SolverWarning

# Rows of which factors are made where all else has failed, and of which a GPU makes them before it tries
# incomplete ones: on an H200 these took up to 1 s in two dimensions, and 4 s of circuits.
_LARGEST_DIRECT, _LARGEST_ON_GPU = 100_000, 500_000
_MOST_COMPONENTS = 100  # for which a dense basis of the null space is small
_GUESS = Approach("guess", "none")
_RESTART = 50  # of gmres, which is the last to be tried
# Iterations before a residual that has ceased to fall ends a method, and more of them, times the square root
# of the rows, with cg and minres, whose residuals may fall late; and with bicgstab on a GPU, where the
# triangular factors that come next take as long as a thousand iterations.
_PATIENCE, _PATIENCE_EACH, _PATIENCE_EACH_ON_GPU = 300, 3, 10


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
        return str(Approach(self.method, self.preconditioner))


@dataclass
class Search:
    """Methods that are tried one after the other, until one reaches the tolerance.

    Parameters
    ----------
    problem, rtol, atol, nullspace
        What is solved, as `solve` takes it.
    solver, preconditioner : str, optional
        The only ones to try.
    options : dict, optional
        Of the preconditioner.
    maxiter : int, optional
        Iterations of each method. The search ends where they are used up.
    restart : int
        Of gmres.
    direct : bool
        Whether factors may be tried.
    refines : bool
        Whether solutions are in double precision even if the operator is not, see `refine`.
    shown : callable, optional
        Of an approach and the reason for it. It gives a context manager of what looks at the solve, in which
        the approach is tried.

    Attributes
    ----------
    tried : list of Attempt
    statuses : list of str
        How each ended: as of `SolveInfo`, or "refused", "unsymmetric", "stalled" or "slow".
    reason : str
        Why the first one was chosen.
    rounds : int
        Of the best attempt, how often the solver was started.
    seconds : dict
        For preconditioners, solvers, and residuals that are computed beside these.
    """

    problem: DoubleSystem
    rtol: float
    atol: float = 0.0
    nullspace: object = None
    _: KW_ONLY
    solver: str = "auto"
    preconditioner: str = "auto"
    options: dict[str, object] | None = None
    maxiter: int | None = None
    restart: int = _RESTART
    direct: bool = True
    refines: bool = False
    shown: Callable[[Approach, str], AbstractContextManager[Watch | None]] = lambda *_: nullcontext()

    def __post_init__(self) -> None:
        self.tried: list[Attempt] = []
        self.statuses: list[str] = []
        self.reason, self.device = "", "cpu"
        self.rounds = self._rounds = 1
        self.seconds = {"precondition": 0.0, "solve": 0.0, "verify": 0.0}
        self._x: AnyArray = None
        self._start: AnyArray = None  # what the next method starts from; None: the guess of the caller
        self._best: Attempt | None = None

    def solve(self) -> bool:
        """Try what suits the problem; whether it is solved."""
        is_direct = self._may_factorize(_LARGEST_DIRECT)
        if is_direct and self.problem.is_small:
            return self._direct() or self._iterate()
        return self._iterate() or (is_direct and self._direct())

    @property
    def x(self) -> AnyArray:
        """The best approximation so far, as the caller gets it; None before there is one."""
        return self.problem.delivered(self._x)

    @property
    def best(self) -> Attempt:
        """What found `x`; without it the last attempt."""
        return self._best or self.tried[-1]

    # Krylov methods

    def _iterate(self) -> bool:
        """Try solvers of `spmvgpu.linalg`; whether one has found the solution."""
        names = getattr(self.problem.op, "device", "cpu")
        self.device = names if isinstance(names, str) else ", ".join(names)
        if self.solver != "auto":
            return self._attempt(Approach(self.solver, self.preconditioner)) == "converged"
        if self.problem.x0 is not None and self._begins_at_the_end():
            return True
        if self.contradiction():
            return False
        approaches, why = self._choice()
        self.reason = self.reason or why
        unsuitable: set[str] = set()
        first = approaches[0].solver
        rival = self.problem.multigrid(first) if Approach(first, "amg") in approaches else None
        while approaches:
            approach = approaches.pop(0)
            if approach.solver in unsuitable or (approach == DIRECT and not cudss.is_available()):
                continue
            status = self._attempt(approach, rival)
            rival = None  # of the first one alone
            if status == "converged":
                return True
            if status == "exhausted" and self.maxiter is not None and self.tried[-1].residual < 1:
                return False
            if status == "slow":  # it is the way to the solution if no other is
                alike = [k for k, other in enumerate(approaches) if other.solver == first]
                last = alike[0] if self._on_gpu else alike[-1]  # that of multigrid, or of incomplete factors
                approaches.insert(last + 1, approach)
            if status in ("indefinite", "unsymmetric"):
                unsuitable.add(approach.solver)
        return False

    @property
    def _on_gpu(self) -> bool:
        return set(self.device.split(", ")) != {"cpu"}

    def _begins_at_the_end(self) -> bool:
        """Check what was given, and whether the guess is a solution."""
        x, info, how = self._run(Approach("bicgstab", "none"), 0, lambda *_: False)
        if how.status == "not_finite":
            raise ValueError("b or x0 contains inf or NaN")
        if not np.all(info == 0):
            return False
        self.reason = "the initial guess is a solution, or b is zero"
        with self.shown(_GUESS, self.reason):
            self._keep(Attempt(*_GUESS, "converged", 0, _relative(how), how.seconds), x, "converged")
        return True

    def _choice(self) -> tuple[list[Approach], str]:
        problem = self.problem
        hermitian, on_gpu = problem.is_hermitian, self._on_gpu
        positive = problem.has_positive_diagonal
        given = hermitian, positive, "none" if problem.is_foreign else self.preconditioner, problem.kind
        dominance = 0.0 if hermitian or on_gpu else problem.dominance
        approaches, reason = choose(
            *given,
            divides=problem.divides,
            dominance=dominance,
            on_gpu=on_gpu,
            suits_multigrid=not hermitian and problem.suits_multigrid,
            direct=problem.ordinal != CPU and not problem.is_small and self._may_factorize(_LARGEST_ON_GPU),
        )
        if problem.is_foreign and approaches[0].solver == "cg":
            reason = f"products with random vectors are those of a {problem.kind} matrix"
        return approaches, reason

    def _attempt(self, approach: Approach, rival: Rival | None = None) -> str:
        """Try a method; its status. It ends early if it stalls, or if `rival` is better."""
        start, x, iterations, residual = perf_counter(), None, 0, np.inf
        status = ""
        reason = f"{self.tried[-1]} {self.tried[-1].outcome}" if self.tried else self.reason
        patience = Patience(self._most_without_gain(approach.solver), self.rtol, self.atol, rival)
        with self.shown(approach, reason) as watch, step("solve", str(approach)):

            def look(iterations: int, residual: float, norm_b: float) -> bool:
                tell("%s: %d iterations, residual %.1e", approach, iterations, residual / (norm_b or 1.0))
                if watch is not None:
                    watch(iterations, residual, norm_b)
                return self.solver == "auto" and patience(iterations, residual, norm_b)

            try:
                x, info, how = self._run(approach, self.maxiter, look)
            except (ArithmeticError, TypeError, ValueError, MemoryError, np.linalg.LinAlgError) as error:
                status, outcome = "refused", str(error)
                if approach.solver == "minres" and "non-symmetric" in outcome:
                    status = "unsymmetric"
            else:
                if not all(np.isfinite(column.norm_b) for column in how.columns or (how,)):
                    raise ValueError("b contains inf or NaN, or its norm overflows; scale it")
                status, iterations, residual = how.status, how.iterations, _relative(how)
                if status == "converged" and not np.all(info == 0):
                    status = "exhausted"
                outcome = _WORDS.get(status, f"broke down ({status})")
                if status == "exhausted" and patience.status:
                    status, outcome = patience.status, patience.outcome
                before = np.inf if self._best is None else self._best.residual
                is_no_better = status in ("stalled", "exhausted") and residual > 0.5 * before
                if is_no_better and "stagnated" in self.statuses:  # rounding errors keep x where it started
                    status, outcome = "stagnated", _WORDS["stagnated"]
                # minres takes more iterations from where cg found a negative eigenvalue than from zero.
                if residual < min(1.0, before) and status != "indefinite":
                    self._start = x
        seconds = perf_counter() - start
        self._keep(Attempt(*approach, outcome, iterations, residual, seconds), x, status)
        return status

    def _keep(self, attempt: Attempt, x: AnyArray, status: str) -> None:
        self.tried.append(attempt)
        self.statuses.append(status)
        best = np.inf if self._best is None else self._best.residual
        if x is not None and (attempt.residual < best or status == "converged"):
            self._best, self._x, self.rounds = attempt, x, self._rounds

    def _most_without_gain(self, solver: str) -> int:
        """Iterations before a residual that has ceased to fall ends a method."""
        each = _PATIENCE_EACH if solver in SYMMETRIC_SOLVERS else 0
        if solver == "bicgstab" and self._on_gpu:
            each = _PATIENCE_EACH_ON_GPU
        return _PATIENCE + each * int(np.sqrt(self.problem.rows))

    def _run(self, approach: Approach, maxiter: int | None, look: Watch) -> tuple[AnyArray, Info, SolveInfo]:
        problem, rtol, atol, solver = self.problem, self.rtol, self.atol, approach.solver
        root = int(np.sqrt(problem.rows))
        most = min(10 * problem.rows, 1000 + 50 * root) if maxiter is None else maxiter
        start = perf_counter()
        M = self._made(approach)
        made = perf_counter()
        limits = rtol, atol, most, self.nullspace
        request = KrylovRequest(
            solver, None, M, *limits, restart=self.restart, callback_type="legacy", watch=look, warns=False
        )
        if self.refines and approach != DIRECT:

            def solve(b: HostArray, rtol: float, most: int, look: Watch) -> tuple[HostArray, SolveInfo]:
                one = replace(request, rtol=rtol, atol=0.0, maxiter=most, watch=look)
                return krylov.run(problem.op, b, one)[::2]

            x0 = problem.x0 if self._start is None else self._start
            x, how, self._rounds, verify = refine(problem, x0, solve, rtol, most, look)
            info: Info = 0 if how.status == "converged" else 1
        else:
            b, x0 = problem.vectors
            x0 = x0 if self._start is None else self._start
            if approach == DIRECT:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SolverWarning)  # the residual is computed here
                    request = replace(request, method="bicgstab", maxiter=0)
                    x0 = splu(problem.op).solve(b)
            (x, info, how), verify = krylov.run(problem.op, b, replace(request, x0=x0)), 0.0
        self.seconds["precondition"] += made - start
        self.seconds["verify"] += verify
        self.seconds["solve"] += perf_counter() - made - verify
        return x, info, how

    def _made(self, approach: Approach) -> object:
        """The preconditioner of an approach, as solvers take it."""
        M = self.problem.preconditioner(approach.preconditioner)
        if not isinstance(M, str):
            return M
        with self.problem.agreement():
            return named(M, self.problem.op, approach.solver, **(self.options or {}))

    # Direct solver

    def _may_factorize(self, most: int) -> bool:
        """Whether factors can be tried, of a matrix with at most so many rows."""
        problem = self.problem
        is_possible = self.direct and not problem.is_foreign and self.nullspace is None
        return is_possible and problem.rows <= most

    def _direct(self) -> bool:
        """Try SciPy's factors; whether they have solved it."""
        problem = self.problem
        start = perf_counter()
        b, x0 = problem.host_vectors
        if self.contradiction():
            return False
        self.reason = self.reason or f"the matrix is small ({problem.rows} rows)"
        self.device = "cpu"
        matrix = problem.matrix.astype(problem.dtype, copy=False)
        if not np.isfinite(matrix.data).all():
            raise ValueError("A contains inf or NaN")
        with self.shown(DIRECT, self.reason), step("solve", str(DIRECT)):
            x, residual, outcome = solve_by_factors(matrix, b, x0, self.rtol, self.atol)
        if x is not None:
            x = problem.library.from_host(np.ascontiguousarray(x), problem.b)
        seconds = perf_counter() - start
        self.seconds["solve"] += seconds
        status = outcome if outcome == "converged" else "stagnated"
        self._keep(Attempt(*DIRECT, outcome, 0, residual, seconds), x, status)
        return status == "converged"

    # Messages for the caller

    def contradiction(self) -> str:
        """Why there is no solution, whatever the other rows are; empty if nothing says so."""
        problem = self.problem
        if self.nullspace is not None or not len(problem.empty_rows):
            return ""
        return contradiction(problem.empty_rows, problem.host_vectors[0], self.rtol, self.atol)

    def advice(self) -> str:
        """What else the caller may give; empty if nothing is known to help."""
        problem = self.problem
        if self.nullspace is not None or not problem.has_constant_null_space:
            return ""
        count = 1 if problem.is_foreign else connected_components(problem.matrix, directed=False)[0]
        if count == 1:
            which = 'give nullspace="constant"'
        elif count > _MOST_COMPONENTS:
            which = (
                "give a basis of vectors that are constant on one connected component and zero elsewhere as "
                f"nullspace=, as A has {count} connected components"
            )
        else:
            which = (
                f"give nullspace=numpy.eye({count})[labels] with labels = "
                f"scipy.sparse.csgraph.connected_components(A)[1], as A has {count} connected components"
            )
        return (
            "; A maps constant vectors to zero, so that b has to be orthogonal to them: "
            f"{which}, which solves for the rest of b"
        )


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


def _relative(how: SolveInfo) -> float:
    """The largest relative residual of all columns."""
    columns = how.columns or (how,)
    return max(c.true_residual / c.norm_b if c.norm_b > 0 else c.true_residual for c in columns)
