"""Matrices to try things on: grids, finite elements, bands, graphs and linear programs, of any size.

Every generator returns a canonical `scipy.sparse.csr_array` and nothing else; the loads of the elastic bodies
have functions of their own. A generator takes a ``dtype``, and gives the same matrix for the same ``seed``.
All of them work on whole index arrays, so that tens of millions of non-zeros take seconds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .arguments import real_number, whole_number
from .compressed import INDEX_LIMIT

__all__ = [
    "SUITE",
    "banded_random",
    "elasticity2d",
    "elasticity2d_load",
    "elasticity3d",
    "elasticity3d_load",
    "lp_like",
    "poisson1d",
    "poisson2d",
    "poisson3d",
    "powerlaw",
    "uniform_random",
]

Array = npt.NDArray[Any]
Grid = tuple[int, ...]


# -- grids ---------------------------------------------------------------------------------------------------


def poisson1d(
    n: int, *, contrast: float = 1.0, dtype: npt.DTypeLike = np.float64, seed: int = 0
) -> sp.csr_array:
    """3-point finite differences of ``-d/dx (k du/dx)`` on a line of `n` unknowns; see `poisson3d`.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> gallery.poisson1d(3).toarray()
    array([[ 2., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  2.]])
    """
    return _diffusion(_grid(n=n), _star(1), contrast, dtype, seed)


def poisson2d(
    nx: int, ny: int | None = None, *, contrast: float = 1.0, dtype: npt.DTypeLike = np.float64, seed: int = 0
) -> sp.csr_array:
    """5-point finite differences of ``-div(k grad u)`` on `nx` by `ny` unknowns; see `poisson3d`.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> gallery.poisson2d(2).toarray()
    array([[ 4., -1., -1.,  0.],
           [-1.,  4.,  0., -1.],
           [-1.,  0.,  4., -1.],
           [ 0., -1., -1.,  4.]])
    """
    return _diffusion(_grid(nx=nx, ny=ny), _star(2), contrast, dtype, seed)


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
    """Finite differences of ``-div(k grad u)`` on a box with u = 0 around it: symmetric positive definite.

    Parameters
    ----------
    nx, ny, nz : int
        Unknowns along each axis; `ny` and `nz` default to `nx`.
    points : {7, 27}
        Couple each point to its 6 face neighbours or to all 26 neighbours.
    contrast : float
        Largest over smallest value of the coefficient k, which is random and log-uniform; 1 makes it
        constant.
    dtype : dtype
        Of the values.
    seed : int
        Of the random coefficient.

    Returns
    -------
    scipy.sparse.csr_array
        Scaled by the grid spacing squared: the entries are those of the stencil (6 and -1 for 7 constant
        points).

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> gallery.poisson3d(10).shape, gallery.poisson3d(10, 20, 30, points=27).shape
    ((1000, 1000), (6000, 6000))
    """
    if whole_number("points", points, 1) not in (7, 27):
        raise ValueError(f"points is {points}; allowed: 7, 27")
    return _diffusion(_grid(nx=nx, ny=ny, nz=nz), _star(3) if points == 7 else _box(3), contrast, dtype, seed)


def _grid(**axes: int | None) -> Grid:
    """Points along each axis; axes after the first may be None, which is as many as along the first."""
    name, first = next(iter(axes.items()))
    checked = {name: _count(name, first)}
    return tuple(
        checked[name] if points is None else _count(axis, points) for axis, points in (checked | axes).items()
    )


def _cube(n: Any, dim: int) -> Grid:
    return (_count("n", n),) * dim


def _count(name: str, value: Any, lowest: int = 1) -> int:
    return whole_number(name, value, lowest, INDEX_LIMIT)


def _generator(seed: Any) -> np.random.Generator:
    return np.random.default_rng(whole_number("seed", seed, 0))


def _contrast(value: Any) -> float:
    contrast = real_number("contrast", value)
    if not 1 <= contrast < np.inf:
        raise ValueError(f"contrast is {contrast}; it must be finite and at least 1")
    return contrast


def _value_type(dtype: npt.DTypeLike) -> np.dtype[Any]:
    try:
        checked: np.dtype[Any] = np.dtype(dtype)
    except Exception as error:  # NumPy raises what it pleases
        raise TypeError(f"dtype={dtype!r} is no type of numbers") from error
    if checked.kind not in "biufc":
        raise TypeError(f"dtype={dtype!r} is no type of numbers")
    return checked


def _box(dim: int) -> Array:
    """Offsets to the 3^dim neighbours (itself included), in the order of their column indices."""
    return np.array(list(itertools.product((-1, 0, 1), repeat=dim)))


def _star(dim: int) -> Array:
    """Offsets of `_box` along one axis only."""
    box = _box(dim)
    star: Array = box[np.abs(box).sum(axis=1) <= 1]
    return star


def _diffusion(grid: Grid, offsets: Array, contrast: float, dtype: npt.DTypeLike, seed: int) -> sp.csr_array:
    """Couple each point to those at `offsets`, as strongly as the mean of their coefficients says."""
    contrast, random = _contrast(contrast), _generator(seed)
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
    return _stencil_matrix(grid, offsets, strength[:, None, :, None], dtype)


def _stencil_matrix(grid: Grid, offsets: Array, values: Array, dtype: npt.DTypeLike) -> sp.csr_array:
    """CSR matrix in which each grid point is coupled to those of its neighbours that lie in the grid.

    `values` broadcasts to (points, dof, offsets, dof): the dof by dof block of every point and offset, laid
    out so that leaving out the neighbours beyond the boundary yields the CSR arrays in their final order.
    """
    points, dof, count = prod(grid), values.shape[1], len(offsets)
    inside = np.ones((*grid, count), dtype=bool)
    for axis, n in enumerate(grid):
        position = np.arange(n)[:, None] + offsets[:, axis]
        shape = [1] * len(grid) + [count]
        shape[axis] = n
        inside &= ((position >= 0) & (position < n)).reshape(shape)
    inside = inside.reshape(points, count)

    lengths = dof * np.repeat(np.count_nonzero(inside, axis=1), dof)
    index_type = np.int32 if int(lengths.sum()) <= np.iinfo(np.int32).max else np.int64
    row_offsets = np.concatenate(([0], np.cumsum(lengths))).astype(index_type)
    strides = [prod(grid[axis + 1 :]) for axis in range(len(grid))]
    neighbour = np.arange(points, dtype=index_type)[:, None] + (offsets @ strides).astype(index_type)
    full = (points, dof, count, dof)
    kept = np.broadcast_to(inside[:, None, :, None], full)
    columns = (dof * neighbour)[:, None, :, None] + np.arange(dof, dtype=index_type)
    indices = np.broadcast_to(columns, full)[kept]
    data = np.broadcast_to(values.astype(_value_type(dtype), copy=False), full)[kept]
    return _canonical(data, indices, row_offsets, (points * dof, points * dof))


# -- finite elements -----------------------------------------------------------------------------------------


def elasticity2d(
    n: int,
    *,
    poisson_ratio: float = 0.3,
    contrast: float = 1.0,
    dtype: npt.DTypeLike = np.float64,
    seed: int = 0,
) -> sp.csr_array:
    """Plane-strain linear elasticity on bilinear squares; as `elasticity3d`, with 2 unknowns per node.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> A = gallery.elasticity2d(4)
    >>> A.shape, A.nnz
    ((32, 32), 400)
    """
    return _elasticity(_cube(n, 2), poisson_ratio, contrast, dtype, seed)


def elasticity2d_load(n: int, *, dtype: npt.DTypeLike = np.float64) -> Array:
    """Right-hand side of `elasticity2d`; see `elasticity3d_load`.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> float(gallery.elasticity2d_load(3).sum())
    5.0
    """
    return _load(_cube(n, 2), dtype)


def elasticity3d(
    n: int,
    *,
    poisson_ratio: float = 0.3,
    contrast: float = 1.0,
    dtype: npt.DTypeLike = np.float64,
    seed: int = 0,
) -> sp.csr_array:
    """Linear elasticity of a block that is clamped at one face.

    Trilinear hexahedra, integrated with 2 x 2 x 2 Gauss points; 3 unknowns (displacements) per node.

    Parameters
    ----------
    n : int
        Free nodes along each axis; the nodes of the clamped face come on top and are eliminated.
        The matrix has ``3 n**3`` rows and ``9 (3 n - 2)**3`` stored entries.
    poisson_ratio : float
        Of the material, below 0.5.
    contrast : float
        Largest over smallest Young's modulus, random and log-uniform per element; 1 makes the block
        homogeneous.
    dtype : dtype
        Of the values.
    seed : int
        Of the random moduli.

    Returns
    -------
    scipy.sparse.csr_array
        Stiffness matrix, symmetric positive definite. `elasticity3d_load` makes a right-hand side for it.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> A = gallery.elasticity3d(4)
    >>> A.shape, A.nnz
    ((192, 192), 9000)
    """
    return _elasticity(_cube(n, 3), poisson_ratio, contrast, dtype, seed)


def elasticity3d_load(n: int, *, dtype: npt.DTypeLike = np.float64) -> Array:
    """The weight of the block of `elasticity3d`: a right-hand side for that matrix.

    Parameters
    ----------
    n : int
        As for `elasticity3d`.
    dtype : dtype
        Of the values.

    Returns
    -------
    (3 * n**3,) numpy.ndarray
        A uniform force along the last axis, parallel to the clamped face.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> float(gallery.elasticity3d_load(3).sum())
    10.0
    """
    return _load(_cube(n, 3), dtype)


def _elasticity(
    grid: Grid, poisson_ratio: float, contrast: float, dtype: npt.DTypeLike, seed: int
) -> sp.csr_array:
    elements = _elements(grid)
    contrast = _contrast(contrast)
    dim = len(grid)
    corners = list(itertools.product((0, 1), repeat=dim))
    stiffness = _element_stiffness(dim, poisson_ratio)
    modulus = contrast ** _generator(seed).uniform(-0.5, 0.5, elements)
    # Zero stiffness around the block, so that every node has 2^dim elements: padded[i - a + 1] has node i as
    # corner a.
    padded = _surrounded(modulus)

    offsets = _box(dim)
    slot_of = {tuple(offset): slot for slot, offset in enumerate(offsets.tolist())}
    blocks = np.zeros((*grid, dim, len(offsets), dim))
    for a, corner in enumerate(corners):
        window = tuple(slice(1 - c, 1 - c + n) for c, n in zip(corner, grid, strict=True))
        for b, other in enumerate(corners):
            slot = slot_of[tuple(o - c for o, c in zip(other, corner, strict=True))]
            blocks[..., slot, :] += padded[window][..., None, None] * stiffness[a, :, b, :]
    return _stencil_matrix(grid, offsets, blocks.reshape(prod(grid), dim, len(offsets), dim), dtype)


def _load(grid: Grid, dtype: npt.DTypeLike) -> Array:
    present = _surrounded(np.ones(_elements(grid)))
    corners = list(itertools.product((0, 1), repeat=len(grid)))
    load = np.zeros((*grid, len(grid)))
    for corner in corners:
        window = tuple(slice(1 - c, 1 - c + n) for c, n in zip(corner, grid, strict=True))
        load[..., -1] += present[window] / len(corners)
    return load.reshape(-1).astype(_value_type(dtype))


def _elements(grid: Grid) -> Grid:
    """One element per cell between nodes, and a layer along axis 0 between the clamped and the free nodes."""
    if min(grid) < 2:
        raise ValueError(f"elasticity needs at least 2 free nodes along each axis, got {grid[0]}")
    return (grid[0], *(n - 1 for n in grid[1:]))


def _surrounded(elements: Array) -> Array:
    """With zeros around the block, beyond the clamped face excepted."""
    return np.pad(elements, [(0, 1)] + [(1, 1)] * (elements.ndim - 1))


def _element_stiffness(dim: int, poisson_ratio: float) -> Array:
    """Stiffness (corner, component, corner, component) of a unit cube with Young's modulus 1."""
    if not -1 < real_number("poisson_ratio", poisson_ratio) < 0.5:
        raise ValueError(f"poisson_ratio is {poisson_ratio}; it must lie between -1 and 0.5, both excluded")
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
    symmetric: Array = 0.5 * (stiffness + stiffness.transpose(2, 3, 0, 1))
    return symmetric


