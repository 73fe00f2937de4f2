"""Conjugate gradients on the operator's device: SciPy's call, SciPy's answers."""

import itertools
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import TYPES, vector
from spmvgpu import gallery
from support import build
from systems import spd

RTOL = {np.dtype("float32"): 1e-4, np.dtype("float64"): 1e-9}


def relative_residual(A, x, b):
    exact = A.astype(np.float64)
    return np.linalg.norm(b - exact @ np.asarray(x, np.float64)) / np.linalg.norm(b)


def count(solve, *args, **options):
    """What a solver gives, and its number of iterations."""
    calls = []
    return *solve(*args, **options, callback=lambda xk: calls.append(None)), len(calls)


@pytest.fixture
def grid(dtype):
    return spd("poisson3d", dtype)


@pytest.fixture
def op(grid, device):
    return sg.aslinearoperator(grid, device=device)


@pytest.fixture
def b(grid):
    return vector(grid.shape[0], grid.dtype)


# Against SciPy


def test_every_format(fmt, device, dtype):
    A = spd("poisson2d", dtype)
    b = vector(A.shape[0], dtype)
    x, info = sg.linalg.cg(build(A, fmt, device), b, rtol=RTOL[dtype])
    assert info == 0
    assert relative_residual(A, x, b) <= 2 * RTOL[dtype]


def test_tolerances(op, grid, b):
    norm = np.linalg.norm(b)
    assert relative_residual(grid, sg.linalg.cg(op, b)[0], b) <= 1.01e-5  # the default of SciPy
    loose, _, few = count(sg.linalg.cg, op, b, rtol=1e-12, atol=1e-2 * norm)
    assert relative_residual(grid, loose, b) <= 1.01e-2
    assert few == count(sg.linalg.cg, op, b, rtol=1e-2)[2]


# Stopping


def test_result_is_the_iterate_of_the_stop(op, b):
    iterates = []
    expected, info = sg.linalg.cg(op, b, callback=lambda xk: iterates.append(xk.copy()))
    assert info == 0
    n = len(iterates)
    assert n > 10
    for maxiter, info in ((None, 0), (n, 0), (n - 1, n - 1), (n - 2, n - 2)):
        x, found = sg.linalg.cg(op, b, maxiter=maxiter)
        assert found == info
        np.testing.assert_array_equal(x, iterates[info - 1])
    np.testing.assert_array_equal(expected, iterates[-1])


# Preconditioner

SPREAD_SIGNS = np.array([3.0, -7.0, 1e-3, 11.0, -1e4, 5.0])


def test_jacobi(device, dtype):
    A = spd("spread_diagonal", dtype)
    b = vector(A.shape[0], dtype)
    op = sg.aslinearoperator(A, device=device)
    M = sg.linalg.jacobi(op)
    np.testing.assert_allclose(M.inverse_diagonal, 1 / A.diagonal(), rtol=1e-6)
    np.testing.assert_array_equal(M @ b, M.inverse_diagonal * b)
    np.testing.assert_array_equal(M.T @ b, M @ b)
    rtol = 1e-5 if dtype == np.float64 else 1e-3  # what float32 reaches without a preconditioner
    x, _, iterations = count(sg.linalg.cg, op, b, M=M, rtol=rtol)
    assert iterations < count(sg.linalg.cg, op, b, rtol=rtol)[2] // 2
    for same in (M.inverse_diagonal, M.inverse_diagonal[:, None], pickle.loads(pickle.dumps(M))):
        np.testing.assert_array_equal(sg.linalg.cg(op, b, M=same, rtol=rtol)[0], x)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_inverse_of_a_diagonal_is_rounded_once(device, dtype):
    """Wherever it is computed; with the sizes of negative entries where the solver needs a definite one."""
    A, b = spd("spread_diagonal", dtype), np.ones(len(SPREAD_SIGNS), dtype)
    signed = sp.csr_array(sp.diags_array(SPREAD_SIGNS).astype(dtype))
    given = sg.aslinearoperator(A, device=device)
    np.testing.assert_array_equal(sg.linalg.jacobi(given).inverse_diagonal, 1 / A.diagonal())
    op = sg.aslinearoperator(signed, device=device, format="csr")
    signs = signed.diagonal()
    for solve, M in ((sg.linalg.minres, 1 / abs(signs)), (sg.linalg.gmres, 1 / signs)):
        for maxiter in (1, 3):
            by_name, _ = solve(op, b, M="jacobi", maxiter=maxiter, rtol=1e-30)
            expected, _ = solve(op, b, M=M.astype(dtype), maxiter=maxiter, rtol=1e-30)
            np.testing.assert_array_equal(by_name, expected)


