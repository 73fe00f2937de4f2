"""`amg` over several devices: definite, about the iterations of one, and vectors in pieces."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import vector
from conftest import CUDA_DEVICES
from generators.systems import neumann2d
from internals import growing_hierarchy
from spmvgpu import gallery, linalg
from systems import MULTIGRID, levels_in_pieces, nearly_inverted, turned, with_zeros  # noqa: F401, a fixture

ONE_GPU = CUDA_DEVICES[0] if CUDA_DEVICES else "cuda:0"
GPU_LISTS = [[ONE_GPU] * 3, *([CUDA_DEVICES] if len(CUDA_DEVICES) > 1 else [])]
LISTS = [["cpu"] * 2, ["cpu"] * 5, *(pytest.param(names, marks=pytest.mark.gpu) for names in GPU_LISTS)]


@pytest.fixture(params=LISTS, ids=str)
def names(request):
    """Several devices of one kind, of which some may be the same."""
    return request.param


def operator(A, names):
    return sg.aslinearoperator(A, device=names)


@pytest.mark.usefixtures("levels_in_pieces")
@pytest.mark.parametrize("name", MULTIGRID)
def test_iterations(name, names):
    A, B, factor = MULTIGRID[name]()
    alone, op = sg.aslinearoperator(A, device=names[0]), operator(A, names)
    b = vector(A.shape[0], A.dtype)
    rtol = 1e-5 if A.dtype == np.float32 else 1e-9
    linalg.cg(alone, b, rtol=rtol, M=linalg.amg(alone, B=B, max_coarse=30))
    M = linalg.amg(op, B=B, max_coarse=30)
    x, info = linalg.cg(op, b, rtol=rtol, M=M)
    assert info == 0
    assert op.solve_info.iterations <= factor * alone.solve_info.iterations + 2
    assert np.linalg.norm(b - A @ x) <= 4 * rtol * np.linalg.norm(b)
    if name not in ("tiny", "elastic", "shuffled"):
        assert op.solve_info.pieces == len(names)


@pytest.mark.usefixtures("levels_in_pieces")
@pytest.mark.parametrize("cycle", ["auto", "V", "AMLI"])
@pytest.mark.parametrize(
    "A", [gallery.poisson2d(28, contrast=100), turned(gallery.poisson2d(28))], ids=["real", "complex"]
)
def test_a_cycle_is_definite(A, cycle, names):
    """And the same for whole vectors as for vectors in pieces."""
    op = operator(A, names)
    M = linalg.amg(op, cycle=cycle, max_coarse=20)
    X, Y = nearly_inverted(A, M, lambda x: M @ x)
    np.testing.assert_allclose(M @ X, Y, rtol=1e-10, atol=1e-12 * np.abs(Y).max())

    # The first direction of cg is a cycle of b, so that one iteration shows it.
    b = X[:, 0]
    d = M @ b
    expected = np.vdot(b, d) / np.vdot(d, A @ d) * d
    found = linalg.cg(op, b, M=M, maxiter=1)[0]
    assert op.solve_info.pieces == len(names)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.usefixtures("levels_in_pieces")
@pytest.mark.parametrize("cycle", ["V", "AMLI"])
@pytest.mark.parametrize("A", [gallery.poisson3d(12), turned(gallery.poisson2d(24))], ids=["real", "complex"])
def test_matrices_are_galerkin_products(A, cycle, names):
    M = linalg.amg(operator(A, names), max_coarse=10, cycle=cycle)
    expected = sp.csr_array(A)
    for level in M.levels:
        assert abs(level.A.tocsr() - expected).max() < 1e-12 * abs(expected).max()
        if level.P is not None:
            P, R = level.P.tocsr(), level.R.tocsr()
            assert abs(P.conj().T - R).max() < 1e-15 * abs(P).max()
            expected = R @ expected @ P


def test_prolongators_keep_the_near_null_space(names):
    """A vector that the matrix maps to zero is in the range of each prolongator, also near other devices."""
    A = neumann2d(30)
    M = linalg.amg(operator(A, names), max_coarse=20, strength=0.0)
    assert len(M.levels) > 2
    vector = np.ones(900)
    for level in M.levels[:-1]:
        P = level.P.toarray()
        coarse = np.linalg.lstsq(P, vector, rcond=None)[0]
        np.testing.assert_allclose(P @ coarse, vector, rtol=1e-9)
        vector = coarse


@pytest.mark.parametrize("solver", ["minres", "bicgstab", "gmres"])
def test_other_solvers(solver, names):
    A = gallery.poisson2d(40)
    op = operator(A, names)
    b = vector(1600, A.dtype)
    x, info = getattr(linalg, solver)(op, b, M="amg", rtol=1e-9)
    assert info == 0
    assert op.solve_info.pieces == len(names)
    assert op.solve_info.iterations < 60
    assert np.linalg.norm(b - A @ x) <= 1e-8 * np.linalg.norm(b)


def test_solve_turns_to_it(names):
    """Where cg with the diagonal takes many iterations, which GPUs may have done by then."""
    A = gallery.poisson2d(400, contrast=100)
    x, how = linalg.solve(operator(A, names), np.ones(A.shape[0]), full_output=True)
    assert how.method == "cg"
    assert how.preconditioner == "amg" or names[0] != "cpu"
    assert how.device == ", ".join(names)
    assert np.linalg.norm(1 - A @ x) <= 1.01e-8 * np.sqrt(A.shape[0])


@pytest.mark.usefixtures("levels_in_pieces")
@pytest.mark.parametrize("most", [1, 2, 3])
def test_few_levels(most, names):
    A = gallery.poisson2d(60)
    op = operator(A, names)
    M = linalg.amg(op, max_levels=most)
    assert len(M.levels) == most
    b = vector(A.shape[0], A.dtype)
    x, info = linalg.cg(op, b, rtol=1e-8, M=M)
    assert info == 0
    assert np.linalg.norm(b - A @ x) <= 2e-8 * np.linalg.norm(b)


@pytest.mark.usefixtures("levels_in_pieces")
def test_zeros_without_a_mirror_image(names):
    A = with_zeros(gallery.poisson2d(28))
    op = operator(A, names)
    b = vector(A.shape[0], A.dtype)
    x, info = linalg.cg(op, b, rtol=1e-9, M=linalg.amg(op, max_coarse=20))
    assert info == 0
    assert np.linalg.norm(b - A @ x) <= 2e-9 * np.linalg.norm(b)


def test_columns(names):
    A = gallery.poisson2d(40)
    op = operator(A, names)
    b = np.stack([vector(1600, A.dtype, seed=k) for k in (1, 2)], 1)
    x, info = linalg.cg(op, b, M="amg", rtol=1e-9)
    assert np.all(info == 0)
    assert np.linalg.norm(b - A @ x) <= 2e-9 * np.linalg.norm(b)


def test_singular_components(names):
    """Each becomes one unknown, whose entry on the diagonal is a rounding error of either sign."""
    of_three = sp.csr_array([[0.1, -0.1, 0], [-0.1, 0.4, -0.3], [0, -0.3, 0.3]])
    A = sp.csr_array(sp.block_diag([*(of_three * (k / 7) for k in range(1, 600)), gallery.poisson2d(20)]))
    M = linalg.amg(operator(A, names), max_coarse=300)
    assert type(M).__name__ == "MultigridOverDevices"
    assert np.isfinite(M @ vector(A.shape[0], A.dtype)).all()


def test_new_values(names):
    A = gallery.poisson2d(20)
    op = operator(A, names)
    M = linalg.amg(op, max_coarse=50)
    x = vector(400, A.dtype)
    before = M @ x
    op.update_values(2 * A)
    np.testing.assert_array_equal(M @ x, before)
    expected = linalg.amg(operator(2 * A, names), max_coarse=50) @ x
    for data in (2 * A.data, 2 * A, op):
        M.update_values(data)
        np.testing.assert_array_equal(M @ x, expected)
    assert linalg.cg(op, x, M=M)[1] == 0
    assert op.solve_info.pieces == len(names)
    broken = sp.csr_array(3 * A)
    broken.data[-1] = -1.0  # the last entry of the diagonal
    with pytest.raises(np.linalg.LinAlgError, match="positive"):
        M.update_values(broken)
    np.testing.assert_array_equal(M @ x, expected)


def test_pickle(names):
    M = linalg.amg(operator(gallery.poisson2d(20), names))
    x = vector(400, M.dtype)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(M)) @ x, M @ x)


@pytest.mark.parametrize("partition", ["rows", "pmf"])
def test_devices_without_pieces(names, partition):
    """Where devices cannot have a hierarchy together, the first one has it."""
    A = gallery.poisson2d(45)
    op = sg.aslinearoperator(A, device=names, partition=partition)
    b = vector(2025, A.dtype)
    x, info = linalg.cg(op, b, M="amg", rtol=1e-9)
    assert info == 0
    assert (op.solve_info.pieces > 1) == (partition == "rows")
    assert np.linalg.norm(b - A @ x) <= 2e-9 * np.linalg.norm(b)


def test_nodes_stay_together(names):
    A = gallery.elasticity3d(24)
    op = operator(A, names)
    M = linalg.amg(op, B=gallery.rigid_body_modes(gallery.elasticity3d_points(24)))
    b = vector(A.shape[0], A.dtype)
    x, info = linalg.cg(op, b, M=M, rtol=1e-8)
    assert info == 0
    assert op.solve_info.pieces == len(names)
    assert np.linalg.norm(b - A @ x) <= 2e-8 * np.linalg.norm(b)


def test_refusals(names):
    A = sp.csr_array(gallery.poisson2d(20)).tolil()
    A[399, 399] = -1.0
    with pytest.raises(np.linalg.LinAlgError, match="positive"):
        linalg.amg(operator(A.tocsr(), names))
    op = operator(gallery.poisson2d(20), names)
    with pytest.raises(ValueError, match="cycle"):
        linalg.amg(op, cycle="W")
    with pytest.raises(ValueError, match="B has"):
        linalg.amg(op, B=np.ones(3))
    with pytest.raises(TypeError, match="device"):
        linalg.amg(op, device="cpu")


def test_a_level_is_there_once_it_is_checked(monkeypatch):
    """A thread that asks for the level after the last one, which is made and not yet checked, waits."""
    asked, answers = [], {}

    def look(levels):
        asked.append(threading.Thread(target=lambda: answers.update({levels: own.has(levels)})))
        asked[-1].start()
        asked[-1].join(0.1)

    own = growing_hierarchy(monkeypatch, gallery.poisson2d(40), look)
    own.grow()
    for thread in asked:
        thread.join()
    assert own.depth > 2
    assert answers == {level: level < own.depth for level in range(1, own.depth + 1)}
