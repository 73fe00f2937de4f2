"""A generated matrix that stands in for one that is not at hand: same size, non-zeros and row lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array = npt.NDArray[Any]


def stand_in(
    rows: int,
    cols: int,
    nnz: int,
    *,
    shortest: int = 0,
    longest: int,
    spread: float,
    window: int | None = None,
    dtype: npt.DTypeLike = np.float64,
    seed: int = 0,
) -> sp.csr_array:
    """A matrix with the given number of entries and the given spread of row lengths.

    Parameters
    ----------
    rows, cols : int
        Its shape.
    nnz : int
        Stored entries, met exactly.
    shortest, longest : int
        Entries of the shortest and the longest row, both met exactly.
    spread : float
        Standard deviation of the row lengths, about. The lengths follow the beta distribution that has this
        spread, the mean ``nnz / rows`` and the range ``[shortest, longest]``: it covers even rows, a tail of
        long ones (graphs, circuits) and a tail of short ones (meshes with boundaries).
    window : int, optional
        Columns around the diagonal that a row's entries are spread over evenly; a longer row fills its own
        length. All columns without it.
    dtype : dtype
        Type of the values, which are random in [-1, 1).
    seed : int
        Seed of all random choices.

    Returns
    -------
    scipy.sparse.csr_array
        Canonical.
    """
    rng = np.random.default_rng(seed)
    lengths = _row_lengths(rng, rows, nnz, shortest, min(longest, cols), spread)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    columns = _columns(rng, lengths, offsets, cols, window)
    values = rng.uniform(-1, 1, nnz).astype(dtype, copy=False)
    index_type = np.int32 if max(nnz, cols) <= np.iinfo(np.int32).max else np.int64
    matrix = sp.csr_array(
        (values, columns.astype(index_type), offsets.astype(index_type)), shape=(rows, cols)
    )
    matrix.has_canonical_format = True
    return matrix


def _row_lengths(
    rng: np.random.Generator, rows: int, nnz: int, shortest: int, longest: int, spread: float
) -> Array:
    """`rows` lengths that sum to `nnz`."""
    if not 0 <= shortest <= longest or not rows * shortest <= nnz <= rows * longest:
        raise ValueError(f"{nnz} entries do not fit {rows} rows of {shortest} to {longest} entries")
    if shortest == longest or rows < 3:
        lengths = np.full(rows, nnz // max(rows, 1), dtype=np.int64)
        lengths[: nnz - int(lengths.sum())] += 1
        return lengths
    reach = longest - shortest
    mean = (nnz / rows - shortest) / reach  # of the lengths scaled to [0, 1], as is the variance
    variance = (spread / reach) ** 2
    weight = mean * (1 - mean) / variance - 1 if variance > 0 else np.inf
    if not weight > 0:
        raise ValueError(
            f"rows of {shortest} to {longest} entries, {nnz / rows:.4g} on average, cannot have a spread of"
            f" {spread}"
        )
    scaled = np.full(rows, mean) if np.isinf(weight) else rng.beta(mean * weight, (1 - mean) * weight, rows)
    # Rounded up or down at random, which keeps the mean.
    lengths = np.clip((shortest + reach * scaled + rng.random(rows)).astype(np.int64), shortest, longest)
    extremes = rng.choice(rows, 2, replace=False)
    lengths[extremes] = longest, shortest
    free = np.ones(rows, dtype=bool)
    free[extremes] = False
    while missing := nnz - int(lengths.sum()):
        step = 1 if missing > 0 else -1
        room = np.flatnonzero(free & (lengths != (longest if step > 0 else shortest)))
        if len(room) == 0:
            raise ValueError(
                f"{nnz} entries leave no room for a row of {longest} and one of {shortest} entries"
            )
        lengths[rng.choice(room, min(abs(missing), len(room)), replace=False)] += step
    return lengths


def _columns(
    rng: np.random.Generator, lengths: Array, offsets: Array, cols: int, window: int | None
) -> Array:
    """Ascending, distinct columns: a row's window is cut into pieces, with an entry in each."""
    rows = len(lengths)
    span = np.clip(lengths, min(window or cols, cols), cols)
    first = np.clip(np.arange(rows) * cols // max(rows, 1) - span // 2, 0, cols - span)
    slot = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    span_of, length_of = np.repeat(span, lengths), np.repeat(lengths, lengths)
    begin = slot * span_of // length_of
    size = (slot + 1) * span_of // length_of - begin
    columns: Array = np.repeat(first, lengths) + begin + (rng.random(len(slot)) * size).astype(np.int64)
    return columns
