"""Measure ranks with a GPU each: ``mpiexec -n 4 python -m mpi4py -m experiments scaling``.

"strong": the stencil of `multi`, of so many rows, over 1, 2, 4, ... ranks; "weak": a quarter as many for each
rank. A product takes and gives pieces that stay on the GPUs; "cg" is an iteration of `linalg.cg`, as the
slope between a short and a long run without a tolerance. With one rank the operator is what it is without
ranks, and what it gives is what several are compared with. Without a GPU ranks compute on their cores, where
"petsc" solves the same system with PETSc's cg, too.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import spmvgpu as sg
from experiments import environment
from experiments.clock import timed
from experiments.peers.problem import DTYPES
from experiments.records import RESULTS, Recorder
from spmvgpu import distributed, linalg

from .multi import CHAIN, LONG, ROUNDS, SHORT, stencil

WORLD = MPI.COMM_WORLD
RTOL = 1e-8  # of solves beside PETSc's


class Run:
    """One matrix over the ranks of a communicator."""

    def __init__(self, comm: Any, kind: str, rows: int, dtype: str, transport: str) -> None:
        self.comm = comm
        whole = stencil(rows, DTYPES[dtype], max(1, environment.usable_cores() // WORLD.size))
        begin, end = (rows * rank // comm.size for rank in (comm.rank, comm.rank + 1))
        own = whole[begin:end]
        self.nnz = int(whole.nnz)
        comm.Barrier()
        seconds, self.op = timed(lambda: distributed.aslinearoperator(own, comm, transport=transport))
        self.facts = {
            "matrix": f"stencil27_{rows}", "rows": rows, "nnz": self.nnz, "dtype": dtype, "scaling": kind,
            "library": "spmvgpu", "ranks": comm.size, "format": self.op.format,
            "transport": self.op.explain().rpartition("transport: ")[2], "setup_seconds": round(seconds, 2),
        }  # fmt: skip
        self.x, self.wait = self._on_device(np.linspace(-1, 1, rows)[begin:end].astype(whole.dtype))

    def _on_device(self, x: Any) -> tuple[Any, Callable[[], object]]:
        """A piece where the rank computes, and what waits for the work there."""
        if self.op.device == "cpu":
            return x, lambda: None
        import cupy

        cupy.cuda.Device(int(self.op.device.partition(":")[2])).use()
        return cupy.asarray(x), cupy.cuda.get_current_stream().synchronize

    def times(self, call: Callable[[], object], rounds: int) -> list[float]:
        """Seconds of a call, each time those of the rank that takes longest."""
        found = []
        for _ in range(rounds + 1):
            self.comm.Barrier()
            start = time.perf_counter()
            call()
            self.wait()
            found.append(self.comm.allreduce(time.perf_counter() - start, MPI.MAX))
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

    def petsc(self) -> dict[str, Any]:
        """How PETSc's cg and ours agree, to the same tolerance."""
        from petsc4py import PETSc

        vector = PETSc.Vec().createWithArray(np.asarray(self.x), comm=self.comm)
        solver = PETSc.KSP().create(self.comm)
        solver.setOperators(distributed.petsc(self.op))
        solver.setType("cg")
        solver.getPC().setType("none")
        solver.setTolerances(rtol=RTOL, atol=0.0)
        theirs = vector.duplicate()
        solver.solve(vector, theirs)
        ours, _ = linalg.cg(self.op, self.x, rtol=RTOL)
        squares = [self.comm.allreduce(float((y**2).sum())) for y in (ours - theirs.array, ours)]
        assert self.op.solve_info is not None
        return {
            "iterations": self.op.solve_info.iterations,
            "petsc_iterations": solver.getIterationNumber(),
            "difference": (squares[0] / squares[1]) ** 0.5,
        }

    def norms(self) -> dict[str, float]:
        """What tells whether several ranks compute what one does: of a product, and of a short solve."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", linalg.SolverWarning)
            results = {
                "product": self.op @ self.x,
                "cg": linalg.cg(self.op, self.x, rtol=0.0, maxiter=SHORT)[0],
            }
        own = {name: float((abs(y) ** 2).sum()) for name, y in results.items()}
        return {name: self.comm.allreduce(square) ** 0.5 for name, square in own.items()}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="mpiexec -n 4 python -m mpi4py -m experiments scaling", description=__doc__
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument(
        "--rows", type=int, default=20_000_000, help="27 entries each; a quarter a rank for weak"
    )
    parser.add_argument("--dtype", default="f64", help="comma-separated, of f64 and f32")
    parser.add_argument("--transports", default="auto", help="comma-separated, of auto, nccl, cuda_mpi, mpi")
    parser.add_argument("--variants", default="product,cg", help="comma-separated, of product, cg and petsc")
    options = parser.parse_args(arguments)
    variants = set(options.variants.split(","))
    if unknown := variants - {"product", "cg", "petsc"}:
        parser.error(f"--variants: {sorted(unknown)} are none of product, cg and petsc")
    if "petsc" in variants:
        import petsc4py.PETSc  # noqa: F401, which starts PETSc on all ranks together
    facts = environment.describe("cpu" if len(sg.devices()) == 1 else "cuda:0", [])
    record = Recorder(
        options.out / environment.slug(facts) / "scaling.json", {**facts, "mpi": MPI.get_vendor()[0]}
    )
    counts = [2**k for k in range(WORLD.size.bit_length())]
    expected: dict[Any, dict[str, float]] = {}
    for count in counts:
        comm = WORLD.Split(0 if WORLD.rank < count else MPI.UNDEFINED)
        for kind in ("strong", "weak"):
            for dtype in options.dtype.split(","):
                for transport in options.transports.split(",") if count > 1 else ["auto"]:
                    if comm == MPI.COMM_NULL:
                        continue
                    rows = options.rows if kind == "strong" else count * (options.rows // 4)
                    run = Run(comm, kind, rows, dtype, transport)
                    norms = run.norms()
                    limit = np.finfo(DTYPES[dtype]).eps ** 0.5
                    for name, norm in expected.setdefault((dtype, rows), norms).items():
                        if not abs(norms[name] - norm) <= limit * norm:
                            raise SystemExit(
                                f"{name} over {count} ranks: norm {norms[name]}, and {norm} over fewer"
                            )
                    for variant in sorted(variants - {"petsc"}, reverse=True):
                        times = run.product() if variant == "product" else run.cg()
                        us = statistics.median(times)
                        record.add(
                            **run.facts,
                            variant=variant,
                            time_us=round(us, 2),
                            least_us=round(min(times), 2),
                            samples=len(times),
                        )
                        if comm.rank == 0:
                            print(f"{kind:7s} {dtype} {count} ranks, {variant:8s} {us:10.1f} us", flush=True)
                    if "petsc" in variants and kind == "strong":
                        record.add(**run.facts, variant="beside petsc", **run.petsc())
                    del run
                    if comm.rank == 0:
                        record.write()
        WORLD.Barrier()
    return 0
