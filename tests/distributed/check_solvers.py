"""Solvers of `spmvgpu.linalg` with distributed operators, beside the same calls with the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import vector
from ranks import COMM, DEVICE, SYSTEMS, divided, each_system_and_solver, operator, piece
from spmvgpu import gallery, linalg
from spmvgpu.linalg import SolverWarning, cg, ilu0, jacobi
from systems import with_empty

LAST = COMM.size - 1


def system(dtype=np.float64):
    A = sp.csr_array(gallery.poisson3d(9)).astype(dtype)
    return A, vector(A.shape[0], A.dtype)


def residual(A, op, x, b):
    whole = op.row_ranges.gather(x, root=None).astype(np.float64)
    return np.linalg.norm(b - A.astype(np.float64) @ whole) / np.linalg.norm(b)


def own(op, vector):
    return piece(vector, op.row_ranges)


@pytest.mark.parametrize("preconditioner", ["none", "diagonal", "operator", "own block"])
@each_system_and_solver
def test_every_solver(name, solver, preconditioner, division, side):
    A = sp.csr_array(SYSTEMS[name]())
    b = A @ vector(A.shape[0], np.float64)
    op, alone = operator(A, division, **side.options), sg.aslinearoperator(A, device="cpu")
    diagonal = 1 / np.linspace(1, 2, len(b))
    inverse = sp.csr_array(sp.diags_array(diagonal))
    of_block, right = (
        sp.csr_array(sp.diags_array(own(op, diagonal), shape=(op.local_shape[0],) * 2)),
        own(op, b),
    )
    M = {
        "none": lambda: None,
        "diagonal": lambda: side.send(own(op, diagonal)),
        "operator": lambda: operator(inverse, division, **side.options),
        "own block": lambda: sg.aslinearoperator(of_block, device=DEVICE if side.options else "cpu"),
    }[preconditioner]()
    ours, theirs = [], []
    x, info = getattr(linalg, solver)(op, side.send(right), M=M, rtol=1e-9, residuals=ours)
    whole_M = None if M is None else diagonal
    expected, _ = getattr(linalg, solver)(alone, b, M=whole_M, rtol=1e-9, residuals=theirs)
    assert info == 0
    slack = 2 + (len(theirs) // 10 if solver == "bicgstab" else 0)  # which takes rounding for more than it is
    assert abs(len(ours) - len(theirs)) <= slack
    np.testing.assert_allclose(ours[:5], theirs[:5], rtol=1e-6)
    assert op.solve_info.iterations == len(ours) - 1
    of_x = residual(A, op, side.fetch(x), b) * np.linalg.norm(b)
    assert op.solve_info.true_residual == pytest.approx(of_x, rel=0.05)
    whole = op.row_ranges.gather(side.fetch(x), root=None)
    np.testing.assert_allclose(whole, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
    again, _ = getattr(linalg, solver)(op, side.send(right), M=M, rtol=1e-9)
    np.testing.assert_array_equal(side.fetch(x), side.fetch(again))


@pytest.mark.parametrize("solver", ["cg", "minres", "bicgstab", "gmres"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_systems(solver, dtype):
    turn = sp.diags_array(np.exp(2j * np.pi * np.random.default_rng(3).uniform(size=729)))
    A = sp.csr_array(turn.conj() @ gallery.poisson3d(9) @ turn).astype(dtype)
    b = A @ vector(729, A.dtype)
    rtol = 1e-4 if dtype == "complex64" else 1e-9
    op, alone = operator(A, "uneven"), sg.aslinearoperator(A, device="cpu")
    x, info = getattr(linalg, solver)(op, own(op, b), M=jacobi(op), rtol=rtol)
    assert (info, x.dtype) == (0, A.dtype)
    getattr(linalg, solver)(alone, b, M=jacobi(alone), rtol=rtol)
    assert abs(op.solve_info.iterations - alone.solve_info.iterations) <= 2
    whole = op.row_ranges.gather(x, root=None)
    # What minres stops for is relative to the norms of the matrix and the solution.
    allowed = max(3 * rtol * np.linalg.norm(b), 2 * alone.solve_info.true_residual)
    assert np.linalg.norm(b - A @ whole) <= allowed


@pytest.mark.parametrize("M", ["ilu0", "ic0", "block_jacobi", "chebyshev"])
def test_preconditioners_of_the_own_block(M):
    A = gallery.poisson2d(24, contrast=100)
    op, b = operator(A), vector(576, A.dtype)
    x, info = linalg.bicgstab(op, own(op, b), M=M, rtol=1e-9)
    assert info == 0
    assert residual(A, op, x, b) <= 1.1e-9
    begin, end = op.row_ranges.begin, op.row_ranges.end
    make = getattr(linalg, M)
    block = sg.aslinearoperator(A[begin:end, begin:end], device="cpu")
    for inverse in (make(op), make(block)):
        again, _ = linalg.bicgstab(op, own(op, b), M=inverse, rtol=1e-9)
        np.testing.assert_allclose(again, x, rtol=0, atol=1e-6 * np.abs(b).max())
    taken = op.solve_info.iterations
    linalg.bicgstab(op, own(op, b), rtol=1e-9)
    assert taken < op.solve_info.iterations


def test_a_callback_on_one_rank_alone():
    A, b = system()
    op = operator(A)
    calls = []
    expected, _ = linalg.gmres(op, own(op, b), callback_type="pr_norm", callback=lambda _: None)
    x, _ = linalg.gmres(
        op, own(op, b), callback_type="pr_norm", callback=calls.append if COMM.rank == LAST else None
    )
    np.testing.assert_array_equal(x, expected)
    assert len(calls) == (op.solve_info.iterations if COMM.rank == LAST else 0)


def test_memory_is_counted_and_kept():
    A, b = system()
    op = operator(A)
    before = op.work_nbytes
    cg(op, own(op, b))
    after = op.work_nbytes
    assert after >= before
    cg(op, own(op, b))
    assert op.work_nbytes == after


@pytest.mark.skipif(COMM.size == 1, reason="takes two ranks")
def test_preconditioners_of_different_kinds():
    A, b = system()
    op = operator(A)
    inverse = 1 / own(op, A.diagonal())
    M = sp.diags_array(inverse) if COMM.rank == LAST else inverse
    with pytest.raises(ValueError, match="M='operator' on this rank and 'diagonal' on rank 0"):
        cg(op, own(op, b), M=M)


def test_preconditioners_that_do_not_fit():
    A, b = system()
    op = operator(A)
    with pytest.raises(TypeError, match="M has dtype float32, and the system float64"):
        cg(op, own(op, b), M=operator(A.astype(np.float32)))
    with pytest.raises(TypeError, match="M is distributed over ranks, but the system is not"):
        cg(sg.aslinearoperator(A, device="cpu"), b, M=op)
    if COMM.size > 1:
        with pytest.raises(ValueError, match="distributed differently from the system"):
            cg(op, own(op, b), M=operator(A, "last_has_all"))


def test_tolerances_and_iterations():
    A, b = system()
    op = operator(A)
    assert residual(A, op, cg(op, own(op, b), rtol=1e-12)[0], b) <= 1.1e-12
    atol = 1e-2 * np.linalg.norm(b)
    assert 1e-3 < residual(A, op, cg(op, own(op, b), rtol=0, atol=atol)[0], b) <= 1.01e-2
    alone = sg.aslinearoperator(A, device="cpu")
    for maxiter in (1, 5):
        x, info = cg(op, own(op, b), rtol=1e-12, maxiter=maxiter)
        assert info == maxiter
        expected, _ = cg(alone, b, rtol=1e-12, maxiter=maxiter)
        np.testing.assert_allclose(x, own(op, expected), rtol=0, atol=1e-12 * np.abs(expected).max())


def test_guess():
    A, b = system()
    op = operator(A)
    exact = vector(A.shape[0], A.dtype, seed=20)
    x, info = cg(
        op, own(op, A @ exact), own(op, exact), callback=lambda xk: pytest.fail("it is there already")
    )
    assert info == 0
    np.testing.assert_array_equal(x, own(op, exact))
    start = own(op, b).copy()
    x, info = cg(op, own(op, A @ exact), start, rtol=1e-10)
    assert info == 0
    assert residual(A, op, x, A @ exact) <= 1.1e-10
    np.testing.assert_array_equal(start, own(op, b))


def test_a_callback_that_raises_on_one_rank():
    A, b = system()
    op = operator(A)
    calls = []

    def stop(xk):
        calls.append(xk)
        if len(calls) == 3 and COMM.rank == LAST:
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        cg(op, own(op, b), callback=stop)
    assert len(calls) == 3
    assert cg(op, own(op, b))[1] == 0


class Unsteady:
    """A preconditioner of Python's that raises in one of its calls, or gives a vector of another shape."""

    def __init__(self, n, call, gives=None):
        self.shape, self.dtype = (n, n), np.dtype(float)
        self.left, self.gives = call, gives

    def matvec(self, x):
        self.left -= 1
        if self.left == 0:
            if self.gives is None:
                raise RuntimeError("worn out")
            return self.gives
        return x.copy()


