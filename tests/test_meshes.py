"""Matrices made from meshes: exactly symmetric, canonical, of the size that the mesh says, each time."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from experiments.papers.mironowicz_matrices import MATRICES, load
from spmvgpu.gallery import meshes
from support import every_third

PATTERNS = {
    "line": lambda: meshes.solid((7,)),
    "squares": lambda: meshes.solid((5, 4)),
    "tube": lambda: meshes.solid((5, 6), closed=(1,)),
    "hexahedra": lambda: meshes.solid((4, 3, 5)),
    "edges": lambda: meshes.edge_elements((4, 3, 3)),
    "quadratic": lambda: meshes.quadratic_elements((3, 3, 4)),
    "plates": lambda: meshes.box_girder((9, 4, 5), spacing=4),
    "cloud": lambda: meshes.cloud(60, 4, reach=1.5),
    "layers": lambda: meshes.product(meshes.solid((4, 3)), meshes.solid((3,))),
    "blocks": lambda: meshes.blocks(meshes.solid((4, 3)), 3),
    "shuffled": lambda: meshes.shuffled(meshes.solid((6, 5)), group=4),
}


def assert_canonical(matrix: sp.csr_array) -> None:
    again = sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
    again.check_format(full_check=True)
    assert again.has_canonical_format  # recomputed: the generators only claim it
    assert matrix.has_canonical_format
    assert matrix.indices.dtype == matrix.indptr.dtype == np.int32


@pytest.mark.parametrize("make", PATTERNS.values(), ids=PATTERNS)
def test_patterns_are_symmetric_and_couple_every_unknown_to_itself(make) -> None:
    pattern = make()
    assert_canonical(pattern)
    dense = pattern.toarray()
    assert (dense == dense.T).all()
    assert (dense.diagonal() == 1).all()
    assert set(np.unique(dense)) == {0, 1}


@pytest.mark.parametrize("make", PATTERNS.values(), ids=PATTERNS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_are_symmetric_to_the_last_bit_and_repeat(make, dtype) -> None:
    matrix = meshes.symmetric_values(make())
    assert_canonical(matrix)
    dense = matrix.toarray().astype(dtype)
    np.testing.assert_array_equal(dense, dense.T)
    assert np.abs(matrix.data).max() <= 1
    assert len(np.unique(matrix.data)) > matrix.nnz / 3  # values vary
    np.testing.assert_array_equal(matrix.data, meshes.symmetric_values(make()).data)
    assert (matrix.data != meshes.symmetric_values(make(), seed=1).data).any()


def test_solids_couple_neighbours_in_all_directions() -> None:
    # Each axis couples 3 n - 2 pairs, or 3 n where it is closed.
    assert meshes.solid((257, 9, 9)).nnz == (3 * 257 - 2) * 25 * 25
    assert meshes.solid((48, 16), closed=(1,)).nnz == (3 * 48 - 2) * 48
    np.testing.assert_array_equal(np.diff(meshes.solid((5, 7, 6)).indptr).max(), 27)


def test_edges_of_one_cube() -> None:
    tetrahedra = meshes.tetrahedra(meshes.cells((2, 2, 2)))
    assert tetrahedra.shape == (6, 4)
    assert all({0, 7} <= set(corners) for corners in tetrahedra.tolist())  # the main diagonal
    numbers, count = meshes.edges(tetrahedra)
    assert count == 12 + 6 + 1  # of the cube, across its faces, through it
    assert set(numbers.ravel()) == set(range(count))
    # The main diagonal shares a tetrahedron with every other edge.
    assert np.diff(meshes.coupled(numbers, count).indptr).max() == count


def test_quadratic_elements_have_an_unknown_per_node_and_edge() -> None:
    _, edges = meshes.edges(meshes.tetrahedra(meshes.cells((4, 3, 3))))
    assert meshes.quadratic_elements((4, 3, 3)).shape[0] == 36 + edges


def test_blocks_are_those_of_kron() -> None:
    pattern = meshes.solid((4, 5))
    expected = sp.kron(pattern, np.ones((3, 3), np.int8)).toarray()
    np.testing.assert_array_equal(meshes.blocks(pattern, 3).toarray(), expected)


def test_cloud_couples_what_is_near() -> None:
    near, far = meshes.cloud(200, 6, reach=1.2), meshes.cloud(200, 6, reach=2.4)
    assert near.nnz < far.nnz
    chain = far.toarray()[np.arange(199), np.arange(1, 200)]
    assert chain.mean() > 0.9  # the chain holds together


@pytest.mark.parametrize("dof", [1, 3])
def test_cuthill_mckee_reorders_whole_nodes_and_narrows_the_band(dof: int) -> None:
    mesh = meshes.shuffled(meshes.solid((20, 5)), group=1)
    matrix = meshes.symmetric_values(meshes.blocks(mesh, dof))
    ordered = meshes.cuthill_mckee(matrix, dof)
    assert_canonical(ordered)
    assert _bandwidth(ordered) < 0.3 * _bandwidth(matrix)
    np.testing.assert_array_equal(np.sort(ordered.data), np.sort(matrix.data))
    np.testing.assert_array_equal(ordered.toarray(), ordered.toarray().T)
    filled = (ordered.toarray() != 0).reshape(100, dof, 100, dof).any(axis=(1, 3))
    assert filled.sum() == mesh.nnz  # a node's unknowns stay together


def _bandwidth(matrix: sp.csr_array) -> int:
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return int(np.abs(row - matrix.indices).max())


# -- the poster's matrices -----------------------------------------------------------------------------------

# Rows and non-zeros of the matrices themselves; the poster gives no size for the filter's.
SIZES = {
    "cant": (62_451, 4_007_383),
    "consph": (83_334, 6_010_480),
    "cop20k_A": (121_192, 2_624_331),
    "pdb1HYS": (36_417, 4_344_765),
    "pwtk": (217_918, 11_524_432),
    "rma10": (46_835, 2_374_001),
    "shipsec1": (140_874, 7_813_404),
}


@pytest.mark.parametrize("mesh", every_third(MATRICES), ids=lambda mesh: mesh.name)
def test_stand_ins_have_about_the_size_of_what_they_stand_for(mesh, monkeypatch) -> None:
    monkeypatch.delenv("SPMVGPU_MATRICES", raising=False)
    sample = load(mesh)
    assert (sample.name, sample.origin) == (mesh.name, "generated")
    if mesh.name in SIZES:
        rows, nnz = SIZES[mesh.name]
        assert sample.matrix.shape[0] == pytest.approx(rows, rel=0.05)
        assert sample.matrix.nnz == pytest.approx(nnz, rel=0.08)
    else:
        assert (sample.matrix.shape[0] < 700_000) == (mesh.name == "gsm_v2")
    entries = np.random.default_rng(0).integers(0, sample.matrix.nnz, 200)
    rows = np.searchsorted(sample.matrix.indptr, entries, side="right") - 1
    for i, j, value in zip(rows, sample.matrix.indices[entries], sample.matrix.data[entries], strict=True):
        assert sample.matrix[int(j), int(i)] == value


@pytest.mark.parametrize("mesh", MATRICES, ids=lambda mesh: mesh.name)
def test_quick_stand_ins_are_small_and_exactly_symmetric(mesh) -> None:
    sample = load(mesh, quick=True)
    assert sample.name == f"{mesh.name} small"
    assert 1000 <= sample.matrix.shape[0] <= 4000
    assert_canonical(sample.matrix)
    assert (sample.matrix != sample.matrix.T).nnz == 0


def test_a_real_matrix_or_mesh_is_preferred(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SPMVGPU_MATRICES", str(tmp_path))
    pwtk = next(mesh for mesh in MATRICES if mesh.name == "pwtk")
    graph = sp.csr_array(np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]], dtype=bool))
    sp.save_npz(tmp_path / "fe_pwt.npz", graph)
    sample = load(pwtk)
    assert (sample.origin, sample.source) == ("generated", "fe_pwt.npz with 6 unknowns a node")
    assert sample.matrix.shape == (18, 18)
    assert sample.matrix.nnz == 7 * 36
    sp.save_npz(tmp_path / "pwtk.npz", sp.csr_array(np.eye(4)))
    sample = load(pwtk)
    assert (sample.origin, sample.matrix.shape) == ("real", (4, 4))
    assert load(pwtk, quick=True).origin == "generated"
