"""Hierarchies of multigrid after random updates: whatever was done before, they are made of their values."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from interrupts import at_each_step
from spmvgpu import gallery, linalg
from test_new_values import GIVEN, assert_fit_together, without_zeros

# DIA is one of the forms that are given, for whatever matrix.
pytestmark = pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")


def drawn_matrix(rng):
    """A positive definite matrix, its arguments for `amg`, and a function that draws others like it."""
    kind = rng.choice(["grid", "space", "elasticity", "graph", "hermitian"])
    arguments = {
        "max_coarse": int(rng.integers(2, 40)),
        "cycle": str(rng.choice(["auto", "V", "AMLI", "once"])),
    }
    if kind == "grid":
        A = gallery.poisson2d(int(rng.integers(2, 18)), int(rng.integers(2, 18)))
    elif kind == "space":
        A = gallery.poisson3d(int(rng.integers(2, 7)))
    elif kind == "elasticity":
        side = int(rng.integers(2, 4))
        A = gallery.elasticity3d(side)
        if rng.random() < 0.5:
            arguments["B"] = gallery.rigid_body_modes(gallery.elasticity3d_points(side))
        else:
            arguments["block"] = 3
    else:
        n = int(rng.integers(1, 200))
        half = sp.random_array((n, n), density=min(1.0, 3 / n), rng=rng)
        if kind == "hermitian":
            half = half + 1j * sp.random_array((n, n), density=min(1.0, 1 / n), rng=rng)
        A = half + half.conj().T
        A = A + sp.diags_array(np.asarray(abs(A).sum(axis=1)).ravel() + 0.1)
    A = sp.csr_array(A)
    A.sort_indices()
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    pairs = np.minimum(rows, A.indices), np.maximum(rows, A.indices)

    def draw():
        """Scaled rows and columns, or weak couplings, or couplings left out."""
        scale = rng.uniform(0.3, 3.0, A.shape[0])
        data = A.data * scale[rows] * scale[A.indices]
        weak = rng.random(A.shape)[pairs] < 0.3
        data = np.where(weak & (rows != A.indices), data * rng.choice([1.0, 1e-3, 0.0]), data)
        B = sp.csr_array((data, A.indices, A.indptr), shape=A.shape)
        # Positive definite still: the diagonal is at least as large as before, beside the others.
        others = np.asarray(abs(B).sum(axis=1)).ravel() - abs(B.diagonal())
        B.setdiag(np.maximum(B.diagonal().real, 1.01 * others + 1e-3))
        return B

    return A, arguments, draw


def assert_is_hierarchy_of(M, A, rng):
    """All parts belong to the values, and so do the adjoint and a pickle."""
    np.testing.assert_array_equal(M.A.toarray(), A.toarray())
    assert_fit_together(M)
    for level in M.levels:
        np.testing.assert_array_equal(level.A.H.toarray(), level.A.toarray().conj().T)
        np.testing.assert_array_equal(level.A.T.toarray(), level.A.toarray().T)
    x, y = rng.standard_normal((2, A.shape[0]))
    found = M @ x
    assert np.isfinite(found).all()
    size = np.linalg.norm(found) * np.linalg.norm(y) or 1.0
    assert abs(np.vdot(y, found) - np.vdot(M.H @ y, x)) <= 1e-9 * size
    for same in (pickle.loads(pickle.dumps(M)), copy.deepcopy(M)):
        np.testing.assert_array_equal(same @ x, found)
        np.testing.assert_array_equal(same.H @ x, M.H @ x)
    # What has the same aggregates and these values from the beginning.
    again = copy.copy(M)
    again.update_values(A.data)
    np.testing.assert_array_equal(again @ x, found)


def run(seed, device):
    rng = np.random.default_rng(seed)
    A, arguments, draw = drawn_matrix(rng)
    M = linalg.amg(A, device=device, **arguments)
    x = rng.standard_normal(A.shape[0])
    H, T = M.H, M.T
    for _ in range(int(rng.integers(1, 6))):
        step = rng.choice(["update", "part", "refused", "interrupted", "pickled", "derived"])
        if step in ("update", "part"):
            A = draw()
            form = rng.choice(list(GIVEN) if step == "update" else sorted(GIVEN.keys() - {"array", "list"}))
            M.update_values(GIVEN[form](A if step == "update" else without_zeros(A)))
        elif step == "refused":
            with np.errstate(all="ignore"), pytest.raises((ValueError, np.linalg.LinAlgError)):
                M.update_values(rng.choice([-1.0, np.nan, np.inf]) * A)
        elif step == "interrupted":
            new = draw()
            stride = int(rng.integers(500, 1500))
            for number, _ in enumerate(
                at_each_step(lambda M=M, new=new: M.update_values(new), stride=stride)
            ):
                is_new = np.array_equal(M.A.toarray(), new.toarray())
                assert_is_hierarchy_of(M, new if is_new else A, rng)
                if number > 1:
                    break
            A = new if np.array_equal(M.A.toarray(), new.toarray()) else A
        elif step == "pickled":
            M = pickle.loads(pickle.dumps(M))
            H, T = M.H, M.T
        else:
            H, T = M.H, M.T
            H @ x, T @ x, M.levels[-1].A.H
        np.testing.assert_array_equal(H @ x, M.H @ x)
        np.testing.assert_array_equal(T @ x, M.T @ x)
        assert_is_hierarchy_of(M, A, rng)


@pytest.mark.parametrize("seed", range(4))
def test_some_hierarchies(seed, device):
    run(seed, device)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(100, 1100, 100))
def test_many_hierarchies(first, device):
    for seed in range(first, first + 100):
        try:
            run(seed, device)
        except Exception as error:
            raise AssertionError(f"with seed {seed}") from error
