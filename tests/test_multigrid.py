"""`amg`: hierarchies of aggregation beside dense references and pyamg, the same on every device."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg as la
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import vector
from generators.systems import blocks, log_normal, neumann2d, reservoir, rotated, singular
from spmvgpu import gallery, linalg


def hermitian(n):
    """A 2-D grid in a magnetic field: Hermitian, positive definite."""
    A = sp.coo_array(gallery.poisson2d(n))
    phase = np.where(A.col - A.row == 1, np.exp(0.1j), np.where(A.col - A.row == -1, np.exp(-0.1j), 1))
    return sp.csr_array((A.data * phase, (A.row, A.col)), A.shape) + 0.05 * sp.eye_array(n * n)


def disconnected():
    alone = sp.diags_array(np.arange(1.0, 301.0))
    return sp.block_diag([gallery.poisson2d(25), alone, gallery.poisson3d(9)])


def stretched(n):
    """Strong connections along one axis only."""
    one, eye = gallery.poisson1d(n), sp.eye_array(n)
    return sp.kron(one, eye) + 1e-3 * sp.kron(eye, one)


# By name: the matrix, vectors B or None, and unknowns per node or None.
CASES = {
    "poisson2d": lambda: (gallery.poisson2d(40), None, None),
    "poisson3d": lambda: (gallery.poisson3d(14), None, None),
    "jumps": lambda: (gallery.poisson3d(12, contrast=1e4), None, None),
    "stretched": lambda: (stretched(40), None, None),
    "rotated": lambda: (rotated(30, 30, 1e-2, elements=True), None, None),
    "elasticity2d": lambda: (
        gallery.elasticity2d(16),
        gallery.rigid_body_modes(gallery.elasticity2d_points(16)),
        None,
    ),
    "elasticity3d": lambda: (
        gallery.elasticity3d(8),
        gallery.rigid_body_modes(gallery.elasticity3d_points(8)),
        None,
    ),
    "blocks": lambda: (gallery.elasticity3d(8), None, 3),
    "hermitian": lambda: (hermitian(30), None, None),
    "disconnected": lambda: (disconnected(), None, None),
    "powerlaw": lambda: (laplacian(), None, None),
}


def laplacian(n=2000):
    """Of a graph with hubs, shifted."""
    G = gallery.powerlaw(n, 6, seed=3)
    G = abs(G + G.T)
    return sp.csr_array(sp.diags_array(1.01 * G.sum(axis=1) + 0.1) - G)


def case(name, dtype=None):
    A, B, block = CASES[name]()
    A = sp.csr_array(A)
    A.sort_indices()
    return (A if dtype is None else A.astype(dtype)), B, block


def made(name, device="cpu", dtype=None, **options):
    A, B, block = case(name, dtype)
    return A, linalg.amg(A, B=B, block=block, device=device, **options)


def matrices(M):
    """A, R and P of every level as csr_arrays."""
    return [tuple(op and op.tocsr() for op in level) for level in M.levels]


def iterations(M, b, rtol=1e-8):
    x, info = linalg.cg(M.A, b, M=M, rtol=rtol)
    assert info == 0
    return x, M.A.solve_info.iterations


both_cycles = pytest.mark.parametrize("cycle", ["V", "AMLI"])


@both_cycles
@pytest.mark.parametrize("name", CASES)
def test_levels_are_galerkin_products(name, cycle, device):
    A, M = made(name, device, max_coarse=60, cycle=cycle)
    levels = matrices(M)
    assert len(levels) >= 2
    np.testing.assert_array_equal(levels[0][0].toarray(), A.toarray())
    for (fine, R, P), (coarse, *_) in pairwise(levels):
        assert fine.shape[0] > 1.1 * coarse.shape[0]
        np.testing.assert_array_equal(R.toarray(), P.toarray().conj().T)
        expected = R.toarray() @ fine.toarray() @ P.toarray()
        scale = np.abs(expected).max()
        np.testing.assert_allclose(coarse.toarray(), expected, rtol=0, atol=1e-13 * scale)


@both_cycles
@pytest.mark.parametrize("name", CASES)
def test_solves(name, cycle, device):
    A, M = made(name, device, max_coarse=60, cycle=cycle)
    b = vector(A.shape[0], A.dtype)
    x, count = iterations(M, b)
    assert np.linalg.norm(b - A @ x) <= 2e-8 * np.linalg.norm(b)
    assert count <= 30
    np.testing.assert_array_equal(iterations(M, b)[0], x)


@both_cycles
@pytest.mark.parametrize("smoother", ["chebyshev", "jacobi"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_types_and_smoothers(dtype, smoother, cycle, device):
    dtype = np.dtype(dtype)
    options = {"smoother": smoother, "cycle": cycle, "max_coarse": 60}
    A, M = made("hermitian" if dtype.kind == "c" else "poisson3d", device, dtype, **options)
    assert len(M.levels) > 2
    assert M.dtype == dtype
    single = dtype.itemsize // (2 if dtype.kind == "c" else 1) == 4
    b = vector(A.shape[0], dtype)
    x, count = iterations(M, b, 1e-4 if single else 1e-8)
    assert np.linalg.norm(b - A @ x) <= (2e-4 if single else 2e-8) * np.linalg.norm(b)
    assert count <= 20
    # The cycle is Hermitian.
    columns = M @ np.eye(A.shape[0], dtype=dtype)[:, :20]
    np.testing.assert_allclose(columns[:20], columns[:20].conj().T, atol=1e-6 * np.abs(columns).max())
    for solver in (linalg.minres, linalg.gmres, linalg.bicgstab):
        assert solver(M.A, b, M=M, rtol=1e-3)[1] == 0
    other = sg.aslinearoperator(A, device="cpu", dtype=np.result_type(dtype, np.float64))
    assert linalg.cg(other, b.astype(other.dtype), M=M, rtol=1e-3)[1] == 0  # by callbacks
    assert spla.cg(A, b, M=M, rtol=1e-3)[1] == 0


@pytest.mark.gpu
@both_cycles
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [None, np.float32])
def test_every_device_makes_the_same_bits(name, dtype, cycle, cuda_device):
    if name == "hermitian" and dtype is not None:
        dtype = np.complex64
    _, host = made(name, "cpu", dtype, max_coarse=60, cycle=cycle)
    _, there = made(name, cuda_device, dtype, max_coarse=60, cycle=cycle)
    assert_same(there, host)
    A, *_ = case(name, dtype)
    host.update_values(3 * A)
    there.update_values(3 * A)
    assert_same(there, host)


@pytest.mark.gpu
@both_cycles
@pytest.mark.parametrize(
    "make",
    [
        lambda: gallery.poisson3d(24, contrast=100),
        lambda: laplacian(12_000),
        lambda: rotated(120, 30, 1e-3, elements=False),
        lambda: arrow(9_000),
        lambda: gallery.elasticity3d(9),
    ],
)
def test_every_device_makes_the_same_bits_of_many_rows(make, cycle, cuda_device):
    """A GPU does other things with many rows, and with long rows among many."""
    A = make()
    host, there = (linalg.amg(A, device=device, cycle=cycle) for device in ("cpu", cuda_device))
    assert_same(there, host)


def arrow(n):
    """A grid in which one unknown is connected with all others, so that a row of a product has thousands."""
    A = sp.lil_array(gallery.poisson2d(n // 60, 60))
    A[0], A[:, 0] = -1, -1
    A[0, 0] = n
    return sp.csr_array(A + sp.eye_array(A.shape[0]))


def assert_same(M, N):
    for ours, theirs in zip(matrices(M), matrices(N), strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_array_equal(one.indptr, other.indptr)
                np.testing.assert_array_equal(one.indices, other.indices)
                np.testing.assert_array_equal(one.data, other.data)
    for level in range(M._hierarchy.levels):
        assert M._hierarchy.largest_eigenvalue(level) == N._hierarchy.largest_eigenvalue(level)


@both_cycles
@pytest.mark.parametrize("name", CASES)
def test_threads_do_not_change_the_bits(name, cycle):
    with sg.limit_threads(1):
        _, one = made(name, cycle=cycle)
    with sg.limit_threads(7):
        _, several = made(name, cycle=cycle)
    assert_same(several, one)


@pytest.mark.parametrize("name", ["poisson2d", "poisson3d", "jumps", "elasticity3d"])
def test_iterations_beside_pyamg(name, device):
    pyamg = pytest.importorskip("pyamg")
    A, M = made(name, device, max_coarse=60)
    _, B, _ = case(name)
    matrix = sp.bsr_matrix(A, blocksize=(3, 3)) if name == "elasticity3d" else sp.csr_matrix(A)
    other = linalg.aspreconditioner(
        pyamg.smoothed_aggregation_solver(matrix, B=B, max_coarse=60), device=device
    )
    b = vector(A.shape[0], A.dtype)
    _, ours = iterations(M, b)
    assert linalg.cg(M.A, b, M=other, rtol=1e-8)[1] == 0
    assert ours <= 1.25 * M.A.solve_info.iterations + 1


# By name: the matrix, the most iterations, and the largest operator complexity.
COEFFICIENTS = {
    "blocks": (lambda: blocks(40, 6, 5), 13, 1.55),
    "log-normal": (lambda: log_normal(32, 5), 13, 1.55),
    "reservoir": (lambda: reservoir(40, 5), 17, 2.05),
    "rotated elements": (lambda: rotated(120, 30, 1e-3, elements=True), 21, 1.5),
    "rotated differences": (lambda: rotated(120, 30, 1e-3, elements=False), 27, 1.35),
}


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_coefficients(name, device):
    """Aggregates follow strong connections, so that jumps and directions cost few iterations."""
    make, most, complexity = COEFFICIENTS[name]
    M = linalg.amg(make(), device=device)
    assert M.operator_complexity <= complexity
    assert iterations(M, vector(M.A.shape[0], M.dtype))[1] <= most


def test_strength():
    """Strong entries are negative and large in their row; without a threshold, all are strong."""
    n = 24
    one, eye = gallery.poisson1d(n), sp.eye_array(n)
    for along in (1e-3 * one, 0.3 * abs(one)):  # weak by size, and by sign
        A = sp.csr_array(sp.kron(one, eye) + sp.kron(eye, along))
        found = linalg.amg(A, device="cpu")._hierarchy.aggregates(0).reshape(n, n)
        assert all(len(set(found[:, line]) & set(found[:, line + 1])) == 0 for line in range(n - 1))
    found = linalg.amg(A, device="cpu", strength=0.0)._hierarchy.aggregates(0).reshape(n, n)
    assert any(set(found[:, line]) & set(found[:, line + 1]) for line in range(n - 1))
    # Many equal entries are strong, though small beside the diagonal, and so are positive ones alone.
    box = sp.diags_array([1.0] * 5, offsets=range(-2, 3), shape=(9, 9))
    wide = sp.kron(box, sp.kron(box, box))
    for matrix in (sp.diags_array(wide.sum(axis=1) + 1e-3) - wide, abs(gallery.poisson2d(30))):
        assert linalg.amg(sp.csr_array(matrix), device="cpu", max_coarse=100).levels[1].A.shape[0] < 200


def test_aggregates():
    """Every node with a strong neighbour is in an aggregate, which is connected, and all numbers are used."""
    from scipy.sparse.csgraph import connected_components

    for name in ("poisson2d", "poisson3d", "jumps", "powerlaw", "disconnected"):
        A, M = made(name, strength=0.0)
        found = M._hierarchy.aggregates(0)
        off_diagonal = A - sp.diags_array(A.diagonal())
        off_diagonal.eliminate_zeros()
        has_neighbour = np.diff(sp.csr_array(off_diagonal).indptr) > 0
        np.testing.assert_array_equal(found >= 0, has_neighbour)
        count = found.max() + 1
        np.testing.assert_array_equal(np.unique(found[found >= 0]), np.arange(count))
        inside = sp.coo_array(off_diagonal)
        kept = found[inside.row] == found[inside.col]
        within = sp.csr_array((np.ones(kept.sum()), (inside.row[kept], inside.col[kept])), A.shape)
        assert connected_components(within)[0] == count + (found < 0).sum()


@both_cycles
def test_prolongators_hold_the_near_null_space(cycle, device):
    """Unsmoothed ones map coarse vectors to B; smoothed ones do, where A maps B to zero."""
    n = 12
    A = gallery.elasticity3d(n)
    B = gallery.rigid_body_modes(gallery.elasticity3d_points(n))
    M = linalg.amg(A, B=B, device=device, max_coarse=60, cycle=cycle)
    P = M.levels[0].P.tocsr()
    if cycle == "AMLI":
        np.testing.assert_allclose((P.T @ P).toarray(), np.eye(P.shape[1]), rtol=0, atol=1e-12)
        assert P.nnz == 6 * A.shape[0]
    interior = (np.abs(A @ B).max(axis=1) < 1e-10) | (cycle == "AMLI")  # away from the clamped face
    assert interior.mean() > 0.8
    coarse, *_ = np.linalg.lstsq(P.toarray()[interior], B[interior])
    np.testing.assert_allclose((P @ coarse)[interior], B[interior], rtol=0, atol=1e-9)
    assert M.levels[1].A.shape[0] % 6 == 0


@pytest.mark.parametrize("kind", ["constant", "real", "complex"])
@pytest.mark.parametrize(
    "grid", [lambda seed: blocks(10, 6, seed), lambda seed: rotated(26, 20 + seed, 1e-3, elements=True)]
)
def test_filtered_prolongators_hold_the_near_null_vector(grid, kind, device):
    """Weak entries go to the diagonal so that each level's vector stays in the range, also for new values."""
    rng = np.random.default_rng(1)
    n = grid(1).shape[0]
    B = np.ones(n) if kind == "constant" else rng.uniform(0.3, 3, n)
    if kind == "complex":
        B = B * np.exp(1j * rng.uniform(0, 6, n))
    scaling = sp.diags_array(1 / B)

    def matrix(seed):
        A = sp.csr_array(scaling.conj() @ singular(grid(seed)) @ scaling)
        assert np.abs(A @ B).max() < 1e-12 * np.abs(A.data).max()
        return A

    M = linalg.amg(matrix(1), B=None if kind == "constant" else B, device=device, max_coarse=20)
    assert len(M.levels) > 2
    for seed in (1, 2):
        M.update_values(matrix(seed))
        finer = B
        for level in M.levels[:-1]:
            P = level.P.toarray()
            coarse = np.linalg.lstsq(P, finer, rcond=None)[0]
            np.testing.assert_allclose(P @ coarse, finer, rtol=0, atol=1e-8 * np.abs(finer).max())
            finer = coarse
    M.update_values(matrix(1))
    assert_same(M, linalg.amg(matrix(1), B=None if kind == "constant" else B, device=device, max_coarse=20))


