"""Matrices that one rank has, or that each makes in part."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranks import COMM, assert_multiplies, case, divided, each_division
from spmvgpu import distributed
from spmvgpu.partition import Partition, by_nnz, by_pmf, by_rows

LAST = COMM.size - 1
each_root = pytest.mark.parametrize("root", sorted({0, LAST}))


def on_root(A, root):
    return A if COMM.rank == root else None


@each_root
@pytest.mark.parametrize("partition", ["nnz", "rows"])
@pytest.mark.parametrize(
    "name", ["banded", "power_law_rows", "tall", "wide", "0x5", "5x0", "no_entries", "1x1"]
)
def test_scatter(name, partition, root):
    A, x = case(name)
    op = distributed.scatter(on_root(A, root), COMM, partition, root=root)
    assert_multiplies(op, A, x)
    cut = by_nnz if partition == "nnz" else by_rows
    expected = [len(rows) for rows in cut(np.diff(A.indptr), [1] * COMM.size).sets]
    np.testing.assert_array_equal(np.diff(op.row_ranges.offsets), expected)


@each_division
def test_scatter_by_ranges(division):
    A, x = case("uniform", "float32")
    rows = divided(A.shape[0], division)
    for partition in (rows, rows.offsets.tolist()):
        op = distributed.scatter(on_root(A, 0), COMM, partition, symmetric=False)
        np.testing.assert_array_equal(op.row_ranges.offsets, rows.offsets)
        assert op.dtype == np.float32
        assert_multiplies(op, A, x)


def test_scatter_by_a_partition_with_neighbouring_rows():
    A, x = case("power_law_rows")
    partition = by_nnz(A, range(1, COMM.size + 1))
    op = distributed.scatter(on_root(A, 0), COMM, partition)
    np.testing.assert_array_equal(np.diff(op.row_ranges.offsets), partition.rows)
    assert_multiplies(op, A, x)


def test_scatter_takes_wide_indices_and_other_layouts():
    A, x = case("uniform")
    assert_multiplies(distributed.scatter(on_root(sp.coo_array(A), 0), COMM), A, x)
    wide = sp.csr_array((A.data, A.indices.astype(np.int64), A.indptr.astype(np.int64)), shape=A.shape)
    assert_multiplies(distributed.scatter(on_root(wide, 0), COMM, device="cpu", format="csr"), A, x)


@pytest.mark.skipif(COMM.size == 1, reason="one set has all rows")
def test_scatter_refuses_rows_that_are_no_neighbours():
    A, _ = case("power_law_rows")
    with pytest.raises(ValueError, match="the sets of the partition must be contiguous"):
        distributed.scatter(on_root(A, 0), COMM, by_pmf(A, [1] * COMM.size))


@pytest.mark.parametrize(
    ("A", "partition", "message"),
    [
        (None, "nnz", "A_local must be a SciPy sparse matrix"),
        (sp.csr_array((4, 4), dtype=np.longdouble), "nnz", "longdouble|float128"),
        (sp.csr_array((4, 4)), "metis", "'nnz', 'rows'"),
        (sp.csr_array((4, 4)), [0] * COMM.size + [5], "the ranges end at 5; they must end at 4"),
        (sp.csr_array((4, 4)), [0, 4, 4, 4, 4, 4], "whole numbers"),
        (
            sp.csr_array((4, 4)),
            Partition.from_sets([range(4)] + [[]] * COMM.size, [1] * 4),
            "sets of rows for",
        ),
        (sp.csr_array((4, 4)), by_rows([1] * 5, [1] * COMM.size), "4 rows"),
    ],
)
@each_root
def test_scatter_errors_are_raised_everywhere(A, partition, message, root):
    with pytest.raises((ValueError, TypeError), match=message):
        distributed.scatter(on_root(A, root), COMM, partition, root=root)


@pytest.mark.parametrize("root", [-1, COMM.size, 0.5])
def test_roots_that_are_none(root):
    with pytest.raises((ValueError, TypeError), match="root="):
        distributed.scatter(None, COMM, root=root)


@each_division
def test_assemble(division):
    A, x = case("tall")
    op = distributed.assemble(
        lambda begin, end: A[begin:end], COMM, A.shape, row_ranges=divided(A.shape[0], division)
    )
    assert_multiplies(op, A, x)


def test_assemble_square():
    A, x = case("banded")
    calls = []

    def rows(begin, end):
        calls.append((begin, end))
        return A[begin:end]

    op = distributed.assemble(rows, COMM, A.shape[0], format="dia", dtype="float32")
    assert calls == [(op.row_ranges.begin, op.row_ranges.end)]
    assert_multiplies(op, A.astype(np.float32), x.astype(np.float32))


def test_assemble_raises_everywhere_what_one_function_raises():
    def rows(begin, end):
        if COMM.rank == LAST:
            raise OverflowError("mesh has no more elements")
        return sp.csr_array((end - begin, 10))

    with pytest.raises(RuntimeError if COMM.size > 1 else OverflowError, match="mesh has no more elements"):
        distributed.assemble(rows, COMM, 10)


@pytest.mark.parametrize(
    ("function", "shape", "message"),
    [
        (None, 10, "give a function"),
        (lambda begin, end: sp.csr_array((end - begin, 9)), 10, "must return a sparse matrix of shape"),
        (lambda begin, end: None, 10, "not a NoneType"),
        (lambda begin, end: sp.csr_array((end - begin, 10)), (-1, 10), "rows=-1"),
        (lambda begin, end: sp.csr_array((end - begin, 10)), 2.5, "rows=2.5"),
    ],
)
def test_assemble_errors(function, shape, message):
    with pytest.raises((ValueError, TypeError), match=message):
        distributed.assemble(function, COMM, shape)


def test_assemble_with_ranges_of_other_rows():
    with pytest.raises(ValueError, match="row_ranges end at 11; they must end at 10"):
        distributed.assemble(lambda begin, end: None, COMM, 10, row_ranges=divided(11))