@pytest.mark.parametrize("solver", ["cg", "minres", "bicgstab", "gmres"])
@pytest.mark.parametrize("call", [1, 2, 5])
def test_a_preconditioner_that_raises_on_one_rank(solver, call):
    op = operator(gallery.poisson2d(20))
    n = op.local_shape[0]
    calls = call if COMM.rank == LAST else 0
    where = f"rank {LAST}: " if COMM.size > 1 else ""
    with pytest.raises(RuntimeError, match=f"^{where}worn out$"):
        getattr(linalg, solver)(op, np.ones(n), M=Unsteady(n, calls))
    with pytest.raises(ValueError, match=f"^{where}"):
        getattr(linalg, solver)(op, np.ones(n), M=Unsteady(n, calls, np.ones(n + 1)))
    assert linalg.cg(op, np.ones(n), M=Unsteady(n, 0))[1] == 0  # and nothing is left of it


def test_a_preconditioner_that_raises_at_the_last_call():
    """After which no more sums are added."""
    op = operator(gallery.poisson2d(20))
    n = op.local_shape[0]
    counting = Unsteady(n, 0)
    linalg.gmres(op, np.ones(n), M=counting, maxiter=3, restart=3)
    with pytest.raises(RuntimeError, match="worn out"):
        linalg.gmres(
            op, np.ones(n), M=Unsteady(n, -counting.left if COMM.rank == 0 else 0), maxiter=3, restart=3
        )


