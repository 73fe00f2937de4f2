"""Multigrid over ranks: it is definite, takes about the iterations of one process, and refuses alike."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import vector
from generators.systems import flow
from ranks import COMM, each_division, operator, piece
from spmvgpu import gallery, linalg
from systems import MULTIGRID, levels_in_pieces, nearly_inverted, turned, with_zeros  # noqa: F401, a fixture


def applied(M, op, x):
    """The whole product of a hierarchy with a whole vector."""
    return op.row_ranges.gather(M @ piece(x, op.row_ranges), root=None)


def whole(op, shape):
    """The matrix of an operator of a level: all of it, or the rows of the rank."""
    matrices = COMM.allgather(op.tocsr())
    is_whole = all(matrix.shape == shape for matrix in matrices)
    return matrices[0] if is_whole else sp.csr_array(sp.vstack(matrices))


@each_division
@pytest.mark.parametrize("name", MULTIGRID)
def test_iterations(name, division, side):
    A, B, factor = MULTIGRID[name]()
    alone = sg.aslinearoperator(A, device="cpu")
    b = vector(A.shape[0], A.dtype)
    rtol = 1e-5 if A.dtype == np.float32 else 1e-9
    linalg.cg(alone, b, rtol=rtol, M=linalg.amg(alone, B=B))
    op = operator(A, division, **side.options)
    M = linalg.amg(op, B=None if B is None else piece(B, op.row_ranges))
    x, info = linalg.cg(op, side.send(piece(b, op.row_ranges)), rtol=rtol, M=M)
    assert info == 0
    assert op.solve_info.iterations <= factor * alone.solve_info.iterations + 2
    whole = op.row_ranges.gather(side.fetch(x), root=None)
    assert np.linalg.norm(b - A @ whole) <= 4 * rtol * np.linalg.norm(b)


@pytest.mark.usefixtures("levels_in_pieces")
@each_division
@pytest.mark.parametrize("cycle", ["auto", "V", "AMLI"])
@pytest.mark.parametrize(
    "A", [gallery.poisson2d(28, contrast=100), turned(gallery.poisson2d(24))], ids=["real", "complex"]
)
def test_a_cycle_is_definite(A, cycle, division):
    op = operator(A, division)
    M = linalg.amg(op, cycle=cycle, max_coarse=20)
    nearly_inverted(A, M, lambda x: applied(M, op, x))


@pytest.mark.usefixtures("levels_in_pieces")
@each_division
@pytest.mark.parametrize("cycle", ["V", "AMLI"])
@pytest.mark.parametrize("A", [gallery.poisson3d(12), turned(gallery.poisson2d(24))], ids=["real", "complex"])
def test_matrices_are_galerkin_products(A, cycle, division):
    M = linalg.amg(operator(sp.csr_array(A), division), max_coarse=10, cycle=cycle)
    expected = sp.csr_array(A)
    for level in M.levels:
        found = whole(level.A, expected.shape)
        assert abs(found - expected).max() < 1e-12 * abs(expected).max()
        if level.P is not None:
            P = whole(level.P, (expected.shape[0], level.P.shape[1]))
            expected = P.conj().T @ expected @ P


@pytest.mark.usefixtures("levels_in_pieces")
@each_division
def test_zeros_without_a_mirror_image(division):
    A = with_zeros(gallery.poisson2d(28))
    op = operator(A, division)
    b = vector(A.shape[0], A.dtype)
    x, info = linalg.cg(op, piece(b, op.row_ranges), rtol=1e-9, M=linalg.amg(op, max_coarse=20))
    assert info == 0
    assert np.linalg.norm(b - A @ op.row_ranges.gather(x, root=None)) <= 2e-9 * np.linalg.norm(b)


@pytest.mark.parametrize("columns", [None, 2])
def test_by_name(columns):
    A = gallery.poisson2d(40)
    op = operator(A)
    b = (
        vector(1600, A.dtype)
        if columns is None
        else np.stack([vector(1600, A.dtype, seed=k) for k in (1, 2)], 1)
    )
    x, info = linalg.cg(op, piece(b, op.row_ranges), M="amg", rtol=1e-9)
    assert np.all(info == 0)
    assert op.solve_info.iterations < 30
    whole = op.row_ranges.gather(x, root=None)
    assert np.linalg.norm(b - A @ whole) <= 2e-9 * np.linalg.norm(b)


def test_new_values():
    A = gallery.poisson2d(20)
    op = operator(A)
    M = linalg.amg(op)
    x = vector(400, A.dtype)
    before = applied(M, op, x)
    rows = op.tocsr()
    op.update_values(2 * rows.data)
    np.testing.assert_array_equal(applied(M, op, x), before)
    for data in (2 * rows.data, op.tocsr()):
        M.update_values(data)
        np.testing.assert_allclose(applied(M, op, x), before / 2, rtol=1e-10)
        assert linalg.cg(op, np.ones(op.local_shape[0]), M=M)[1] == 0
    broken = 3 * rows.data
    if COMM.rank == COMM.size - 1:
        broken[-1] = -1.0  # the last entry of the diagonal
    with pytest.raises(np.linalg.LinAlgError, match="positive"):
        M.update_values(broken)
    np.testing.assert_allclose(applied(M, op, x), before / 2, rtol=1e-10)
    with pytest.raises(TypeError, match="make it again"):
        pickle.dumps(M)


def test_refusals_are_raised_on_all_ranks():
    A = sp.csr_array(gallery.poisson2d(20)).tolil()
    A[399, 399] = -1.0
    with pytest.raises(np.linalg.LinAlgError, match="positive"):
        linalg.amg(operator(A.tocsr()))
    for matrix, options in ((flow(20), {}), (gallery.poisson2d(20), {"symmetric": False})):
        with pytest.raises(np.linalg.LinAlgError, match=r"not symmetric.*use one device, or M='ilu0'"):
            linalg.amg(operator(matrix), **options)
    linalg.amg(operator(flow(20)), symmetric=True)
    op = operator(gallery.poisson2d(20))
    with pytest.raises(ValueError, match="cycle"):
        linalg.amg(op, cycle="W" if COMM.rank == 0 else "V")
    with pytest.raises((TypeError, ValueError), match="B"):
        linalg.amg(op, B=np.ones(3 if COMM.rank == COMM.size - 1 else op.local_shape[0]))
    with pytest.raises(TypeError, match="one device for each rank"):
        linalg.amg(operator(gallery.poisson2d(20), device=["cpu", "cpu"]))


def test_solve_turns_to_it():
    """Where cg with the diagonal takes many iterations, which a GPU may have done by then."""
    A = gallery.poisson2d(400, contrast=100)
    op = operator(A)
    x, how = linalg.solve(op, np.ones(op.local_shape[0]), full_output=True)
    assert how.method == "cg"
    assert how.preconditioner == "amg" or op.device != "cpu"
    assert np.linalg.norm(1 - A @ op.row_ranges.gather(x, root=None)) <= 1.01e-8 * np.sqrt(A.shape[0])
