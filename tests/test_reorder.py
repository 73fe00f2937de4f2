"""A matrix that is stored in another order of rows and columns multiplies as if it were not."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import banded, uniform, values, vector
from reference import assert_product
from spmvgpu.gallery import meshes
from support import assert_same_entries, build, formats_of


def shuffled(A, seed=6):
    """The symmetric matrix with its unknowns numbered at random."""
    return in_order(A, np.random.default_rng(seed).permutation(A.shape[0]))


def symmetric_banded(n):
    return banded(n, [-40, -3, -1, 0, 1, 3, 40])


def order_of(op):
    """The order of the rows in which an operator stores its matrix; None where it is that of the matrix."""
    return op.arrays().get("0.rows")


def order_for(A, reorder, device="cpu"):
    return order_of(sg.aslinearoperator(A, "csr", device, reorder=reorder))


def in_order(A, order):
    return sp.csr_array(sp.csr_array(A)[order][:, order]).sorted_indices()


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
    return formats_of(in_order(A, order_for(A, "rcm")))


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


@pytest.mark.parametrize("fmt", formats_in_order(UNSYMMETRIC))
def test_unsymmetric_patterns_are_ordered_by_the_sum_with_their_transpose(fmt, device):
    A = UNSYMMETRIC
    op = build(A, fmt, device, reorder="rcm")
    x = vector(400, A.dtype)
    assert_product(op @ x, A, x)


def test_explain_says_that_the_order_is_another():
    op = sg.aslinearoperator(shuffled(symmetric_banded(300)), device="cpu", reorder="rcm")
    assert "reordered" in op.explain()


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


def test_a_rectangular_matrix_has_no_symmetric_order():
    with pytest.raises(ValueError, match="300 x 500"):
        sg.aslinearoperator(uniform(300, 500, 4), device="cpu", reorder="rcm")


def test_several_devices_take_a_matrix_as_it_is():
    for reorder in ("rcm", "clusters", "columns"):
        with pytest.raises(ValueError, match=f"'{reorder}'.*one device"):
            sg.aslinearoperator(banded(10, [0]), device=["cpu", "cpu"], reorder=reorder)


# Orders by clusters


def unordered_mesh(*nodes, dtype=np.float64):
    """Tetrahedra whose nodes are numbered at random."""
    pattern = meshes.coupled(meshes.tetrahedra(meshes.cells(nodes)), int(np.prod(nodes)))
    return meshes.symmetric_values(meshes.shuffled(pattern, 1)).astype(dtype)


def distinct_in_rows(A, count):
    """Different columns per entry in groups of so many neighbouring rows."""
    starts = range(0, A.shape[0], count)
    groups = [A.indices[A.indptr[i] : A.indptr[min(i + count, A.shape[0])]] for i in starts]
    return sum(np.unique(group).size for group in groups) / A.nnz


MESH = unordered_mesh(12, 13, 14)
# Matrices of all kinds of patterns: an order is one, whatever it is good for.
PATTERNS = {
    "mesh": MESH,
    "unsymmetric": UNSYMMETRIC,
    "isolated": sp.csr_array(sp.diags_array(np.arange(1.0, 200.0))),
    "no entries": sp.csr_array((70, 70)),
    "empty rows": sp.csr_array(sp.block_diag([banded(300, [-1, 0, 1]), sp.csr_array((40, 40))])),
    "a long row": sp.csr_array(np.vstack([np.ones(300), np.eye(300)[1:]])),
    "one": sp.csr_array([[2.0]]),
    "two grids": sp.csr_array(sp.block_diag([symmetric_banded(500)] * 2)),
}


@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_clusters_are_a_permutation_and_the_matrix_is_in_it(pattern, device):
    A = PATTERNS[pattern]
    op = sg.aslinearoperator(A, "csr", device, reorder="clusters")
    order, stored = order_of(op), op.arrays()
    assert (order is None) == (A.nnz == 0)
    if order is None:
        return
    np.testing.assert_array_equal(np.sort(order), np.arange(A.shape[0]))
    names = ("values", "col_indices", "row_offsets")
    ordered = sp.csr_array(tuple(stored[f"0.{name}"] for name in names), shape=A.shape)
    assert_same_entries(ordered, in_order(A, order))


def test_clusters_of_a_gpu_are_those_of_the_cpu(cuda_device):
    for A in PATTERNS.values():
        order = order_for(A, "clusters", cuda_device)
        np.testing.assert_array_equal(order, order_for(A, "clusters"))


def test_clusters_of_few_rows_are_cells(device):
    """Where there are too few rows for a cluster, or parts of the matrix too small for one."""
    for A in (MESH, sp.csr_array(sp.block_diag([MESH, MESH]))):
        ordered = in_order(A, order_for(A, "clusters", device))
        assert distinct_in_rows(ordered, 64) < 0.7 * distinct_in_rows(A, 64)


def test_clusters_bring_neighbours_together(device):
    A = unordered_mesh(30, 30, 30)
    ordered = in_order(A, order_for(A, "clusters", device))
    assert distinct_in_rows(ordered, 64) < distinct_in_rows(A, 64) / 2


@pytest.mark.parametrize("fmt", formats_of(MESH))
def test_an_operator_in_clusters(fmt, device, dtype):
    A = MESH.astype(dtype)
    op = build(A, fmt, device, reorder="clusters")
    x = vector(A.shape[1], dtype)
    assert op.format == fmt
    assert_product(op @ x, A, x)
    assert_product(op.T @ x, sp.csr_array(A.T), x)
    assert_same_entries(op.tocsr(), A)
    assert_same_entries(pickle.loads(pickle.dumps(op)).tocsr(), A)
    assert "reordered" in op.explain()


def test_solvers_find_the_solution_in_the_given_order(device):
    A = sp.csr_array(MESH + sp.diags_array(np.abs(MESH).sum(axis=1)))
    b, guess = vector(A.shape[0], A.dtype), vector(A.shape[0], A.dtype, seed=2)
    op = build(A, "csr", device, reorder="clusters")
    for solve in (sg.linalg.cg, sg.linalg.bicgstab, sg.linalg.gmres, sg.linalg.minres):
        for how in ({}, {"M": sg.linalg.jacobi(op)}, {"M": sg.linalg.chebyshev(op)}, {"x0": guess}):
            x, info = solve(op, b, rtol=1e-10, **how)
            assert info == 0
            assert np.linalg.norm(A @ x - b) <= 1e-8 * np.linalg.norm(b)
    seen = []
    x, _ = sg.linalg.cg(op, b, rtol=1e-10, callback=lambda xk: seen.append(np.array(xk)))
    np.testing.assert_allclose(seen[-1], x)  # what a callback sees is in the given order


def test_clusters_refuse():
    with pytest.raises(ValueError, match=r"'clusters'.*300 x 500"):
        sg.aslinearoperator(uniform(300, 500, 4), device="cpu", reorder="clusters")
    arrow = sp.lil_array((5000, 5000))
    arrow[0, :] = 1.0
    arrow.setdiag(1.0)
    with pytest.raises(ValueError, match=r"at most 4096 stored entries.*5000"):
        sg.aslinearoperator(sp.csr_array(arrow), device="cpu", reorder="clusters")


# Columns by their entries


def counts(rows=300, cols=180):
    """Some columns in most rows, others in few, and ten in none."""
    share = np.random.default_rng(5).permutation(0.9 / (1 + np.arange(cols)))
    share[::18] = 0
    pattern = np.random.default_rng(6).random((rows, cols)) < share
    return sp.csr_array(pattern * values(np.random.default_rng(7), rows * cols).reshape(rows, cols))


def by_entries(A):
    return np.argsort(-np.bincount(A.indices, minlength=A.shape[1]), kind="stable")


COUNTS = counts()


@pytest.mark.parametrize("fmt", formats_of(COUNTS[:, by_entries(COUNTS)]))
def test_columns_by_their_entries(fmt, device, dtype):
    A = COUNTS.astype(dtype)
    op = build(A, fmt, device, reorder="columns")
    x, y = vector(A.shape[1], dtype), vector(A.shape[0], dtype, seed=8)
    assert op.format == fmt
    stored = op.arrays()
    np.testing.assert_array_equal(stored["0.rows"], np.arange(A.shape[0]))
    np.testing.assert_array_equal(stored["0.cols"], by_entries(A))
    assert_product(op.spmv(x, out=y.copy(), alpha=2, beta=-0.5), A, x, 2, -0.5, y)
    assert_product(op.T @ y, sp.csr_array(A.T), y)
    X = np.random.default_rng(9).standard_normal((A.shape[1], 3)).astype(dtype)
    for order in "CF":
        product = op @ np.asarray(X, order=order)
        for column in range(3):
            assert_product(product[:, column], A, X[:, column])
    assert "columns are reordered" in op.explain()
    for same in (op, pickle.loads(pickle.dumps(op)), op.T.T):
        assert_same_entries(same.tocsr(), A)
    new = sp.csr_array((3 * A.data, A.indices, A.indptr), shape=A.shape)
    for variant in (op.T, op):  # whose matrices go on
        variant.update_values(new.T.tocsr() if variant is not op else new)
        assert_same_entries(op.tocsr(), new if variant is op else A)
    assert_product(op @ x, new, x)


def test_solvers_take_a_matrix_whose_columns_alone_are_reordered(device):
    n = 400
    A = sp.csr_array(uniform(n, n, 3, seed=4) + sp.diags_array(np.full(n, 50.0)))
    b = vector(n, A.dtype)
    op = build(A, "csr", device, reorder="columns")
    for solve in (sg.linalg.bicgstab, sg.linalg.gmres):
        for how in ({}, {"M": sg.linalg.jacobi(op)}):
            x, info = solve(op, b, rtol=1e-10, **how)
            assert info == 0
            assert np.linalg.norm(A @ x - b) <= 1e-8 * np.linalg.norm(b)


def test_a_matrix_without_entries_keeps_its_columns(device):
    for shape in ((40, 60), (50, 50)):
        op = sg.aslinearoperator(sp.csr_array(shape), "csr", device, reorder="columns")
        np.testing.assert_array_equal(op @ np.ones(shape[1]), np.zeros(shape[0]))


@pytest.mark.gpu
def test_auto_finds_clusters_where_the_budget_lasts():
    A = unordered_mesh(60, 60, 60)
    op = sg.aslinearoperator(A, device="cuda", budget=np.inf)
    x = vector(A.shape[1], A.dtype)
    assert order_of(op) is not None
    assert "order" in {step.name for step in op.tuning.steps}
    assert "reordered" in op.explain()
    assert_product(op @ x, A, x)
    for given in (
        sg.aslinearoperator(A, device="cuda", budget=np.inf, reorder=False),
        sg.aslinearoperator(A, device="cuda", budget=0),
        sg.aslinearoperator(A, device="cuda", format="csr", budget=np.inf),
        sg.aslinearoperator(uniform(50_000, 50_000, 20), device="cuda", budget=np.inf),
    ):
        assert order_of(given) is None
