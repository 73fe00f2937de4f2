"""The generators give the matrices they promise: checked against other constructions and mechanics."""

import numpy as np
import pytest
import scipy.sparse as sp

from spmvgpu import gallery

SMALL = {
    "poisson1d": lambda **options: gallery.poisson1d(9, **options),
    "poisson2d": lambda **options: gallery.poisson2d(4, 5, **options),
    "poisson3d_7": lambda **options: gallery.poisson3d(3, 4, 5, **options),
    "poisson3d_27": lambda **options: gallery.poisson3d(3, 4, 5, points=27, **options),
    "elasticity2d": lambda **options: gallery.elasticity2d(4, **options),
    "elasticity3d": lambda **options: gallery.elasticity3d(3, **options),
    "elasticity3d_mass": lambda **options: gallery.elasticity3d_mass(3, **options),
    "banded_random": lambda **options: gallery.banded_random(50, 6, 8, **options),
    "uniform_random": lambda **options: gallery.uniform_random(40, 60, 7, **options),
    "powerlaw": lambda **options: gallery.powerlaw(300, 5, **options),
    "powerlaw_local": lambda **options: gallery.powerlaw(300, 5, locality=0.7, max_length=30, **options),
    "rmat": lambda **options: gallery.rmat(7, 5, **options),
    "lp_like": lambda **options: gallery.lp_like(30, 200, 4, **options),
}
GRIDS = [name for name in SMALL if name.startswith(("poisson", "elasticity"))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SMALL)
def test_is_canonical_csr_of_the_dtype(name, dtype):
    A = SMALL[name](dtype=dtype)
    assert isinstance(A, sp.csr_array)
    assert A.dtype == dtype
    assert A.indices.dtype == A.indptr.dtype == np.int32
    again = sp.csr_array((A.data, A.indices, A.indptr), shape=A.shape)
    again.check_format(full_check=True)
    assert again.has_canonical_format  # recomputed: the generators only claim it
    assert np.isfinite(A.data).all()


@pytest.mark.parametrize("name", [name for name in SMALL if not name.endswith("mass")])
def test_same_seed_same_matrix(name):
    first, second = SMALL[name](seed=3), SMALL[name](seed=3)
    np.testing.assert_array_equal(first.indices, second.indices)
    np.testing.assert_array_equal(first.data, second.data)


@pytest.mark.parametrize("name", [name for name in SMALL if name not in GRIDS])
def test_other_seed_other_matrix(name):
    assert abs(SMALL[name](seed=3) - SMALL[name](seed=4)).sum() > 0


@pytest.mark.parametrize("contrast", [1, 100])
@pytest.mark.parametrize("name", GRIDS)
def test_grids_are_symmetric_positive_definite(name, contrast):
    A = (SMALL[name]() if name.endswith("mass") else SMALL[name](contrast=contrast)).toarray()
    np.testing.assert_array_equal(A, A.T)  # to the last bit
    assert np.linalg.eigvalsh(A).min() > 0


def laplacian(n):
    return sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=[-1, 0, 1])


@pytest.mark.parametrize("grid", [(7,), (4, 6), (3, 1), (3, 4, 5), (1, 1, 6)], ids=str)
def test_poisson_is_the_kronecker_sum(grid):
    expected = sp.csr_array((1, 1))
    for n in grid:
        expected = sp.kron(expected, sp.eye_array(n)) + sp.kron(sp.eye_array(expected.shape[0]), laplacian(n))
    A = (gallery.poisson1d, gallery.poisson2d, gallery.poisson3d)[len(grid) - 1](*grid)
    np.testing.assert_array_equal(A.toarray(), expected.toarray())


def test_27_points_couple_all_neighbours():
    A = gallery.poisson3d(4, points=27)
    assert A.nnz == (3 * 4 - 2) ** 3
    np.testing.assert_array_equal(A.diagonal(), 26)
    middle = np.ravel_multi_index((1, 2, 1), (4, 4, 4))
    np.testing.assert_array_equal(A.sum(axis=1)[middle], 0)


def test_mass_of_linear_displacements():
    """Products of linear functions have exact integrals, over a block of 4 x 3 x 3 elements."""
    M, x = gallery.elasticity3d_mass(4), gallery.elasticity3d_points(4)[:, 0]
    for component, direction in enumerate(np.eye(3)):
        u, along = np.kron(x, direction), np.kron(x, np.roll(direction, 1))
        assert u @ M @ u == pytest.approx(4**3 / 3 * 3 * 3), component
        assert u @ M @ along == 0


LOADS = {2: gallery.elasticity2d_load, 3: gallery.elasticity3d_load}


