"""Contiguous ranges of rows or vector entries, one per rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .._util.arguments import whole_number
from .._util.types import HostArray
from .communicators import Communicator, mpi, private
from .errors import agreement, check_same

#: First index of each rank, and the number of indices.
Offsets: TypeAlias = "Ranges | Sequence[int] | HostArray"

_LARGEST = 2**63 - 1


class Ranges:
    """Contiguous ranges of indices, one per rank.

    Parameters
    ----------
    comm : mpi4py communicator
    offsets : (ranks + 1,) sequence of int, or Ranges
        First index of each rank, and the number of indices.

    Attributes
    ----------
    comm : mpi4py communicator
        A duplicate of the given one.
    offsets : (ranks + 1,) array of int64
        First index of each rank, and the number of indices. Read-only.
    begin, end : int
        Range of this rank.

    Raises
    ------
    TypeError, ValueError
        If `offsets` does not start at 0, is not ascending, has another length, or differs between ranks.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> from spmvgpu import distributed
    >>> ranges = distributed.Ranges.even(MPI.COMM_SELF, 6)
    >>> ranges.begin, ranges.end, len(ranges)
    (0, 6, 6)
    """

    def __init__(self, comm: Communicator, offsets: Offsets) -> None:
        self.comm = private(comm)
        with agreement(self.comm):
            self.offsets = checked_offsets(offsets, self.comm.size)
        self.offsets.flags.writeable = False
        check_same(self.comm, offsets=self.offsets.tolist())
        self.begin, self.end = map(int, self.offsets[self.comm.rank : self.comm.rank + 2])

    @classmethod
    def even(cls, comm: Communicator, total: int) -> Ranges:
        """Divide the indices evenly among the ranks.

        Parameters
        ----------
        comm : mpi4py communicator
        total : int
            Number of indices.

        Returns
        -------
        Ranges

        Raises
        ------
        TypeError, ValueError
            If `total` is not an integer, or is negative.

        Examples
        --------
        >>> from mpi4py import MPI
        >>> from spmvgpu import distributed
        >>> distributed.Ranges.even(MPI.COMM_SELF, 6).offsets
        array([0, 6])
        """
        own = private(comm)
        with agreement(own):
            total = whole_number("total", total, 0, _LARGEST)
        size = own.size
        return cls(own, [total // size * rank + min(rank, total % size) for rank in range(size + 1)])

    @classmethod
    def from_counts(cls, comm: Communicator, count: int) -> Ranges:
        """Make ranges from the number of indices of each rank.

        Parameters
        ----------
        comm : mpi4py communicator
        count : int
            Number of indices of this rank.

        Returns
        -------
        Ranges

        Raises
        ------
        TypeError, ValueError
            If `count` is not an integer, or is negative.

        Examples
        --------
        >>> from mpi4py import MPI
        >>> from spmvgpu import distributed
        >>> distributed.Ranges.from_counts(MPI.COMM_SELF, 6)
        <Ranges of 6 over 1 ranks, 0:6 here>
        """
        own = private(comm)
        with agreement(own):
            count = whole_number("count", count, 0, _LARGEST)
        return cls(own, np.concatenate(([0], np.cumsum(own.allgather(count)))))

    @property
    def total(self) -> int:
        """Number of indices of all ranks."""
        return int(self.offsets[-1])

    def __len__(self) -> int:
        return self.end - self.begin

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and np.array_equal(self.offsets, other.offsets)

    def __repr__(self) -> str:
        return f"<Ranges of {self.total} over {self.comm.size} ranks, {self.begin}:{self.end} here>"

    def owners(self, indices: HostArray) -> HostArray:
        """Return the rank that holds each index.

        Parameters
        ----------
        indices : array of int

        Returns
        -------
        array of int

        Examples
        --------
        >>> from mpi4py import MPI
        >>> from spmvgpu import distributed
        >>> distributed.Ranges.even(MPI.COMM_SELF, 6).owners([0, 5])
        array([0, 0])
        """
        return np.searchsorted(self.offsets, indices, side="right") - 1

    def scatter(self, whole: npt.ArrayLike | None, root: int = 0) -> HostArray:
        """Distribute a vector, or the rows of a 2-D array, from rank `root`.

        Parameters
        ----------
        whole : (total,) or (total, k) array
            On rank `root`, in host memory. None on the others.
        root : int, default 0

        Returns
        -------
        (len(ranges),) or (len(ranges), k) numpy.ndarray
            Piece of this rank.

        Raises
        ------
        ValueError
            On all ranks, if `whole` has another shape or is not numeric.

        Examples
        --------
        >>> from mpi4py import MPI
        >>> from spmvgpu import distributed
        >>> distributed.Ranges.even(MPI.COMM_SELF, 3).scatter([1.0, 2.0, 3.0])
        array([1., 2., 3.])
        """
        source = None
        with agreement(self.comm):
            if self.comm.rank == root:
                source = _numeric("whole", whole, self.total)
        kind = None if source is None else (source.shape[1:], source.dtype)
        columns, dtype = self.comm.bcast(kind, root)
        piece = np.empty((len(self), *columns), dtype)
        self.comm.Scatterv(None if source is None else [source, self._counts(columns)], piece, root)
        return piece

    def gather(self, piece: npt.ArrayLike, root: int | None = 0) -> HostArray | None:
        """Collect a vector, or the rows of a 2-D array, on rank `root`.

        Parameters
        ----------
        piece : (len(ranges),) or (len(ranges), k) array
            In host memory.
        root : int or None, default 0
            None: every rank gets the whole.

        Returns
        -------
        (total,) or (total, k) numpy.ndarray, or None
            None on the ranks that do not get the whole.

        Raises
        ------
        ValueError
            On all ranks, if a piece has another shape or is not numeric.

        Examples
        --------
        >>> from mpi4py import MPI
        >>> from spmvgpu import distributed
        >>> distributed.Ranges.even(MPI.COMM_SELF, 3).gather([1.0, 2.0, 3.0])
        array([1., 2., 3.])
        """
        with agreement(self.comm):
            own = _numeric("piece", piece, len(self))
        columns = own.shape[1:]
        check_same(self.comm, columns=columns)
        own = own.astype(np.result_type(*self.comm.allgather(own.dtype)), copy=False)
        if root is not None and self.comm.rank != root:
            self.comm.Gatherv(own, None, root)
            return None
        whole = np.empty((self.total, *columns), own.dtype)
        target = [whole, self._counts(columns)]
        if root is None:
            self.comm.Allgatherv(own, target)
        else:
            self.comm.Gatherv(own, target, root)
        return whole

    def _counts(self, columns: tuple[int, ...]) -> HostArray:
        """How many numbers each rank has of an array with these columns."""
        return np.diff(self.offsets) * math.prod(columns)


def _numeric(name: str, given: npt.ArrayLike | None, length: int) -> HostArray:
    """A contiguous array of `length` entries or rows, or ValueError."""
    array = np.asarray(given, order="C")
    if array.ndim not in (1, 2) or len(array) != length or array.dtype.kind not in "biufc":
        raise ValueError(
            f"{name} must be numeric and have shape ({length},) or ({length}, k); it has shape {array.shape} "
            f"and dtype {array.dtype}"
        )
    return array


def balanced(ranges: Ranges, weights: HostArray) -> Ranges:
    """Return ranges of about the same weight, each cut where the sum of weights is nearest to its share.

    No rank sees more weights than its own.

    Parameters
    ----------
    ranges : Ranges
        Indices whose weights each rank has.
    weights : (len(ranges),) array of int
    """
    comm = ranges.comm
    sums = np.cumsum(weights, dtype=np.int64)
    own = int(sums[-1]) if len(sums) else 0
    before, total = int(comm.exscan(own) or 0), comm.allreduce(own)
    if total == 0 or comm.size == 1:
        return ranges
    shares = np.array([total * rank // comm.size for rank in range(1, comm.size)], np.int64) - before
    # The first index at which the sum reaches the share, if that is here, and the one before if it is nearer.
    at = np.searchsorted(sums, shares)
    here = (shares > 0) & (at < len(sums))
    at, shares = at[here], shares[here]
    over, under = sums[at] - shares, shares - (sums[at] - np.asarray(weights)[at])
    cuts = np.zeros(comm.size - 1, np.int64)
    cuts[here] = ranges.begin + at + (over < under)
    everywhere = np.empty_like(cuts)
    comm.Allreduce(cuts, everywhere, mpi().MAX)
    return Ranges(comm, np.concatenate(([0], np.maximum.accumulate(everywhere), [ranges.total])))


def checked_offsets(given: Offsets, size: int, total: int | None = None) -> HostArray:
    """Offsets for `size` ranks, and for `total` indices if that is given.

    Raises
    ------
    TypeError, ValueError
        If the given ones are no such offsets.
    """
    allowed = f"give the first index of each of the {size} ranks and the end: {size + 1} whole numbers"
    offsets = given.offsets if isinstance(given, Ranges) else np.asarray(given)
    if offsets.ndim != 1 or offsets.dtype.kind not in "iu":
        raise TypeError(f"offsets={given!r} is not allowed; {allowed}")
    offsets = offsets.astype(np.int64)
    if len(offsets) != size + 1 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise ValueError(f"offsets={offsets.tolist()} is not allowed; {allowed}, ascending from 0")
    if total is not None and offsets[-1] != total:
        raise ValueError(f"the ranges end at {offsets[-1]}; they must end at {total}, the number of rows")
    return offsets
