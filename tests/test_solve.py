"""`solve`: it picks a method, goes on to others, and returns nothing that is not a solution."""

import json
import re

import numpy as np
import pytest
import scipy
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import TYPES, vector
from generators.systems import convection, flow, neumann2d
from internals import refuse
from spmvgpu import gallery
from spmvgpu.linalg import NotSolvedError, solve
from support import in_turn
from systems import SPD, spd, with_empty


def residual(A, x, b):
    r = b - A.astype(np.result_type(A.dtype, np.float64)) @ x
    return np.linalg.norm(r, axis=0) / np.linalg.norm(b, axis=0)


def saddle(n=60):
    """Zeros on the diagonal, and eigenvalues of both signs."""
    grid = gallery.poisson2d(n)
    return sp.csr_array(sp.block_array([[None, grid], [grid, None]]))


def scattered(n=4500):
    """Random entries that outweigh the diagonal."""
    A = sp.random_array((n, n), density=0.0005, rng=np.random.default_rng(0))
    return sp.csr_array(A + 0.5 * sp.eye_array(n))


def turned():
    """Hermitian and positive definite."""
    phases = sp.diags_array(np.exp(1j * np.linspace(0, 5, 6400)))
    return sp.csr_array(phases @ gallery.poisson2d(80) @ phases.conj().T)


