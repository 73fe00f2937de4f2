"""Singular consistent systems whose null space is given: the solution that is orthogonal to it."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import vector
from generators.systems import neumann2d
from spmvgpu import linalg

SOLVERS = ["cg", "minres", "bicgstab", "gmres"]


def two_grids():
    """Two grids that are not connected: vectors that are constant on each."""
    A = sp.csr_array(sp.block_diag([neumann2d(16), neumann2d(7, 9)]))
    basis = np.zeros((A.shape[0], 2))
    basis[:256, 0], basis[256:, 1] = 3.0, -1.0
    basis[:, 1] += basis[:, 0]  # neither orthogonal nor normalised
    return A, basis


def turned(dtype):
    """A Hermitian matrix with a complex null space."""
    phases = np.exp(1j * np.linspace(0, 5, 256))
    D = sp.diags_array(phases)
    return sp.csr_array(D @ neumann2d(16) @ D.conj().T, dtype=dtype), phases


def circulation():
    """Transport round a circle: rows and columns add up to zero, and it is not symmetric."""
    n = 200
    forward = sp.diags_array([1.0, 1.0], offsets=[-1, n - 1], shape=(n, n))
    return sp.csr_array(1.3 * sp.eye_array(n) - forward - 0.3 * forward.T)


def graded():
    """A chain from which nothing returns to its first link: its left null space is another one."""
    A = sp.lil_array(sp.diags_array([-1.0, 1.0], offsets=[-1, 0], shape=(60, 60)))
    A[0, 0] = 0.0
    return sp.csr_array(A)


def shortest(A, b):
    """The solution that is orthogonal to the null space, by SciPy's dense least squares."""
    dense = A.toarray().astype(np.complex128 if A.dtype.kind == "c" else np.float64)
    return np.linalg.lstsq(dense, b, rcond=1e-8)[0]


def tolerance(dtype):
    return 1e-4 if dtype in (np.float32, np.complex64) else 1e-9


