"""The paper's algorithms: rows in their order or by length, and the blocks along the diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..arguments import whole_number, with_hints
from ..inputs.canonical import canonical_csr
from ..inputs.compressed import INDEX_LIMIT
from .parts import Array, Partition, Submatrices, check_powers, partition_of, row_lengths, targets_of


@with_hints
def by_rows(A: Any, powers: Sequence[float]) -> Partition:
    """Cut the rows in their order, as many to each part as its power says (Algorithm 1, section 4.2.1).

    Line 7 of the listing divides the non-zeros, where its text and example divide the rows.
    Targets are added up before they are rounded down, so that no part is a row or more away from its target;
    the listing would leave out the rows that rounding loses.

    Parameters
    ----------
    A : matrix or array of int
        A sparse matrix as `aslinearoperator` takes it, or the lengths of its rows.
    powers : sequence of float
        Computing power of each processor, not negative, any unit. Power 0 gets no rows.

    Returns
    -------
    Partition

    Raises
    ------
    TypeError, ValueError
        For an `A` that is neither matrix nor lengths, and for powers that are negative, not finite or all 0.

    Examples
    --------
    >>> from spmvgpu import partition
    >>> partition.by_rows([9, 1, 1, 1, 2, 2, 1, 1], powers=[1, 1]).sets
    (array([0, 1, 2, 3]), array([4, 5, 6, 7]))
    """
    lengths, checked = row_lengths(A), check_powers(powers)
    ends = np.floor(targets_of(checked, len(lengths), up_to=True)).astype(np.int64)
    return partition_of(_cut(np.arange(len(lengths)), ends, checked), lengths, checked)


@with_hints
def by_nnz(A: Any, powers: Sequence[float]) -> Partition:
    """Cut the rows in their order, to parts with as many non-zeros as their powers say (Algorithm 2).

    A part ends where its non-zeros are nearest to its target; the last one takes what is left. The listings
    of section 4.2.2 and 4.2.3 go on until the target is reached, but the worked example of Algorithm 2 stops
    before. To end where it is nearest gives the sets of both examples, and rows that are long compared with a
    target are not all pushed to the first parts.

    Parameters
    ----------
    A, powers
        As in `by_rows`.

    Returns
    -------
    Partition

    Examples
    --------
    >>> from spmvgpu import partition
    >>> partition.by_nnz([9, 1, 1, 1, 2, 2, 1, 1], powers=[1, 1]).sets
    (array([0]), array([1, 2, 3, 4, 5, 6, 7]))
    """
    lengths, checked = row_lengths(A), check_powers(powers)
    ends = _ends_by_nnz(lengths, checked)
    return partition_of(_cut(np.arange(len(lengths)), ends, checked), lengths, checked)


@with_hints
def by_pmf(A: Any, powers: Sequence[float]) -> Partition:
    """Cut the rows in the order of their lengths, short ones first (Algorithm 3, section 4.2.3).

    Rows of equal length keep their order. Parts end as in `by_nnz`. Processors are served in the order of
    `powers`: those that come first get the shortest rows.

    Theorem 1 says that no partition with the same non-zeros per part has fewer elements, that is, less
    padding. Its proof takes for granted that the later part holds the longer rows. So it holds against
    partitions whose parts are in the order of their widths, and, if all parts have equally many non-zeros,
    against all. Otherwise another order of the powers may pad less: of 10 rows of length 1, 20 of 2 and one
    of 10, powers 1 and 5 make 220 elements here, and powers 5 and 1 make 70.

    Parameters
    ----------
    A, powers
        As in `by_rows`.

    Returns
    -------
    Partition

    Examples
    --------
    >>> from spmvgpu import partition
    >>> partition.by_pmf([2, 5, 3, 7, 1, 5, 2, 6], powers=[1, 3]).sets
    (array([0, 2, 4, 6]), array([1, 3, 5, 7]))
    """
    lengths, checked = row_lengths(A), check_powers(powers)
    order = _by_length(lengths)
    ends = _ends_by_nnz(lengths[order], checked)
    return partition_of(_cut(order, ends, checked), lengths, checked)


@with_hints
def by_submatrices(A: Any, powers: Sequence[float] = (1, 1), *, block_size: int = 32) -> Submatrices:
    """Split off the blocks along the diagonal, to be stored by diagonals (Algorithm 4, section 4.2.4).

    An entry belongs to the blocks if its row and column, divided by `block_size`, give the same whole number.
    The listing tests ``c > (r mod B) * B`` and ``c < (r mod B + 1) * B``, where the quotient is meant and not
    the remainder, and where ``>`` would leave out the first column of every block; and it calls A's entries
    rows.

    Parameters
    ----------
    A : matrix
        A sparse matrix as `aslinearoperator` takes it.
    powers : two floats
        Powers of the processors of the blocks and of the rest. The algorithm takes no notice of them: they
        only say how well the parts match (`Submatrices.relative_difference`).
    block_size : int
        Rows and columns of a block; the paper takes a warp, 32, or half of one.

    Returns
    -------
    Submatrices

    Examples
    --------
    >>> from spmvgpu import partition
    >>> from spmvgpu import gallery
    >>> A = gallery.poisson2d(8)
    >>> parts = partition.by_submatrices(A, block_size=8)
    >>> float(abs(parts.blocks + parts.remainder - A).max())
    0.0
    """
    block_size = whole_number("block_size", block_size, 1, INDEX_LIMIT)
    checked = check_powers(powers)
    if len(checked) != 2:
        raise ValueError(f"there are {len(checked)} powers; give two, for the blocks and for the rest")
    matrix = canonical_csr(A)
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))
    inside = rows // block_size == matrix.indices // block_size
    blocks, remainder = _entries(matrix, inside), _entries(matrix, ~inside)
    offsets = np.unique(matrix.indices[inside] - rows[inside])
    nnz = np.array([blocks.nnz, remainder.nnz])
    return Submatrices(
        powers=checked,
        rows=np.full(2, matrix.shape[0]),
        nnz=nnz,
        elements=np.array([len(offsets) * matrix.shape[0], remainder.nnz]),
        block_size=block_size,
        offsets=offsets,
        blocks=blocks,
        remainder=remainder,
    )


def pmf(A: Any) -> tuple[Array, Array]:
    """The probability mass function of the row lengths (Definition 1, section 3.1).

    Parameters
    ----------
    A : matrix or array of int
        As in `by_rows`.

    Returns
    -------
    lengths : array of int
        Those that occur, ascending.
    probabilities : array of float
        Fraction of the rows that have each.

    Examples
    --------
    >>> from spmvgpu import partition
    >>> partition.pmf([1, 2, 2, 5])
    (array([1, 2, 5]), array([0.25, 0.5 , 0.25]))
    """
    lengths = row_lengths(A)
    occurring, counts = np.unique(lengths, return_counts=True)
    return occurring, counts / max(len(lengths), 1)


def _by_length(lengths: Array) -> Array:
    """The rows in the order of their lengths; rows of equal length keep their order."""
    if len(lengths) and lengths.max() <= np.iinfo(np.uint16).max:
        lengths = lengths.astype(np.uint16)  # which NumPy sorts by counting
    return np.argsort(lengths, kind="stable")


def _ends_by_nnz(lengths: Array, powers: Array) -> Array:
    """Where each part ends if its non-zeros shall come nearest to its target."""
    before = np.concatenate(([0], np.cumsum(lengths)))  # non-zeros of all rows before each
    ends = np.zeros(len(powers), dtype=np.int64)
    begin = 0
    for part, target in enumerate(targets_of(powers, int(before[-1]))):
        if target > 0:
            wanted = before[begin] + target
            end = min(int(np.searchsorted(before, wanted)), len(lengths))
            if before[end] - wanted >= wanted - before[end - 1]:
                end -= 1
            begin = end
        ends[part] = begin
    return ends


def _cut(order: Array, ends: Array, powers: Array) -> tuple[Array, ...]:
    """The rows of each part in ascending order; what is left over goes to the last one that has power."""
    ends[np.flatnonzero(powers)[-1] :] = len(order)
    return tuple(np.sort(rows) for rows in np.split(order, ends[:-1]))


def _entries(matrix: Any, kept: Array) -> Any:
    """The matrix with some of its entries only."""
    counted = np.concatenate(([0], np.cumsum(kept)))
    arrays = (matrix.data[kept], matrix.indices[kept], counted[matrix.indptr].astype(matrix.indptr.dtype))
    return sp.csr_array(arrays, shape=matrix.shape)
