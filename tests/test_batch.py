"""Batches of matrices of one pattern: every matrix and system as if it were alone."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import TYPES, vector
from spmvgpu import linalg
from spmvgpu.linalg import SolverWarning
from support import in_turn

SOLVERS = ["cg", "minres", "bicgstab", "gmres"]
GRID = sp.csr_array(sg.gallery.poisson2d(12))
DIAGONAL = GRID.tocoo().row == GRID.tocoo().col


def random_values(A, count, dtype, seed=0):
    return np.stack([vector(A.nnz, dtype, seed=seed + j) for j in range(count)])


def definite_values(count, dtype):
    """Of systems that take different numbers of iterations."""
    shifts = np.linspace(0, 20, count)[:, np.newaxis] * DIAGONAL
    return ((GRID.data + shifts) * np.linspace(1, 3, count)[:, np.newaxis]).astype(dtype)


def dense_of(A, values):
    return np.stack([sp.csr_array((own, A.indices, A.indptr), A.shape).toarray() for own in values])


SHAPES = [(1, 5, 5), (3, 7, 4), (4, 3, 9), (2, 1, 6), (3, 6, 1), (5, 64, 64), (2, 0, 3), (2, 3, 0)]


@pytest.mark.parametrize(
    ("shape", "fmt", "dtype"), in_turn(SHAPES, ["auto", "csr", "sell", "coo"], TYPES), ids=str
)
def test_products(shape, fmt, dtype, device):
    count, rows, cols = shape
    A = sp.random_array((rows, cols), density=0.4, rng=1, format="csr")
    values = random_values(A, count, dtype)
    op, dense = sg.aslinearoperator(A, fmt, device, values=values), dense_of(A, values)
    assert (op.shape, op.ndim, len(op), op.dtype) == (shape, 3, count, dtype)
    x, X = (
        vector(count * cols, dtype).reshape(count, cols),
        vector(count * cols * 3, dtype).reshape(count, cols, 3),
    )
    close = {
        "rtol": 0,
        "atol": 1e-4 if op.dtype.itemsize in (4, 8) and op.dtype.name[-2:] in ("32", "64") else 1e-12,
    }
    np.testing.assert_allclose(op.matvec(x), np.einsum("mij,mj->mi", dense, x), **close)
    np.testing.assert_allclose(op @ X, dense @ X, **close)
    np.testing.assert_allclose(op.T @ (dense @ X), np.swapaxes(dense, 1, 2) @ (dense @ X), **close)
    np.testing.assert_allclose(op.rmatmat(dense @ X), np.swapaxes(dense, 1, 2).conj() @ (dense @ X), **close)
    np.testing.assert_allclose(op.rmatvec((dense @ X)[..., 0]), op.rmatmat(dense @ X)[..., 0], **close)
    np.testing.assert_array_equal(op.toarray(), dense)
    np.testing.assert_array_equal(op.diagonal(), np.stack([np.diagonal(block) for block in dense]))


def test_new_values(device):
    A = sp.random_array((30, 20), density=0.2, rng=1, format="csr")
    op = sg.aslinearoperator(A, device=device, values=random_values(A, 3, np.float64))
    values = random_values(A, 3, np.float64, seed=9)
    transposed = op.T
    op.update_values(values)
    np.testing.assert_array_equal(op.toarray(), dense_of(A, values))
    np.testing.assert_array_equal(op.T.toarray(), np.swapaxes(dense_of(A, values), 1, 2))
    assert not np.array_equal(transposed.toarray(), op.T.toarray())
    for bad in (values[:2], values[:, 1:], values.ravel()):
        with pytest.raises(ValueError, match=r"values has shape .*; it must have shape \(3, 120\) here"):
            op.update_values(bad)
    np.testing.assert_array_equal(op.toarray(), dense_of(A, values))


CASES = [
    (M, columns)
    for M in (None, "jacobi", "vector", "ic0", "block_jacobi", "chebyshev", "amg")
    for columns in (0, 3)
]


@pytest.mark.parametrize(("case", "count", "dtype"), in_turn(CASES, [6, 1, 2], TYPES), ids=str)
@pytest.mark.parametrize("solver", SOLVERS)
def test_each_system_as_if_alone(case, count, dtype, solver, device):
    M, columns = case
    solve, values = getattr(linalg, solver), definite_values(count, dtype)
    op, n = sg.aslinearoperator(GRID, device=device, values=values), GRID.shape[0]
    shape = (count, n, columns) if columns else (count, n)
    b, x0 = (
        vector(count * n * max(columns, 1), dtype).reshape(shape),
        vector(np.prod(shape), dtype, seed=3).reshape(shape),
    )
    b[0] *= 1000
    b[-1, ..., -1:] *= columns == 0  # a right-hand side of zeros
    rtol = 1e-4 if np.finfo(dtype).eps > 1e-10 else 1e-9
    given = 1 / op.diagonal() if M == "vector" else M
    residuals = []
    x, info = solve(op, b, x0, rtol=rtol, M=given, residuals=residuals)
    how = op.solve_info
    assert (x.shape, x.dtype, info.shape) == (b.shape, dtype, (count, *shape[2:]))
    np.testing.assert_array_equal(info, 0)
    matrices = dense_of(GRID, values)
    wide = np.result_type(dtype, np.float64)
    left = np.linalg.norm(
        b.astype(wide) - np.matmul(matrices, x.astype(wide).reshape(count, n, -1)).reshape(shape), axis=1
    )
    assert (left <= 1.01 * rtol * np.linalg.norm(b, axis=1) + 1e-300).all()
    assert residuals[0].shape == info.shape
    for j in range(count):
        alone = sg.aslinearoperator(
            sp.csr_array((values[j], GRID.indices, GRID.indptr), GRID.shape), device=device
        )
        solve(alone, b[j], x0[j], rtol=rtol, M=given[j] if M == "vector" else M)
        if (
            M not in ("chebyshev", "amg") and solver != "bicgstab"
        ):  # these look at all systems; bicgstab jumps
            iterations = how.columns[j].iterations
            one = alone.solve_info.columns[0] if columns else alone.solve_info
            assert abs(iterations - one.iterations) <= 2 + one.iterations // 3


@pytest.mark.parametrize("fmt", sg.formats())
def test_formats(fmt, device):
    """A block of a GPU's threads reads the rows of any format that has rows."""
    n = 45
    A = sp.csr_array(sg.gallery.poisson1d(n) + sp.eye_array(n))
    values = A.data * np.linspace(1, 2, 7)[:, np.newaxis]
    try:
        op = sg.aslinearoperator(A, fmt, device, values=values)
    except sg.FormatError:
        pytest.skip(f"{fmt} does not hold this matrix")
    b = np.random.default_rng(0).standard_normal((7, n))
    x, info = linalg.cg(op, b, rtol=1e-10, M="jacobi")
    assert not info.any()
    np.testing.assert_allclose(op.matvec(x), b, rtol=0, atol=1e-8)


