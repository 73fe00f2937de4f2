"""Products and cg over the GPUs of ranks: ``mpiexec -n 4 python -m mpi4py -m experiments scaling``.

"strong": the stencil of `multi` over 1, 2, 4, ... ranks, at one size; "weak": a quarter as many for each
rank. A product takes and gives pieces that stay on the GPUs; "cg" is an iteration of `linalg.cg`, as the
slope between a short and a long run without a tolerance. With one rank the operator is what it is without
ranks, and what it gives is what several are compared with. Without a GPU ranks compute on their cores.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from generators.families import stencil
from spmvgpu import distributed, linalg

from .clock import timed
from .engine import Experiment, Run, names_of
from .multi import CHAIN, LONG, ROUNDS, SHORT
from .peers.problem import DTYPES
from .records import Row

VARIANTS = ("product", "cg")


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--rows", type=int, default=20_000_000, help="27 entries each; a quarter a rank for weak")
    add("--transports", default="auto", help="comma-separated, of auto, nccl, cuda_mpi, mpi")
    add("--variants", type=names_of(VARIANTS), default="product,cg",
        help=f"comma-separated, of {', '.join(VARIANTS)}")  # fmt: skip


def is_first() -> bool:
    """Whether this process is the rank that writes."""
    from mpi4py import MPI

    return bool(MPI.COMM_WORLD.rank == 0)


def measure(run: Run) -> Iterator[Row]:
    """Rows on all ranks alike; ranks beyond those that are measured wait for the others."""
    from mpi4py import MPI

    options, world = run.options, MPI.COMM_WORLD
    run.record.environment["mpi"] = MPI.get_vendor()[0]
    expected: dict[Any, dict[str, float]] = {}
    for count in (2**k for k in range(world.size.bit_length())):
        comm = world.Split(0 if world.rank < count else MPI.UNDEFINED)
        transports = options.transports.split(",") if count > 1 else ["auto"]
        cases = product(("strong", "weak"), options.dtype, transports) if comm != MPI.COMM_NULL else ()
        for kind, dtype, transport in cases:
            rows = options.rows if kind == "strong" else count * (options.rows // 4)
            ranks = Ranks(comm, kind, rows, dtype, transport)
            norms = ranks.norms()
            limit = np.finfo(DTYPES[dtype]).eps ** 0.5
            for name, norm in expected.setdefault((dtype, rows), norms).items():
                if not abs(norms[name] - norm) <= limit * norm:
                    raise SystemExit(f"{name} over {count} ranks: norm {norms[name]}, and {norm} over fewer")
            for variant in options.variants:
                times = ranks.product() if variant == "product" else ranks.cg()
                us = {"time_us": round(statistics.median(times), 2), "least_us": round(min(times), 2)}
                yield {**ranks.facts, "variant": variant, **us, "samples": len(times)}
            del ranks
        world.Barrier()


class Ranks:
    """One matrix over the ranks of a communicator."""

    def __init__(self, comm: Any, kind: str, rows: int, dtype: str, transport: str) -> None:
        self.comm = comm
        begin, end = (rows * rank // comm.size for rank in (comm.rank, comm.rank + 1))
        own = stencil(rows, DTYPES[dtype], begin, end)
        nnz = comm.allreduce(int(own.nnz))
        comm.Barrier()
        seconds, self.op = timed(lambda: distributed.aslinearoperator(own, comm, transport=transport))
        self.facts = {
            "matrix": f"stencil27_{rows}", "rows": rows, "nnz": nnz, "dtype": dtype, "scaling": kind,
            "library": "spmvgpu", "ranks": comm.size, "format": self.op.format,
            "transport": self.op.explain().rpartition("transport: ")[2], "setup_seconds": round(seconds, 2),
        }  # fmt: skip
        self.x, self.wait = self._on_device(np.linspace(-1, 1, rows)[begin:end].astype(own.dtype))

    def _on_device(self, x: Any) -> tuple[Any, Callable[[], object]]:
        """A piece where the rank computes, and what waits for the work there."""
        if self.op.device == "cpu":
            return x, lambda: None
        import cupy

        cupy.cuda.Device(int(self.op.device.partition(":")[2])).use()
        return cupy.asarray(x), cupy.cuda.get_current_stream().synchronize

    def times(self, call: Callable[[], object], rounds: int) -> list[float]:
        """Seconds of each call on the slowest rank."""
        found = []
        for _ in range(rounds + 1):
            self.comm.Barrier()
            start = time.perf_counter()
            call()
            self.wait()
            found.append(max(self.comm.allgather(time.perf_counter() - start)))
        return found[1:]

    def product(self) -> list[float]:
        """Microseconds of a product."""
        x, y = self.x.copy(), self.x.copy()

        def chain() -> None:
            for _ in range(CHAIN // 2):
                self.op.spmv(x, out=y)
                self.op.spmv(y, out=x)

        return [1e6 * seconds / CHAIN for seconds in self.times(chain, ROUNDS)]

    def cg(self) -> list[float]:
        """Microseconds of an iteration."""

        def solve(iterations: int) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", linalg.SolverWarning)
                _, taken = linalg.cg(self.op, self.x, rtol=0.0, maxiter=iterations)
            if taken != iterations:
                raise SystemExit(f"cg ended after {taken} of {iterations} iterations: {self.op.solve_info}")

        short, long = (self.times(partial(solve, count), ROUNDS) for count in (SHORT, LONG))
        return [1e6 * (b - a) / (LONG - SHORT) for a, b in zip(short, long, strict=True)]

    def norms(self) -> dict[str, float]:
        """Numbers of a product and of a short solve, which must be the same on one rank and on several."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", linalg.SolverWarning)
            results = {
                "product": self.op @ self.x,
                "cg": linalg.cg(self.op, self.x, rtol=0.0, maxiter=SHORT)[0],
            }
        own = {name: float((abs(y) ** 2).sum()) for name, y in results.items()}
        return {name: self.comm.allreduce(square) ** 0.5 for name, square in own.items()}


EXPERIMENTS = [
    Experiment(
        command="scaling",
        about="products and cg over the GPUs of ranks, under mpiexec",
        file="scaling",
        dtypes=("f64",),
        leads=is_first,
        measure=measure,
        add_options=add_options,
    )
]
