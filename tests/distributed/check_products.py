"""Products of distributed operators against those of the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import cg

from battery import CASES, SYMMETRIC_CASES, vector
from ranks import (
    COMM,
    DIVISIONS,
    assert_multiplies,
    case,
    divided,
    each_division,
    operator,
    piece,
    whole_product,
)
from reference import assert_product
from spmvgpu import distributed, gallery

each_type = pytest.mark.parametrize("dtype", ["float32", "float64"])


# Not those that are about sizes of warps, blocks and tiles.
NAMES = [name for name in CASES if not name.startswith(("rows_", "entries_", "one_row_of_"))]


@pytest.mark.parametrize("name", NAMES)
def test_products(name):
    A, x = case(name)
    op = operator(A)
    assert op.shape == A.shape
    assert op.nnz == A.nnz
    assert_multiplies(op, A, x)
    assert_multiplies(op.T, sp.csr_array(A.T), vector(A.shape[0], A.dtype))


@each_division
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", ["power_law_rows", "tall", "wide", "no_entries"])
def test_divisions_and_types(name, division, dtype, side):
    A, x = case(name, dtype)
    op = operator(A, division, **side.options)
    u = vector(A.shape[0], A.dtype)
    assert op.dtype == dtype
    for _ in range(3):
        assert_multiplies(op, A, x, side)
        assert_multiplies(op.T, sp.csr_array(A.T), u, side)
        assert_multiplies(op.H, sp.csr_array(A.conj().T), u, side)
    if A.dtype.kind != "c":
        assert_multiplies(op, sp.csr_array(A.astype(complex)), x * (1 - 2j), side, dtype=dtype)


def test_rows_without_ranges():
    A, x = case("tall")
    rows = divided(A.shape[0], "uneven")
    op = distributed.aslinearoperator(piece(A, rows), COMM)
    np.testing.assert_array_equal(op.row_ranges.offsets, rows.offsets)
    np.testing.assert_array_equal(op.col_ranges.offsets, distributed.Ranges.even(COMM, A.shape[1]).offsets)
    assert_multiplies(op, A, x)


def test_square_matrix_divides_x_as_its_rows():
    A, _ = case("banded")
    rows = divided(A.shape[0], "uneven")
    op = distributed.aslinearoperator(piece(A, rows), COMM)
    assert op.row_ranges == op.col_ranges
    np.testing.assert_array_equal(op.diagonal(), piece(A.diagonal(), rows))


@pytest.mark.parametrize("columns", [0, 1, 5])
@pytest.mark.parametrize("transposed", [False, True])
def test_columns(columns, transposed, side):
    A, _ = case("two_populations")
    op = operator(A, **side.options)
    if transposed:
        A, op = sp.csr_array(A.T), op.T
    X = np.random.default_rng(3).standard_normal((A.shape[1], columns))
    for given in (X, np.asfortranarray(X)):
        assert_product(whole_product(op, given, side), A, X)
    assert op.matmat(side.send(piece(X, op.col_ranges))).shape == (op.local_shape[0], columns)


@pytest.mark.parametrize("transposed", [False, True])
@each_division
def test_scaled_product_into_an_array(division, transposed, side):
    A, _ = case("power_law_rows")
    op = operator(A, division, **side.options)
    if transposed:
        A, op = sp.csr_array(A.T), op.T
    x, y = vector(A.shape[1], A.dtype), vector(A.shape[0], A.dtype, seed=9)
    own, out = side.send(piece(x, op.col_ranges)), side.send(piece(y, op.row_ranges).copy())
    assert op.spmv(own, out=out, alpha=-1.5, beta=0.25) is out
    assert_product(op.row_ranges.gather(side.fetch(out), root=None), A, x, -1.5, 0.25, y)
    out = side.send(np.full(op.local_shape[0], np.nan))
    op.spmv(own, out=out)
    assert_product(op.row_ranges.gather(side.fetch(out), root=None), A, x)


def test_rmatvec_and_rmatmat():
    A, _ = case("tall")
    op = operator(A)
    X = np.random.default_rng(4).standard_normal((A.shape[0], 2))
    own = piece(X, op.row_ranges)
    assert_product(op.col_ranges.gather(op.rmatmat(own), root=None), sp.csr_array(A.T), X)
    np.testing.assert_array_equal(op.rmatvec(own[:, 0]), op.T @ own[:, 0].copy())
    assert op.T.T is op


@each_type
def test_same_bits_again(dtype):
    A, x = case("power_law_rows", dtype)
    first, again = operator(A), operator(A)
    for op in (first, again):
        np.testing.assert_array_equal(whole_product(op, x), whole_product(first, x))
        np.testing.assert_array_equal(whole_product(op.T, x), whole_product(first.T, x))


def test_infinite_entries_reach_only_the_rows_that_use_them():
    A, x = case("banded")
    x = x.copy()
    x[[0, 700, -1]] = np.inf
    assert_multiplies(operator(A), A, x)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@each_division
def test_complex(division, dtype):
    A, x = case("power_law_rows", dtype)
    op = operator(A, division)
    y = vector(A.shape[0], A.dtype, seed=9)
    assert_multiplies(op, A, x)
    assert_multiplies(op.T, sp.csr_array(A.T), y)
    assert_multiplies(op.H, sp.csr_array(A.conj().T), y)
    assert_multiplies(op.conj(), A.conj(), x)
    assert_multiplies(op.T.conj(), sp.csr_array(A.conj().T), y)
    for same in (op.T.T, op.H.H, op.conj().conj(), op.T.conj().H, op.H.T.conj()):
        assert same is op
    own = piece(y, op.row_ranges)
    np.testing.assert_array_equal(op.rmatvec(own), op.H @ own)
    real = whole_product(op, x.real.copy())
    assert real.dtype == A.dtype
    assert_product(real, A, x.real.astype(A.dtype))
    out = piece(y, op.row_ranges).copy()
    op.spmv(piece(x, op.col_ranges).copy(), out=out, alpha=2j, beta=1 - 1j)
    assert_product(op.row_ranges.gather(out, root=None), A, x, 2j, 1 - 1j, y)


@pytest.mark.parametrize("kind", ["symmetric", "hermitian"])
def test_complex_symmetric_and_hermitian(kind):
    B, x = case("sym_random", "complex128")
    A = sp.csr_array(B + (B.T if kind == "symmetric" else B.conj().T))
    op = operator(A, symmetric=True if kind == "symmetric" else "hermitian")
    for turned, whole in ((op.T, A.T), (op.H, A.conj().T), (op.conj(), A.conj())):
        assert_multiplies(turned, sp.csr_array(whole), x)
        np.testing.assert_array_equal(turned.diagonal(), piece(whole.diagonal(), op.row_ranges))
    same, other = (op.T, op.H) if kind == "symmetric" else (op.H, op.T)
    assert same is op
    assert other is op.conj()
    real = operator(sp.csr_array(A.real), symmetric="hermitian")
    assert real.T is real.H is real.conj() is real


def test_diagonals_of_complex_operators():
    A, _ = case("sym_random", "complex128")
    op = operator(A)
    for turned, whole in ((op, A), (op.T, A.T), (op.H, A.conj().T), (op.conj(), A.conj())):
        np.testing.assert_array_equal(turned.diagonal(), piece(whole.diagonal(), op.row_ranges))


@pytest.mark.parametrize("name", SYMMETRIC_CASES)
def test_symmetric(name):
    A, x = case(name)
    op = operator(A, symmetric=True)
    assert op.T is op
    assert_multiplies(op.T, A, x)


@pytest.mark.parametrize("fmt", ["coo", "csr", "dia", "ellpack_r", "sell", "hyb"])
def test_formats(fmt):
    A, x = case("tridiagonal")
    op = operator(A, format=fmt)
    assert op.format == fmt
    assert_multiplies(op, A, x)
    assert_multiplies(op.T, sp.csr_array(A.T), x)


def test_dtype_asked_for():
    A, x = case("uniform")
    op = operator(A, dtype=np.float32)
    assert op.dtype == np.float32
    assert_multiplies(op, A.astype(np.float32), x.astype(np.float32))


def test_ranks_without_rows_have_no_say_in_the_type():
    A, x = case("uniform", "float32")
    rows = divided(A.shape[0], "last_has_all")
    own = piece(A, rows) if len(rows) else sp.csr_array((0, A.shape[1]), dtype=np.float64)
    op = distributed.aslinearoperator(own, COMM)
    assert op.dtype == np.float32
    assert_multiplies(op, A, x)


def test_more_columns_than_int32_counts():
    """Every rank's two rows use the first and last entry of each piece of x; no other is ever read."""
    each = 1_500_000_000
    offsets = each * np.arange(COMM.size + 1)
    places = np.sort(np.concatenate([offsets[:-1], offsets[1:] - 1]))
    values = np.arange(1.0, 1.0 + len(places)) * (1 + COMM.rank)
    rows = (np.tile(values, 2), np.tile(places, 2), np.array([0, len(places), 2 * len(places)]))
    own = sp.csr_array(rows, shape=(2, offsets[-1])).astype(np.float32)
    op = distributed.aslinearoperator(own, COMM, col_ranges=offsets)
    assert op.shape == (2 * COMM.size, each * COMM.size)
    try:
        x = np.zeros(each, np.float32)  # of which the system makes those pages that are touched
    except MemoryError:
        x = None
    if COMM.allreduce(x is None):
        pytest.skip("the system wants memory for all of a vector at once")
    x[0], x[-1] = 2 * COMM.rank + 1, 2 * COMM.rank + 2
    everywhere = np.arange(1.0, 1.0 + len(places))
    np.testing.assert_array_equal(op @ x, np.full(2, everywhere @ values))
    np.testing.assert_array_equal(op.tocsr().indices, np.tile(places, 2))


