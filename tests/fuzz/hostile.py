"""Hostile arguments: what comes out is a documented error, or an operator that is consistent."""

from __future__ import annotations

from typing import Any

import numpy as np

import spmvgpu as sg
from reference import assert_product
from spmvgpu import partition

from .cases import REFUSED, attempt, kind
from .draw import (
    CONTAINERS,
    NASTY,
    contained,
    format_choice,
    maybe,
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
    if not hasattr(matrix, "asformat") or matrix.format == "dok":
        return matrix, shape
    names = {"coo": ["data", "row", "col"], "dia": ["data", "offsets"], "lil": ["rows", "data"]}
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
