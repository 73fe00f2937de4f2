"""Linear elasticity on regular grids of finite elements, clamped at one side."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .._util.arguments import real_number, with_hints
from .._util.types import HostArray
from .common import checked_contrast, count, generator, value_type
from .stencils import Grid, box_offsets, stencil_matrix


@with_hints
def elasticity2d(
    n: int,
    *,
    poisson_ratio: float = 0.3,
    contrast: float = 1.0,
    dtype: npt.DTypeLike = np.float64,
    seed: int = 0,
) -> sp.csr_array:
    """Return the stiffness matrix of a square in plane strain, clamped at one side.

    The elements are bilinear squares with 2 x 2 Gauss points. Each node has 2 unknowns, its displacements.

    Parameters
    ----------
    n : int
        Number of free nodes along each axis, at least 2. The matrix has ``2 * n**2`` rows.
    poisson_ratio, contrast, dtype, seed
        As in `elasticity3d`.

    Returns
    -------
    scipy.sparse.csr_array
        Symmetric positive definite. `elasticity2d_load` returns a right-hand side.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> A = gallery.elasticity2d(4)
    >>> A.shape, A.nnz
    ((32, 32), 400)
    """
    return _elasticity(_cube(n, 2), poisson_ratio, contrast, dtype, seed)


@with_hints
def elasticity2d_load(n: int, *, dtype: npt.DTypeLike = np.float64) -> HostArray:
    """Return the weight of the square of `elasticity2d`, a right-hand side.

    Parameters
    ----------
    n : int
        As in `elasticity2d`.
    dtype : dtype, default float64

    Returns
    -------
    (2 * n**2,) numpy.ndarray
        A uniform force along the last axis, parallel to the clamped side.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> float(gallery.elasticity2d_load(3).sum())
    5.0
    """
    return _load(_cube(n, 2), dtype)


@with_hints
def elasticity3d(
    n: int,
    *,
    poisson_ratio: float = 0.3,
    contrast: float = 1.0,
    dtype: npt.DTypeLike = np.float64,
    seed: int = 0,
) -> sp.csr_array:
    """Return the stiffness matrix of an elastic block, clamped at one face.

    The elements are trilinear hexahedra with 2 x 2 x 2 Gauss points. Each node has 3 unknowns, its
    displacements.

    Parameters
    ----------
    n : int
        Number of free nodes along each axis, at least 2. The matrix has ``3 * n**3`` rows and ``9 * (3*n -
        2)**3`` stored entries. The nodes of the clamped face are eliminated.
    poisson_ratio : float, default 0.3
        Poisson's ratio, between -1 and 0.5.
    contrast : float, default 1.0
        Ratio of the largest to the smallest Young's modulus, at least 1. The modulus of each element is
        random and log-uniform. With 1, all are equal.
    dtype : dtype, default float64
    seed : int, default 0
        Seed of the random moduli.

    Returns
    -------
    scipy.sparse.csr_array
        Symmetric positive definite. `elasticity3d_load` returns a right-hand side.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> A = gallery.elasticity3d(4)
    >>> A.shape, A.nnz
    ((192, 192), 9000)
    """
    return _elasticity(_cube(n, 3), poisson_ratio, contrast, dtype, seed)


@with_hints
def elasticity3d_load(n: int, *, dtype: npt.DTypeLike = np.float64) -> HostArray:
    """Return the weight of the block of `elasticity3d`, a right-hand side.

    Parameters
    ----------
    n : int
        As in `elasticity3d`.
    dtype : dtype, default float64

    Returns
    -------
    (3 * n**3,) numpy.ndarray
        A uniform force along the last axis, parallel to the clamped face.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> float(gallery.elasticity3d_load(3).sum())
    10.0
    """
    return _load(_cube(n, 3), dtype)


@with_hints
def elasticity3d_mass(n: int, *, dtype: npt.DTypeLike = np.float64) -> sp.csr_array:
    """Return the consistent mass matrix of the block of `elasticity3d`, of density 1.

    Parameters
    ----------
    n : int
        As in `elasticity3d`.
    dtype : dtype, default float64

    Returns
    -------
    scipy.sparse.csr_array
        Symmetric positive definite: `M` of `spmvgpu.linalg.eigsh`, for vibrations of the block.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> M = gallery.elasticity3d_mass(4)
    >>> M.shape, round(float(M.sum()), 6)
    ((192, 192), 90.0)
    """
    grid = _cube(n, 3)
    _elements(grid)  # refuses grids that are too small
    along = [sp.diags_array([1.0, 4.0, 1.0], offsets=[-1, 0, 1], shape=grid[:2]).tolil() / 6 for _ in grid]
    for axis, masses in enumerate(along):
        masses[-1, -1] /= 2
        masses[0, 0] /= 1 if axis == 0 else 2  # there are elements on both sides of the first layer
    nodes = sp.kron(sp.kron(along[0], along[1]), along[2])
    made = sp.csr_array(sp.kron(nodes, sp.eye_array(len(grid))), dtype=value_type(dtype))
    made.eliminate_zeros()
    made.sort_indices()
    return made


@with_hints
def elasticity2d_points(n: int) -> HostArray:
    """Return the free nodes of the square of `elasticity2d`.

    Parameters
    ----------
    n : int
        As in `elasticity2d`.

    Returns
    -------
    (n**2, 2) numpy.ndarray
        Positions in the order of the matrix, for `rigid_body_modes`.

    Raises
    ------
    TypeError, ValueError
        If `n` is out of range.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> gallery.elasticity2d_points(2).tolist()
    [[1.0, 0.0], [1.0, 1.0], [2.0, 0.0], [2.0, 1.0]]
    """
    return _points(_cube(n, 2))


@with_hints
def elasticity3d_points(n: int) -> HostArray:
    """Return the free nodes of the block of `elasticity3d`.

    Parameters
    ----------
    n : int
        As in `elasticity3d`.

    Returns
    -------
    (n**3, 3) numpy.ndarray
        Positions in the order of the matrix, for `rigid_body_modes`.

    Raises
    ------
    TypeError, ValueError
        If `n` is out of range.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> gallery.elasticity3d_points(2)[:2].tolist()
    [[1.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
    """
    return _points(_cube(n, 3))


@with_hints
def rigid_body_modes(points: object) -> HostArray:
    """Return translations and rotations, which elasticity matrices nearly map to zero.

    They are the near null space `B` of `spmvgpu.linalg.amg`.

    Parameters
    ----------
    points : (n, 2) or (n, 3) array
        Positions of the nodes. A node's unknowns are its displacements along the axes, and neighbours.

    Returns
    -------
    (2 * n, 3) or (3 * n, 6) numpy.ndarray
        One translation per axis, then the rotations about the centre of the nodes. The largest displacement
        of each is 1.

    Raises
    ------
    TypeError, ValueError
        If `points` is not an array of this kind.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> gallery.rigid_body_modes([[0.0, 0.0], [2.0, 0.0]])
    array([[ 1.,  0., -0.],
           [ 0.,  1., -1.],
           [ 1.,  0., -0.],
           [ 0.,  1.,  1.]])
    """
    positions = np.asarray(points)
    if positions.dtype.kind not in "biuf":
        raise TypeError(f"points has dtype {positions.dtype}; it must be real")
    if positions.ndim != 2 or positions.shape[1] not in (2, 3):
        raise ValueError(f"points has shape {positions.shape}; it must be (n, 2) or (n, 3)")
    if not np.isfinite(positions).all():
        raise ValueError("points contains inf or NaN")
    nodes, dim = positions.shape
    centred = positions - positions.mean(axis=0) if nodes else positions.astype(float)
    planes = [(0, 1)] if dim == 2 else [(1, 2), (2, 0), (0, 1)]
    modes = np.zeros((nodes, dim, dim + len(planes)))
    modes[:, range(dim), range(dim)] = 1.0
    for rotation, (first, second) in enumerate(planes, dim):
        extent = np.hypot(centred[:, first], centred[:, second]).max(initial=0.0) or 1.0
        modes[:, first, rotation] = -centred[:, second] / extent
        modes[:, second, rotation] = centred[:, first] / extent
    return modes.reshape(nodes * dim, -1)


def _points(grid: Grid) -> HostArray:
    _elements(grid)  # refuses grids that are too small
    axes = [np.arange(length, dtype=float) for length in grid]
    axes[0] += 1  # behind the clamped nodes
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(grid))


def _elasticity(
    grid: Grid, poisson_ratio: float, contrast: float, dtype: npt.DTypeLike, seed: int
) -> sp.csr_array:
    elements = _elements(grid)
    contrast = checked_contrast(contrast)
    dim = len(grid)
    corners = list(itertools.product((0, 1), repeat=dim))
    stiffness = _element_stiffness(dim, poisson_ratio)
    modulus = contrast ** generator(seed).uniform(-0.5, 0.5, elements)
    # Zero stiffness around the block, so that every node has 2^dim elements: padded[i - a + 1] has node i as
    # corner a.
    padded = _surrounded(modulus)

    offsets = box_offsets(dim)
    slot_of = {tuple(offset): slot for slot, offset in enumerate(offsets.tolist())}
    blocks = np.zeros((*grid, dim, len(offsets), dim))
    for a, corner in enumerate(corners):
        window = tuple(slice(1 - c, 1 - c + n) for c, n in zip(corner, grid, strict=True))
        for b, other in enumerate(corners):
            slot = slot_of[tuple(o - c for o, c in zip(other, corner, strict=True))]
            blocks[..., slot, :] += padded[window][..., None, None] * stiffness[a, :, b, :]
    return stencil_matrix(grid, offsets, blocks.reshape(prod(grid), dim, len(offsets), dim), dtype)


def _load(grid: Grid, dtype: npt.DTypeLike) -> HostArray:
    present = _surrounded(np.ones(_elements(grid)))
    corners = list(itertools.product((0, 1), repeat=len(grid)))
    load = np.zeros((*grid, len(grid)))
    for corner in corners:
        window = tuple(slice(1 - c, 1 - c + n) for c, n in zip(corner, grid, strict=True))
        load[..., -1] += present[window] / len(corners)
    return load.reshape(-1).astype(value_type(dtype))


def _elements(grid: Grid) -> Grid:
    """One element per cell between nodes, and a layer along axis 0 between the clamped and the free nodes."""
    if min(grid) < 2:
        raise ValueError(f"n={grid[0]} is not allowed; give at least 2 free nodes along each axis")
    return (grid[0], *(n - 1 for n in grid[1:]))


def _surrounded(elements: HostArray) -> HostArray:
    """With zeros around the block, beyond the clamped face excepted."""
    return np.pad(elements, [(0, 1)] + [(1, 1)] * (elements.ndim - 1))


def _element_stiffness(dim: int, poisson_ratio: float) -> HostArray:
    """Stiffness (corner, component, corner, component) of a unit cube with Young's modulus 1."""
    allowed = "a number between -1 and 0.5, both excluded"
    real_number("poisson_ratio", poisson_ratio, allowed, lambda number: -1 < number < 0.5)
    lame = poisson_ratio / ((1 + poisson_ratio) * (1 - 2 * poisson_ratio))
    shear = 1 / (2 * (1 + poisson_ratio))
    corners = np.array(list(itertools.product((0, 1), repeat=dim)))
    gauss = 0.5 + np.array([-0.5, 0.5]) / np.sqrt(3)  # two points per axis, weight 1/2 each, on [0, 1]
    points = np.array(list(itertools.product(gauss, repeat=dim)))
    hat = np.where(corners == 1, points[:, None, :], 1 - points[:, None, :])  # (point, corner, axis)
    slope = np.where(corners == 1, 1.0, -1.0)
    gradient = np.empty(hat.shape)
    for axis in range(dim):
        others = [other for other in range(dim) if other != axis]
        gradient[..., axis] = slope[:, axis] * hat[..., others].prod(axis=-1)
    weight = 1 / len(points)
    products = weight * np.einsum("qai,qbj->aibj", gradient, gradient)
    along = np.einsum("aibi->ab", products)
    stiffness = (
        lame * products
        + shear * products.transpose(0, 3, 2, 1)
        + shear * np.einsum("ab,ij->aibj", along, np.eye(dim))
    )
    # Symmetric to the last bit, and so is everything assembled from it.
    symmetric: HostArray = 0.5 * (stiffness + stiffness.transpose(2, 3, 0, 1))
    return symmetric


def _cube(n: int, dim: int) -> Grid:
    return (count("n", n),) * dim