@pytest.mark.parametrize(("assemble", "dim"), [(gallery.elasticity2d, 2), (gallery.elasticity3d, 3)])
class TestElasticity:
    N = 4

    def coordinates(self, dim):
        """Positions of the free nodes; the clamped face is at 0 on the first axis."""
        axes = np.meshgrid(np.arange(1.0, self.N + 1), *[np.arange(float(self.N))] * (dim - 1), indexing="ij")
        return np.stack(axes, axis=-1).reshape(-1, dim)

    def test_points(self, assemble, dim):
        points = {2: gallery.elasticity2d_points, 3: gallery.elasticity3d_points}[dim](self.N)
        np.testing.assert_array_equal(points, self.coordinates(dim))

    def test_rigid_body_modes(self, assemble, dim):
        A, points = assemble(self.N), self.coordinates(dim)
        modes = gallery.rigid_body_modes(points)
        assert modes.shape == (A.shape[0], {2: 3, 3: 6}[dim])
        assert np.linalg.matrix_rank(modes) == modes.shape[1]
        np.testing.assert_allclose(
            np.hypot.reduce(modes.reshape(-1, dim, modes.shape[1]), axis=1).max(axis=0), 1
        )
        away = np.repeat(points[:, 0] > 1, dim)
        np.testing.assert_allclose((A @ modes)[away], 0, atol=1e-12)

    def test_size(self, assemble, dim):
        A, b = assemble(self.N), LOADS[dim](self.N)
        assert A.shape == (dim * self.N**dim,) * 2
        assert A.nnz == dim**2 * (3 * self.N - 2) ** dim
        assert b.shape == A.shape[:1]

    def test_rigid_motions_cost_nothing_away_from_the_clamped_face(self, assemble, dim):
        A = assemble(self.N, contrast=10)
        x = self.coordinates(dim)
        free = np.repeat(x[:, 0] > 1, dim)  # not in an element that touches the clamped face
        spin = np.zeros_like(x)
        spin[:, 0], spin[:, 1] = -x[:, 1], x[:, 0]
        for motion in (*(np.broadcast_to(axis, x.shape) for axis in np.eye(dim)), spin):
            np.testing.assert_allclose((A @ motion.reshape(-1))[free], 0, atol=1e-12)

    def test_stretched_bar(self, assemble, dim):
        # Without lateral contraction, u = (x, 0, 0) is the exact answer to a unit pull at the free end.
        A = assemble(self.N, poisson_ratio=0)
        x = self.coordinates(dim)
        displacement = np.zeros_like(x)
        displacement[:, 0] = x[:, 0]
        force = (A @ displacement.reshape(-1)).reshape(-1, dim)
        end = x[:, 0] == self.N
        np.testing.assert_allclose(force[~end], 0, atol=1e-12)
        np.testing.assert_allclose(force[end, 1:], 0, atol=1e-12)
        np.testing.assert_allclose(force[end, 0].sum(), (self.N - 1) ** (dim - 1))

    def test_load_is_the_weight(self, assemble, dim):
        b = LOADS[dim](self.N).reshape(-1, dim)
        np.testing.assert_array_equal(b[:, :-1], 0)
        # Half of the first layer of elements hangs on the clamped nodes.
        np.testing.assert_allclose(b[:, -1].sum(), (self.N - 0.5) * (self.N - 1) ** (dim - 1))

    def test_load_has_the_dtype(self, assemble, dim):
        assert LOADS[dim](2, dtype=np.float32).dtype == assemble(2, dtype=np.float32).dtype == np.float32


def test_banded_random_stays_in_its_band():
    A = gallery.banded_random(200, 5, 9).tocoo()
    assert np.abs(A.row - A.col).max() <= 9
    assert np.bincount(A.row).max() <= 5


def test_uniform_random_fills_its_rows():
    A = gallery.uniform_random(100, 100_000, 8)
    assert np.diff(A.indptr).max() == 8
    assert A.nnz > 0.99 * 800


def test_powerlaw_has_hub_rows_and_hub_columns():
    A = gallery.powerlaw(20_000, 6, max_length=3000)
    rows, columns = np.diff(A.indptr), np.diff(A.tocsc().indptr)
    assert rows.max() > 30 * rows.mean()
    assert rows.max() <= 3000
    assert columns.max() > 30 * columns.mean()
    assert 4 < rows.mean() <= 6.5


def test_powerlaw_locality_gathers_entries_near_the_diagonal():
    A = gallery.powerlaw(20_000, 6, locality=0.8).tocoo()
    assert np.mean(np.abs(A.row - A.col) <= 50) > 0.6


def test_rmat_has_hubs_at_the_same_rows_and_columns():
    A = gallery.rmat(12, 8)
    assert A.shape == (4096, 4096)
    assert 0.7 * 8 * 4096 < A.nnz <= 8 * 4096
    by_row, by_column = np.diff(A.indptr), np.bincount(A.indices, minlength=4096)
    assert by_row.argmax() == by_column.argmax() == 0
    assert by_row.max() > 30 * by_row.mean()
    assert (by_row == 0).sum() > 400


def test_lp_like_is_a_wide_matrix_of_ones():
    A = gallery.lp_like(50, 3000, 4)
    assert A.shape == (50, 3000)
    np.testing.assert_array_equal(A.data, 1)
    assert np.diff(A.tocsc().indptr).min() >= 1
    rows = np.diff(A.indptr)
    assert rows.max() > 5 * max(rows.min(), 1)