@pytest.mark.parametrize(
    ("diagonal", "message"),
    [([1.0, -1.0], "not positive definite"), ([1.0, np.nan], "infinite numbers or NaN")],
)
def test_break_downs(diagonal, message):
    n = 40
    A = sp.diags_array(np.resize(diagonal, n), format="csr")
    op = operator(A)
    with pytest.warns(SolverWarning, match=message):
        assert cg(op, np.ones(op.local_shape[0]))[1] < 0


def test_jacobi_needs_a_positive_diagonal():
    A = sp.eye_array(40, format="lil")
    A[39, 39], A[39, 0] = 0, 1
    op = operator(A.tocsr())
    with pytest.raises(np.linalg.LinAlgError, match="in row 39"):
        jacobi(op)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"b": np.ones(3)}, "b has shape"),
        ({"b": None}, "b must be an array"),
        ({"b": "complex"}, "b has dtype complex128"),
        ({"x0": np.ones(3)}, "x0 has shape"),
        ({"M": np.ones(3)}, "M has shape"),
        ({"M": sp.eye_array(3)}, "M has shape"),
        ({"M": {}}, "M must be"),
        ({"residuals": ()}, "residuals="),
        ({"rtol": -1}, "rtol=-1"),
        ({"maxiter": -1}, "maxiter=-1"),
        ({"callback": 5}, "callback=5"),
    ],
)
def test_what_one_rank_gives_wrongly(arguments, message):
    A, b = system()
    op = operator(A)
    mine = own(op, b)
    if isinstance(arguments.get("b"), str):
        arguments = {"b": mine.astype(arguments["b"])}
    given = {"b": mine, **(arguments if COMM.rank == LAST else {})}
    with pytest.raises((ValueError, TypeError), match=message):
        cg(op, **given)


@pytest.mark.skipif(COMM.size == 1, reason="takes two ranks")
@pytest.mark.parametrize("name", ["rtol", "atol", "maxiter"])
def test_arguments_that_differ(name):
    A, b = system()
    op = operator(A)
    with pytest.raises(ValueError, match=f"{name}=.* on this rank and .* on rank 0; give the same"):
        cg(op, own(op, b), **{name: 1 + (COMM.rank == LAST)})


def test_preconditioners_that_one_rank_cannot_make():
    A = sp.eye_array(40, format="lil")
    A[39, 39] = 0
    A[39, 38] = 1
    for make in (ilu0, linalg.chebyshev):
        with pytest.raises(np.linalg.LinAlgError, match="39" if COMM.size == 1 else "^rank"):
            make(operator(A.tocsr()))


def test_systems_that_are_none():
    op = operator(sp.csr_array((30, 40)))
    for solve in (jacobi, ilu0, linalg.amg, lambda op: cg(op, np.ones(op.local_shape[0]))):
        with pytest.raises(ValueError, match="needs a square one"):
            solve(op)
    if COMM.size > 1:
        rows, cols = divided(40), divided(40, "last_has_all")
        A = sp.csr_array(sp.eye_array(40))
        op = sg.distributed.aslinearoperator(piece(A, rows), COMM, row_ranges=rows, col_ranges=cols)
        with pytest.raises(ValueError, match="distributed differently"):
            cg(op, np.ones(op.local_shape[0]))


