"""Preconditioners of `spmvgpu.linalg`: on the device and in SciPy's solvers."""

import pickle
import re
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import vector
from generators.systems import convection
from spmvgpu import gallery, linalg
from support import naming
from systems import spd, with_empty


def iterations(op, b, M, rtol):
    x, info = linalg.cg(op, b, M=M, rtol=rtol)
    assert info == 0
    return x, op.solve_info.iterations


@pytest.fixture
def rtol(dtype):
    return 1e-4 if dtype == np.float32 else 1e-9


def in_scipy(A, b, M, rtol):
    calls = []
    _, info = spla.cg(A, b, M=M, rtol=rtol, callback=calls.append)
    assert info == 0
    return len(calls)


@pytest.mark.parametrize(
    ("make", "factor"),
    [*((partial(linalg.chebyshev, degree=d), 0.6 * d) for d in (1, 2, 5)), (linalg.ic0, 1.7)],
)
def test_cg_is_faster(make, factor, device, dtype, rtol):
    A = spd("poisson3d", dtype)
    b = vector(A.shape[0], dtype)
    op = sg.aslinearoperator(A, device=device)
    M = make(op)
    x, count = iterations(op, b, M, rtol)
    plain, all_of_them = iterations(op, b, None, rtol)
    np.testing.assert_allclose(x, plain, rtol=0, atol=50 * rtol * np.abs(plain).max())
    assert count <= all_of_them / factor + 1
    assert abs(count - in_scipy(A, b, M, rtol)) <= 1 + count // 20
    dense = M @ np.eye(A.shape[0], dtype=dtype)[:, :40]
    np.testing.assert_allclose(dense[:40], dense[:40].T, atol=1e-5)  # symmetric
    np.testing.assert_array_equal(iterations(op, b, M, rtol)[0], x)
    # Graphs of whole iterations replay what M does too.
    assert iterations(op, b, M, rtol / 100)[1] > count


@pytest.mark.parametrize("degree", [2, 4])
def test_chebyshev_of_a_graph_with_hubs(degree, device):
    """Its largest eigenvalue lies alone above the others; a polynomial that misses it is not definite."""
    graph = gallery.powerlaw(5000, 6, seed=2)
    weights = abs(graph + graph.T)
    weights.setdiag(0)
    A = sp.csr_array(sp.diags_array(weights.sum(axis=1) + 1e-3) - weights)
    op = sg.aslinearoperator(A, device=device)
    b = vector(5000, np.float64)
    _, count = iterations(op, b, linalg.chebyshev(op, degree), 1e-8)
    assert count <= iterations(op, b, "jacobi", 1e-8)[1] / (0.5 * degree)


def test_repr_says_where_a_preconditioner_is_and_how_it_was_made(device):
    op = sg.aslinearoperator(gallery.poisson2d(20), device=device)
    made = {
        linalg.jacobi(op): "Jacobi of float64 on",
        linalg.chebyshev(op, 3, ratio=20.0): "chebyshev of degree 3, ratio 20",
        linalg.block_jacobi(op, 5): "BlockJacobiOperator of float64, .* blocks of 5",
        linalg.ic0(op): r"IncompleteFactors .*: ic0, [\d.]+ KB",
        linalg.ilu0(op).H: "IncompleteFactors .*: ilu0, ",
        linalg.amg(op, smoother="jacobi"): "unknowns, smoother jacobi of degree 1, operator complexity ",
        linalg.amg(op, degree=3, symmetric=False): "smoother jacobi of degree 3",
    }
    if device == "cpu":
        factors = linalg.splu(op)
        made |= dict.fromkeys([factors, factors.H], rf"Factors of float64 on 'cpu': {factors.nnz} entries")
    for M, says in made.items():
        shown = " ".join(repr(M).split())
        assert shown.startswith("<400x400 ")
        assert f"on {device!r}" in shown
        assert re.search(says, shown), shown
    copy = pickle.loads(pickle.dumps(linalg.ic0(op)))
    assert "ic0" in repr(copy)


