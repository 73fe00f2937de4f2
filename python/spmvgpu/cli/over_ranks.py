"""A system that ranks of MPI solve together: ``mpiexec -n 4 python -m spmvgpu solve``; rank 0 prints."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import perf_counter

import numpy as np

import spmvgpu as sg
from spmvgpu import distributed
from spmvgpu.distributed.communicators import Communicator, library, mpi
from spmvgpu.distributed.errors import agreement
from spmvgpu.distributed.from_files import SUFFIXES
from spmvgpu.linalg.preconditioners import diagonal_of

from .._util.messages import said
from .._util.types import HostArray
from .advice import Outcome
from .output import Report, fail, in_bytes
from .problem import check_square, load_problem, read_rhs
from .solution import System, write_solution


class OverRanks(System):
    """See `System`."""

    op: distributed.DistributedOperator
    has_preconditioners = False

    def __init__(self, args: argparse.Namespace, comm: Communicator) -> None:
        start, self._comm, self.is_first = perf_counter(), comm, comm.rank == 0
        super().__init__(args)
        self._load()
        check_square(self.title, self.op)
        self._read = perf_counter()
        self.seconds = self.seconds._replace(input=self._read - start)
        self.kind = "Hermitian" if self.op.dtype.kind == "c" else "symmetric"
        self._double = np.result_type(self.op.dtype, np.float64)
        self.diagonal = diagonal_of(self.op).astype(self._double)
        self.first_row = self.op.row_ranges.begin
        self.verified = f"computed in {self._double}"

    def check_arguments(self) -> None:
        super().check_arguments()
        if self.args.preconditioner not in ("auto", "jacobi", "none"):
            raise ValueError("over several ranks there is --preconditioner jacobi or none")
        if self.args.reorder:
            raise ValueError("--reorder is for one process; leave it out")

    def _load(self) -> None:
        """Make the operator and this rank's piece of the right-hand side."""
        args, comm = self.args, self._comm
        options = {"format": args.format, "device": args.device, "dtype": args.dtype}
        b = None
        if str(args.matrix).endswith(SUFFIXES) and not (args.symmetric or args.problem or args.size):
            self.op, self.title = distributed.read_matrix(args.matrix, comm, **options), args.matrix
            with agreement(comm):
                if self.is_first:
                    rows = self.op.shape[0]
                    b = np.ones(rows) if args.rhs is None else read_rhs(args.rhs, args.matrix, rows)
        else:
            title = matrix = None
            with agreement(comm):
                if self.is_first:
                    title, matrix, b, _ = load_problem(args, args.rhs)
            self.op, self.title = distributed.scatter(matrix, comm, **options), comm.bcast(title)
        with agreement(comm):
            if b is not None and b.dtype.kind == "c" and self.op.dtype.kind != "c":
                raise ValueError(f"{args.rhs}: the right-hand side is complex; add --dtype complex128")
        self.b = self.op.row_ranges.scatter(b)

    def build(self) -> None:
        op = self._exact = self.op
        if op.dtype != self._double:
            self._exact = distributed.aslinearoperator(
                op.tocsr(), self._comm, row_ranges=op.row_ranges, dtype=self._double
            )
        self.seconds = self.seconds._replace(check=perf_counter() - self._read)

    def described(self, outcome: Outcome) -> Outcome:
        return outcome._replace(ranks=self._comm.size)

    def asymmetry(self) -> str | None:
        """Two products that differ, where random vectors show that the matrix is not its own transpose."""
        op, rng = self.op, np.random.default_rng(self._comm.rank)
        u, v = rng.standard_normal((2, op.local_shape[0])).astype(op.dtype)
        a, b = op @ u, op @ v
        sums = [np.vdot(p.astype(self._double), q) for p, q in ((u, b), (a, v), (u, u), (b, b))]
        left, right, uu, bb = (sum(of_ranks) for of_ranks in zip(*self._comm.allgather(sums), strict=True))
        if abs(left - right) <= 1e4 * float(np.finfo(op.dtype).eps) * np.sqrt(abs(uu * bb)):
            return None
        return f"v @ A @ u = {right:g} for random u and v, and u @ A @ v = {left:g}"

    def multiply(self, x: HostArray) -> HostArray:
        product: HostArray = self._exact.dot(x)
        return product

    def norm(self, v: HostArray, order: float | None = None) -> float:
        if order == np.inf:
            return float(self._comm.allreduce(float(np.abs(v).max(initial=0.0)), op=mpi().MAX))
        return float(np.sqrt(sum(self._comm.allgather(float(np.vdot(v, v).real)))))

    def write(self, x: HostArray) -> None:
        whole = self.op.row_ranges.gather(x)
        with agreement(self._comm):
            if whole is not None:
                write_solution(self.args.output, whole)

    def tell_operator(self, report: Report) -> None:
        op, total = self.op, self._comm.allreduce(self.op.nbytes)
        chosen = " (chosen automatically)" if self.args.format == "auto" else ""
        report.line("ranks", f"{op.comm.size} of {library()}", ranks=op.comm.size)
        report.line("device", f"{op.device}, of rank 0", device=str(op.device))
        report.line("format", f"{op.format}, of rank 0{chosen}", format=op.format)
        report.line("memory", f"{in_bytes(total)} on all ranks", bytes=int(total))

    def agreement(self) -> AbstractContextManager[None]:
        return agreement(self._comm)

    def everywhere(self, condition: bool) -> bool:
        return bool(self._comm.allreduce(condition, op=mpi().LAND))


def run_on_ranks(args: argparse.Namespace, launched: int, solve: Callable[[System], int]) -> int:
    """Solve on all ranks; what goes wrong is printed once, by rank 0, unless only one rank knows of it."""
    try:
        comm = mpi().COMM_WORLD
    except ImportError as error:
        return fail(str(error), 2)
    if comm.size != launched:
        return fail(
            f"{launched} processes were started together, and {library()}, which mpi4py uses, sees "
            f"{comm.size}: the launcher belongs to another MPI",
            2,
        )
    try:
        return int(comm.bcast(solve(OverRanks(args, comm))))
    except (ValueError, MemoryError, OSError, sg.CudaError, np.linalg.LinAlgError) as error:
        return fail(said(error), 2) if comm.rank == 0 else 2
    except Exception:
        # The others may wait for this rank, in vain.
        traceback.print_exc()
        sys.stderr.flush()
        comm.Abort(1)
        raise
