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
from spmvgpu.distributed.readers import SUFFIXES
from spmvgpu.linalg import SolverWarning, jacobi

from ..messages import said
from .output import fail, in_bytes, print_line, progress_bar
from .problem import load_problem, read_rhs
from .ranks import launched_ranks
from .solution import broken_down, check_output, refine, report, write_solution

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
        if args.preconditioner not in ("jacobi", "none"):
            raise ValueError("over several ranks there is --preconditioner jacobi or none")
    title, op, b = _load(args, comm)
    read = perf_counter() - start
    M = _preconditioner(op, args, title)
    if args.solver in ("cg", "minres"):
        _check_symmetric(op, title)
    exact = op
    double = np.result_type(op.dtype, np.float64)
    if op.dtype != double:
        exact = distributed.aslinearoperator(op.tocsr(), comm, row_ranges=op.row_ranges, dtype=double)
    times = {"assemble" if args.matrix is None else "read": read, "check": perf_counter() - start - read}
    _describe(title, op, args)
    shown = comm.rank == 0 and not args.quiet
    progress = progress_bar(unit=" iterations", disable=not shown)
    solver = getattr(linalg, args.solver)

    def step(right: Array, goal: float, most: int, _: float) -> tuple[Array, int]:
        if args.solver == "minres":  # whose test is beside the norms of the matrix and the solution
            goal = min(goal, 1e-3) / 100
        count = (lambda _: progress.update()) if shown else None
        with warnings.catch_warnings():
            warnings.simplefilter("error", SolverWarning)  # of a breakdown
            try:
                x, _info = solver(op, right, rtol=goal, maxiter=most, M=M, callback=count)
            except (SolverWarning, ValueError) as error:
                raise broken_down(title, error, args.solver) from error
        return x, op.solve_info.iterations

    def norm(v: Array, order: float | None = None) -> float:
        if order == np.inf:
            return float(comm.allreduce(float(np.abs(v).max(initial=0.0)), op=mpi().MAX))
        return float(np.sqrt(sum(comm.allgather(float(np.vdot(v, v).real)))))

    try:
        solution = refine(b, args.rtol, args.maxiter or 10 * op.shape[0], op.dtype, step, exact.dot, norm)
    finally:
        progress.close()
    whole = op.row_ranges.gather(solution.x) if args.output else None
    with agreement(comm):
        if whole is not None:
            write_solution(args.output, whole)
    code = 0
    if comm.rank == 0:
        verified = f"computed from the matrix in {double}"
        code = report(solution, times, verified, args, op.dtype)
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


def _preconditioner(op: Any, args: argparse.Namespace, title: str) -> Any:
    """This rank's piece of what `--preconditioner` asks for."""
    if args.solver == "cg":
        try:
            inverse = jacobi(op)  # which checks the diagonal, also where it is not asked for
        except (ValueError, np.linalg.LinAlgError) as error:
            raise broken_down(title, error, args.solver) from error
        return inverse if args.preconditioner == "jacobi" else None
    if args.preconditioner == "none":
        return None
    diagonal = op.diagonal()
    with agreement(op.comm):
        if not (np.abs(diagonal) > 0).all():
            raise ValueError(f"{title}: the diagonal has zeros: give --preconditioner none")
    return 1 / (np.abs(diagonal) if args.solver == "minres" else diagonal)


def _check_symmetric(op: Any, title: str) -> None:
    """Refuse a matrix that is not symmetric or Hermitian, as far as one random pair of vectors shows it."""
    comm, rng = op.comm, np.random.default_rng(op.comm.rank)
    u, v = rng.standard_normal((2, op.local_shape[0])).astype(op.dtype)
    a, b = op @ u, op @ v
    double = np.result_type(op.dtype, np.float64)
    sums = [np.vdot(p.astype(double), q) for p, q in ((u, b), (a, v), (u, u), (b, b))]
    left, right, uu, bb = (sum(parts) for parts in zip(*comm.allgather(sums), strict=True))
    if abs(left - right) > 1e4 * float(np.finfo(op.dtype).eps) * np.sqrt(abs(uu * bb)):
        kind = "Hermitian" if op.dtype.kind == "c" else "symmetric"
        raise ValueError(
            f"{title}: the matrix is not {kind}: v @ A @ u = {right:g} for random u and v, and "
            f"u @ A @ v = {left:g}; cg and minres need a {kind} matrix: try --solver bicgstab or gmres"
        )


def _describe(title: str, op: Any, args: argparse.Namespace) -> None:
    total = op.comm.allreduce(op.nbytes)
    if op.comm.rank == 0:
        print_line("problem", title)
        print_line("matrix", f"{op.shape[0]} x {op.shape[1]}, {op.nnz} non-zeros, {op.dtype}")
        print_line("ranks", f"{op.comm.size} of {library()}")
        print_line("device", f"{op.device}, of rank 0")
        print_line(
            "format", f"{op.format}, of rank 0" + (" (chosen automatically)" * (args.format == "auto"))
        )
        print_line("bytes", f"{total} ({in_bytes(total)}) on all ranks")