# -- random patterns -----------------------------------------------------------------------------------------


def banded_random(
    n: int, per_row: int, half_bandwidth: int, *, dtype: npt.DTypeLike = np.float64, seed: int = 0
) -> sp.csr_array:
    """`per_row` entries a row (less coinciding ones), at random within `half_bandwidth` of the diagonal.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> A = gallery.banded_random(100, 5, 10)
    >>> int(abs(A.tocoo().row - A.tocoo().col).max()) <= 10
    True
    """
    n, per_row, half_bandwidth = (
        _count("n", n),
        _count("per_row", per_row, 0),
        _count("half_bandwidth", half_bandwidth, 0),
    )
    rng = _generator(seed)
    near = rng.integers(-half_bandwidth, half_bandwidth, (n, per_row), dtype=np.int32, endpoint=True)
    columns = np.clip(near + np.arange(n, dtype=np.int32)[:, None], 0, n - 1)
    return _random_matrix(rng, columns.reshape(-1), np.full(n, per_row), n, dtype)


def uniform_random(
    rows: int, cols: int, per_row: int, *, dtype: npt.DTypeLike = np.float64, seed: int = 0
) -> sp.csr_array:
    """`per_row` entries a row (less the coinciding ones), every column equally likely.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> gallery.uniform_random(100, 50, 5).shape
    (100, 50)
    """
    rows, cols, per_row = _count("rows", rows, 0), _count("cols", cols), _count("per_row", per_row, 0)
    rng = _generator(seed)
    columns = rng.integers(0, cols, rows * per_row, dtype=np.int32)
    return _random_matrix(rng, columns, np.full(rows, per_row), cols, dtype)