def test_systems_end_by_themselves(device):
    values = definite_values(5, np.float64)
    op, n = sg.aslinearoperator(GRID, device=device, values=values), GRID.shape[0]
    linalg.cg(op, np.ones((5, n)), rtol=1e-10)
    iterations = [how.iterations for how in op.solve_info.columns]
    assert iterations == sorted(iterations, reverse=True)
    assert iterations[0] > 2 * iterations[-1]
    bad = values.copy()
    bad[1] *= -1
    op.update_values(bad)
    with pytest.warns(SolverWarning, match="column 1: cg broke down"):
        x, info = linalg.cg(op, np.ones((5, n)), rtol=1e-10)
    assert info[1] < 0
    good = [0, 2, 3, 4]
    np.testing.assert_array_equal(info[good], 0)
    np.testing.assert_allclose(op.matvec(x)[good], 1, atol=1e-8)


def test_numbers_near_the_limits(device):
    """Systems are scaled, those that are far from others by themselves."""
    op, n = sg.aslinearoperator(GRID, device=device, values=definite_values(4, np.float64)), GRID.shape[0]
    b = np.random.default_rng(0).standard_normal((4, n))
    for factor in (1e-250, 1e250):
        x, info = linalg.cg(op, factor * b, rtol=1e-9)
        np.testing.assert_array_equal(info, 0)
        np.testing.assert_allclose(op.matvec(x) / factor, b, atol=1e-7)
        mixed = b.copy()
        mixed[2] *= factor
        x, info = linalg.cg(op, mixed, rtol=1e-9)
        np.testing.assert_array_equal(info, 0)
        mixed[2] /= factor
        x[2] /= factor
        np.testing.assert_allclose(op.matvec(x), mixed, atol=1e-7)
    b[1] *= 1e-250
    b[2] *= 1e250
    x, info = linalg.cg(op, b, rtol=1e-9)
    np.testing.assert_array_equal(info, 0)
    sizes = np.array([1, 1e-250, 1e250, 1])[:, np.newaxis]
    np.testing.assert_allclose(op.matvec(x) / sizes, b / sizes, atol=1e-7)


