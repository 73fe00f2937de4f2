"""SciPy's solvers take the operator as it is."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from battery import uniform, vector
from support import build, each_format_of, type_fixture

TALL = uniform(120, 80, 9)


dtype = type_fixture()


@pytest.fixture
def spd(dtype):
    """A symmetric positive definite matrix: the 1-D Laplacian plus a shift."""
    neighbours = -np.ones(199)
    diagonals = sp.diags_array([neighbours, np.full(200, 2.5), neighbours], offsets=[-1, 0, 1])
    return sp.csr_array(diagonals, dtype=dtype)


def tolerance(dtype):
    return 1e-4 if dtype == np.float32 else 1e-10


def test_cg(spd, fmt, device):
    b = vector(200, spd.dtype)
    x, info = spla.cg(build(spd, fmt, device), b, rtol=tolerance(spd.dtype))
    assert info == 0
    assert np.linalg.norm(spd @ x - b) <= 10 * tolerance(spd.dtype) * np.linalg.norm(b)


@pytest.mark.parametrize(
    "solver", [spla.gmres, spla.bicgstab, spla.minres, spla.lgmres], ids=lambda f: f.__name__
)
def test_krylov_solvers(solver, spd, fmt, device):
    b = vector(200, spd.dtype)
    x, info = solver(build(spd, fmt, device), b, rtol=tolerance(spd.dtype))
    assert info == 0
    assert np.linalg.norm(spd @ x - b) <= 100 * tolerance(spd.dtype) * np.linalg.norm(b)


@pytest.mark.parametrize("solver", [spla.lsqr, spla.lsmr], ids=lambda f: f.__name__)
@each_format_of(TALL)
def test_least_squares(solver, fmt, device):
    A = TALL
    expected = vector(80, A.dtype)
    x = solver(build(A, fmt, device), A @ expected, atol=1e-13, btol=1e-13)[0]
    np.testing.assert_allclose(x, expected, rtol=1e-6)


def test_eigsh(spd, fmt, device):
    found = spla.eigsh(build(spd, fmt, device), k=3, return_eigenvectors=False, v0=vector(200, spd.dtype))
    np.testing.assert_allclose(np.sort(found), np.linalg.eigvalsh(spd.toarray())[-3:], rtol=1e-4)


@each_format_of(TALL)
def test_svds(fmt, device):
    A = TALL
    found = spla.svds(build(A, fmt, device), k=4, return_singular_vectors=False, v0=vector(80, A.dtype))
    np.testing.assert_allclose(np.sort(found), np.linalg.svd(A.toarray(), compute_uv=False)[3::-1], rtol=1e-8)


def test_power(spd, fmt, device):
    x = vector(200, spd.dtype)
    np.testing.assert_allclose(build(spd, fmt, device) ** 2 @ x, spd @ (spd @ x), rtol=1e-5, atol=1e-5)