LARGE = {
    "poisson2d": (lambda: gallery.poisson2d(90), {"cg"}, "symmetric with a positive diagonal"),
    "poisson3d": (lambda: gallery.poisson3d(20), {"cg"}, "symmetric"),
    "elasticity": (lambda: gallery.elasticity3d(13), {"cg"}, "symmetric"),
    "contrast": (lambda: gallery.poisson3d(18, points=27, contrast=1e4), {"cg"}, "symmetric"),
    "hermitian": (turned, {"cg"}, "Hermitian"),
    "indefinite": (
        lambda: sp.csr_array(gallery.poisson2d(80) - 0.31 * sp.eye_array(6400)),
        {"minres"},
        "symmetric with a positive diagonal",
    ),
    "saddle": (saddle, {"minres"}, "diagonal is not positive"),
    "flow": (flow, {"bicgstab", "gmres"}, "not symmetric"),
    "complex": (
        lambda: sp.csr_array(flow() + 0.2j * sp.eye_array(6400)),
        {"bicgstab", "gmres"},
        "not Hermitian",
    ),
    "absorbing": (
        lambda: sp.csr_array(gallery.poisson2d(80) - 0.5j * sp.eye_array(6400)),
        {"bicgstab", "gmres"},
        "not Hermitian",
    ),
    "scattered": (scattered, {"bicgstab", "gmres", "direct"}, "not symmetric"),
    "shift": (
        lambda: sp.csr_array(sp.diags_array([1.0, 1.0], offsets=[1, -4999], shape=(5000, 5000))),
        {"gmres", "bicgstab", "direct"},
        "not symmetric",
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_is_chosen(name, device):
    make, methods, reason = LARGE[name]
    A = make()
    b = vector(A.shape[0], np.float64).astype(A.dtype)
    x, how = solve(A, b, device=device, full_output=True)
    assert residual(A, x, b) <= 1.01e-8
    assert how.residual == pytest.approx(residual(A, x, b), rel=1e-2, abs=1e-15)
    assert how.method in methods
    assert reason in how.reason
    text = how.explain()
    assert how.reason in text
    assert how.method in text.splitlines()[-1]
    assert x.dtype == np.result_type(A.dtype, np.float64)
    if how.method != "direct" or how.device == "cpu":  # the last bits of factors of a GPU may differ
        np.testing.assert_array_equal(solve(A, b, device=device), x)


def skew(n):
    return np.triu(np.ones((n, n)), 1) - np.tril(np.ones((n, n)), -1)


@pytest.mark.parametrize("scale", [2.0**-500, 1.0, 2.0**500])
@pytest.mark.parametrize("n", [1, 2, 3, 150])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_whether_a_matrix_is_hermitian(dtype, n, scale, device, run, tmp_path):
    """By random vectors, whatever part of it is not: beside, on all of, or at one place of the diagonal."""
    rng = np.random.default_rng(n)
    G = rng.standard_normal((n, n)).astype(dtype)
    others = [(1e-3, skew(n))]
    if np.dtype(dtype).kind == "c":
        G += 1j * rng.standard_normal((n, n))
        others += [(1e-3j, np.eye(n)), (1j, np.diag(np.arange(n) == n // 2)), (1e-3j, G + G.conj().T)]
    H = G + G.conj().T
    for factor, other in [(0, H), *others]:
        A = sp.csr_array(scale * (H + factor * other))
        sg.matrix_io.write_matrix(tmp_path / "A.npz", A)
        arguments = ["--device", device, "--preconditioner", "none", "--maxiter", 1, "--json"]
        _, out, _ = run("solve", tmp_path / "A.npz", *arguments)
        is_hermitian = np.array_equal(A.toarray(), A.toarray().conj().T)
        assert (json.loads(out)["solver"] in ("cg", "minres")) == is_hermitian


@pytest.mark.parametrize(("name", "dtype"), in_turn(list(SPD), TYPES), ids=str)
def test_small_systems_as_spsolve(name, dtype):
    A = spd(name, dtype)
    b = vector(A.shape[0], dtype)
    x, how = solve(A, b, full_output=True)
    is_sparse = A.nnz <= 50 * A.shape[0] or A.shape[0] <= 500
    fills = name.startswith(("poisson2d", "poisson3d"))  # and surely is positive definite
    assert how.method == ("direct" if is_sparse and not fills else "cg")
    assert residual(A, x, b) <= 1.01e-8
    assert x.dtype == np.float64
    expected = spla.spsolve(A.tocsc().astype(np.float64), b)
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_factors_that_would_be_full_are_not_the_first_to_be_tried():
    A = gallery.uniform_random(2500, 2500, 20)
    A = sp.csr_array(A + A.T + 60 * sp.eye_array(2500))
    unsymmetric = sp.csr_array(A + sp.triu(A, 1))
    for matrix in A, unsymmetric:
        x, how = solve(matrix, matrix @ np.ones(2500), full_output=True)
        assert how.method != "direct"
        np.testing.assert_allclose(x, 1, rtol=1e-5)


def hilbert(n):
    return 1.0 / (np.arange(n)[:, None] + np.arange(n) + 1)


@pytest.mark.parametrize(
    "options",
    [{"device": ["cpu", "cpu"]}, {"device": "cpu", "format": "partitioned", "separator": 5}],
    ids=str,
)
def test_several_devices(options):
    """What is not for them, such as multigrid, is one attempt among others."""
    for A in (gallery.poisson2d(80), gallery.poisson1d(6000)):
        b = vector(A.shape[0], np.float64)
        x, how = solve(sg.aslinearoperator(A, **options), b, full_output=True)
        assert residual(A, x, b) <= 1.01e-8
    assert any(attempt.preconditioner == "amg" for attempt in how.tried)  # cg stalls on a chain
    with pytest.raises(NotSolvedError, match=r"direct .*; cg with amg .*; gmres"):
        solve(sg.aslinearoperator(hilbert(10), **options), np.random.default_rng(1).standard_normal(10))


def test_scale(device):
    """Numbers whose squares leave the range of their type."""
    A = gallery.poisson2d(70)
    for size_A, size_b in ((1e-170, 1e-160), (1e160, 1e-100), (1.0, 1e200), (1.0, 1e-200)):
        b = vector(4900, np.float64)
        x = solve(size_A * A, size_b * b, device=device)
        assert residual(A, x * (size_A / size_b), b) <= 1.01e-8
    small = gallery.poisson2d(8)
    x = solve(small, np.full(64, 1e-200))
    assert residual(small, x * 1e200, np.ones(64)) <= 1e-8


def test_singular_systems(device):
    A, rng = neumann2d(80), np.random.default_rng(1)
    inside = A @ rng.standard_normal(6400)
    assert residual(A, solve(A, inside, device=device), inside) <= 1.01e-8
    with pytest.raises(NotSolvedError, match="no solution") as caught:
        solve(A, np.ones(6400), device=device)
    tried = {attempt.method for attempt in caught.value.tried}
    assert {"cg", "gmres"} <= tried or {"minres", "gmres"} <= tried
    assert all(attempt.outcome != "converged" for attempt in caught.value.tried)
    assert caught.value.x is None or caught.value.x.shape == (6400,)
    b = rng.standard_normal(6400)
    x = solve(A, b, device=device, nullspace="constant")
    assert abs(x.sum()) < 1e-6
    np.testing.assert_allclose(A @ x, b - b.mean(), atol=1e-6)


def test_a_small_singular_system():
    A = np.diag([1.0, 2.0, 0.0])
    with pytest.raises(NotSolvedError, match=r"no solution: row 2 of A .*b is 1 there"):
        solve(A, np.ones(3))
    assert issubclass(NotSolvedError, np.linalg.LinAlgError)
    x = solve(A, np.array([1.0, 2.0, 0.0]))  # consistent: found by the next method
    np.testing.assert_allclose(x[:2], 1)


def indicators(A):
    """What an error advises: the constant vectors of each connected component."""
    count, labels = sp.csgraph.connected_components(A)
    return np.eye(count)[labels]


@pytest.mark.parametrize("n", [15, 70])
@pytest.mark.parametrize("parts", ["one", "two", "empty rows"])
def test_constant_null_spaces(n, parts):
    """Where `b` is not in the range, the error says what solves for the rest, and that does."""
    A = sp.csr_array(sp.block_diag([neumann2d(n)] * (2 if parts == "two" else 1)))
    A, at = with_empty(A) if parts == "empty rows" else (A, [])
    b = vector(A.shape[0], np.float64)
    b[at] = 0
    with pytest.raises(NotSolvedError, match="nullspace=") as caught:
        solve(A, b, device="cpu")
    advice = re.search(r"nullspace=(.+?)(?: with labels = (.+?), as A .*)?, which solves", str(caught.value))
    names = {"numpy": np, "scipy": scipy, "A": A}
    names["labels"] = eval(advice[2] or "None", names)
    x = solve(A, b, device="cpu", nullspace=eval(advice[1], names))
    inside = b - indicators(A) @ np.linalg.lstsq(indicators(A), b)[0]
    assert residual(A, x, inside) <= 1.01e-8
    assert residual(A, solve(A, inside, device="cpu"), inside) <= 1.01e-8


def test_no_null_space_is_named_that_is_none():
    A = sp.csr_array(np.diag([1.0, 2.0, 1e-320]))
    with pytest.raises(NotSolvedError) as caught:
        solve(A, np.ones(3))
    assert "nullspace" not in str(caught.value)


def graph(n=70):
    """The Laplacian of a grid whose edges have weights of many sizes."""
    at, k = np.arange(n * n).reshape(n, n), 10.0 ** np.random.default_rng(0).uniform(-3, 3, n * n)
    begin = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    end = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    W = sp.coo_array((2 * k[begin] * k[end] / (k[begin] + k[end]), (begin, end)), shape=(n * n, n * n))
    W = W + W.T
    return sp.csr_array(sp.diags_array(W.sum(axis=1)) - W)


EMPTY = {
    "small": lambda: gallery.poisson2d(12),
    "small laplacian": lambda: neumann2d(12),
    "small flow": lambda: flow(12),
    "laplacian": graph,
    "poisson2d": lambda: gallery.poisson2d(80),
    "hermitian": turned,
    "flow": flow,
    "indefinite": lambda: sp.csr_array(gallery.poisson2d(80) - 0.31 * sp.eye_array(6400)),
    "chain": lambda: gallery.poisson1d(30_000),
}


@pytest.mark.parametrize("stored_zeros", [False, True])
@pytest.mark.parametrize("name", EMPTY)
def test_empty_rows_and_columns_are_set_aside(name, stored_zeros, device):
    A = EMPTY[name]()
    b = A @ vector(A.shape[0], np.float64)
    large, at = with_empty(A, stored_zeros)
    b = np.insert(b, at - np.arange(3), 0)
    for x0 in (None, vector(len(b), np.float64)):
        x = solve(large, b, x0=x0, device=device)
        assert residual(large, x, b) <= 1.01e-8
        np.testing.assert_array_equal(x[at], 0 if x0 is None else x0[at])
    B = np.stack([b, 2 * b], axis=1)
    assert (residual(large, solve(large, B, device=device), B) <= 1.01e-8).all()
    B[at[1], 1] = 3
    for wrong in (B, B[:, 1]):
        with pytest.raises(NotSolvedError, match=f"no solution: row {at[1]} of A .* b is 3.* there"):
            solve(large, wrong, device=device)
    B[at[1], 1] = 1e-9 * np.linalg.norm(b)  # within the tolerance
    assert (residual(large, solve(large, B, device=device), B) <= 1.01e-8).all()


@pytest.mark.parametrize("A", [[[2.0, 1.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 2.0]]], ids=["row", "column"])
def test_an_empty_row_or_column_alone(A):
    """The unknown is in other rows, or the row has other unknowns."""
    b = np.array(A) @ np.array([1.0, 3.0])
    np.testing.assert_allclose(A @ solve(A, b), b)


def test_a_tolerance_that_rounding_does_not_allow(device):
    A = gallery.poisson2d(70)
    with pytest.raises(NotSolvedError, match="rounding") as caught:
        solve(A, vector(4900, np.float64), 0.0, device=device)
    assert residual(A, caught.value.x, vector(4900, np.float64)) < 1e-12


def test_no_rows():
    assert solve(np.zeros((0, 0)), np.zeros(0)).shape == (0,)


@pytest.mark.parametrize("seed", range(4))
def test_on_a_gpu_bicgstab_has_time(seed, cuda_device):
    """Its residual stays where it is for hundreds of iterations, and then falls."""
    A = convection(120)
    b = np.random.default_rng(seed).standard_normal(A.shape[0])
    x, how = solve(A, b, device=cuda_device, full_output=True)
    assert residual(A, x, b) <= 1.01e-8
    assert [str(attempt) for attempt in how.tried] == ["bicgstab with jacobi"]


def test_what_stalls_is_left(device):
    """A chain so long that cg needs more iterations than it gets."""
    A = gallery.poisson1d(30_000)
    b = np.zeros(30_000)
    b[0] = 1.0
    x, how = solve(A, b, device=device, full_output=True)
    assert residual(A, x, b) <= 1.01e-8
    assert len(how.tried) > 1
    assert how.tried[0].outcome != "converged"
    assert how.tried[-1].outcome == "converged"
    assert f"{how.tried[0]}: {how.tried[0].outcome}" in how.explain()


@pytest.mark.parametrize("n", [20, 70])
@pytest.mark.parametrize("form", [sp.csr_array, spla.aslinearoperator])
def test_refusals(n, form):
    A, b, bad = form(gallery.poisson2d(n)), np.ones(n * n), np.full(n * n, np.nan)
    for value in (np.nan, np.inf):
        with pytest.raises(ValueError, match="A contains inf or NaN"):
            solve(sp.csr_array(sp.diags_array(np.r_[value, b[1:]])), b)
    for given, message in (
        ({"b": bad}, "b .*contains inf or NaN"),
        ({"b": b, "x0": bad}, "x0 contains inf or NaN"),
        ({"b": b, "x0": -np.inf * b}, "x0 contains inf or NaN"),
        ({"b": b, "nullspace": b}, "nullspace is not in the null space"),
    ):
        with pytest.raises(ValueError, match=message):
            solve(A, **given)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [20, 70])
def test_arrays_on_a_gpu(n, library, cuda_device):
    A = gallery.poisson2d(n)
    b = vector(n * n, np.float64)
    x, how = solve(A, library.asarray(b, cuda_device), full_output=True)
    assert library.device_name(x) == cuda_device
    assert how.device == cuda_device
    assert residual(A, library.to_numpy(x), b) <= 1.01e-8


def entangled(n):
    """Random entries whose factors are nearly full."""
    A = sp.random_array((n, n), density=4 / n, rng=np.random.default_rng(0))
    return sp.csr_array(A + 0.3 * sp.eye_array(n))


def test_factors_that_take_too_long_are_estimated():
    A = entangled(16_000)
    with pytest.raises(
        NotSolvedError, match=r"direct was not tried: .* entries \(.* GiB\) and .* minutes; spsolve"
    ):
        solve(A, np.ones(16_000), device="cpu")


def test_a_pattern_without_pivots():
    """It is singular, which takes no factors to see."""
    A = entangled(16_000).tolil()
    A[:, 5] = 0
    A[3, 5] = A[3, 6] = 1
    A[:, 6] = 0
    A[3, 6] = 1
    with pytest.raises(NotSolvedError, match=r"direct found that the matrix is singular, whatever"):
        solve(A.tocsr(), np.ones(16_000), device="cpu")


SMALL = {
    "zero diagonal": lambda n: sp.csr_array(np.where(np.eye(n), 0.0, 1 / hilbert(n))),
    "permutation": lambda n: sp.eye_array(n, format="csr")[np.random.default_rng(n).permutation(n)],
    "saddle": lambda n: sp.csr_array(
        sp.block_array([[gallery.poisson1d(n // 2), sp.eye_array(n // 2)], [sp.eye_array(n // 2), None]])
    ),
    "shift": lambda n: sp.csr_array(sp.diags_array([1.0, 1.0], offsets=[1, 1 - n], shape=(n, n))),
}


@pytest.mark.gpu
def test_on_a_gpu_triangular_factors_are_tried_last(cuda_device):
    A = scattered()
    b = vector(A.shape[0], np.float64)
    x, how = solve(A, b, device=cuda_device, full_output=True)
    assert residual(A, x, b) <= 1.01e-8
    names = [str(attempt) for attempt in how.tried]
    assert how.method == "direct"
    if how.device == "cpu":  # factors of cuDSS come before incomplete ones
        assert names[-3:] == ["bicgstab with ilu0", "gmres with ilu0", "direct"]
    else:
        assert not any("ilu0" in name for name in names)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [60, 160])
@pytest.mark.parametrize("name", SMALL)
def test_what_is_solved_does_not_depend_on_where_b_is(name, n, library, cuda_device):
    A = SMALL[name](n)
    for b in (vector(n, np.float64), vector(2 * n, np.float64).reshape(n, 2)):
        assert (residual(A, solve(A, b), b) <= 1.01e-8).all()
        x = solve(A, library.asarray(b, cuda_device))
        assert library.device_name(x) == cuda_device
        assert (residual(A, library.to_numpy(x), b) <= 1.01e-8).all()


def test_slow_cg_gives_way_to_multigrid(device):
    """Where it seems to take longer than multigrid with its set-up, and only there."""
    A = gallery.poisson2d(450)
    b = vector(A.shape[0], np.float64)
    x, how = solve(A, b, device=device, full_output=True)
    assert residual(A, x, b) <= 1e-8
    assert (how.method, how.preconditioner) == ("cg", "amg") or device != "cpu"
    assert how.tried[0].outcome == "converged" or "was slow" in how.tried[0].outcome
    x, how = solve(A + sp.diags_array(A.diagonal()), b, device=device, full_output=True)
    assert str(how.tried[0]) == "cg with jacobi"
    assert len(how.tried) == 1


def test_slow_cg_is_taken_up_again_where_multigrid_fails(monkeypatch):
    refuse(monkeypatch, "amg", "ic0")
    A = gallery.poisson2d(350)
    b = vector(A.shape[0], np.float64)
    x, how = solve(A, b, device="cpu", full_output=True)
    assert residual(A, x, b) <= 1e-8
    names = [str(attempt) for attempt in how.tried]
    assert names == ["cg with jacobi", "cg with amg", "cg with ic0", "cg with jacobi"]


def test_badly_scaled_matrices_do_without_multigrid(device):
    """Multigrid takes constants for what the matrix nearly maps to zero, which these do not."""
    n = 300
    units = sp.diags_array(10.0 ** np.random.default_rng(0).uniform(-2, 2, n * n))
    A = sp.csr_array(units @ gallery.poisson2d(n) @ units)
    b = vector(n * n, np.float64)
    x, how = solve(A, b, device=device, full_output=True)
    assert residual(A, x, b) <= 1e-8
    assert [str(attempt) for attempt in how.tried] == ["cg with jacobi"]
