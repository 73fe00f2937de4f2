"""The matrices of systems of equations, by the number of points along an axis and a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spmvgpu import gallery
from spmvgpu.gallery.stencils import box_offsets, star_offsets, stencil_matrix

from . import families

Array = npt.NDArray[Any]

BLOCKS = 8  # along an axis, in each of which a coefficient that jumps is constant


def diffusion(coefficient: Array, *weights: float, closed: tuple[int, ...] = ()) -> sp.csr_array:
    """Finite differences with a coefficient for each point of a grid, and its harmonic means between them.

    `weights` are factors for the axes, and at both ends of `closed` ones no values are fixed.
    """
    grid = coefficient.shape
    offsets = star_offsets(len(grid))
    padded = np.pad(coefficient, 1, mode="edge")
    for axis in closed:
        np.moveaxis(padded, axis, 0)[[0, -1]] = 0
    values = np.zeros((*grid, len(offsets)))
    centre = int(np.flatnonzero(~offsets.any(axis=1))[0])
    for slot, offset in enumerate(offsets):
        if slot != centre:
            window = tuple(slice(1 + o, 1 + o + n) for o, n in zip(offset, grid, strict=True))
            other = padded[window]
            weight = weights[np.flatnonzero(offset)[0]] if weights else 1
            values[..., slot] = -2 * weight * (coefficient * other) / (coefficient + other)
    values[..., centre] = -values.sum(axis=-1)
    return stencil_matrix(grid, offsets, values.reshape(-1, 1, len(offsets), 1), np.float64)


def blocks(points: int, decades: float, seed: int) -> sp.csr_array:
    """Cubes of 8^3 points with coefficients over some powers of ten."""
    place = np.arange(points) // 8
    exponents = np.random.default_rng(seed).uniform(-decades / 2, decades / 2, (place[-1] + 1,) * 3)
    return diffusion(10 ** exponents[np.ix_(place, place, place)], closed=(1, 2))


def smooth_field(shape: tuple[int, ...], seed: int) -> Array:
    """A random field of variance 1 in which neighbours are alike."""
    field = np.random.default_rng(seed).standard_normal(shape)
    for axis in range(len(shape)):
        for reach in (1, 2):
            field = field + np.roll(field, reach, axis) + np.roll(field, -reach, axis)
    made: Array = field / field.std()
    return made


def log_normal(points: int, seed: int) -> sp.csr_array:
    """A cube of rock, whose coefficient is the exponential of twice a random field."""
    return diffusion(np.exp(2 * smooth_field((points,) * 3, seed)), closed=(1, 2))


def reservoir(points: int, seed: int) -> sp.csr_array:
    """Flat cells, and channels in some layers with a coefficient a thousand times as large."""
    shape = (points, points, points // 2)
    random = np.random.default_rng(seed)
    coefficient, is_channel = np.exp(0.5 * random.standard_normal(shape)), np.zeros(shape, bool)
    x, y = np.ogrid[:points, :points]
    for _ in range(points // 4):
        begin, middle, phase = (
            random.integers(0, max(1, shape[2] - 3)),
            random.uniform(0, points),
            random.uniform(0, 6),
        )
        channel = np.abs(y - middle - 5 * np.sin(x / 6 + phase)) <= 3
        is_channel[channel if random.integers(2) else channel.T, begin : begin + 3] = True
    coefficient[is_channel] *= 1000
    return diffusion(coefficient, 1, 1, 100, closed=(1, 2))


def rotated(points: int, degrees: float, ratio: float, *, elements: bool) -> sp.csr_array:
    """Diffusion in the plane that is `ratio` times as strong across a direction as along it.

    By bilinear finite elements, or by finite differences.
    """
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    along, across = cosine**2 + ratio * sine**2, sine**2 + ratio * cosine**2
    mass = np.array([1, 4, 1]) / 6 if elements else np.array([0, 1, 0])
    second, first = np.array([-1, 2, -1]), np.array([-1, 0, 1]) / 2
    mixed = 2 * (1 - ratio) * cosine * sine * np.outer(first, first)
    stencil = along * np.outer(second, mass) + across * np.outer(mass, second) - mixed
    return stencil_matrix((points, points), box_offsets(2), stencil.reshape(1, 1, 9, 1), np.float64)


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
    return singular(gallery.poisson3d(points, contrast=10, seed=seed))


def singular(A: sp.csr_array) -> sp.csr_array:
    """A matrix with another diagonal, so that every row adds up to zero."""
    return sp.csr_array(A - sp.diags_array(np.asarray(A.sum(axis=1)).ravel()))


def neumann2d(*shape: int) -> sp.csr_array:
    """A grid in the plane without fixed values."""
    return singular(gallery.poisson2d(*shape))


def flow(points: int = 80) -> sp.csr_array:
    """A flow along the lines of a grid: not symmetric."""
    wind = sp.diags_array([-1.0, 1.0], offsets=[-1, 1], shape=(points, points))
    return sp.csr_array(gallery.poisson2d(points) + 0.7 * sp.kron(sp.eye_array(points), wind))


def convection(points: int, seed: int = 0) -> sp.csr_array:
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
