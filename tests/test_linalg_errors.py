"""What `linalg.cg` and `linalg.jacobi` refuse, and matrices that conjugate gradients break down on."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import matrix, vector
from spmvgpu import gallery
from support import build
from systems import spd


@pytest.fixture
def op(device, dtype):
    return sg.aslinearoperator(spd("poisson3d", dtype), device=device)


@pytest.fixture
def b(op):
    return vector(op.shape[0], op.dtype)


# Breakdown


def test_indefinite_matrix(device, dtype):
    A = sp.diags_array([1.0, 2.0, -3.0, 4.0], dtype=dtype)
    op = sg.aslinearoperator(A, device=device)
    with pytest.raises(np.linalg.LinAlgError, match=r"not positive definite.*iteration 1 .*p @ A @ p = -1"):
        sg.linalg.cg(op, np.array([0, 1, 2, 1.5], dtype))
    x, info = sg.linalg.cg(op, np.array([1, 2, 0, 4], dtype))  # never meets the negative eigenvalue
    assert info == 0
    np.testing.assert_allclose(x, [1, 1, 0, 1], rtol=1e-5)


def test_breakdown_in_a_later_iteration(device):
    A = gallery.poisson2d(20) - 0.5 * sp.eye_array(400)
    op = sg.aslinearoperator(A, device=device)
    calls = []
    with pytest.raises(np.linalg.LinAlgError) as caught:
        sg.linalg.cg(op, vector(400, np.float64), rtol=1e-12, callback=calls.append)
    assert len(calls) > 2
    assert f"iteration {len(calls) + 1} " in str(caught.value)
    with pytest.raises(np.linalg.LinAlgError) as again:
        sg.linalg.cg(op, vector(400, np.float64), rtol=1e-12)
    assert str(again.value) == str(caught.value)


def test_singular_matrix(fmt, device, dtype):
    op = build(sp.csr_array((5, 5), dtype=dtype), fmt, device)
    with pytest.raises(np.linalg.LinAlgError, match=r"p @ A @ p = 0"):
        sg.linalg.cg(op, np.ones(5, dtype))


def test_negative_preconditioner(op, b):
    with pytest.raises(np.linalg.LinAlgError, match="M is not positive definite"):
        sg.linalg.cg(op, b, M=-np.ones(op.shape[0]))


@pytest.mark.parametrize("where", ["A", "b", "x0", "M"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite(value, where, device, dtype):
    A = spd("poisson2d", dtype)
    n = A.shape[0]
    vectors = {name: np.ones(n, dtype) for name in ("b", "x0", "M")}
    (A.data if where == "A" else vectors[where])[n // 2] = value
    op = sg.aslinearoperator(A, device=device)
    with pytest.raises(np.linalg.LinAlgError, match=r"NaN|M is not positive definite"):
        sg.linalg.cg(op, vectors["b"], vectors["x0"], M=vectors["M"])


# Arguments


@pytest.mark.parametrize(
    "make",
    [
        lambda n: sp.eye_array(n),
        lambda n: np.eye(n),
        lambda n: spla.aslinearoperator(sp.eye_array(n)),
        lambda n: "jacobi",
        lambda n: 1.0,
    ],
    ids=["sparse", "dense", "operator", "text", "number"],
)
def test_other_preconditioners_are_for_scipy(make, op, b):
    with pytest.raises(TypeError, match=r"jacobi.*scipy\.sparse\.linalg\.cg"):
        sg.linalg.cg(op, b, M=make(op.shape[0]))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"op": np.eye(3)}, TypeError, "SparseOperator"),
        ({"b": np.ones(7)}, ValueError, r"b has shape \(7,\)"),
        ({"b": np.ones((2197, 2))}, ValueError, r"b has shape \(2197, 2\)"),
        ({"b": np.ones(2197, complex)}, TypeError, "complex128"),
        ({"b": np.ones(2197, object)}, TypeError, "object"),
        ({"b": 1.0}, TypeError, "float"),
        ({"x0": np.ones(7)}, ValueError, r"x0 has shape \(7,\)"),
        ({"x0": "Mb"}, TypeError, "x0"),
        ({"M": np.ones(7)}, ValueError, r"M has shape \(7,\)"),
        ({"rtol": -1.0}, ValueError, "rtol=-1.0"),
        ({"rtol": np.nan}, ValueError, "rtol=nan"),
        ({"atol": -1.0}, ValueError, "atol=-1.0"),
        ({"atol": "legacy"}, TypeError, "atol='legacy'"),
        ({"atol": None}, TypeError, "atol=None"),
        ({"maxiter": 0}, ValueError, "maxiter=0"),
        ({"maxiter": 2.5}, TypeError, "maxiter=2.5"),
        ({"callback": 3}, TypeError, "callback=3"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_bad_arguments(change, error, message, device):
    op = sg.aslinearoperator(spd("poisson3d", np.float64), device=device)
    arguments = {"op": op, "b": np.ones(2197), **change}
    with pytest.raises(error, match=message):
        sg.linalg.cg(arguments.pop("op"), arguments.pop("b"), **arguments)
    assert sg.linalg.cg(op, np.ones(2197))[1] == 0


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
