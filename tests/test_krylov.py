"""Every solver of `spmvgpu.linalg` beside SciPy's: the same answers, the same `info`, as many iterations."""

import pickle
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import COMPLEX_TYPES, TYPES, vector
from generators.systems import neumann2d
from spmvgpu import gallery, linalg
from spmvgpu.linalg import SolverWarning
from support import in_turn
from systems import SPD, convection, counted, phases, spd, turned

SOLVERS = ["cg", "bicgstab", "gmres", "minres"]


SYSTEMS = {
    **SPD,
    "indefinite": lambda: gallery.poisson2d(20) - 0.31 * sp.eye_array(400),
    "unsymmetric": convection,
    "singular": lambda: neumann2d(16),
    "hermitian": lambda: turned(gallery.poisson3d(9)),
    "general": lambda: convection() + 0.5j * sp.eye_array(576) + 0.2j * gallery.poisson2d(24),
}
CASES = [
    *((name, "cg") for name in SPD if name != "spread_diagonal"),
    *(("poisson3d", solver) for solver in SOLVERS[1:]),
    *(("indefinite", solver) for solver in ("minres", "gmres")),
    *(("singular", solver) for solver in ("cg", "minres", "gmres")),
    *(("hermitian", solver) for solver in ("cg", "bicgstab", "gmres")),
    *((name, solver) for name in ("unsymmetric", "general") for solver in ("bicgstab", "gmres")),
]
PRECONDITIONERS = ["none", "diagonal", "operator"]


def system(name, dtype=np.float64):
    """A matrix, and a right-hand side of its range; complex ones have the precision of the type."""
    A = sp.csr_array(SYSTEMS[name]())
    A = A.astype(np.result_type(dtype, np.complex64) if A.dtype.kind == "c" else dtype)
    return A, A @ vector(A.shape[0], A.dtype)


def residual(A, x, b):
    wide = np.result_type(A.dtype, np.float64)
    return np.linalg.norm(b - A.astype(wide) @ np.asarray(x, wide)) / np.linalg.norm(b)


@pytest.mark.parametrize(("case", "dtype"), in_turn(list(product(CASES, PRECONDITIONERS)), TYPES), ids=str)
def test_agrees_with_scipy(case, device, dtype):
    (name, solver), preconditioner = case
    A, b = system(name, dtype)
    op = sg.aslinearoperator(A, device=device)
    diagonal = (1 / np.linspace(1, 2, len(b))).astype(A.dtype)
    if A.dtype.kind == "c" and solver != "cg":
        diagonal = (diagonal * np.exp(0.3j)).astype(A.dtype)
    M = None if preconditioner == "none" else sp.diags_array(diagonal)
    given = diagonal if preconditioner == "diagonal" else None if M is None else spla.aslinearoperator(M)
    rtol = 1e-4 if dtype == np.float32 else 1e-9
    history = []
    x, info, iterations = counted(linalg, solver, op, b, rtol=rtol, M=given, residuals=history)
    expected, expected_info, expected_iterations = counted(spla, solver, A, b, rtol=rtol, M=M)
    assert (info, expected_info, x.dtype) == (0, 0, A.dtype)
    # In float32 sums are more exact here: double.
    slack = 0.05 if dtype == np.float64 else 0.1
    assert abs(iterations - expected_iterations) <= 2 + slack * expected_iterations
    assert (len(history) - 1, op.solve_info.iterations) == (iterations, iterations)
    assert residual(A, x, b) <= max(2 * rtol, 1.2 * residual(A, expected, b))
    size, rounding = np.linalg.norm(b), float(np.finfo(dtype).eps * np.linalg.norm(b))
    assert op.solve_info.true_residual == pytest.approx(residual(A, x, b) * size, rel=0.05, abs=rounding)
    again = getattr(linalg, solver)(op, b, rtol=rtol, M=given)
    np.testing.assert_array_equal(again[0], x)  # the same bits, in batches or one by one


