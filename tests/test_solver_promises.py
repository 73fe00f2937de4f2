"""What solvers promise whatever the system: `info`, the true residual, nothing that depends on a scale."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from generators.systems import neumann2d
from spmvgpu import gallery, linalg
from support import nightly
from systems import convection

SOLVERS = ["cg", "bicgstab", "gmres", "minres"]
PRECONDITIONERS = {
    "none": lambda A, s: None,
    "diagonal": lambda A, s: 1 / A.diagonal(),
    "operator": lambda A, s: spla.aslinearoperator(sp.diags_array(1 / A.diagonal())),
}
# Exponents of two for A and b: among them squares beyond the type, and numbers with fewer digits than usual.
SCALES = {
    np.dtype(np.float32): [(0, -110), (0, 100), (-110, -110), (110, 0), (-60, 40), (100, 100)],
    np.dtype(np.float64): [
        (0, -1000),
        (0, 990),
        (-1000, -1000),
        (990, 0),
        (-300, 700),
        (-540, -540),
        (990, 990),
    ],
}
TYPES = [np.float32, np.float64, np.complex64, np.complex128]


def real_type(dtype):
    return np.dtype(np.dtype(dtype).type(0).real.dtype)


def scaled(array, exponent):
    """``2**exponent * array``, which may be beyond what a float of Python's can be."""
    parts = np.ldexp(array.real, exponent)
    return parts + 1j * np.ldexp(array.imag, exponent) if array.dtype.kind == "c" else parts


def system(dtype):
    """A Hermitian positive definite matrix, and a right-hand side."""
    A = sp.csr_array(gallery.poisson2d(12), dtype=dtype)
    if np.dtype(dtype).kind == "c":
        turn = sp.diags_array(np.exp(1j * np.arange(144)))
        A = turn @ A @ turn.conj().T
    rng = np.random.default_rng(3)
    b = rng.standard_normal(144) + (1j * rng.standard_normal(144) if np.dtype(dtype).kind == "c" else 0)
    return sp.csr_array(A, dtype=dtype), b.astype(dtype)


def norm(v):
    """As `numpy.linalg.norm`, of numbers whose squares may be beyond float64."""
    v = np.abs(np.asarray(v).astype(np.clongdouble))
    return np.sqrt((v**2).sum())


def true_residual(A, x, b):
    wide = np.clongdouble
    return norm(np.asarray(b).astype(wide) - A.toarray().astype(wide) @ np.asarray(x).astype(wide))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("preconditioner", PRECONDITIONERS)
