"""Symmetric matrices as finite elements make them: unknowns couple where they share an element of a mesh.

A matrix is put together from parts: cells of a grid, perhaps cut into tetrahedra; the unknowns of each cell
(`coupled`), several per node (`blocks`), and values that make it symmetric to the last bit
(`symmetric_values`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from .common import Array, canonical

# Frequency of the wave that symmetric_values reads off: high enough that neighbours share no digit.
_WAVE = 1e4


# -- cells ---------------------------------------------------------------------------------------------------


def cells(nodes: Sequence[int], closed: Sequence[int] = ()) -> Array:
    """The nodes of every cell of a grid: squares in two dimensions, hexahedra in three.

    Parameters
    ----------
    nodes : sequence of int
        Along each axis. They are numbered along the last axis first: put the longest axis first to number
        neighbours closely.
    closed : sequence of int
        Axes that lead back to their beginning, as around a cylinder.

    Returns
    -------
    (cells, 2**dim) array
    """
    first = np.indices([n if axis in closed else n - 1 for axis, n in enumerate(nodes)])
    first = first.reshape(len(nodes), -1)
    corners = itertools.product((0, 1), repeat=len(nodes))
    shifted = (first + np.array(corner)[:, None] for corner in corners)
    return np.stack([np.ravel_multi_index(tuple(at), tuple(nodes), mode="wrap") for at in shifted], axis=1)


def tetrahedra(hexahedra: Array) -> Array:
    """Each hexahedron cut into six tetrahedra, all of which have its main diagonal."""
    steps = np.array([4, 2, 1])  # a corner of `cells` is numbered by the bits of its three coordinates
    paths = [[0, *np.cumsum(steps[list(axes)])] for axes in itertools.permutations(range(3))]
    return np.concatenate([hexahedra[:, path] for path in paths])


def edges(elements: Array) -> tuple[Array, int]:
    """The six edges of each tetrahedron, numbered in the order of their nodes, and how many there are."""
    nodes = int(elements.max()) + 1
    pairs = [elements[:, pair] for pair in itertools.combinations(range(4), 2)]
    keys = np.stack([pair.min(axis=1) * nodes + pair.max(axis=1) for pair in pairs], axis=1)
    known, number = np.unique(keys, return_inverse=True)
    return number.reshape(keys.shape), len(known)


# -- patterns ------------------------------------------------------------------------------------------------


def coupled(elements: Array, unknowns: int) -> sp.csr_array:
    """The pattern of the matrix whose unknowns couple where an element has both; int8 ones, canonical."""
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
    """The pattern of a mesh that is the product of two, as layers of a surface are."""
    return _pattern(sp.csr_array(sp.kron(first, second, format="csr")))


def blocks(pattern: sp.csr_array, dof: int) -> sp.csr_array:
    """Each entry becomes a dense block, as where each node has `dof` unknowns."""
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


# -- values and order ----------------------------------------------------------------------------------------


def symmetric_values(pattern: sp.csr_array, seed: int = 0) -> sp.csr_array:
    """A symmetric pattern with values from -1 to 1 that look random: a matrix symmetric to the last bit.

    An entry is a function of the sum of two random numbers, its row's and its column's: sums do not depend on
    the order.
    """
    weight = np.random.default_rng(seed).random(pattern.shape[0])
    values = np.repeat(weight, np.diff(pattern.indptr))
    values += weight[pattern.indices]
    values *= _WAVE
    return canonical(np.sin(values, out=values), pattern.indices, pattern.indptr, pattern.shape)


def cuthill_mckee(matrix: sp.csr_array, dof: int = 1) -> sp.csr_array:
    """The matrix in reverse Cuthill-McKee order; one of `dof` by `dof` blocks is ordered by its nodes."""
    nodes = matrix
    if dof > 1:
        leading = matrix[::dof]
        nodes = canonical(
            np.ones(leading.nnz // dof, np.int8),
            leading.indices[::dof] // dof,
            leading.indptr // dof,
            (matrix.shape[0] // dof, matrix.shape[1] // dof),
        )
    order = reverse_cuthill_mckee(sp.csr_matrix(nodes), symmetric_mode=True)
    return permuted(matrix, (dof * order[:, None] + np.arange(dof, dtype=order.dtype)).ravel())


def shuffled(matrix: sp.csr_array, group: int, seed: int = 0) -> sp.csr_array:
    """The matrix with groups of `group` unknowns in random order, as mesh generators number their parts."""
    starts = np.arange(0, matrix.shape[0], group)
    np.random.default_rng(seed).shuffle(starts)
    order = (starts[:, None] + np.arange(group)).ravel()
    return permuted(matrix, order[order < matrix.shape[0]])


def permuted(matrix: sp.csr_array, order: Array) -> sp.csr_array:
    """Rows and columns in a new order: ``matrix[order][:, order]``, canonical again."""
    position = np.empty(len(order), matrix.indices.dtype)
    position[order] = np.arange(len(order), dtype=position.dtype)
    rows = sp.csr_array(matrix[order])
    moved = sp.csr_array((rows.data, position[rows.indices], rows.indptr), shape=matrix.shape)
    moved.sort_indices()
    moved.has_canonical_format = True
    return moved


# -- whole meshes --------------------------------------------------------------------------------------------


def solid(nodes: Sequence[int], closed: Sequence[int] = ()) -> sp.csr_array:
    """Pattern of the nodes of a grid of hexahedra (of squares, in two dimensions)."""
    return coupled(cells(nodes, closed), prod(nodes))


def edge_elements(nodes: Sequence[int]) -> sp.csr_array:
    """Pattern of tetrahedral edge elements (Nedelec, first order) in a box: an unknown on every edge."""
    return coupled(*edges(tetrahedra(cells(nodes))))


def quadratic_elements(nodes: Sequence[int]) -> sp.csr_array:
    """Pattern of quadratic tetrahedra in a box: an unknown on every node, then one on every edge."""
    elements = tetrahedra(cells(nodes))
    middles, count = edges(elements)
    corners = prod(nodes)
    return coupled(np.concatenate([elements, corners + middles], axis=1), corners + count)


def box_girder(nodes: Sequence[int], spacing: int) -> sp.csr_array:
    """Pattern of the plates of a ship's hull: the sides of a box, a deck between, and bulkheads across it.

    Parameters
    ----------
    nodes : sequence of int
        Of the lattice that the plates lie in: along the hull, then across.
    spacing : int
        Bulkheads lie this many nodes apart.
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
    """Pattern of the atoms of a folded chain, each coupled to those within `reach` of it.

    The atoms sit near the points of a lattice that is `side` wide, and the chain winds through it to and fro.
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