@pytest.mark.parametrize("solver", SOLVERS)
def test_small_questions(solver, device):
    """What SciPy answers where there is nothing, or nearly nothing, to be done."""
    ours, theirs = getattr(linalg, solver), getattr(spla, solver)
    A, b = system("poisson3d")
    op, start = sg.aslinearoperator(A, device=device), vector(len(b), b.dtype, seed=5)
    if solver != "gmres":  # whose SciPy raises UnboundLocalError
        assert theirs(A, b, start, maxiter=0)[1] == 0
    x, info = ours(op, b, start, maxiter=0)
    assert info == 1  # which SciPy would call a solution
    np.testing.assert_array_equal(x, start)
    x, info = ours(op, 0 * b, start)
    assert info == theirs(A, 0 * b, start)[1] == 0
    np.testing.assert_array_equal(x, 0 * b)
    exact = spla.spsolve(A.tocsc(), b)
    x, info = ours(op, b, exact)
    assert info == 0
    np.testing.assert_allclose(x, exact, rtol=1e-9)
    for shape in ((len(b), 1), (len(b),)):
        x, info = ours(op, b.reshape(shape), start.reshape(shape), rtol=1e-10)
        assert (x.shape, info) == ((len(b),), 0)
    tiny = sg.aslinearoperator(np.array([[4.0]]), device=device)
    x, info = ours(tiny, np.array([2.0]))
    assert info == 0
    np.testing.assert_allclose(x, [0.5], rtol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("every", [None, 1, 5, 1000])
def test_looks_change_nothing(every, solver, device):
    A, b = system("poisson3d")
    op = sg.aslinearoperator(A, device=device)
    history, expected = [], []
    x, _ = getattr(linalg, solver)(op, b, rtol=1e-9, check_every=every, residuals=history)
    y, _ = getattr(linalg, solver)(op, b, rtol=1e-9, residuals=expected)
    np.testing.assert_array_equal(x, y)
    assert history == expected
    assert history[-1] < 1e-6 * history[0]


def test_histories_longer_than_what_the_device_keeps(device):
    A = gallery.poisson1d(3000)
    b = np.zeros(3000)
    b[0] = 1
    history = []
    op = sg.aslinearoperator(A, device=device)
    _, info = linalg.cg(op, b, rtol=1e-8, residuals=history)
    assert info == 0
    assert len(history) == 3001
    norms = []
    linalg.cg(op, b, rtol=1e-8, callback=lambda xk: norms.append(np.linalg.norm(b - A @ xk)))
    np.testing.assert_allclose(history[1:-1], norms[:-1], rtol=1e-6)


@pytest.mark.parametrize("kind", ["x", "pr_norm", "legacy"])
def test_callbacks_of_gmres(kind, device):
    A, b = system("unsymmetric")
    seen, expected = [], []
    options = {"callback_type": kind, "restart": 7, "rtol": 1e-9, "maxiter": 6}
    _, info = linalg.gmres(
        sg.aslinearoperator(A, device=device), b, callback=lambda v: seen.append(v * 1.0), **options
    )
    _, expected_info = spla.gmres(A, b, callback=lambda v: expected.append(v * 1.0), **options)
    assert info == expected_info
    np.testing.assert_allclose(seen, expected, rtol=1e-6)


@pytest.mark.parametrize("restart", [1, 3, 500])
def test_restarts(restart, device):
    A, b = system("unsymmetric")
    x, info = linalg.gmres(sg.aslinearoperator(A, device=device), b, rtol=1e-7, restart=restart)
    assert info == spla.gmres(A, b, rtol=1e-7, restart=restart)[1] == 0
    assert residual(A, x, b) <= 1e-7


def test_minres_prints(capsys):
    A, b = system("poisson3d")
    linalg.minres(sg.aslinearoperator(A, device="cpu"), b, show=True)
    assert "minres: converged" in capsys.readouterr().out


# What breaks down


@pytest.mark.parametrize(
    ("solver", "A", "b", "info"),
    [
        ("bicgstab", [[0.0, 1.0], [-1.0, 0.0]], [1.0, 0.0], -11),
        ("bicgstab", [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [1.0, 0.0, 0.0], -11),
        ("gmres", [[1.0, 0.0], [0.0, 0.0]], [1.0, 1.0], 20),
    ],
)
def test_break_downs(solver, A, b, info, device):
    options = {"rtol": 1e-10}
    assert getattr(spla, solver)(np.array(A), np.array(b), **options)[1] == info
    with pytest.warns(SolverWarning, match=f"{solver} broke down"):
        _, found = getattr(linalg, solver)(
            sg.aslinearoperator(np.array(A), device=device), np.array(b), **options
        )
    assert found == info


def test_stagnation_is_reported(device):
    A = spd("spread_diagonal", np.float32)
    b = vector(A.shape[0], np.float32)
    op = sg.aslinearoperator(A, device=device)
    with pytest.warns(SolverWarning, match=r"cg stagnated.*float64"):
        _, info = linalg.cg(op, b, rtol=1e-9, maxiter=100_000)
    assert info == op.solve_info.iterations > 0
    assert op.solve_info.status == "stagnated"
    assert op.solve_info.true_residual > op.solve_info.goal


# What may be given


def test_memory_goes_with_the_operator(device):
    A, b = system("poisson3d")
    op = sg.aslinearoperator(A, device=device)
    before = op.nbytes
    assert op.work_nbytes == 0
    linalg.cg(op, b)
    once = op.work_nbytes
    assert once >= 3 * b.nbytes
    assert op.memory == {"matrix": before, "transposes": 0, "vectors": once}
    assert op.nbytes == before
    linalg.cg(op, b, rtol=1e-8)
    assert op.work_nbytes == once
    copied = pickle.loads(pickle.dumps(op))
    assert (copied.nbytes, copied.work_nbytes) == (before, 0)
    assert copied.solve_info is None
    np.testing.assert_array_equal(linalg.cg(copied, b)[0], linalg.cg(op, b)[0])


@pytest.mark.parametrize("make", [lambda A: A, turned])
def test_lobpcg(make, device):
    A = sp.csr_array(make(spd("poisson2d", np.float64)))
    X = vector(4 * A.shape[0], A.dtype, seed=2).reshape(-1, 4)
    for given in (A, sg.aslinearoperator(A, device=device)):
        w, v = linalg.lobpcg(given, X.copy(), tol=1e-5, maxiter=300, largest=False)
        np.testing.assert_allclose(A @ v, v * w, atol=1e-3)
        np.testing.assert_allclose(w, np.sort(np.linalg.eigvalsh(A.toarray()))[:4], rtol=1e-4)


def test_every_place_has_all_solvers(run, capsys):
    """Functions of Python, the command line, the page of solvers and these tests."""
    page = (Path(__file__).parents[1] / "docs" / "solvers.md").read_text()
    table = page[page.index("| solver | matrices") :].partition("\n\n")[0]
    with pytest.raises(SystemExit):
        run("solve", "--help")
    of_command = re.search(r"--solver \{auto,([\w,]+)\}", capsys.readouterr().out)[1].split(",")
    assert set(SOLVERS) == set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE))
    assert {*SOLVERS, "direct", "lsqr", "lsmr"} == set(of_command)
    assert set(SOLVERS) <= set(linalg.__all__)


