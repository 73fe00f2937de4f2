"""``solve``: a Krylov solver on the operator's device, or on all ranks of MPI, its answer checked."""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np

import spmvgpu as sg
from spmvgpu._core import SolverLimits
from spmvgpu.devices import CPU, resolve_device
from spmvgpu.linalg import SolverWarning
from spmvgpu.linalg.choice import Choice, Step, choose
from spmvgpu.linalg.krylov import run as run_solver
from spmvgpu.linalg.named import NAMES, SYMMETRIC_SOLVERS, named

from .._util.messages import said
from .._util.types import HostArray
from .advice import OTHER_SOLVER, RESTART, Suggestion
from .arguments import add_quiet, positive_float, positive_int
from .one_process import OneProcess
from .output import Fields, Report, fields_of
from .problem import MATRIX_FIELDS, add_problem_arguments, tell_matrix
from .progress import counting, waiting
from .solution import (
    Seconds,
    Solution,
    StepError,
    System,
    first_that_works,
    refine,
    tell,
)

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
    **fields_of("seconds", Seconds),
    "iterations": ("integer", "iterations of all rounds"),
    "rounds": ("integer", "how often the solver was started, on the true residual"),
    "residual": ("number or null", "norm of b - A x over the norm of b; null if not finite"),
    "rtol": ("number", "the tolerance"),
    "converged": ("boolean", "whether the residual is within the tolerance"),
    "output": ("string or null", "file with the solution"),
    **fields_of("suggestions[]", Suggestion),
}

# Set by Open MPI's mpiexec; by that of MPICH and of its relatives; by srun, for what it starts itself.
_COUNTS_OF_RANKS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")

