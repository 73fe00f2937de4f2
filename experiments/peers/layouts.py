"""Storage formats as cuSPARSE expects them, made from CSR arrays by NumPy or, much faster, CuPy (`xp`)."""

from __future__ import annotations

from typing import Any

from .base import NotApplicableError

SLICE_ROWS = 32
MAX_PADDING = 6.0
MIN_BLOCK_FILL = 0.9
SAMPLE_ENTRIES = 200_000


def row_of_entry(xp: Any, indptr: Any, first: int, last: int) -> Any:
    """Row index of each of the entries `first` to `last`."""
    return xp.searchsorted(indptr, xp.arange(first, last, dtype=indptr.dtype), side="right") - 1


def sliced_ell(xp: Any, indptr: Any, indices: Any, data: Any) -> tuple[Any, Any, Any]:
    """Slice offsets, columns and values of SELL with slices of 32 rows; padding has column -1 and value 0.

    Within a slice the arrays run down the columns: entry k of row r is at ``offset[r//32] + 32*k + r%32``.
    """
    rows, nnz = len(indptr) - 1, len(indices)
    slices = -(-rows // SLICE_ROWS)
    lengths = xp.zeros(slices * SLICE_ROWS, dtype=xp.int64)
    lengths[:rows] = xp.diff(indptr)
    widths = lengths.reshape(slices, SLICE_ROWS).max(axis=1)
    offsets = xp.zeros(slices + 1, dtype=xp.int64)
    offsets[1:] = xp.cumsum(widths) * SLICE_ROWS
    slots = int(offsets[-1])
    if slots > MAX_PADDING * nnz:
        raise NotApplicableError(f"padding is {slots / max(nnz, 1):.1f}x the entries, limit {MAX_PADDING:g}x")
    if slots >= 2**31:
        raise NotApplicableError(f"{slots} slots do not fit 32-bit offsets")
    row = row_of_entry(xp, indptr, 0, nnz)
    place = (xp.arange(nnz, dtype=xp.int64) - indptr[row]) * SLICE_ROWS
    place += offsets[row // SLICE_ROWS]
    place += row % SLICE_ROWS
    columns = xp.full(slots, -1, dtype=xp.int32)
    columns[place] = indices
    values = xp.zeros(slots, dtype=data.dtype)
    values[place] = data
    return offsets.astype(xp.int32), columns, values


def dense_block_size(xp: Any, indptr: Any, indices: Any, shape: tuple[int, int]) -> int:
    """Side of the largest dense blocks that the matrix is made of; `NotApplicableError` if there are none."""
    rows, cols = shape
    nnz = len(indices)
    best = 0.0
    for side in (6, 3, 2):
        if rows % side or cols % side:
            continue
        # A few leading block rows first: most matrices are turned down by them.
        head = int((indptr[1:] <= SAMPLE_ENTRIES).sum()) // side * side
        for stop in dict.fromkeys((int(indptr[max(head, side)]), nnz)):
            keys = _block_keys(xp, indptr, indices, cols, side, stop)
            fill = stop / (max(len(xp.unique(keys)), 1) * side * side)
            if fill < MIN_BLOCK_FILL:
                break
        else:
            return side
        best = max(best, fill)
    raise NotApplicableError(
        f"no dense 6x6, 3x3 or 2x2 blocks (best fill {best:.2f}, needed {MIN_BLOCK_FILL:g})"
    )


def block_csr(xp: Any, indptr: Any, indices: Any, data: Any, cols: int, side: int) -> tuple[Any, Any, Any]:
    """Block row offsets, block columns and values (row by row within each block) of BSR."""
    nnz, block_rows = len(indices), (len(indptr) - 1) // side
    keys, block = xp.unique(_block_keys(xp, indptr, indices, cols, side, nnz), return_inverse=True)
    block_cols = cols // side
    columns = (keys % block_cols).astype(xp.int32)
    offsets = xp.zeros(block_rows + 1, dtype=xp.int32)
    offsets[1:] = xp.cumsum(xp.bincount(keys // block_cols, minlength=block_rows))
    row = row_of_entry(xp, indptr, 0, nnz)
    values = xp.zeros(len(keys) * side * side, dtype=data.dtype)
    values[block.reshape(-1) * (side * side) + (row % side) * side + indices % side] = data
    return offsets, columns, values


def _block_keys(xp: Any, indptr: Any, indices: Any, cols: int, side: int, stop: int) -> Any:
    """One number per entry that tells its block, ascending by block row and then block column."""
    row = row_of_entry(xp, indptr, 0, stop)
    return (row // side).astype(xp.int64) * (cols // side) + indices[:stop] // side
