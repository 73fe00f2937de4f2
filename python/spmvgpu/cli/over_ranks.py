"""``mpiexec -n 4 python -m spmvgpu solve``: what ranks of MPI solve together; rank 0 prints."""

from __future__ import annotations

import sys
import traceback
from argparse import Namespace
from collections.abc import Callable
from time import perf_counter

import numpy as np

import spmvgpu as sg
from spmvgpu import distributed
from spmvgpu.distributed.communicators import Communicator, library, mpi
from spmvgpu.distributed.errors import agreement
from spmvgpu.distributed.from_files import SUFFIXES
from spmvgpu.distributed.problem import DoubleSystemOverRanks

from .._util.messages import said
from .._util.show import in_bytes
from .output import Report, fail
from .problem import check_rhs_type, check_square, load_problem, read_rhs
from .task import LEAST_SQUARES, Task, check_output


def run_on_ranks(args: Namespace, ranks: int, solve: Callable[[Namespace, Task], int]) -> int:
    """Solve on all ranks; what goes wrong is printed once, by rank 0, unless only one rank knows of it."""
    try:
        comm = mpi().COMM_WORLD
    except ImportError as error:
        return fail(str(error), 2)
    if comm.size != ranks:
        return fail(
            f"{ranks} processes were started together, and {library()}, which mpi4py uses, sees "
            f"{comm.size}: the launcher belongs to another MPI",
            2,
        )
    try:
        return int(comm.bcast(solve(args, _task(args, comm))))
    except (ValueError, MemoryError, OSError, sg.CudaError, np.linalg.LinAlgError) as error:
        return fail(said(error), 2) if comm.rank == 0 else 2
    except Exception:
        # The others may wait for this rank, in vain.
        traceback.print_exc()
        sys.stderr.flush()
        comm.Abort(1)
        raise


def _task(args: Namespace, comm: Communicator) -> Task:
    if args.reorder:
        raise ValueError("--reorder is for one process; leave it out")
    if args.solver in ("direct", *LEAST_SQUARES):
        raise ValueError(f"--solver {args.solver} is for one process")
    with agreement(comm):
        check_output(args.output)
    start, b = perf_counter(), None
    options = {"format": args.format, "device": args.device, "dtype": args.dtype}
    if str(args.matrix).endswith(SUFFIXES) and not (args.symmetric or args.problem or args.size):
        op, title = distributed.read_matrix(args.matrix, comm, **options), args.matrix
        with agreement(comm):
            if comm.rank == 0:
                b = read_rhs(args.rhs, args.matrix, op.shape[0])
    else:
        title = matrix = None
        with agreement(comm):
            if comm.rank == 0:
                title, matrix, b, _ = load_problem(args, args.rhs)
        op, title = distributed.scatter(matrix, comm, **options), comm.bcast(title)
    with agreement(comm):
        if b is not None:
            check_rhs_type(args.rhs, b, op.dtype)
    check_square(title, op)
    problem = DoubleSystemOverRanks(op, op.row_ranges.scatter(b))
    seconds = {"input": perf_counter() - start, "check": 0.0}
    return Task(title, problem, None, seconds, comm.rank == 0, op.row_ranges.gather)


def report_ranks(report: Report, op: distributed.DistributedOperator, chosen: str) -> None:
    total = op.comm.allreduce(op.nbytes)
    report.line("ranks", f"{op.comm.size} of {library()}", ranks=op.comm.size)
    report.line("device", f"{op.device}, of rank 0", device=str(op.device))
    report.line("format", f"{op.format}, of rank 0{chosen}", format=op.format)
    report.line("memory", f"{in_bytes(total)} on all ranks", bytes=int(total))