def test_dependent_vectors_are_left_out(device):
    A = gallery.poisson2d(30)
    one = np.ones(A.shape[0])
    M = linalg.amg(A, B=np.column_stack([one, 2 * one, 0 * one]), block=1, device=device)
    assert_same(M, linalg.amg(A, B=one, strength=0.0, device=device))


def test_repr():
    M = linalg.amg(gallery.poisson2d(20), device="cpu", max_coarse=100)
    assert repr(M).startswith("<400x400 Multigrid of float64 on 'cpu': 400 and ")
    assert f"operator complexity {M.operator_complexity:.2f}" in repr(M)
    assert M.operator_complexity == sum(level.A.nnz for level in M.levels) / M.A.nnz
    assert M.nbytes > 8 * M.levels[1].A.nnz
    N = linalg.amg(gallery.poisson2d(20), device="cpu", max_coarse=100, cycle="AMLI")
    assert repr(N).endswith(f"operator complexity {N.operator_complexity:.2f}, AMLI cycles>")
    assert N.operator_complexity < M.operator_complexity
    assert N.nbytes < M.nbytes


@pytest.mark.parametrize("smoother", ["chebyshev", "jacobi"])
@pytest.mark.parametrize("make", [gallery.poisson2d, stretched, neumann2d])
def test_amli_cycles_are_definite(make, smoother, device):
    """However many levels there are, and where V-cycles of unsmoothed aggregates converge slowly."""
    A = make(24)
    M = linalg.amg(A, device=device, max_coarse=8, cycle="AMLI", smoother=smoother)
    assert len(M._visited_twice()) >= 2
    of_M = M @ np.eye(A.shape[0])
    np.testing.assert_allclose(of_M, of_M.T, rtol=0, atol=1e-10 * np.abs(of_M).max())
    squares, vectors = la.eigh(A.toarray())
    root = vectors * np.sqrt(np.maximum(squares, 0))
    values = la.eigvalsh(root.T @ of_M @ root)
    assert np.all(values > (-1e-10 if make is neumann2d else 0.05))
    assert np.all(values < 1.45)


