"""Partitions of the rows in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._util.arguments import with_hints
from .parts import Array, Partition, check_powers, partition_of, row_lengths, targets_of


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
    return partition_of(cut(np.arange(len(lengths)), ends, checked), lengths, checked)


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
    ends = ends_by_nnz(lengths, checked)
    return partition_of(cut(np.arange(len(lengths)), ends, checked), lengths, checked)


def ends_by_nnz(lengths: Array, powers: Array) -> Array:
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


def cut(order: Array, ends: Array, powers: Array) -> tuple[Array, ...]:
    """The rows of each part in ascending order; what is left over goes to the last one that has power."""
    ends[np.flatnonzero(powers)[-1] :] = len(order)
    return tuple(np.sort(rows) for rows in np.split(order, ends[:-1]))
