"""Times of every product on one symmetric matrix: this library's, cuSPARSE's, and one on the CPU beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import spmvgpu as sg
from experiments.clock import DeviceClock, Launch, take_turns, timed
from experiments.papers.matrices import Sample
from experiments.papers.measure import NotMeasuredError, Variant, build
from experiments.papers.mironowicz_claims import BEST_CUSPARSE, BEST_GENERAL, FORMAT, POSTER, TSMV
from experiments.papers.run import Run
from experiments.peers import cusparse, mkl, ours, scipy
from experiments.peers.problem import DTYPES, Problem

TSMV_VARIANTS = (Variant(TSMV, FORMAT), Variant(POSTER, FORMAT, ours.POSTER))
# Not general: the format in question, and diagonals and stencils, of which real matrices have few.
LEFT_OUT = (FORMAT, "dia", "sdia", "stencil")
WALL_SECONDS, QUICK_WALL_SECONDS = 0.1, 0.0  # for each product that is timed by the clock on the wall


@dataclass(frozen=True)
class Product:
    """A product that was found right; `size` is that of the matrix as stored and of the vectors."""

    library: str
    variant: str
    size: int
    operator: sg.SparseOperator | None = None  # ours
    launch: Launch | None = None  # on a stream of the GPU
    call: Callable[[], object] | None = None  # on the CPU


class Stopwatch:
    """Times products: on a GPU in replayed graphs where CuPy is there, else by other means.

    `peers` are the libraries beside this one: cuSPARSE, if it can be called, and `host`, the one on the CPU.
    `start_seconds` is what the start of cuSPARSE took, CUDA being there already; None without it.
    """

    def __init__(self, run: Run) -> None:
        self.device = run.device
        self.host: Any = mkl if mkl.available() is None else scipy
        self.peers: list[Any] = [self.host]
        self.start_seconds: float | None = None
        self._wall_seconds = QUICK_WALL_SECONDS if run.quick else WALL_SECONDS
        self._repeats = run.repeats
        self._clock: DeviceClock | None = None
        if run.on_cpu:
            return
        try:
            import cupy

            cupy.cuda.Device(int(run.device.removeprefix("cuda:"))).use()
            self._clock = DeviceClock()
            self.start_seconds, reason = timed(self._start_cusparse)
        except Exception as error:  # CuPy is missing, or cannot find the CUDA libraries
            reason = f"it is called through CuPy: {error}"
        if reason is None:
            self.peers.insert(0, cusparse)
        else:
            self.start_seconds = None
            print(f"  cuSPARSE left out: {reason}", flush=True)

    def _start_cusparse(self) -> str | None:
        assert self._clock is not None
        reason: str | None = cusparse.available()
        self._clock.synchronize()
        return reason

    def ours(self, problem: Problem, op: sg.SparseOperator, size: int) -> Product:
        if self.device != "cpu" and self._clock is None:
            return Product(ours.NAME, op.format, size, op)
        ready = ours.variant(problem, op.format, op)
        return Product(ours.NAME, op.format, size, op, ready.launch, ready.call)

    def time(self, products: dict[str, Product]) -> dict[str, float]:
        """Microseconds of each product; without those that cannot be captured in a graph."""
        calls = {label: product.call for label, product in products.items() if product.call is not None}
        found = {label: timing.us for label, timing in take_turns(calls, self._wall_seconds).items()}
        launches = {
            label: product.launch for label, product in products.items() if product.launch is not None
        }
        if self._clock is not None:
            launches = {label: launch for label, launch in launches.items() if self._captured(launch)}
            found.update({label: timing.us for label, timing in self._clock.hot(launches).items()})
        elif self.device != "cpu":
            for label, product in products.items():
                if product.operator is not None:
                    found[label] = product.operator.time_products(self._repeats)
        return found

    def _captured(self, launch: Launch) -> bool:
        assert self._clock is not None
        try:
            self._clock.capture([launch])
        except Exception:  # whatever the library makes of it
            return False
        return True


def measure(run: Run, stopwatch: Stopwatch, sample: Sample, order: str, dtype: str) -> None:
    """Add a row for every product that can be had; `order` is the one that the sample's matrix is in."""
    problem = Problem.make(sample.matrix, DTYPES[dtype])
    products = dict(_products(run, stopwatch, sample, order, dtype, problem))
    times = stopwatch.time(products)
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for label, product in products.items():
        if label not in times:
            run.skip(sample, dtype, f"{label}, {order}", "cannot be captured in a graph")
            continue
        row = run.add(
            sample,
            dtype,
            product.variant,
            library=product.library,
            label=label,
            order=order,
            time_us=times[label],
            bytes=product.size,
            gflops=2 * sample.matrix.nnz / times[label] / 1e3,
            memory_ratio=(product.size - problem.vector_bytes) / problem.csr_bytes,
            **_facts(product.operator, times[label]),
        )
        kind = FORMAT if product.variant == FORMAT else product.library
        by_kind.setdefault(kind, []).append(row)
    run.tune(BEST_GENERAL, by_kind.get(ours.NAME, []))
    run.tune(BEST_CUSPARSE, by_kind.get(cusparse.NAME, []))


def _products(
    run: Run, stopwatch: Stopwatch, sample: Sample, order: str, dtype: str, problem: Problem
) -> Iterator[tuple[str, Product]]:
    """Those that can be built and are right, by label; the others are noted."""
    general = [Variant(name, name) for name in sg.formats() if name not in LEFT_OUT]
    for variant in (*TSMV_VARIANTS, *general):
        try:
            yield variant.label, stopwatch.ours(problem, *build(problem, variant, run.device))
        except NotMeasuredError as error:
            run.skip(sample, dtype, f"{variant.label}, {order}", error)
    for peer in stopwatch.peers:
        for job in peer.prepare(problem):
            label = f"{peer.NAME} {job.name}"
            try:
                other = job.build()
                problem.check(other.result())
            except Exception as error:  # another library's failure is a finding, not the end of the run
                run.skip(sample, dtype, f"{label}, {order}", error)
                continue
            size = other.nbytes + problem.vector_bytes
            yield label, Product(peer.NAME, other.name, size, None, other.launch, other.call)


def _facts(op: sg.SparseOperator | None, time_us: float) -> dict[str, Any]:
    """Options of an operator, seconds of all set-up but the transfer, and the same in products."""
    if op is None:
        return {}
    seconds = sum(value for name, value in op.setup_seconds.items() if name != "transfer")
    products = 1e6 * seconds / time_us
    return {"options": op.options, "preprocess_seconds": round(seconds, 6), "preprocess_products": products}
