"""Matrices to try things on: grids, finite elements, bands, graphs and linear programs, of any size.

Every generator returns a canonical `scipy.sparse.csr_array` and nothing else; the loads of the elastic bodies
have functions of their own. A generator takes a ``dtype``, and gives the same matrix for the same ``seed``.
All of them work on whole index arrays, so that tens of millions of non-zeros take seconds.

`spmvgpu.gallery.meshes` puts patterns of finite elements together from cells, plates and clouds of points.

>>> from spmvgpu import gallery
>>> gallery.poisson2d(30).shape, gallery.elasticity3d(4).nnz
((900, 900), 9000)
"""

from . import meshes
from .elasticity import elasticity2d, elasticity2d_load, elasticity3d, elasticity3d_load
from .patterns import banded_random, lp_like, powerlaw, rmat, uniform_random
from .stencils import poisson1d, poisson2d, poisson3d
from .suite import SUITE

__all__ = [
    "SUITE",
    "banded_random",
    "elasticity2d",
    "elasticity2d_load",
    "elasticity3d",
    "elasticity3d_load",
    "lp_like",
    "meshes",
    "poisson1d",
    "poisson2d",
    "poisson3d",
    "powerlaw",
    "rmat",
    "uniform_random",
]


def __dir__() -> list[str]:
    return __all__
