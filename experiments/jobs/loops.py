"""Iterative solvers: SciPy's loops around each library's operator, and solvers that stay on the device.

What an iteration of SciPy's costs beside the operator is measured with a free one, which returns what SciPy's
matrix returned in the same call of the same loop, and does nothing.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse.linalg as sla

import spmvgpu as sg
from experiments.clock import in_turns
from experiments.engine import Run
from experiments.records import Row

from . import libraries, systems
from .systems import check_product, times_row

SECONDS = 0.4  # spent on one loop, or product, of one library
LARGE = 500_000  # rows, from which on loops are shorter
LOOP = "SciPy's {} loop"
DEVICE_CG = "iteration of the library's own cg"
DEVICE_ITERATIONS = 100
LOBPCG_COLUMNS = 4

Loop = Callable[[Any, np.ndarray, int], object]


# Every loop makes about `products` products and stops for their number, never for a tolerance.
def _cg(A: Any, b: np.ndarray, products: int) -> object:
    return sla.cg(A, b, rtol=0.0, atol=0.0, maxiter=products)


def _gmres(A: Any, b: np.ndarray, products: int) -> object:
    return sla.gmres(A, b, rtol=0.0, atol=0.0, restart=20, maxiter=products // 20)


def _bicgstab(A: Any, b: np.ndarray, products: int) -> object:
    return sla.bicgstab(A, b, rtol=0.0, atol=0.0, maxiter=products // 2)


def _lobpcg(A: Any, b: np.ndarray, products: int) -> object:
    X = np.random.default_rng(5).standard_normal((len(b), LOBPCG_COLUMNS))
    return sla.lobpcg(A, X, tol=1e-30, maxiter=products // LOBPCG_COLUMNS)


def _eigsh(A: Any, b: np.ndarray, products: int) -> object:
    with contextlib.suppress(sla.ArpackNoConvergence):
        return sla.eigsh(A, k=4, which="LA", ncv=20, maxiter=max(1, products // 20), tol=1e-15, v0=b)
    return None


LOOPS: dict[str, Loop] = {
    "cg": _cg,
    "gmres": _gmres,
    "bicgstab": _bicgstab,
    "lobpcg": _lobpcg,
    "eigsh": _eigsh,
}


class Recording(sla.LinearOperator):  # type: ignore[misc]
    """A matrix that remembers what it was multiplied by, and what came out."""

    def __init__(self, A: Any) -> None:
        super().__init__(A.dtype, A.shape)
        self._matrix = A
        self.results: list[np.ndarray] = []
        self.operands: dict[tuple[int, ...], np.ndarray] = {}  # the last one of every shape

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        y: np.ndarray = self._matrix @ x
        self.results.append(y.copy())  # solvers may write to y
        self.operands[x.shape] = x.copy(order="K")
        return y

    _matmat = _matvec


class Free(sla.LinearOperator):  # type: ignore[misc]
    """Returns the results of a `Recording`, in their order, for nothing."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording.dtype, recording.shape)
        self._results = recording.results
        self._returned = [result.copy() for result in self._results]
        self._next = 0

    def rewind(self) -> None:
        """Start again from the first result, and undo what the loop wrote to those that it was given."""
        for returned, result in zip(self._returned, self._results, strict=True):
            np.copyto(returned, result)
        self._next = 0

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        y = self._returned[self._next]
        self._next += 1
        return y

    _matmat = _matvec


