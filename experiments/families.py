"""Matrices of every kind beside the suite, by family, so that none is forgotten when formats are compared."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.sparse as sp

from spmvgpu import gallery
from spmvgpu.gallery import meshes

from .matrices import with_random_values
from .suite import Item, suite

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
# Of the suite's matrices, those of a family that a goal is about.
OF_SUITE = {
    "poisson2d_1000": STENCIL,
    "poisson2d_3000": STENCIL,
    "poisson3d7_200": STENCIL,
    "poisson3d27_128": STENCIL,
    "elast3d_1k": SYMMETRIC_FEM,
    "elast3d_20k": SYMMETRIC_FEM,
    "elast3d_160k": SYMMETRIC_FEM,
    "fe_bracket_xl_x3": SYMMETRIC_FEM,
    "fe_bracket_elastic": SYMMETRIC_FEM,
    "powerlaw_2M": GRAPH,
    "uniform_1M_40": UNIFORM,
}


def all_items(options: Namespace) -> tuple[list[Item], dict[str, str]]:
    """The families and the suite, each matrix in its family; and what is left out."""
    items, left_out = suite(options.quick)
    grouped = [Item(item.name, OF_SUITE.get(item.name, item.group), item.make) for item in items]
    if options.quick:
        return [*grouped, Item("poisson3d7_20", CONSTANT_7, partial(gallery.poisson3d, 20))], left_out
    families = [Item(name, family, partial(build, name)) for name, (family, _) in BUILDERS.items()]
    return families + grouped, left_out


def build(name: str) -> sp.csr_array:
    """One matrix of a family by name."""
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
