"""Good input: products and solutions against a reference in extended precision."""

from __future__ import annotations

import re
import resource
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import libraries
import spmvgpu as sg
from reference import assert_product
from support import poisoned

from .cases import REFUSED, attempt, kind
from .draw import (
    CONTAINERS,
    LAYOUTS,
    NUMBER_TYPES,
    VALUE_TYPES,
    Triplets,
    contained,
    format_choice,
    laid_out,
    maybe,
    numbers,
    pick,
    triplets,
)

_SYMMETRIC = ["tsmv"]
_FACTORS = [0.0, 1.0, -1.0, 0.5, -3.0, 1e-3]
# The types and layouts that every library has.
_COMMON_TYPES = ["?", "u1", "i4", "i8", "f4", "f8", "F", "D"]
_COMMON_LAYOUTS = ["C", "F", "strided", "reversed"]


@cache
def _library(name: str) -> libraries.HostLibrary:
    """What it takes itself, of PyTorch for GPUs some gigabytes, does not count among what a process may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
    before = _data_bytes()
    try:
        return libraries.HOST_LIBRARIES[name]()
    finally:
        if soft != resource.RLIM_INFINITY:
            soft += max(0, _data_bytes() - before)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """What RLIMIT_DATA limits, as Linux counts it."""
    found = re.search(r"VmData:\s*(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) << 10


def _operator(rng: np.random.Generator, device: str) -> tuple[Any, sp.csr_array] | None:
    """An operator of any kind, and the matrix that it should be; None where the format refuses it."""
    symmetric = maybe(rng, 0.3)
    entries = triplets(rng, symmetric, pick(rng, VALUE_TYPES))
    types = ["F", "D"] if entries.data.dtype.kind == "c" else ["f4", "f8", "F", "D"]
    given: dict[str, Any] = {"dtype": pick(rng, [None, *types]), "device": device}
    way = pick(rng, ["one", "one", "one", "reordered", "spread", "partitioned", "transposed", "default"])
    if way == "partitioned":
        given |= {"format": "partitioned", "separator": int(rng.integers(max(entries.shape[0], 1)))}
    elif way != "default":
        given |= format_choice(rng, [n for n in sg.formats() if symmetric or n not in _SYMMETRIC])
    if way == "reordered":
        given["reorder"] = pick(rng, ["rcm", "auto"]) if entries.shape[0] == entries.shape[1] else "auto"
    if way == "spread":
        count = pick(rng, [1, 2, 3])
        given |= {"device": [device] * count, "partition": pick(rng, ["nnz", "rows", "pmf"])}
        if maybe(rng, 0.5):
            given["powers"] = rng.integers(1, 9, count).tolist()
    whole, containers = entries, CONTAINERS
    if symmetric and maybe(rng, 0.3):
        side = pick(rng, ["lower", "upper"])
        kept = entries.row >= entries.col if side == "lower" else entries.row <= entries.col
        entries = Triplets(*(array[kept] for array in entries[:3]), entries.shape)
        given["symmetric"] = side
        containers = [name for name in CONTAINERS if name != "bsr"]  # whose blocks reach over the diagonal
    elif symmetric and maybe(rng, 0.3):
        given["symmetric"] = True
    matrix, shape = contained(rng, entries, pick(rng, containers))
    op = attempt(sg.aslinearoperator, matrix, errors=sg.FormatError, **shape, **given)
    if op is REFUSED:
        return None
    expected = whole.reference(op.dtype)
    if way == "transposed":
        return op.T, Triplets(whole.col, whole.row, whole.data, whole.shape[::-1]).reference(op.dtype)
    return op, expected


@kind(weight=24, batch=4000)
def products(rng: np.random.Generator, device: str) -> None:
    """Matrices x formats x operands of all libraries, types and layouts."""
    made = _operator(rng, device)
    if made is None:
        return
    op, A = made
    if maybe(rng, 0.3):
        _scaled(rng, op, A)
        return
    shape = (A.shape[1],) if maybe(rng, 0.5) else (A.shape[1], pick(rng, [0, 1, 2, 3, 7, 8, 9, 33]))
    there = [name for name in libraries.HOST_LIBRARIES if name not in libraries.MISSING]
    name = "numpy" if maybe(rng, 0.8) else pick(rng, there)
    dtype = pick(rng, NUMBER_TYPES if name == "numpy" else _COMMON_TYPES)
    x = numbers(rng, int(np.prod(shape)), dtype).reshape(shape)
    if x.size and x.dtype.kind == "f" and maybe(rng, 0.1):
        x.reshape(-1)[int(rng.integers(x.size))] = pick(rng, [np.inf, -np.inf, np.nan])
        A = op.tocsr()  # whether zeros are stored makes a difference now
    x = laid_out(x, pick(rng, LAYOUTS if name == "numpy" else _COMMON_LAYOUTS))
    library = _library(name)
    own = library.asarray(x)
    result = pick(rng, [lambda: op @ own, lambda: op.dot(own), lambda: _matmul(op, own)])()
    if name != "dlpack":
        assert isinstance(result, library.array_type)
    y = library.to_numpy(result)
    assert y.dtype == np.result_type(op.dtype, x.dtype.newbyteorder("="))
    if x.dtype.kind == "c" and op.dtype.kind != "c":
        assert_product(y.real, A, x.real.astype(op.dtype), dtype=op.dtype)
        assert_product(y.imag, A, x.imag.astype(op.dtype), dtype=op.dtype)
    else:
        assert_product(y, A, x.astype(op.dtype), dtype=op.dtype)


def _matmul(op: Any, x: Any) -> Any:
    """The way of SciPy's solvers, for arrays that have a shape."""
    if not hasattr(x, "shape"):
        return op @ x
    return op.matmat(x) if len(x.shape) == 2 else op.matvec(x)


def _scaled(rng: np.random.Generator, op: Any, A: sp.csr_array) -> None:
    """The product without an allocation, twice: the same bits."""
    factors = [*_FACTORS, 1j, 0.5 - 3j] if op.dtype.kind == "c" else _FACTORS
    alpha, beta = (op.dtype.type(pick(rng, factors)).item() for _ in range(2))
    x, start = numbers(rng, A.shape[1], op.dtype), numbers(rng, A.shape[0], op.dtype)
    if op.format == "csr_m" and maybe(rng, 0.5):
        attempt(op.set_x, x, errors=TypeError)  # which parts refuse
    results = []
    for _ in range(2):
        y = start.copy() if beta else poisoned(A.shape[0], op.dtype)
        assert op.spmv(x, out=y, alpha=alpha, beta=beta) is y
        results.append(y)
    assert_product(results[0], A, x, alpha, beta, start, dtype=op.dtype)
    np.testing.assert_array_equal(*results)
