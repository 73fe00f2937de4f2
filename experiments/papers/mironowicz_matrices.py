"""The symmetric matrices of the poster: read where they are at hand, otherwise made from similar meshes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp

from experiments.matrices import find, read_real
from experiments.papers.matrices import Sample
from spmvgpu.gallery import meshes

Nodes = tuple[int, ...]

# Unknowns that are numbered one after the other where a mesh generator left parts in no order.
GROUP = 50


@dataclass(frozen=True)
class Mesh:
    """A matrix of the poster and the mesh that stands in for it.

    Attributes
    ----------
    name : str
        As the poster, and but for the two of its authors the SuiteSparse collection, call it.
    pattern : callable
        From `nodes`, or `few` of them in a quick run, to the pattern of the node graph.
    dof : int
        Unknowns per node.
    words : str
        What the stand-in is.
    real_mesh : str, optional
        A real node graph that, where it is at hand, takes the place of `pattern`.
    """

    name: str
    pattern: Callable[[Nodes], sp.csr_array]
    nodes: Nodes
    few: Nodes
    dof: int
    words: str
    real_mesh: str | None = None


def load(mesh: Mesh, quick: bool = False) -> Sample:
    """The matrix itself if the folder named by SPMVGPU_MATRICES has it, otherwise its stand-in.

    Parameters
    ----------
    mesh : Mesh
    quick : bool
        A small stand-in in any case; its name says so.
    """
    path, real_mesh = find(mesh.name), mesh.real_mesh and find(mesh.real_mesh)
    if quick:
        name, pattern, source = f"{mesh.name} small", mesh.pattern(mesh.few), mesh.words
    elif path is not None:
        return Sample(mesh.name, read_real(path), "real", path.name)
    elif real_mesh:
        graph = read_real(real_mesh)
        pattern = sp.csr_array((np.ones(graph.nnz, np.int8), graph.indices, graph.indptr), shape=graph.shape)
        name, source = mesh.name, f"{real_mesh.name} with {mesh.dof} unknowns a node"
    else:
        name, pattern, source = mesh.name, mesh.pattern(mesh.nodes), mesh.words
    matrix = meshes.symmetric_values(meshes.blocks(pattern, mesh.dof))
    return Sample(name, matrix, "generated", source)


def _edges(nodes: Nodes) -> sp.csr_array:
    return meshes.shuffled(meshes.edge_elements(nodes), GROUP)


def _accelerator(nodes: Nodes) -> sp.csr_array:
    """Quadratic tetrahedra, and as many empty rows as the matrix has among its 121,192: 21,349."""
    mesh = meshes.quadratic_elements(nodes)
    rows = round(mesh.shape[0] / (1 - 21_349 / 121_192))
    offsets = np.concatenate([mesh.indptr, np.full(rows - mesh.shape[0], mesh.nnz, mesh.indptr.dtype)])
    padded = sp.csr_array((mesh.data, mesh.indices, offsets), shape=(rows, rows))
    padded.has_canonical_format = True
    return meshes.shuffled(padded, GROUP)


def _harbour(nodes: Nodes) -> sp.csr_array:
    """Triangles along a channel, in layers."""
    long, wide, layers = nodes
    squares = meshes.cells((long, wide))
    triangles = squares[:, [[0, 1, 3], [0, 2, 3]]].reshape(-1, 3)
    return meshes.product(meshes.coupled(triangles, long * wide), meshes.solid((layers,)))


def _protein(nodes: Nodes) -> sp.csr_array:
    points, side = nodes
    return meshes.cloud(points, side, reach=2.2)


def _hull(nodes: Nodes) -> sp.csr_array:
    return meshes.box_girder(nodes, spacing=10)


CLOSED = partial(meshes.solid, closed=(1,))
FILTER = "edge elements of tetrahedra in a long box, parts in no order; the poster does not say its size"

# In the order of the poster's tables. Rows and non-zeros of the collection's: cant 62,451 and 4.01 M,
# consph 83,334 and 6.01 M, cop20k_A 121,192 and 2.62 M, pdb1HYS 36,417 and 4.34 M, pwtk 217,918 and 11.5 M,
# rma10 46,835 and 2.37 M, shipsec1 140,874 and 7.81 M. Of the filter's the poster says that preprocessing
# takes as long as the start of cuSPARSE at 0.7 million unknowns: less for gsm_v2, more for gsm_v3.
MATRICES = (
    Mesh("gsm_v3", _edges, (448, 16, 16), (24, 5, 5), 1, FILTER),
    Mesh("gsm_v2", _edges, (256, 16, 16), (16, 5, 5), 1, FILTER),
    Mesh("cant", meshes.solid, (257, 9, 9), (30, 4, 4), 3, "hexahedra along a beam, 3 unknowns a node"),
    Mesh("consph", CLOSED, (48, 96, 6), (8, 16, 3), 3, "hexahedra around a sphere, 3 unknowns a node"),
    Mesh(
        "cop20k_A",
        _accelerator,
        (24, 23, 23),
        (6, 5, 5),
        1,
        "quadratic tetrahedra and empty rows, in no order",
    ),
    Mesh("pdb1HYS", _protein, (12_139, 23), (400, 8), 3, "atoms along a folded chain, 3 unknowns each"),
    Mesh("pwtk", CLOSED, (303, 120), (30, 12), 6, "a cylinder of shells, 6 unknowns a node", "fe_pwt"),
    Mesh(
        "rma10",
        _harbour,
        (98, 40, 4),
        (20, 8, 3),
        3,
        "layers of triangles, 3 unknowns a node; the values of the real one are not symmetric",
    ),
    Mesh(
        "shipsec1",
        _hull,
        (270, 10, 20),
        (21, 5, 7),
        6,
        "plates of a hull and its bulkheads, 6 unknowns a node",
    ),
)
