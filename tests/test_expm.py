"""Exponentials of matrices times vectors, compared with dense ones and with SciPy's."""

import re

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import COMPLEX_TYPES, TYPES, typed, uniform
from spmvgpu import gallery
from spmvgpu.linalg import expm_multiply
from support import naming

MATRICES = {
    "1x1": lambda: sp.csr_array([[-3.0]]),
    "heat": lambda: -0.1 * gallery.poisson2d(9, 8),
    "large norm": lambda: -40.0 * gallery.poisson2d(9, 8),
    "rotation": lambda: sp.diags_array([20.0, -20.0], offsets=[1, -1], shape=(50, 50)),
    "unsymmetric": lambda: uniform(60, 60, 5),
    "triangle": lambda: sp.csr_array(np.triu(np.ones((40, 40)), 1)),  # nilpotent
    "identity": lambda: 7.0 * sp.eye_array(30),
    "zero": lambda: sp.csr_array((20, 20)),
}
SHAPES = [(), (1,), (4,)]


def made(name, dtype):
    A = sp.csr_array(MATRICES[name]())
    return sp.csr_array((typed(A, dtype), A.indices, A.indptr), shape=A.shape)


def vectors(n, dtype, *columns):
    rng = np.random.default_rng(n)
    b = rng.standard_normal((n, *columns))
    return (b + 1j * rng.standard_normal(b.shape) if np.dtype(dtype).kind == "c" else b).astype(dtype)


def exponential(A, t, B):
    wide = A.toarray().astype(np.result_type(A.dtype, np.float64))
    return scipy.linalg.expm(t * wide) @ B


def check(A, B, t, found):
    """Within rounding errors, that grow with the norm, as those of the method do."""
    wide = A.toarray().astype(np.result_type(A.dtype, np.float64))
    size = scipy.linalg.norm(scipy.linalg.expm(t * wide), 1) * np.abs(B).max(axis=0)
    eps = np.finfo(A.dtype).eps * (100 + 10 * abs(t) * scipy.linalg.norm(wide, 1))
    assert found.shape == B.shape
    assert found.dtype == A.dtype
    assert (np.abs(found - exponential(A, t, B)).max(axis=0) <= 3 * eps * size).all()


@pytest.mark.parametrize("dtype", [*TYPES, *COMPLEX_TYPES], ids=str)
@pytest.mark.parametrize("name", MATRICES)
def test_one_time(name, dtype, device):
    A = made(name, dtype)
    op = sg.aslinearoperator(A, device=device)
    for columns in SHAPES:
        with naming(columns=columns):
            B = vectors(A.shape[0], dtype, *columns)
            check(A, B, 1.0, expm_multiply(op, B))


@pytest.mark.parametrize("columns", SHAPES)
def test_times(columns, device):
    A = made("heat", np.float64)
    B = vectors(A.shape[0], np.float64, *columns)
    for times in (
        {"start": -1.0, "stop": 2.0, "num": 4},
        {"start": 0, "stop": 1, "num": 5, "endpoint": False},
        {"start": 3, "stop": -1, "num": 2, "endpoint": True},
        {"start": 2.0, "stop": 2.0, "num": 3},
        {"start": 0.0, "stop": 1.0},
    ):
        with naming(times=times):
            found = expm_multiply(sg.aslinearoperator(A, device=device), B, **times)
            points = np.linspace(times["start"], times["stop"], len(found), times.get("endpoint", True))
            assert len(found) == times.get("num", 50)
            for t, of_time in zip(points, found, strict=True):
                check(A, B, t, of_time)


def test_results_are_scipys():
    A, B = made("heat", np.float64), vectors(72, np.float64, 3)
    for times in ({}, {"start": 0.5, "stop": 2.0, "num": 7, "endpoint": True}):
        mine, theirs = expm_multiply(A, B, **times), spla.expm_multiply(A, B, **times)
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-14)