@pytest.mark.parametrize("solver", ["cg", "minres", "bicgstab", "gmres"])
def test_what_the_caller_wrote_is_not_called_beyond_the_end(solver, device):
    """A GPU queues iterations beyond it, with remains that a function may refuse."""
    A = sp.csr_array(np.diag([4.0, 5, 6, 7]) + np.eye(4, k=1) + np.eye(4, k=-1))

    def multiply(x):
        assert np.isfinite(x).all()
        return x / A.diagonal()

    M = spla.LinearOperator(A.shape, matvec=multiply, rmatvec=multiply, dtype=float)
    b = np.array([1.0, 2, 3, 4])
    x, info = getattr(sg.linalg, solver)(
        sg.aslinearoperator(A, device=device), b, rtol=1e-12, M=M, maxiter=40
    )
    assert info >= 0
    np.testing.assert_allclose(A @ x, b, rtol=1e-12)


# Complex systems


@pytest.mark.parametrize("name", ["poisson3d", "indefinite"])
@pytest.mark.parametrize("shift", [0.0, 0.05])
@pytest.mark.parametrize("dtype", COMPLEX_TYPES, ids=str)
def test_minres_goes_as_on_the_real_system(name, shift, device, dtype):
    rtol = 1e-4 if dtype == np.complex64 else 1e-9
    real = sp.csr_array(SYSTEMS[name]())
    turn = phases(real.shape[0])
    c = vector(real.shape[0], np.float64)
    A, b = sp.csr_array(turned(real)).astype(dtype), (turn.conj() * c).astype(dtype)
    op = sg.aslinearoperator(A, device=device)
    x, info = linalg.minres(op, b, rtol=rtol, shift=shift, check=True)
    y, real_info = linalg.minres(sg.aslinearoperator(real, device=device), c, rtol=rtol, shift=shift)
    assert (info, real_info) == (0, 0)
    scale = np.abs(y).max()
    np.testing.assert_allclose(turn * x, y, rtol=0, atol=(0.05 if dtype == np.complex64 else 1e-4) * scale)


