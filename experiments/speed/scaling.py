"""Products and cg over the GPUs of ranks: ``mpiexec -n 4 python -m mpi4py -m experiments scaling``.

"strong": the stencil of `multi`, of so many rows, over 1, 2, 4, ... ranks; "weak": a quarter as many for each
rank. A product takes and gives pieces that stay on the GPUs; "cg" is an iteration of `linalg.cg`, as the
slope between a short and a long run without a tolerance. With one rank the operator is what it is without
ranks, and what it gives is what several are compared with. Without a GPU ranks compute on their cores, where
"petsc" solves the same system with PETSc's cg, too.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from experiments.clock import timed
from experiments.engine import Experiment, Report, Run, Table, names_of
from experiments.environment import usable_cores
from experiments.peers.problem import DTYPES
from experiments.records import Content, Row
from experiments.tables import table
from spmvgpu import distributed, linalg

from .multi import CHAIN, LONG, ROUNDS, SHORT, stencil

RTOL = 1e-8  # of solves beside PETSc's
VARIANTS = ("product", "cg", "petsc")


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
    if "petsc" in options.variants:
        import petsc4py.PETSc  # noqa: F401, which starts PETSc on all ranks together
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
            for variant in [name for name in VARIANTS[:2] if name in options.variants]:
                times = ranks.product() if variant == "product" else ranks.cg()
                us = {"time_us": round(statistics.median(times), 2), "least_us": round(min(times), 2)}
                yield {**ranks.facts, "variant": variant, **us, "samples": len(times)}
            if "petsc" in options.variants and kind == "strong":
                yield {**ranks.facts, "variant": "beside petsc", **ranks.petsc()}
            del ranks
        world.Barrier()


class Ranks:
    """One matrix over the ranks of a communicator."""

    def __init__(self, comm: Any, kind: str, rows: int, dtype: str, transport: str) -> None:
        from mpi4py import MPI

        self.comm = comm
        whole = stencil(rows, DTYPES[dtype], max(1, usable_cores() // MPI.COMM_WORLD.size))
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


# -- report --------------------------------------------------------------------------------------------------

HEAD = (
    *("scaling", "rows", "ranks", "transport"),
    *("product", "as fast", "cg", "as fast"),
    *("model, product", "model, cg"),
)
NOTE = (
    "Times in microseconds of a product and of an iteration of `linalg.cg`, in float64 on {device}. "
    "The matrix is a 27-point stencil, divided into ranges of rows. For strong scaling, *as fast* is "
    "relative to one GPU with all rows. For weak scaling, it is the time of one GPU with its share of "
    "the rows over this time. *model* is the prediction of the model below and its error."
)
AHEAD = (
    *("GPUs", "strong, NVLink", "speed", "strong, network", "speed"),
    *("weak, NVLink", "kept", "weak, network", "kept"),
)
AHEAD_NOTE = (
    "These times are predicted, not measured: microseconds of an iteration of `cg`. Strong scaling "
    "has 20 M rows in total and is compared with one GPU. Weak scaling has 5 M rows per GPU; *kept* "
    "is the part of the speed of one GPU."
)

BESIDE = ("ranks", "rows", "iterations", "PETSc's", "difference of the solutions")
BESIDE_NOTE = (
    "One system, solved by `linalg.cg` and by PETSc's KSP with `distributed.petsc(op)` on the cores "
    "of a CPU, to a relative residual of 1e-8. The last column is the norm of the difference over the "
    "norm of the solution."
)

NVLINK = 450e3  # bytes a microsecond in one direction, of an H200
NETWORK = 50e3  # of 400 Gb/s for every GPU
HOP = 5.0  # microseconds from GPU to GPU over a network; assumed
NEAR_HOP = 1.0  # over NVLink; assumed
# Microseconds a row: ranks read two vectors for a sum that one GPU has from the product.
UNFUSED = 16 / 4.25e6
ISLAND = 8  # GPUs that NVLink connects in most hosts
LINKS = {"NVLink": math.inf, "network": ISLAND}  # how many GPUs NVLink connects
SUMS = 2  # over all ranks in an iteration of cg


@dataclass(frozen=True)
class Model:
    """Microseconds of a rank's own work, which are linear in its rows, and of what ranks add to that.

    Attributes
    ----------
    product, cg : (float, float)
        Of the work: once, and per row.
    exchange : float
        Of what of an exchange between two GPUs is not hidden behind the product.
    total : float
        Of a sum over two GPUs. Every further doubling takes two hops.
    """

    product: tuple[float, float]
    cg: tuple[float, float]
    exchange: float
    total: float

    def time(
        self, variant: str, rows: int, ranks: int, reach: float = 0.0, connected: float = math.inf
    ) -> float:
        """Of ranks that have ranges of so many rows in all, and send `reach` entries to each neighbour.

        Beyond as many GPUs as NVLink connects, messages and the doublings of sums go over the network.
        """
        once, per_row = self.product if variant == "product" else self.cg
        own = once + per_row * rows / ranks
        if ranks == 1:
            return own
        far = ranks > connected
        message = 2 * 8 * reach / (NETWORK if far else NVLINK) + (HOP if far else 0.0)
        hidden_behind = self.product[0] + self.product[1] * rows / ranks
        exchange = self.exchange + max(0.0, message - hidden_behind)
        if variant == "product":
            return own + exchange
        near = min(ranks, connected)
        hops = 2 * NEAR_HOP * math.log2(near / 2) + 2 * HOP * math.log2(ranks / near)
        return own + exchange + UNFUSED * rows / ranks + SUMS * (self.total + hops)


def fitted(rows: list[Row]) -> Model | None:
    """The model of the rows of one dtype over NCCL; None if they do not say enough."""
    alone: dict[str, list[Row]] = {"product": [], "cg": []}
    for row in rows:
        if row["ranks"] == 1:
            alone[row["variant"]].append(row)
    pairs = [row for row in rows if row["ranks"] == 2 and row["transport"].startswith("NCCL")]
    if not pairs or any(len({row["rows"] for row in found}) < 2 for found in alone.values()):
        return None
    lines = {variant: _line(found) for variant, found in alone.items()}
    bare = Model(lines["product"], lines["cg"], 0.0, 0.0)
    extra = {
        variant: [r["time_us"] - bare.time(variant, r["rows"], 2) for r in pairs if r["variant"] == variant]
        for variant in lines
    }
    exchange, iteration = (max(0.0, sum(found) / len(found)) for found in extra.values())
    return Model(lines["product"], lines["cg"], exchange, max(0.0, iteration - exchange) / SUMS)


def _line(rows: list[Row]) -> tuple[float, float]:
    low, high = (pick(rows, key=lambda row: row["rows"]) for pick in (min, max))
    slope = (high["time_us"] - low["time_us"]) / (high["rows"] - low["rows"])
    return low["time_us"] - slope * low["rows"], slope


def _name(transport: str) -> str:
    """The one that `explain` describes, as in "NCCL" and "CUDA-aware MPI"."""
    return re.split(r" [(\d]", transport)[0]


def measured(content: Content) -> Table:
    """The table, as `HEAD` names its columns."""
    rows = _of_float64(content)
    model = fitted(rows)
    transports = [row | {"via": "-" if row["ranks"] == 1 else _name(row["transport"])} for row in rows]
    cases = Content({}, transports).grouped("scaling rows ranks via", "variant")
    for (scaling, count, ranks, via), found in cases.items():
        base = next(own for (kind, _, n, _), own in cases.items() if (kind, n) == (scaling, 1))
        cells = [scaling, f"{count:,}", str(ranks), via]
        us = {variant: found[variant]["time_us"] for variant in ("product", "cg")}
        for variant in us:
            cells += [f"{us[variant]:,.0f}", f"{base[variant]['time_us'] / us[variant]:.2f}"]
        for variant in us:
            if model is None or "MPI" in via:
                cells.append("-")
            else:
                says = model.time(variant, count, ranks)
                cells.append(f"{says:,.0f} ({100 * (says / us[variant] - 1):+.0f} %)")
        yield cells


def ahead(content: Content) -> Table:
    """The table, as `AHEAD` names its columns; empty without a model."""
    rows = _of_float64(content)
    model = fitted(rows)
    if model is None:
        return
    strong, weak = (
        max(r["rows"] for r in rows if r["ranks"] == 1 and r["scaling"] == s) for s in ("strong", "weak")
    )
    for ranks in (8, 16, 32, 64, 128, 256, 512, 1024):
        cells = [f"{ranks:,}"]
        for kind, count, base in (("strong", strong, strong), ("weak", weak * ranks, weak)):
            reach = round(count ** (1 / 3)) ** 2  # a layer of the grid, as wide as a range's neighbours reach
            for connected in LINKS.values():
                us = model.time("cg", count, ranks, reach, connected)
                gain = model.time("cg", base, 1) / us
                cells += [f"{us:,.0f}", f"{gain:.1f}" if kind == "strong" else f"{100 * gain:.0f} %"]
        yield cells


def beside_petsc(content: Content) -> Table:
    """The table, as `BESIDE` names its columns; empty where PETSc was not asked."""
    for row in content.rows:
        if row["variant"] == "beside petsc":
            counts = (row["ranks"], f"{row['rows']:,}", row["iterations"], row["petsc_iterations"])
            yield *counts, f"{row['difference']:.1e}"


def _of_float64(content: Content) -> list[Row]:
    return [row for row in content.rows if row["dtype"] == "f64" and row["variant"] in ("product", "cg")]


def _inset(
    contents: list[Content], note: str, head: tuple[str, ...], rows: Callable[[Content], Table], words: int
) -> str:
    """The table of the last device that has it."""
    for content in reversed(contents):
        body = list(rows(content)) if content.on_gpu or rows is beside_petsc else []
        if body:
            return f"{note.format(device=content.environment['device'])}\n\n{table(head, body, words)}"
    return ""


INSETS = {
    ("scaling.md", "petsc"): partial(_inset, note=BESIDE_NOTE, head=BESIDE, rows=beside_petsc, words=2),
    ("scaling.md", "scaling"): partial(_inset, note=NOTE, head=HEAD, rows=measured, words=4),
    ("scaling.md", "ahead"): partial(_inset, note=AHEAD_NOTE, head=AHEAD, rows=ahead, words=1),
}

EXPERIMENTS = [
    Experiment(
        command="scaling",
        about="products and cg over the GPUs of ranks, under mpiexec",
        file="scaling",
        dtypes=("f64",),
        leads=is_first,
        measure=measure,
        add_options=add_options,
        report=Report(100, insets=INSETS),
    )
]
