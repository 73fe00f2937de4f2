"""A matrix that is stored in another order of rows and columns multiplies as if it were not."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import banded, uniform, values, vector
from reference import assert_product
from spmvgpu.planning.reordering import order_for
from support import build, formats_of


def shuffled(A, seed=6):
    """The symmetric matrix with its unknowns numbered at random."""
    order = np.random.default_rng(seed).permutation(A.shape[0])
    return sp.csr_array(sp.csr_array(A)[order][:, order]).sorted_indices()


def symmetric_banded(n):
    return banded(n, [-40, -3, -1, 0, 1, 3, 40])


def bandwidth(A):
    A = sp.coo_array(A)
    return int(np.abs(A.row - A.col).max())


@pytest.fixture(name="A")
def numbered_at_random(dtype):
    return numbered(dtype)


def numbered(dtype):
    B = shuffled(symmetric_banded(900)).astype(dtype)
    lower = sp.tril(B)
    lower.data = values(np.random.default_rng(3), lower.nnz).astype(dtype)
    return sp.csr_array(lower + sp.tril(lower, -1).T)


def formats_in_order(A):
    """The formats that hold a matrix in the order that is chosen for it."""
    order = order_for(A, "rcm")
    return formats_of(sp.csr_array(A[order][:, order]))


UNSYMMETRIC = uniform(400, 400, 3, seed=4)
each_format_in_order = pytest.mark.parametrize("fmt", formats_in_order(numbered(np.dtype("float64"))))


@each_format_in_order
def test_products_are_those_of_the_matrix_as_given(A, fmt, device):
    op = build(A, fmt, device, reorder="rcm")
    x = vector(A.shape[1], A.dtype)
    assert op.format == fmt
    assert_product(op @ x, A, x)
    assert_product(op.rmatvec(x), sp.csr_array(A.T), x)
    y = vector(A.shape[0], A.dtype, seed=8)
    assert_product(op.spmv(x, out=y.copy(), alpha=2, beta=-0.5), A, x, 2, -0.5, y)


@each_format_in_order
def test_the_matrix_comes_back_as_given(A, fmt, device):
    op = build(A, fmt, device, reorder="rcm")
    for same in (op, pickle.loads(pickle.dumps(op)), op.T.T):
        back = same.tocsr()
        np.testing.assert_array_equal(back.indptr, A.indptr)
        np.testing.assert_array_equal(back.indices, A.indices)
        np.testing.assert_array_equal(back.data, A.data)


@each_format_in_order
def test_infinities_stay_in_their_rows(A, fmt, device):
    op = build(A, fmt, device, reorder="rcm")
    x = vector(A.shape[1], A.dtype)
    x[17] = np.inf
    touched = np.zeros(A.shape[0], bool)
    touched[A.indices[A.indptr[17] : A.indptr[18]]] = True  # the pattern is symmetric
    np.testing.assert_array_equal(np.isfinite(op @ x), ~touched)


def test_solver_on_a_reordered_operator(A, device):
    B = sp.csr_array(A.astype(np.float64) + sp.diags_array(np.full(A.shape[0], 8.0)))
    b = vector(B.shape[0], B.dtype)
    x, info = sg.linalg.cg(sg.aslinearoperator(B, device=device, reorder="rcm"), b, rtol=1e-10)
    assert info == 0
    assert np.linalg.norm(B @ x - b) <= 1e-9 * np.linalg.norm(b)


@pytest.mark.parametrize("fmt", formats_in_order(UNSYMMETRIC))
def test_unsymmetric_patterns_are_ordered_by_the_sum_with_their_transpose(fmt, device):
    A = UNSYMMETRIC
    op = build(A, fmt, device, reorder="rcm")
    x = vector(400, A.dtype)
    assert_product(op @ x, A, x)


def test_explain_says_that_the_order_is_another():
    op = sg.aslinearoperator(shuffled(symmetric_banded(300)), device="cpu", reorder="rcm")
    assert "another order" in op.explain()


# Choosing the order


def test_rcm_narrows_the_band():
    A = shuffled(symmetric_banded(2000))
    order = order_for(A, "rcm")
    assert bandwidth(A[order][:, order]) < bandwidth(A) / 10
    np.testing.assert_array_equal(np.sort(order), np.arange(2000))


def test_auto_orders_what_is_far_from_the_diagonal():
    A = shuffled(banded(30_000, [-2, -1, 0, 1, 2]))
    assert order_for(A, "auto") is not None


@pytest.mark.parametrize(
    "A",
    [
        pytest.param(banded(30_000, [-2, -1, 0, 1, 2]), id="narrow already"),
        pytest.param(shuffled(symmetric_banded(900)), id="small"),
        pytest.param(uniform(20_000, 20_000, 8), id="no order helps"),
        pytest.param(uniform(300, 500, 4), id="rectangular"),
        pytest.param(sp.csr_array((50, 50)), id="empty"),
    ],
)
def test_auto_leaves_alone(A):
    assert order_for(sp.csr_array(A), "auto") is None


def test_none_is_the_default():
    assert order_for(shuffled(symmetric_banded(300)), None) is None


def test_a_rectangular_matrix_has_no_symmetric_order():
    with pytest.raises(ValueError, match="300 x 500"):
        sg.aslinearoperator(uniform(300, 500, 4), device="cpu", reorder="rcm")


def test_an_unknown_order_is_named():
    with pytest.raises(ValueError, match=r"'amd'.*'rcm'"):
        sg.aslinearoperator(banded(10, [0]), device="cpu", reorder="amd")


def test_several_devices_take_a_matrix_as_it_is():
    with pytest.raises(ValueError, match="one device"):
        sg.aslinearoperator(banded(10, [0]), device=["cpu", "cpu"], reorder="rcm")