def test_the_copies_of_jacobi_stay_as_they_were_made(device):
    A = spd("spread_diagonal", np.float64)
    b = vector(A.shape[0], A.dtype)
    op = sg.aslinearoperator(A, device=device)
    given = 1 / A.diagonal()
    M = sg.linalg.Jacobi(given)
    expected, _ = sg.linalg.cg(op, b, M=M)
    given[:] = np.nan
    np.testing.assert_array_equal(sg.linalg.cg(op, b, M=M)[0], expected)
    with pytest.raises(ValueError, match="read-only"):
        M.inverse_diagonal[0] = 1
    with pytest.raises(AttributeError):
        M.inverse_diagonal = np.ones(3)


# Callback


def test_callback_sees_every_iterate(op, grid, b):
    ours, theirs = [], []
    sg.linalg.cg(op, b, maxiter=5, rtol=1e-12, callback=lambda xk: ours.append(xk.copy()))
    spla.cg(grid, b, maxiter=5, rtol=1e-12, callback=lambda xk: theirs.append(xk.copy()))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
def test_threads_that_record_iterations_while_operators_go(cuda_device):
    """Each solver captures an iteration of a system of this size; nothing that others do may spoil it."""
    A = gallery.poisson2d(260)

    def solve(_):
        operators = (sg.aslinearoperator(A, format="dia", device=cuda_device) for _ in range(20))
        return [sg.linalg.cg(op, np.ones(A.shape[0]), maxiter=6)[1] for op in operators]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(solve, range(4))) == [[6] * 20] * 4


# Arrays of other libraries


@pytest.mark.gpu
class TestDeviceArrays:
    @pytest.fixture
    def op(self, grid, cuda_device):
        return sg.aslinearoperator(grid, device=cuda_device)

    def test_current_stream_is_respected(self, op, b, library, cuda_device):
        expected, _ = sg.linalg.cg(op, b)
        given = library.asarray(b, cuda_device)
        late = library.asarray(np.ones_like(b), cuda_device)
        with library.new_stream(cuda_device):
            library.delay()
            library.fill(late, given)
            x, _ = sg.linalg.cg(op, late)
            np.testing.assert_array_equal(library.to_numpy(x), expected)

    def test_callback_gets_the_library(self, op, b, library, cuda_device):
        seen = []
        x, _ = sg.linalg.cg(
            op, library.asarray(b, cuda_device), callback=lambda xk: seen.append(library.to_numpy(xk))
        )
        np.testing.assert_array_equal(seen[-1], library.to_numpy(x))

    def test_vectors_of_two_libraries(self, op, b, library, cuda_device):
        """The guess and a diagonal may be of NumPy, or of any library on the device; b decides the result."""
        expected, _ = sg.linalg.cg(op, b, 2 * b, M=np.full(len(b), 0.5))
        torch = pytest.importorskip("torch")
        kinds = [
            lambda x: x,
            lambda x: library.asarray(x, cuda_device),
            partial(torch.tensor, device=cuda_device),
        ]
        for right, guess, diagonal in itertools.product(kinds, repeat=3):
            given = right(b)
            x, _ = sg.linalg.cg(op, given, guess(2 * b), M=diagonal(np.full(len(b), 0.5)))
            assert type(x) is type(given)
            np.testing.assert_array_equal(sg.linalg.Jacobi(x).inverse_diagonal, expected)
        with pytest.raises(ValueError, match=rf"x0 is on '{cuda_device}', but .* on 'cpu'; move one of them"):
            sg.linalg.cg(spla.aslinearoperator(op.tocsr()), b, library.asarray(b, cuda_device))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("M", [None, "jacobi"])
def test_cg_goes_on_until_nothing_is_left_of_the_residual(M, dtype, device):
    """Without a tolerance, residuals become smaller than the type holds; that says nothing of the matrix."""
    A = sg.gallery.poisson2d(20).astype(dtype)
    op = sg.aslinearoperator(A, device=device)
    b = np.random.default_rng(3).standard_normal(400).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.linalg.SolverWarning)
        x, _ = sg.linalg.cg(op, b, rtol=0, maxiter=5000, M=M)
    assert op.solve_info.status in ("exhausted", "stagnated", "converged")
    assert np.linalg.norm(b - A @ x) <= 1e3 * np.finfo(dtype).eps * np.linalg.norm(b)
