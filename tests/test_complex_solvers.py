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


def test_lobpcg(device):
    A = sp.csr_array(turned(gallery.poisson1d(100)))
    start = vector(300, np.complex128).reshape(100, 3)
    w, v = linalg.lobpcg(sg.aslinearoperator(A, device=device), start, tol=1e-6, maxiter=300)
    expected = np.linalg.eigvalsh(A.toarray())[::-1][:3]
    np.testing.assert_allclose(np.sort(w)[::-1], expected, rtol=1e-6)
    np.testing.assert_allclose(A @ v, v * w, atol=1e-4)
