"""`flexible=True`: preconditioners of `cg` and `gmres` that are another map in each iteration."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import spmvgpu as sg
from battery import vector
from spmvgpu import gallery, linalg
from systems import convection

SOLVERS = {"cg": (linalg.cg, lambda: gallery.poisson2d(24)), "gmres": (linalg.gmres, convection)}


def changing(A):
    """Another diagonal in each application."""
    diagonal, calls = 1 / A.diagonal(), []

    def apply(r):
        calls.append(0)
        own = np.where(np.arange(len(r)) % 5 == len(calls) % 5, 8.0, 1.0)
        return own * diagonal * r

    return spla.LinearOperator(A.shape, apply, dtype=A.dtype)


def inner(A, solver):
    """A solver that stops at a coarse tolerance."""
    op = sg.aslinearoperator(A, device="cpu")
    return spla.LinearOperator(A.shape, lambda r: solver(op, r, rtol=0.2)[0], dtype=A.dtype)


@pytest.mark.parametrize(("name", "kind"), [("cg", "inner"), ("gmres", "inner"), ("gmres", "changing")])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_solves_with_a_map_that_changes(name, kind, dtype, device):
    solver, make = SOLVERS[name]
    A = sp.csr_array(make().astype(dtype))
    b = vector(A.shape[0], dtype)
    op, residuals = sg.aslinearoperator(A, device=device), []
    M = changing(A) if kind == "changing" else inner(A, solver)
    x, info = solver(op, b, rtol=1e-10, M=M, flexible=True, residuals=residuals, maxiter=400)
    assert info == 0
    assert np.linalg.norm(b - A @ x) <= 1.01e-10 * np.linalg.norm(b)
    assert residuals[0] == pytest.approx(np.linalg.norm(b))
    assert residuals[-1] <= 1.01e-10 * np.linalg.norm(b)


def test_fewer_iterations_than_cg(device):
    """Which loses its recurrences."""
    A = gallery.poisson2d(40)
    b, op = vector(1600, np.float64), sg.aslinearoperator(A, device=device)
    counts = {}
    for flexible in (False, True):
        linalg.cg(op, b, rtol=1e-8, M=inner(A, linalg.cg), flexible=flexible, maxiter=2000)
        counts[flexible] = op.solve_info.iterations
    assert 4 * counts[True] < counts[False]


@pytest.mark.parametrize("preconditioner", [None, "jacobi", "ilu0", "amg"])
@pytest.mark.parametrize("name", SOLVERS)
def test_one_map_gives_the_same_solution(name, preconditioner, device):
    """With several columns, too. `cg` does the same iterations but for rounding errors."""
    solver, make = SOLVERS[name]
    A = make()
    op = sg.aslinearoperator(A, device=device)
    B = np.column_stack([vector(A.shape[0], np.float64, seed=seed) for seed in range(3)])
    counts = []
    for flexible in (False, True):
        X, infos = solver(op, B, rtol=1e-10, M=preconditioner, flexible=flexible)
        assert not infos.any()
        assert (np.linalg.norm(B - A @ X, axis=0) <= 1.01e-10 * np.linalg.norm(B, axis=0)).all()
        counts.append([column.iterations for column in op.solve_info.columns])
    if name == "cg":
        np.testing.assert_allclose(*counts, atol=1)


def test_against_formulas(device):
    """The residuals of a short run of gmres beside least squares over the vectors that M has made."""
    A, steps = convection(), 6
    op, calls = sg.aslinearoperator(A, device=device), []
    M, b, residuals = changing(A), vector(A.shape[0], np.float64), []
    seen = spla.LinearOperator(A.shape, lambda r: calls.append(M @ r) or calls[-1].copy(), dtype=A.dtype)
    linalg.gmres(op, b, M=seen, flexible=True, restart=steps, maxiter=1, residuals=residuals, rtol=1e-14)
    assert len(calls) == steps
    for count in range(1, steps + 1):
        space = A @ np.array(calls[:count]).T
        of_best = np.linalg.lstsq(space, b)[0]
        assert residuals[count] == pytest.approx(np.linalg.norm(b - space @ of_best), rel=1e-8)
    assert op.solve_info.preconditionings == steps


@pytest.mark.parametrize("name", SOLVERS)
def test_in_pieces(name):
    """Over several devices, with vectors in pieces."""
    solver, make = SOLVERS[name]
    A = make()
    op = sg.aslinearoperator(A, device=["cpu", "cpu"])
    b = vector(A.shape[0], np.float64)
    x, info = solver(op, b, rtol=1e-10, M=linalg.chebyshev(op) if name == "cg" else "jacobi", flexible=True)
    assert info == 0
    assert np.linalg.norm(b - A @ x) <= 1.01e-10 * np.linalg.norm(b)
