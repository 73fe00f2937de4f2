"""Measure products with several columns: ``python -m experiments matmat``.

``op @ X`` beside the same of CuPy and PyTorch (on the CPU: of SciPy), for 4, 8 and 32 columns in both orders,
as called from Python and, into a given array, replayed from a graph; and with NumPy arrays in and out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

import spmvgpu as sg
from experiments.clock import Call, Timing, in_turns
from experiments.matrices import canonical
from experiments.peers.problem import DTYPES, Problem, WrongResultError, rounding_bound
from experiments.records import Recorder
from experiments.report.columns import summary
from spmvgpu import gallery

from .products import Run, noted, release, until
from .run import add_common_options, measure, names_of
from .suite import Item

COLUMNS = (4, 8, 32)
ORDERS = ("C", "F")
FORMATS = ("csr", "sell", "auto")
NUMPY_SECONDS = 0.5

BUILDERS: dict[str, Callable[[], sp.csr_array]] = {
    "elast3d_20k": lambda: gallery.elasticity3d(27, contrast=100),
    "poisson3d7_100": lambda: gallery.poisson3d(100, contrast=100),
    "powerlaw_500k": lambda: gallery.powerlaw(500_000, 12, max_length=4700),
    "elast3d_160k": lambda: gallery.elasticity3d(54, contrast=100),
    "elast3d_1k": lambda: gallery.elasticity3d(7, contrast=100),
    "powerlaw_5k": lambda: gallery.powerlaw(5000, 8),
}
QUICK = ("elast3d_1k", "powerlaw_5k")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments matmat", description=__doc__)
    add_common_options(parser)
    parser.set_defaults(dtype="f64")
    options = parser.parse_args(arguments)
    options.dtype = names_of(parser, "--dtype", options.dtype, tuple(DTYPES))
    names = QUICK if options.quick else [name for name in BUILDERS if name not in QUICK]
    items = [Item(name, "generated", partial(_build, name)) for name in names]
    return measure(options, items, {}, {"matmat": matmat}, summary)


def _build(name: str) -> sp.csr_array:
    return canonical(BUILDERS[name]())


def matmat(run: Run, record: Recorder, deadline: float) -> None:
    """Measure all items in all dtypes until the deadline."""
    record.complete = partial(completed, record.environment)
    for item, dtype in until(deadline, run, run.items, record):
        with noted(run, record, matrix=item.name, dtype=dtype):
            problem = run.store.get(item, dtype)
            with sg.cache.ignored():
                operators = {
                    name: sg.aslinearoperator(problem.matrix, format=name, device=run.device)
                    for name in FORMATS
                }
            for columns in COLUMNS:
                Several(run, record, problem, operators, columns).measure()
            release(run, problem)
        record.write()
        run.say(f"{item.name} {dtype}: {len(record.rows)} rows")


def completed(environment: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """A row with the time in which a copy on the GPU moves as many bytes."""
    bandwidth = environment.get("copy_kernel_bandwidth")
    return row if bandwidth is None else {**row, "copy_us": round(1e6 * row["bytes"] / bandwidth, 3)}


class Several:
    """The products of one matrix with so many columns."""

    def __init__(
        self,
        run: Run,
        record: Recorder,
        problem: Problem,
        operators: dict[str, sg.SparseOperator],
        columns: int,
    ) -> None:
        self.run, self.record, self.problem, self.operators = run, record, problem, operators
        self.columns = columns
        A, shape = problem.matrix, (problem.matrix.shape[1], columns)
        self.X = np.random.default_rng(columns).uniform(-1.0, 1.0, shape).astype(problem.dtype)
        exact, X = A.astype(np.float64), self.X.astype(np.float64)
        self.reference = exact @ X
        self.bound = rounding_bound(A.indptr, abs(exact) @ abs(X), problem.dtype)

    def measure(self) -> None:
        for order in ORDERS:
            if self.run.clock is None:
                self._on_host(order, {"scipy": ("csr", lambda X: self.problem.matrix @ X)})
            else:
                self._on_device(order)
        if self.run.clock is not None:
            import cupy

            from experiments.peers import cupy as cupy_peer

            G = cupy_peer.matrix(self.problem)
            others = {"cupy": ("numpy", lambda X: cupy.asnumpy(G @ cupy.asarray(X)))}
            self._on_host("C", others)

    def _on_device(self, order: str) -> None:
        import cupy
        import torch

        from experiments.peers import cupy as cupy_peer
        from experiments.peers import torch as torch_peer

        X = cupy.asarray(self.X, order=order)
        G, T, tensor = cupy_peer.matrix(self.problem), torch_peer.matrix(self.problem), torch.from_dlpack(X)
        self._called("cupy", "csr", order, lambda: G @ X)
        self._called("torch", "csr", order, lambda: T @ tensor, lambda: cupy.from_dlpack(T @ tensor))
        launches: dict[str, Callable[[int], object]] = {}
        for name, op in self.operators.items():
            self._called("spmvgpu", f"{name}_called", order, partial(op.__matmul__, X), op=op)
            out = cupy.full((op.shape[0], self.columns), np.nan, self.problem.dtype, order=order)
            launches[name] = partial(_launch, op, X, out)
            launches[name](0)
            self.check(out)
        assert self.run.clock is not None
        for name, timing in self.run.clock.hot(launches).items():
            self._add("spmvgpu", name, order, timing, "graph", self.operators[name])

    def _called(
        self,
        library: str,
        variant: str,
        order: str,
        call: Call,
        result: Callable[[], Any] | None = None,
        op: sg.SparseOperator | None = None,
    ) -> None:
        what = {"matrix": self.problem.name, "library": library, "variant": variant}
        with noted(self.run, self.record, **what):
            self.check((result or call)())
            assert self.run.clock is not None
            self._add(library, variant, order, self.run.clock.python_calls(call).batch, "call", op)

    def _on_host(self, order: str, others: dict[str, tuple[str, Callable[[Any], Any]]]) -> None:
        """NumPy arrays in and out: this library with the format that it chooses, and others."""
        X = np.asarray(self.X, order=order)  # type: ignore[call-overload]
        op = self.operators["auto"]
        variants = {"spmvgpu": ("auto" if op.device == "cpu" else "numpy", op.__matmul__), **others}
        calls: dict[str, Call] = {library: partial(call, X) for library, (_, call) in variants.items()}
        for call in calls.values():
            self.check(call())
        for library, samples in in_turns(calls, NUMPY_SECONDS, least=3).items():
            own = op if library == "spmvgpu" else None
            self._add(library, variants[library][0], order, Timing.of(samples), "call", own)

    def check(self, Y: Any) -> None:
        """Raise `WrongResultError` unless every element of a NumPy or CuPy array is within its bound."""
        if Y.shape != self.reference.shape or Y.dtype != self.problem.dtype:
            raise WrongResultError(f"result is {Y.dtype}{Y.shape}, expected {self.reference.shape}")
        reference, bound = self.reference, self.bound
        if not isinstance(Y, np.ndarray):
            import cupy

            reference, bound = cupy.asarray(reference), cupy.asarray(bound)
        wrong = int((~(abs(Y - reference) <= bound)).sum())
        if wrong:
            raise WrongResultError(f"{wrong} of {Y.size} elements are wrong")

    def _add(
        self,
        library: str,
        variant: str,
        order: str,
        timing: Timing,
        how: str,
        op: sg.SparseOperator | None,
    ) -> None:
        self.record.add(
            **self.problem.describe(),
            library=library,
            variant=variant,
            columns=self.columns,
            order=order,
            cache="hot",
            how=how,
            **timing.fields(),
            bytes=self.problem.csr_bytes + self.columns * self.problem.vector_bytes,
            options={} if op is None else {"format": op.format, **op.options},
        )


def _launch(op: sg.SparseOperator, X: npt.NDArray[Any], out: npt.NDArray[Any], stream: int) -> None:
    op.spmv(X, out=out, stream=stream)
