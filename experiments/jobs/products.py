"""Products from Python: a thousand with NumPy vectors, and 8 and 32 columns in arrays of three libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from experiments import peers
from experiments.clock import in_turns, timed
from experiments.engine import Run
from experiments.records import Row
from spmvgpu import cache

from . import libraries, systems
from .systems import check_product, times_row

THOUSAND = "1,000 products, NumPy vectors"
COLUMNS = "op @ X, {} columns, {} arrays"
COUNTS = (8, 32)
SECONDS = 0.3
LONGEST = 3.0  # seconds a series may take; beyond it, fewer products are made and the row says how many


def thousand(run: Run) -> Iterator[Row]:
    """A thousand products in a row, with the same matrix, from NumPy vector to NumPy vector."""
    contestants = libraries.all_libraries(run.on_gpu)
    for name in systems.QUICK if run.options.quick else systems.PRODUCTS:
        if not run.fits(0, job=THOUSAND, matrix=name):
            continue
        A = systems.matrix(name)
        x = systems.right_hand_side(A)
        case = {"job": THOUSAND, **systems.describe(name, A), "variant": ""}
        for library in contestants:
            with run.noted(job=THOUSAND, matrix=name, **library.fields), cache.empty():
                built = library.build(systems.matrix(name))
                check_product(A, x, library.multiply(built, x))
                one, _ = timed(partial(library.multiply, built, x))
                count = max(10, min(1000, int(LONGEST / one)))
                if run.fits(count * one, job=THOUSAND, matrix=name, **library.fields):
                    took, _ = timed(partial(_series, library, built, x, count))
                    yield times_row([took * 1e6 * 1000 / count], **case, **library.fields, products=count)


def _series(library: libraries.Library, built: Any, x: np.ndarray, count: int) -> None:
    for _ in range(count):
        library.multiply(built, x)


def columns(run: Run) -> Iterator[Row]:
    """`op @ X` with NumPy arrays in and out; on a GPU also with CuPy's and PyTorch's, which stay there."""
    contestants = libraries.all_libraries(run.on_gpu)
    for name in systems.QUICK if run.options.quick else systems.COLUMNS:
        if not run.fits(0, job="op @ X", matrix=name):
            continue
        A = systems.matrix(name)
        with cache.empty():
            built = {}
            for library in contestants:
                with run.noted(job="op @ X", matrix=name, **library.fields):
                    built[library] = library.build(systems.matrix(name))
            for count in COUNTS:
                X = np.random.default_rng(count).standard_normal((A.shape[1], count))
                calls = {
                    library: partial(library.multiply, operator, X) for library, operator in built.items()
                }
                yield from _measure(run, name, A, X, "NumPy", calls, np.asarray, lambda: None)
                if run.on_gpu:
                    yield from _on_device(run, name, A, X, built)
    if "torch" not in libraries.missing(run.on_gpu):  # which is loaded by now
        run.record.environment["versions"].update(peers.torch.versions())


def _on_device(
    run: Run, name: str, A: Any, X: np.ndarray, built: dict[libraries.Library, Any]
) -> Iterator[Row]:
    """Ours takes arrays of either library, to which their own product is compared."""
    import cupy as cp

    on_gpu = {
        library.name: (library, operator) for library, operator in built.items() if library.device == "gpu"
    }
    arrays: list[tuple[str, str, Any, Callable[[Any], np.ndarray]]] = [
        ("CuPy", "cupy", cp.asarray(X), cp.asnumpy)
    ]
    if "torch" in on_gpu:
        import torch

        arrays.append(("PyTorch", "torch", torch.from_numpy(X).cuda(), lambda Y: Y.cpu().numpy()))
    for kind, peer, operand, to_numpy in arrays:
        pair = (on_gpu[own] for own in ("spmvgpu", peer) if own in on_gpu)
        calls = {library: partial(_multiply, operator, operand) for library, operator in pair}
        yield from _measure(run, name, A, X, kind, calls, to_numpy, cp.cuda.runtime.deviceSynchronize)


def _multiply(operator: Any, X: Any) -> Any:
    return operator @ X


def _measure(
    run: Run,
    name: str,
    A: Any,
    X: np.ndarray,
    kind: str,
    calls: Mapping[libraries.Library, Callable[[], Any]],
    to_numpy: Callable[[Any], np.ndarray],
    wait: Callable[[], object],
) -> Iterator[Row]:
    """Time products with one operand; `wait` returns once the device has done all that was queued."""
    case = {"job": COLUMNS.format(X.shape[1], kind), **systems.describe(name, A), "variant": ""}
    right: dict[libraries.Library, Callable[[], Any]] = {}
    for library, call in calls.items():
        with run.noted(job=case["job"], matrix=name, **library.fields):
            check_product(A, X, to_numpy(call()))
            right[library] = call
    repeats = 1 if kind == "NumPy" else 10  # calls that only queue work are timed as a series, with one wait

    def series(call: Callable[[], Any]) -> None:
        for _ in range(repeats):
            call()
        wait()

    series_of = {library: partial(series, call) for library, call in right.items()}
    for library, samples in in_turns(series_of, SECONDS, least=3, before=wait).items():
        yield times_row([us / repeats for us in samples], **case, **library.fields)
