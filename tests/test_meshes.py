"""Matrices made from meshes: exactly symmetric, canonical, of the size that the mesh says, each time."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from spmvgpu.gallery import meshes

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
