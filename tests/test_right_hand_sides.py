"""Several right-hand sides at once: every column as if it were solved for alone."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import TYPES, vector
from spmvgpu import gallery, linalg
from spmvgpu.linalg import SolverWarning
from support import in_turn
from systems import convection, spd, turned

SOLVERS = ["cg", "minres", "bicgstab", "gmres"]


@pytest.fixture(params=SOLVERS)
def solver(request):
    return getattr(linalg, request.param)


def columns(A, dtype, count=5):
    """Right-hand sides of different sizes that take different numbers of iterations."""
    n = A.shape[0]
    B = np.stack([vector(n, dtype, seed=j) for j in range(count)], axis=1)
    B[:, 1] *= 1000
    B[:, 2] = A @ np.ones(n, dtype)
    B[:, 3] = 0
    return B


def tolerance(dtype):
    return 1e-4 if dtype in (np.float32, np.complex64) else 1e-9


def residuals(A, X, B):
    """Relative ones, in double precision."""
    wide = np.result_type(A.dtype, np.float64)
    norms = np.linalg.norm(B.astype(wide) - A.astype(wide) @ np.asarray(X, wide), axis=0)
    sizes = np.linalg.norm(B, axis=0)
    return norms / np.where(sizes > 0, sizes, 1)


NAMES = ["poisson3d", "elasticity3d"]
PRECONDITIONERS = {
    "none": lambda op: None,
    "diagonal": lambda op: 1 / np.linspace(1, 2, op.shape[0]),
    "jacobi": lambda op: "jacobi",
    "block_jacobi": lambda op: linalg.block_jacobi(op, 3),
    "chebyshev": linalg.chebyshev,
    "amg": linalg.amg,
    "ic0": linalg.ic0,
    "matrix": lambda op: sp.diags_array(1 / np.linspace(1, 2, op.shape[0])),
    "foreign": lambda op: spla.aslinearoperator(sp.diags_array(1 / np.linspace(1, 2, op.shape[0]))),
}


@pytest.mark.parametrize(("case", "dtype"), in_turn(list(product(NAMES, PRECONDITIONERS)), TYPES), ids=str)
def test_as_one_by_one(case, solver, device, dtype):
    name, preconditioner = case
    A = spd(name, dtype)
    op, B = sg.aslinearoperator(A, device=device), columns(A, dtype)
    M, rtol = PRECONDITIONERS[preconditioner](op), tolerance(dtype)
    X, info = solver(op, B, rtol=rtol, M=M)
    how = op.solve_info
    assert (X.shape, X.dtype, info.shape) == (B.shape, dtype, (5,))
    np.testing.assert_array_equal(info, 0)
    assert (residuals(A, X, B) <= 1.01 * rtol).all()
    np.testing.assert_array_equal(X[:, 3], 0)
    for j, column in enumerate(how.columns):
        x, _ = solver(op, np.ascontiguousarray(B[:, j]), rtol=rtol, M=M)
        one = op.solve_info
        np.testing.assert_allclose(X[:, j], x, rtol=0, atol=50 * rtol * np.abs(x).max())
        # A residual of bicgstab rises and falls: other roundings move the iteration that gets below the goal.
        smooth = dtype == np.float64 and solver is not linalg.bicgstab
        slack = 2 + one.iterations // (20 if smooth else 3)
        assert abs(column.iterations - one.iterations) <= slack
        assert column.true_residual <= column.goal
    assert how.iterations == max(column.iterations for column in how.columns)
    assert how.status == "converged"
    np.testing.assert_array_equal(solver(op, B, rtol=rtol, M=M)[0], X)  # the same bits


@pytest.mark.parametrize("M", [None, "jacobi", "chebyshev", "ilu0"])
@pytest.mark.parametrize("of", ["real", "complex"])
def test_other_systems(of, M, solver, device, dtype):
    """Hermitian ones, and unsymmetric ones where the solver or the preconditioner is for these."""
    is_symmetric = solver in (linalg.cg, linalg.minres) or M == "chebyshev"
    if is_symmetric and M == "ilu0":
        return
    A = gallery.poisson2d(20) if is_symmetric else convection()
    A = turned(A) if of == "complex" else A
    A = sp.csr_array(A, dtype=np.result_type(dtype, np.complex64) if of == "complex" else dtype)
    B, rtol = columns(A, A.dtype), tolerance(A.dtype)
    X, info = solver(sg.aslinearoperator(A, device=device), B, rtol=rtol, M=M)
    np.testing.assert_array_equal(info, 0)
    assert (residuals(A, X, B) <= 1.01 * rtol).all()


# Each column ends by itself


def test_limits_of_iterations(solver, device):
    """A column that needs more iterations than are allowed, beside one that does not."""
    A = spd("poisson2d", np.float64)
    op, n = sg.aslinearoperator(A, device=device), A.shape[0]
    values, vectors = spla.eigsh(A, k=1)
    assert values[0] > 1
    B = np.stack([vector(n, A.dtype), vectors[:, 0]], axis=1)
    X, info = solver(op, B, rtol=1e-10, maxiter=3 if solver is not linalg.gmres else 1)
    assert info[0] == (3 if solver is not linalg.gmres else 1)
    assert info[1] == 0
    np.testing.assert_allclose(X[:, 1], vectors[:, 0] / values[0], atol=1e-8)
    assert op.solve_info.status == "exhausted"
    assert [column.status for column in op.solve_info.columns] == ["exhausted", "converged"]
    X, info = solver(op, B, maxiter=0)
    np.testing.assert_array_equal(info, 1)
    np.testing.assert_array_equal(X, 0)


def test_a_column_that_breaks_down(device):
    A = sp.diags_array([1.0, 2.0, -3.0, 4.0])
    op = sg.aslinearoperator(A, device=device)
    B = np.array([[1.0, 0.0, 1.0], [2.0, 1.0, 2.0], [0.0, 3.0, 0.0], [4.0, 0.0, 4.0]])
    with pytest.warns(SolverWarning, match=r"^column 1: cg broke down.*not positive definite"):
        X, info = linalg.cg(op, B)
    np.testing.assert_array_equal(info, [0, -11, 0])
    np.testing.assert_allclose(X[:, [0, 2]], np.array([[1, 1, 0, 1.0]] * 2).T, rtol=1e-5)
    with pytest.warns(SolverWarning, match=r"^column 0, the first of 3 such columns: .*M is not"):
        assert (linalg.cg(op, B, M=-np.ones(4))[1] == -10).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_column_that_is_not_finite_leaves_the_others_alone(value, solver, device):
    A = spd("poisson2d", np.float64)
    op, B = sg.aslinearoperator(A, device=device), columns(spd("poisson2d", np.float64), np.float64)
    expected, _ = solver(op, B, rtol=1e-8)
    B[7, 1] = value
    with pytest.warns(SolverWarning, match="column 1.*NaN"):
        X, info = solver(op, B, rtol=1e-8)
    np.testing.assert_array_equal(info, [0, -12, 0, 0, 0])
    np.testing.assert_array_equal(np.delete(X, 1, axis=1), np.delete(expected, 1, axis=1))


def test_columns_whose_squares_are_no_numbers(solver, device, dtype):
    A = spd("poisson2d", dtype)
    B = columns(A, dtype)
    B[:, 0] *= dtype.type(1e-30 if dtype == np.float32 else 1e-200)
    B[:, 1] *= dtype.type(1e25 if dtype == np.float32 else 1e180)
    for M in (None, "jacobi", "chebyshev"):
        X, info = solver(sg.aslinearoperator(A, device=device), B, rtol=1e-4, M=M)
        np.testing.assert_array_equal(info, 0)
        with np.errstate(all="ignore"):
            sizes = np.abs(B).max(axis=0)
            sizes[sizes == 0] = 1
            assert (residuals(A, X / sizes, B / sizes) <= 1.01e-4).all()


def test_singular_systems(device):
    """Least-squares solutions of minres, each found by its column."""
    A = gallery.poisson2d(12)
    A = sp.csr_array(A - sp.diags_array(np.asarray(A.sum(axis=1)).ravel()))
    op, n = sg.aslinearoperator(A, device=device), A.shape[0]
    inside = A @ vector(n, np.float64)
    B = np.stack([inside, inside + 1e-3, inside], axis=1)
    X, info = linalg.minres(op, B, rtol=1e-9)
    np.testing.assert_array_equal(info, 0)
    assert [c.status for c in op.solve_info.columns] == ["converged", "least_squares", "converged"]
    np.testing.assert_allclose(A @ X, np.stack([inside] * 3, axis=1), atol=1e-6)
    X, info = linalg.cg(op, B, rtol=1e-9, nullspace="constant")
    np.testing.assert_array_equal(info, 0)
    np.testing.assert_allclose(A @ X, np.stack([inside] * 3, axis=1), atol=1e-7)
    np.testing.assert_allclose(X.sum(axis=0), 0, atol=1e-9)


# What is given, and what is shown


def test_many_columns(device):
    """More than are multiplied at once."""
    A = spd("poisson2d", np.float64)
    n = A.shape[0]
    B = np.random.default_rng(5).standard_normal((n, 77))
    X, info = linalg.cg(sg.aslinearoperator(A, device=device), B, rtol=1e-9)
    np.testing.assert_array_equal(info, 0)
    assert (residuals(A, X, B) <= 1.01e-9).all()


@pytest.mark.parametrize("rows", [1, 2])
def test_small_systems(rows, solver, device):
    A = 2 * np.eye(rows)
    X, info = solver(sg.aslinearoperator(A, device=device), np.ones((rows, 3)), rtol=1e-12)
    np.testing.assert_array_equal(info, 0)
    np.testing.assert_allclose(X, 0.5)
    X, info = solver(sg.aslinearoperator(np.zeros((0, 0)), device=device), np.ones((0, 3)))
    assert X.shape == (0, 3)
    np.testing.assert_array_equal(info, 0)


def test_foreign_operators_get_all_columns_at_once(solver, device):
    A = spd("poisson2d", np.float64)
    B, shapes = columns(A, A.dtype)[:, :3], []

    def multiply(X):
        shapes.append(X.shape)
        return A @ X

    foreign = spla.LinearOperator(A.shape, matvec=multiply, matmat=multiply, dtype=A.dtype)
    inverse = spla.LinearOperator(A.shape, matvec=lambda x: x / 4, matmat=lambda X: X / 4, dtype=A.dtype)
    X, info = solver(foreign, B, M=inverse, rtol=1e-9)
    np.testing.assert_array_equal(info, 0)
    assert (residuals(A, X, B) <= 1.01e-9).all()
    assert set(shapes) == {B.shape}
    for wrong, error in ((lambda X: X[:-1], ValueError), (lambda X: 1j * X, TypeError)):
        bad = spla.LinearOperator(A.shape, matvec=wrong, matmat=wrong, dtype=A.dtype)
        bad.matmat = wrong
        with pytest.raises(error, match="M returned an array"):
            solver(sg.aslinearoperator(A, device=device), B, M=bad)


def test_guesses(solver, device):
    A = spd("poisson2d", np.float64)
    op, B = sg.aslinearoperator(A, device=device), columns(A, A.dtype)
    guess = 3 * B[:, ::-1]
    X, info = solver(op, B, guess, rtol=1e-9)
    np.testing.assert_array_equal(info, 0)
    assert (residuals(A, X, B) <= 1.01e-9).all()
    X, info = solver(op, B, "Mb", M="jacobi", rtol=1e-9)
    np.testing.assert_array_equal(info, 0)
    assert (residuals(A, X, B) <= 1.01e-9).all()


def test_histories(solver, device):
    """Arrays with the norms of all columns, which keep their last one when they have ended."""
    A = spd("poisson2d", np.float64)
    op, B = sg.aslinearoperator(A, device=device), columns(A, A.dtype)
    history = []
    _, info = solver(op, B, rtol=1e-9, residuals=history)
    np.testing.assert_array_equal(info, 0)
    each = op.solve_info.columns
    assert len(history) == 1 + op.solve_info.iterations
    for j in (0, 1, 2, 4):
        alone = []
        solver(op, np.ascontiguousarray(B[:, j]), rtol=1e-9, residuals=alone)
        few = min(len(alone), 8)
        np.testing.assert_allclose([norms[j] for norms in history[:few]], alone[:few], rtol=1e-6)
        assert history[-1][j] == history[each[j].iterations][j]
    np.testing.assert_array_equal([norms[3] for norms in history], 0)


def test_callbacks(solver, device):
    A = spd("poisson2d", np.float64)
    op, B = sg.aslinearoperator(A, device=device), columns(A, A.dtype)
    seen = []
    options = {"callback_type": "x", "restart": 9} if solver is linalg.gmres else {}
    X, _ = solver(op, B, rtol=1e-8, callback=lambda x: seen.append(np.array(x)), **options)
    assert {x.shape for x in seen} == {B.shape}
    assert len(seen) >= (2 if options else op.solve_info.iterations)
    np.testing.assert_array_equal(seen[-1], X)
    np.testing.assert_array_equal(solver(op, B, rtol=1e-8, **options)[0], X)


def test_norms_that_gmres_shows(device):
    A = sp.csr_array(convection())
    B = columns(A, A.dtype)
    norms = []
    linalg.gmres(
        sg.aslinearoperator(A, device=device), B, rtol=1e-8, callback=norms.append, callback_type="pr_norm"
    )
    assert {norm.shape for norm in norms} == {(5,)}
    assert (norms[-1] <= 1e-7).all()


@pytest.mark.gpu
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_on_a_gpu(order, solver, library, cuda_device, dtype):
    A = spd("poisson2d", dtype)
    op, B = sg.aslinearoperator(A, device=cuda_device), columns(A, dtype)
    expected, _ = solver(op, B, B, M="jacobi", rtol=1e-4)
    given = library.asarray(B if order == "C" else np.ascontiguousarray(B.T), cuda_device)
    given = given if order == "C" else given.T
    X, info = solver(op, given, given, M="jacobi", rtol=1e-4)
    np.testing.assert_array_equal(info, 0)
    assert isinstance(X, library.array_type)
    assert library.device_name(X) == cuda_device
    np.testing.assert_array_equal(library.to_numpy(X), expected)


@pytest.mark.parametrize("M", [None, "jacobi"])
def test_no_columns(solver, M, host_library):
    """An empty batch has an empty solution; everything else that is given is checked."""
    A = spd("poisson2d", np.float64)
    n = A.shape[0]
    op, B, calls, norms = sg.aslinearoperator(A, device="cpu"), np.ones((n, 0)), [], []
    for x0 in (None, host_library.asarray(np.ones((n, 0)))):
        X, info = solver(op, host_library.asarray(B), x0, M=M, callback=calls.append, residuals=norms)
        assert isinstance(X, host_library.array_type)
        assert (X.shape, host_library.to_numpy(X).dtype, info.shape) == ((n, 0), np.float64, (0,))
    assert (calls, norms) == ([], [])
    for given, error, message in (
        ({"x0": np.ones(n)}, ValueError, r"x0 has shape \(851,\)"),
        ({"rtol": -1}, ValueError, "rtol=-1"),
        ({"M": np.ones(3)}, ValueError, "M has shape"),
        ({"residuals": 3}, TypeError, "residuals=3"),
        ({"b": np.ones((n + 1, 0))}, ValueError, r"b has shape \(852, 0\)"),
        ({"b": np.ones((n, 0), complex)}, TypeError, "b has dtype complex128"),
    ):
        with pytest.raises(error, match=message):
            solver(op, **{"b": B, **given})


@pytest.mark.gpu
def test_no_columns_on_a_gpu(solver, library, cuda_device):
    op = sg.aslinearoperator(gallery.poisson2d(20), device=cuda_device)
    for call in (lambda b: solver(op, b)[0], lambda b: linalg.solve(op, b)):
        assert call(np.ones((400, 0))).shape == (400, 0)
        X = call(library.asarray(np.ones((400, 0)), cuda_device))
        assert isinstance(X, library.array_type)
        assert (X.shape, library.device_name(X)) == ((400, 0), cuda_device)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_shapes_of_solutions(solver, count):
    """A single column is solved for as a vector, as by SciPy; factors keep its shape, as SuperLU does."""
    A = gallery.poisson2d(9)
    op, B = sg.aslinearoperator(A, device="cpu"), np.ones((81, count))
    wanted = (81,) if count == 1 else (81, count)
    assert solver(op, B)[0].shape == wanted
    assert linalg.solve(A, B).shape == wanted
    assert linalg.solve(A, B, full_output=True)[0].shape == wanted
    assert linalg.spsolve(A, B, device="cpu").shape == spla.spsolve(A.tocsc(), B).shape == wanted
    assert linalg.splu(op).solve(B).shape == spla.splu(A.tocsc()).solve(B).shape == (81, count)
