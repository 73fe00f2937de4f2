"""Hostile arguments: what comes out is a documented error, or an operator that is consistent."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import spmvgpu as sg
from reference import assert_product
from spmvgpu import linalg, partition

from .cases import REFUSED, attempt, kind
from .draw import (
    CONTAINERS,
    NASTY,
    NUMBER_TYPES,
    contained,
    format_choice,
    maybe,
    numbers,
    pick,
    spoiled,
    triplets,
)

_LARGEST_PRODUCT = 10**6  # of columns, or rows, that a vector is made for


def assert_consistent(op: Any) -> None:
    """An operator multiplies as the matrix that it says it is."""
    if max(op.shape) > _LARGEST_PRODUCT:
        return
    csr = op.tocsr()
    csr.check_format(full_check=True)
    assert csr.nnz == op.nnz
    x = np.linspace(-1, 2, op.shape[1]).astype(op.dtype)
    if np.isfinite(csr.data).all() and np.abs(csr.data).max(initial=0) < 1e30:
        assert_product(op @ x, csr, x)
    else:
        op @ x


@kind(weight=26)
def matrices(rng: np.random.Generator, device: str) -> None:
    """Sparse matrices of every container, with one or two of their arrays replaced."""
    container = pick(rng, CONTAINERS)
    matrix, shape = contained(rng, triplets(rng, symmetric=maybe(rng, 0.3)), container)
    for _ in range(1 + maybe(rng, 0.2)):
        matrix, shape = _broken(rng, matrix, shape)
    consumer = pick(rng, [sg.aslinearoperator, sg.estimate, _spread, _other])
    if consumer is sg.aslinearoperator:
        choice = format_choice(rng) if maybe(rng, 0.7) else {}
        extra = {"symmetric": pick(rng, [True, "lower", "upper"])} if maybe(rng, 0.2) else {}
        reorder = {"reorder": pick(rng, ["rcm", "auto"])} if maybe(rng, 0.2) else {}
        op = attempt(sg.aslinearoperator, matrix, device=device, **shape, **choice, **extra, **reorder)
        if op is not REFUSED:
            assert_consistent(op)
    elif consumer is sg.estimate:
        attempt(sg.estimate, matrix, device=device, **format_choice(rng))
    else:
        consumer(rng, device, matrix, shape)


def _spread(rng: np.random.Generator, device: str, matrix: Any, shape: dict[str, Any]) -> None:
    by = pick(rng, ["nnz", "rows", "pmf"])
    op = attempt(sg.aslinearoperator, matrix, device=[device, "cpu"], powers=[1, 2], partition=by, **shape)
    if op is not REFUSED:
        assert_consistent(op)


def _other(rng: np.random.Generator, device: str, matrix: Any, shape: dict[str, Any]) -> None:
    way = int(rng.integers(5))
    if way == 0:
        attempt(sg.predict, matrix, device)
    elif way == 1:
        attempt(sg.partition.separator, matrix, device)
    elif way == 2:
        attempt(partition.by_submatrices, matrix, [1, 2])
    elif way == 3:
        attempt(pick(rng, [partition.by_rows, partition.by_nnz, partition.by_pmf]), matrix, [1, 2])
    else:
        attempt(pick(rng, [partition.pmf, partition.row_lengths]), matrix)


def _broken(rng: np.random.Generator, matrix: Any, shape: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    if isinstance(matrix, tuple) and shape and matrix:
        if maybe(rng, 0.2):
            own = shape["shape"]
            is_shape = isinstance(own, tuple) and own and maybe(rng, 0.7)
            return matrix, {"shape": _shape(rng, own) if is_shape else pick(rng, NASTY)}
        place = int(rng.integers(len(matrix)))
        spoilt = spoiled(rng, matrix[place])
        return (*matrix[:place], spoilt, *matrix[place + 1 :]), shape
    if isinstance(matrix, np.ndarray):
        return spoiled(rng, matrix), shape
    if not hasattr(matrix, "asformat"):
        return matrix, shape
    names = {"coo": ["data", "row", "col"], "dia": ["data", "offsets"], "lil": ["rows", "data"], "dok": []}
    own = names.get(matrix.format, ["data", "indices", "indptr"])
    name = pick(rng, [*own, "shape"])
    if name == "shape":
        matrix._shape = _shape(rng, matrix.shape)
    elif matrix.format == "lil":
        lists = getattr(matrix, name)
        if len(lists):
            lists[int(rng.integers(len(lists)))] = pick(rng, [pick(rng, NASTY), [pick(rng, NASTY)], [0, 0]])
    elif name in ("row", "col"):
        spoilt = spoiled(rng, getattr(matrix, name))
        if hasattr(matrix, "coords"):  # newer versions of SciPy would convert what is given for `row`
            matrix.coords = (spoilt, matrix.coords[1]) if name == "row" else (matrix.coords[0], spoilt)
        else:
            setattr(matrix, name, spoilt)
    else:
        setattr(matrix, name, spoiled(rng, getattr(matrix, name)))
    if matrix.format == "dok" and maybe(rng, 0.7):
        key = pick(rng, [(0, -1), (2**32, 0), (np.nan, 0), ("a", 0), (0,), (10**6, 10**6), (1.5, 0), 3])
        matrix._dict[key] = pick(rng, [1.0, "x", None, 1j, [1]])
    return matrix, shape


def _shape(rng: np.random.Generator, shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """Another shape; one that would take gigabytes of row offsets is left to tests of their own."""
    rows, cols = shape[0], shape[-1]
    return pick(
        rng,
        [(rows + 1, cols), (rows, max(cols - 1, 0)), (max(rows - 1, 0), cols), (cols, rows), (0, 0),
         (rows, 2**31 - 1), (rows, 2**31), (2**31, cols), (2**40, 2**40), (-1, cols), (rows, -1), (rows,),
         (rows, cols, 1), (np.int64(rows), np.int64(cols)), (np.int8(-7), cols)],
    )  # fmt: skip


@kind(weight=16)
def operands(rng: np.random.Generator, device: str) -> None:
    """Hostile vectors and factors for the products and the solver of a good operator."""
    entries = triplets(rng, symmetric=maybe(rng, 0.5), dtype=pick(rng, ["f4", "f8"]))
    op = attempt(sg.aslinearoperator, entries.reference(entries.data.dtype), device=device,
                 errors=sg.FormatError, **format_choice(rng))  # fmt: skip
    if op is REFUSED:
        return
    rows, cols = op.shape
    way = pick(rng, ["@", "dot", "matvec", "matmat", "rmatvec", "rmatmat", "spmv", "spmv", "set_x", "cg",
                     "cg", "jacobi", "time_products"])  # fmt: skip
    length = rows if way.startswith("r") else cols
    x = _vector(rng, length)
    if way == "@":
        attempt(lambda: op @ x)
    elif way == "spmv":
        given = {name: pick(rng, NASTY) for name in ("alpha", "beta", "stream") if maybe(rng, 0.2)}
        x = numbers(rng, cols, op.dtype) if maybe(rng, 0.6) else x
        good = np.zeros(rows, op.dtype)
        attempt(op.spmv, x, pick(rng, [None, good, good, x, _vector(rng, rows)]), **given)
    elif way == "cg":
        b = np.ones(rows) if maybe(rng, 0.5) else _vector(rng, rows)
        given = {name: pick(rng, NASTY) for name in ("rtol", "atol", "callback") if maybe(rng, 0.2)}
        given |= {name: _vector(rng, rows) for name in ("x0", "M") if maybe(rng, 0.3)}
        if callable(given.get("callback")):
            given["callback"] = lambda xk: None  # what calling the others raises is their own
        if maybe(rng, 0.8):
            given["maxiter"] = 5
        else:  # as many as that may be done, and need not converge
            given |= {"maxiter": pick(rng, [*NASTY[:16], *NASTY[-9:]]), "callback": _stop_after(1000)}
        with contextlib.suppress(_EnoughError):
            attempt(linalg.cg, op, b, **given)
    elif way == "jacobi":
        attempt(linalg.jacobi, op)
    elif way == "time_products":
        attempt(op.time_products, pick(rng, [0, -1, 1, 3, None, "x", 1.5, np.int64(2), 2**70]))
    else:
        attempt(getattr(op, way), x)
    assert_consistent(op)


class _EnoughError(Exception):
    """A solve has gone on for long enough."""


def _stop_after(iterations: int) -> Callable[[Any], None]:
    """A callback that ends the solve then."""
    left = itertools.repeat(None, iterations)

    def callback(_: Any) -> None:
        if next(left, iterations) is not None:
            raise _EnoughError

    return callback


def _vector(rng: np.random.Generator, length: int) -> Any:
    """A vector or matrix of any type that may fit, or something in its place."""
    columns = [(), (), (1,), (3,), (0,), (2, 2)]
    shape = (max(length + pick(rng, [0, 0, 0, 1, -1]), 0), *pick(rng, columns))
    good = numbers(rng, int(np.prod(shape)), pick(rng, NUMBER_TYPES)).reshape(shape)
    return spoiled(rng, good) if maybe(rng, 0.7) else good