@pytest.mark.parametrize("dtype", TYPES)
def test_scales_change_nothing(solver, preconditioner, device, dtype):
    A, b = system(dtype)
    start = np.roll(b, 7)

    def solved(of_matrix, of_right, **options):
        matrix, right = A.copy(), scaled(b, of_right).astype(dtype)
        matrix.data = scaled(A.data, of_matrix).astype(dtype)
        op = sg.aslinearoperator(matrix, device=device)
        M = PRECONDITIONERS[preconditioner](matrix, of_matrix)
        residuals = []
        x, info = getattr(linalg, solver)(op, right, M=M, rtol=1e-4, residuals=residuals, **options)
        how = op.solve_info
        assert how.residual == pytest.approx(how.true_residual, rel=0.1)
        of_residuals = of_right - (of_matrix if solver == "gmres" and M is not None else 0)
        at = np.array([scaled(np.array(residual), -of_residuals) for residual in residuals])
        return scaled(x, of_matrix - of_right), info, how.iterations, at

    guess = start.astype(dtype)
    for of_matrix, of_right in SCALES[real_type(dtype)]:
        for x0 in (None, guess):
            expected, *facts, residuals = solved(0, 0, x0=x0)
            moved = None if x0 is None else scaled(x0, of_right - of_matrix).astype(dtype)
            x, *found, at = solved(of_matrix, of_right, x0=moved)
            # On a GPU sums of scaled systems are added in another order, and small products of float32 may
            # have fewer digits than others.
            is_exact = device == "cpu" and real_type(dtype) == np.float64
            assert found[0] == facts[0] == 0
            assert abs(found[1] - facts[1]) <= (0 if is_exact else 1 + facts[1] // 10)
            scale = np.abs(expected).max()
            np.testing.assert_allclose(x, expected, rtol=0, atol=1e-3 * scale)
            early = min(len(at), len(residuals), 6)
            np.testing.assert_allclose(at[:early], residuals[:early], rtol=1e-3)


@pytest.mark.parametrize("solver", SOLVERS)
def test_callbacks_see_the_iterates_of_a_scaled_system(solver, device):
    A, b = system(np.float64)
    options = {"callback_type": "x", "restart": 5} if solver == "gmres" else {}
    seen = {}
    for exponent in (0, 900):
        seen[exponent] = iterates = []
        op = sg.aslinearoperator(A, device=device)
        getattr(linalg, solver)(
            op,
            scaled(b, exponent),
            callback=lambda x, to=iterates: to.append(np.array(x)),
            rtol=1e-3,
            **options,
        )
    assert len(seen[0]) > 3
    for here, there in zip(seen[0][:3], seen[900], strict=False):
        np.testing.assert_allclose(scaled(there, -900), here, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(
    ("of_matrix", "of_right"), [(600, -600), (-600, 600)], ids=["too small", "too large"]
)
def test_a_solution_that_no_number_holds(solver, of_matrix, of_right, device):
    A, b = system(np.float64)
    op = sg.aslinearoperator(sp.csr_array(scaled(A.toarray(), of_matrix)), device=device)
    with pytest.warns(linalg.SolverWarning):
        _, info = getattr(linalg, solver)(op, scaled(b, of_right))
    assert info != 0


def hostile(kind, rng, dtype):
    """A matrix of some kind with a right-hand side, from harmless to singular."""
    n = int(rng.integers(1, 40))
    B = rng.standard_normal((n, n)) * 10.0 ** rng.uniform(-rng.integers(0, 12), rng.integers(0, 5), (n, 1))
    if dtype.kind == "c":
        B = B + 1j * rng.standard_normal((n, n))
    hermitian = B + B.conj().T
    if kind == "definite":
        A = B @ B.conj().T + 10.0 ** rng.uniform(-16, 1) * np.eye(n)
    elif kind == "indefinite":
        A = hermitian
    elif kind == "singular":
        A = hermitian.copy()
        A[-1] = A[:, -1] = 0
    elif kind == "diagonal":
        A = np.diag(10.0 ** rng.uniform(-10, 10, n)).astype(dtype)
    else:
        A = B
    A = A.astype(dtype)
    most = 30 if real_type(dtype) == np.float32 else 300
    b = rng.standard_normal(n) * 10.0 ** rng.integers(-most, most)
    return A, (A @ rng.standard_normal(n) if rng.random() < 0.3 else b).astype(dtype)


def slope(A, x, b, M=None):
    """``norm(A @ M @ r) / (norm(A) * norm(r))`` of a residual, in the norm of M, a diagonal or a matrix."""
    A = np.asarray(A, np.clongdouble)
    half = (
        np.eye(len(b))
        if M is None
        else np.diag(np.sqrt(M))
        if M.ndim == 1
        else np.linalg.cholesky(M).conj().T
    )
    r = half @ (b - A @ x)
    inside = half @ A @ half.conj().T
    return norm(inside @ r) / (np.linalg.norm(np.asarray(inside, complex), 2) * norm(r) or 1.0)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", ["definite", "indefinite", "singular", "diagonal", "any"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_info_is_0_for_solutions_only(solver, kind, dtype, device):
    dtype = np.dtype(dtype)
    rng = np.random.default_rng(7)
    for _ in range(8):
        A, b = hostile(kind, rng, dtype)
        op, rtol = sg.aslinearoperator(A, device=device), 10.0 ** rng.uniform(-14, -1)
        M = np.exp(rng.standard_normal(len(b))).astype(dtype) if rng.random() < 0.4 else None
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", linalg.SolverWarning)
            try:
                x, info = getattr(linalg, solver)(op, b, rtol=rtol, M=M, maxiter=500)
            except ValueError:  # that the matrix, which is not Hermitian, does not suit minres
                assert (solver, kind) == ("minres", "any")
                continue
        how = op.solve_info
        assert (info == 0) == (how.status in ("converged", "least_squares")), how
        if info == 0:
            assert np.isfinite(x).all()
            rounding = 4 * len(b) * np.finfo(dtype).eps * norm(np.abs(A).astype(np.longdouble) @ np.abs(x))
            residual = true_residual(sp.csr_array(A), x, b)
            if how.status == "converged":
                assert residual <= 1.001 * rtol * norm(b) + rounding
            else:
                assert slope(A, x, b, M) <= 20 * np.sqrt(np.finfo(dtype).eps)


@pytest.mark.parametrize("solver", ["cg", "bicgstab", "minres"])
def test_goes_on_from_the_true_residual(solver, device):
    """Where the residual that is updated has parted from the true one, by a first guess that is far away."""
    A, b = system(np.float32)
    op = sg.aslinearoperator(A, device=device)
    far = 1e6 * np.roll(b, 3)
    x, info = getattr(linalg, solver)(op, b, far, rtol=1e-4)
    assert info == 0
    assert true_residual(A, x, b) <= 1.01e-4 * norm(b)


# Break-downs


def test_bicgstab_goes_on_where_the_residual_is_orthogonal_to_the_first(device):
    """As it is after one step with this matrix."""
    A = np.array([[1.0, 1.0, 0.0], [-1.0, 1.0, 1.0], [0.0, 1.0, 2.0]])
    rng = np.random.default_rng(0)
    for _ in range(20):
        b = rng.integers(-2, 3, 3).astype(float)
        x, info = linalg.bicgstab(sg.aslinearoperator(A, device=device), b, rtol=1e-10)
        assert info == 0
        np.testing.assert_allclose(A @ x, b, atol=1e-8)


# minres


def test_minres_without_a_solution(device):
    A = neumann2d(16)
    b = np.random.default_rng(1).standard_normal(256)
    for scale in (1.0, 1e-20, 1e20):
        op = sg.aslinearoperator(scale * A, device=device)
        x, info = linalg.minres(op, b)
        assert (info, op.solve_info.status) == (0, "least_squares")
        # What is left is the part of b along the vector of ones, which A maps to zero.
        np.testing.assert_allclose(b - scale * (A @ x), np.full(256, b.mean()), atol=1e-6)
        x, info = linalg.minres(op, b - b.mean())
        assert (info, op.solve_info.status) == (0, "converged")
        assert np.linalg.norm(b - b.mean() - scale * (A @ x)) <= 1.001e-5 * np.linalg.norm(b - b.mean())


def singular(rng, dtype):
    """A Hermitian matrix of less than full rank, a right-hand side that is rarely in its range, and an M."""
    n = int(rng.integers(3, 50))
    rank, is_complex = int(rng.integers(1, n)), dtype.kind == "c"
    B = rng.standard_normal((n, rank)) * 10.0 ** rng.uniform(-1, 1, rank)
    if rng.random() < 0.3:
        B = np.round(rng.uniform(-2, 2, (n, rank)))
    B = B + 1j * rng.standard_normal((n, rank)) if is_complex else B
    A = (B * rng.choice([-1.0, 1.0], rank)) @ B.conj().T
    b = rng.standard_normal(n) + (1j * rng.standard_normal(n) if is_complex else 0)
    if rng.random() < 0.5:
        b = A @ b + 10.0 ** rng.integers(-8, 1) * b
    C = rng.standard_normal((n, n))
    M = [None, 10.0 ** rng.uniform(-1, 1, n), C @ C.T / n + 0.5 * np.eye(n)][rng.integers(3)]
    return A.astype(dtype), b.astype(dtype), None if M is None else M.astype(dtype)


@pytest.mark.parametrize("cases", [60, *nightly([3000])])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128], ids=lambda dtype: dtype.__name__)
def test_minres_of_singular_systems(cases, dtype, device):
    """Every x that minres calls a least-squares solution is one, and most systems get one."""
    rng, dtype = np.random.default_rng(11), np.dtype(dtype)
    allowed, found = 20 * np.sqrt(np.finfo(dtype).eps), 0
    for case in range(cases):
        A, b, M = singular(rng, dtype)
        given = spla.aslinearoperator(M) if M is not None and M.ndim == 2 else M
        op = sg.aslinearoperator(A, device=device)
        B = b if case % 3 else np.stack([b, A @ b], axis=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", linalg.SolverWarning)
            x, info = linalg.minres(op, B, rtol=1e-6 if real_type(dtype) == np.float64 else 1e-3, M=given)
        columns = op.solve_info.columns or [op.solve_info]
        each = zip(np.atleast_2d(x.T), np.atleast_2d(B.T), np.atleast_1d(info), columns, strict=True)
        for one, right, number, how in each:
            assert (number == 0) == (how.status in ("converged", "least_squares")), (case, how)
            if how.status == "least_squares":
                rounding = 4 * len(right) * np.finfo(dtype).eps * norm(abs(A) @ abs(one)) / how.true_residual
                assert slope(A, one, right, M) <= allowed + rounding, (case, how)
        found += np.atleast_1d(info)[0] == 0
    assert found > 0.7 * cases


def test_minres_ends_by_the_residual_in_the_ordinary_norm(device):
    """Also with a preconditioner, in whose norm it is another."""
    A, b = system(np.float64)
    op = sg.aslinearoperator(A, device=device)
    M = np.logspace(-3, 3, len(b))
    for given in ({"rtol": 1e-7}, {"rtol": 0.0, "atol": 1e-5}):
        x, info = linalg.minres(op, b, M=M, maxiter=5000, **given)
        assert info == 0
        assert true_residual(A, x, b) <= 1.001 * max(given["rtol"] * norm(b), given.get("atol", 0.0))
        assert op.solve_info.goal == pytest.approx(max(given["rtol"] * norm(b), given.get("atol", 0.0)))


@pytest.mark.parametrize("solver", SOLVERS)
def test_preconditioners_that_round(solver, device):
    """One in single precision maps what is left of r as well as r; an exact one ends the basis at once."""
    rng = np.random.default_rng(4)
    for n in (1, 2, 7):
        values = rng.uniform(1, 3, n)
        A, M = sp.diags_array(values), sp.diags_array(1 / values).astype(np.float32)
        rounded = spla.LinearOperator(A.shape, lambda x, M=M: M @ x.astype(np.float32), dtype=A.dtype)
        op, b = sg.aslinearoperator(sp.csr_array(A), device=device), rng.standard_normal(n)
        x, info = getattr(linalg, solver)(op, b, rtol=1e-12, M=rounded)
        assert info == 0, (n, op.solve_info)
        assert norm(b - A @ x) <= 1e-12 * norm(b)


def test_minres_with_a_preconditioner_that_makes_it_harder(device):
    """The norm by which it iterates says little of |r| then, and rounding more. A factor changes nothing."""
    rng = np.random.default_rng(20)
    for n in rng.integers(20, 90, 12):
        B = sp.random_array((n, n), density=0.05, rng=rng)
        A = sp.csr_array(rng.uniform(1, 30) * (B @ B.T) + sp.eye_array(n), dtype=np.float32)
        if np.linalg.cond((A @ A).toarray()) > 1e5:
            continue  # about as much as single precision holds
        b = rng.integers(-3, 4, n).astype(np.float32)
        op = sg.aslinearoperator(A, device=device)
        many = {"rtol": 1e-4, "maxiter": 20 * n}
        found = [linalg.minres(op, b, M=np.ldexp(1.0, exponent) * op, **many) for exponent in (0, -20, 20)]
        assert [info for _, info in found] == [0, 0, 0]
        assert np.linalg.norm(b - A.astype(np.float64) @ found[0][0]) <= 1e-4 * np.linalg.norm(b)
        np.testing.assert_array_equal(found[0][0], found[1][0])
        np.testing.assert_array_equal(found[0][0], found[2][0])


# Counts


class Counted(spla.LinearOperator):
    """A matrix that counts the products with it."""

    def __init__(self, A):
        super().__init__(A.dtype, A.shape)
        self.A, self.calls = A, 0

    def _matvec(self, x):
        self.calls += 1
        return self.A @ x


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("guess", [True, False])
def test_products_are_counted(solver, symmetric, guess, device):
    A, b = system(np.float64)
    if not symmetric:
        if solver in ("cg", "minres"):
            pytest.skip("for symmetric matrices")
        A = sp.csr_array(convection())
        b = np.ones(A.shape[0])
    counted, M = Counted(A), Counted(sp.diags_array(1 / A.diagonal()))
    solve = getattr(linalg, solver)
    x0 = np.roll(b, 1) if guess else None
    hows = []
    original = linalg.systems.ForeignSystem.__init__

    def noted(self, *args):
        original(self, *args)
        hows.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linalg.systems.ForeignSystem, "__init__", noted)
        assert solve(counted, b, x0, M=M, rtol=1e-8)[1] == 0
    how = hows[0].solve_info
    assert (how.products, how.preconditionings) == (counted.calls, M.calls)
    op = sg.aslinearoperator(A, device=device)
    assert solve(op, b, x0, M=M, rtol=1e-8)[1] == 0
    there = op.solve_info
    each = {"bicgstab": 2}.get(solver, 1)
    assert there.products >= each * there.iterations
    beside = how.products - each * how.iterations
    assert abs(there.products - each * there.iterations - beside) <= (0 if device == "cpu" else 3)
