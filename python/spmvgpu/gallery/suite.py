"""The matrices of the benchmarks."""

from __future__ import annotations

from collections.abc import Callable

import numpy.typing as npt
import scipy.sparse as sp

from .elasticity import elasticity2d, elasticity3d
from .patterns import banded_random, lp_like, powerlaw, uniform_random
from .stencils import poisson2d, poisson3d

#: Matrices of many kinds and sizes by name: ``SUITE[name](dtype)`` assembles one.
SUITE: dict[str, Callable[[npt.DTypeLike], sp.csr_array]] = {
    "small_fem": lambda dtype: elasticity2d(60, dtype=dtype),
    "elast3d_20k": lambda dtype: elasticity3d(27, dtype=dtype),
    "elast3d_160k": lambda dtype: elasticity3d(54, dtype=dtype),
    "poisson2d_1000": lambda dtype: poisson2d(1000, contrast=100, dtype=dtype),
    "poisson2d_3000": lambda dtype: poisson2d(3000, contrast=100, dtype=dtype),
    "poisson3d7_200": lambda dtype: poisson3d(200, contrast=100, dtype=dtype),
    "poisson3d27_128": lambda dtype: poisson3d(128, points=27, contrast=100, dtype=dtype),
    "banded_2M_24": lambda dtype: banded_random(2_000_000, 24, 3000, dtype=dtype),
    "uniform_1M_40": lambda dtype: uniform_random(1_000_000, 1_000_000, 40, dtype=dtype),
    "powerlaw_2M": lambda dtype: powerlaw(2_000_000, 21, dtype=dtype),
    "web_like": lambda dtype: powerlaw(1_000_000, 3.2, max_length=4700, locality=0.7, dtype=dtype),
    "econ_like": lambda dtype: powerlaw(206_500, 6.2, exponent=3.5, max_length=44, locality=0.6, dtype=dtype),
    "lp_wide": lambda dtype: lp_like(4284, 1_092_610, 10, dtype=dtype),
}
