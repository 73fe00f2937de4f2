"""Products with several columns beside CuPy, PyTorch and SciPy.

``op @ X`` is measured for 4, 8 and 32 columns in both orders, as called from Python and, into a given array,
replayed from a graph; and with NumPy arrays in and out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import spmvgpu as sg
from experiments import peers
from experiments.clock import Call, Launch, Timing, in_turns
from experiments.engine import Experiment, Report, Run, Table
from experiments.goals import Mark, at_most
from experiments.peers.problem import Array, Problem, check_within, rounding_bound
from experiments.records import Content, Row, fastest, ratio
from experiments.suite import chosen
from spmvgpu import gallery

COLUMNS = (4, 8, 32)
FORMATS = ("csr", "sell", "auto")
NUMPY_SECONDS = 0.5
MATRICES = {
    "elast3d_20k": partial(gallery.elasticity3d, 27, contrast=100),
    "poisson3d7_100": partial(gallery.poisson3d, 100, contrast=100),
    "powerlaw_500k": partial(gallery.powerlaw, 500_000, 12, max_length=4700),
    "elast3d_160k": partial(gallery.elasticity3d, 54, contrast=100),
}
QUICK = {
    "elast3d_1k": partial(gallery.elasticity3d, 7, contrast=100),
    "powerlaw_5k": partial(gallery.powerlaw, 5000, 8),
}


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    with sg.cache.ignored():
        ops = {name: sg.aslinearoperator(problem.matrix, format=name, device=run.device) for name in FORMATS}
    for columns in COLUMNS:
        yield from Several(run, problem, ops, columns).rows()


class Several:
    """The products of one matrix with so many columns."""

    def __init__(self, run: Run, problem: Problem, ops: dict[str, sg.SparseOperator], columns: int) -> None:
        self.run, self.problem, self.ops, self.columns = run, problem, ops, columns
        A, shape = problem.matrix, (problem.matrix.shape[1], columns)
        self.X = np.random.default_rng(columns).uniform(-1.0, 1.0, shape).astype(problem.dtype)
        exact, X = A.astype(np.float64), self.X.astype(np.float64)
        self.reference = exact @ X
        self.bound = rounding_bound(A.indptr, abs(exact) @ abs(X), problem.dtype)

    def rows(self) -> Iterator[Row]:
        if self.run.clock is None:
            for order in ("C", "F"):
                yield from self._on_host(order, "auto", "scipy", "csr", self.problem.matrix.__matmul__)
            return
        import cupy

        G = peers.cupy.matrix(self.problem)
        for order in ("C", "F"):
            yield from self._on_device(order, G)
        yield from self._on_host("C", "numpy", "cupy", "numpy", lambda X: cupy.asnumpy(G @ cupy.asarray(X)))

    def _on_device(self, order: str, G: Any) -> Iterator[Row]:
        import cupy
        import torch

        clock = self.run.clock
        assert clock is not None
        X = cupy.asarray(self.X, order=order)
        T, tensor = peers.torch.matrix(self.problem), torch.from_dlpack(X)
        calls: dict[tuple[str, str], tuple[Call, Callable[[Any], Any]]] = {
            ("cupy", "csr"): (lambda: G @ X, lambda Y: Y),
            ("torch", "csr"): (lambda: T @ tensor, cupy.from_dlpack),
            **{
                ("spmvgpu", f"{name}_called"): (partial(op.__matmul__, X), lambda Y: Y)
                for name, op in self.ops.items()
            },
        }
        for (library, variant), (call, as_cupy) in calls.items():
            with self.run.noted(matrix=self.problem.name, library=library, variant=variant):
                self.check(as_cupy(call()))
                yield self._row(library, variant, order, clock.python_calls(call).batch, "call")
        launches: dict[str, Launch] = {}
        for name, op in self.ops.items():
            out = cupy.full((op.shape[0], self.columns), np.nan, self.problem.dtype, order=order)
            launches[name] = partial(_launch, op, X, out)
            launches[name](0)
            self.check(out)
        for name, timing in clock.hot(launches).items():
            yield self._row("spmvgpu", name, order, timing, "graph")

    def _on_host(
        self, order: str, variant: str, library: str, theirs: str, call: Callable[[Any], Any]
    ) -> Iterator[Row]:
        """NumPy arrays in and out: this library with the format that it chooses, and another one."""
        X: Array = np.asarray(self.X, order=order)  # type: ignore[call-overload]
        calls: dict[tuple[str, str], Call] = {
            ("spmvgpu", variant): partial(self.ops["auto"].__matmul__, X),
            (library, theirs): partial(call, X),
        }
        for one in calls.values():
            self.check(one())
        for key, samples in in_turns(calls, NUMPY_SECONDS, least=3).items():
            yield self._row(*key, order, Timing.of(samples), "call")

    def check(self, Y: Any) -> None:
        check_within(Y, self.reference, self.bound, self.problem.dtype)

    def _row(self, library: str, variant: str, order: str, timing: Timing, how: str) -> Row:
        op = self.ops.get("auto" if variant == "numpy" else variant.removesuffix("_called"))
        moved = self.problem.csr_bytes + self.columns * self.problem.vector_bytes
        bandwidth = self.run.record.environment.get("copy_kernel_bandwidth")
        return {
            **self.problem.describe(), "library": library, "variant": variant, "columns": self.columns,
            "order": order, "cache": "hot", "how": how, **timing.fields(), "bytes": moved,
            "options": {"format": op.format, **op.options} if op and library == "spmvgpu" else {},
            **({"copy_us": round(1e6 * moved / bandwidth, 3)} if bandwidth else {}),
        }  # fmt: skip


def _launch(op: sg.SparseOperator, X: Any, out: Any, stream: int) -> None:
    op.spmv(X, out=out, stream=stream)


# -- report --------------------------------------------------------------------------------------------------

HEAD = (
    "matrix", "dtype", "order", "columns", "CuPy", "PyTorch", "SciPy", "csr", "sell", "auto",
    "of which kernel", "x", "copies",
)  # fmt: skip
NOTE = (
    "Times in microseconds of `op @ X` called from Python. Orders C and F are arrays on the device. "
    "*numpy* is a C-ordered array in host memory; its time includes the transfers. *x* is the time of "
    "`auto` over the time of the fastest other library, *of which kernel* the time on the GPU alone, "
    "and *copies* the time of the kernel over the time of a copy of matrix, X and Y."
)
SPEED, COPIES, NUMPY = 0.5, 3.0, 0.4
IRREGULAR = "powerlaw"


def _cases(content: Content) -> Iterator[tuple[tuple[Any, ...], dict[tuple[str, str], Row]]]:
    """Rows by matrix, type, order and columns, and then by library and variant."""
    placed = [row | {"order": "numpy"} if row["variant"] == "numpy" else row for row in content.rows]
    yield from Content({}, placed).grouped("matrix dtype order columns", "library variant").items()


def _ours(found: dict[tuple[str, str], Row], name: str) -> Row | None:
    """As called from Python."""
    variants = (f"{name}_called", "numpy" if name == "auto" else "", name)
    rows = (found.get(("spmvgpu", variant)) for variant in variants)
    return next((row for row in rows if row is not None and row["how"] == "call"), None)


def _against(found: dict[tuple[str, str], Row]) -> float | None:
    return ratio(
        _ours(found, "auto"), fastest(row for (library, _), row in found.items() if library != "spmvgpu")
    )


def _kernel(found: dict[tuple[str, str], Row]) -> Row:
    row = found.get(("spmvgpu", "auto"), {})
    return row if row.get("how") == "graph" else {}


def _copies(kernel: Row) -> float | None:
    return kernel["time_us"] / kernel["copy_us"] if "copy_us" in kernel else None


def rows(content: Content) -> Table:
    for case, found in _cases(content):
        others = {library: row for (library, _), row in found.items() if library != "spmvgpu"}
        kernel = _kernel(found)
        yield (
            *case, *map(others.get, ("cupy", "torch", "scipy")), *(_ours(found, name) for name in FORMATS),
            kernel or None, _against(found), _copies(kernel),
        )  # fmt: skip


def goals(content: Content) -> list[Mark]:
    speed: dict[str, float | None] = {}
    numpy_speed: dict[str, float | None] = {}
    copies: dict[str, float | None] = {}
    for (matrix, dtype, order, columns), found in _cases(content):
        name = f"{matrix} {dtype}, {columns} columns in order {order}"
        (numpy_speed if order == "numpy" else speed)[name] = _against(found)
        if columns == 32 and not matrix.startswith(IRREGULAR):
            copies[name] = _copies(_kernel(found))
    return [
        *at_most("products with columns over the better of CuPy and PyTorch", speed, SPEED),
        *at_most("the same with NumPy arrays, over CuPy", numpy_speed, NUMPY),
        *at_most("products with 32 columns over a copy of the bytes, regular matrices", copies, COPIES),
    ]


EXPERIMENTS = [
    Experiment(
        command="matmat",
        about="products with several columns beside CuPy, PyTorch and SciPy",
        file="matmat",
        items=chosen(MATRICES, QUICK),
        dtypes=("f64",),
        peers={"cuda": ("cupy", "torch"), "cpu": ("scipy",)},
        measure=measure,
        report=Report(50, "Products with several columns", NOTE, HEAD, rows, 3, goals=goals, needs_gpu=True),
    )
]
