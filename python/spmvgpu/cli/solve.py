"""``solve``: a system of equations from a file, solved on a device or on all ranks of MPI."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from spmvgpu.linalg.approaches import Approach
from spmvgpu.linalg.krylov import Watch
from spmvgpu.linalg.named import NAMES
from spmvgpu.linalg.search import Search

from .._util.progress import counting, waiting
from .advice import OTHER_SOLVER, RESTART, ROUNDING, Outcome, Suggestion, suggestions
from .arguments import add_quiet, positive_float, positive_int
from .output import Fields, Report, fail, fields_of
from .problem import (
    MATRIX_FIELDS,
    add_problem_arguments,
    load_problem,
    reading,
    tell_matrix,
    tell_operator,
)
from .task import LEAST_SQUARES, Task, check_output, check_solver, read_task, write_solution

HELP = "solve A x = b, or find a least-squares solution"
DESCRIPTION = """\
Solve A x = b with a solver of spmvgpu.linalg, and check the residual with SciPy. Started by mpiexec or srun,
all processes solve together."""


FIELDS: Fields = {
    **MATRIX_FIELDS,
    "ranks": ("integer", "processes of MPI"),
    "device": ("string", "device of the operator; of rank 0 with several ranks"),
    "format": ("string", "storage format; of rank 0 with several ranks"),
    "bytes": ("integer", "memory of the operator, on all ranks"),
    "solver": ("string", "the solver, the last one where another one broke down or diverged"),
    "solver_reason": ("string or null", "why it was chosen; null if `--solver` named it"),
    "preconditioner": ("string", "the preconditioner"),
    "reordered": ("boolean", "whether the rows and columns were reordered, with `--reorder`"),
    "seconds.input": ("number", "reading or assembling; with several ranks also making the operator"),
    "seconds.check": ("number", "checking the matrix, and reordering it"),
    "seconds.convert": ("number or null", "conversion to the format; null with several ranks"),
    "seconds.transfer": ("number or null", "copying to the device; null with several ranks"),
    "seconds.precondition": ("number", "making the preconditioner"),
    "seconds.solve": ("number", "the solver"),
    "seconds.verify": ("number", "computing the true residual"),
    "iterations": ("integer", "iterations of all rounds"),
    "rounds": ("integer", "how often the solver was started, on the true residual"),
    "residual": ("number or null", "norm of b - A x over the norm of b; null if not finite"),
    "gradient": ("number or null", "of lsqr and lsmr: norm of A.H (b - A x) over the norms of A and b - A x"),
    "rtol": ("number", "the tolerance"),
    "converged": (
        "boolean",
        "whether the residual is within the tolerance; of lsqr and lsmr whether their estimates are",
    ),
    "output": ("string or null", "file with the solution"),
    **fields_of("suggestions[]", Suggestion),
}

# Open MPI's mpiexec sets the first one, that of MPICH and its relatives the second, and srun the third.
_COUNTS_OF_RANKS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")

# How attempts end that say more of the matrix or the preconditioner than of the residual.
_BROKEN = {"refused", "unsymmetric", "indefinite", "bad_preconditioner", "rho", "omega", "not_finite"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    formats = ", ".join(sg.formats())
    add_problem_arguments(parser)
    add("--rhs", metavar="FILE", help="right-hand side b: .mtx, .mtx.gz or .npy (default: all ones)")
    add("--format", default="auto", help=f"storage format: auto, {formats} (default: auto)")
    add(
        "--rtol",
        type=positive_float,
        default=1e-8,
        help="solve until ||b - A x|| <= rtol ||b||; atol and btol of lsqr and lsmr (default: 1e-8)",
    )
    add(
        "--maxiter",
        type=positive_int,
        metavar="N",
        help="most iterations (default: 10 times the rows)",
    )
    add(
        "--solver",
        choices=("auto", *OTHER_SOLVER, *LEAST_SQUARES),
        default="auto",
        help="auto is spmvgpu.linalg.solve: cg for a symmetric or Hermitian matrix that seems to be positive "
        "definite, minres for other symmetric or Hermitian ones, and bicgstab for all others; others follow "
        "where one fails. Small systems are solved by factors of SciPy's, unless there is an option for "
        "the solve. direct makes factors, as spmvgpu.linalg.splu. lsqr and lsmr find a least-squares "
        "solution, also of a rectangular matrix (default: auto)",
    )
    add(
        "--restart",
        type=positive_int,
        metavar="N",
        default=RESTART,
        help=f"iterations of gmres between restarts, and vectors that it stores (default: {RESTART})",
    )
    add(
        "--preconditioner",
        choices=("auto", *NAMES, "none"),
        default="auto",
        help="auto is jacobi, or none if the diagonal has zeros. With --solver auto it is ilu0 on a CPU if "
        "the matrix is not symmetric and its diagonal about as large as the rest, and others follow where it "
        "fails. ic0 is for cg and minres, ilu0 for bicgstab and gmres (default: auto)",
    )
    add("--block", type=positive_int, metavar="N", default=3, help="block size of block_jacobi (default: 3)")
    add(
        "--reorder",
        action="store_true",
        help="solve with the rows and columns in reverse Cuthill-McKee order, which helps ic0 and ilu0 where "
        "entries lie far from the diagonal",
    )
    add_quiet(parser)
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write the solution to FILE (.npy or .mtx)",
    )


def run(args: argparse.Namespace) -> int:
    counts = [os.environ.get(name, "") for name in _COUNTS_OF_RANKS]
    ranks = max([1, *(int(count) for count in counts if count.isdecimal())])
    if ranks > 1:
        from .over_ranks import run_on_ranks

        return run_on_ranks(args, ranks, _solve)
    return _fit(args) if args.solver in LEAST_SQUARES else _solve(args, read_task(args))


def _solve(args: argparse.Namespace, task: Task) -> int:
    """Solve, report and return the exit code; all ranks do so together, and the first one reports."""
    problem, op, report = task.problem, task.problem.op, Report(args.json, task.is_first)
    auto = args.solver == "auto"
    preconditioner = args.preconditioner
    if args.solver == "direct":
        _refuse_preconditioner(args)
        preconditioner = "none"
    elif preconditioner == "auto" and not auto:
        preconditioner = "jacobi" if problem.divides else "none"
    hint = "" if (auto and not problem.is_small and problem.is_hermitian) else _hint(task)
    check_solver(task, args.solver, hint)
    tell_matrix(report, task.title, op)
    _report_operator(report, args, op)
    reasons: list[str | None] = []

    @contextmanager
    def shown(approach: Approach, why: str) -> Iterator[Watch]:
        reason = f"{why}; {hint}" if hint and not reasons else why
        reasons.append(reason if auto else None)
        name = approach.preconditioner
        if report.values.get("preconditioner") != name:
            report.line("preconditioner", name, preconditioner=name)
        report.wrapped(f"{'solver':<14}", f"{approach.solver}, because {reason}" if auto else approach.solver)
        with counting(approach.solver, "iterations", quiet=args.quiet or not task.is_first) as bar:

            def watch(iterations: int, residual: float, norm_b: float) -> None:
                note = f"relative residual {residual / (norm_b or 1.0):.2e}"
                bar.set_postfix_str(note, refresh=False)
                bar.update(iterations - bar.n)

            yield watch

    defaults = (args.preconditioner, args.format, args.dtype, args.maxiter) == ("auto", "auto", None, None)
    search = Search(
        problem,
        args.rtol,
        solver=args.solver,
        preconditioner=preconditioner,
        options={"block": args.block} if preconditioner == "block_jacobi" else None,
        maxiter=args.maxiter if auto else args.maxiter or 10 * problem.rows,
        restart=args.restart,
        direct=auto and defaults and task.matrix is not None and op.dtype in (np.float64, np.complex128),
        refines=True,
        shown=shown,
    )
    is_solved = search.solve()
    if not is_solved and set(search.statuses) <= _BROKEN:
        raise ValueError(f"{task.title}: {_refusal(search)}")
    best = search.best
    if best is not search.tried[-1]:
        report.text(f"{'closest':<14} {best}")
    if args.output and search.x is not None:
        whole = task.whole(search.x)
        with problem.agreement():
            if whole is not None:  # it is on the first rank
                write_solution(args.output, whole)
    if not task.is_first:
        return 0
    number = search.tried.index(best)
    report.values |= {"solver": best.method, "solver_reason": reasons[number], "reordered": args.reorder}
    report.values["preconditioner"] = best.preconditioner
    outcome = Outcome(
        best.method,
        best.preconditioner,
        str(op.dtype),
        best.residual,
        args.rtol,
        best.iterations,
        problem.rows,
        exhausted=search.statuses[number] == "exhausted" and best.method != "direct",
        broken=tuple(one.method for one in search.tried if one.method != best.method),
        restart=args.restart,
        **task.facts(),
    )
    report.values["seconds"] = {"convert": None, "transfer": None, **task.seconds, **search.seconds}
    report.text("seconds")
    for phase, seconds in (task.seconds | search.seconds).items():
        report.text(f"  {phase:<12} {seconds:.3f}")
    return _report(report, args, outcome, search.rounds)


def _fit(args: argparse.Namespace) -> int:
    """Find a least-squares solution, report and return the exit code."""
    _refuse_preconditioner(args)
    check_output(args.output)
    with reading(args):
        title, matrix, b, seconds = load_problem(args, args.rhs)
    with waiting("making the operator", args.quiet):
        op = sg.aslinearoperator(matrix, args.format, args.device, args.dtype)
    report = Report(args.json)
    tell_matrix(report, title, op)
    _report_operator(report, args, op)
    start = perf_counter()
    with waiting(args.solver, args.quiet):
        most = args.maxiter or 10 * matrix.shape[0]
        solver = getattr(sg.linalg, args.solver)
        x, istop, iterations, *_ = solver(op, b, 0.0, args.rtol, args.rtol, 0.0, most)
    solved = perf_counter()
    r = b - matrix @ x
    size = np.linalg.norm(matrix.data) * np.linalg.norm(r)
    gradient = float(np.linalg.norm(matrix.conj().T @ r) / (size or 1.0))
    residual = float(np.linalg.norm(r) / (np.linalg.norm(b) or 1.0))
    times = {"solve": solved - start, "verify": perf_counter() - solved}
    report.line("solver", args.solver, solver=args.solver, solver_reason=None, preconditioner="none")
    report.text("seconds")
    for phase, spent in times.items():
        report.text(f"  {phase:<12} {spent:.3f}")
    times |= {"input": seconds, "check": 0.0, "precondition": 0.0, **op.setup_seconds}
    report.line("iterations", iterations, iterations=iterations, rounds=1, reordered=False, seconds=times)
    report.line("residual", f"{residual:.2e} = ||b - A x|| / ||b||, computed from x", residual=residual)
    formula = "||A.H (b - A x)|| / (||A|| ||b - A x||), computed from x"
    report.line("gradient", f"{gradient:.2e} = {formula}", gradient=gradient)
    converged = istop not in (3, 6, 7)  # which are limits of the condition number and of the iterations
    if args.output:
        write_solution(args.output, x)
        report.line("written", str(args.output))
    how = f"to rtol {args.rtol:g}, by the estimates of {args.solver}"
    report.line("converged", f"{'yes,' if converged else 'no, not'} {how}")
    advice = [] if converged else [Suggestion(f"--maxiter {10 * most}", "it may need more iterations")]
    for suggestion in advice:
        report.wrapped(f"{'try':<14}", f"{suggestion.options}: {suggestion.reason}")
    report.finish(rtol=args.rtol, converged=converged, output=args.output, suggestions=advice)
    what = f"not converged: the gradient is {gradient:.2e} after {iterations} iterations"
    return 0 if converged else fail(f"{what}; try {advice[0].options}", 1)


def _refuse_preconditioner(args: argparse.Namespace) -> None:
    if args.preconditioner not in ("auto", "none"):
        raise ValueError(f"--preconditioner is not for --solver {args.solver}; leave it out")


def _refusal(search: Search) -> str:
    """Why none of the methods could be used, and what to try."""
    last = search.tried[-1]
    if last.method == "direct":
        return f"{last.outcome}; {OTHER_SOLVER[last.method]}"
    if search.statuses[-1] == "refused":
        return (
            f"--preconditioner {last.preconditioner}: {last.outcome}; try another --preconditioner, "
            "with --solver gmres where the matrix is not positive definite"
        )
    return f"{last} {last.outcome}; {OTHER_SOLVER[last.method]}"


def _hint(task: Task) -> str:
    """What to give for a file that seems to have one triangle only."""
    A = task.matrix
    if A is None or bool(sp.tril(A, -1).nnz) == bool(sp.triu(A, 1).nnz):
        return ""
    return f"if the file has one triangle of a {task.problem.kind} matrix, give --symmetric lower or upper"


def _report_operator(report: Report, args: argparse.Namespace, op: Any) -> None:
    chosen = " (chosen automatically)" if args.format == "auto" else ""
    if not isinstance(op, sg.SparseOperator):
        from .over_ranks import report_ranks

        return report_ranks(report, op, chosen)
    report.values["ranks"] = 1
    tell_operator(report, op, chosen)


def _report(report: Report, args: argparse.Namespace, outcome: Outcome, rounds: int) -> int:
    """Report how the solve went; return the exit code."""
    iterations, residual = outcome.iterations, outcome.residual
    again = f", started {rounds} times" if rounds > 1 else ""
    report.line("iterations", f"{iterations}{again}", iterations=iterations, rounds=rounds)
    finite = residual if np.isfinite(residual) else None  # JSON has no NaN
    report.line("residual", f"{residual:.2e} = ||b - A x|| / ||b||, computed from x", residual=finite)
    if args.output:
        report.line("written", str(args.output))
    converged = residual <= args.rtol
    report.line("converged", f"{'yes,' if converged else 'no, not'} to rtol {args.rtol:g}")
    advice = [] if converged else suggestions(outcome)
    for suggestion in advice:
        report.wrapped(f"{'try':<14}", f"{suggestion.options}: {suggestion.reason}")
    found = {"rtol": args.rtol, "converged": converged, "output": args.output, "suggestions": advice}
    report.finish(gradient=None, **found)
    return 0 if converged else fail(_complaint(outcome, [one.options for one in advice]), 1)


def _complaint(outcome: Outcome, options: list[str]) -> str:
    """One sentence about a residual that is too large, with what to try."""
    end = f"after all {outcome.iterations} iterations" if outcome.exhausted else "and gets no smaller"
    if not outcome.exhausted and outcome.residual > ROUNDING:
        end += ", so the matrix may be singular"
    text = f"not converged: the residual is {outcome.residual:.2e}, not {outcome.rtol:g}, {end}"
    *others, last = options or [""]
    choice = f"{', '.join(others)} or {last}" if others else last
    return f"{text}; try {choice}" if options else text
