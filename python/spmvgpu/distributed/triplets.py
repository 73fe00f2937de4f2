"""Entries of a matrix that lie on any rank, sent to the ranks whose rows they are in."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .ranges import Ranges, balanced

Array = npt.NDArray[Any]


def collect_rows(ranges: Ranges, row: Array, col: Array, data: Array, cols: int) -> sp.csr_array:
    """This rank's rows; entries at the same place are added in the order of the ranks that had them."""
    row, col, data = _send(ranges, ranges.owners(row), row, col, data)
    shape = (len(ranges), cols)
    return sp.csr_array(sp.coo_array((data, (row - ranges.begin, col)), shape=shape))


def ranges_by_nnz(ranges: Ranges, row: Array) -> Ranges:
    """Ranges with about as many entries for each rank; duplicates count as often as they are there.

    Parameters
    ----------
    ranges : Ranges
        Of all rows, in any division; each rank counts the entries of its own.
    row : array of int64
        Rows of the entries that this rank has, in any order.
    """
    row, count = np.unique(row, return_counts=True)
    row, count = _send(ranges, ranges.owners(row), row, count)
    lengths = np.bincount(row - ranges.begin, weights=count, minlength=len(ranges)).astype(np.int64)
    return balanced(ranges, lengths)


def _send(ranges: Ranges, to: Array, *arrays: Array) -> list[Array]:
    """Give each entry of the arrays to a rank; what comes is in the order of the ranks that it comes from."""
    comm = ranges.comm
    order = np.argsort(to, kind="stable")
    counts = np.bincount(to, minlength=comm.size).astype(np.int64)
    coming = np.empty_like(counts)
    comm.Alltoall(counts, coming)
    received = []
    for array in arrays:
        target = np.empty(int(coming.sum()), array.dtype)
        comm.Alltoallv([array[order], counts], [target, coming])
        received.append(target)
    return received
