"""Random sparsity patterns: bands, graphs and linear programs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .._util.arguments import real_number, whole_number, with_hints
from .._util.types import HostArray
from .common import canonical, count, generator, value_type


@with_hints
def banded_random(
    n: int, per_row: int, half_bandwidth: int, *, dtype: npt.DTypeLike = np.float64, seed: int = 0
) -> sp.csr_array:
    """Return a square matrix with random entries in a band.

    Parameters
    ----------
    n : int
        Number of rows and columns.
    per_row : int
        Entries drawn per row. Coinciding entries become one.
    half_bandwidth : int
        Largest distance of an entry from the diagonal.
    dtype : dtype, default float64
    seed : int, default 0
        Seed of the positions and values.

    Returns
    -------
    scipy.sparse.csr_array
        Values are uniform between -1 and 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

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
    """Return a matrix whose entries are in random columns.

    Parameters
    ----------
    rows, cols : int
        Shape of the matrix.
    per_row : int
        Entries drawn per row. Coinciding entries become one.
    dtype : dtype, default float64
    seed : int, default 0
        Seed of the positions and values.

    Returns
    -------
    scipy.sparse.csr_array
        Values are uniform between -1 and 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

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
    """Return a square matrix with row lengths that follow a power law, like a graph.

    A few rows are long, many are short or empty. A few columns have many entries.

    Parameters
    ----------
    n : int
        Number of rows and columns.
    mean : float
        Approximate mean number of entries per row. Coinciding entries become one, and entries beyond
        `max_length` are dropped.
    exponent : float, default 2.1
        Exponent of ``P(length) ~ length**-exponent``, above 1. A larger exponent makes fewer long rows.
    max_length : int, default 10000
        Length of the longest row.
    locality : float, default 0.0
        Fraction of entries near the diagonal, from 0 to 1.
    dtype : dtype, default float64
    seed : int, default 0
        Seed of the positions and values.

    Returns
    -------
    scipy.sparse.csr_array
        Values are uniform between -1 and 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> import numpy as np
    >>> lengths = np.diff(gallery.powerlaw(10_000, 8.0).indptr)
    >>> bool(lengths.max() > 20 * lengths.mean())
    True
    """
    n, max_length = count("n", n), whole_number("max_length", max_length, 1)
    real_number("mean", mean, "a finite number of at least 0", lambda number: 0 <= number < np.inf)
    real_number("exponent", exponent, "a finite number above 1", lambda number: 1 < number < np.inf)
    real_number("locality", locality, "a number from 0 to 1", lambda number: 0 <= number <= 1)
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
    """Return the matrix of a recursive random graph (R-MAT) [1]_.

    Each entry is placed by choosing a quarter of the matrix, then a quarter of this quarter, down to one
    place. The quarters have the probabilities of the Graph 500 benchmark. Rows and columns have very
    different lengths, and no permutation brings the entries close together.

    Parameters
    ----------
    levels : int
        Number of subdivisions, from 1 to 30. The matrix has ``2**levels`` rows and columns.
    per_row : int
        Mean number of entries drawn per row. Coinciding entries become one.
    dtype : dtype, default float64
    seed : int, default 0
        Seed of the positions and values.

    Returns
    -------
    scipy.sparse.csr_array
        Values are uniform between -1 and 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

    References
    ----------
    .. [1] D. Chakrabarti, Y. Zhan, C. Faloutsos, "R-MAT: a recursive model for graph mining", SDM 2004.

    Examples
    --------
    >>> from spmvgpu import gallery
    >>> gallery.rmat(8, 4).shape
    (256, 256)
    """
    levels, per_row = whole_number("levels", levels, 1), count("per_row", per_row, 0)
    if levels > 30:
        raise ValueError(
            f"levels={levels} is not allowed; give at most 30, because column indices have 32 bits"
        )
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
    """Return the constraint matrix of a covering problem.

    The matrix has short columns, and rows of very different lengths.

    Parameters
    ----------
    rows, cols : int
        Shape of the matrix.
    per_column : int
        Mean number of entries drawn per column. Coinciding entries become one.
    dtype : dtype, default float64
    seed : int, default 0
        Seed of the positions.

    Returns
    -------
    scipy.sparse.csr_array
        All stored values are 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range.

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
    rng: np.random.Generator, columns: HostArray, lengths: HostArray, cols: int, dtype: npt.DTypeLike
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
