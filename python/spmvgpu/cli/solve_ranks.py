"""``solve`` over the ranks of MPI, started by ``mpiexec -n 4 python -m spmvgpu solve``; rank 0 prints."""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

import spmvgpu as sg
from spmvgpu import distributed, linalg
from spmvgpu.distributed.communicators import library, mpi
from spmvgpu.distributed.errors import agreement
from spmvgpu.distributed.from_files import SUFFIXES
from spmvgpu.linalg import SolverWarning, jacobi

from .._util.messages import said
from .advice import Choice, choose
from .output import Report, fail, in_bytes
from .problem import check_square, load_problem, read_rhs, tell_matrix
from .progress import counting
from .ranks import launched_ranks
from .solution import (
    BrokenDownError,
    Solution,
    check_output,
    first_that_works,
    outcome_of,
    refine,
    tell,
    write_solution,
)

Array = npt.NDArray[Any]


def run(args: argparse.Namespace) -> int:
    """Solve on all ranks; what goes wrong is printed once, by rank 0, unless only one rank knows of it."""
    try:
        comm = mpi().COMM_WORLD
    except ImportError as error:
        return fail(str(error), 2)
    if comm.size != launched_ranks():
        return fail(
            f"{launched_ranks()} processes were started together, and {library()}, which mpi4py uses, sees "
            f"{comm.size}: the launcher belongs to another MPI",
            2,
        )
    try:
        return _solve(args, comm)
    except (ValueError, MemoryError, OSError, sg.CudaError, np.linalg.LinAlgError) as error:
        return fail(said(error), 2) if comm.rank == 0 else 2
    except Exception:
        # The others may wait for this rank, in vain.
        traceback.print_exc()
        sys.stderr.flush()
        comm.Abort(1)
        raise


