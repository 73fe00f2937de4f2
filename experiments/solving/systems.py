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

from experiments import families
from experiments.peers.problem import Problem
from experiments.suite import Item
from spmvgpu import gallery
from spmvgpu.gallery.stencils import star_offsets, stencil_matrix

Array: TypeAlias = npt.NDArray[Any]
#: From the number of points along an axis, and a seed, to a matrix.
Maker: TypeAlias = Callable[[int, int], sp.csr_array]
BLOCKS = 8  # along an axis, in each of which a coefficient that jumps is constant


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


# -- matrices ------------------------------------------------------------------------------------------------


def diffusion(coefficient: Array) -> sp.csr_array:
    """Finite differences with a coefficient for each point of a grid, and its harmonic means between them."""
    grid = coefficient.shape
    offsets = star_offsets(len(grid))
    padded = np.pad(coefficient, 1, mode="edge")
    values = np.zeros((*grid, len(offsets)))
    centre = int(np.flatnonzero(~offsets.any(axis=1))[0])
    for slot, offset in enumerate(offsets):
        if slot != centre:
            window = tuple(slice(1 + o, 1 + o + n) for o, n in zip(offset, grid, strict=True))
            other = padded[window]
            values[..., slot] = -2 * coefficient * other / (coefficient + other)
    values[..., centre] = -values.sum(axis=-1)
    return stencil_matrix(grid, offsets, values.reshape(-1, 1, len(offsets), 1), np.float64)


def jumps(dim: int, contrast: float, points: int, seed: int) -> sp.csr_array:
    """A coefficient that is 1 or `contrast` in each block of the grid, drawn at random."""
    shape = (BLOCKS,) * dim
    chosen = np.random.default_rng(seed).integers(0, 2, shape)
    place = np.arange(points) * BLOCKS // points
    return diffusion(contrast ** chosen[np.ix_(*[place] * dim)].astype(float))


def time_step(points: int, seed: int) -> sp.csr_array:
    """A grid, and as much again on the diagonal."""
    A = gallery.poisson3d(points, contrast=10, seed=seed)
    return sp.csr_array(A + sp.diags_array(A.diagonal()))


def badly_scaled(points: int, seed: int) -> sp.csr_array:
    """A grid whose unknowns have units that differ by up to a factor of a million."""
    units = 10.0 ** np.random.default_rng(seed).uniform(-3, 3, points**2)
    return sp.csr_array(sp.diags_array(units) @ gallery.poisson2d(points) @ sp.diags_array(units))


def network(points: int, seed: int) -> sp.csr_array:
    """A graph Laplacian of few neighbours and some hubs, with small conductances to the ground."""
    n = points**2
    graph = gallery.powerlaw(n, 6, seed=seed)
    weights = abs(graph + graph.T)
    weights.setdiag(0)
    weights.eliminate_zeros()
    degrees = np.asarray(weights.sum(axis=1)).ravel()
    return sp.csr_array(sp.diags_array(degrees + 1e-3) - weights)


def shifted(points: int, seed: int) -> sp.csr_array:
    """A grid less a multiple of the identity, with some dozen negative eigenvalues."""
    A = gallery.poisson2d(points)
    return sp.csr_array(A - 150.0 / points**2 * sp.eye_array(A.shape[0]))


def saddle_point(points: int, seed: int) -> sp.csr_array:
    """A flow in a porous medium: velocities on the edges of a grid, and pressures at its points."""
    rng = np.random.default_rng(seed)
    line = sp.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(points - 1, points))
    gradient = sp.vstack([sp.kron(sp.eye_array(points), line), sp.kron(line, sp.eye_array(points))])
    resistance = sp.diags_array(10.0 ** rng.uniform(-0.5, 0.5, gradient.shape[0]))
    leak = sp.diags_array(np.full(points**2, -1e-3))
    return sp.csr_array(sp.block_array([[resistance, gradient], [gradient.T, leak]]))


def neumann(points: int, seed: int) -> sp.csr_array:
    """A grid without fixed values, which maps the constant vectors to zero."""
    A = gallery.poisson3d(points, contrast=10, seed=seed)
    A.setdiag(0)
    return sp.csr_array(sp.diags_array(-np.asarray(A.sum(axis=1)).ravel()) + A)


def convection(points: int, seed: int) -> sp.csr_array:
    """Upwind differences of a flow that turns around the centre, at a grid Peclet number of about 50."""
    speed = 50.0
    x, y = np.meshgrid(*[np.linspace(-1, 1, points)] * 2, indexing="ij")
    A = gallery.poisson2d(points)
    back = sp.diags_array([1.0, -1.0], offsets=[0, -1], shape=(points, points))
    eye = sp.eye_array(points)
    for along, against in ((sp.kron(back, eye), y), (sp.kron(eye, back), -x)):
        wind = speed * against.ravel()
        forth = sp.diags_array(np.maximum(wind, 0)) @ along + sp.diags_array(np.maximum(-wind, 0)) @ along.T
        A = A + forth
    return sp.csr_array(A)


