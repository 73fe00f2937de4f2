"""From a solver to a solution: corrected until the true residual is small, reported, judged."""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .advice import OTHER_SOLVER, ROUNDING, Choice, Outcome, suggestions
from .output import Report, check_writable, fail, replacing

Array = npt.NDArray[Any]

# What takes time, in its order; over several ranks some of it is not measured by itself.
PHASES = ("input", "check", "convert", "transfer", "precondition", "solve", "verify")


class BrokenDownError(ValueError):
    """A solver cannot go on, and another one may; `why` says what it found."""

    def __init__(self, title: str, why: object, solver: str) -> None:
        super().__init__(f"{title}: {why}; {OTHER_SOLVER[solver]}")
        self.why = str(why)


class Solution(NamedTuple):
    """What `refine` found."""

    x: Array
    residual: float
    iterations: int
    exhausted: bool  # all iterations that were allowed are used up
    rounds: int
    solve_seconds: float
    verify_seconds: float


def refine(
    b: Array,
    rtol: float,
    limit: int,
    dtype: np.dtype[Any],
    step: Callable[[Array, float, int, float], tuple[Array, int]],
    multiply: Callable[[Array], Array],
    norm: Callable[..., Any] = np.linalg.norm,
) -> Solution:
    """Run a solver, and again on the true residual as long as that is too large and gets smaller.

    The residual that the solver updates drifts from the true one by rounding: hardly in float64, but in
    float32 long before a usual tolerance. Solving for the correction makes up for it: products in single
    precision, and an answer in double precision.

    Parameters
    ----------
    b : array
    rtol : float
    limit : int
        Most iterations of all runs together.
    dtype : dtype
        What the solver computes in.
    step : callable
        ``step(right, rtol, limit, relative)`` gives a solution and its iterations; `relative` is the norm of
        the residual before, relative to that of `b`.
    multiply : callable
        The product with the matrix in double precision.
    norm : callable
        ``norm(v)``, and ``norm(v, np.inf)``.
    """
    size = float(norm(b, np.inf)) or 1.0  # without it the norm of very large or small b over- or underflows
    b = b / size
    norm_b = float(norm(b))
    double = np.result_type(dtype, np.float64)
    x, residual = np.zeros(len(b), double), b
    rounds, iterations, solve_seconds, verify_seconds = 0, 0, 0.0, 0.0
    relative = previous = 1.0 if norm_b else 0.0
    reachable = 1000 * float(np.finfo(dtype).eps)
    while relative > rtol and iterations < limit and (rounds == 0 or relative <= 0.5 * previous):
        start = perf_counter()
        scale = float(norm(residual))
        goal = max(rtol / relative, reachable)
        correction, taken = step((residual / scale).astype(dtype), goal, limit - iterations, relative)
        solved = perf_counter()
        x += scale * correction.astype(double)
        residual = b - multiply(x)
        previous, relative = relative, float(norm(residual)) / norm_b
        iterations += taken
        solve_seconds += solved - start
        verify_seconds += perf_counter() - solved
        rounds += 1
    exhausted = iterations >= limit
    return Solution(size * x, relative, iterations, exhausted, rounds, solve_seconds, verify_seconds)


def first_that_works(
    choice: Choice, attempt: Callable[[str], Solution], report: Report
) -> tuple[str, Solution]:
    """Solve with the first of some solvers that does not break down or diverge; its name and its solution."""
    reason = choice.reason
    for solver in choice.solvers:
        report.wrapped(f"{'solver':<14}", f"{solver}, because {reason}" if reason else solver)
        report.values |= {"solver": solver, "solver_reason": reason}
        is_last = solver == choice.solvers[-1]
        try:
            solution = attempt(solver)
        except BrokenDownError as error:
            if is_last:
                raise
            reason = error.why
        else:
            if is_last or solution.residual < 1:  # the residual of zero
                return solver, solution
            reason = f"{solver} diverged, to a residual of {solution.residual:.1e}"
    raise AssertionError("there is a solver to begin with")


def outcome_of(
    args: argparse.Namespace,
    choice: Choice,
    solver: str,
    solution: Solution,
    op: Any,
    **known: Any,
) -> Outcome:
    """How a solve went; `known` is what is known of the matrix."""
    return Outcome(
        solver=solver,
        preconditioner=args.preconditioner,
        dtype=str(op.dtype),
        residual=solution.residual,
        rtol=args.rtol,
        iterations=solution.iterations,
        rows=op.shape[0],
        exhausted=solution.exhausted,
        restart=args.restart,
        broken=tuple(takewhile(lambda name: name != solver, choice.solvers)),
        **known,
    )


def check_output(output: Path | None) -> None:
    """Refuse, with ValueError, to write the solution where nothing can be written."""
    if output is None:
        return
    if output.suffix != ".npy":
        raise ValueError(f"{output}: the solution goes to a .npy file; give a name that ends in .npy")
    check_writable(output)


def write_solution(output: Path, x: Array) -> None:
    """Write it whole or not at all."""
    content = io.BytesIO()
    np.save(content, x)  # to a file itself NumPy would write without saying what went wrong
    with replacing(output) as file:
        file.write_bytes(content.getvalue())


def tell(
    report: Report,
    solution: Solution,
    before: dict[str, float],
    verified: str,
    args: argparse.Namespace,
    outcome: Outcome,
) -> int:
    """Report how the solve went, and how long it and what was before it took; return the exit code."""
    times = {**before, "solve": solution.solve_seconds, "verify": solution.verify_seconds}
    report.text("seconds")
    for phase, seconds in times.items():
        report.text(f"  {phase:<12} {seconds:.3f}")
    report.values["seconds"] = {phase: times.get(phase) for phase in PHASES}
    again = f", started {solution.rounds} times" if solution.rounds > 1 else ""
    report.line(
        "iterations", f"{solution.iterations}{again}", iterations=solution.iterations, rounds=solution.rounds
    )
    residual = solution.residual if np.isfinite(solution.residual) else None  # JSON has no NaN
    report.line("residual", f"{solution.residual:.2e} = ||b - A x|| / ||b||, {verified}", residual=residual)
    if args.output:
        report.line("written", str(args.output))
    converged = solution.residual <= args.rtol
    advice = [] if converged else suggestions(outcome)
    if converged:
        report.line("converged", f"yes, to rtol {args.rtol:g}")
    else:
        report.line("converged", f"no, not to rtol {args.rtol:g}")
    for suggestion in advice:
        report.wrapped(f"{'try':<14}", f"{suggestion.options}: {suggestion.reason}")
    report.finish(
        rtol=args.rtol,
        converged=converged,
        output=None if args.output is None else str(args.output),
        suggestions=[suggestion._asdict() for suggestion in advice],
    )
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
