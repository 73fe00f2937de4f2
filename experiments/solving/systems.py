"""The systems that are solved: a kind, a size and a seed each, which their names say."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from experiments.peers.problem import Problem
from experiments.suite import Item
from generators.systems import (
    absorbed,
    badly_scaled,
    blocks,
    circuit,
    convection,
    differences,
    diffusion,
    dominant,
    helmholtz,
    jumps,
    log_normal,
    network,
    neumann,
    reservoir,
    rotated,
    saddle_point,
    shifted,
    tall,
    time_step,
    turned,
)
from spmvgpu import gallery

Array: TypeAlias = npt.NDArray[Any]
#: From the number of points along an axis, and a seed, to a matrix.
Maker: TypeAlias = Callable[[int, int], sp.csr_array]


@dataclass(frozen=True)
class Kind:
    """Systems that differ in size and seed only.

    Attributes
    ----------
    make : callable
        Makes the matrix. It is real: `imaginary` makes a complex one of it.
    about : str
        What the systems are, in words.
    sides : tuple of int
        Points along an axis at full size, of each system of the kind.
    dim : int
        Number of axes.
    definite : bool or None
        Whether it is symmetric or Hermitian, and positive (semi)definite; None if it is not symmetric.
    modes : callable, optional
        From the points along an axis to the near null space.
    nullspace : str, optional
        Of a singular matrix; the right-hand side is in its range.
    imaginary : callable, optional
        From the real matrix to the complex one.
    is_grid : bool
        Whether only neighbours on a grid are coupled, so that the factors are not nearly full.
    """

    make: Maker
    about: str
    sides: tuple[int, ...]
    dim: int
    definite: bool | None = True
    modes: Callable[[int], Array] | None = None
    nullspace: str | None = None
    imaginary: Callable[[sp.csr_array], sp.csr_array] | None = None
    is_grid: bool = True

    def points(self, scale: float) -> list[int]:
        """Points along an axis if the number of unknowns is `scale` times that of the full size."""
        return list(dict.fromkeys(max(8, round(side * scale ** (1 / self.dim))) for side in self.sides))


@dataclass(frozen=True)
class System:
    """A system of linear equations."""

    name: str
    kind: Kind
    A: sp.csr_array
    b: Array
    nullspace: str | None = None
    modes: Array | None = field(default=None, repr=False)

    def residual(self, x: Array) -> float:
        """The norm of the residual over that of the right-hand side; the largest of all columns."""
        b = self.b if x.ndim == 1 else np.broadcast_to(self.b[:, np.newaxis], x.shape)
        return float(np.max(np.linalg.norm(b - self.A @ x, axis=0) / np.linalg.norm(b, axis=0)))

    @property
    def case(self) -> dict[str, Any]:
        """The fields that rows of the system have."""
        letter = "c128" if self.A.dtype.kind == "c" else "f64"
        return {
            "matrix": self.name, "kind": self.kind.about, "rows": int(self.A.shape[0]),
            "nnz": int(self.A.nnz), "dtype": letter,
        }  # fmt: skip


def items(kinds: dict[str, Kind], part: str, options: argparse.Namespace) -> list[Item]:
    """The matrices of a part of the experiment at the size, and of the seed, that the options say."""
    scale = 0.003 if options.quick else options.scale
    return [
        Item(f"{name}_{points}", part, partial(_build, _number_of(name, kind), name, points, options.seed))
        for name, kind in kinds.items()
        for points in kind.points(scale)
    ]


def _build(number: int, name: str, points: int, seed: int) -> sp.csr_array:
    """A matrix, by what can be pickled."""
    return KINDS[number][name].make(points, seed)


def _number_of(name: str, kind: Kind) -> int:
    return next(number for number, kinds in enumerate(KINDS) if kinds.get(name) is kind)


def system_of(problem: Problem, kinds: dict[str, Kind], seed: int) -> System:
    """The system of a problem that `items` has declared."""
    name, _, points = problem.name.rpartition("_")
    kind, A = kinds[name], problem.matrix
    if kind.imaginary is not None:
        A = kind.imaginary(A)
    b = np.random.default_rng((seed, 3)).standard_normal(A.shape[0])
    if kind.nullspace is not None:
        b = A @ b
    modes = None if kind.modes is None else kind.modes(int(points))
    return System(problem.name, kind, A, b.astype(A.dtype), kind.nullspace, modes)


# -- by part -------------------------------------------------------------------------------------------------


def _elastic_modes(points: int) -> Array:
    return gallery.rigid_body_modes(gallery.elasticity3d_points(points))


WHOLE = {
    "elasticity3d": Kind(
        lambda n, seed: gallery.elasticity3d(n), "elasticity, 3-D", (27, 54), 3, modes=_elastic_modes
    ),
    "poisson3d": Kind(lambda n, seed: gallery.poisson3d(n), "Poisson, 3-D", (160,), 3),
    "jumps3d": Kind(partial(jumps, 3, 1e4), "coefficients jump by 1e4, 3-D", (160,), 3),
    "poisson2d": Kind(lambda n, seed: gallery.poisson2d(n), "Poisson, 2-D", (3000,), 2),
    "step3d": Kind(time_step, "implicit time step, 3-D", (130,), 3),
    "blocks3d": Kind(
        lambda n, seed: blocks(n, 6, seed), "blocks with coefficients over six decades, 3-D", (128,), 3
    ),
    "rock3d": Kind(log_normal, "log-normal coefficients, 3-D", (120,), 3),
    "reservoir3d": Kind(reservoir, "channels and flat cells, 3-D", (138,), 3),
    "direction3d": Kind(
        lambda n, seed: diffusion(np.ones((n,) * 3), 1, 1, 1e-3), "one weak direction, 3-D", (120,), 3
    ),
    "rotated2d": Kind(
        lambda n, seed: rotated(n, 30, 1e-3, elements=True),
        "anisotropic, rotated by 30 degrees, 2-D",
        (1200,),
        2,
    ),
    "graph": Kind(network, "graph Laplacian with hubs", (700,), 2, is_grid=False),
}
COLUMNS = {
    "fem": Kind(lambda n, seed: gallery.elasticity3d(n), "elasticity, 3-D", (27,), 3, modes=_elastic_modes),
    "grid": Kind(lambda n, seed: gallery.poisson3d(n), "Poisson, 3-D", (100,), 3),
}
EIGENVALUES = {
    "laplacian2d": Kind(
        lambda n, seed: gallery.poisson2d(n, contrast=10, seed=seed), "Laplacian, 2-D", (1000,), 2
    ),
    "laplacian3d": Kind(
        lambda n, seed: gallery.poisson3d(n, contrast=10, seed=seed), "Laplacian, 3-D", (100,), 3
    ),
}
VIBRATIONS = {"block": Kind(lambda n, seed: gallery.elasticity3d(n), "vibrations, 3-D", (32,), 3)}
LEAST_SQUARES = {
    "tall": Kind(tall, "tall, random", (316,), 2, None),
    "differences": Kind(differences, "differences of neighbours", (700,), 2, None),
}
HEAT = {"heat": Kind(lambda n, seed: gallery.poisson3d(n), "heat equation, 3-D", (100,), 3)}
# A dozen unlike ones, of about 60,000 unknowns.
WHICH = {
    "grid": Kind(
        lambda n, seed: gallery.poisson2d(n, contrast=10, seed=seed), "Poisson, 2-D", (250,), 2
    ),
    "timestep": Kind(time_step, "implicit time step, 3-D", (40,), 3),
    "jump": Kind(partial(jumps, 3, 1e6), "coefficients jump by 1e6, 3-D", (40,), 3),
    "elastic": Kind(
        lambda n, seed: gallery.elasticity3d(n, contrast=10, seed=seed), "elasticity, 3-D", (27,), 3,
        modes=_elastic_modes,
    ),
    "scaled": Kind(badly_scaled, "Poisson, 2-D, badly scaled", (250,), 2),
    "network": Kind(network, "graph Laplacian with hubs", (250,), 2, is_grid=False),
    "hermitian": Kind(
        lambda n, seed: gallery.poisson2d(n), "Hermitian positive definite", (200,), 2, imaginary=turned
    ),
    "shifted": Kind(shifted, "symmetric indefinite, few negative eigenvalues", (250,), 2, False),
    "saddle": Kind(saddle_point, "saddle point, zeros nearly on the diagonal", (150,), 2, False),
    "singular": Kind(neumann, "singular: Neumann, 3-D", (40,), 3, nullspace="constant"),
    "convection": Kind(convection, "flow dominated by convection", (250,), 2, None),
    "dominant": Kind(dominant, "unsymmetric, dominant diagonal", (250,), 2, None, is_grid=False),
    "circuit": Kind(circuit, "circuit", (250,), 2, None, is_grid=False),
    "helmholtz": Kind(helmholtz, "complex symmetric: Helmholtz", (120,), 2, None, imaginary=absorbed),
}  # fmt: skip

DIRECT = {
    "plane": Kind(lambda n, seed: gallery.poisson2d(n), "Poisson, 2-D", (500, 1000), 2),
    "eddy": Kind(convection, "flow dominated by convection", (250,), 2, None),
    "solid": Kind(lambda n, seed: gallery.elasticity3d(n), "elasticity, 3-D", (27,), 3),
    "netlist": Kind(circuit, "circuit", (70, 140), 2, None, is_grid=False),
}

BATCHES = {
    "element": Kind(
        lambda n, seed: rotated(n, 0, 1.0, elements=True), "bilinear elements, 2-D", (10, 32, 64, 316), 2
    ),
}

KINDS = [WHOLE, COLUMNS, EIGENVALUES, VIBRATIONS, LEAST_SQUARES, HEAT, WHICH, DIRECT, BATCHES]
