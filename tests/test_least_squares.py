"""lsqr, lsmr and cgls, compared with SciPy and with dense least squares."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import COMPLEX_TYPES, TYPES, typed, uniform, vector
from spmvgpu import gallery
from spmvgpu.linalg import SolverWarning, cgls, lsmr, lsqr
from support import nightly
from systems import convection

MATRICES = {
    "1x1": lambda: sp.csr_array([[3.0]]),
    "tall": lambda: uniform(300, 80, 5),
    "wide": lambda: uniform(80, 300, 12),
    "convection": convection,
    "rank_deficient": lambda: sp.hstack([uniform(200, 40, 4)] * 2),
    "poisson2d": lambda: gallery.poisson2d(12, 9),
}
BOTH = [lsqr, lsmr]
# Places in SciPy's tuples: norms of residuals, and what is known with some relative accuracy. The last
# iterations enlarge rounding errors in the norm of A and its condition number, but not in the norm of x.
RESIDUALS = {"lsqr": (3, 4), "lsmr": (3,)}
OTHERS = {"lsqr": {5: 0.05, 6: 0.3, 8: 1e-7}, "lsmr": {5: 0.05, 6: 0.3, 7: 1e-7}}


def made(name, dtype):
    A = sp.csr_array(MATRICES[name]())
    A.sum_duplicates()
    return sp.csr_array((typed(A, dtype), A.indices, A.indptr), shape=A.shape)


def system(name, dtype, consistent=False):
    A = made(name, dtype)
    return A, A @ vector(A.shape[1], A.dtype) if consistent else vector(A.shape[0], A.dtype)


def least_squares(A, b, damp=0.0):
    wide = A.toarray().astype(np.result_type(A.dtype, np.float64))
    stacked = np.vstack([wide, damp * np.eye(A.shape[1])])
    return np.linalg.lstsq(stacked, np.concatenate([b, np.zeros(A.shape[1])]), rcond=1e-10)[0]


@pytest.mark.parametrize("damp", [0.0, 0.3])
@pytest.mark.parametrize("consistent", [False, True])
@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("solver", BOTH)
def test_as_scipy(solver, name, consistent, damp, device):
    A, b = system(name, np.float64, consistent)
    tol, method = 1e-9, solver.__name__
    options = dict(damp=damp, atol=tol, btol=tol)
    found = solver(sg.aslinearoperator(A, device=device), b, **options)
    reference = getattr(spla, method)(A, b, **options)
    x, istop, itn = reference[:3]
    assert len(found) == len(reference)
    assert found[1] == istop
    assert abs(found[2] - itn) <= 1 + itn // 20
    np.testing.assert_allclose(found[0], x, rtol=0, atol=1e-6 * abs(x).max())
    if found[2] == itn > 1:
        for place, rtol in OTHERS[method].items():
            np.testing.assert_allclose(found[place], reference[place], rtol=rtol)
        # A residual below what the solvers stop at is a matter of rounding.
        enough = tol * (np.linalg.norm(b) + reference[5] * np.linalg.norm(x))
        for place in RESIDUALS[method]:
            np.testing.assert_allclose(found[place], reference[place], rtol=1e-6, atol=enough)


@pytest.mark.parametrize("dtype", [*TYPES, *COMPLEX_TYPES], ids=str)
@pytest.mark.parametrize("name", ["tall", "wide"])
@pytest.mark.parametrize("solver", [lsqr, lsmr, cgls])
def test_every_type(solver, name, dtype, device):
    A, b = system(name, dtype)
    precise = dtype in (np.float64, np.complex128)
    options = dict(rtol=1e-9 if precise else 1e-5) if solver is cgls else dict(atol=1e-10, btol=1e-10)
    options["maxiter" if solver is not lsqr else "iter_lim"] = 200
    x = solver(sg.aslinearoperator(A, device=device), b, **options)[0]
    assert (x.shape, x.dtype) == ((A.shape[1],), dtype)
    expected = least_squares(A, b)
    np.testing.assert_allclose(x, expected, rtol=0, atol=(1e-7 if precise else 1e-3) * abs(expected).max())


@pytest.mark.parametrize("damp", [0.0, 0.5])
@pytest.mark.parametrize("name", MATRICES)
def test_cgls(name, damp, device):
    A, b = system(name, np.float64)
    op = sg.aslinearoperator(A, device=device)
    x, info = cgls(op, b, damp=damp, rtol=1e-10, maxiter=2000)
    assert info == 0
    slope = A.T @ (b - A @ x) - damp**2 * x
    assert np.linalg.norm(slope) <= 1.01e-10 * np.linalg.norm(A.T @ b)
    expected = least_squares(A, b, damp)
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-6 * abs(expected).max())
    again, info = cgls(op, b, x, damp=damp, rtol=1e-9)
    assert info == 0
    np.testing.assert_array_equal(again, x)  # it is a solution
    assert cgls(op, b, damp=damp, rtol=1e-10, maxiter=0)[1] == 1


def test_cgls_says_when_rounding_stops_it(device):
    A, b = system("tall", np.float32, consistent=True)
    with pytest.warns(SolverWarning, match="cgls stagnated"):
        assert cgls(sg.aslinearoperator(A, device=device), b, rtol=1e-12, maxiter=10_000)[1] > 0


@pytest.mark.parametrize("cases", [40, *nightly([2000])])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("solver", [lsqr, lsmr, cgls])
def test_matrices_of_any_rank(solver, dtype, cases, device):
    """What is said of a solution is true of it, and is what is said of most."""
    rng, found = np.random.default_rng(17), 0
    for case in range(cases):
        m, n = rng.integers(1, 40, 2)
        rank = int(rng.integers(0, min(m, n) + 1))
        left, right = rng.standard_normal((m, rank)), rng.standard_normal((rank, n))
        if np.dtype(dtype).kind == "c":
            left = left + 1j * rng.standard_normal((m, rank))
        A = ((left * 10.0 ** rng.uniform(-1, 1, rank)) @ right * 10.0 ** rng.integers(-100, 100)).astype(
            dtype
        )
        b = rng.standard_normal(m).astype(dtype)
        if rng.random() < 0.3:
            b = A @ rng.standard_normal(n).astype(dtype)
        size = np.linalg.norm(A, 2) if A.any() else 1.0
        x0 = (np.linalg.norm(b) / size * rng.standard_normal(n)).astype(dtype) if rng.random() < 0.3 else None
        options = {lsqr: dict(iter_lim=400), lsmr: dict(maxiter=400), cgls: dict(maxiter=400, rtol=1e-6)}[
            solver
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SolverWarning)
            x, reason, *_ = solver(sg.aslinearoperator(A, device=device), b, x0=x0, **options)
        r = b - A @ x
        gradient = np.linalg.norm(A.conj().T @ (r / size)) if A.any() else 0.0
        if solver is cgls:
            is_found, is_true = reason == 0, gradient <= 1.1e-6 * np.linalg.norm(A.conj().T @ (b / size))
        else:
            is_found = reason in (0, 1, 2, 4, 5)
            of_x = np.linalg.norm(A) * np.linalg.norm(x)  # they estimate the Frobenius norm of A
            is_true = min(gradient, np.linalg.norm(r)) <= 3e-6 * (np.linalg.norm(b) + of_x)
        assert is_true or not is_found, (case, reason)
        found += is_found
    assert found >= 0.8 * cases


@pytest.mark.parametrize("damp", [0.0, 0.3])
@pytest.mark.parametrize("solver", BOTH)
def test_a_guess(solver, damp, device):
    A, b = system("tall", np.float64)
    guess = vector(A.shape[1], np.float64, seed=3)
    options = dict(damp=damp, atol=1e-10, btol=1e-10)
    found = solver(sg.aslinearoperator(A, device=device), b, x0=guess, **options)
    reference = getattr(spla, solver.__name__)(A, b, x0=guess, **options)
    assert found[1] == reference[1]
    np.testing.assert_allclose(found[0], reference[0], rtol=1e-7)
    np.testing.assert_allclose(found[3], reference[3], rtol=1e-7)
    np.testing.assert_allclose(
        found[-2 if solver is lsqr else -1], reference[-2 if solver is lsqr else -1], rtol=1e-5
    )


def test_variances(device):
    A, b = system("tall", np.float64)
    op = sg.aslinearoperator(A, device=device)
    var = lsqr(op, b, calc_var=True, atol=1e-13, btol=1e-13)[-1]
    reference = spla.lsqr(A, b, calc_var=True, atol=1e-13, btol=1e-13)[-1]
    np.testing.assert_allclose(var, reference, rtol=0.05)
    np.testing.assert_array_equal(lsqr(op, b)[-1], np.zeros(A.shape[1]))


@pytest.mark.parametrize("solver", BOTH)
def test_limits(solver, device):
    A, b = system("tall", np.float64)
    op, name = sg.aslinearoperator(A, device=device), "iter_lim" if solver is lsqr else "maxiter"
    for limit in (1, 3):
        found = solver(op, b, **{name: limit})
        reference = getattr(spla, solver.__name__)(A, b, **{name: limit})
        assert found[1:3] == reference[1:3] == (7, limit)
        np.testing.assert_allclose(found[0], reference[0], rtol=1e-9)
    condition = dict(conlim=5 if solver is lsqr else 1.6, atol=0, btol=0)
    found = solver(op, b, **condition)
    assert found[1] == 3
    assert found[1:3] == getattr(spla, solver.__name__)(A, b, **condition)[1:3]


@pytest.mark.parametrize("solver", BOTH)
def test_nothing_to_do(solver, device):
    A, b = system("tall", np.float64)
    op = sg.aslinearoperator(A, device=device)
    x, istop, itn, *_ = solver(op, np.zeros_like(b))
    assert (istop, itn) == (0, 0)
    np.testing.assert_array_equal(x, 0)
    x, istop, itn, *_ = solver(sg.aslinearoperator(sp.csr_array(A.shape), device=device), b)
    assert (istop, itn) == (0, 0)
    np.testing.assert_array_equal(x, 0)
    x, info = cgls(op, np.zeros_like(b))
    assert info == 0
    np.testing.assert_array_equal(x, 0)


@pytest.mark.parametrize("of_A", [-500, 0, 500])
@pytest.mark.parametrize("of_b", [-500, 0, 500])
@pytest.mark.parametrize("solver", [lsqr, lsmr, cgls])
def test_scales(solver, of_A, of_b, device):
    """Powers of two change no bit of the solution but its exponent."""
    A, b = system("tall", np.float64)
    x, *rest = solver(sg.aslinearoperator(A, device=device), b)
    op = sg.aslinearoperator(A * 2.0**of_A, device=device)
    scaled, *of_scaled = solver(op, b * 2.0**of_b)
    np.testing.assert_array_equal(np.ldexp(scaled, of_A - of_b), x)
    assert of_scaled[:2] == rest[:2]
    if solver is lsmr:
        np.testing.assert_allclose(np.ldexp(of_scaled[2], -of_b), rest[2], rtol=1e-12)
        np.testing.assert_allclose(np.ldexp(of_scaled[4], -of_A), rest[4], rtol=1e-12)


@pytest.mark.parametrize(("of_A", "of_b"), [(-900, -300), (-300, -900), (-600, -500), (480, 480), (0, 900)])
@pytest.mark.parametrize("solver", [lsqr, lsmr, cgls])
def test_products_of_norms_that_are_no_numbers(solver, of_A, of_b, device):
    """``norm(A.H @ b)`` underflows or overflows, and the solution does not."""
    A, b = system("tall", np.float64)
    op = sg.aslinearoperator(sp.csr_array(A * 2.0**of_A), device=device)
    options = dict(rtol=1e-10) if solver is cgls else dict(atol=1e-12, btol=1e-12)
    x, reason, *_ = solver(op, b * 2.0**of_b, **options)
    assert reason == (0 if solver is cgls else 2)
    np.testing.assert_allclose(np.ldexp(x, of_A - of_b), least_squares(A, b), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("solver", [lsqr, lsmr])
def test_damping_of_a_matrix_that_is_small_beside_it(solver, device):
    A, b = system("tall", np.float64)
    x = solver(sg.aslinearoperator(A * 1e-200, device=device), b, damp=1.0)[0]
    assert np.linalg.norm(x) <= 1e-190


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("solver", [lsqr, lsmr, cgls])
def test_a_guess_for_a_right_hand_side_of_zeros(solver, dtype, device):
    A, b = system("tall", dtype)
    guess = vector(A.shape[1], dtype, seed=3)
    for scale in (1.0, 1e-30, 1e30):
        x = solver(sg.aslinearoperator(A, device=device), 0 * b, x0=scale * guess)[0]
        assert abs(x).max() <= 1e-4 * scale * abs(guess).max()


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("solver", [lsqr, lsmr, cgls])
def test_columns(solver, count, host_library, device):
    """Each as it is by itself; a single one is a vector, as in SciPy."""
    A, _ = system("tall", np.float64)
    rng = np.random.default_rng(5)
    B, X0 = rng.standard_normal((300, count)), rng.standard_normal((80, count))
    op = sg.aslinearoperator(A, device=device)
    options = dict(calc_var=True) if solver is lsqr else {}
    for guess in (None, X0):
        given = None if guess is None else host_library.asarray(guess)
        found = solver(op, host_library.asarray(B), x0=given, **options)
        expected = [
            solver(op, B[:, j], x0=None if guess is None else guess[:, j], **options) for j in range(count)
        ]
        assert isinstance(found[0], host_library.array_type)
        assert found[0].shape == ((80,) if count == 1 else (80, count))
        for place, values in enumerate(found):
            values = host_library.to_numpy(values) if isinstance(values, host_library.array_type) else values
            if count == 0:
                assert np.asarray(values).shape[-1] == 0
            else:
                each = [one[place] for one in expected]
                np.testing.assert_array_equal(values, each[0] if count == 1 else np.stack(each, -1))


@pytest.mark.gpu
@pytest.mark.parametrize("solver", [lsqr, lsmr, cgls])
def test_columns_on_a_gpu(solver, library, cuda_device):
    A, _ = system("tall", np.float64)
    B = np.random.default_rng(5).standard_normal((300, 3))
    op = sg.aslinearoperator(A, device=cuda_device)
    X = solver(op, library.asarray(B, cuda_device))[0]
    assert isinstance(X, library.array_type)
    np.testing.assert_array_equal(library.to_numpy(X), solver(op, B)[0])


def test_show(capsys):
    A, b = system("tall", np.float64)
    for solver in BOTH:
        itn = solver(A, b, show=True)[2]
        assert len(capsys.readouterr().out.splitlines()) == itn


REFUSED = {
    "b columns": (dict(b=np.ones((7, 2))), ValueError, r"b has shape \(7, 2\);.*\(300, 2\)"),
    "x0 columns": (dict(b=np.ones((300, 2)), x0=np.ones(80)), ValueError, r"x0 has shape \(80,\);.*2"),
    "x0 of no columns": (
        dict(b=np.ones((300, 0)), x0=np.ones((80, 2))),
        ValueError,
        r"x0 has shape \(80, 2\)",
    ),
    "damp of no columns": (dict(b=np.ones((300, 0)), damp=np.inf), ValueError, "damp=inf"),
    "damp": (dict(damp=np.inf), ValueError, "damp=inf"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("solver", [lsqr, lsmr, cgls])
def test_refused(solver, case, device):
    options, error, message = REFUSED[case]
    A, b = system("tall", np.float64)
    with pytest.raises(error, match=message):
        solver(sg.aslinearoperator(A, device=device), **{"b": b, **options})


@pytest.mark.parametrize("solver", [lsqr, lsmr, cgls])
def test_callbacks_that_go_wrong(solver):
    A, b = system("tall", np.float64)
    without_adjoint = spla.LinearOperator(A.shape, matvec=lambda x: A @ x, dtype=A.dtype)
    with pytest.raises(NotImplementedError):
        solver(without_adjoint, b)
    wrong = spla.LinearOperator(
        A.shape, matvec=lambda x: A @ x, rmatvec=lambda y: 1j * (A.T @ y), dtype=A.dtype
    )
    with pytest.raises(TypeError, match="the adjoint of A returned a vector of dtype complex128"):
        solver(wrong, b)