def _solve(args: argparse.Namespace, comm: Any) -> int:
    start = perf_counter()
    with agreement(comm):
        check_output(args.output)
        if args.preconditioner not in ("auto", "jacobi", "none"):
            raise ValueError("over several ranks there is --preconditioner jacobi or none")
        if args.reorder:
            raise ValueError("--reorder is for one process; leave it out")
    title, op, b = _load(args, comm)
    check_square(title, op)
    read = perf_counter() - start
    diagonal = op.diagonal()
    if args.preconditioner == "auto":
        divides = comm.allreduce(bool((np.abs(diagonal) > 0).all()), op=mpi().LAND)
        args.preconditioner = "jacobi" if divides else "none"
    choice = _choice(args, title, op, diagonal)
    exact = op
    double = np.result_type(op.dtype, np.float64)
    if op.dtype != double:
        exact = distributed.aslinearoperator(op.tocsr(), comm, row_ranges=op.row_ranges, dtype=double)
    times = {"input": read, "check": perf_counter() - start - read}
    report = Report(args.json, comm.rank == 0)
    tell_matrix(report, title, op)
    _tell_operator(report, op, args.format)
    report.line("preconditioner", args.preconditioner, preconditioner=args.preconditioner)

    def norm(v: Array, order: float | None = None) -> float:
        if order == np.inf:
            return float(comm.allreduce(float(np.abs(v).max(initial=0.0)), op=mpi().MAX))
        return float(np.sqrt(sum(comm.allgather(float(np.vdot(v, v).real)))))

    def attempt(solver: str) -> Solution:
        M = _preconditioner(op, args, title, solver)
        with counting(solver, "iterations", quiet=args.quiet or comm.rank > 0) as bar:

            def step(right: Array, goal: float, most: int, _: float) -> tuple[Array, int]:
                if solver == "minres":  # whose test is beside the norms of the matrix and the solution
                    goal = min(goal, 1e-3) / 100
                # All ranks or none have a callback.
                count = None if args.quiet else lambda _: bar.update()
                limits: dict[str, Any] = {"rtol": goal, "maxiter": most}
                if solver == "gmres":  # which counts restarts
                    restart = min(args.restart, op.shape[0])
                    limits |= {"restart": restart, "maxiter": -(-most // restart)}
                with warnings.catch_warnings():
                    warnings.simplefilter("error", SolverWarning)  # of a breakdown
                    try:
                        x, _info = getattr(linalg, solver)(op, right, M=M, callback=count, **limits)
                    except (SolverWarning, ValueError) as error:
                        raise BrokenDownError(title, error, solver) from error
                return x, op.solve_info.iterations

            return refine(b, args.rtol, args.maxiter or 10 * op.shape[0], op.dtype, step, exact.dot, norm)

    solver, solution = first_that_works(choice, attempt, report)
    whole = op.row_ranges.gather(solution.x) if args.output else None
    with agreement(comm):
        if whole is not None:
            write_solution(args.output, whole)
    report.values["reordered"] = False
    code = 0
    if comm.rank == 0:
        outcome = outcome_of(args, choice, solver, solution, op, ranks=comm.size)
        code = tell(report, solution, times, f"computed in {double}", args, outcome)
    return int(comm.bcast(code))


def _load(args: argparse.Namespace, comm: Any) -> tuple[str, Any, Array]:
    """The title of the problem, its operator, and this rank's piece of the right-hand side."""
    options = {"format": args.format, "device": args.device, "dtype": args.dtype}
    by_parts = args.matrix is not None and args.matrix.endswith(SUFFIXES) and not args.symmetric
    if by_parts and not (args.problem or args.size):
        op = distributed.read_matrix(args.matrix, comm, **options)
        title, b = args.matrix, None
        with agreement(comm):
            if comm.rank == 0:
                rows = op.shape[0]
                b = np.ones(rows) if args.rhs is None else read_rhs(args.rhs, args.matrix, rows)
    else:
        problem = None
        with agreement(comm):
            if comm.rank == 0:
                problem = load_problem(args, args.rhs)
        title = comm.bcast(problem.title if problem else None)
        b = problem.rhs if problem else None
        op = distributed.scatter(problem.matrix if problem else None, comm, **options)
    with agreement(comm):
        if b is not None and b.dtype.kind == "c" and op.dtype.kind != "c":
            raise ValueError(f"{args.rhs}: the right-hand side is complex; add --dtype complex128")
    return title, op, op.row_ranges.scatter(b)


def _preconditioner(op: Any, args: argparse.Namespace, title: str, solver: str) -> Any:
    """This rank's piece of what `--preconditioner` asks for."""
    if solver == "cg":
        try:
            inverse = jacobi(op)  # which checks the diagonal, also where it is not asked for
        except (ValueError, np.linalg.LinAlgError) as error:
            raise BrokenDownError(title, error, solver) from error
        return inverse if args.preconditioner == "jacobi" else None
    if args.preconditioner == "none":
        return None
    diagonal = op.diagonal()
    with agreement(op.comm):
        if not (np.abs(diagonal) > 0).all():
            raise ValueError(f"{title}: the diagonal has zeros: give --preconditioner none")
    return 1 / (np.abs(diagonal) if solver == "minres" else diagonal)


def _choice(args: argparse.Namespace, title: str, op: Any, diagonal: Array) -> Choice:
    """The solver that was asked for, if the matrix is one for it, or those to try."""
    kind = "Hermitian" if op.dtype.kind == "c" else "symmetric"
    if args.solver == "auto":
        positive = op.comm.allreduce(bool((diagonal.real > 0).all()), op=mpi().LAND)
        return choose(_asymmetry(op) is None, positive, args.preconditioner, kind)
    if args.solver in ("cg", "minres") and (found := _asymmetry(op)) is not None:
        left, right = found
        raise ValueError(
            f"{title}: the matrix is not {kind}: v @ A @ u = {right:g} for random u and v, and "
            f"u @ A @ v = {left:g}; cg and minres need a {kind} matrix: try --solver bicgstab or gmres"
        )
    return Choice((args.solver,))


def _asymmetry(op: Any) -> tuple[Any, Any] | None:
    """Two products that differ, where random vectors show that a matrix is not symmetric or Hermitian."""
    comm, rng = op.comm, np.random.default_rng(op.comm.rank)
    u, v = rng.standard_normal((2, op.local_shape[0])).astype(op.dtype)
    a, b = op @ u, op @ v
    double = np.result_type(op.dtype, np.float64)
    sums = [np.vdot(p.astype(double), q) for p, q in ((u, b), (a, v), (u, u), (b, b))]
    left, right, uu, bb = (sum(parts) for parts in zip(*comm.allgather(sums), strict=True))
    differ = abs(left - right) > 1e4 * float(np.finfo(op.dtype).eps) * np.sqrt(abs(uu * bb))
    return (left, right) if differ else None


def _tell_operator(report: Report, op: Any, asked: str) -> None:
    total = op.comm.allreduce(op.nbytes)
    report.line("ranks", f"{op.comm.size} of {library()}", ranks=op.comm.size)
    report.line("device", f"{op.device}, of rank 0", device=str(op.device))
    chosen = " (chosen automatically)" if asked == "auto" else ""
    report.line("format", f"{op.format}, of rank 0{chosen}", format=op.format)
    report.line("memory", f"{in_bytes(total)} on all ranks", bytes=int(total))