def test_columns_do_not_change_each_other(device):
    A = made("unsymmetric", np.float64)
    op = sg.aslinearoperator(A, device=device, format="csr")
    B = vectors(A.shape[0], np.float64, 3) * [1e-200, 1.0, 0.0]
    together = expm_multiply(op, B)
    for j in range(3):
        np.testing.assert_allclose(together[:, j], expm_multiply(op, B[:, j].copy()), rtol=1e-13)
    assert not together[:, 2].any()


def test_operators_without_entries(device):
    A = made("unsymmetric", np.float64)
    half, b = sg.aslinearoperator(A / 2, device=device), vectors(A.shape[0], np.float64)
    for op in (half + half, spla.aslinearoperator(A)):
        check(A, b, 1.0, expm_multiply(op, b))
        check(A, b, 1.0, expm_multiply(op, b, traceA=A.trace()))


def test_several_devices(device):
    A = made("heat", np.float64)
    b = vectors(A.shape[0], np.float64)
    check(A, b, 1.0, expm_multiply(sg.aslinearoperator(A, device=[device, "cpu"], powers=[1, 1]), b))


def test_trace_takes_products_away():
    """The identity times a number has no norm once its trace is known."""
    A, count = 300.0 * sp.eye_array(10), [0]

    def multiply(x):
        count[0] += 1
        return A @ x

    op = spla.LinearOperator(A.shape, matvec=multiply, rmatvec=multiply, dtype=np.float64)
    b = np.ones(10)
    with_trace = expm_multiply(op, b, traceA=3000.0)
    known, count[0] = count[0], 0
    without = expm_multiply(op, b)
    assert known < count[0] / 5
    np.testing.assert_allclose(with_trace, np.exp(300.0) * b, rtol=1e-13)
    np.testing.assert_allclose(without, with_trace, rtol=1e-11)


def test_complex_vectors():
    A = made("rotation", np.float64)
    b = vectors(50, np.complex128)
    np.testing.assert_allclose(expm_multiply(A, b), exponential(A, 1, b), atol=1e-11)
    with pytest.raises(TypeError, match="B has dtype complex128"):
        expm_multiply(sg.aslinearoperator(A), b)


@pytest.mark.parametrize("columns", [(), (0,), (3,)])
def test_empty(columns, device):
    op = sg.aslinearoperator(sp.csr_array((0, 0)), device=device)
    assert expm_multiply(op, np.zeros((0, *columns))).shape == (0, *columns)
    assert expm_multiply(op, np.zeros((0, *columns)), 0, 1, 5).shape == (5, 0, *columns)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"B": np.ones(4)}, ValueError, "B has shape (4,)"),
        ({"B": np.ones((5, 0), complex)}, TypeError, "B has dtype complex128"),
        ({"A": sg.aslinearoperator(np.ones((5, 4)), device="cpu")}, ValueError, "square"),
        ({"start": 0.0}, TypeError, "stop=None"),
        ({"start": 0.0, "stop": np.inf}, ValueError, "stop=inf"),
        ({"start": 0.0, "stop": 1j}, TypeError, "stop=1j"),
        ({"start": 0.0, "stop": 1.0, "num": 1}, ValueError, "num=1"),
        ({"traceA": 1j}, TypeError, "traceA=1j"),
        ({"traceA": "one"}, TypeError, "traceA='one'"),
        ({"A": sg.aslinearoperator(np.diag([1, 1, np.inf, 1, 1]), device="cpu")}, ValueError, "contains inf"),
        ({"A": sg.aslinearoperator(1e300 * np.eye(5, k=1), device="cpu")}, ValueError, "norm is so large"),
    ],
)
def test_refusals(arguments, error, words):
    given = {"A": sg.aslinearoperator(np.eye(5), device="cpu"), "B": np.ones(5), **arguments}
    with pytest.raises(error, match=re.escape(words)):
        expm_multiply(**given)
