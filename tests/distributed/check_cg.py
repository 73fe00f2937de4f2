"""`spmvgpu.linalg.cg` with distributed operators, beside the same call with the whole matrix."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import vector
from ranks import COMM, divided, each_division, operator, piece
from spmvgpu import gallery
from spmvgpu.linalg import SolverWarning, cg, jacobi

LAST = COMM.size - 1


def system(dtype=np.float64):
    A = sp.csr_array(gallery.poisson3d(9)).astype(dtype)
    return A, vector(A.shape[0], A.dtype)


def residual(A, op, x, b):
    whole = op.row_ranges.gather(x, root=None).astype(np.float64)
    return np.linalg.norm(b - A.astype(np.float64) @ whole) / np.linalg.norm(b)


def own(op, vector):
    return piece(vector, op.row_ranges)


@each_division
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_solves_as_with_the_whole_matrix(division, dtype, preconditioned):
    A, b = system(dtype)
    op, alone = operator(A, division), sg.aslinearoperator(A, device="cpu")
    calls, expected_calls = [], []
    x, info = cg(op, own(op, b), M=jacobi(op) if preconditioned else None, callback=calls.append)
    expected, _ = cg(alone, b, M=jacobi(alone) if preconditioned else None, callback=expected_calls.append)
    assert info == 0
    assert x.dtype == op.dtype
    assert x.shape == (op.local_shape[0],)
    assert abs(len(calls) - len(expected_calls)) <= 1
    assert residual(A, op, x, b) <= 1.5e-5
    np.testing.assert_allclose(
        op.row_ranges.gather(x, root=None), expected, rtol=0, atol=1e-4 * np.abs(expected).max()
    )


def test_same_bits_again():
    A, b = system()
    for _ in range(2):
        op = operator(A)
        x, _ = cg(op, own(op, b), M=jacobi(op), rtol=1e-10)
        again, _ = cg(op, own(op, b), M=jacobi(op), rtol=1e-10)
        np.testing.assert_array_equal(x, again)
    first = COMM.bcast(op.row_ranges.gather(x, root=None))
    np.testing.assert_array_equal(op.row_ranges.gather(x, root=None), first)


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


def test_zero_right_hand_side():
    A, b = system()
    op = operator(A)
    for x0 in (None, own(op, b), np.full(op.local_shape[0], np.nan)):
        x, info = cg(op, np.zeros(op.local_shape[0]), x0)
        assert info == 0
        np.testing.assert_array_equal(x, 0)


def test_no_equations():
    op = operator(sp.csr_array((0, 0)))
    x, info = cg(op, np.zeros(0))
    assert (x.shape, info) == ((0,), 0)


def test_kinds_of_right_hand_sides():
    A, b = system()
    op = operator(A)
    mine = own(op, b).copy()
    expected, _ = cg(op, mine)
    for given in (mine.tolist(), mine[:, None], np.repeat(mine, 2)[::2]):
        np.testing.assert_array_equal(cg(op, given)[0], expected)
    x, _ = cg(op, array_api_strict.asarray(mine))
    assert type(x) is type(array_api_strict.asarray(mine))
    np.testing.assert_array_equal(np.from_dlpack(x), expected)
    assert cg(op, np.ones(op.local_shape[0], int))[0].dtype == np.float64


def test_preconditioner_as_a_piece():
    A, b = system()
    op = operator(A)
    M = jacobi(op)
    np.testing.assert_array_equal(M.inverse_diagonal, 1 / own(op, A.diagonal()))
    expected, _ = cg(op, own(op, b), M=M)
    np.testing.assert_array_equal(cg(op, own(op, b), M=M.inverse_diagonal)[0], expected)


def test_callback_sees_every_iterate():
    A, b = system()
    op, alone = operator(A), sg.aslinearoperator(A, device="cpu")
    ours, theirs = [], []
    cg(op, own(op, b), maxiter=5, rtol=1e-12, callback=lambda xk: ours.append(xk.copy()))
    cg(alone, b, maxiter=5, rtol=1e-12, callback=lambda xk: theirs.append(own(op, xk).copy()))
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


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


def test_preconditioner_that_is_not_positive():
    A, b = system()
    op = operator(A)
    with pytest.warns(SolverWarning, match="M is not positive definite"):
        assert cg(op, own(op, b), M=np.full(op.local_shape[0], -1.0))[1] == -10


def test_jacobi_needs_a_positive_diagonal():
    entries = np.ones(40)
    entries[-1] = 0.0
    op = operator(sp.diags_array(entries, format="csr"))
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
        ({"M": sp.eye_array(3)}, "M must be"),
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
    with pytest.raises(ValueError, match=f"{name}=.* here, and .* on rank 0; all must give the same"):
        cg(op, own(op, b), **{name: 1 + (COMM.rank == LAST)})


def test_systems_that_are_none():
    op = operator(sp.csr_array((30, 40)))
    for solve in (jacobi, lambda op: cg(op, np.ones(op.local_shape[0]))):
        with pytest.raises(ValueError, match="needs a square one"):
            solve(op)
    if COMM.size > 1:
        rows, cols = divided(40), divided(40, "last_has_all")
        A = sp.csr_array(sp.eye_array(40))
        op = sg.distributed.aslinearoperator(piece(A, rows), COMM, row_ranges=rows, col_ranges=cols)
        with pytest.raises(ValueError, match="not divided alike"):
            cg(op, np.ones(op.local_shape[0]))