def test_tocsr():
    for division in DIVISIONS:
        A, _ = case("power_law_rows")
        op = operator(A, division)
        own, expected = op.tocsr(), piece(A, op.row_ranges)
        assert own.shape == expected.shape
        np.testing.assert_array_equal(own.indptr, expected.indptr)
        np.testing.assert_array_equal(own.indices, expected.indices)
        np.testing.assert_array_equal(own.data, expected.data)


def test_explain_counts_what_is_sent():
    A = sp.csr_array(gallery.poisson2d(24))
    op = operator(A)
    offsets = op.row_ranges.offsets
    owner = np.searchsorted(offsets, np.arange(A.shape[0]), side="right") - 1
    coo = A.tocoo()
    foreign = owner[coo.row] != owner[coo.col]
    pairs = {(owner[i], j) for i, j in zip(coo.row[foreign], coo.col[foreign], strict=True)}
    messages = {(needs, owner[j]) for needs, j in pairs}
    text = op.explain()
    assert f"{len(messages):,d} messages with {8 * len(pairs):,d} bytes in total" in text
    assert ("none, there is one rank" in text) == (COMM.size == 1)
    assert f"over {COMM.size} ranks" in text


def test_whole_vectors_for_the_solvers_of_scipy():
    A = sp.csr_array(gallery.poisson2d(12))
    op = operator(A).replicated()
    b = np.linspace(1, 2, A.shape[0])
    np.testing.assert_allclose(op @ b, A @ b, rtol=0, atol=1e-13)
    np.testing.assert_allclose(op.T @ b, A @ b, rtol=0, atol=1e-13)
    np.testing.assert_allclose(op @ np.eye(A.shape[0]), A.toarray(), rtol=0, atol=1e-13)
    x, info = cg(op, b, rtol=1e-10)
    assert info == 0
    assert np.linalg.norm(b - A @ x) <= 1e-9 * np.linalg.norm(b)