@pytest.mark.parametrize("M", [None, "jacobi", "chebyshev", "array", "foreign"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_solution_without_the_constant_part(solver, M, device, dtype):
    A = neumann2d(16).astype(dtype)
    op, n = sg.aslinearoperator(A, device=device), A.shape[0]
    b = A @ vector(n, dtype)
    given = {
        "array": 1 / np.linspace(1, 2, n),
        "foreign": spla.aslinearoperator(sp.diags_array(1 / np.linspace(1, 2, n))),
    }.get(M, M)
    rtol = tolerance(dtype)
    x, info = getattr(linalg, solver)(op, b, rtol=rtol, M=given, nullspace="constant")
    assert info == 0
    assert x.dtype == dtype
    expected = shortest(A, b.astype(np.float64))
    assert abs(x.sum(dtype=np.float64)) <= 10 * np.finfo(dtype).eps * np.abs(x).sum()
    np.testing.assert_allclose(x, expected, rtol=0, atol=200 * rtol * np.abs(expected).max())
    again, _ = getattr(linalg, solver)(op, b, rtol=rtol, M=given, nullspace="constant")
    np.testing.assert_array_equal(again, x)


@pytest.mark.parametrize("solver", SOLVERS)
def test_right_hand_side_outside_the_range(solver, device):
    """The part of b along the null space of a symmetric matrix, and that of the guess, are left out."""
    A = neumann2d(16)
    op, n = sg.aslinearoperator(A, device=device), A.shape[0]
    b = vector(n, np.float64)
    assert abs(b.sum()) > 1e-3
    x, info = getattr(linalg, solver)(op, b, np.full(n, 7.0), rtol=1e-10, nullspace="constant")
    assert info == 0
    np.testing.assert_allclose(x, shortest(A, b), atol=1e-7)
    assert abs(x.sum()) < 1e-10
    assert b[0] == vector(n, np.float64)[0]


@pytest.mark.parametrize("solver", SOLVERS)
def test_several_vectors(solver, device):
    A, basis = two_grids()
    op = sg.aslinearoperator(A, device=device)
    b = A @ vector(A.shape[0], np.float64)
    for given in (basis, basis.tolist(), basis.astype(np.float32), np.asfortranarray(basis)):
        x, info = getattr(linalg, solver)(op, b, rtol=1e-10, M="jacobi", nullspace=given)
        assert info == 0
        np.testing.assert_allclose(basis.T @ x, 0, atol=1e-9)
        np.testing.assert_allclose(x, shortest(A, b), atol=1e-7)
    with pytest.raises(ValueError, match="independent"):
        linalg.cg(op, b, nullspace=np.hstack([basis, basis[:, :1]]))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex(solver, dtype, device):
    A, phases = turned(dtype)
    rng = np.random.default_rng(3)
    b = (A @ (rng.standard_normal(256) + 1j * rng.standard_normal(256))).astype(dtype)
    rtol = tolerance(dtype)
    x, info = getattr(linalg, solver)(sg.aslinearoperator(A, device=device), b, rtol=rtol, nullspace=phases)
    assert info == 0
    expected = shortest(A, b)
    np.testing.assert_allclose(x, expected, rtol=0, atol=200 * rtol * np.abs(expected).max())
    assert abs(np.vdot(phases, x)) <= 1e-4 * np.abs(expected).sum()


@pytest.mark.parametrize("solver", ["bicgstab", "gmres"])
@pytest.mark.parametrize("case", ["circulation", "graded"])
def test_unsymmetric(solver, case, device):
    A = {"circulation": circulation, "graded": graded}[case]()
    n = A.shape[0]
    null = np.ones(n)
    assert np.abs(A @ null).max() < 1e-12
    x_true = vector(n, np.float64)
    b = A @ x_true
    options = {"restart": n} if solver == "gmres" else {}
    x, info = getattr(linalg, solver)(
        sg.aslinearoperator(A, device=device), b, rtol=1e-10, nullspace=null, **options
    )
    assert info == 0
    np.testing.assert_allclose(x, x_true - x_true.mean(), atol=1e-6)


def test_shift_of_minres(device):
    """The null space is that of the shifted matrix."""
    A = sp.csr_array(neumann2d(16) + 2.0 * sp.eye_array(256))
    op = sg.aslinearoperator(A, device=device)
    b = vector(256, np.float64)
    x, info = linalg.minres(op, b, rtol=1e-10, shift=2.0, nullspace="constant")
    assert info == 0
    np.testing.assert_allclose(x, shortest(neumann2d(16), b), atol=1e-7)
    with pytest.raises(ValueError, match="nullspace is not in the null space"):
        linalg.minres(op, b, nullspace="constant")


def test_foreign_operators_and_several_devices(device):
    A = neumann2d(16)
    b = A @ vector(256, np.float64)
    expected = shortest(A, b)
    for given in (
        A,
        spla.aslinearoperator(A),
        sg.aslinearoperator(A, device=[device, device]),
        sg.aslinearoperator(A, device="cpu", format="partitioned", separator=5),
    ):
        x, info = linalg.cg(given, b, rtol=1e-10, nullspace="constant")
        assert info == 0
        np.testing.assert_allclose(x, expected, atol=1e-7)


def test_iterates_stay_orthogonal(device):
    A = neumann2d(16)
    seen = []
    b = vector(256, np.float64)
    linalg.cg(
        sg.aslinearoperator(A, device=device),
        b,
        rtol=1e-9,
        nullspace="constant",
        callback=lambda x: seen.append(x.sum()),
    )
    assert len(seen) > 5
    np.testing.assert_allclose(seen, 0, atol=1e-9)


def test_a_right_hand_side_in_the_null_space(device):
    op = sg.aslinearoperator(neumann2d(16), device=device)
    x, info = linalg.cg(op, np.ones(256), nullspace="constant")
    assert info == 0
    assert np.abs(x).max() < 1e-10


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("constants", ValueError, "nullspace='constants'.*\"constant\""),
        (np.arange(256.0), ValueError, r"nullspace is not in the null space.*norm"),
        (np.ones(7), ValueError, r"nullspace has shape \(7,\)"),
        (np.ones((256, 0)), ValueError, r"nullspace has shape \(256, 0\)"),
        (np.ones((256, 2)), ValueError, "independent"),
        (np.zeros(256), ValueError, "independent"),
        (np.full(256, np.nan), ValueError, "inf or NaN"),
        (np.full(256, 1j), TypeError, "complex"),
        (3.0, TypeError, "nullspace"),
        (sp.eye_array(256), TypeError, "nullspace"),
    ],
    ids=["text", "no_null_vector", "shape", "none", "twice", "zero", "nan", "complex", "number", "sparse"],
)
def test_refusals(given, error, message, device):
    op = sg.aslinearoperator(neumann2d(16), device=device)
    with pytest.raises(error, match=message):
        linalg.gmres(op, np.ones(256), nullspace=given)
