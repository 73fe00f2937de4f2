"""The algorithms of the paper: rows in their order or by length, and blocks on the diagonal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._util.arguments import whole_number, with_hints
from ..inputs.canonical import canonical_csr
from ..inputs.compressed import INDEX_LIMIT
from .parts import Array, Partition, Submatrices, check_powers, partition_of, row_lengths, targets_of


@with_hints
def by_rows(A: Any, powers: Sequence[float]) -> Partition:
    """Divide the rows in their order, with a number of rows proportional to each power.

    This is Algorithm 1, section 4.2.1.

    Parameters
    ----------
    A : matrix or array of int
        A sparse matrix as in `aslinearoperator`, or the row lengths.
    powers : sequence of float
        Computing power of each processor, in any unit, not negative. A processor of power 0 gets no rows.

    Returns
    -------
    Partition

    Raises
    ------
    TypeError, ValueError
        If `A` is neither a matrix nor row lengths, or if `powers` has a negative or infinite value, or only
        zeros.

    Notes
    -----
    Line 7 of the listing divides the non-zeros. The text and the example divide the rows, and so does this
    function. Targets are summed before they are rounded, so that no part is a row or more from its target.
    The listing would leave rows out.

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
    """Divide the rows in their order, with a number of non-zeros proportional to each power.

    This is Algorithm 2, section 4.2.2.

    Parameters
    ----------
    A, powers
        As in `by_rows`.

    Returns
    -------
    Partition

    Raises
    ------
    TypeError, ValueError
        As `by_rows`.

    Notes
    -----
    A part ends at the row where its number of non-zeros is nearest to the target. The last part takes the
    remaining rows. The listings of sections 4.2.2 and 4.2.3 continue until the target is reached, but the
    example of Algorithm 2 stops before it. The nearest row gives the sets of both examples.

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
    """Divide the rows in ascending order of length, with non-zeros proportional to each power.

    This is Algorithm 3, section 4.2.3.

    Parameters
    ----------
    A, powers
        As in `by_rows`. The first processor gets the shortest rows.

    Returns
    -------
    Partition

    Raises
    ------
    TypeError, ValueError
        As `by_rows`.

    Notes
    -----
    Rows of equal length keep their order. Parts end as in `by_nnz`.

    Theorem 1 states that no partition with the same non-zeros per part has less padding. The proof assumes
    that later parts hold longer rows. If the parts have different numbers of non-zeros, another order of the
    powers can pad less. Take 10 rows of length 1, 20 of length 2 and one of length 10: powers 1 and 5 give
    220 elements, and powers 5 and 1 give 70.

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
    """Separate the blocks on the diagonal from the other entries.

    This is Algorithm 4, section 4.2.4. The blocks are stored by diagonals, the remainder as CSR.

    Parameters
    ----------
    A : matrix
        A sparse matrix as in `aslinearoperator`.
    powers : sequence of 2 float, default (1, 1)
        Computing power of the processors of the blocks and of the remainder. Only
        `Submatrices.relative_difference` uses them.
    block_size : int, default 32
        Rows and columns of a block. The paper uses a warp, 32, or half a warp.

    Returns
    -------
    Submatrices

    Raises
    ------
    TypeError, ValueError
        If `A` is not a matrix, or if `powers` or `block_size` is out of range.

    Notes
    -----
    An entry belongs to a block if ``row // block_size == column // block_size``. The listing uses the
    remainder in place of the quotient, and would leave out the first column of each block.

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
        raise ValueError(
            f"there are {len(checked)} powers; give two, one for the blocks and one for the remainder"
        )
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
    """Return the probability mass function of the row lengths (Definition 1, section 3.1).

    Parameters
    ----------
    A : matrix or array of int
        As in `by_rows`.

    Returns
    -------
    lengths : array of int
        Row lengths that occur, ascending.
    probabilities : array of float
        Fraction of the rows with each length.

    Raises
    ------
    TypeError, ValueError
        As `row_lengths`.

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
