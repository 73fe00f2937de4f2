"""Random patterns: bands, graphs and linear programs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ..arguments import real_number, whole_number, with_hints
from .common import Array, canonical, count, generator, value_type


@with_hints
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
        count("n", n),
        count("per_row", per_row, 0),
        count("half_bandwidth", half_bandwidth, 0),
    )
    rng = generator(seed)
    near = rng.integers(-half_bandwidth, half_bandwidth, (n, per_row), dtype=np.int32, endpoint=True)
    columns = np.clip(near + np.arange(n, dtype=np.int32)[:, None], 0, n - 1)
    return _random_matrix(rng, columns.reshape(-1), np.full(n, per_row), n, dtype)


@with_hints
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
    rows, cols, per_row = count("rows", rows, 0), count("cols", cols), count("per_row", per_row, 0)
    rng = generator(seed)
    columns = rng.integers(0, cols, rows * per_row, dtype=np.int32)
    return _random_matrix(rng, columns, np.full(rows, per_row), cols, dtype)


@with_hints
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
    n, max_length = count("n", n), whole_number("max_length", max_length, 1)
    if not 0 <= real_number("mean", mean) < np.inf:
        raise ValueError(f"mean is {mean}; it must be finite and not negative")
    if not 1 < real_number("exponent", exponent) < np.inf:
        raise ValueError(f"exponent is {exponent}; it must be finite and above 1")
    if not 0 <= real_number("locality", locality) <= 1:
        raise ValueError(f"locality is {locality}; it must lie between 0 and 1")
    rng = generator(seed)
    raw = np.minimum((1 - rng.random(n)) ** (-1 / (exponent - 1)), max_length)
    wanted = raw * (mean / raw.mean()) + rng.random(n)  # rounded up or down at random, which keeps the mean
    lengths = np.minimum(wanted.astype(np.int64), min(max_length, n))
    entries = int(lengths.sum())
    # Squares and higher powers of a uniform number crowd near 0: a few columns, spread over the matrix,
    # become hubs.
    scattered = rng.permutation(n).astype(np.int32)
    columns = scattered[(n * rng.random(entries) ** 3).astype(np.int64)]
    if locality > 0:
        near = np.flatnonzero(rng.random(entries) < locality)
        rows = np.repeat(np.arange(n, dtype=np.int32), lengths)[near]
        columns[near] = np.clip(rows + rng.integers(-50, 50, len(near), endpoint=True), 0, n - 1)
    return _random_matrix(rng, columns, lengths, n, dtype)


# How likely an entry of `rmat` is in the first quarter, the one beside it, and the one below it (Graph 500).
_RMAT_QUARTERS = (0.57, 0.19, 0.19)


@with_hints
def rmat(levels: int, per_row: int, *, dtype: npt.DTypeLike = np.float64, seed: int = 0) -> sp.csr_array:
    """Recursive graph (R-MAT): ``2**levels`` rows, `per_row` entries for each, less the coinciding ones.

    The matrix is cut into quarters, one of them is chosen, and so on until an entry is left: rows and columns
    of very different lengths, that no order brings together.

    Parameters
    ----------
    levels : int
        How often the matrix is cut, 1 to 30.
    per_row : int
        Entries per row that are drawn, on average.
    dtype : dtype
        Of the values.
    seed : int
        Of everything random.

    References
    ----------
    Chakrabarti, Zhan, Faloutsos: R-MAT: a recursive model for graph mining. SDM 2004. The quarters are as
    likely as in the Graph 500 benchmark.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> gallery.rmat(8, 4).shape
    (256, 256)
    """
    levels, per_row = whole_number("levels", levels, 1), count("per_row", per_row, 0)
    if levels > 30:
        raise ValueError(f"levels is {levels}; columns are 32-bit numbers, so at most 30 are allowed")
    rng, n = generator(seed), 1 << levels
    first, beside, below = np.cumsum(_RMAT_QUARTERS)
    rows, columns = np.zeros(n * per_row, np.int32), np.zeros(n * per_row, np.int32)
    for _ in range(levels):
        chosen = rng.random(n * per_row)
        is_lower = chosen >= beside
        rows = 2 * rows + is_lower
        columns = 2 * columns + np.where(is_lower, chosen >= below, chosen >= first)
    order = np.argsort(rows, kind="stable")
    return _random_matrix(rng, columns[order].astype(np.int32), np.bincount(rows, minlength=n), n, dtype)


@with_hints
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
    rows, cols, per_column = count("rows", rows), count("cols", cols), count("per_column", per_column)
    rng = generator(seed)
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
    return canonical(values.astype(value_type(dtype), copy=False), pattern.indices, pattern.indptr, shape)
