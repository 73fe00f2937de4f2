"""Matrices of every kind by family, so that none is forgotten when formats are compared."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from spmvgpu import gallery
from spmvgpu.gallery import meshes

CONSTANT_7 = "7-point, constant coefficients"
CONSTANT_27 = "27-point, constant coefficients"
CONSTANT = "other constant coefficients"
STENCIL = "stencil, variable coefficients"
SYMMETRIC_FEM = "3-dof FEM, symmetric values"
UNSYMMETRIC_FEM = "3-dof FEM, unsymmetric values"
FEW_VALUES = "few values, local columns"
GRAPH = "power law and R-MAT"
TALL = "tall least squares"
UNIFORM = "uniform random"


def build(name: str) -> sp.csr_array:
    """One of the matrices by name."""
    return BUILDERS[name][1]()


def _few_values() -> sp.csr_array:
    pattern = gallery.banded_random(1_000_000, 24, 100)
    pattern.data = np.random.default_rng(1).integers(1, 13, pattern.nnz) / 7
    return pattern


def unordered(*nodes: int) -> sp.csr_array:
    """Linear tetrahedra of a box whose nodes have no order."""
    pattern = meshes.coupled(meshes.tetrahedra(meshes.cells(nodes)), int(np.prod(nodes)))
    return meshes.symmetric_values(meshes.shuffled(pattern, 1))


def shell(along: int, around: int) -> sp.csr_array:
    """A cylinder of shell elements: 6 unknowns per node."""
    return meshes.symmetric_values(meshes.blocks(meshes.solid((along, around), closed=(1,)), 6))


def _quadratic(*nodes: int) -> sp.csr_array:
    return meshes.symmetric_values(meshes.quadratic_elements(nodes))


def circuit(n: int, nets: int = 12, seed: int = 2) -> sp.csr_array:
    """A netlist: few near neighbours for every node, and some supply nets that many nodes are on."""
    near = gallery.banded_random(n, 4, 300, seed=seed)
    rng = np.random.default_rng(seed + 1)
    per_net = n // nets
    rows = np.repeat(rng.integers(0, n, nets), per_net)
    columns = rng.integers(0, n, nets * per_net)
    supply = sp.coo_array((rng.uniform(-1, 1, len(rows)), (rows, columns)), shape=(n, n))
    return sp.csr_array(near + supply + supply.T + sp.eye_array(n))


def kkt(stiffness: sp.csr_array) -> sp.csr_array:
    """The optimality system of a control problem: mass matrices, and the constraints beside them."""
    mass = sp.eye_array(stiffness.shape[0]) * 0.5
    blocks = [[mass, None, stiffness], [None, mass * 0.1, mass], [stiffness, mass, None]]
    return sp.csr_array(sp.block_array(blocks))


def stencil(rows: int, dtype: Any, begin: int = 0, end: int | None = None) -> sp.csr_array:
    """A symmetric positive definite matrix with the distances of a 27-point stencil, or a range of its rows.

    Rows near either end have fewer entries. The absolute values of a row add up to less than 1, so that no
    product of a long series overflows. Factors of rows and columns make most values different.
    """
    side = round(rows ** (1 / 3))
    steps = np.array(list(itertools.product((-1, 0, 1), repeat=3)), np.int32) @ [side * side, side, 1]
    if rows <= 2 * steps[-1]:
        raise ValueError(f"a stencil on {rows} rows would overlap itself; give more rows")
    own = np.arange(begin, rows if end is None else end, dtype=np.int32)[:, None]
    columns = own + steps.astype(np.int32)
    inside = (columns >= 0) & (columns < rows)
    half = np.linspace(0.5, 1.0, 13)
    weights = np.concatenate([-half, [2.001 * half.sum()], -half[::-1]])
    weights = (0.5 * weights / weights.max()).astype(dtype)
    factors = (0.7 + 0.3 * np.arange(97) / 97).astype(dtype)
    values = factors[own % 97] * factors[columns % 97] * weights
    indptr = np.concatenate([[0], np.cumsum(inside.sum(axis=1))]).astype(np.int32)
    return sp.csr_array((values[inside], columns[inside], indptr), shape=(len(own), rows))


def with_random_values(matrix: sp.csr_array) -> sp.csr_array:
    """The pattern of a matrix with values from -1 to 1, the same in every run."""
    values = np.random.default_rng(0).uniform(-1, 1, matrix.nnz)
    return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def canonical(matrix: Any) -> sp.csr_array:
    """As float64 `csr_array` without duplicates, with 32-bit indices where they fit."""
    matrix = sp.csr_array(matrix, dtype=np.float64)
    matrix.sum_duplicates()
    if matrix.nnz <= np.iinfo(np.int32).max:
        # SciPy may widen the indices on the way; all that is measured uses 32 bits.
        matrix.indices = matrix.indices.astype(np.int32, copy=False)
        matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    return matrix


# Name -> its family, and how it is made.
BUILDERS: dict[str, tuple[str, Callable[[], sp.csr_array]]] = {
    "circuit_100k": ("circuits", partial(circuit, 100_000)),
    "rmat_17": (GRAPH, lambda: gallery.rmat(17, 16)),
    "shell_x6": ("shells", partial(shell, 160, 200)),
    "kkt_60": ("KKT systems", lambda: kkt(gallery.poisson3d(60, contrast=100))),
    "tetrahedra_unordered": ("meshes without order", partial(unordered, 70, 70, 70)),
    "quadratic_tetrahedra": ("quadratic elements", partial(_quadratic, 40, 40, 40)),
    "poisson3d7_128c": (CONSTANT_7, partial(gallery.poisson3d, 128)),
    "poisson3d27_96c": (CONSTANT_27, partial(gallery.poisson3d, 96, points=27)),
    "poisson2d_1500c": (CONSTANT, partial(gallery.poisson2d, 1500)),
    "elast3d_54c": (CONSTANT, partial(gallery.elasticity3d, 54)),
    "elast3d_54u": (UNSYMMETRIC_FEM, lambda: with_random_values(gallery.elasticity3d(54))),
    "few_values_1M": (FEW_VALUES, _few_values),
    "rmat_20": (GRAPH, lambda: gallery.rmat(20, 8)),
    "tall_3M": (TALL, lambda: gallery.uniform_random(3_000_000, 40_000, 4)),
    "circuit_1M": ("circuits", partial(circuit, 1_000_000)),
}
