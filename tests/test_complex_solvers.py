"""Solvers and preconditioners of `spmvgpu.linalg` on complex systems."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import vector
from spmvgpu import gallery, linalg
from systems import convection, counted

DTYPES = [np.dtype("complex64"), np.dtype("complex128")]


@pytest.fixture(params=DTYPES, ids=str)
def dtype(request):
    return request.param


@pytest.fixture
def rtol(dtype):
    return 1e-4 if dtype == np.complex64 else 1e-9


@pytest.fixture
def device(solver_device):
    """In place of the devices of other tests, those on which solvers have two ways twice."""
    return solver_device


def phases(n):
    return np.exp(2j * np.pi * np.random.default_rng(3).uniform(size=n))


def turned(A):
    """A Hermitian matrix with the spectrum of a symmetric one, whose solutions differ by phases alone."""
    turn = sp.diags_array(phases(A.shape[0]))
    return turn.conj() @ A @ turn


REAL = {
    "definite": lambda: gallery.poisson3d(9),
    "indefinite": lambda: gallery.poisson2d(20) - 0.31 * sp.eye_array(400),
}
SYSTEMS = {
    **{name: lambda make=make: turned(make()) for name, make in REAL.items()},
    "general": lambda: convection() + 0.5j * sp.eye_array(576) + 0.2j * gallery.poisson2d(24),
}


def system(name, dtype):
    A = sp.csr_array(SYSTEMS[name]()).astype(dtype)
    return A, A @ vector(A.shape[0], dtype)


def residual(A, x, b):
    wide = np.complex128
    return np.linalg.norm(b - A.astype(wide) @ x.astype(wide)) / np.linalg.norm(b)


@pytest.mark.parametrize("preconditioner", ["none", "diagonal", "operator"])
@pytest.mark.parametrize(
    ("name", "solver"),
    [
        ("definite", "cg"),
        ("definite", "bicgstab"),
        ("definite", "gmres"),
        ("general", "bicgstab"),
        ("general", "gmres"),
    ],
)
def test_agrees_with_scipy(name, solver, preconditioner, device, dtype, rtol):
    A, b = system(name, dtype)
    op = sg.aslinearoperator(A, device=device)
    diagonal = None if preconditioner == "none" else (1 / np.linspace(1, 2, len(b))).astype(dtype)
    if diagonal is not None and solver != "cg":
        diagonal = (diagonal * np.exp(0.3j)).astype(dtype)
    M = None if diagonal is None else sp.diags_array(diagonal)
    given = spla.aslinearoperator(M) if preconditioner == "operator" else diagonal
    history = []
    x, info, iterations = counted(linalg, solver, op, b, rtol=rtol, M=given, residuals=history)
    expected, expected_info, expected_iterations = counted(spla, solver, A, b, rtol=rtol, M=M)
    assert (info, expected_info, x.dtype) == (0, 0, dtype)
    slack = 0.02 if dtype == np.complex128 else 0.1
    assert abs(iterations - expected_iterations) <= 2 + slack * expected_iterations
    assert (len(history) - 1, op.solve_info.iterations) == (iterations, iterations)
    assert residual(A, x, b) <= max(2 * rtol, 1.2 * residual(A, expected, b))
    assert op.solve_info.true_residual == pytest.approx(residual(A, x, b) * np.linalg.norm(b), rel=0.05)
    again = getattr(linalg, solver)(op, b, rtol=rtol, M=given)
    np.testing.assert_array_equal(again[0], x)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("shift", [0.0, 0.05])
def test_minres_goes_as_on_the_real_system(name, shift, device, dtype, rtol):
    real = sp.csr_array(REAL[name]())
    turn = phases(real.shape[0])
    c = vector(real.shape[0], np.float64)
    A, b = sp.csr_array(turned(real)).astype(dtype), (turn.conj() * c).astype(dtype)
    op = sg.aslinearoperator(A, device=device)
    x, info = linalg.minres(op, b, rtol=rtol, shift=shift, check=True)
    y, real_info = linalg.minres(sg.aslinearoperator(real, device=device), c, rtol=rtol, shift=shift)
    assert (info, real_info) == (0, 0)
    scale = np.abs(y).max()
    np.testing.assert_allclose(turn * x, y, rtol=0, atol=(0.05 if dtype == np.complex64 else 1e-4) * scale)


def test_minres_finds_what_is_not_hermitian(device, dtype):
    A, b = system("general", dtype)
    with pytest.raises(ValueError, match="non-symmetric matrix"):
        linalg.minres(sg.aslinearoperator(A, device=device), b, check=True)


def test_cg_finds_what_is_not_definite(device, dtype):
    A, b = system("indefinite", dtype)
    with pytest.warns(linalg.SolverWarning, match="not positive definite"):
        assert linalg.cg(sg.aslinearoperator(A, device=device), b)[1] < 0


@pytest.mark.parametrize("solver", ["cg", "bicgstab", "gmres", "minres"])
def test_small_questions(solver, device):
    solve = getattr(linalg, solver)
    A, b = system("definite", np.dtype("complex128"))
    op, start = sg.aslinearoperator(A, device=device), vector(len(b), b.dtype, seed=5)
    exact = spla.spsolve(A.tocsc(), b)
    for guess in (None, start, start.reshape(-1, 1), exact, "Mb"):
        x, info = solve(op, b, guess, rtol=1e-11)
        assert info == 0
        np.testing.assert_allclose(x, exact, rtol=0, atol=1e-7 * np.abs(exact).max())
    np.testing.assert_array_equal(solve(op, 0 * b, start)[0], 0 * b)
    seen = []
    keep = {"callback_type": "x"} if solver == "gmres" else {}
    x, _ = solve(op, b, rtol=1e-8, callback=lambda xk: seen.append(xk.copy()), **keep)
    np.testing.assert_array_equal(seen[-1], x)
    tiny = sg.aslinearoperator(np.array([[4.0 + 0j]]), device=device)
    np.testing.assert_allclose(solve(tiny, np.array([2.0j]))[0], [0.5j], rtol=1e-12)


@pytest.mark.parametrize("preconditioner", ["jacobi", "chebyshev", "ic0", "block_jacobi", "ilu0"])
def test_preconditioners(preconditioner, device, dtype, rtol):
    scale = 10.0 ** np.random.default_rng(1).uniform(-1, 1, 400)
    A = sp.csr_array(turned(sp.diags_array(scale) @ gallery.poisson2d(20) @ sp.diags_array(scale)))
    A = A.astype(dtype)
    b = A @ vector(400, dtype)
    op = sg.aslinearoperator(A, device=device)
    M = getattr(linalg, preconditioner)(op)
    _, info = linalg.cg(op, b, rtol=rtol, maxiter=4000)
    plain = op.solve_info.iterations
    solver = linalg.bicgstab if preconditioner == "ilu0" else linalg.cg
    x, info = solver(op, b, rtol=rtol, M=M)
    assert info == 0
    assert op.solve_info.iterations < plain / 3
    assert residual(A, x, b) <= 3 * rtol
    assert (M @ b).dtype == dtype
    if preconditioner not in ("jacobi", "ilu0"):  # Hermitian, as cg needs it
        dense = M @ np.eye(400, dtype=dtype) if preconditioner != "jacobi" else None
        np.testing.assert_allclose(dense, dense.conj().T, atol=1e-3 * np.abs(dense).max())


def test_ilu0_is_exact_without_fill_in(device, dtype):
    n = 60
    rng = np.random.default_rng(4)
    diagonals = [rng.standard_normal(n) + 1j * rng.standard_normal(n) for _ in range(3)]
    diagonals[1] += 4j
    A = sp.csr_array(sp.diags_array(diagonals, offsets=[-1, 0, 1], shape=(n, n))).astype(dtype)
    x = vector(n, dtype)
    found = linalg.ilu0(sg.aslinearoperator(A, device=device)) @ (A @ x)
    np.testing.assert_allclose(found, x, rtol=1e-4 if dtype == np.complex64 else 1e-12)


def test_jacobi_needs_a_positive_diagonal(device):
    op = sg.aslinearoperator(np.array([[4.0, 1j], [-1j, 3.0 + 1j]]), device=device)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        linalg.jacobi(op)
    M = linalg.Jacobi(np.array([1j, 2.0]))
    np.testing.assert_array_equal(M.H @ np.ones(2), [-1j, 2.0])


@pytest.mark.parametrize("matrix_type", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("b_type", ["int32", "float32", "float64", "complex64", "complex128"])
def test_types_follow_scipy(matrix_type, b_type):
    """Of matrices that are converted on the way, and of operators that are called."""
    A = sp.csr_array(gallery.poisson2d(5)).astype(matrix_type)
    b = np.arange(1, 26).astype(b_type)
    are_single = {matrix_type, b_type} <= {"float32", "complex64"}
    kinds = ("complex64", "complex128") if "complex" in matrix_type + b_type else ("float32", "float64")
    expected = np.dtype(kinds[0] if are_single else kinds[1])
    for given in (A, spla.aslinearoperator(A), A.toarray()):
        x, info = linalg.cg(given, b)
        assert (info, x.dtype) == (0, expected)
        np.testing.assert_allclose(A @ x, b, rtol=0, atol=1e-3 * 25)


def test_a_real_operator_takes_real_numbers(device):
    op = sg.aslinearoperator(gallery.poisson2d(5), device=device)
    with pytest.raises(TypeError, match=r"b has dtype complex128; .* as the operator is of float64"):
        linalg.cg(op, np.ones(25, complex))
    with pytest.raises(TypeError, match="M returned a vector of dtype complex128; allowed are real numbers"):
        linalg.cg(op, np.ones(25), M=spla.aslinearoperator(1j * sp.eye_array(25)))
    x, info = linalg.cg(op.astype(np.complex128), np.full(25, 1j))
    assert info == 0
    np.testing.assert_array_equal(x.real, 0)


def test_lobpcg(device):
    A = sp.csr_array(turned(gallery.poisson1d(100)))
    start = vector(300, np.complex128).reshape(100, 3)
    w, v = linalg.lobpcg(sg.aslinearoperator(A, device=device), start, tol=1e-6, maxiter=300)
    expected = np.linalg.eigvalsh(A.toarray())[::-1][:3]
    np.testing.assert_allclose(np.sort(w)[::-1], expected, rtol=1e-6)
    np.testing.assert_allclose(A @ v, v * w, atol=1e-4)
