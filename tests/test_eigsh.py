"""Eigenvalues by the Lanczos method, compared with dense ones, and with SciPy's way of refusing."""

import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import COMPLEX_TYPES, TYPES, hermitian
from spmvgpu import gallery
from spmvgpu.linalg import eigsh
from support import naming, nightly

MATRICES = {
    "1x1": lambda: sp.csr_array([[3.0]]),
    "diagonal": lambda: sp.diags_array(np.linspace(-3, 5, 120)),
    "poisson1d": lambda: gallery.poisson1d(150),
    "poisson2d": lambda: gallery.poisson2d(13, 9),
    "indefinite": lambda: gallery.poisson2d(12, 10) - 3.1 * sp.eye_array(120),
    "elasticity2d": lambda: gallery.elasticity2d(6),
}


def eps(dtype):
    return float(np.finfo(dtype).eps)


def made(name, dtype):
    A = sp.csr_array(MATRICES[name]())
    return hermitian(A, dtype) if np.dtype(dtype).kind == "c" else A.astype(dtype)


def expected(A, k, which, sigma=None):
    """Dense eigenvalues in ascending order, chosen as SciPy documents it."""
    w = np.linalg.eigvalsh(A.toarray().astype(np.result_type(A.dtype, np.float64)))
    x = w if sigma is None else 1 / (w - sigma)
    by_size = np.argsort(np.abs(x), kind="stable")
    low, high = np.argsort(x)[: k // 2], np.argsort(x)[len(w) - (k - k // 2) :]
    chosen = {
        "LM": by_size[len(w) - k :],
        "SM": by_size[:k],
        "LA": np.argsort(x)[len(w) - k :],
        "SA": np.argsort(x)[:k],
        "BE": np.concatenate([low, high]),
    }[which]
    return np.sort(w[chosen])


def check(A, w, v, k, which, sigma=None):
    wide = A.astype(np.result_type(A.dtype, np.float64))
    norm = abs(wide).sum(axis=1).max()
    tolerance = 500 * eps(A.dtype) * norm
    np.testing.assert_allclose(w, expected(A, k, which, sigma), rtol=0, atol=tolerance)
    assert (v.shape, v.dtype) == ((A.shape[0], k), A.dtype)
    assert np.linalg.norm(wide @ v - v * w, axis=0).max() <= tolerance
    np.testing.assert_allclose(v.conj().T @ v, np.eye(k), rtol=0, atol=500 * eps(A.dtype))


@pytest.mark.parametrize("which", ["LM", "SM", "LA", "SA", "BE"])
@pytest.mark.parametrize("name", MATRICES)
def test_against_dense(name, which, device, dtype):
    A = made(name, dtype)
    k = min(5, A.shape[0])
    w, v = eigsh(sg.aslinearoperator(A, device=device), k, which=which, maxiter=10_000)
    check(A, w, v, k, which)


@pytest.mark.parametrize("dtype", COMPLEX_TYPES, ids=str)
@pytest.mark.parametrize("name", ["poisson2d", "elasticity2d"])
def test_hermitian(name, dtype, device):
    A = made(name, dtype)
    for which in ("LA", "SA", "BE"):
        w, v = eigsh(sg.aslinearoperator(A, device=device), 4, which=which)
        assert w.dtype == np.dtype(dtype.char.lower())
        check(A, w, v, 4, which)


@pytest.mark.parametrize("inner", ["auto", "direct", "minres", "cg"])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_shift_invert(inner, dtype, device):
    A = made("poisson2d", dtype)
    op = sg.aslinearoperator(A, device=device)
    sigma = expected(A, 1, "SA")[0] - 0.1 if inner == "cg" else 0.3
    w, v = eigsh(op, 4, sigma=sigma, inner=inner)
    check(A, w, v, 4, "LM", sigma)


def test_shift_invert_in_other_ways(device):
    A = made("poisson2d", np.float64)
    op = sg.aslinearoperator(A, device=device)
    for which in ("LA", "SA", "BE"):
        check(A, *eigsh(op, 4, sigma=0.3, which=which), 4, which, 0.3)
    check(A, *eigsh(op, 4, sigma=0.0, inner="cg", preconditioner="amg"), 4, "LM", 0.0)
    check(A, *eigsh(op, 4, sigma=-0.1, preconditioner="jacobi"), 4, "LM", -0.1)
    inverse = np.linalg.inv(A.toarray() - 0.3 * np.eye(A.shape[0]))
    check(A, *eigsh(op, 4, sigma=0.3, OPinv=spla.aslinearoperator(inverse)), 4, "LM", 0.3)
    check(A, *eigsh(op, 4, sigma=0.3, OPinv=sg.aslinearoperator(inverse, device=device)), 4, "LM", 0.3)
    foreign = spla.LinearOperator(A.shape, matvec=lambda x: A @ x, dtype=A.dtype)
    check(A, *eigsh(foreign, 4, sigma=0.3), 4, "LM", 0.3)
    with pytest.raises(TypeError, match="needs the entries of A"):
        eigsh(foreign, sigma=0.3, inner="direct")


@pytest.mark.parametrize(
    ("inner", "preconditioner"),
    [("direct", None), ("minres", None), ("cg", None), ("minres", "jacobi"), ("cg", "jacobi")],
)
def test_a_singular_shifted_matrix(inner, preconditioner, device):
    """A shift that is an eigenvalue, with any inner solver."""
    grid = gallery.poisson2d(20)
    laplacian = grid - sp.diags_array(grid.sum(axis=1))  # of a graph
    cases = [(np.diag([1.0, 2.0, 3.0]), 1.0), (np.diag(np.arange(1.0, 40)), 7.0), (laplacian, 0.0)]
    # An empty row has no inverse diagonal, and factors of the Laplacian have a pivot of rounding errors.
    for A, sigma in cases[2:] if preconditioner else cases[:2] if inner == "direct" else cases:
        op = sg.aslinearoperator(A, device=device)
        with pytest.raises(np.linalg.LinAlgError, match=f"singular for sigma={sigma:g}; give another sigma"):
            eigsh(op, 1, sigma=sigma, inner=inner, preconditioner=preconditioner)


def test_inner_solves_that_fail(device):
    op = sg.aslinearoperator(made("indefinite", np.float64), device=device)
    with pytest.raises(np.linalg.LinAlgError, match=r"cg did not solve with A - sigma \* I .*OPinv"):
        eigsh(op, 2, sigma=0.0, inner="cg")


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_multiple_eigenvalues(dtype, device):
    """A subspace that the matrix does not leave is continued."""
    for diagonal in (np.ones(50), np.zeros(50), np.repeat([1.0, 2.0, 5.0], [20, 10, 20])):
        A = sp.csr_array(sp.diags_array(diagonal, dtype=dtype))
        check(A, *eigsh(sg.aslinearoperator(A, device=device), 6), 6, "LM")


def drawn_with_copies(seed):
    """A matrix whose eigenvalues are multiple, and the arguments for it."""
    r = np.random.default_rng(seed)
    n = int(r.integers(20, 130))
    kind = ("thrice", "rotated", "cycle", "grid", "paths", "integers")[seed % 6]
    if kind == "thrice":
        A = np.diag(r.permutation(np.repeat(r.standard_normal(n // 3 + 1), 3)))
    elif kind == "rotated":
        Q = np.linalg.qr(r.standard_normal((n, n)))[0]
        A = (Q * np.repeat(r.uniform(0, 1, n // 5 + 1), 5)[:n]) @ Q.T
    elif kind == "cycle":
        A = np.roll(np.eye(n), 1, 0)
    elif kind == "grid":
        A = gallery.poisson2d(int(r.integers(5, 11))).toarray()
    elif kind == "paths":  # the zeros of their Laplacian count them
        A = sp.block_diag([gallery.poisson1d(int(m)) for m in r.integers(3, 20, 6)]).toarray()
        np.fill_diagonal(A, 0)
        np.fill_diagonal(A, -A.sum(axis=1))
    else:
        A = np.diag(r.integers(-4, 5, n).astype(float))
    A = (A + A.T) / 2
    dtype = TYPES[int(r.integers(0, len(TYPES)))]
    options = dict(k=int(r.integers(1, 15)), which=r.choice(["LM", "SA", "LA", "BE"]), maxiter=100_000)
    if r.random() < 0.4:
        w = np.linalg.eigvalsh(A)
        sigma = float(r.uniform(w[0], w[-1]))
        options |= dict(which="LM", sigma=sigma if abs(w - sigma).min() > 1e-3 else w[0] - 0.37)
    if r.random() < 0.3:
        options["v0"] = r.standard_normal(len(A)).astype(dtype)
    return sp.csr_array(A).astype(dtype), options


@pytest.mark.parametrize("first", [0, *nightly(range(20, 500, 20))])
def test_all_copies(first, device):
    """None is missing, and the vectors of equal eigenvalues are orthogonal."""
    for seed in range(first, first + 20):
        A, options = drawn_with_copies(seed)
        k, which, sigma = options["k"], options["which"], options.get("sigma")
        with naming(seed=seed, **options):
            w, v = eigsh(sg.aslinearoperator(A, device=device), **options)
            wide = A.toarray().astype(np.float64)
            tolerance = 2e3 * eps(A.dtype) * max(np.linalg.norm(wide, 2), 1.0)
            if which == "LM":  # of two that are as far away either will do
                far = np.sort(abs(np.linalg.eigvalsh(wide) - (sigma or 0.0)))
                near = far[:k] if sigma is not None else far[-k:]
                np.testing.assert_allclose(np.sort(abs(w - (sigma or 0.0))), near, rtol=0, atol=tolerance)
            else:
                np.testing.assert_allclose(w, expected(A, k, which), rtol=0, atol=tolerance)
            assert np.linalg.norm(wide @ v - v * w, axis=0).max() <= tolerance
            np.testing.assert_allclose(v.T @ v, np.eye(k), rtol=0, atol=500 * eps(A.dtype))


def test_a_search_for_copies_that_does_not_end(device):
    op = sg.aslinearoperator(gallery.poisson2d(20), device=device)
    enough = next(m for m in range(1, 100) if converges(op, m))
    with pytest.warns(sg.linalg.SolverWarning, match="copies of multiple eigenvalues may be missing"):
        eigsh(op, 4, maxiter=enough)


def converges(op, maxiter):
    """Whether as many restarts find all eigenvalues, with or without a search for copies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.linalg.SolverWarning)
        try:
            eigsh(op, 4, maxiter=maxiter)
        except spla.ArpackNoConvergence:
            return False
    return True


def products(function, A, **options):
    """How many products a function takes."""
    calls = []
    op = spla.LinearOperator(A.shape, matvec=lambda x: (calls.append(1), A @ x)[1], dtype=float)
    function(op, return_eigenvectors=False, **options)
    return len(calls)


@pytest.mark.parametrize(
    ("k", "which"), [(1, "LA"), (6, "LM"), (12, "BE"), (20, "LA"), (20, "SA"), (30, "LM")]
)
def test_no_more_products_than_arpack(k, which):
    """A restart that keeps nearly all vectors gains little."""
    A = gallery.poisson2d(30, 30)
    v0 = np.random.default_rng(k).standard_normal(A.shape[0])
    options = dict(k=k, which=which, v0=v0)
    most = 1.1  # times as many: rounding errors decide in which restart the last one is found
    assert products(eigsh, A, **options) <= most * products(spla.eigsh, A, **options)


def test_all_eigenvalues(device):
    A = made("poisson2d", np.float64)
    n = A.shape[0]
    check(A, *eigsh(sg.aslinearoperator(A, device=device), n), n, "LM")


@pytest.mark.parametrize("exponent", [-600, -40, 40, 600])
def test_scales(exponent, device):
    A = made("poisson2d", np.float64)
    w, _ = eigsh(sg.aslinearoperator(A * 2.0**exponent, device=device), 3)
    np.testing.assert_allclose(w / 2.0**exponent, expected(A, 3, "LM"), rtol=1e-12)


def test_the_same_bits(device):
    op = sg.aslinearoperator(made("elasticity2d", np.float64), device=device)
    for one, other in zip(eigsh(op, 3), eigsh(op, 3), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("which", ["LA", "SA"])
def test_as_few_vectors_as_may_be(which, device):
    A = sp.csr_array(sp.diags_array(np.r_[-8.0, np.linspace(0, 1, 10), 7.0, 9.0, 9.0]))
    check(A, *eigsh(sg.aslinearoperator(A, device=device), 2, which=which, ncv=3, maxiter=10_000), 2, which)


def test_a_looser_tolerance_takes_fewer_products(device):
    A = made("poisson1d", np.float64)
    assert products(eigsh, A, k=3, tol=1e-2) < products(eigsh, A, k=3, tol=0)


def test_no_convergence(device):
    A = made("poisson1d", np.float64)
    op = sg.aslinearoperator(A, device=device)
    with pytest.raises(spla.ArpackNoConvergence, match=r"No convergence \(1 restarts, \d/6") as caught:
        eigsh(op, 6, which="SM", maxiter=1)
    w, v = caught.value.eigenvalues, caught.value.eigenvectors
    assert len(w) == v.shape[1] < 6
    np.testing.assert_allclose(A @ v, v * w, atol=1e-10)


def masses(kind, n, dtype):
    """A matrix of masses: of linear elements on a line, lumped, or of only some of the points."""
    if kind == "consistent":
        M = sp.diags_array([1.0, 4.0, 1.0], offsets=[-1, 0, 1], shape=(n, n)) / 6
        return (
            hermitian(sp.csr_array(M), dtype) if np.dtype(dtype).kind == "c" else sp.csr_array(M, dtype=dtype)
        )
    diagonal = np.random.default_rng(n).uniform(0.5, 3, n)
    diagonal[::3] *= kind == "lumped"
    return sp.csr_array(sp.diags_array(diagonal, dtype=dtype))


def check_generalized(A, M, w, v, which="LM", sigma=None):
    """Compare with dense matrices, of which those with `sigma` are in the range of `M`."""
    k, wide = len(w), np.result_type(A.dtype, np.float64)
    a, m = (np.asarray(B.toarray(), wide) for B in (A, M))
    mu, Q = np.linalg.eigh(m)
    root = Q[:, mu > 1e-6] * np.sqrt(mu[mu > 1e-6])
    if sigma is None:
        inverse = root / (root.conj() * root).sum(axis=0).real  # of its transpose
        found = np.linalg.eigvalsh(inverse.conj().T @ a @ inverse)
    else:
        found = np.linalg.eigvalsh(root.conj().T @ np.linalg.solve(a - sigma * m, root))
    of_map = w if sigma is None else 1 / (w - sigma)
    wanted = expected(sp.diags_array(found), k, which)
    tolerance = 1e3 * eps(A.dtype)
    np.testing.assert_allclose(np.sort(of_map), wanted, rtol=0, atol=tolerance * abs(found).max())
    sizes = abs(a).sum(axis=1).max() * abs(v).max(axis=0) * np.maximum(1, abs(w))
    assert (np.abs(a @ v - m @ v * w).max(axis=0) <= tolerance * sizes).all()
    np.testing.assert_allclose(v.conj().T @ m @ v, np.eye(k), rtol=0, atol=500 * eps(A.dtype))


@pytest.mark.parametrize("kind", ["consistent", "lumped", "singular"])
@pytest.mark.parametrize(
    ("sigma", "which"),
    [*((None, which) for which in ("LM", "SM", "LA", "SA", "BE")), (0.0, "LM"), (0.0, "LA")]
    + [(3.1, which) for which in ("LM", "LA", "SA", "BE")]
    + [(90.0, "LM"), (90.0, "SA")],
)
def test_generalized(kind, sigma, which, device, dtype):
    """With a shift below, among and above the eigenvalues."""
    if kind == "singular" and sigma is None:
        pytest.skip("refused")
    for name, k in (("poisson2d", 4), ("poisson1d", 3)):
        A = made(name, dtype)
        M = masses(kind, A.shape[0], dtype)
        w, v = eigsh(sg.aslinearoperator(A, device=device), k, M, sigma, which, maxiter=10_000)
        assert (w.dtype, v.dtype) == (np.finfo(dtype).dtype, A.dtype)
        check_generalized(A, M, w, v, which, sigma)


@pytest.mark.parametrize("dtype", COMPLEX_TYPES, ids=str)
def test_generalized_hermitian(dtype, device):
    A = made("poisson2d", dtype)
    for kind, sigma in (("consistent", None), ("consistent", 3.1), ("singular", 0.0)):
        M = masses(kind, A.shape[0], dtype)
        check_generalized(A, M, *eigsh(sg.aslinearoperator(A, device=device), 4, M, sigma), sigma=sigma)


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_all_generalized_eigenvalues(n, device):
    A, M = sg.gallery.poisson1d(n), masses("consistent", n, np.float64)
    dense = scipy.linalg.eigh(A.toarray(), M.toarray(), eigvals_only=True)
    for sigma in (None, -1.0):
        w, v = eigsh(sg.aslinearoperator(A, device=device), n, M, sigma)
        np.testing.assert_allclose(w, dense, rtol=1e-12)
        np.testing.assert_allclose(v.T @ M @ v, np.eye(n), atol=1e-13)


def test_generalized_as_scipy(device):
    A, M = gallery.elasticity3d(4), gallery.elasticity3d_mass(4)
    v0 = np.ones(A.shape[0])
    for options in (dict(sigma=0.0), dict(sigma=0.05, which="LA"), dict(which="LA")):
        w, v = eigsh(sg.aslinearoperator(A, device=device), 5, M, v0=v0, **options)
        np.testing.assert_allclose(w, np.sort(spla.eigsh(A, 5, M, v0=v0, **options)[0]), rtol=1e-9)
        np.testing.assert_allclose(v.T @ M @ v, np.eye(5), atol=1e-12)


def test_generalized_in_other_ways(device):
    """Matrices of any kind, inverses that are given, and every inner solver."""
    A = made("poisson2d", np.float64)
    M = masses("consistent", A.shape[0], np.float64)
    op = sg.aslinearoperator(A, device=device)
    foreign, inverse = spla.aslinearoperator(M), np.linalg.inv(M.toarray())
    of_shifted = np.linalg.inv(A.toarray() - 0.3 * M.toarray())
    ways = [
        *(dict(M=M, inner=inner) for inner in ("direct", "cg", "minres")),
        *(dict(M=M, sigma=-0.1, inner=inner) for inner in ("direct", "cg", "minres")),
        dict(M=M, inner="cg", preconditioner="ic0"),
        dict(M=M, sigma=-0.1, inner="cg", preconditioner="amg"),
        dict(M=M, sigma=0.3, inner="minres", preconditioner="jacobi"),
        dict(M=M, Minv=spla.aslinearoperator(inverse)),
        dict(M=M, Minv=sg.aslinearoperator(inverse, device=device)),
        dict(M=M, sigma=0.3, OPinv=spla.aslinearoperator(of_shifted)),
        *(dict(M=foreign, sigma=sigma) for sigma in (None, 0.0, 0.25)),
        dict(M=M.toarray().astype(np.float32), sigma=0.0),  # whose entries, 2/3 and 1/6, are rounded
        dict(M=sg.aslinearoperator(M, device="cpu"), sigma=0.0),
        dict(M=sg.aslinearoperator(M, device=device, format="ellpack")),
        dict(M=M, sigma=0.0, v0=np.ones(A.shape[0])),
    ]
    for options in ways:
        with naming(**options):
            w, v = eigsh(op, 3, **options)
            if getattr(options["M"], "dtype", None) == np.float32:
                np.testing.assert_allclose(w, eigsh(op, 3, M, 0.0)[0], rtol=1e-6)
            else:
                check_generalized(A, M, w, v, sigma=options.get("sigma"))
    for one in (spla.aslinearoperator(A), op):
        check_generalized(A, M, *eigsh(one, 3, foreign, 0.25), sigma=0.25)
    with pytest.raises(TypeError, match="needs the entries"):
        eigsh(op, 3, foreign, 0.3, inner="direct")


@pytest.mark.parametrize("sigma", [None, 0.37])
def test_all_generalized_copies(sigma, device):
    """None is missing, also where M is singular, and the vectors of equal eigenvalues are orthogonal."""
    for seed in range(12):
        r = np.random.default_rng(seed)
        B = r.standard_normal((20, 20))
        diagonal = np.where((r.random(20) < 0.3) & (sigma is not None), 0, r.uniform(0.3, 3, 20))
        A, M = np.kron(np.eye(3), B + B.T), np.kron(np.eye(3), np.diag(diagonal))
        if np.linalg.cond(A - (sigma or 0.0) * M) > 1e3:
            continue
        with naming(seed=seed):
            w, v = eigsh(sg.aslinearoperator(A, device=device), 6, M, sigma)
            check_generalized(sp.csr_array(A), sp.csr_array(M), w, v, sigma=sigma)


@pytest.mark.parametrize("of_A", [-600, -40, 40, 600])
@pytest.mark.parametrize("of_M", [-150, 0, 150])
def test_scales_of_generalized_problems(of_A, of_M, device):
    A = made("poisson2d", np.float64)
    M = masses("consistent", A.shape[0], np.float64)
    w, v = eigsh(sg.aslinearoperator(A * 2.0**of_A, device=device), 3, M * 2.0**of_M, sigma=0.0)
    check_generalized(A, M, w * 2.0 ** (of_M - of_A), v * 2.0 ** (of_M / 2), sigma=0.0)


@pytest.mark.parametrize("kind", ["consistent", "singular"])
def test_a_shift_next_to_an_eigenvalue(kind, device):
    """Its eigenvector is nearly all of each product."""
    A = made("poisson2d", np.float64)
    M, op = masses(kind, A.shape[0], np.float64), sg.aslinearoperator(A, device=device)
    exact = eigsh(op, 3, M, 0.3)[0]
    for distance in (1e-6, 1e-9, 1e-12):
        w, v = eigsh(op, 3, M, exact[1] + distance)
        np.testing.assert_allclose(w[np.argmin(abs(w - exact[1]))], exact[1], rtol=1e-13)
        np.testing.assert_allclose(v.T @ M @ v, np.eye(3), atol=1e-13)


def test_hidden_parts(device):
    """Rounding errors in the null space of M, which grow with each step, do not come back at restarts."""
    A = made("poisson2d", np.float64)
    M = masses("singular", A.shape[0], np.float64)
    w, v = eigsh(sg.aslinearoperator(A, device=device), 8, M, 3.1, which="LA", ncv=10, maxiter=10_000)
    check_generalized(A, M, w, v, "LA", 3.1)


A = sp.csr_array(gallery.poisson2d(5))
REFUSED = {
    "k too large": (dict(k=26), ValueError, "k=26"),
    "ncv": (dict(k=6, ncv=6), ValueError, "ncv=6"),
    "M shape": (dict(M=np.eye(3)), ValueError, r"M has shape \(3, 3\); it must have \(25, 25\)"),
    "M complex": (dict(M=A * (1 + 0j)), TypeError, "M cannot be used: .*complex128"),
    "M no matrix": (dict(M="M"), TypeError, "M cannot be used: "),
    "M nan": (dict(M=np.nan * A, sigma=0.0), ValueError, "contains inf or NaN"),
    "M negative": (dict(M=-A), np.linalg.LinAlgError, "M is not positive definite"),
    "M negative, sigma": (dict(M=-A, sigma=0.5), np.linalg.LinAlgError, "M is not positive definite"),
    "M indefinite": (dict(M=np.diag(np.arange(25) - 9.0), sigma=0.5), np.linalg.LinAlgError, "not positive"),
    "M indefinite, cg": (dict(M=np.diag(np.arange(25) - 9.5), inner="cg"), np.linalg.LinAlgError, "with M"),
    "M singular": (dict(M=np.diag(np.arange(25.0))), np.linalg.LinAlgError, "M is singular; give sigma"),
    "M zero": (dict(M=0 * A, sigma=0.5), np.linalg.LinAlgError, "M is not positive definite, or zero"),
    "M tiny": (
        dict(M=2.0**-600 * A, sigma=0.0),
        np.linalg.LinAlgError,
        "M is not positive definite, or zero",
    ),
    "rank": (
        dict(M=np.diag(np.arange(25) < 4.0), sigma=0.0),
        np.linalg.LinAlgError,
        "more than the 4 eigenv",
    ),
    "v0 in the null space": (
        dict(M=np.diag(np.arange(25) > 2.0), sigma=0.0, v0=np.eye(25)[0]),
        ValueError,
        "v0 is zero",
    ),
    "Minv alone": (dict(Minv=A), ValueError, "Minv is the inverse of M"),
    "Minv with sigma": (dict(M=A, sigma=0.0, Minv=A), ValueError, "give OPinv with sigma"),
    "OPinv with M": (dict(M=A, OPinv=A), ValueError, "OPinv is for solves"),
    "Minv shape": (dict(M=A, Minv=spla.aslinearoperator(np.eye(3))), ValueError, "Minv has shape"),
    "mode": (dict(M=A, sigma=1.0, mode="cayley"), ValueError, "mode='cayley'"),
    "sigma": (dict(sigma=np.nan), ValueError, "sigma=nan"),
    "OPinv alone": (dict(OPinv=A), ValueError, "OPinv is for solves"),
    "OPinv shape": (dict(sigma=0.0, OPinv=spla.aslinearoperator(np.eye(3))), ValueError, "OPinv has shape"),
    "preconditioner": (dict(sigma=0.0, inner="direct", preconditioner="amg"), ValueError, "preconditioner"),
    "v0 nan": (dict(v0=np.full(25, np.nan)), ValueError, "v0 contains inf or NaN"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case, device):
    options, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        eigsh(sg.aslinearoperator(A, device=device), **options)


def test_matrices_that_are_refused(device):
    with pytest.raises(ValueError, match="A is empty"):
        eigsh(sg.aslinearoperator(np.zeros((0, 0)), device=device), k=1)
    with pytest.raises(ValueError, match="square"):
        eigsh(sg.aslinearoperator(np.ones((3, 4)), device=device), 1)
    with pytest.raises(ValueError, match="inf or NaN"):
        eigsh(sg.aslinearoperator(np.diag([1.0, np.nan, 2.0]), device=device), 1)
    with pytest.raises(TypeError):
        eigsh("matrix")


@pytest.mark.parametrize("dtype", TYPES)
def test_vectors_are_orthonormal_where_little_is_left_of_a_product(dtype, device):
    """The start is all but a sum of eight eigenvectors, so that the ninth vector is what rounding leaves."""
    A = sp.csr_array(sp.diags_array(np.r_[np.linspace(1, 2, 8), np.linspace(0, 0.9, 300)])).astype(dtype)
    v0 = np.r_[np.ones(8), np.full(300, 1e3 * eps(dtype))].astype(dtype)
    v = eigsh(sg.aslinearoperator(A, device=device), k=14, ncv=60, v0=v0)[1]
    np.testing.assert_allclose(v.conj().T @ v, np.eye(14), rtol=0, atol=100 * eps(dtype))
