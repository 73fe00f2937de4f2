"""Test matrices of any size: grids, finite elements, bands, graphs and linear programs.

Each generator returns a `scipy.sparse.csr_array` with sorted indices. The same arguments give the same
matrix. Tens of millions of non-zeros take seconds. `gallery.meshes` makes sparsity patterns of finite element
meshes.

>>> from spmvgpu import gallery
>>> gallery.poisson2d(30).shape, gallery.elasticity3d(4).nnz
((900, 900), 9000)
"""

from . import meshes
from .elasticity import (
    elasticity2d,
    elasticity2d_load,
    elasticity2d_points,
    elasticity3d,
    elasticity3d_load,
    elasticity3d_mass,
    elasticity3d_points,
    rigid_body_modes,
)
from .patterns import banded_random, lp_like, powerlaw, rmat, uniform_random
from .stencils import poisson1d, poisson2d, poisson3d
from .suite import SUITE

__all__ = [
    "SUITE",
    "banded_random",
    "elasticity2d",
    "elasticity2d_load",
    "elasticity2d_points",
    "elasticity3d",
    "elasticity3d_load",
    "elasticity3d_mass",
    "elasticity3d_points",
    "lp_like",
    "meshes",
    "poisson1d",
    "poisson2d",
    "poisson3d",
    "powerlaw",
    "rigid_body_modes",
    "rmat",
    "uniform_random",
]


def __dir__() -> list[str]:
    return __all__
