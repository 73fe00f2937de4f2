"""Matrices that are made of parts: no product shows what they are made of."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, SQUARE, matrix, vector
from reference import assert_product
from spmvgpu.devices import CPU, resolve_device
from spmvgpu.formats import Choice
from spmvgpu.inputs.canonical import canonical_csr
from spmvgpu.operator.build import build
from spmvgpu.operator.description import Description, resolved
from spmvgpu.operator.operator import SparseOperator
from spmvgpu.planning import parts
from spmvgpu.planning.parts import Part
from support import assert_multiplies, assert_same_entries, each_type, explained, formats_of, naming, poisoned

SPECIAL = ["power_law_rows", "uniform", "empty_rows_every_other", "arrow"]


def operator(A, choice, device):
    """The operator of `A` made as `choice` says, whose formats must hold their parts."""
    csr = canonical_csr(A)
    return SparseOperator(build(csr, Description(device, resolved(device), choice=choice)))


def row_sets(A, kind):
    """Two sets that hold every row once."""
    rows = np.arange(A.shape[0], dtype=np.int32)
    if kind == "halves":
        return np.split(rows, [A.shape[0] // 2])
    if kind == "shuffled":
        return np.split(np.random.default_rng(3).permutation(rows), [A.shape[0] // 3])
    long = np.diff(A.indptr) > np.diff(A.indptr).mean() if A.shape[0] else rows > 0
    return rows[long], rows[~long]


def of_parts(rows, *formats):
    """A choice of one format per set of rows."""
    made = tuple(map(Part, rows, map(Choice, formats)))
    return Choice("partitioned", reason="a test wants it", parts=made)


def two_formats(A, first="csr", second="ellpack", kind="by_length"):
    """A choice of one format for some rows and another one for the others."""
    return of_parts(row_sets(A, kind), first, second)


def order(A):
    """Another order of the rows and columns of a square matrix."""
    return np.random.default_rng(4).permutation(A.shape[0])


def shuffled(A, fmt):
    """A choice that stores the rows and columns of a square matrix in another order."""
    return parts.reordered(Choice(fmt), order(A))


def shuffled_pairs(cases):
    """Every case with the formats that hold it in the other order."""
    matrices = {case: matrix(case, np.dtype("float64")) for case in cases}
    others = {case: canonical_csr(A[order(A)][:, order(A)]).host for case, A in matrices.items()}
    return [(case, fmt) for case, A in others.items() for fmt in formats_of(A)]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["halves", "shuffled", "by_length"])
@each_type
def test_rows_in_two_formats(case, kind, device, dtype):
    A = matrix(case, dtype)
    op = operator(A, two_formats(A, "csr", "coo", kind), device)
    assert (op.nnz, op.shape, op.dtype) == (A.nnz, A.shape, dtype)
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)


@pytest.mark.parametrize("case", SQUARE)
@each_type
def test_reordered(case, device, dtype):
    A = matrix(case, dtype)
    for _, fmt in shuffled_pairs([case]):
        with naming(fmt=fmt):
            check_reordered(A, fmt, device)


def check_reordered(A, fmt, device):
    op = operator(A, shuffled(A, fmt), device)
    assert op.format == fmt
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)


def test_parts_with_columns_of_their_own(device, dtype):
    """A block-diagonal matrix, its blocks taken apart and in another order; two parts share their columns."""
    A = canonical_csr(sp.block_diag([matrix("warp_lengths", dtype)] * 2)).host
    height, width = A.shape[0] // 2, A.shape[1] // 2
    backwards = np.arange(width, dtype=np.int32)[::-1].copy()
    halves = np.split(np.arange(height, dtype=np.int32), [height // 3])
    made = [Part(halves[1], Choice("sell"), backwards), Part(halves[0], Choice("coo"), backwards)]
    made.append(
        Part(np.arange(height, 2 * height, dtype=np.int32), Choice("csr"), np.arange(width, 2 * width))
    )
    op = operator(A, Choice("partitioned", parts=tuple(made)), device)
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)


@pytest.mark.parametrize("case", SPECIAL)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@each_type
def test_special_x_reaches_only_the_rows_that_use_it(case, special, device, dtype):
    A = matrix(case, dtype)
    x = vector(A.shape[1], dtype)
    x[[0, 17, -1]] = special
    for choice in (two_formats(A, "coo", "sell"), two_formats(A), shuffled(A, "csr")):
        op = operator(A, choice, device)
        assert_product(op.spmv(x, out=poisoned(A.shape[0], dtype)), A, x)


def test_bytes(device):
    """The parts, one copy of each map, and the space to gather x in."""
    A = matrix("uniform", np.dtype("float64"))
    whole = operator(A, Choice("csr"), device)
    op = operator(A, shuffled(A, "csr"), device)
    maps, gathered = 4 * A.shape[0], 8 * A.shape[1]
    more = op.nbytes - whole.nbytes
    assert maps + gathered <= more <= maps + 5 * gathered
    assert operator(A, two_formats(A, kind="halves"), device).nbytes > 0


def test_what_it_says(device):
    A = matrix("two_populations", np.dtype("float64"))
    op = operator(A, two_formats(A), device)
    assert [part["format"] for part in op.options["parts"]] == ["csr", "ellpack"]
    assert op.format == "partitioned"
    assert "a test wants it" in explained(op)
    assert set(op.arrays()) >= {"0.rows", "0.values", "1.col_indices"}
    assert op.time_products(10) > 0
    assert set(op.setup_seconds) == {"convert", "transfer"}
    assert operator(A, shuffled(A, "sell"), device).options["sigma"] > 0


def test_nothing_is_gathered_ahead(device):
    A = matrix("two_populations", np.dtype("float64"))
    with pytest.raises(TypeError, match="one part"):
        operator(A, two_formats(A, "csr_m", "csr"), device).set_x(np.ones(A.shape[1]))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[0, 1, 2], [4, 5]], "row 3 is in no set"),
        ([[0, 1, 2, 3], [3, 4, 5]], "row 3 is in several sets"),
        ([[0, 1, 2], [3, 4, 6]], "row 6 does not exist"),
        ([[0, 1, 2], [-1, 3, 4]], "row -1 does not exist"),
    ],
)
def test_rows_that_are_no_partition(rows, message, device, still_usable):
    choice = of_parts(rows, "csr", "csr")
    with pytest.raises(ValueError, match=re.escape(message)):
        parts.build(canonical_csr(np.eye(6)), choice, resolve_device(device))


def test_entries_outside_the_columns(device, still_usable):
    choice = Choice("csr", parts=(Part(np.arange(6), Choice("csr"), np.arange(5)),))
    with pytest.raises(ValueError, match=re.escape("entry (5, 5)")):
        parts.build(canonical_csr(np.eye(6)), choice, resolve_device(device))


def test_format_that_refuses_its_part(device, still_usable):
    A = matrix("uniform", np.dtype("float64"))
    choice = of_parts(row_sets(A, "halves"), "csr", "dia")
    with pytest.raises(sg.FormatError):
        parts.build(canonical_csr(A), choice, resolve_device(device))


def test_the_core_checks_what_would_corrupt_memory():
    half = canonical_csr(np.eye(3)).build("csr", {}, CPU)
    rows, cols = np.arange(3, dtype=np.int32), np.arange(3, dtype=np.int32)
    for given, message in [
        ([], "one at least"),
        ([(half, rows, cols)], "row 3 lies in no part"),
        ([(half, rows, cols), (half, rows + 2, cols)], "row 2 lies in two parts"),
        ([(half, rows, cols), (half, rows + 4, cols)], "beyond the 6"),
        ([(half, rows, cols), (half, rows + 3, cols + 1)], "beyond the 3"),
        ([(half, rows, cols), (half, rows[::-1][:2].copy(), cols)], "3 rows, but 2 indices"),
    ]:
        with pytest.raises(ValueError, match=message):
            sg._core.PartedMatrix(6, 3, given)
