"""Sparsity patterns of finite element meshes.

A pattern is a `scipy.sparse.csr_array` of int8 ones. `symmetric_values` fills it with values.

>>> from spmvgpu.gallery import meshes
>>> pattern = meshes.blocks(meshes.solid((4, 4, 4)), 3)  # three unknowns per node
>>> meshes.symmetric_values(pattern).shape
(192, 192)
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

import numpy as np
import scipy.sparse as sp

from .._util.types import HostArray
from .common import canonical
from .orders import cuthill_mckee, permuted, shuffled

__all__ = [
    "blocks",
    "box_girder",
    "cells",
    "cloud",
    "coupled",
    "cuthill_mckee",
    "edge_elements",
    "edges",
    "permuted",
    "product",
    "quadratic_elements",
    "shuffled",
    "solid",
    "symmetric_values",
    "tetrahedra",
]

# Frequency of the wave that symmetric_values reads off: high enough that neighbours share no digit.
_WAVE = 1e4


# -- cells ---------------------------------------------------------------------------------------------------


def cells(nodes: Sequence[int], closed: Sequence[int] = ()) -> HostArray:
    """List the nodes of each cell of a regular grid.

    Cells are squares in two dimensions and hexahedra in three. Nodes are numbered along the last axis first.
    Put the longest axis first for a small bandwidth.

    Parameters
    ----------
    nodes : sequence of int
        Number of nodes along each axis.
    closed : sequence of int
        Periodic axes, such as the one around a cylinder.

    Returns
    -------
    (cells, 2**dim) array of int

    Examples
    --------
    >>> from spmvgpu.gallery import meshes
    >>> meshes.cells((2, 3))
    array([[0, 1, 3, 4],
           [1, 2, 4, 5]])
    """
    first = np.indices([n if axis in closed else n - 1 for axis, n in enumerate(nodes)])
    first = first.reshape(len(nodes), -1)
    corners = itertools.product((0, 1), repeat=len(nodes))
    shifted = (first + np.array(corner)[:, None] for corner in corners)
    return np.stack([np.ravel_multi_index(tuple(at), tuple(nodes), mode="wrap") for at in shifted], axis=1)


def tetrahedra(hexahedra: HostArray) -> HostArray:
    """Cut each hexahedron into six tetrahedra that share its main diagonal.

    Parameters
    ----------
    hexahedra : (m, 8) array of int
        As `cells` returns them.

    Returns
    -------
    (6 * m, 4) array of int

    Examples
    --------
    >>> from spmvgpu.gallery import meshes
    >>> meshes.tetrahedra(meshes.cells((2, 2, 2))).shape
    (6, 4)
    """
    steps = np.array([4, 2, 1])  # a corner of `cells` is numbered by the bits of its three coordinates
    paths = [[0, *np.cumsum(steps[list(axes)])] for axes in itertools.permutations(range(3))]
    return np.concatenate([hexahedra[:, path] for path in paths])


def edges(elements: HostArray) -> tuple[HostArray, int]:
    """Number the edges of a tetrahedral mesh.

    Parameters
    ----------
    elements : (m, 4) array of int
        Nodes of each tetrahedron.

    Returns
    -------
    numbers : (m, 6) array of int
        Edges of each tetrahedron.
    count : int
        Number of edges in the mesh.

    Examples
    --------
    >>> from spmvgpu.gallery import meshes
    >>> numbers, count = meshes.edges(meshes.tetrahedra(meshes.cells((2, 2, 2))))
    >>> numbers.shape, count
    ((6, 6), 19)
    """
    nodes = int(elements.max()) + 1
    pairs = [elements[:, pair] for pair in itertools.combinations(range(4), 2)]
    keys = np.stack([pair.min(axis=1) * nodes + pair.max(axis=1) for pair in pairs], axis=1)
    known, number = np.unique(keys, return_inverse=True)
    return number.reshape(keys.shape), len(known)


# -- patterns ------------------------------------------------------------------------------------------------


def coupled(elements: HostArray, unknowns: int) -> sp.csr_array:
    """Return the pattern of a mesh: two unknowns couple if an element has both.

    Parameters
    ----------
    elements : (m, k) array of int
        Unknowns of each element.
    unknowns : int
        Number of unknowns, the size of the matrix.

    Returns
    -------
    scipy.sparse.csr_array of int8

    Examples
    --------
    >>> import numpy as np
    >>> from spmvgpu.gallery import meshes
    >>> meshes.coupled(np.array([[0, 1], [1, 2]]), 3).toarray()
    array([[1, 1, 0],
           [1, 1, 1],
           [0, 1, 1]], dtype=int8)
    """
    count, per_element = elements.shape
    incidence = sp.csr_array(
        (
            np.ones(elements.size, np.int32),
            elements.ravel().astype(np.int32),
            np.arange(count + 1, dtype=np.int32) * per_element,
        ),
        shape=(count, unknowns),
    )
    return _pattern(sp.csr_array(incidence.T @ incidence))


def product(first: sp.csr_array, second: sp.csr_array) -> sp.csr_array:
    """Return the pattern of the product of two meshes, such as a surface times layers.

    Parameters
    ----------
    first, second : csr_array
        Patterns of the meshes.

    Returns
    -------
    scipy.sparse.csr_array of int8

    Examples
    --------
    >>> from spmvgpu.gallery import meshes
    >>> meshes.product(meshes.solid((4, 3)), meshes.solid((3,))).shape
    (36, 36)
    """
    return _pattern(sp.csr_array(sp.kron(first, second, format="csr")))


def blocks(pattern: sp.csr_array, dof: int) -> sp.csr_array:
    """Replace each entry of a pattern by a dense block.

    Parameters
    ----------
    pattern : csr_array
        Pattern of the nodes.
    dof : int
        Unknowns per node, the size of a block.

    Returns
    -------
    scipy.sparse.csr_array of int8

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from spmvgpu.gallery import meshes
    >>> meshes.blocks(sp.csr_array(np.eye(2, dtype=np.int8)), 2).toarray()
    array([[1, 1, 0, 0],
           [1, 1, 0, 0],
           [0, 0, 1, 1],
           [0, 0, 1, 1]], dtype=int8)
    """
    lengths = np.repeat(dof * np.diff(pattern.indptr), dof)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(pattern.indptr.dtype)
    # The columns of a node's first row, and where in them every entry of all its rows is found.
    columns = (dof * pattern.indices[:, None] + np.arange(dof, dtype=pattern.indices.dtype)).ravel()
    begin = np.repeat(dof * pattern.indptr[:-1], dof)
    found = np.arange(offsets[-1], dtype=offsets.dtype) - np.repeat(offsets[:-1] - begin, lengths)
    shape = (pattern.shape[0] * dof, pattern.shape[1] * dof)
    return canonical(np.ones(len(found), np.int8), columns[found], offsets, shape)


def _pattern(matrix: sp.csr_array) -> sp.csr_array:
    matrix.sum_duplicates()
    indices, indptr = (array.astype(np.int32, copy=False) for array in (matrix.indices, matrix.indptr))
    return canonical(np.ones(matrix.nnz, np.int8), indices, indptr, matrix.shape)


# -- values --------------------------------------------------------------------------------------------------


def symmetric_values(pattern: sp.csr_array, seed: int = 0) -> sp.csr_array:
    """Fill a symmetric pattern with values between -1 and 1.

    The matrix is symmetric to the last bit. The values look random: each is a function of the sum of two
    random numbers, one of its row and one of its column.

    Parameters
    ----------
    pattern : csr_array
    seed : int

    Returns
    -------
    scipy.sparse.csr_array of float64

    Examples
    --------
    >>> from spmvgpu.gallery import meshes
    >>> A = meshes.symmetric_values(meshes.solid((4, 4)))
    >>> float(abs(A - A.T).max())
    0.0
    """
    weight = np.random.default_rng(seed).random(pattern.shape[0])
    values = np.repeat(weight, np.diff(pattern.indptr))
    values += weight[pattern.indices]
    values *= _WAVE
    return canonical(np.sin(values, out=values), pattern.indices, pattern.indptr, pattern.shape)


# -- whole meshes --------------------------------------------------------------------------------------------


def solid(nodes: Sequence[int], closed: Sequence[int] = ()) -> sp.csr_array:
    """Return the node pattern of a grid of squares or hexahedra.

    Parameters
    ----------
    nodes, closed
        As in `cells`.

    Returns
    -------
    scipy.sparse.csr_array of int8

    Examples
    --------
    >>> from spmvgpu.gallery import meshes
    >>> meshes.solid((10, 10, 10)).shape
    (1000, 1000)
    """
    return coupled(cells(nodes, closed), prod(nodes))


def edge_elements(nodes: Sequence[int]) -> sp.csr_array:
    """Return the pattern of first-order Nedelec elements on tetrahedra in a box.

    Each edge has one unknown.

    Parameters
    ----------
    nodes : sequence of 3 int
        Number of nodes along each axis.

    Returns
    -------
    scipy.sparse.csr_array of int8

    Examples
    --------
    >>> from spmvgpu.gallery import meshes
    >>> meshes.edge_elements((2, 2, 2)).shape
    (19, 19)
    """
    return coupled(*edges(tetrahedra(cells(nodes))))


def quadratic_elements(nodes: Sequence[int]) -> sp.csr_array:
    """Return the pattern of quadratic tetrahedra in a box.

    Each node has one unknown, and then each edge.

    Parameters
    ----------
    nodes : sequence of 3 int
        Number of nodes along each axis.

    Returns
    -------
    scipy.sparse.csr_array of int8

    Examples
    --------
    >>> from spmvgpu.gallery import meshes
    >>> meshes.quadratic_elements((2, 2, 2)).shape
    (27, 27)
    """
    elements = tetrahedra(cells(nodes))
    middles, count = edges(elements)
    corners = prod(nodes)
    return coupled(np.concatenate([elements, corners + middles], axis=1), corners + count)


def box_girder(nodes: Sequence[int], spacing: int) -> sp.csr_array:
    """Return the pattern of the plates of a ship's hull.

    The plates are the sides of a box, a deck and bulkheads.

    Parameters
    ----------
    nodes : sequence of 3 int
        Nodes along the hull, and then across it in both directions.
    spacing : int
        Nodes between two bulkheads.

    Returns
    -------
    scipy.sparse.csr_array of int8

    Examples
    --------
    >>> from spmvgpu.gallery import meshes
    >>> meshes.box_girder((9, 4, 5), spacing=4).shape
    (162, 162)
    """
    number = np.arange(prod(nodes)).reshape(nodes)
    length, height, width = nodes
    plates = [number[:, at, :] for at in (0, height // 2, height - 1)]
    plates += [number[:, :, at] for at in (0, width - 1)]
    plates += [number[at] for at in range(0, length, spacing)]
    squares = np.concatenate([plate.ravel()[cells(plate.shape)] for plate in plates])
    used, renumbered = np.unique(squares, return_inverse=True)
    return coupled(renumbered.reshape(squares.shape), len(used))


def cloud(points: int, side: int, reach: float, seed: int = 0) -> sp.csr_array:
    """Return the pattern of the atoms of a folded chain.

    The chain winds through a cubic lattice. Each atom lies near a lattice point and couples to the atoms
    within `reach` of it.

    Parameters
    ----------
    points : int
        Number of atoms, at most ``side**3``.
    side : int
        Lattice points along each axis.
    reach : float
        Largest distance of coupled atoms, in lattice spacings.
    seed : int

    Returns
    -------
    scipy.sparse.csr_array of int8

    Examples
    --------
    >>> from spmvgpu.gallery import meshes
    >>> meshes.cloud(60, 4, reach=1.5).shape
    (60, 60)
    """
    from scipy.spatial import cKDTree

    position = np.stack(np.unravel_index(np.arange(points), (side, side, side)))
    for axis in (1, 2):  # to and fro
        turned = position[:axis].sum(axis=0) % 2 == 1
        position[axis, turned] = side - 1 - position[axis, turned]
    jitter = np.random.default_rng(seed).uniform(-0.4, 0.4, position.shape)
    pairs = cKDTree((position + jitter).T).query_pairs(reach, output_type="ndarray")
    ends = np.concatenate([pairs, pairs[:, ::-1], np.arange(points)[:, None].repeat(2, axis=1)])
    entries = np.ones(len(ends), np.int8)
    return _pattern(sp.csr_array(sp.coo_array((entries, (ends[:, 0], ends[:, 1])), shape=(points, points))))
