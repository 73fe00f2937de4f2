"""The format sdia: the diagonals of a symmetric matrix from the main one on."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import COMPLEX_TYPES, TYPES, matrix, vector
from spmvgpu import gallery
from support import assert_multiplies, assert_same_entries, build, each_type


def with_diagonals(n, offsets, dtype, hermitian=False):
    """Random values on the diagonals and their mirror images, a hole in each."""
    rng = np.random.default_rng(5)
    upper = sp.lil_array((n, n), dtype=dtype)
    for offset in offsets:
        values = rng.uniform(1, 2, n - offset).astype(dtype)
        if np.dtype(dtype).kind == "c" and (offset > 0 or not hermitian):
            values = values + 1j * rng.uniform(1, 2, n - offset).astype(dtype)
        upper.setdiag(values, offset)
        if 2 * offset < n:
            upper[n // 3, n // 3 + offset] = 0
    upper = sp.csr_array(upper)
    mirror = sp.triu(upper, 1).T
    return sp.csr_array(upper + (mirror.conj() if hermitian else mirror)).astype(dtype)


@pytest.mark.parametrize("offsets", [(0, 1, 40), (1, 3), (0,), (0, 1, 2, 3, 4, 5, 6, 7, 8, 599)], ids=str)
@pytest.mark.parametrize("dtype", TYPES + COMPLEX_TYPES, ids=str)
def test_the_same_bits_as_dia(offsets, dtype, device):
    """Rows are added up in the order of their columns; with many diagonals, not on a GPU."""
    A = with_diagonals(600, offsets, dtype)
    x = vector(600, dtype)
    y = build(A, "sdia", device, max_padding=1e6) @ x
    whole = build(A, "dia", device, max_padding=1e6) @ x
    # A complex product may be rounded in other places by another kernel.
    if device == "cpu" or (dtype in TYPES and len(offsets) <= 4):
        np.testing.assert_array_equal(y, whole)
    np.testing.assert_allclose(y, whole, rtol=1e-5, atol=1e-5 * abs(whole).max())
    assert abs(y - A @ x).max() <= 1e-5 * abs(y).max()


@pytest.mark.parametrize("dtype", COMPLEX_TYPES, ids=str)
def test_hermitian(dtype, device):
    A = with_diagonals(500, (0, 1, 30), dtype, hermitian=True)
    op = build(A, "sdia", device)
    assert op.options["symmetry"] == "hermitian"
    x = vector(500, dtype)
    np.testing.assert_allclose(op @ x, A @ x, rtol=1e-5 if dtype == np.complex64 else 1e-13)
    assert abs(op.tocsr() - A).max() == 0


@each_type
def test_stored_zeros_and_infinite_vectors(dtype, device):
    """A stored zero multiplies, on both sides of the diagonal, and padding does neither."""
    A = sp.csr_array(gallery.poisson2d(8)).astype(dtype)
    A[3, 4], A[4, 3] = 0.0, 0.0
    assert A.nnz == gallery.poisson2d(8).nnz
    x = np.ones(64, dtype)
    x[3] = np.inf
    with np.errstate(invalid="ignore"):
        expected = A @ x
    np.testing.assert_array_equal(build(A, "sdia", device) @ x, expected)
    assert np.isnan(expected[4])


def test_half_the_bytes():
    A = gallery.poisson3d(20)
    half, whole = (sg.estimate(A, name) for name in ("sdia", "dia"))
    assert half["bytes"] == pytest.approx(4 / 7 * whole["bytes"], rel=1e-3)


def test_what_is_not_symmetric_is_refused():
    A = sp.csr_array(gallery.poisson2d(8)).copy()
    A.data[1] += 1
    with pytest.raises(sg.FormatError, match=r"sdia.*symmetric"):
        build(A, "sdia")
    with pytest.raises(sg.FormatError, match="sdia"):
        build(matrix("uniform", np.dtype("float64")), "sdia")


# Rows of a symmetric matrix, as a device has them that is one of several


PARTS = [(0, 200), (200, 401), (401, 600)]


def part_of(A, begin, end):
    """Some rows, with the columns that they reach."""
    rows = A[begin:end]
    return sp.csr_array(rows[:, rows.indices.min() : rows.indices.max() + 1])


def place_of(A, row, col):
    """Of an entry in the data of a matrix."""
    return A.indptr[row] + np.flatnonzero(A.indices[A.indptr[row] : A.indptr[row + 1]] == col)[0]


@pytest.mark.parametrize("rows", PARTS)
@pytest.mark.parametrize("symmetry", ["symmetric", "hermitian"])
@pytest.mark.parametrize("dtype", TYPES + COMPLEX_TYPES)
def test_rows_of_a_symmetric_matrix(rows, symmetry, dtype, device):
    """Their products, transposes and new values."""
    A = part_of(with_diagonals(600, (0, 1, 3, 40), dtype, symmetry == "hermitian"), *rows)
    op = build(A, "sdia", device, symmetry=symmetry)
    assert op.arrays()["offsets"].tolist() == [0, 1, 3, 40]
    assert_multiplies(op, A)
    assert_multiplies(op.T, sp.csr_array(A.T))
    assert_multiplies(op.H, sp.csr_array(A.conj().T))
    assert op.T.T is op
    assert_same_entries(op.tocsr(), A)
    A.data *= -3
    A.data[A.data.real < -7] = 0.0
    op.update_values(A.data)
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)
    before = op.tocsr()
    A.data[place_of(A, 50, 53 + (40 if rows[0] > 0 else 0))] += 1  # its mirror image is in another row
    with pytest.raises(sg.FormatError, match=r"symmetric|Hermitian"):
        op.update_values(A.data)
    assert_same_entries(op.tocsr(), before)


def test_rows_that_are_not_of_a_symmetric_matrix():
    whole = with_diagonals(600, (0, 1, 40), np.float64)
    A = part_of(whole, 200, 400)
    A.data[place_of(A, 50, 91)] += 1
    with pytest.raises(sg.FormatError, match=r"sdia.*symmetric matrix: entry \(50, 51\) is"):
        build(A, "sdia")
    for other in (A[:, :-41], sp.csr_array((3, 5)), np.ones((2, 7)), matrix("tall", np.dtype("float64"))):
        with pytest.raises(sg.FormatError, match=r"sdia.*square"):
            build(sp.csr_array(other), "sdia")


def test_halves_of_a_grid_are_half_stored():
    A = gallery.poisson3d(24)
    half, whole = (sg.aslinearoperator(A, format=name, device=["cpu", "cpu"]) for name in ("sdia", "dia"))
    assert half.nbytes < 0.65 * whole.nbytes
    x = vector(A.shape[1], A.dtype)
    np.testing.assert_array_equal(half @ x, whole @ x)
