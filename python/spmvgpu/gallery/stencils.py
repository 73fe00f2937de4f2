"""Finite differences on regular grids, and matrices of any stencil."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .._util.arguments import whole_number, with_hints
from .._util.types import HostArray
from .common import canonical, checked_contrast, count, generator, value_type

Grid = tuple[int, ...]


@with_hints
def poisson1d(
    n: int, *, contrast: float = 1.0, dtype: npt.DTypeLike = np.float64, seed: int = 0
) -> sp.csr_array:
    """Return 3-point finite differences of ``-d/dx (k du/dx)`` on a line.

    Parameters
    ----------
    n : int
        Number of unknowns.
    contrast, dtype, seed
        As in `poisson3d`.

    Returns
    -------
    scipy.sparse.csr_array
        Symmetric positive definite, scaled as in `poisson3d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> gallery.poisson1d(3).toarray()
    array([[ 2., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  2.]])
    """
    return _diffusion(_grid(n=n), star_offsets(1), contrast, dtype, seed)


@with_hints
def poisson2d(
    nx: int, ny: int | None = None, *, contrast: float = 1.0, dtype: npt.DTypeLike = np.float64, seed: int = 0
) -> sp.csr_array:
    """Return 5-point finite differences of ``-div(k grad u)`` on a rectangle.

    Parameters
    ----------
    nx, ny : int
        Number of unknowns along each axis. `ny` defaults to `nx`.
    contrast, dtype, seed
        As in `poisson3d`.

    Returns
    -------
    scipy.sparse.csr_array
        Symmetric positive definite, scaled as in `poisson3d`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> gallery.poisson2d(2).toarray()
    array([[ 4., -1., -1.,  0.],
           [-1.,  4.,  0., -1.],
           [-1.,  0.,  4., -1.],
           [ 0., -1., -1.,  4.]])
    """
    return _diffusion(_grid(nx=nx, ny=ny), star_offsets(2), contrast, dtype, seed)


@with_hints
def poisson3d(
    nx: int,
    ny: int | None = None,
    nz: int | None = None,
    *,
    points: int = 7,
    contrast: float = 1.0,
    dtype: npt.DTypeLike = np.float64,
    seed: int = 0,
) -> sp.csr_array:
    """Return finite differences of ``-div(k grad u)`` on a box, with u = 0 on its boundary.

    Parameters
    ----------
    nx, ny, nz : int
        Number of unknowns along each axis. `ny` and `nz` default to `nx`.
    points : {7, 27}
        Size of the stencil: a point couples to its 6 face neighbours or to all 26 neighbours.
    contrast : float, default 1.0
        Ratio of the largest to the smallest coefficient k, at least 1. The coefficient is random and
        log-uniform. With 1, it is constant.
    dtype : dtype, default float64
    seed : int, default 0
        Seed of the random coefficient.

    Returns
    -------
    scipy.sparse.csr_array
        Symmetric positive definite. It is multiplied by the grid spacing squared: with 7 points and a
        constant coefficient, the entries are 6 and -1.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> gallery.poisson3d(10).shape, gallery.poisson3d(10, 20, 30, points=27).shape
    ((1000, 1000), (6000, 6000))
    """
    if whole_number("points", points, 1) not in (7, 27):
        raise ValueError(f"points={points!r} is not allowed; give 7 or 27")
    return _diffusion(
        _grid(nx=nx, ny=ny, nz=nz), star_offsets(3) if points == 7 else box_offsets(3), contrast, dtype, seed
    )


def _grid(**axes: int | None) -> Grid:
    """Points along each axis; axes after the first may be None, which is as many as along the first."""
    name, first = next(iter(axes.items()))
    checked = {name: count(name, first)}
    return tuple(
        checked[name] if points is None else count(axis, points) for axis, points in (checked | axes).items()
    )


def star_offsets(dim: int) -> HostArray:
    """Offsets of `box_offsets` along one axis only."""
    box = box_offsets(dim)
    star: HostArray = box[np.abs(box).sum(axis=1) <= 1]
    return star


def _diffusion(
    grid: Grid, offsets: HostArray, contrast: float, dtype: npt.DTypeLike, seed: int
) -> sp.csr_array:
    """Couple each point to those at `offsets`, as strongly as the mean of their coefficients says."""
    contrast, random = checked_contrast(contrast), generator(seed)
    centre = np.flatnonzero(~offsets.any(axis=1))[0]
    if contrast == 1:
        strength = np.full((1, len(offsets)), -1.0)
        strength[0, centre] = len(offsets) - 1
    else:
        k = contrast ** random.uniform(-0.5, 0.5, grid)
        padded = np.pad(k, 1, mode="edge")  # beyond the boundary, the coefficient goes on unchanged
        strength = np.zeros((*grid, len(offsets)))
        for slot, offset in enumerate(offsets):
            if slot != centre:
                neighbour = padded[tuple(slice(1 + o, 1 + o + n) for o, n in zip(offset, grid, strict=True))]
                strength[..., slot] = -0.5 * (k + neighbour)
        strength[..., centre] = -strength.sum(axis=-1)
        strength = strength.reshape(-1, len(offsets))
    return stencil_matrix(grid, offsets, strength[:, None, :, None], dtype)


def box_offsets(dim: int) -> HostArray:
    """Offsets to the 3^dim neighbours (itself included), in the order of their column indices."""
    return np.array(list(itertools.product((-1, 0, 1), repeat=dim)))


def stencil_matrix(grid: Grid, offsets: HostArray, values: HostArray, dtype: npt.DTypeLike) -> sp.csr_array:
    """CSR matrix in which each grid point is coupled to those of its neighbours that lie in the grid.

    `values` broadcasts to (points, dof, offsets, dof): the dof by dof block of every point and offset, laid
    out so that leaving out the neighbours beyond the boundary yields the CSR arrays in their final order.
    """
    points, dof, neighbours = prod(grid), values.shape[1], len(offsets)
    inside = np.ones((*grid, neighbours), dtype=bool)
    for axis, n in enumerate(grid):
        position = np.arange(n)[:, None] + offsets[:, axis]
        shape = [1] * len(grid) + [neighbours]
        shape[axis] = n
        inside &= ((position >= 0) & (position < n)).reshape(shape)
    inside = inside.reshape(points, neighbours)

    lengths = dof * np.repeat(np.count_nonzero(inside, axis=1), dof)
    index_type = np.int32 if int(lengths.sum()) <= np.iinfo(np.int32).max else np.int64
    row_offsets = np.concatenate(([0], np.cumsum(lengths))).astype(index_type)
    strides = [prod(grid[axis + 1 :]) for axis in range(len(grid))]
    neighbour = np.arange(points, dtype=index_type)[:, None] + (offsets @ strides).astype(index_type)
    full = (points, dof, neighbours, dof)
    kept = np.broadcast_to(inside[:, None, :, None], full)
    columns = (dof * neighbour)[:, None, :, None] + np.arange(dof, dtype=index_type)
    indices = np.broadcast_to(columns, full)[kept]
    data = np.broadcast_to(values.astype(value_type(dtype), copy=False), full)[kept]
    return canonical(data, indices, row_offsets, (points * dof, points * dof))
