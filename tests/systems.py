"""Matrices for the tests of solvers, most of them symmetric positive definite; and how those are called."""

import contextlib

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from battery import matrix
from generators.systems import flow
from internals import let_one_device_have
from spmvgpu import gallery


def spread_diagonal():
    """A grid whose unknowns are scaled very differently, which the Jacobi preconditioner takes back."""
    scale = sp.diags_array(10.0 ** np.random.default_rng(1).uniform(-1, 1, 400))
    return scale @ gallery.poisson2d(20) @ scale


def normal_equations(case, shift):
    """A battery case, squared and shifted: long rows, dense columns and all."""
    A = matrix(case, np.dtype("float64"))
    return A.T @ A + shift * sp.eye_array(A.shape[1])


SPD = {
    "1x1": lambda: sp.csr_array([[3.0]]),
    "diagonal": lambda: matrix("diagonal", np.dtype("float64")),
    "poisson1d": lambda: gallery.poisson1d(300) + 0.01 * sp.eye_array(300),
    "poisson2d": lambda: gallery.poisson2d(37, 23),
    "poisson3d": lambda: gallery.poisson3d(13),
    "poisson3d_contrast": lambda: gallery.poisson3d(10, points=27, contrast=100.0),
    "elasticity3d": lambda: gallery.elasticity3d(5),
    "spread_diagonal": spread_diagonal,
    "arrow": lambda: normal_equations("arrow", 1000.0),
    "long_row": lambda: normal_equations("dense_row_first", 500.0),
    "empty_rows": lambda: normal_equations("empty_rows_middle", 1.0),
}


def spd(name, dtype):
    return sp.csr_array(SPD[name](), dtype=dtype)


def phases(n):
    return np.exp(2j * np.pi * np.random.default_rng(3).uniform(size=n))


def turned(A):
    """A Hermitian matrix with the spectrum of a symmetric one, whose solutions differ by phases alone."""
    turn = sp.diags_array(phases(A.shape[0]))
    return turn.conj() @ A @ turn


def convection():
    return flow(24)


def counted(package, solver, A, b, **options):
    """What a solver of a package gives, and how often it called back."""
    if (package, solver) == (spla, "minres"):
        return minres_of_scipy(A, b, **options)
    calls = []
    if solver == "gmres":
        options["callback_type"] = "pr_norm"
    return *getattr(package, solver)(A, b, **options, callback=lambda _: calls.append(None)), len(calls)


def minres_of_scipy(A, b, rtol, **options):
    """SciPy's iterates up to the first whose residual is small, by which SciPy's own tests do not go."""
    iterates = []

    class DoneError(Exception):
        pass

    def look(x):
        iterates.append(np.array(x))
        if np.linalg.norm(b - A @ x) <= rtol * np.linalg.norm(b):
            raise DoneError

    with contextlib.suppress(DoneError):
        spla.minres(A, b, rtol=1e-15, callback=look, **options)
    return iterates[-1], 0, len(iterates)


def with_empty(A, stored_zeros=False):
    """A matrix between empty rows and columns, and where these are; they may have zeros that are stored."""
    n, rows = A.shape[0], np.array([0, 7, A.shape[0] + 2])
    at = np.delete(np.arange(n + 3), rows)
    A = A.tocoo()
    row, col, data = at[A.row], at[A.col], A.data
    if stored_zeros:
        row, col = np.concatenate([row, rows, rows]), np.concatenate([col, rows, rows[::-1]])
        data = np.concatenate([data, np.zeros(6, data.dtype)])
    return sp.csr_array((data, (row, col)), shape=(n + 3, n + 3)), rows


def tied_far_apart():
    """A grid of which some unknowns have one strong connection, with another half of all rows away."""
    A = sp.coo_array(gallery.poisson2d(40))
    rows = np.arange(0, 800, 11)
    ties = sp.coo_array((np.full(len(rows), 1e4), (rows, rows + 800)), shape=A.shape)
    ties = ties + ties.T
    return sp.csr_array(A + sp.diags_array(ties.sum(axis=1)) - ties)


def shuffled(A):
    """The same matrix with rows and columns in no order."""
    order = np.random.default_rng(3).permutation(A.shape[0])
    return sp.csr_array(sp.csr_array(A)[order][:, order])


# By name: the matrix, its near null space, and how many times the iterations of one piece several may take.
MULTIGRID = {
    "grid": lambda: (gallery.poisson3d(14), None, 1.15),
    "single precision": lambda: (gallery.poisson3d(12, dtype="float32"), None, 1.15),
    "plane": lambda: (gallery.poisson2d(40), None, 1.15),
    "jumps": lambda: (gallery.poisson2d(30, contrast=1e4), None, 1.15),
    "complex": lambda: (turned(gallery.poisson2d(30)), None, 1.15),
    "elastic": lambda: (
        gallery.elasticity3d(7),
        gallery.rigid_body_modes(gallery.elasticity3d_points(7)),
        1.15,
    ),
    "tied": lambda: (tied_far_apart(), None, 1.15),
    "shuffled": lambda: (shuffled(gallery.poisson2d(30)), None, 1.5),
    "tiny": lambda: (gallery.poisson1d(3), None, 3.0),
}


@pytest.fixture(params=["all", "one"])
def levels_in_pieces(request, monkeypatch):
    """How many levels of multigrid are in pieces, but for the coarsest one."""
    let_one_device_have(monkeypatch, 0 if request.param == "all" else 1 << 40)


def with_zeros(A):
    """The same matrix with entries of zero that have no mirror image."""
    entries = sp.coo_array(A)
    n, zeros = A.shape[0], np.zeros(3, A.dtype)
    rows, cols = (0, n // 2, n - 1), (n - 1, 3, n // 3)
    places = np.concatenate((entries.row, rows)), np.concatenate((entries.col, cols))
    return sp.csr_array((np.concatenate((entries.data, zeros)), places), shape=A.shape)


def nearly_inverted(A, M, apply):
    """Vectors, and what multigrid makes of each of them, which is definite and nearly the inverse."""
    assert M.H is M
    assert len(M.levels) > 2
    assert M.operator_complexity > 1
    assert M.nbytes > 0
    rng = np.random.default_rng(2)
    X = rng.standard_normal((A.shape[0], 6)).astype(A.dtype)
    if A.dtype.kind == "c":
        X = X + 1j * rng.standard_normal(X.shape)
    Y = np.stack([apply(x) for x in X.T], axis=1)
    inner = X.conj().T @ Y
    np.testing.assert_allclose(inner, inner.conj().T, rtol=0, atol=1e-11 * np.abs(inner).max())
    assert np.linalg.eigvalsh(inner).min() > 0
    error = np.linalg.eigvals(np.linalg.solve(X.conj().T @ X, X.conj().T @ (A @ Y)))
    assert np.abs(error).max() < 4
    return X, Y