@pytest.mark.parametrize("M", [None, "jacobi", "ic0"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_right_hand_sides_of_zeros(M, solver, device):
    """They are solved by zeros, and change nothing of the others, whose numbers may be near the limits."""
    op, n = sg.aslinearoperator(GRID, device=device, values=definite_values(5, np.float64)), GRID.shape[0]
    solve = getattr(linalg, solver)
    for sizes in ([0, 0, 0, 0, 0], [1, 0, 2, 0, 0], [0, 1e-250, 1, 0, 1e250]):
        factors = np.array(sizes)[:, np.newaxis]
        b = np.random.default_rng(1).standard_normal((5, n)) * factors
        x, info = solve(op, b, rtol=1e-9, M=M)
        np.testing.assert_array_equal(info, 0)
        np.testing.assert_array_equal(x[np.array(sizes) == 0], 0)
        shown = np.where(factors > 0, factors, 1)
        np.testing.assert_allclose(op.matvec(x / shown), b / shown, rtol=0, atol=1e-6)
    for shape in ((5, n, 0), (5, n, 2)):
        x, info = solve(op, np.zeros(shape), M=M)
        assert (x.shape, info.shape) == (shape, (5, shape[2]))
        assert not info.any()


def test_callbacks(device):
    op, n = sg.aslinearoperator(GRID, device=device, values=definite_values(3, np.float64)), GRID.shape[0]
    seen = []
    x, _ = linalg.cg(op, np.ones((3, n)), callback=lambda x: seen.append(x.copy()))
    assert seen[0].shape == x.shape
    np.testing.assert_array_equal(seen[-1], x)
    norms = []
    linalg.gmres(op, np.ones((3, n, 2)), callback=norms.append, callback_type="pr_norm")
    assert norms[0].shape == (3, 2)


def test_many_systems(device):
    """More than a grid of blocks has in one dimension."""
    count = 70_000
    A = sp.csr_array(np.array([[4.0, 1.0], [1.0, 3.0]]))
    op = sg.aslinearoperator(
        A, device=device, values=np.tile(A.data, (count, 1)) * np.linspace(1, 2, count)[:, None]
    )
    for solver in ("cg", "gmres"):
        x, info = getattr(linalg, solver)(op, np.ones((count, 2)), rtol=1e-9)
        assert not info.any()
        np.testing.assert_allclose(op.matvec(x), 1, atol=1e-8)


@pytest.mark.parametrize("n", [1, 31, 511, 512, 513, 8192, 8193])
def test_sizes_of_systems(n, device):
    """Both sides of the size up to which a block of a GPU's threads has a system."""
    A = sp.csr_array(sg.gallery.poisson1d(n) + sp.eye_array(n))
    op = sg.aslinearoperator(A, "csr", device, values=A.data * np.array([[1.0], [2.0], [4.0]]))
    x, info = linalg.cg(op, np.ones((3, n)), rtol=1e-9)
    assert not info.any()
    np.testing.assert_allclose(op.matvec(x), 1, atol=1e-7)
    if device != "cpu":
        assert op.solve_info.resident == (n <= 8192)


def test_rows_in_another_order(device):
    """A format may store rows of several systems in one slice."""
    A = sp.random_array((40, 40), density=0.2, rng=1, format="csr") + 20 * sp.eye_array(40, format="csr")
    A = sp.csr_array(A + A.T)
    op = sg.aslinearoperator(A, "sell", device, values=A.data * np.linspace(1, 2, 9)[:, None], sigma=256)
    x, info = linalg.cg(op, np.ones((9, 40)), rtol=1e-9)
    assert not info.any()
    np.testing.assert_allclose(op.matvec(x), 1, atol=1e-8)


def test_bad_input(device):
    values = definite_values(3, np.float64)
    make = lambda *args, **kwargs: sg.aslinearoperator(GRID, *args, device=device, **kwargs)  # noqa: E731
    n = GRID.shape[0]
    for bad in (values[0], values[:, 1:], np.zeros((0, GRID.nnz))):
        with pytest.raises(ValueError, match="values has shape"):
            make(values=bad)
    with pytest.raises(TypeError, match="values= is for one device"):
        sg.aslinearoperator(GRID, device=["cpu", "cpu"], values=values)
    with pytest.raises(TypeError, match="values= is for one device"):
        make(values=values, powers=[1.0])
    with pytest.raises(ValueError, match="does not go with values="):
        make(values=values, symmetric="lower")
    with pytest.raises(TypeError, match="dtype"):
        make(values=values.astype(object))
    op = make(values=values)
    with pytest.raises(ValueError, match=r"op.matvec\(X\)"):
        op @ np.ones((3, n))
    for bad in (np.ones(n), np.ones((2, n)), np.ones((3, n + 1)), np.ones((n, 3))):
        with pytest.raises(ValueError, match="x has shape"):
            op.matvec(bad)
        with pytest.raises(ValueError, match="b has shape"):
            linalg.cg(op, bad)
    with pytest.raises(ValueError, match="x0 has shape"):
        linalg.cg(op, np.ones((3, n)), np.ones(n))
    with pytest.raises(TypeError, match="nullspace= is for one system"):
        linalg.cg(op, np.ones((3, n)), nullspace="constant")
    A = sp.random_array((4, 3), density=0.9, rng=1, format="csr")
    rectangular = sg.aslinearoperator(A, device=device, values=[A.data])
    with pytest.raises(ValueError, match="square"):
        linalg.cg(rectangular, np.ones((1, 4)))
    four = sg.aslinearoperator(np.eye(4), device=device, values=np.ones((2, 4)))
    with pytest.raises(ValueError, match="do not consist of these"):
        linalg.cg(four, np.ones((2, 4)), M="block_jacobi")
    with pytest.raises(ValueError, match="BatchedOperator has shape"):
        linalg.eigsh(op)


def test_arrays_of_other_libraries(device):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    place = "cpu" if device == "cpu" else device
    values = torch.tensor(definite_values(3, np.float64), device=place)
    op, n = sg.aslinearoperator(GRID, device=device, values=values), GRID.shape[0]
    b = torch.ones((3, n), dtype=torch.float64, device=place)
    x, info = linalg.cg(op, b, rtol=1e-9)
    assert (type(x), x.device, x.shape) == (torch.Tensor, b.device, b.shape)
    assert not info.any()
    torch.testing.assert_close(op.matvec(x), b, rtol=0, atol=1e-7)
    x.requires_grad_()
    op.matvec(x).sum().backward()
    np.testing.assert_allclose(x.grad.cpu(), op.rmatvec(np.ones((3, n))))
    op.update_values(2 * values)
    torch.testing.assert_close(op.matvec(x.detach()), 2 * b, rtol=0, atol=1e-6)
