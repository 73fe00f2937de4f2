"""The list of nasty matrices that every format, kernel, device and precision must multiply correctly.

`CASES` maps a name to a function without arguments that gives a SciPy matrix; `matrix(name, dtype)` is that
matrix as a canonical `csr_array` with read-only arrays, so that what writes into its input fails loudly. Of a
complex type it has imaginary parts too, see `typed`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import scipy.sparse as sp

# The value types that operators have.
TYPES = [np.dtype("float32"), np.dtype("float64")]
COMPLEX_TYPES = [np.dtype("complex64"), np.dtype("complex128")]


def values(rng, count):
    """Values of either sign, none close to zero, so that a lost entry is seen."""
    return rng.uniform(0.25, 1.0, count) * rng.choice([-1.0, 1.0], count)


def from_lengths(lengths, cols, seed=1):
    """Matrix whose row i has lengths[i] entries in random columns."""
    rng = np.random.default_rng(seed)
    lengths = np.asarray(lengths, dtype=int)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = np.concatenate(
        [np.empty(0, np.int64)] + [rng.choice(cols, n, replace=False) for n in lengths if n]
    )
    return sp.csr_array(
        (values(rng, indptr[-1]), indices.astype(np.int32), indptr), shape=(len(lengths), cols)
    )


def uniform(rows, cols, per_row, seed=2):
    """Random matrix with about per_row entries in each row (a column drawn twice is stored once)."""
    rng = np.random.default_rng(seed)
    count = rows * per_row
    places = np.unique(rng.integers(0, rows * cols, count))
    return sp.csr_array((values(rng, places.size), np.divmod(places, cols)), shape=(rows, cols))


def banded(n, offsets):
    """Matrix with the given diagonals, values from a fixed sequence."""
    return sp.diags_array([0.5 + np.arange(n - abs(k)) % 7 for k in offsets], offsets=offsets, shape=(n, n))


def with_empty_rows(rows, empty):
    """Random matrix with the rows in the slice `empty` emptied."""
    lengths = np.full(rows, 5)
    lengths[empty] = 0
    return from_lengths(lengths, rows)


def arrow(n):
    """Dense first row, dense first column, diagonal."""
    A = sp.lil_array(banded(n, [0]))
    A[0, :] = np.linspace(1, 2, n)
    A[:, 0] = np.linspace(1, 2, n)[:, None]
    return A


def dense_column(n, column):
    """Diagonal and one dense column."""
    rows = np.arange(n)
    entries = sp.csr_array((np.linspace(1, 2, n), (rows, np.full(n, column))), shape=(n, n))
    return banded(n, [0]) + entries


def power_law_lengths(rows, longest, seed=3):
    """Row lengths that fall like a power of the rank, in random order."""
    lengths = (longest / np.arange(1, rows + 1) ** 0.8).astype(int)
    return np.random.default_rng(seed).permutation(lengths)


def one_long_row(rows, where, length=20_000):
    """Short rows and one row that spans several tiles of any kernel."""
    lengths = np.full(rows, 3)
    lengths[where] = length
    return from_lengths(lengths, length + 100)


def wide_range():
    """Values from 1e-12 to 1e12: each row is dominated by few entries, cancellation included."""
    A = uniform(500, 500, 20, seed=9)
    rng = np.random.default_rng(10)
    A.data *= 10.0 ** rng.integers(-12, 12, A.nnz)
    return A


def explicit_zeros(fraction):
    """Random matrix that stores zeros in the given fraction of its entries."""
    A = uniform(300, 400, 8, seed=11)
    A.data[np.random.default_rng(12).random(A.nnz) < fraction] = 0.0
    return A


def corners(rows, cols):
    """Only the four corners."""
    return sp.csr_array(
        ([1.0, 2.0, 3.0, 4.0], ([0, 0, rows - 1, rows - 1], [0, cols - 1] * 2)), shape=(rows, cols)
    )


def symmetric(A):
    """The lower triangle and its mirror image; stored zeros stay."""
    A = sp.coo_array(sp.tril(A))
    off = A.row != A.col
    coords = np.concatenate([A.row, A.col[off]]), np.concatenate([A.col, A.row[off]])
    return sp.csr_array((np.concatenate([A.data, A.data[off]]), coords), shape=A.shape)


def mixed_nodes():
    """Blocks of one to four rows in a random order: finite elements with different unknowns at the nodes."""
    rng = np.random.default_rng(13)
    sizes = rng.integers(1, 5, 400)
    graph = sp.coo_array(symmetric(sp.triu(banded(400, [-1, 0, 1, 20])).T + sp.eye_array(400)))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    pieces = [
        (i, j) for n, m in zip(graph.row, graph.col, strict=True)
        for i in range(starts[n], starts[n + 1]) for j in range(starts[m], starts[m + 1])
    ]  # fmt: skip
    rows, cols = np.transpose(pieces)
    return symmetric(sp.csr_array((values(rng, rows.size), (rows, cols)), shape=(starts[-1],) * 2))


def hubs():
    """A band in which two rows and columns are dense."""
    A = sp.lil_array(symmetric(banded(2500, [-2, -1, 0])))
    for hub in (700, 2499):
        A[hub, :] = 1.5
        A[:, hub] = 1.5
    return symmetric(A)


# Exactly symmetric, some of them easy and some as hard as can be for a format that stores one half.
SYMMETRIC_CASES = {
    "sym_band": lambda: symmetric(banded(3000, [-90, -31, -2, -1, 0])),
    "sym_random": lambda: symmetric(uniform(700, 700, 20)),
    "sym_dense": lambda: symmetric(sp.csr_array(values(np.random.default_rng(4), 300**2).reshape(300, 300))),
    "sym_blocks": lambda: symmetric(sp.kron(symmetric(uniform(150, 150, 5)), np.ones((3, 3)))),
    "sym_mixed_nodes": mixed_nodes,
    "sym_arrow_first": lambda: symmetric(arrow(1500)),
    "sym_arrow_last": lambda: symmetric(arrow(1500)[::-1, ::-1]),
    "sym_hubs": hubs,
    "sym_no_diagonal": lambda: symmetric(banded(600, [-7, -1])),
    "sym_empty_rows": lambda: symmetric(from_lengths(np.arange(900) % 4 // 3 * 9, 900)),
    "sym_corners": lambda: symmetric(corners(5000, 5000)),
    "sym_antidiagonal": lambda: symmetric(
        sp.csr_array((np.arange(1.0, 802.0), (np.arange(801), np.arange(801)[::-1])))
    ),
    "sym_explicit_zeros": lambda: symmetric(explicit_zeros(0.3)[:, :300]),
    "sym_wide_range": lambda: symmetric(wide_range()),
}

CASES = {
    "diagonal": lambda: banded(1000, [0]),
    "antidiagonal": lambda: sp.csr_array((np.arange(1.0, 301.0), (np.arange(300), np.arange(300)[::-1]))),
    "tridiagonal": lambda: banded(999, [-1, 0, 1]),
    "banded": lambda: banded(2000, [-150, -31, -1, 0, 2, 64, 700]),
    "upper_triangle": lambda: sp.triu(sp.csr_array(np.ones((130, 130)))),
    "dense": lambda: sp.csr_array(values(np.random.default_rng(4), 64 * 70).reshape(64, 70)),
    "blocks": lambda: sp.kron(uniform(120, 120, 5), np.arange(1.0, 10.0).reshape(3, 3)),
    "block_diagonal": lambda: sp.block_diag(
        [sp.coo_array(np.full((k, k), k / 8)) for k in (1, 40, 3, 33, 8, 64)]
    ),
    # Shapes and emptiness
    "0x0": lambda: sp.csr_array((0, 0)),
    "0x5": lambda: sp.csr_array((0, 5)),
    "5x0": lambda: sp.csr_array((5, 0)),
    "no_entries": lambda: sp.csr_array((700, 900)),
    "1x1": lambda: sp.csr_array([[3.0]]),
    "1x1_empty": lambda: sp.csr_array((1, 1)),
    "1xN_dense": lambda: from_lengths([5000], 5000),
    "1xN_sparse": lambda: from_lengths([17], 100_000),
    "Nx1_dense": lambda: from_lengths(np.ones(5000, int), 1),
    "Nx1_holes": lambda: from_lengths(np.arange(5000) % 3 == 1, 1),
    "wide": lambda: uniform(50, 20_000, 300),
    "tall": lambda: uniform(20_000, 50, 4),
    "corners": lambda: corners(4000, 3000),
    "last_column": lambda: sp.csr_array(
        (np.ones(600), (np.arange(600), np.full(600, 799))), shape=(600, 800)
    ),
    "empty_rows_first": lambda: with_empty_rows(900, slice(0, 300)),
    "empty_rows_middle": lambda: with_empty_rows(900, slice(301, 640)),
    "empty_rows_last": lambda: with_empty_rows(900, slice(500, 900)),
    "empty_rows_every_other": lambda: with_empty_rows(900, slice(0, 900, 2)),
    "one_row_filled_first": lambda: with_empty_rows(900, slice(1, 900)),
    "one_row_filled_last": lambda: with_empty_rows(900, slice(0, 899)),
    "hypersparse": lambda: from_lengths(np.arange(60_000) % 1499 == 700, 60_000),
    # Row lengths
    "dense_row_first": lambda: one_long_row(2000, 0, length=3000),
    "dense_column_middle": lambda: dense_column(3000, 1500),
    "dense_column_last": lambda: dense_column(3000, 2999),
    "arrow": lambda: arrow(1500),
    "long_row_first": lambda: one_long_row(400, 0),
    "long_row_middle": lambda: one_long_row(400, 211),
    "long_row_last": lambda: one_long_row(400, 399),
    "long_rows_in_a_row": lambda: one_long_row(400, slice(100, 104)),
    "long_row_among_empty": lambda: from_lengths([0] * 3000 + [20_000] + [0] * 3000, 20_000),
    "warp_lengths": lambda: from_lengths([31, 32, 33, 63, 64, 65, 0, 1] * 40, 200),
    "half_warp_lengths": lambda: from_lengths([15, 16, 17, 1, 0, 2, 3, 4, 5, 7, 8, 9] * 30, 200),
    "block_lengths": lambda: from_lengths(
        [255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049], 2100
    ),
    "equal_rows": lambda: from_lengths(np.full(4096, 7), 4096),
    "equal_rows_of_32": lambda: from_lengths(np.full(1024, 32), 500),
    "growing_rows": lambda: from_lengths(np.arange(400), 400),
    "shrinking_rows": lambda: from_lengths(np.arange(400)[::-1], 400),
    "two_populations": lambda: from_lengths(np.where(np.arange(1000) % 10 == 0, 200, 2), 1000),
    "power_law_rows": lambda: from_lengths(power_law_lengths(3000, 1500), 3000),
    "power_law_columns": lambda: from_lengths(power_law_lengths(3000, 1500), 3000).T,
    "uniform": lambda: uniform(3000, 3000, 12),
    # Sizes around warps, blocks and tiles: rows and, with one entry per row, stored entries
    **{f"rows_{n}": lambda n=n: uniform(n, 97, 3) for n in (31, 32, 33, 255, 256, 257, 1023, 1024, 1025)},
    **{f"entries_{n}": lambda n=n: from_lengths([1] * n, 64) for n in (2047, 2048, 2049, 4095, 4096, 4097)},
    **{f"one_row_of_{n}": lambda n=n: from_lengths([n], n + 1) for n in (127, 128, 129, 8191, 8192, 8193)},
    # Values
    "explicit_zeros": lambda: explicit_zeros(0.3),
    "only_explicit_zeros": lambda: explicit_zeros(2.0),
    "wide_range": wide_range,
    **SYMMETRIC_CASES,
}


def typed(A, dtype):
    """The values of a real csr_array in a type: complex ones with a factor that depends on row + column.

    So a symmetric matrix stays symmetric, and becomes complex symmetric, not Hermitian.
    """
    if np.dtype(dtype).kind != "c":
        return A.data.astype(dtype)
    places = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)) + A.indices
    return (A.data * np.array([1, 1 + 1j, 1 - 1j, 1 + 2j])[places % 4]).astype(dtype)


def hermitian(A, dtype="complex128"):
    """A Hermitian matrix with the pattern and the real parts of a symmetric one."""
    A = sp.csr_array(A)
    A.sum_duplicates()
    distance = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)) - A.indices
    data = A.data + 1j * np.sign(distance) * (np.abs(distance) % 3) * A.data
    return sp.csr_array((data.astype(dtype), A.indices, A.indptr), shape=A.shape)


@cache
def matrix(name, dtype):
    """A case as a canonical csr_array of the given type with read-only arrays."""
    A = sp.csr_array(CASES[name]())
    A.sum_duplicates()
    arrays = typed(A, dtype), A.indices.astype(np.int32), A.indptr.astype(np.int32)
    for array in arrays:
        array.flags.writeable = False
    return sp.csr_array(arrays, shape=A.shape)


def square():
    """The cases of which reordering takes a permutation of rows and columns alike."""
    return [name for name in CASES if len(set(matrix(name, np.dtype("float64")).shape)) == 1]


@cache
def integer_matrix(name, dtype):
    """The pattern of a case with values 1 to 4, whose products with small integers are exact in any order."""
    A = matrix(name, np.dtype("float64"))
    A = sp.csr_array((np.arange(A.nnz) % 4 + 1, A.indices, A.indptr), shape=A.shape)
    return sp.csr_array((typed(A, dtype), A.indices, A.indptr), shape=A.shape)


def vector(size, dtype, seed=7):
    """Random vector without entries close to zero."""
    rng = np.random.default_rng(seed)
    real = values(rng, size)
    return (real + 1j * values(rng, size) if np.dtype(dtype).kind == "c" else real).astype(dtype)


def integer_vector(size, dtype, seed=8):
    """Random integers from 1 to 4."""
    return np.random.default_rng(seed).integers(1, 5, size).astype(dtype)