def test_amli_cycles_are_what_they_say(device):
    """The correction from a level that is visited twice, by dense matrices."""
    A, M = made("poisson2d", device, max_coarse=60, cycle="AMLI", smoother="jacobi")
    (fine, R, P), (middle, R2, P2), (coarse, _, _) = matrices(M)
    assert M._visited_twice() == [1]

    def cycle(A, number, R, correction, P):
        weight = 2 / (1.5 * 1.05 * M._hierarchy.largest_eigenvalue(number))
        S = weight * np.diag(1 / A.diagonal())
        error = np.eye(len(S)) - S @ A
        return 2 * S - S @ A @ S + error @ P @ correction @ R @ error.T

    B = cycle(middle.toarray(), 1, R2.toarray(), np.linalg.inv(coarse.toarray()), P2.toarray())
    B = 3.6 * B - 3.6**2 / (4 * 1.4) * B @ middle @ B
    expected = cycle(fine.toarray(), 0, R.toarray(), B, P.toarray())
    np.testing.assert_allclose(M @ np.eye(A.shape[0]), expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_amli_cycles_go_once_through_dense_levels(device):
    """The work of a cycle stays bounded, and without a direct solver so do its eigenvalues."""
    M = linalg.amg(laplacian(6000), device=device, max_coarse=60, cycle="AMLI")
    entries = [level.A.nnz for level in M.levels]
    few = [k for k in range(1, len(entries) - 1) if entries[k] <= 0.4 * entries[k - 1]]
    assert M._visited_twice() == few
    assert len(few) < len(entries) - 2
    short = linalg.amg(gallery.poisson3d(24), device=device, max_levels=2, cycle="AMLI")
    assert short._visited_twice() == []


def test_hubs_do_not_fill_coarser_matrices(device):
    """By default, prolongators are smoothed only where coarser matrices stay sparse."""
    A = laplacian(6000)
    smoothed, M = (linalg.amg(A, device=device, cycle=cycle) for cycle in ("V", "auto"))
    assert "AMLI" in repr(M)
    assert "AMLI" not in repr(smoothed)
    assert M.operator_complexity < 2 < smoothed.operator_complexity
    b = np.ones(A.shape[0])
    x, info = linalg.cg(M.A, b, rtol=1e-8, M=M)
    assert info == 0
    assert np.linalg.norm(b - A @ x) <= 3e-8 * np.linalg.norm(b)


@pytest.mark.parametrize("name", ["poisson2d", "jumps", "elasticity3d", "stretched"])
def test_meshes_are_smoothed_by_default(name, device):
    _, M = made(name, device, max_coarse=60)
    assert "AMLI" not in repr(M)


def test_one_solve_takes_what_is_cheaper(device):
    plane, space = gallery.poisson2d(200), gallery.poisson3d(20, points=27)
    is_smoothed = ["AMLI" not in repr(linalg.amg(A, device=device, cycle="once")) for A in (plane, space)]
    assert is_smoothed == [True, False]


@pytest.mark.parametrize(
    ("A", "unknowns"),
    [
        (sp.csr_array((0, 0)), [0]),
        (sp.csr_array([[4.0]]), [1]),
        (sp.diags_array(np.arange(1.0, 3000.0)), [2999]),
        (sp.csr_array(np.diag([1e-8, 1.0, 1e8])), [3]),
    ],
)
def test_matrices_without_a_coarser_level(A, unknowns, device):
    M = linalg.amg(A, device=device)
    assert [level.A.shape[0] for level in M.levels] == unknowns
    b = np.ones(A.shape[0])
    x, _ = iterations(M, b, 1e-6)
    np.testing.assert_allclose(sp.csr_array(A) @ x, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("exponent", [-1000, -500, 500, 1000])
@pytest.mark.parametrize("block", [1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_powers_of_two_are_no_matter(dtype, block, exponent, device):
    """Squares of the entries are no numbers any more, and the cycle is as it was."""
    A = sp.csr_array(gallery.poisson2d(16), dtype=dtype)
    b = vector(A.shape[0], np.dtype(dtype))
    expected = linalg.amg(A, device=device, block=block, max_coarse=20) @ b
    scaled = linalg.amg(A * 2.0**exponent, device=device, block=block, max_coarse=20) @ b
    parts = np.ldexp(scaled.real, exponent) + 1j * np.ldexp(scaled.imag, exponent)
    np.testing.assert_allclose(parts, expected, rtol=1e-9, atol=1e-12)


@both_cycles
def test_semidefinite_matrices(cycle, device):
    """A Laplacian without boundary: its coarsest matrix is singular, and consistent systems are solved."""
    A = neumann2d(40)
    b = vector(A.shape[0], A.dtype)
    b -= b.mean()
    M = linalg.amg(A, device=device, cycle=cycle)
    x, count = iterations(M, b)
    assert count <= (15 if cycle == "V" else 20)
    assert np.linalg.norm(b - A @ x) <= 2e-8 * np.linalg.norm(b)


@pytest.mark.parametrize(
    ("A", "options", "error", "message"),
    [
        (sp.csr_array((4, 5)), {}, ValueError, "square"),
        (sp.csr_array(np.fliplr(np.eye(4))), {}, np.linalg.LinAlgError, "not positive.*row 0"),
        (-gallery.poisson2d(30), {}, np.linalg.LinAlgError, "not positive"),
        (sp.csr_array([[1.0, np.nan], [np.nan, 1.0]]), {}, np.linalg.LinAlgError, "inf or NaN"),
        (sp.csr_array([[np.inf, 0.0], [0.0, 1.0]]), {}, np.linalg.LinAlgError, "inf or NaN"),
        (gallery.poisson2d(4), {"B": np.ones(15)}, ValueError, "16 rows"),
        (gallery.poisson2d(4), {"B": np.ones((16, 65))}, ValueError, "1 to 64 columns"),
        (gallery.poisson2d(4), {"B": np.full(16, np.nan)}, ValueError, "B contains"),
        (gallery.poisson2d(4), {"B": np.ones(16) * 1j}, TypeError, "complex"),
        (gallery.poisson2d(4), {"block": 3}, ValueError, "block=3"),
    ],
)
def test_refusals(A, options, error, message, device):
    with pytest.raises(error, match=message):
        linalg.amg(A, device=device, **options)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("parts", [1, 2])
def test_the_coarsest_inverse_of_singular_matrices(parts, dtype, device):
    """Whether the near null space is all that the matrix maps to zero, or a part of it."""
    A = sp.block_diag([neumann2d(40, 30)] * parts, format="csr").astype(dtype)
    M = linalg.amg(A, device=device, max_coarse=100)
    coarse, inverse = (op.tocsr().toarray() for op in (M.levels[-1].A, M._now().inverse))
    assert np.linalg.matrix_rank(coarse.astype(float), tol=1e-4) == len(coarse) - parts
    assert abs(coarse @ inverse @ coarse - coarse).max() <= 1e4 * np.finfo(dtype).eps * abs(coarse).max()