@pytest.mark.parametrize("solver", ["cg", "bicgstab", "gmres", "minres"])
@pytest.mark.parametrize("has_empty_rows", [False, True])
def test_jacobi_by_name(solver, has_empty_rows):
    A, b = system()
    if has_empty_rows:
        A, at = with_empty(A)
        b = np.insert(b, at - np.arange(3), 0)
    op = operator(A, "even")
    for M in ("jacobi", jacobi(op)):
        x, info = getattr(linalg, solver)(op, own(op, b), M=M, rtol=1e-9)
        assert info == 0
        assert residual(A, op, x, b) <= 1e-9


@pytest.mark.parametrize("name", ["cg", "minres", "bicgstab", "gmres"])
def test_several_columns(name):
    A, _ = system()
    op, solver = operator(A), getattr(linalg, name)
    B, residuals = np.random.default_rng(0).standard_normal((A.shape[0], 3)), []
    X0, B[:, 1] = np.zeros_like(B), 0.0
    options = {"x0": own(op, X0), "M": "jacobi", "rtol": 1e-9, "residuals": residuals}
    X, infos = solver(op, own(op, B), **options)
    how = op.solve_info
    np.testing.assert_array_equal(infos, [0, 0, 0])
    assert len(how.columns) == 3
    assert np.array(residuals).shape == (len(residuals), 3)
    for j in range(3):
        x, _ = solver(op, own(op, B[:, j]), M="jacobi", rtol=1e-9)
        np.testing.assert_array_equal(X[:, j], x)
    assert how.iterations >= op.solve_info.iterations
    nothing, infos = solver(op, own(op, B[:, :0]))
    assert nothing.shape == (op.local_shape[0], 0)
    assert len(infos) == 0
    with pytest.raises(ValueError, match="x0 has shape"):
        solver(op, own(op, B), x0=own(op, X0[:, :2]))


@pytest.mark.skipif(COMM.size == 1, reason="takes two ranks")
def test_columns_that_differ():
    A, b = system()
    op = operator(A)
    mine = np.stack([own(op, b)] * (2 + COMM.rank), axis=1)
    with pytest.raises(ValueError, match=r"columns=. on this rank and 2 on rank 0"):
        cg(op, mine)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_solve(name, dtype):
    A = sp.csr_array(SYSTEMS[name]().astype(dtype))
    op, b = operator(A), vector(A.shape[0], np.dtype(dtype))
    x, how = linalg.solve(op, piece(b, op.row_ranges), full_output=True)
    x = op.row_ranges.gather(x, root=None)
    assert x.dtype == np.result_type(dtype, np.float64)
    assert np.linalg.norm(b - A.astype(x.dtype) @ x) <= 1.01e-8 * np.linalg.norm(b)
    assert COMM.allgather(how.method) == [how.method] * COMM.size
    again, how = linalg.solve(
        op, piece(b, op.row_ranges), rtol=1e-6, x0=piece(x, op.row_ranges), full_output=True
    )
    assert how.method == "guess"
    assert np.linalg.norm(b - A @ op.row_ranges.gather(again, root=None)) <= 1e-5 * np.linalg.norm(b)


def test_solve_refuses_on_all_ranks():
    A = gallery.poisson2d(12)
    op = operator(A)
    b = np.ones(op.local_shape[0])
    last = COMM.rank == COMM.size - 1
    with pytest.raises(ValueError, match="shape"):
        linalg.solve(op, b[: len(b) - last])
    with pytest.raises(TypeError, match=r"\bb\b"):
        linalg.solve(op, "b" if last else b)
    with pytest.raises(ValueError, match="NaN"):
        linalg.solve(op, np.full_like(b, np.nan) if last else b)
    with pytest.raises(ValueError, match="nullspace is not in the null space"):
        linalg.solve(op, b, nullspace="constant")
    singular = operator(
        sp.csr_array(sp.diags_array([1.0, -1.0], offsets=[0, 1], shape=(50, 50)) @ np.eye(50, k=1))
    )
    with pytest.raises(linalg.NotSolvedError):
        linalg.solve(singular, np.ones(singular.local_shape[0]))
    np.testing.assert_allclose(op @ linalg.solve(op, b), b, atol=1e-7)
