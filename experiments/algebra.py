"""Sparse times sparse, and sums: `A @ A` and `A + A` on the device, beside CuPy and SciPy.

What is timed is `aslinearoperator(op @ op, format="csr")`, whose arrays are the result, beside CuPy's and
SciPy's ``A @ A``, from matrices in CSR where the library has them. A result is compared by its product with
a vector.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from spmvgpu import gallery
from spmvgpu.gallery import meshes

from .clock import Timing, wall_us
from .engine import Experiment, Items, Run
from .peers.problem import Problem
from .records import Row
from .setup import has_cupy, to_cupy
from .suite import Item

REPEATS = 5
SECONDS = 2.0  # after which no more samples of one kind are taken
OPERATIONS: dict[str, Callable[[Any], Any]] = {"product": lambda A: A @ A, "sum": lambda A: A + A}


def _hexahedra(edge: int) -> sp.csr_array:
    return meshes.symmetric_values(meshes.solid((edge,) * 3))


def items(options: argparse.Namespace) -> Items:
    """Meshes and grids, rows of equal length, and graphs with hubs."""
    n, edge, rows = (10, 4, 5000) if options.quick else (100, 30, 500_000)
    made: dict[str, Callable[[], Any]] = {
        f"poisson3d_{n}": partial(gallery.poisson3d, n),
        f"poisson2d_{15 * n}": partial(gallery.poisson2d, 15 * n),
        f"elasticity3d_{edge}": partial(gallery.elasticity3d, edge),
        f"hexahedra_{2 * edge}": partial(_hexahedra, 2 * edge),
        f"uniform_{rows}": partial(gallery.uniform_random, rows, rows, 8),
        f"banded_{rows}": partial(gallery.banded_random, rows, 20, 400),
        f"powerlaw_{rows}": partial(gallery.powerlaw, rows, 8, exponent=2.2, max_length=min(2000, rows)),
        f"rmat_{rows.bit_length() - 2}": partial(gallery.rmat, rows.bit_length() - 2, 8, seed=1),
    }
    return [Item(name, "generated", make) for name, make in made.items()], {}


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    """Rows of one matrix: products and sums, of one library after the other."""
    A, case = problem.matrix, problem.size()
    op = sg.aslinearoperator(A, format="csr", device=run.device)
    own = partial(sg.aslinearoperator, format="csr")
    libraries: dict[str, tuple[Any, Callable[[Any], Any]]] = {"spmvgpu": (op, own)}
    if has_cupy(run):
        libraries["cupy"] = to_cupy(A), _complete
    libraries["scipy"] = A, lambda result: result
    for variant, operation in OPERATIONS.items():
        for library, (given, finish) in libraries.items():
            what = {"library": library, "variant": variant}
            if not run.fits(0, **case, **what):
                continue
            call = partial(_computed, operation, given, finish)
            result = call()
            entries = int(result.nnz)
            _check(what, operation, A, result)
            del result
            samples = wall_us(call, SECONDS, least=1, most=REPEATS)
            yield {**case, **what, "entries": entries, **Timing.of(samples).fields()}


def _complete(result: Any) -> Any:
    """A matrix of CuPy, when the GPU has computed it."""
    import cupy

    cupy.cuda.Device().synchronize()
    return result


def _computed(operation: Callable[[Any], Any], given: Any, finish: Callable[[Any], Any]) -> Any:
    return finish(operation(given))


def _check(what: Row, operation: Callable[[Any], Any], A: sp.csr_array, result: Any) -> None:
    x = np.random.default_rng(0).uniform(0.5, 1.0, A.shape[1]).astype(A.dtype)
    once = abs(A) @ x
    bound = abs(A) @ once if operation is OPERATIONS["product"] else 2 * once
    expected = A @ (A @ x) if operation is OPERATIONS["product"] else 2 * (A @ x)
    if what["library"] == "cupy":
        import cupy

        y = (result @ cupy.asarray(x)).get()
    else:
        y = result @ x
    error = float(np.max(np.abs(y - expected) / np.maximum(bound, np.finfo(A.dtype).tiny)))
    if not error < 1e3 * np.finfo(A.dtype).eps:
        raise SystemExit(f"{what}: an error of {error:.1e} beside the sum of absolute terms")


EXPERIMENTS = [
    Experiment(
        command="algebra",
        about="sparse times sparse, and sums, beside CuPy and SciPy",
        file="algebra",
        items=items,
        dtypes=("f64",),
        seconds=240,
        measure=measure,
    )
]
