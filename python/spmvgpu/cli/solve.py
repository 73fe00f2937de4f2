"""``solve``: a system of equations from a file, solved on a device or on all ranks of MPI."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from spmvgpu.linalg.krylov import Watch
from spmvgpu.linalg.named import NAMES
from spmvgpu.linalg.problem import Approach
from spmvgpu.linalg.search import Search

from .advice import OTHER_SOLVER, RESTART, ROUNDING, Outcome, Suggestion, suggestions
from .arguments import add_quiet, positive_float, positive_int
from .output import Fields, Report, fail, fields_of, in_bytes
from .problem import MATRIX_FIELDS, add_problem_arguments, tell_matrix
from .progress import counting
from .task import Task, check_solver, read_task, write_solution

HELP = "solve A x = b with an iterative solver"
DESCRIPTION = """\
Solve A x = b with an iterative solver of spmvgpu.linalg, and check the residual with SciPy. Started by
mpiexec or srun, all processes solve together."""


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
    "rtol": ("number", "the tolerance"),
    "converged": ("boolean", "whether the residual is within the tolerance"),
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
        help="solve until ||b - A x|| <= rtol ||b|| (default: 1e-8)",
    )
    add(
        "--maxiter",
        type=positive_int,
        metavar="N",
        help="most iterations (default: 10 times the rows)",
    )
    add(
        "--solver",
        choices=("auto", *OTHER_SOLVER),
        default="auto",
        help="auto is spmvgpu.linalg.solve: cg for a symmetric or Hermitian matrix that seems to be positive "
        "definite, minres for other symmetric or Hermitian ones, and bicgstab for all others; others follow "
        "where one fails. Small systems are solved by SciPy's direct solver, unless there is an option for "
        "the solve (default: auto)",
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
        choices=("auto", *(name.replace("_", "-") for name in NAMES), "none"),
        default="auto",
        help="auto is jacobi, or none if the diagonal has zeros. With --solver auto it is ilu0 on a CPU if "
        "the matrix is not symmetric and its diagonal about as large as the rest, and others follow where it "
        "fails. ic0 is for cg and minres, ilu0 for bicgstab and gmres (default: auto)",
    )
    add("--block", type=positive_int, metavar="N", default=3, help="block size of block-jacobi (default: 3)")
    add(
        "--reorder",
        action="store_true",
        help="solve with the rows and columns in reverse Cuthill-McKee order, which helps ic0 and ilu0 where "
        "entries lie far from the diagonal",
    )
    add_quiet(parser)
    add("-o", "--output", type=Path, metavar="FILE", help="write the solution to FILE, which ends in .npy")


def run(args: argparse.Namespace) -> int:
    counts = [os.environ.get(name, "") for name in _COUNTS_OF_RANKS]
    ranks = max([1, *(int(count) for count in counts if count.isdecimal())])
    if ranks > 1:
        from .over_ranks import run_on_ranks

        return run_on_ranks(args, ranks, _solve)
    return _solve(args, read_task(args))


def _solve(args: argparse.Namespace, task: Task) -> int:
    """Solve, report and return the exit code; all ranks do so together, and the first one reports."""
    problem, op, report = task.problem, task.problem.op, Report(args.json, task.is_first)
    auto = args.solver == "auto"
    preconditioner = args.preconditioner.replace("-", "_")
    if preconditioner == "auto" and not auto:
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
        name = _dashed(approach.preconditioner)
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
    report.values["preconditioner"] = _dashed(best.preconditioner)
    outcome = Outcome(
        best.method,
        _dashed(best.preconditioner),
        str(op.dtype),
        best.residual,
        args.rtol,
        best.iterations,
        problem.rows,
        exhausted=search.statuses[number] == "exhausted",
        broken=tuple(one.method for one in search.tried if one.method != best.method),
        restart=args.restart,
        **task.facts(),
    )
    report.values["seconds"] = {"convert": None, "transfer": None, **task.seconds, **search.seconds}
    report.text("seconds")
    for phase, seconds in (task.seconds | search.seconds).items():
        report.text(f"  {phase:<12} {seconds:.3f}")
    return _report(report, args, outcome, search.rounds)


def _refusal(search: Search) -> str:
    """Why none of the methods could be used, and what to try."""
    last = search.tried[-1]
    if search.statuses[-1] == "refused":
        return (
            f"--preconditioner {_dashed(last.preconditioner)}: {last.outcome}; try another --preconditioner, "
            "with --solver gmres where the matrix is not positive definite"
        )
    return f"{last} {last.outcome}; {OTHER_SOLVER[last.method]}"


def _hint(task: Task) -> str:
    """What to give for a file that seems to have one triangle only."""
    A = task.matrix
    if A is None or bool(sp.tril(A, -1).nnz) == bool(sp.triu(A, 1).nnz):
        return ""
    return f"if the file has one triangle of a {task.problem.kind} matrix, give --symmetric lower or upper"


def _dashed(preconditioner: str) -> str:
    """A name as the command line has it."""
    return preconditioner.replace("_", "-")


def _report_operator(report: Report, args: argparse.Namespace, op: Any) -> None:
    chosen = " (chosen automatically)" if args.format == "auto" else ""
    if not isinstance(op, sg.SparseOperator):
        from .over_ranks import report_ranks

        return report_ranks(report, op, chosen)
    model = next((device.model for device in sg.devices() if device.name == op.device), "")
    report.line("device", f"{op.device} ({model})" if model else op.device, ranks=1, device=op.device)
    report.line("format", f"{op.format}{chosen}", format=op.format)
    report.line("memory", in_bytes(op.nbytes), bytes=op.nbytes)


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
    report.finish(rtol=args.rtol, converged=converged, output=args.output, suggestions=advice)
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