@pytest.mark.parametrize("dtype", COMPLEX_TYPES, ids=str)
@pytest.mark.parametrize("preconditioner", ["jacobi", "chebyshev", "ic0", "block_jacobi", "ilu0"])
def test_preconditioners_of_complex_systems(preconditioner, device, dtype):
    rtol = 1e-4 if dtype == np.complex64 else 1e-9
    scale = 10.0 ** np.random.default_rng(1).uniform(-1, 1, 400)
    A = sp.csr_array(turned(sp.diags_array(scale) @ gallery.poisson2d(20) @ sp.diags_array(scale)))
    A = A.astype(dtype)
    b = A @ vector(400, dtype)
    op = sg.aslinearoperator(A, device=device)
    M = getattr(linalg, preconditioner)(op)
    _, info = linalg.cg(op, b, rtol=rtol, maxiter=4000)
    plain = op.solve_info.iterations
    solver = linalg.bicgstab if preconditioner == "ilu0" else linalg.cg
    x, info = solver(op, b, rtol=rtol, M=M)
    assert info == 0
    assert op.solve_info.iterations < plain / 3
    assert residual(A, x, b) <= 3 * rtol
    assert (M @ b).dtype == dtype
    if preconditioner not in ("jacobi", "ilu0"):  # Hermitian, as cg needs it
        dense = M @ np.eye(400, dtype=dtype)
        np.testing.assert_allclose(dense, dense.conj().T, atol=1e-3 * np.abs(dense).max())


@pytest.mark.parametrize("matrix_type", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("b_type", ["int32", "float32", "float64", "complex64", "complex128"])
def test_types_follow_scipy(matrix_type, b_type):
    """Of matrices that are converted on the way, and of operators that are called."""
    A = sp.csr_array(gallery.poisson2d(5)).astype(matrix_type)
    b = np.arange(1, 26).astype(b_type)
    are_single = {matrix_type, b_type} <= {"float32", "complex64"}
    kinds = ("complex64", "complex128") if "complex" in matrix_type + b_type else ("float32", "float64")
    expected = np.dtype(kinds[0] if are_single else kinds[1])
    for given in (A, spla.aslinearoperator(A), A.toarray()):
        x, info = linalg.cg(given, b)
        assert (info, x.dtype) == (0, expected)
        np.testing.assert_allclose(A @ x, b, rtol=0, atol=1e-3 * 25)
