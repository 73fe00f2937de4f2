"""From a solver to a solution: corrected until the true residual is small, reported, judged."""

from __future__ import annotations

import argparse
import io
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

import spmvgpu as sg

from .._util.types import HostArray
from ..linalg.choice import Choice, Step
from .advice import ROUNDING, Outcome, suggestions
from .output import Report, check_writable, fail, replacing

if TYPE_CHECKING:
    from ..distributed import DistributedOperator


class Seconds(NamedTuple):
    """What takes time, in its order; over several ranks some of it is not measured by itself."""

    input: Annotated[float, "reading or assembling; with several ranks also making the operator"] = 0.0
    check: Annotated[float, "checking the matrix, and reordering it"] = 0.0
    convert: Annotated[float | None, "conversion to the format; null with several ranks"] = None
    transfer: Annotated[float | None, "copying to the device; null with several ranks"] = None
    precondition: Annotated[float | None, "making the preconditioner; null with several ranks"] = None
    solve: Annotated[float, "the solver"] = 0.0
    verify: Annotated[float, "computing the true residual"] = 0.0


class System(ABC):
    """A square system of equations as `solve` sees it, read when it is made; `build` makes its operator.

    Attributes
    ----------
    title : str
    kind : {"symmetric", "Hermitian"}
        What the matrix would be if it equalled its (conjugate) transpose.
    op : SparseOperator or DistributedOperator
    b, diagonal : array
        The right-hand side and the diagonal of the matrix, or the pieces of this rank.
    first_row : int
        Of the piece.
    is_first, quiet : bool
        Whether this process prints, and whether it shows no progress.
    seconds : Seconds
        So far.
    verified : str
        How residuals are computed.
    has_preconditioners : bool
        Whether there are others than jacobi.
    """

    title: str
    kind: str
    op: sg.SparseOperator | DistributedOperator
    b: HostArray
    diagonal: HostArray
    first_row = 0
    is_first = True
    verified: str
    has_preconditioners = True

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.seconds = args, Seconds()
        self.quiet = args.quiet or not self.is_first
        with self.agreement():
            self.check_arguments()

    def check_arguments(self) -> None:
        """Refuse, with ValueError, what cannot be done, before anything is read."""
        if self.args.output is not None:
            check_output(self.args.output)

    @abstractmethod
    def build(self) -> None:
        """Make the operator, in the order that the user asked for, and whatever else the solve needs."""

    @abstractmethod
    def described(self, outcome: Outcome) -> Outcome:
        """An outcome with what is known of the matrix."""

    @abstractmethod
    def asymmetry(self) -> str | None:
        """What shows that the matrix is not symmetric or Hermitian; None if it is, up to rounding."""

    def dominance(self) -> float:
        """As `linalg.choice.dominance` gives it; 0 if it is not known."""
        return 0.0

    def has_one_triangle(self) -> bool:
        """Whether the matrix may be half of a symmetric one."""
        return False

    @abstractmethod
    def multiply(self, x: HostArray) -> HostArray:
        """The product with the matrix in double precision."""

    @abstractmethod
    def norm(self, v: HostArray, order: float | None = None) -> float:
        """As `numpy.linalg.norm`."""

    @abstractmethod
    def write(self, x: HostArray) -> None:
        """Write the solution to the file that the user named."""

    @abstractmethod
    def tell_operator(self, report: Report) -> None:
        """Report where the operator is and in which format."""

    def agreement(self) -> AbstractContextManager[None]:
        """A block whose exceptions all ranks raise."""
        return nullcontext()

    def everywhere(self, condition: bool) -> bool:
        """Whether this is so on all ranks."""
        return condition


class StepError(ValueError):
    """A solver cannot go on, or there is no such preconditioner; `why` says what was found."""

    def __init__(self, message: str, why: object, of_solver: bool) -> None:
        super().__init__(message)
        self.why, self.of_solver = str(why), of_solver


class Solution(NamedTuple):
    """What `refine` found."""

    x: HostArray
    residual: float
    iterations: int
    exhausted: bool  # all iterations that were allowed are used up
    rounds: int
    solve_seconds: float
    verify_seconds: float


def refine(system: System, step: Callable[[HostArray, float, int, float], tuple[HostArray, int]]) -> Solution:
    """Run a solver, and again on the true residual as long as that is too large and gets smaller.

    The residual that the solver updates drifts from the true one by rounding: hardly in float64, but in
    float32 long before a usual tolerance. Solving for the correction makes up for it: products in single
    precision, and an answer in double precision.

    ``step(right, rtol, limit, relative)`` gives a solution and its iterations; `relative` is the norm of the
    residual before, relative to that of `b`.
    """
    b, norm, rtol, dtype = system.b, system.norm, system.args.rtol, system.op.dtype
    limit = system.args.maxiter or 10 * system.op.shape[0]
    size = norm(b, np.inf) or 1.0  # without it the norm of very large or small b over- or underflows
    b = b / size
    norm_b = norm(b)
    double = np.result_type(dtype, np.float64)
    x, residual = np.zeros(len(b), double), b
    rounds, iterations, solve_seconds, verify_seconds = 0, 0, 0.0, 0.0
    relative = previous = 1.0 if norm_b else 0.0
    reachable = 1000 * float(np.finfo(dtype).eps)
    while relative > rtol and iterations < limit and (rounds == 0 or relative <= 0.5 * previous):
        start = perf_counter()
        scale = norm(residual)
        goal = max(rtol / relative, reachable)
        correction, taken = step((residual / scale).astype(dtype), goal, limit - iterations, relative)
        solved = perf_counter()
        x += scale * correction.astype(double)
        residual = b - system.multiply(x)
        previous, relative = relative, norm(residual) / norm_b
        iterations += taken
        solve_seconds += solved - start
        verify_seconds += perf_counter() - solved
        rounds += 1
    exhausted = iterations >= limit
    return Solution(size * x, relative, iterations, exhausted, rounds, solve_seconds, verify_seconds)


