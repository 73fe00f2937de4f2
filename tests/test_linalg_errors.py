"""What solvers refuse, what they break down on, and callbacks that go wrong."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import matrix, vector
from spmvgpu import gallery
from spmvgpu.linalg import SolverWarning
from support import build
from systems import spd


@pytest.fixture
def op(device, dtype):
    return sg.aslinearoperator(spd("poisson3d", dtype), device=device)


@pytest.fixture(params=["cg", "bicgstab", "gmres", "minres"])
def solver(request):
    return getattr(sg.linalg, request.param)


@pytest.fixture
def b(op):
    return vector(op.shape[0], op.dtype)


# Breakdown


def test_indefinite_matrix(device, dtype):
    A = sp.diags_array([1.0, 2.0, -3.0, 4.0], dtype=dtype)
    op = sg.aslinearoperator(A, device=device)
    with pytest.warns(SolverWarning, match=r"after 0 iterations.*not positive definite.*p @ A @ p = -1"):
        assert sg.linalg.cg(op, np.array([0, 1, 2, 1.5], dtype))[1] == -11
    x, info = sg.linalg.cg(op, np.array([1, 2, 0, 4], dtype))  # never meets the negative eigenvalue
    assert info == 0
    np.testing.assert_allclose(x, [1, 1, 0, 1], rtol=1e-5)


def test_breakdown_in_a_later_iteration(device):
    A = gallery.poisson2d(20) - 0.5 * sp.eye_array(400)
    op = sg.aslinearoperator(A, device=device)
    calls = []
    with pytest.warns(SolverWarning) as caught:
        x, info = sg.linalg.cg(op, vector(400, np.float64), rtol=1e-12, callback=calls.append)
    assert info == -11
    assert len(calls) > 2
    assert f"after {len(calls)} iterations" in str(caught[0].message)
    assert (op.solve_info.status, op.solve_info.iterations) == ("indefinite", len(calls))
    with pytest.warns(SolverWarning) as again:
        same, _ = sg.linalg.cg(op, vector(400, np.float64), rtol=1e-12)
    assert str(again[0].message) == str(caught[0].message)
    np.testing.assert_array_equal(same, x)  # what was queued beyond the end changed nothing


def test_singular_matrix(fmt, device, dtype):
    op = build(sp.csr_array((5, 5), dtype=dtype), fmt, device)
    with pytest.warns(SolverWarning, match=r"p @ A @ p = 0"):
        assert sg.linalg.cg(op, np.ones(5, dtype))[1] == -11


@pytest.mark.parametrize("where", ["A", "b", "x0", "M"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite(value, where, solver, device):
    A = spd("poisson2d", np.float64)
    n = A.shape[0]
    vectors = {name: np.ones(n) for name in ("b", "x0", "M")}
    (A.data if where == "A" else vectors[where])[n // 2] = value
    op = sg.aslinearoperator(A, device=device)
    with pytest.warns(SolverWarning, match=r"NaN|M is not positive definite"):
        info = solver(op, vectors["b"], vectors["x0"], M=vectors["M"])[1]
    assert info in (-10, -12)
    assert (
        solver(sg.aslinearoperator(spd("poisson2d", np.float64), device=device), np.ones(n), maxiter=1)[1]
        == 1
    )


# Arguments


def test_names_of_no_preconditioner(op, b, solver):
    for wrong, meant in (("jacob", "'jacobi'"), ("ILU0", "ilu0"), ("", "'chebyshev'")):
        with pytest.raises(ValueError, match=rf"M='{wrong}' is not allowed; give one of .*{meant}"):
            solver(op, b, M=wrong)
    foreign = spla.aslinearoperator(op.tocsr())
    with pytest.raises(TypeError, match="M='jacobi' needs the entries of A"):
        solver(foreign, b, M="jacobi")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"b": np.ones((2197, 2)), "x0": np.ones((2197, 3))}, ValueError, r"x0 has shape \(2197, 3\)"),
        ({"b": np.ones((2197, 2)), "M": np.ones((2197, 2))}, ValueError, r"M has shape \(2197, 2\)"),
        ({"M": np.ones(7)}, ValueError, r"M has shape \(7,\)"),
        ({"M": [1.0]}, ValueError, r"M has shape \(1,\)"),
        ({"M": sp.eye_array(7)}, ValueError, r"M has shape \(7, 7\)"),
        ({"M": np.eye(7)}, ValueError, r"M has shape \(7, 7\)"),
        ({"M": spla.aslinearoperator(np.eye(7))}, ValueError, r"M has shape \(7, 7\)"),
        ({"M": spla.aslinearoperator(1j * sp.eye_array(2197))}, TypeError, "complex"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_bad_arguments(change, error, message, device):
    op = sg.aslinearoperator(spd("poisson3d", np.float64), device=device)
    arguments = {"op": op, "b": np.ones(2197), **change}
    with pytest.raises(error, match=message):
        sg.linalg.cg(arguments.pop("op"), arguments.pop("b"), **arguments)
    assert sg.linalg.cg(op, np.ones(2197))[1] == 0


def test_gmres_and_minres_have_arguments_of_their_own(device):
    op = sg.aslinearoperator(spd("poisson2d", np.float64), device=device)
    b = np.ones(op.shape[0])
    for arguments, message in (
        ({"restart": 0}, "restart=0"),
        ({"callback": print, "callback_type": "y"}, "callback_type='y'"),
    ):
        with pytest.raises(ValueError, match=message):
            sg.linalg.gmres(op, b, **arguments)
    with pytest.raises(TypeError, match="shift='0'"):
        sg.linalg.minres(op, b, shift="0")
    with pytest.raises(ValueError, match="indefinite preconditioner"):
        sg.linalg.minres(op, b, M=-np.ones(len(b)))
    skewed = sg.aslinearoperator(op.tocsr() + sp.eye_array(len(b), k=1), device=device)
    with pytest.raises(ValueError, match="non-symmetric matrix"):
        sg.linalg.minres(skewed, b, check=True)


# Callbacks that go wrong


def raising(x):
    raise KeyError("the callback's own")


@pytest.mark.parametrize("is_alone", [True, False])
def test_gmres_says_when_the_true_residual_has_grown(is_alone, device):
    """With an M that does not suit A, the residual that never grows is another one."""
    n = 40
    A, b = np.random.default_rng(0).standard_normal((n, n)), np.ones(n)
    M = np.where(np.arange(n) < 4, 1.0, 1e-6)  # all that counts is the residual of four rows
    op, B = sg.aslinearoperator(A, device=device), b if is_alone else np.stack([b, 2 * b], axis=1)
    history = []
    with pytest.warns(
        SolverWarning, match=r"norm\(b - A @ x\) = .*only the norm of M @ \(b - A @ x\)"
    ) as caught:
        info = sg.linalg.gmres(op, B, M=M, restart=4, maxiter=1, residuals=history)[1]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert (info == 1).all() if not is_alone else info == 1
    assert (np.diff(np.array(history), axis=0) <= 1e-12).all()
    sg.linalg.gmres(op, B, restart=4, maxiter=1)  # without M nothing has grown, and nothing is said


def test_gmres_calls_back_with_numbers_as_in_scipy():
    A, b = gallery.poisson2d(6), np.arange(1.0, 37.0)
    for kind in ("legacy", "pr_norm"):
        found = []
        for package in (sg.linalg, spla):
            norms = []
            package.gmres(A, b, maxiter=4, restart=4, callback=norms.append, callback_type=kind)
            found.append(norms)
        assert [type(norm) for norm in found[0]] == [type(norm) for norm in found[1]]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


class Stack(spla.LinearOperator):
    """Two operators in one, as SciPy has them from version 1.18 on."""

    def __init__(self):
        super().__init__(np.dtype(float), (3, 3))
        self.shape = (2, 3, 3)

    def _matvec(self, x):
        return x


STACK = {
    **{
        name: lambda name=name: getattr(sg.linalg, name)(Stack(), np.ones(3))
        for name in ("cg", "minres", "gmres")
    },
    **{
        name: lambda name=name: getattr(sg.linalg, name)(Stack(), np.ones(3))
        for name in ("lsqr", "lsmr", "cgls")
    },
    "solve": lambda: sg.linalg.solve(Stack(), np.ones(3)),
    "eigsh": lambda: sg.linalg.eigsh(Stack(), 1),
    "svds": lambda: sg.linalg.svds(Stack(), 1),
    "M": lambda: sg.linalg.cg(np.eye(3), np.ones(3), M=Stack()),
    "sum": lambda: sg.aslinearoperator(np.eye(3), device="cpu") + Stack(),
    "product": lambda: sg.aslinearoperator(np.eye(3), device="cpu") @ Stack(),
}


@pytest.mark.parametrize("call", STACK)
def test_operators_of_more_than_two_dimensions(call):
    with pytest.raises(ValueError, match=r"shape \(2, 3, 3\)|3 dimensions"):
        STACK[call]()


@pytest.mark.parametrize("where", ["A", "M", "callback"])
def test_callbacks_that_raise(where, solver, device):
    A = spd("poisson2d", np.float64)
    n = A.shape[0]
    op = sg.aslinearoperator(A, device=device)
    bad = spla.LinearOperator((n, n), matvec=raising, dtype=np.float64)
    options = {"callback_type": "pr_norm"} if solver is sg.linalg.gmres else {}
    for _ in range(3):
        with pytest.raises(KeyError, match="own"):
            solver(
                bad if where == "A" else op,
                np.ones(n),
                M=bad if where == "M" else None,
                callback=raising if where == "callback" else None,
                **options,
            )
    held = op.work_nbytes
    assert solver(op, np.ones(n), maxiter=100_000)[1] == 0
    assert where == "A" or op.work_nbytes == held  # what the solves that failed had is used again


def test_a_callback_of_another_shape(device):
    op = sg.aslinearoperator(spd("poisson2d", np.float64), device=device)
    n = op.shape[0]
    for wrong in (np.ones(3), np.ones((n, 2)), np.full(n, 1j), None):
        M = spla.LinearOperator((n, n), matvec=lambda x: x, dtype=np.float64)
        M.matvec = lambda x, wrong=wrong: wrong
        with pytest.raises((TypeError, ValueError), match="M returned a vector"):
            sg.linalg.cg(op, np.ones(n), M=M)


@pytest.mark.parametrize("used", [False, True], ids=["unused", "used"])
def test_jacobi_of_a_matrix_of_another_size(used, device):
    """Also when a copy of the small one is on the device already."""
    small, large = (sg.aslinearoperator(sp.eye_array(n, format="csr"), device=device) for n in (10, 50_000))
    M = sg.linalg.jacobi(small)
    if used:
        sg.linalg.cg(small, np.ones(10), M=M)
    with pytest.raises(ValueError, match=r"M has shape \(10, 10\).*\(50000, 50000\)"):
        sg.linalg.cg(large, np.ones(50_000), M=M)


def test_rectangular(device):
    op = sg.aslinearoperator(matrix("tall", np.dtype("float64")), device=device)
    with pytest.raises(ValueError, match="square"):
        sg.linalg.cg(op, np.ones(op.shape[0]))