def dominant(points: int, seed: int) -> sp.csr_array:
    """Random entries, and a diagonal that is larger than the sum of the others of its row."""
    n = points**2
    A = gallery.uniform_random(n, n, 8, seed=seed)
    A.setdiag(0)
    A.eliminate_zeros()
    return sp.csr_array(A + sp.diags_array(1.2 * np.asarray(abs(A).sum(axis=1)).ravel()))


def circuit(points: int, seed: int) -> sp.csr_array:
    """Conductances of a netlist over four orders of magnitude, and controlled sources beside them."""
    n, rng = points**2, np.random.default_rng(seed)
    pattern = sp.triu(abs(families.circuit(n, 6, seed)), 1).tocoo()
    conductance = 10.0 ** rng.uniform(-2, 2, pattern.nnz)
    half = sp.coo_array((conductance, (pattern.row, pattern.col)), shape=(n, n))
    weights = sp.csr_array(half + half.T)
    ground = 1e-2 * (1 + weights.sum(axis=1))
    A = sp.diags_array(np.asarray(weights.sum(axis=1) + ground).ravel()) - weights
    ends = rng.integers(0, n, (2, n // 20))
    sources = sp.coo_array((rng.uniform(-0.1, 0.1, n // 20), (ends[0], ends[1])), shape=(n, n))
    return sp.csr_array(A + sources)


def helmholtz(points: int, seed: int) -> sp.csr_array:
    """Waves with some twelve points to a wavelength; `absorbed` adds what damps them."""
    A = gallery.poisson2d(points)
    return sp.csr_array(A - 0.25 * sp.eye_array(A.shape[0]))


def absorbed(A: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(A + 0.05j * sp.eye_array(A.shape[0]))


def turned(A: sp.csr_array) -> sp.csr_array:
    """The Hermitian matrix of a grid in a magnetic field."""
    coo = A.tocoo()
    phase = np.exp(0.3j * np.sign(coo.col.astype(np.int64) - coo.row))
    return sp.csr_array((coo.data * phase, (coo.row, coo.col)), shape=A.shape)


def tall(points: int, seed: int) -> sp.csr_array:
    """Four rows to a column and ten entries to a row at random, with columns of different sizes."""
    n = points**2
    A = gallery.uniform_random(4 * n, n, 10, seed=seed)
    sizes = np.exp(0.7 * np.random.default_rng(seed).standard_normal(n))
    return sp.csr_array(A @ sp.diags_array(sizes))


def differences(points: int, seed: int) -> sp.csr_array:
    """Differences of neighbours on a grid with weights, and few points that are known: a smooth surface."""
    rng = np.random.default_rng(seed)
    line = sp.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(points - 1, points))
    both = sp.vstack([sp.kron(sp.eye_array(points), line), sp.kron(line, sp.eye_array(points))])
    weights = sp.diags_array(rng.uniform(0.5, 2.0, both.shape[0]))
    known = sp.csr_array(sp.eye_array(points**2))[rng.permutation(points**2)[: points**2 // 10]]
    return sp.csr_array(sp.vstack([weights @ both, known]))


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
}
COLUMNS = {
    "fem": Kind(lambda n, seed: gallery.elasticity3d(n), "elasticity, 3-D", (27,), 3, modes=_elastic_modes),
    "grid": Kind(lambda n, seed: gallery.poisson3d(n), "Poisson, 3-D", (100,), 3),
}
ITERATION = {
    "fem": Kind(
        lambda n, seed: gallery.elasticity3d(n, contrast=10, seed=seed), "elasticity, 3-D", (27, 54), 3
    ),
    "grid": Kind(lambda n, seed: gallery.poisson3d(n), "Poisson, 3-D", (100, 160), 3),
    "varied": Kind(
        lambda n, seed: gallery.poisson3d(n, contrast=10, seed=seed), "Poisson, 3-D, varied", (100, 160), 3
    ),
    "plane": Kind(
        lambda n, seed: gallery.poisson2d(n, contrast=10, seed=seed), "Poisson, 2-D, varied", (3000,), 2
    ),
}
EIGENVALUES = {
    "laplacian2d": Kind(
        lambda n, seed: gallery.poisson2d(n, contrast=10, seed=seed), "Laplacian, 2-D", (1000,), 2
    ),
    "laplacian3d": Kind(
        lambda n, seed: gallery.poisson3d(n, contrast=10, seed=seed), "Laplacian, 3-D", (100,), 3
    ),
}
LEAST_SQUARES = {
    "tall": Kind(tall, "tall, random", (316,), 2, None),
    "differences": Kind(differences, "differences of neighbours", (700,), 2, None),
}
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

KINDS = [WHOLE, COLUMNS, ITERATION, EIGENVALUES, LEAST_SQUARES, WHICH, DIRECT]