def first_that_works(
    choice: Choice, rtol: float, attempt: Callable[[Step], Solution], report: Report
) -> tuple[Step, Solution]:
    """Solve by the first of some steps that does not break down, diverge or stagnate; with which one.

    If all do, it is the one that came closest.
    """
    reason, preconditioner = choice.reason, ""
    steps = list(choice.steps)
    found: list[tuple[Step, Solution, str | None]] = []
    while steps:
        step = steps.pop(0)
        solver = step.solver
        if step.preconditioner != preconditioner:
            preconditioner = step.preconditioner
            report.text(f"{'preconditioner':<14} {_name(step)}")
        report.wrapped(f"{'solver':<14}", f"{solver}, because {reason}" if reason else solver)
        why = reason
        try:
            solution = attempt(step)
        except StepError as error:
            if error.of_solver:  # with another preconditioner it would find the same
                steps = [other for other in steps if other.solver != solver]
            if not (steps or found):
                raise
            reason = error.why
            continue
        found.append((step, solution, why))
        if not _failed(solution, rtol):
            break
        what = "diverged" if not solution.residual < 1 else "came no further"
        reason = f"{step} {what}, to a residual of {solution.residual:.1e}"
    best = found[-1]
    if _failed(best[1], rtol):
        finite = [one for one in found if np.isfinite(one[1].residual)]
        best = min(finite, key=lambda one: one[1].residual, default=best)
        if best is not found[-1]:
            report.text(f"{'closest':<14} {best[0]}")
    step, solution, why = best
    report.values |= {"preconditioner": _name(step), "solver": step.solver, "solver_reason": why}
    return step, solution


def _name(step: Step) -> str:
    """The preconditioner as the command line calls it."""
    return step.preconditioner.replace("_", "-")


def _failed(solution: Solution, rtol: float) -> bool:
    """Whether another solver may find what this one has not, and would not with more iterations."""
    if not solution.residual < 1:  # that of zero
        return True
    return not solution.exhausted and solution.residual > max(rtol, ROUNDING)


def check_output(output: Path) -> None:
    """Refuse, with ValueError, to write the solution where nothing can be written."""
    if output.suffix != ".npy":
        raise ValueError(f"{output}: the solution goes to a .npy file; give a name that ends in .npy")
    check_writable(output)


def write_solution(output: Path, x: HostArray) -> None:
    """Write it whole or not at all."""
    content = io.BytesIO()
    np.save(content, x)  # to a file itself NumPy would write without saying what went wrong
    with replacing(output) as file:
        file.write_bytes(content.getvalue())


def tell(report: Report, system: System, choice: Choice, step: Step, solution: Solution) -> int:
    """Report how the solve went, and how long it and what was before it took; return the exit code."""
    args = system.args
    times = system.seconds._replace(solve=solution.solve_seconds, verify=solution.verify_seconds)
    report.text("seconds")
    for phase, seconds in times._asdict().items():
        if seconds is not None:
            report.text(f"  {phase:<12} {seconds:.3f}")
    report.values["seconds"] = times
    again = f", started {solution.rounds} times" if solution.rounds > 1 else ""
    report.line(
        "iterations", f"{solution.iterations}{again}", iterations=solution.iterations, rounds=solution.rounds
    )
    residual = solution.residual if np.isfinite(solution.residual) else None  # JSON has no NaN
    report.line(
        "residual", f"{solution.residual:.2e} = ||b - A x|| / ||b||, {system.verified}", residual=residual
    )
    if args.output:
        report.line("written", str(args.output))
    converged = solution.residual <= args.rtol
    outcome = Outcome(
        solver=step.solver,
        preconditioner=_name(step),
        dtype=str(system.op.dtype),
        residual=solution.residual,
        rtol=args.rtol,
        iterations=solution.iterations,
        rows=system.op.shape[0],
        exhausted=solution.exhausted,
        restart=args.restart,
        broken=tuple(solver for solver in choice.solvers if solver != step.solver),
    )
    advice = [] if converged else suggestions(system.described(outcome))
    report.line("converged", f"{'yes,' if converged else 'no, not'} to rtol {args.rtol:g}")
    for suggestion in advice:
        report.wrapped(f"{'try':<14}", f"{suggestion.options}: {suggestion.reason}")
    report.finish(rtol=args.rtol, converged=converged, output=args.output, suggestions=advice)
    return 0 if converged else fail(_complaint(solution, args.rtol, [s.options for s in advice]), 1)


def _complaint(solution: Solution, rtol: float, options: list[str]) -> str:
    """One sentence about a residual that is too large, with what to try."""
    end = f"after all {solution.iterations} iterations" if solution.exhausted else "and gets no smaller"
    if not solution.exhausted and solution.residual > ROUNDING:
        end += ", so the matrix may be singular"
    text = f"not converged: the residual is {solution.residual:.2e}, not {rtol:g}, {end}"
    *others, last = options or [""]
    choice = f"{', '.join(others)} or {last}" if others else last
    return f"{text}; try {choice}" if options else text
