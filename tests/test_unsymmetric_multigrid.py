"""`amg` for matrices that are not symmetric or Hermitian, as a preconditioner of `gmres` and `bicgstab`."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import vector
from generators.systems import convection
from spmvgpu import gallery, linalg


def upwind3d(n, peclet):
    """Convection across a cube, with upwind differences."""
    back, eye = sp.diags_array([1.0, -1.0], offsets=[0, -1], shape=(n, n)), sp.eye_array(n)
    along = sp.kron(sp.kron(back, eye), eye) + 0.5 * sp.kron(sp.kron(eye, back), eye)
    return sp.csr_array(gallery.poisson3d(n) + peclet * along)


def walk(n, seed=1):
    """I - 0.999 P for a random walk on a grid, whose weights are not symmetric."""
    W = sp.coo_array(gallery.poisson2d(n))
    W = sp.csr_array((np.random.default_rng(seed).uniform(1, 3, W.nnz) * (W.row != W.col), (W.row, W.col)))
    W.eliminate_zeros()
    return sp.csr_array(sp.eye_array(n * n) - 0.999 * sp.diags_array(1 / W.sum(axis=1)) @ W)


def shifted(n):
    """A shifted Laplacian: complex symmetric, with a negative eigenvalue of the real part."""
    return sp.csr_array(gallery.poisson2d(n) - (1 - 0.5j) * 0.3**2 * sp.eye_array(n * n))


# By name: the matrix for a size, and two sizes.
CASES = {
    "convection": (convection, 40, 120),
    "low": (lambda n: upwind3d(n, 1.0), 12, 26),
    "high": (lambda n: upwind3d(n, 1e4)[::-1, ::-1], 12, 26),
    "walk": (walk, 40, 120),
    "shifted": (shifted, 40, 120),
}
SOLVERS = [linalg.gmres, linalg.bicgstab]


def iterations(A, solver, M, device="cpu"):
    """Of a solve, which must reach its tolerance."""
    b = vector(A.shape[0], A.dtype)
    op = M.A if isinstance(M, linalg.Multigrid) else sg.aslinearoperator(A, device=device)
    x, info = solver(op, b, rtol=1e-8, M=M, maxiter=300)
    assert info == 0
    assert np.linalg.norm(b - A @ x) <= 1.01e-8 * np.linalg.norm(b)
    return op.solve_info.iterations


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("solver", SOLVERS)
def test_iterations_hardly_grow(name, solver, device):
    make, small, large = CASES[name]
    few, many = (iterations(A, solver, linalg.amg(A, device=device)) for A in (make(small), make(large)))
    assert many <= 2.2 * few
    assert many <= (60 if solver is linalg.gmres else 35)


@pytest.mark.parametrize("name", ["convection", "walk", "shifted"])
def test_fewer_iterations_than_ilu0(name):
    A = CASES[name][0](120)
    assert 2 * iterations(A, linalg.bicgstab, linalg.amg(A, device="cpu")) < iterations(
        A, linalg.bicgstab, "ilu0"
    )


@pytest.mark.parametrize("solver", SOLVERS)
def test_by_name(solver, device):
    A = convection(60)
    assert iterations(A, solver, "amg", device) <= 60


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("smoother", ["chebyshev", "jacobi"])
def test_types_and_smoothers(dtype, smoother, device):
    A = convection(40).astype(dtype)
    if A.dtype.kind == "c":
        A = sp.csr_array(A + 0.3j * sp.eye_array(A.shape[0]).astype(dtype))
    b = vector(A.shape[0], dtype)
    M = linalg.amg(A, device=device, smoother=smoother)
    assert M.dtype == dtype
    x, info = linalg.gmres(M.A, b, rtol=1e-4, M=M, maxiter=5)
    assert info == 0
    assert np.linalg.norm(b - A @ x) <= 1.1e-4 * np.linalg.norm(b)


@pytest.mark.parametrize("name", CASES)
def test_levels_are_galerkin_products(name, device):
    """With a restrictor that is smoothed by the adjoint, and not the adjoint of the prolongator."""
    make, n, _ = CASES[name]
    A = make(n)
    M = linalg.amg(A, device=device, max_coarse=20)
    assert len(M.levels) > 2
    for fine, coarse in zip(M.levels[:-1], M.levels[1:], strict=True):
        R, of_fine, P = (op.tocsr() for op in (fine.R, fine.A, fine.P))
        expected = (R @ of_fine @ P).toarray()
        np.testing.assert_allclose(coarse.A.tocsr().toarray(), expected, atol=1e-12 * np.abs(expected).max())
    first = M.levels[0]
    if name != "convection":  # where an entry is weak, and its mirror image is not
        of_adjoint = linalg.amg(A.conj().T.tocsr(), device=device, max_coarse=20).levels[0]
        expected = of_adjoint.P.tocsr().toarray().conj().T
        np.testing.assert_allclose(first.R.tocsr().toarray(), expected, atol=1e-14)
    assert abs(first.R.tocsr() - first.P.tocsr().conj().T).max() > (0 if name == "shifted" else 1e-3)


@pytest.mark.parametrize("name", CASES)
def test_adjoint(name, device):
    make, n, _ = CASES[name]
    M = linalg.amg(make(n), device=device, max_coarse=20)
    x, y = (vector(M.shape[0], M.dtype, seed=seed) for seed in (1, 2))
    assert np.vdot(M @ x, y) == pytest.approx(np.vdot(x, M.H @ y), rel=1e-10)
    H = M.H
    op = M.A.H
    b = vector(M.shape[0], M.dtype)
    x, info = linalg.gmres(op, b, rtol=1e-8, M=H, maxiter=20)
    assert info == 0


@pytest.mark.parametrize("name", CASES)
def test_pickled_copies_have_the_same_bits(name, device):
    make, n, _ = CASES[name]
    M = linalg.amg(make(n), device=device, max_coarse=20)
    x = vector(M.shape[0], M.dtype)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(M)) @ x, M @ x)


@pytest.mark.parametrize("name", CASES)
def test_new_values(name, device):
    """Of a hierarchy and of its adjoint: as those of a new one with the same aggregates."""
    make, n, _ = CASES[name]
    A = make(n)
    B = sp.csr_array(A + 0.5 * sp.diags_array(np.linspace(1, 2, A.shape[0])))
    M = linalg.amg(A, device=device, max_coarse=20)
    adjoint, before = M.H, M @ vector(A.shape[0], A.dtype)
    M.update_values(B)
    N = linalg.amg(A, device=device, max_coarse=20)
    x, y = (vector(A.shape[0], A.dtype, seed=seed) for seed in (1, 2))
    assert np.vdot(M @ x, y) == pytest.approx(np.vdot(x, adjoint @ y), rel=1e-10)
    for level, old in zip(M.levels, N.levels, strict=True):
        assert level.A.nnz == old.A.nnz
    fine = M.levels[0]
    product = (fine.R.tocsr() @ B @ fine.P.tocsr()).toarray()
    np.testing.assert_allclose(M.levels[1].A.toarray(), product, atol=1e-12 * np.abs(product).max())
    M.update_values(A)
    np.testing.assert_array_equal(M @ vector(A.shape[0], A.dtype), before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(M)) @ x, M @ x)


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_every_device_makes_the_same_bits(name, cuda_device):
    make, n, _ = CASES[name]
    here, there = (linalg.amg(make(n), device=on, max_coarse=20) for on in ("cpu", cuda_device))
    for one, other in zip(here.levels, there.levels, strict=True):
        for A, B in zip(one, other, strict=True):
            assert (A is None) == (B is None)
            if A is not None:
                np.testing.assert_array_equal(A.tocsr().data, B.tocsr().data)


def test_nearly_symmetric_matrices_are_symmetric(device):
    """Rounding errors, and a weak flow, do not change the method; the owner of the matrix may decide."""
    A = gallery.poisson2d(40)
    B = sp.csr_array(A + sp.diags_array([1e-6, -1e-6], offsets=[-1, 1], shape=A.shape))
    for matrix, options in ((A, {}), (B, {}), (convection(40), {"symmetric": True})):
        level = linalg.amg(matrix, device=device, **options).levels[0]
        assert abs(level.R.tocsr() - level.P.tocsr().T).max() == 0
    M = linalg.amg(A, device=device, symmetric=False)
    assert linalg.gmres(M.A, np.ones(1600), rtol=1e-8, M=M)[1] == 0
    wind = sp.diags_array([-0.9, 0.9], offsets=[-1, 1], shape=A.shape)
    M.update_values(sp.csr_array(A + wind.multiply(A != 0)))
    assert linalg.gmres(M.A, np.ones(1600), rtol=1e-8, M=M)[1] == 0


def test_blocks_and_vectors(device):
    """Two unknowns of each node of a grid, with another flow for each."""
    A = convection(30)
    K = sp.csr_array(sp.kron(A, np.array([[1.0, 0.2], [0.0, 0.0]])) + sp.kron(A.T, np.diag([0.0, 1.0])))
    for options in ({"block": 2}, {"block": 2, "strength": 0.1}, {"B": np.linspace(1, 2, 1800)}):
        M = linalg.amg(K, device=device, **options)
        x, info = linalg.gmres(M.A, np.ones(1800), rtol=1e-8, M=M, maxiter=10)
        assert info == 0
        N = pickle.loads(pickle.dumps(M))
        np.testing.assert_array_equal(N @ x, M @ x)


def test_several_devices_share_nothing():
    """The hierarchy is on the first device."""
    op = sg.aslinearoperator(convection(120), device=["cpu", "cpu"])
    M = linalg.amg(op)
    assert linalg.gmres(op, np.ones(14400), rtol=1e-8, M=M)[1] == 0
    assert isinstance(M, linalg.Multigrid)


def test_amli_is_refused(device):
    with pytest.raises(ValueError, match="'AMLI' is for a symmetric or Hermitian matrix; use 'V'"):
        linalg.amg(convection(30), cycle="AMLI", device=device)


def test_indefinite_coarse_levels_of_complex_matrices(device):
    """Of a wave with ten points: the real part of a coarse diagonal is negative; the cycle still helps."""
    A = sp.csr_array(gallery.poisson2d(150) - (1 - 0.5j) * 0.6**2 * sp.eye_array(22500))
    assert iterations(A, linalg.bicgstab, linalg.amg(A, device=device)) <= 60


def test_a_coarse_diagonal_that_is_not_positive_ends_the_levels(device):
    A = convection(80)
    M = linalg.amg(A, max_coarse=5, device=device)
    assert M.levels[-1].A.shape[0] > 5
    assert iterations(A, linalg.bicgstab, M) <= 15


def test_matrices_that_do_not_suit_are_refused(device):
    """A walk that drifts to one side of a grid: the adjoint has no near null vector like a constant."""
    W = sp.coo_array(gallery.poisson2d(60))
    weights = np.where(W.col > W.row, 20.0, 1.0) * (W.row != W.col)
    W = sp.csr_array((weights, (W.row, W.col)))
    A = sp.csr_array(sp.eye_array(3600) - 0.9999 * sp.diags_array(1 / W.sum(axis=1)) @ W)
    with pytest.raises(np.linalg.LinAlgError, match=r"amg does not suit.*use ilu0\(op\) or jacobi\(op\)"):
        linalg.amg(A, device=device)
