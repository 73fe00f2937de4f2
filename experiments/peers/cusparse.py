"""NVIDIA cuSPARSE: algorithms of ``cusparseSpMVOp``, and of ``cusparseSpMV`` for CSR, COO, SELL and BSR."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_void_p
from functools import partial
from typing import Any

from .base import Job, Variant, device_result
from .cusparse_api import (
    ALGORITHMS,
    BASE_ZERO,
    INDEX_32I,
    OPERATION_ALGORITHMS,
    ORDER_ROW,
    VALUE_TYPES,
    Operation,
    Product,
    load,
)
from .layouts import SLICE_ROWS, block_csr, dense_block_size, row_of_entry, sliced_ell
from .problem import Problem

NAME = "cusparse"
DEVICES = ("cuda",)


def available() -> str | None:
    """None, or the reason why this peer cannot run."""
    try:
        load()
    except Exception as error:  # a missing library, a missing driver, an old CuPy: all mean the same here
        return f"{type(error).__name__}: {error}"
    return None


def versions() -> dict[str, str]:
    return {"cusparse": load().version}


def prepare(problem: Problem) -> list[Job]:
    """All algorithms; the ones that users pick most come first."""
    csr = [
        Job("csr_alg1", partial(_csr, problem, "csr_alg1", False)),
        Job("csr_alg1_preprocess", partial(_csr, problem, "csr_alg1", True)),
        Job("csr_alg2", partial(_csr, problem, "csr_alg2", False)),
        Job("csr_alg2_preprocess", partial(_csr, problem, "csr_alg2", True)),
    ]
    coo = [Job(name, partial(_coo, problem, name)) for name in ("coo_alg1", "coo_alg2")]
    operations = [Job(name, partial(_operation, problem, name)) for name in OPERATION_ALGORITHMS]
    others = [Job("sell", partial(_sell, problem)), *coo, Job("bsr", partial(_bsr, problem))]
    return [*csr, *(operations if load().has("cusparseSpMVOp") else []), *others]


def _csr(problem: Problem, algorithm: str, preprocess: bool) -> Variant:
    descriptor, parts = _csr_matrix(problem)
    name = f"{algorithm}_preprocess" if preprocess else algorithm
    return _variant(problem, name, descriptor, parts, ALGORITHMS[algorithm], preprocess)


def _operation(problem: Problem, name: str) -> Variant:
    descriptor, parts = _csr_matrix(problem)
    y = _result_of(problem)
    launch = Operation(descriptor, parts, problem.on_device.x, y, OPERATION_ALGORITHMS[name])
    return _measured(name, parts, y, launch)


def _csr_matrix(problem: Problem) -> tuple[c_void_p, tuple[Any, ...]]:
    arrays = problem.on_device
    parts = (arrays.indptr, arrays.indices, arrays.data)
    sizes = (*problem.matrix.shape, problem.matrix.nnz)
    tail = (INDEX_32I, INDEX_32I, BASE_ZERO, VALUE_TYPES[problem.dtype])
    return _create("cusparseCreateCsr", sizes, parts, tail), parts


def _coo(problem: Problem, algorithm: str) -> Variant:
    import cupy

    arrays = problem.on_device
    rows = row_of_entry(cupy, arrays.indptr, 0, problem.matrix.nnz).astype(cupy.int32)
    parts = (rows, arrays.indices, arrays.data)
    sizes = (*problem.matrix.shape, problem.matrix.nnz)
    descriptor = _create(
        "cusparseCreateCoo", sizes, parts, (INDEX_32I, BASE_ZERO, VALUE_TYPES[problem.dtype])
    )
    return _variant(problem, algorithm, descriptor, parts, ALGORITHMS[algorithm])


def _sell(problem: Problem) -> Variant:
    import cupy

    arrays = problem.on_device
    parts = sliced_ell(cupy, arrays.indptr, arrays.indices, arrays.data)
    slots = int(parts[2].size)
    sizes = (*problem.matrix.shape, problem.matrix.nnz, slots, SLICE_ROWS)
    tail = (INDEX_32I, INDEX_32I, BASE_ZERO, VALUE_TYPES[problem.dtype])
    descriptor = _create("cusparseCreateSlicedEll", sizes, parts, tail)
    variant = _variant(problem, "sell", descriptor, parts, ALGORITHMS["sell"])
    variant.options["padding"] = round(slots / max(problem.matrix.nnz, 1), 3)
    return variant


def _bsr(problem: Problem) -> Variant:
    import cupy

    arrays = problem.on_device
    rows, cols = problem.matrix.shape
    side = dense_block_size(cupy, arrays.indptr, arrays.indices, (rows, cols))
    parts = block_csr(cupy, arrays.indptr, arrays.indices, arrays.data, cols, side)
    sizes = (rows // side, cols // side, int(parts[1].size), side, side)
    tail = (INDEX_32I, INDEX_32I, BASE_ZERO, VALUE_TYPES[problem.dtype], ORDER_ROW)
    descriptor = _create("cusparseCreateBsr", sizes, parts, tail)
    return _variant(problem, f"bsr_{side}x{side}", descriptor, parts, ALGORITHMS["bsr"])


def _create(function: str, sizes: tuple[int, ...], parts: tuple[Any, ...], tail: tuple[int, ...]) -> c_void_p:
    descriptor = c_void_p()
    load().call(function, byref(descriptor), *sizes, *(part.data.ptr for part in parts), *tail)
    return descriptor


def _variant(
    problem: Problem,
    name: str,
    descriptor: c_void_p,
    parts: tuple[Any, ...],
    algorithm: int,
    preprocess: bool = False,
) -> Variant:
    y = _result_of(problem)
    launch = Product(descriptor, parts, problem.on_device.x, y, algorithm, preprocess)
    return _measured(name, parts, y, launch)


def _result_of(problem: Problem) -> Any:
    import cupy

    return cupy.empty(problem.matrix.shape[0], dtype=problem.dtype)


def _measured(name: str, parts: tuple[Any, ...], y: Any, launch: Callable[[int], object]) -> Variant:
    nbytes = sum(int(part.nbytes) for part in parts)
    return Variant(NAME, name, nbytes, device_result(launch, y), launch=launch)