def powerlaw(
    n: int,
    mean: float,
    *,
    exponent: float = 2.1,
    max_length: int = 10_000,
    locality: float = 0.0,
    dtype: npt.DTypeLike = np.float64,
    seed: int = 0,
) -> sp.csr_array:
    """Graph-like matrix: few long rows, many short or empty ones, and hub columns that many rows use.

    Parameters
    ----------
    n : int
        Rows and columns.
    mean : float
        Entries per row, about: coinciding ones and those beyond `max_length` are dropped.
    exponent : float
        Of the law ``P(length) ~ length**-exponent``, above 1; larger means fewer long rows.
    max_length : int
        Longest row.
    locality : float
        Fraction of the entries that lie near the diagonal, as links within one site do.
    dtype : dtype
        Of the values.
    seed : int
        Of everything random.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> import numpy as np
    >>> lengths = np.diff(gallery.powerlaw(10_000, 8.0).indptr)
    >>> bool(lengths.max() > 20 * lengths.mean())
    True
    """
    n, max_length = _count("n", n), whole_number("max_length", max_length, 1)
    if not 0 <= real_number("mean", mean) < np.inf:
        raise ValueError(f"mean is {mean}; it must be finite and not negative")
    if not 1 < real_number("exponent", exponent) < np.inf:
        raise ValueError(f"exponent is {exponent}; it must be finite and above 1")
    if not 0 <= real_number("locality", locality) <= 1:
        raise ValueError(f"locality is {locality}; it must lie between 0 and 1")
    rng = _generator(seed)
    raw = np.minimum((1 - rng.random(n)) ** (-1 / (exponent - 1)), max_length)
    wanted = raw * (mean / raw.mean()) + rng.random(n)  # rounded up or down at random, which keeps the mean
    lengths = np.minimum(wanted.astype(np.int64), min(max_length, n))
    count = int(lengths.sum())
    # Squares and higher powers of a uniform number crowd near 0: a few columns, spread over the matrix,
    # become hubs.
    place = rng.permutation(n).astype(np.int32)
    columns = place[(n * rng.random(count) ** 3).astype(np.int64)]
    if locality > 0:
        near = np.flatnonzero(rng.random(count) < locality)
        rows = np.repeat(np.arange(n, dtype=np.int32), lengths)[near]
        columns[near] = np.clip(rows + rng.integers(-50, 50, len(near), endpoint=True), 0, n - 1)
    return _random_matrix(rng, columns, lengths, n, dtype)