def test_chebyshev_is_its_recurrence(device):
    """Beside the polynomial by its zeros: p(A) A is 1 less T_k of the mapped spectrum."""
    A = sp.diags_array(np.linspace(1, 2, 50)).tocsr()  # scaled by its diagonal, all eigenvalues are 1
    M = linalg.chebyshev(sg.aslinearoperator(A, device=device), 3, ratio=4.0)
    high, low = 1.05, 1.05 / 4

    def mapped(t):
        return (high + low - 2 * t) / (high - low)

    chebyshev = np.polynomial.chebyshev.Chebyshev([0, 0, 0, 1])
    expected = 1 - chebyshev(mapped(1.0)) / chebyshev(mapped(0.0))
    np.testing.assert_allclose(A @ (M @ np.ones(50)), np.full(50, expected), rtol=1e-6)


@pytest.mark.parametrize("block", [1, 3, 7])
def test_block_jacobi(block, device, dtype, rtol):
    A = spd("elasticity3d", dtype)
    op = sg.aslinearoperator(A, device=device)
    M = linalg.block_jacobi(op, block)
    n = A.shape[0]
    dense = A.toarray().astype(np.float64)
    expected = np.zeros((n, n))
    for begin in range(0, n, block):
        own = slice(begin, min(n, begin + block))
        expected[own, own] = np.linalg.inv(dense[own, own])
    np.testing.assert_allclose(M.tocsr().toarray(), expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
    b = vector(n, dtype)
    _, count = iterations(op, b, M, rtol)
    assert abs(count - in_scipy(A, b, M, rtol)) <= 2 + count // 10


@pytest.mark.parametrize(
    "name", ["gauss_seidel_nr", "gauss_seidel_ne", "jacobi_ne", "gmres", "schwarz", "air_solver"]
)
def test_smoothers_of_pyamg_that_are_not_replaced(name):
    """The default takes the place of no smoother that it may be worse than, and says what to do."""
    pyamg = pytest.importorskip("pyamg")
    A = sp.csr_matrix(gallery.poisson2d(16))
    if name == "air_solver":
        ml, smoother = pyamg.air_solver(A, max_coarse=20), "postsmoother 'fc_jacobi'"
    else:
        ml = pyamg.smoothed_aggregation_solver(A, presmoother=name, postsmoother=name, max_coarse=20)
        smoother = f"presmoother {name!r}"
    with pytest.raises(ValueError, match=f"level 0 of ml has the {smoother}") as caught:
        linalg.aspreconditioner(ml, device="cpu")
    b = np.ones(A.shape[0])
    assert "use ml.aspreconditioner()" in str(caught.value)
    assert 'smoother="chebyshev" or "jacobi"' in str(caught.value)
    assert linalg.gmres(A, b, M=ml.aspreconditioner(), rtol=0.5)[1] == 0
    for smoother in ("chebyshev", "jacobi"):
        assert (
            linalg.cg(A, b, M=linalg.aspreconditioner(ml, device="cpu", smoother=smoother))[0].shape
            == b.shape
        )


@pytest.mark.parametrize("name", ["gauss_seidel", "sor", "richardson", "chebyshev", "block_jacobi"])
def test_smoothers_of_pyamg_that_are_replaced(name):
    pyamg = pytest.importorskip("pyamg")
    A, b = sp.csr_matrix(gallery.poisson2d(16)), np.ones(256)
    ml = pyamg.smoothed_aggregation_solver(A, presmoother=name, postsmoother=name, max_coarse=20)
    default = linalg.aspreconditioner(ml, device="cpu") @ b
    np.testing.assert_array_equal(
        linalg.aspreconditioner(ml, device="cpu", smoother="chebyshev") @ b, default
    )


@pytest.mark.parametrize("smoother", ["jacobi", "chebyshev"])
@pytest.mark.parametrize("setup", ["ruge_stuben_solver", "smoothed_aggregation_solver"])
def test_hierarchies_of_pyamg(setup, smoother, device, dtype, rtol):
    pyamg = pytest.importorskip("pyamg")
    A = gallery.poisson3d(14)
    ml = getattr(pyamg, setup)(sp.csr_matrix(A), max_coarse=50)
    assert len(ml.levels) >= 3
    op = sg.aslinearoperator(A.astype(dtype), device=device)
    M = linalg.aspreconditioner(ml, device=device, dtype=dtype, smoother=smoother)
    b = vector(A.shape[0], dtype)
    x, count = iterations(op, b, M, rtol)
    assert np.linalg.norm(b - A @ x.astype(float)) <= 2 * rtol * np.linalg.norm(b)
    assert count <= 14
    assert abs(count - in_scipy(op.tocsr(), b, M, rtol)) <= 1
    for solver in (linalg.bicgstab, linalg.gmres, linalg.minres):
        assert solver(op, b, M=M, rtol=rtol)[1] == 0
    other = sg.aslinearoperator(A, device="cpu", dtype=np.float64)
    _, followed = iterations(other, b.astype(float), M, rtol)  # of another type, or elsewhere: a copy of it
    _, made = iterations(
        other, b.astype(float), linalg.aspreconditioner(ml, device="cpu", smoother=smoother), rtol
    )
    assert abs(followed - made) <= 1


SYMMETRIC = ("jacobi", "block_jacobi", "chebyshev", "ic0")


@pytest.mark.parametrize("name", [*SYMMETRIC, "ilu0", "amg"])
@pytest.mark.parametrize("solver", ["cg", "minres", "bicgstab", "gmres"])
def test_by_name(solver, name, device, dtype, rtol):
    """The same bits as with the preconditioner that the name stands for."""
    A = spd("elasticity3d", dtype)
    op, b = sg.aslinearoperator(A, device=device), vector(A.shape[0], dtype)
    M = getattr(linalg, name)(op)
    solve = getattr(linalg, solver)
    if name == "ilu0" and solver in ("cg", "minres"):
        return
    x, info = solve(op, b, M=name, rtol=rtol)
    assert info == 0
    assert np.linalg.norm(b - A @ x) <= 2 * rtol * np.linalg.norm(b)
    if name != "amg":  # which by its name suits the solver
        np.testing.assert_array_equal(solve(op, b, M=M, rtol=rtol)[0], x)


# -- incomplete factors --------------------------------------------------------------------------------------


def factors_of(A, levels=0):
    """L and U of `ilu`, row by row as in a textbook (Saad, algorithms 10.4 and 10.5), dense."""
    stored = sp.csr_array((np.ones(A.nnz), A.indices, A.indptr), A.shape).toarray() > 0  # zeros, too
    level = np.where(stored, 0, np.inf)
    for i in range(1, len(level)):
        for k in range(i):
            if level[i, k] <= levels:
                level[i, k + 1 :] = np.minimum(level[i, k + 1 :], level[i, k] + level[k, k + 1 :] + 1)
    kept = level <= levels
    LU = A.toarray().astype(np.result_type(A.dtype, np.float64))
    for i in range(1, len(LU)):
        for k in np.flatnonzero(kept[i, :i]):
            LU[i, k] /= LU[k, k]
            LU[i, k + 1 :] -= np.where(kept[i, k + 1 :], LU[i, k] * LU[k, k + 1 :], 0)
    return np.tril(LU, -1) + np.eye(len(LU)), np.triu(LU)


def unsymmetric(n, dtype, seed=3):
    """A matrix with rows of very different lengths, and entries on the diagonal that keep it regular."""
    rng = np.random.default_rng(seed)
    A = sp.random_array((n, n), density=4 / n, random_state=rng, format="lil")
    for hub in (0, n // 2, n - 1):
        A[hub, :] = rng.standard_normal(n)
    for hub in (1, n // 3, n - 1):
        A[:, hub] = rng.standard_normal((n, 1))
    A.setdiag(n)
    return sp.csr_array(A).astype(dtype)


@pytest.mark.parametrize(
    "case", ["poisson3d", "elasticity3d", "unsymmetric", "tridiagonal", "diagonal", "1x1"]
)
def test_incomplete_factors(case, device, dtype):
    A = {
        "poisson3d": lambda: gallery.poisson3d(7, contrast=10),
        "elasticity3d": lambda: gallery.elasticity3d(4),
        "unsymmetric": lambda: unsymmetric(300, dtype),
        "tridiagonal": lambda: sp.diags_array([-1.0, 3.0, -1.5], offsets=[-1, 0, 1], shape=(200, 200)),
        "diagonal": lambda: sp.diags_array(np.arange(1.0, 300.0)),
        "1x1": lambda: sp.csr_array([[4.0]]),
    }[case]()
    A = sp.csr_array(A).astype(dtype)
    M = linalg.ilu0(sg.aslinearoperator(A, device=device))
    L, U = factors_of(A)
    x = vector(A.shape[0], dtype)
    expected = np.linalg.solve(U, np.linalg.solve(L, x.astype(np.float64)))
    np.testing.assert_allclose(M @ x, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    if dtype == np.float64:
        np.testing.assert_allclose(M @ x, expected, rtol=0, atol=1e-12 * np.abs(expected).max())
    np.testing.assert_array_equal(M @ x, M @ x)
    assert M.nbytes >= A.nnz * (A.dtype.itemsize + 4)
    assert M.dtype == dtype


@pytest.mark.parametrize("solver", ["bicgstab", "gmres"])
def test_incomplete_lu_for_unsymmetric_systems(solver, device, dtype, rtol):
    A = unsymmetric(800, dtype)
    b = vector(A.shape[0], dtype)
    op = sg.aslinearoperator(A, device=device)
    x, info = getattr(linalg, solver)(op, b, M=linalg.ilu0(op), rtol=rtol)
    assert info == 0
    np.testing.assert_allclose(A @ x, b, rtol=0, atol=20 * rtol * np.linalg.norm(b))


def op_of(A, device):
    return sg.aslinearoperator(A, device=device)


@pytest.mark.parametrize("levels", range(4))
def test_levels_of_fill(levels, device):
    cases = {
        "poisson3d": gallery.poisson3d(5),
        "elasticity3d": gallery.elasticity3d(3),
        "sparse": sp.random_array((90, 90), density=0.03, random_state=np.random.default_rng(1))
        + 20 * sp.eye_array(90),
        "hubs": unsymmetric(60, np.float64),
    }
    for name, case in cases.items():
        for dtype in (np.float32, np.float64, np.complex64, np.complex128):
            with naming(case=name, dtype=dtype):
                A = sp.csr_array(case).astype(dtype)
                A.data *= 1 if A.dtype.kind != "c" else np.exp(0.3j * np.cos(np.arange(A.nnz)))
                M = linalg.ilu(sg.aslinearoperator(A, device=device), levels)
                L, U = factors_of(A, levels)
                x = vector(A.shape[0], dtype)
                expected = np.linalg.solve(U, np.linalg.solve(L, x.astype(U.dtype)))
                eps = np.finfo(dtype).eps
                np.testing.assert_allclose(M @ x, expected, rtol=0, atol=500 * eps * np.abs(expected).max())
                if levels == 0:
                    np.testing.assert_array_equal(M @ x, linalg.ilu0(op_of(A, device)) @ x)


@pytest.mark.parametrize("levels", range(3))
def test_factors_of_full_blocks_are_those_of_block_ilu(levels, device):
    A, size = gallery.elasticity2d(5), 2
    rows = A.shape[0] // size
    blocks = A.toarray().reshape(rows, size, rows, size).swapaxes(1, 2)
    stored = np.abs(blocks).max(axis=(2, 3)) > 0
    L, U = factors_of(sp.csr_array(stored + 10.0 * rows * np.eye(rows)), levels)
    kept = (L != 0) | (U != 0)
    for i in range(1, rows):
        for k in np.flatnonzero(kept[i, :i]):
            blocks[i, k] = blocks[i, k] @ np.linalg.inv(blocks[k, k])
            blocks[i, k + 1 :] -= kept[i, k + 1 :, None, None] * (blocks[i, k] @ blocks[k, k + 1 :])
    below = np.tril(np.ones((rows, rows)), -1)[..., None, None]
    L, U = ((part * blocks).swapaxes(1, 2).reshape(A.shape) for part in (below, 1 - below))
    x = vector(A.shape[0], np.float64)
    expected = np.linalg.solve(U, np.linalg.solve(L + np.eye(len(L)), x))
    M = linalg.ilu(sg.aslinearoperator(A, device=device), levels)
    np.testing.assert_allclose(M @ x, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_as_many_levels_as_rows_are_exact_factors(device):
    for A, make in ((unsymmetric(80, np.float64), linalg.ilu), (gallery.poisson2d(9), linalg.ic)):
        b = vector(A.shape[0], np.float64)
        x = make(op_of(A, device), A.shape[0]) @ b
        np.testing.assert_allclose(A @ x, b, rtol=0, atol=1e-11)


def test_fill_takes_the_place_of_a_missing_diagonal_entry(device):
    A = sp.csr_array([[2.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 3.0]])
    A.eliminate_zeros()
    op, b = op_of(A, device), np.arange(1.0, 4.0)
    np.testing.assert_allclose(A @ (linalg.ilu(op, 1) @ b), b, rtol=1e-12)
    with pytest.raises(np.linalg.LinAlgError, match="row 1 has no pivot"):
        linalg.ilu(op, 0)


def test_more_levels_take_fewer_iterations(device):
    A = convection(30)
    op, b = op_of(A, device), np.ones(900)
    counts = []
    for levels in range(4):
        assert linalg.gmres(op, b, rtol=1e-8, restart=60, M=linalg.ilu(op, levels))[1] == 0
        counts.append(op.solve_info.iterations)
    assert counts == sorted(set(counts), reverse=True), counts
    op = op_of(gallery.poisson2d(30), device)
    counts = []
    for levels in range(4):
        assert linalg.cg(op, b, rtol=1e-8, M=linalg.ic(op, levels))[1] == 0
        counts.append(op.solve_info.iterations)
    assert counts == sorted(set(counts), reverse=True), counts


def test_new_values_keep_the_levels(device):
    A = convection(12)
    new, x = A.copy(), vector(144, np.float64)
    new.data = 2 + np.cos(np.arange(A.nnz)) + 4 * (new.data > 3)
    M = linalg.ilu(op_of(A, device), 2)
    for values in (new, new.data):
        M.update_values(values)
        np.testing.assert_array_equal(M @ x, linalg.ilu(op_of(new, device), 2) @ x)
    copy = pickle.loads(pickle.dumps(M))
    assert "ilu2" in repr(copy)
    np.testing.assert_array_equal(copy @ x, M @ x)


@pytest.mark.parametrize(("levels", "error"), [(-1, ValueError), (1.5, TypeError), ("1", TypeError)])
def test_levels_that_are_none(levels, error):
    with pytest.raises(error, match=f"levels={levels!r}"):
        linalg.ilu(op_of(gallery.poisson1d(4), "cpu"), levels)


def test_too_much_fill_is_refused_before_it_is_stored():
    n = 3_000_000  # an arrow to the upper left, whose factors are dense
    hub, others = np.zeros(n - 1, np.int32), np.arange(1, n, dtype=np.int32)
    rows, cols = np.concatenate([hub, others, [0], others]), np.concatenate([others, hub, [0], others])
    A = sp.csr_array((np.full(len(rows), 1.0), (rows, cols)), shape=(n, n))
    with pytest.raises((ValueError, MemoryError), match=r"fewer levels"):
        linalg.ilu(op_of(A, "cpu"), 1)


SINGLE = {
    "amg": linalg.amg,
    "block_jacobi": linalg.block_jacobi,
    "chebyshev": linalg.chebyshev,
    "ic0": linalg.ic0,
    "an operator": lambda op: sg.aslinearoperator(sp.diags_array(1 / op.diagonal()), device=op.device),
}


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
@pytest.mark.parametrize("name", SINGLE)
def test_preconditioners_in_single_precision(name, dtype, columns, device, monkeypatch):
    """They are applied where the vectors are, and do not limit what a solve reaches."""
    A = spd("poisson2d", dtype)
    op = sg.aslinearoperator(A, device=device)
    single = op.astype(np.complex64 if np.dtype(dtype).kind == "c" else np.float32)
    M, N = SINGLE[name](single), SINGLE[name](op)
    for way in ("_matvec", "_matmat", "matvec", "matmat"):
        monkeypatch.setattr(type(M), way, lambda *_: pytest.fail("the host was asked"), raising=False)
    b = np.stack([vector(A.shape[0], A.dtype, seed) for seed in range(columns)], axis=1)
    b = b[:, 0] if columns == 1 else b
    for scale in (1.0, 1e-250, 1e250):
        x, info = linalg.cg(op, scale * b, rtol=1e-12, M=M)
        assert np.all(info == 0)
        np.testing.assert_allclose(A @ (x / scale), b, rtol=0, atol=1e-10 * np.abs(b).max())
    linalg.cg(op, b, rtol=1e-10, M=M)
    iterations = op.solve_info.iterations
    linalg.cg(op, b, rtol=1e-10, M=N)
    assert iterations <= 1.1 * op.solve_info.iterations + 1


def test_single_precision_beside_zeros_and_what_is_not_finite(device):
    A = spd("poisson2d", np.float64)
    op = sg.aslinearoperator(A, device=device)
    M = linalg.amg(op.astype(np.float32))
    B = np.zeros((A.shape[0], 2))
    B[5, 1] = 1e-310  # a column of zeros, and one below all normal numbers
    x, info = linalg.cg(op, B, rtol=1e-3, M=M)
    assert np.all(info == 0)
    assert np.all(x[:, 0] == 0)
    b = np.ones(A.shape[0])
    b[3] = np.nan
    with pytest.warns(linalg.SolverWarning, match="NaN"):
        assert linalg.cg(op, b, M=M)[1] == -12


@pytest.mark.parametrize("stored_zeros", [False, True])
@pytest.mark.parametrize("name", [*SYMMETRIC, "ilu0", "amg"])
def test_empty_rows_and_columns(name, stored_zeros, device, dtype, rtol):
    """Preconditioners of a graph are for its vertices without edges too: what x is there stays."""
    A, at = with_empty(spd("poisson3d", dtype), stored_zeros)
    op = sg.aslinearoperator(A, device=device)
    b = A @ np.ones(A.shape[0], dtype)
    x0 = np.full(A.shape[0], 2, dtype)
    for M in (name, getattr(linalg, name)(op)):
        x, info = (linalg.bicgstab if name == "ilu0" else linalg.cg)(op, b, x0=x0, M=M, rtol=rtol)
        assert info == 0
        assert np.linalg.norm(b - A @ x) <= 1.01 * rtol * np.linalg.norm(b)
        np.testing.assert_array_equal(x[at], 2)


@pytest.mark.parametrize("name", [*SYMMETRIC, "ilu0", "amg"])
@pytest.mark.parametrize("n", [4, 3000])
def test_a_matrix_of_zeros(name, n, device):
    op = sg.aslinearoperator(sp.csr_array((n, n)), device=device)
    assert np.isfinite(getattr(linalg, name)(op) @ np.ones(n)).all()
    assert linalg.gmres(op, np.zeros(n), x0=np.ones(n), M=name)[1] == 0


@pytest.mark.parametrize("name", ["jacobi", "chebyshev", "ic0", "ilu0", "amg"])
def test_refusals_name_the_row(name, device):
    """The first that is not empty, and has no pivot."""
    A = spd("poisson2d", np.float64).tolil()
    A[5, 5] = 0
    op = sg.aslinearoperator(with_empty(A)[0], device=device)  # whose row 0 is empty
    with pytest.raises(np.linalg.LinAlgError, match="row 6"):
        getattr(linalg, name)(op)
    if name == "jacobi":
        with pytest.raises(ValueError, match="the diagonal has zeros, the first in row 6; use"):
            linalg.gmres(op, np.ones(op.shape[0]), M=name)