# The solvers for symmetric and Hermitian matrices.
_METHODS = {"cg": "conjugate gradients", "minres": "minimal residuals"}


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
    add("--maxiter", type=positive_int, metavar="N", help="most iterations (default: 10 times the rows)")
    add(
        "--solver",
        choices=("auto", *OTHER_SOLVER),
        default="auto",
        help="auto takes cg for a symmetric or Hermitian matrix with a positive diagonal, minres for other "
        "symmetric or Hermitian ones, and bicgstab for all others. If cg breaks down, diverges or stagnates, "
        "minres goes on; if bicgstab does, gmres (default: auto)",
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
    return _solve(OneProcess(args))


def _solve(system: System) -> int:
    """Solve, report and return the exit code; all ranks do so together, and the first one reports."""
    args = system.args
    choice = _choice(system)
    system.build()
    report = Report(args.json, system.is_first)
    tell_matrix(report, system.title, system.op)
    system.tell_operator(report)

    def attempt(step: Step) -> Solution:
        start = perf_counter()
        with waiting(f"making the preconditioner {step.preconditioner}", system.quiet):
            M = _preconditioner(system, step)
        if system.seconds.precondition is not None:
            taken = system.seconds.precondition + perf_counter() - start
            system.seconds = system.seconds._replace(precondition=taken)
        return _attempt(system, step.solver, M)

    step, solution = first_that_works(choice, args.rtol, attempt, report)
    if args.output:
        system.write(solution.x)
    report.values["reordered"] = args.reorder
    return tell(report, system, choice, step, solution) if system.is_first else 0


def _attempt(system: System, solver: str, M: object) -> Solution:
    """Solve with one solver; StepError where it cannot go on."""
    args, op = system.args, system.op
    with counting(solver, "iterations", quiet=system.quiet) as bar:

        def step(right: HostArray, goal: float, most: int, relative: float) -> tuple[HostArray, int]:
            limits = SolverLimits()
            limits.rtol, limits.atol, limits.maxiter = goal, 0.0, most
            limits.legacy, limits.restart = True, min(args.restart, op.shape[0])
            if solver == "minres":  # whose test is beside the norms of the matrix and the solution
                limits.rtol = min(goal, 1e-3) / 100
            done = bar.n

            def watch(iterations: int, residual: float, norm_b: float) -> None:
                bar.set_postfix_str(f"relative residual {residual / norm_b * relative:.2e}", refresh=False)
                bar.update(done + iterations - bar.n)

            watched = None if args.quiet else watch  # all ranks watch or none
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", SolverWarning)
                try:
                    x, info, how = run_solver(solver, op, right, None, M, lambda *_: limits, watch=watched)
                except ValueError as error:
                    raise _broken_down(system, error, solver) from error
            if info < 0:
                raise _broken_down(system, caught[0].message, solver)
            return x, how.iterations

        return refine(system, step)


def _broken_down(system: System, why: object, solver: str) -> StepError:
    return StepError(f"{system.title}: {why}; {OTHER_SOLVER[solver]}", why, of_solver=True)


def _choice(system: System) -> Choice:
    """The solver that was asked for, if the matrix is one for it, or those to try."""
    args, kind = system.args, system.kind
    divides = system.everywhere(bool((np.abs(system.diagonal) > 0).all()))
    preconditioner = args.preconditioner.replace("-", "_")
    if preconditioner == "auto" and not (args.solver == "auto" and system.has_preconditioners):
        preconditioner = "jacobi" if divides else "none"
    if args.solver == "auto":
        is_symmetric = system.asymmetry() is None
        positive = system.everywhere(bool((system.diagonal.real > 0).all()))
        dominance = 0.0 if is_symmetric else system.dominance()
        on_gpu = resolve_device(args.device) != CPU
        choice = choose(
            is_symmetric, positive, preconditioner, kind, divides=divides, dominance=dominance, on_gpu=on_gpu
        )
        if not is_symmetric and system.has_one_triangle():
            hint = f"if the file has one triangle of a {kind} matrix, give --symmetric lower or upper"
            choice = choice._replace(reason=f"{choice.reason}; {hint}")
        return choice
    if args.solver == "cg":
        is_negative = system.everywhere(bool((system.diagonal.real < 0).all()))
        with system.agreement():
            _check_positive(system, is_negative)
    if args.solver in SYMMETRIC_SOLVERS and (found := system.asymmetry()) is not None:
        one = ", and --symmetric lower or upper if the file has one triangle only"
        raise ValueError(
            f"{system.title}: the matrix is not {kind}: {found}; {_METHODS[args.solver]} need a {kind} one: "
            f"try --solver bicgstab or gmres{one if system.has_one_triangle() else ''}"
        )
    return Choice((Step(args.solver, preconditioner),))


def _check_positive(system: System, is_negative: bool) -> None:
    """Refuse, with ValueError, a diagonal that no positive definite matrix has; all of it may be negative."""
    diagonal = system.diagonal
    bad = np.flatnonzero(~(diagonal.real > 0))
    if len(bad):
        hint = " (all of the diagonal is negative: solve with -A and -b)" if is_negative else ""
        raise ValueError(
            f"{system.title}: the matrix is not positive definite: {len(bad)} of {len(diagonal)} diagonal "
            f"entries are zero or negative, the first in row {system.first_row + bad[0]} "
            f"({diagonal[bad[0]]:g}){hint}; {OTHER_SOLVER['cg']}"
        )


def _preconditioner(system: System, step: Step) -> object:
    """The preconditioner of a step, as solvers take it; StepError if there is none."""
    name = step.preconditioner
    if name == "none":
        return None
    with system.agreement():
        try:
            options = {"block": system.args.block} if name == "block_jacobi" else {}
            return named(name, system.op, step.solver, **options)
        except (ArithmeticError, TypeError, ValueError, np.linalg.LinAlgError) as error:
            why = f"{name.replace('_', '-')}: {said(error)}"
            raise StepError(
                f"{system.title}: --preconditioner {why}; try another --preconditioner, with --solver gmres "
                "where the matrix is not positive definite",
                why,
                of_solver=False,
            ) from error