def lp_like(
    rows: int, cols: int, per_column: int, *, dtype: npt.DTypeLike = np.float64, seed: int = 0
) -> sp.csr_array:
    """Wide constraint matrix of a covering problem: short columns of ones, rows of very different lengths.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> A = gallery.lp_like(20, 500, 3)
    >>> A.shape, float(A.max())
    ((20, 500), 1.0)
    """
    rows, cols, per_column = _count("rows", rows), _count("cols", cols), _count("per_column", per_column)
    rng = _generator(seed)
    lengths = rng.integers(1, 2 * per_column - 1, cols, endpoint=True)
    used = (rows * rng.random(int(lengths.sum())) ** 2).astype(np.int32)
    by_column = _random_matrix(rng, rng.permutation(rows).astype(np.int32)[used], lengths, rows, dtype)
    matrix = by_column.T.tocsr()
    matrix.data[:] = 1
    return matrix


def _random_matrix(
    rng: np.random.Generator, columns: Array, lengths: Array, cols: int, dtype: npt.DTypeLike
) -> sp.csr_array:
    """Values in [-1, 1) at `columns`, given row after row; coinciding entries become one."""
    row_offsets = np.concatenate(([0], np.cumsum(lengths)))
    row_offsets = row_offsets.astype(np.int32 if row_offsets[-1] <= np.iinfo(np.int32).max else np.int64)
    shape = (len(lengths), cols)
    # One byte per entry while sorting; the values come when the pattern is known.
    pattern = sp.csr_array((np.ones(len(columns), dtype=np.int8), columns, row_offsets), shape=shape)
    pattern.sum_duplicates()
    values = rng.uniform(-1, 1, pattern.nnz)
    return _canonical(values.astype(_value_type(dtype), copy=False), pattern.indices, pattern.indptr, shape)


def _canonical(data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> sp.csr_array:
    """Mark arrays that are known to be sorted and free of duplicates as such."""
    matrix = sp.csr_array((data, indices, indptr), shape=shape)
    matrix.has_canonical_format = True
    return matrix


#: The matrices of the benchmarks by name: ``SUITE[name](dtype)`` assembles one.
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