def loops(run: Run) -> Iterator[Row]:
    """Time per product of SciPy's loops.

    `time_us` is that around an operator, `free_us` around the free one, `product_us` a product alone.
    """
    # Seconds per unit of work of each loop on the matrix before, which say whether the next one fits.
    pace = dict.fromkeys(LOOPS, 0.0)
    with sg.cache.empty():
        for name in systems.QUICK if run.options.quick else systems.LOOPS:
            if not run.fits(0, job=LOOP.format("cg"), matrix=name):
                continue
            A = systems.matrix(name)
            b = systems.right_hand_side(A)
            contestants = libraries.solvers(run.on_gpu)
            built = {library: library.build(systems.matrix(name)) for library in contestants}
            for library, operator in built.items():
                check_product(A, b, library.multiply(operator, b))
            yield from _device_cg(run, name, A, b, built)
            for solver in LOOPS:
                job = LOOP.format(solver)
                work = _products(A) * (A.nnz + 10 * A.shape[0])
                if run.fits(pace[solver] * work, job=job, matrix=name):
                    begin = time.perf_counter()
                    with run.noted(job=job, matrix=name), warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # that nothing converged is what was asked for
                        yield from _loop(solver, {"job": job, **systems.describe(name, A)}, A, b, built)
                    # What is spent on small matrices is the time that is meant to be, whatever their size.
                    spare = 2 * SECONDS * (len(built) + 1)
                    pace[solver] = max(0.0, time.perf_counter() - begin - spare) / work


def _products(A: Any) -> int:
    """About how many a loop makes."""
    return 20 if A.shape[0] >= LARGE else 40


def _loop(
    solver: str,
    case: dict[str, Any],
    A: Any,
    b: np.ndarray,
    built: dict[libraries.Library, Any],
) -> Iterator[Row]:
    products = _products(A)
    iterate = LOOPS[solver]
    recording = Recording(A)
    iterate(recording, b, products)
    count = len(recording.results)
    free = Free(recording)

    calls: dict[Any, Callable[[], object]] = {"free": partial(iterate, free, b, products)}
    for library, operator in built.items():
        calls[library] = partial(iterate, library.operator(operator), b, products)
    samples = in_turns(calls, SECONDS, before=free.rewind)
    loop_us = {key: [us / count for us in values] for key, values in samples.items()}
    free_us = float(np.median(loop_us["free"]))

    product_us = _products_alone(recording, built)
    for library in built:
        yield times_row(
            loop_us[library],
            **case,
            **library.fields,
            variant="",
            products=count,
            free_us=round(free_us, 2),
            product_us=round(product_us[library], 2),
        )


def _products_alone(
    recording: Recording, built: dict[libraries.Library, Any]
) -> dict[libraries.Library, float]:
    """Time of a product as the loop makes them, in the mean over their shapes, called one after the other."""
    shapes = [result.shape for result in recording.results]
    total = dict.fromkeys(built, 0.0)
    for shape, operand in recording.operands.items():
        repeats = 20 if len(operand) < LARGE else 5

        def series(library: libraries.Library, operand: np.ndarray = operand, repeats: int = repeats) -> None:
            for _ in range(repeats):
                library.multiply(built[library], operand)

        samples = in_turns({library: partial(series, library) for library in built}, SECONDS / 2)
        weight = shapes.count((recording.shape[0], *shape[1:])) / len(shapes)
        for library, values in samples.items():
            total[library] += weight * float(np.median(values)) / repeats
    return total


def _device_cg(
    run: Run, name: str, A: Any, b: np.ndarray, built: dict[libraries.Library, Any]
) -> Iterator[Row]:
    """An iteration of `spmvgpu.linalg.cg`, of CuPy's and of SciPy's; transfers of b and x are in it."""
    case = {"job": DEVICE_CG, **systems.describe(name, A)}
    options: dict[str, Any] = {"rtol": 0.0, "atol": 0.0, "maxiter": DEVICE_ITERATIONS}

    def call(library: libraries.Library) -> object:
        if library.name == "cupy":
            return libraries.cupy_cg(built[library], b, options)
        if library.name == "scipy":
            return sla.cg(built[library], b, **options)
        return sg.linalg.cg(built[library], b, **options)

    with run.noted(job=DEVICE_CG, matrix=name):
        own = {library: partial(call, library) for library in built}
        for library, samples in in_turns(own, SECONDS, most=7).items():
            yield times_row([us / DEVICE_ITERATIONS for us in samples], **case, **library.fields, variant="")
