"""Products and cg over several GPUs and the CPU.

The matrices are a 27-point stencil with different values, and grids of equal rows with 7 points and with 27,
which have 27/8 and 22/8 times as many rows. Vectors stay on the devices ("distributed"), or are NumPy
arrays that cross the bus in every product ("numpy"); "graph" is the device time of one GPU by itself, from
replayed graphs. Every result is compared with that of one GPU, and that one in some rows with NumPy.

The CPU beside GPUs is measured on the stencil.

"setup" is `aslinearoperator` with an empty cache, from a matrix of SciPy or of CuPy on the first GPU.

"cg" is an iteration of `linalg.cg`, as the slope between a short and a long run without a tolerance, over
devices of one kind; what the short run arrives at is compared with what one device does.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

import spmvgpu as sg
from generators.families import stencil
from spmvgpu import gallery, linalg

from .clock import Call, timed, wall_us
from .engine import Experiment, Items, Run
from .peers.problem import Problem
from .records import Row
from .setup import has_cupy, to_cupy
from .suite import Item

CHAIN = 20  # distributed products between two waits of the host
ROUNDS = 7
SETUPS = 3
SHORT, LONG = 30, 630  # iterations of cg between which the slope is taken


def device_lists(counts: Iterable[int]) -> list[list[str]]:
    """So many GPUs, and the most of them with the CPU; the CPU once and twice where there is no GPU."""
    gpus = [info.name for info in sg.devices() if info.name != "cpu"]
    if not gpus:
        return [["cpu"], ["cpu", "cpu"]]
    lists = [gpus[:count] for count in counts if count <= len(gpus)]
    return [*lists, [gpus[0], "cpu"], *([[*lists[-1], "cpu"]] if len(lists[-1]) > 1 else [])]


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--rows", type=int, default=8_000_000, help="of the 27-point stencil with different values")
    add("--counts", default="1,2,4", help="numbers of GPUs, comma-separated")
    add("--format", default="auto", help="of every part")


def items(options: argparse.Namespace) -> Items:
    rows = 8000 if options.quick else options.rows
    made = {f"stencil27_{rows}": partial(stencil, rows, np.float64)}
    for points, times in ((7, 27 / 8), (27, 22 / 8)):
        side = round((times * rows) ** (1 / 3))
        made[f"grid{points}_{side**3}"] = partial(_grid, side, points)
    return [Item(name, "generated", make) for name, make in made.items()], {}


def _grid(side: int, points: int) -> Any:
    """A Poisson matrix whose absolute values add up to at most 1 in a row."""
    matrix = gallery.poisson3d(side, points=points)
    matrix.data /= 2 * (points - 1)
    return matrix


# -- rows ----------------------------------------------------------------------------------------------------


def measure(run: Run, problem: Problem, variant: str) -> Iterator[Row]:
    """Rows of one of the variants, over one list of devices after the other."""
    case = Over(problem)
    lists = device_lists(map(int, run.options.counts.split(",")))
    if variant == "products":
        yield case.one_device(lists[0][0], run.options.format)
    for devices in lists:
        is_mixed = "cpu" in devices and set(devices) != {"cpu"}
        # cg keeps vectors in pieces on devices of one kind only.
        if is_mixed and (variant == "cg" or not problem.name.startswith("stencil27")):
            continue
        if run.fits(0, **problem.case, devices=devices):
            format = run.options.format
            if variant == "setup":
                yield from case.setup(run, devices, format)
                continue
            make = partial(sg.aslinearoperator, problem.matrix, device=devices, format=format)
            of_variant = case.products if variant == "products" else case.cg
            yield from of_variant(devices, make())


class Over:
    """One matrix in one precision, and the results that all devices are to agree on."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.matrix = problem, problem.matrix
        self.x = np.linspace(-1, 1, self.matrix.shape[1]).astype(self.matrix.dtype)
        self.reference: np.ndarray[Any, Any] | None = None
        self.iterate: np.ndarray[Any, Any] | None = None  # of cg, after the short run

    def one_device(self, device: str, format: Any) -> Row:
        """Device time of an ordinary operator."""
        op = sg.aslinearoperator(self.matrix, device=device, format=format)
        self.check("graph", op @ self.x)
        return self.row("graph", [device], op, [op.time_products(20) for _ in range(3)])

    def setup(self, run: Run, devices: list[str], format: str) -> Iterator[Row]:
        """Making an operator, of one device without a list."""
        device = devices if len(devices) > 1 else devices[0]
        given = {"scipy": self.matrix} | ({"cupy": to_cupy(self.matrix)} if has_cupy(run) else {})
        for source, matrix in given.items():
            times = []
            for _ in range(1 + SETUPS):
                with sg.cache.empty():
                    seconds, op = timed(partial(sg.aslinearoperator, matrix, device=device, format=format))
                times.append(1e6 * seconds)
            yield self.row("setup", devices, op, times[1:], source=source)

    def products(self, devices: list[str], op: Any) -> Iterator[Row]:
        """Both kinds of vectors."""
        x, y = op.vector(self.x), op.vector()
        op.spmv(x, out=y)
        self.check("distributed", y.collect())

        def chain() -> None:
            nonlocal x, y
            for _ in range(CHAIN):
                op.spmv(x, out=y)
                x, y = y, x
            op.synchronize()

        yield self.row("distributed", devices, op, _times(chain, CHAIN))
        out = np.empty(self.matrix.shape[0], self.matrix.dtype)
        self.check("numpy", op.spmv(self.x, out=out))
        yield self.row("numpy", devices, op, _times(lambda: op.spmv(self.x, out=out), 1))

    def cg(self, devices: list[str], op: Any) -> Iterator[Row]:
        """An iteration of conjugate gradients."""

        def solve(iterations: int) -> tuple[np.ndarray[Any, Any], int]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", linalg.SolverWarning)  # in float32 the residual drifts
                x, _ = linalg.cg(op, self.x, rtol=0.0, maxiter=iterations)
            taken = op.solve_info.iterations
            # The residual of a small matrix is zero before the last iteration.
            if taken < min(2 * SHORT, iterations):
                raise SystemExit(f"cg ended as {op.solve_info.status} after {taken} iterations")
            return np.asarray(x), taken

        x, _ = solve(SHORT)
        if self.iterate is None:
            self.iterate = x
        wrong = np.linalg.norm(x - self.iterate) / np.linalg.norm(self.iterate)
        limit = np.finfo(self.matrix.dtype).eps ** 0.5
        if not wrong <= limit:
            raise SystemExit(f"cg over {devices}: off by {wrong:.3g} of the norm, more than {limit:.3g}")
        times = []
        for _ in range(ROUNDS):
            (least, (_, few)), (most, (_, many)) = (timed(partial(solve, n)) for n in (SHORT, LONG))
            times.append(1e6 * (most - least) / (many - few))
        pieces = op.solve_info.pieces
        yield self.row("cg", devices, op, times, pieces=pieces)

    def check(self, variant: str, y: np.ndarray[Any, Any]) -> None:
        """Compare with NumPy in some rows, and with the first result in all."""
        if self.reference is None:
            rows = np.unique(np.linspace(0, len(y) - 1, 10_000).astype(int))
            expected = self.matrix[rows].astype(np.float64) @ self.x.astype(np.float64)
            wrong = np.abs(y[rows] - expected).max()
            self.reference = y
        else:
            wrong = np.abs(y - self.reference).max()
        limit = 40 * np.finfo(self.matrix.dtype).eps  # 27 products of at most 1/27 each, and their sums
        if not wrong <= limit:
            raise SystemExit(f"{variant}: off by {wrong:.3g}, more than {limit:.3g}")

    def row(self, variant: str, devices: list[str], op: Any, times: list[float], **more: Any) -> Row:
        several = isinstance(op, sg.MultiDeviceOperator)
        shares = [int(share[0].nnz) for share in op._several.parts] if several else [op.nnz]
        described = {key: value for key, value in self.problem.describe().items() if key != "group"}
        return {
            **described, "library": "spmvgpu", "cache": "hot", "variant": variant, "devices": devices,
            "time_us": round(statistics.median(times), 2), "least_us": round(min(times), 2),
            "samples": len(times), "bytes": op.nbytes + self.problem.vector_bytes, "format": op.format,
            "nnz_per_device": shares, **more,
        }  # fmt: skip


def _times(call: Call, products: int) -> list[float]:
    """Microseconds per product in several calls of many products each."""
    call()
    return [us / products for us in wall_us(call, 0.0, least=ROUNDS)]


EXPERIMENTS = [
    Experiment(
        command="multi",
        about="products and solvers over several GPUs and the CPU",
        file=file,
        name=variant,
        items=items,
        measure=partial(measure, variant=variant),
        add_options=add_options,
    )
    for file, variant in (("multi", "products"), ("multi_cg", "cg"), ("multi_setup", "setup"))
]
