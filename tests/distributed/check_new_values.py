"""New values of distributed operators."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from battery import vector
from ranks import COMM, assert_multiplies, case, each_division, operator, piece
from spmvgpu import FormatError, gallery, linalg


def of_rank(A, op):
    return piece(A, op.row_ranges)


@each_division
@pytest.mark.parametrize("given", [sp.csr_array, sp.csc_array, sp.csr_array.toarray, "array"])
@pytest.mark.parametrize(("name", "dtype"), [("power_law_rows", "float64"), ("tall", "complex64")])
def test_new_values(name, dtype, given, division):
    A, x = case(name, dtype)
    op = operator(A, division)
    of_old, B = op.T, 3 * A
    assert_multiplies(of_old, sp.csr_array(A.T), vector(A.shape[0], A.dtype))
    rows = of_rank(B, op)
    op.update_values(rows.data if given == "array" else given(rows))
    assert_multiplies(op, B, x)
    y = vector(A.shape[0], A.dtype)
    assert_multiplies(op.H, sp.csr_array(B.conj().T), y)
    assert_multiplies(of_old, sp.csr_array(A.T), y)  # keeps what it had
    assert_multiplies(of_old.T, A, x)
    np.testing.assert_array_equal(op.tocsr().toarray(), rows.toarray())


def test_missing_entries_become_zero():
    A, x = case("power_law_rows")
    op = operator(A)
    B = sp.csr_array(sp.tril(A))
    op.update_values(of_rank(B, op))
    assert_multiplies(op, B, x)
    assert op.nnz == A.nnz


def test_a_variant_that_nothing_asked_for_has_the_old_values():
    A, x = case("power_law_rows", "complex128")
    op = operator(A)
    old = op.T, op.conj()
    op.update_values(2 * op.tocsr())
    assert_multiplies(old[0], sp.csr_array(A.T), vector(A.shape[0], A.dtype))
    assert_multiplies(old[1], A.conj(), x)


def test_solvers_take_the_new_values():
    A = gallery.poisson2d(30)
    op = operator(A)
    b = np.ones(op.local_shape[0])
    for factor in (1.0, 2.0, 5.0):
        op.update_values(factor * of_rank(A, op))
        x, info = linalg.cg(op, b, rtol=1e-10)
        assert info == 0
        np.testing.assert_allclose(op @ x, b, atol=1e-8)


def beyond(A, op):
    """Rows of which the last of all has an entry more."""
    rows = of_rank(A, op).tolil()
    if op.row_ranges.begin < A.shape[0] == op.row_ranges.end:
        rows[-1, 0] = 1.0
    return rows.tocsr()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (beyond, ValueError, "column 0|(.*, 0)"),
        (lambda A, op: of_rank(A, op)[:, 1:], ValueError, "shape"),
        (lambda A, op: of_rank(A, op).data[1:], ValueError, "shape"),
        (lambda A, op: of_rank(A, op).data * 1j, TypeError, "complex128"),
        (lambda A, op: "values", TypeError, "data"),
    ],
)
def test_all_ranks_keep_the_old_values(change, error, message):
    A = gallery.poisson2d(12)
    op = operator(A)
    with pytest.raises(error, match=message):
        op.update_values(change(A, op))
    assert_multiplies(op, A, vector(A.shape[1], A.dtype))
    op.update_values(2 * of_rank(A, op))
    assert_multiplies(op, 2 * A, vector(A.shape[1], A.dtype))


def test_a_format_that_does_not_hold_the_values():
    A = gallery.poisson2d(12)
    op = operator(A, format="tsmv", symmetric=True)
    rows = of_rank(A, op)
    if COMM.rank == 0:
        rows.data[0] += 1  # on the diagonal, which is fine
        rows.data[1] += 1  # beside it, which is not
    with pytest.raises(FormatError):
        op.update_values(rows)
    assert_multiplies(op, A, vector(A.shape[1], A.dtype))


@each_division
@pytest.mark.parametrize("make", [linalg.jacobi, linalg.amg])
def test_preconditioners_of_the_whole_matrix(make, division):
    A = gallery.poisson2d(20)
    scaling = sp.diags_array(np.linspace(1, 2, 400))
    op, B = operator(A, division), sp.csr_array(scaling @ A @ scaling)
    x, rows = piece(vector(400, A.dtype), op.row_ranges), of_rank(B, op)
    M, changed = make(op), make(operator(B, division))
    old = M @ x
    op.update_values(rows)
    np.testing.assert_array_equal(M @ x, old)
    broken = rows.copy()
    if op.row_ranges.begin < 400 == op.row_ranges.end:
        broken.data[-1] = -1.0  # the last entry of the diagonal
    for data, error, message in [
        (broken, np.linalg.LinAlgError, "positive"),
        (beyond(B, op), ValueError, "column 0|(.*, 0)"),
        ("values", TypeError, "data"),
    ]:
        with pytest.raises(error, match=message):
            M.update_values(data)
        np.testing.assert_array_equal(M @ x, old)
    for data in (rows.data, sp.csc_array(rows)):
        M.update_values(data)
        np.testing.assert_allclose(M @ x, changed @ x, rtol=1e-12)


def test_variants_take_none():
    op = operator(gallery.poisson2d(12) + sp.eye_array(144, k=1))
    with pytest.raises(TypeError, match="transpose"):
        op.T.update_values(op.tocsr())
    with pytest.raises(TypeError, match="transpose"):
        linalg.jacobi(op.T).update_values(op.tocsr())
