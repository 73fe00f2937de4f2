"""Partitions of the rows of a matrix: where to cut, and how large the parts are, with their padding."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from .._util.arguments import real_number, whole_number, with_hints
from .._util.show import Brief
from .._util.types import HostArray
from ..arrays import as_array
from ..inputs.canonical import canonical_csr
from ..inputs.limits import INDEX_LIMIT
from ..inputs.rows import OffsetsThere
from ..planning.parts import check_sets


@dataclass(frozen=True, eq=False, repr=False)
class Parts(Brief, ABC):
    """Sizes of the parts of a matrix, with the attributes that `Partition` describes."""

    powers: HostArray
    rows: HostArray
    nnz: HostArray
    elements: HostArray

    @property
    def density(self) -> HostArray:
        """Non-zeros per slot of each part, D(A_i), formula (6). 1 for a part without slots."""
        return np.divide(self.nnz, self.elements, where=self.elements > 0, out=np.ones(len(self.nnz)))

    @property
    def fill(self) -> HostArray:
        """Fraction of padded slots of each part, F(A_i) = 1 - D(A_i)."""
        return 1 - self.density

    @property
    def mean_density(self) -> float:
        """Non-zeros per slot of all parts together, formula (7)."""
        elements = int(self.elements.sum())
        return int(self.nnz.sum()) / elements if elements else 1.0

    @property
    def mean_fill(self) -> float:
        """Fraction of padded slots of all parts together, formula (9)."""
        return 1 - self.mean_density

    @property
    def relative_difference(self) -> float:
        """Deviation of the parts from the targets of their processors, in per cent (section 7.2.1).

        This is the sum over the parts of ``abs(nnz - target) / target``. The paper prints it without absolute
        values. Parts of power 0 have no target and are left out.
        """
        targets = targets_of(self.powers, int(self.nnz.sum()))
        counted = targets > 0
        return 100 * float(np.sum(np.abs(self.nnz - targets)[counted] / targets[counted]))

    @abstractmethod
    def storage(self, value_size: int = 8, index_size: int = 4) -> HostArray:
        """Return the bytes of each part."""

    def transfer_time(self, bus_rate: float, value_size: int = 8, index_size: int = 4) -> float:
        """Return the time to send all parts to the devices in seconds, T_t, formula (13).

        Parameters
        ----------
        bus_rate : float
            Bytes per second.
        value_size : int, default 8
            Bytes of a value.
        index_size : int, default 4
            Bytes of an index.

        Returns
        -------
        float

        Raises
        ------
        TypeError, ValueError
            If an argument is out of range.

        Examples
        --------
        >>> from spmvgpu import partition
        >>> partition.by_rows([2, 5, 3, 7], powers=[1, 1]).transfer_time(bus_rate=1e9)
        3.04e-07
        """
        allowed = "a positive number of bytes per second"
        real_number("bus_rate", bus_rate, allowed, lambda rate: rate > 0)
        return float(self.storage(value_size, index_size).sum() / bus_rate)


@dataclass(frozen=True, eq=False, repr=False)
class Partition(Parts):
    """The rows of a matrix in K sets, the row vector sets of the paper (section 3).

    `by_rows`, `by_nnz` and `by_pmf` return a partition. `from_sets` makes one from given sets. Each array has
    one entry per part.

    Attributes
    ----------
    powers : array of float
        Computing power of each processor, CP_i.
    rows : array of int
        Number of rows, N(A_i).
    nnz : array of int
        Number of non-zeros, NNZ(A_i), formula (3).
    elements : array of int
        Number of slots if each row is padded to the longest, E(A_i), formula (5).
    width : array of int
        Length of the longest row, W(A_i), formula (4).
    sets : tuple of arrays of int
        Rows of each part, ascending. Each row of the matrix is in exactly one set.

    Examples
    --------
    >>> from spmvgpu import partition
    >>> parts = partition.by_rows([2, 5, 3, 7], powers=[1, 1])
    >>> parts.nnz, parts.elements, round(parts.mean_density, 2)
    (array([ 7, 10]), array([10, 14]), 0.71)
    """

    width: HostArray
    sets: tuple[HostArray, ...] = field(repr=False)

    @classmethod
    def from_sets(cls, sets: Sequence[object], lengths: object, powers: object = None) -> Partition:
        """Make a partition from given sets of rows.

        Parameters
        ----------
        sets : sequence of arrays of int
            Rows of each part.
        lengths : matrix or array of int
            The matrix, or its row lengths.
        powers : sequence of float, optional
            Computing power of each processor. By default all are equal.

        Returns
        -------
        Partition

        Raises
        ------
        TypeError
            If an argument is not of these types.
        ValueError
            If a row is in no set or in several, or if the number of powers is not the number of sets.

        Examples
        --------
        >>> from spmvgpu import partition
        >>> parts = partition.Partition.from_sets([[0, 2], [1, 3]], lengths=[2, 5, 3, 7])
        >>> parts.nnz
        array([ 5, 12])
        """
        if not isinstance(lengths, list | tuple) and not hasattr(lengths, "shape"):
            raise TypeError(f"lengths={lengths!r} is not allowed; give a matrix or its row lengths")
        lengths = row_lengths(lengths)
        if isinstance(sets, str) or not isinstance(sets, Sequence | np.ndarray) or len(sets) == 0:
            raise TypeError(f"sets must be a sequence of row numbers for each part, not {sets!r}")
        parts = tuple(np.sort(_row_indices(rows)) for rows in sets)
        powers = check_powers(np.ones(len(parts)) if powers is None else powers)
        if len(powers) != len(parts):
            raise ValueError(f"there are {len(parts)} sets and {len(powers)} powers; give one power per set")
        check_sets(parts, len(lengths), "the sets must")
        return _partition_of(parts, lengths, powers)

    def check_rows(self, count: int) -> None:
        """Check that the sets hold each row of a matrix once.

        Parameters
        ----------
        count : int
            Number of rows of the matrix.

        Raises
        ------
        ValueError
            If they do not.

        Examples
        --------
        >>> from spmvgpu import partition
        >>> partition.by_rows([2, 5, 3, 7], powers=[1, 1]).check_rows(4)
        """
        count = whole_number("count", count, 0, INDEX_LIMIT)
        check_sets(self.sets, count, "the partition belongs to another matrix: its sets must")

    def storage(self, value_size: int = 8, index_size: int = 4) -> HostArray:
        """Return the bytes of each part in ELLPACK with row lengths, DS(A_i), formula (12).

        Parameters
        ----------
        value_size : int, default 8
            Bytes of a value.
        index_size : int, default 4
            Bytes of an index.

        Returns
        -------
        array of int

        Raises
        ------
        TypeError, ValueError
            If an argument is out of range.

        Examples
        --------
        >>> from spmvgpu import partition
        >>> partition.by_rows([2, 5, 3, 7], powers=[1, 1]).storage()
        array([128, 176])
        """
        check_sizes(value_size, index_size)
        storage: HostArray = self.elements * (value_size + index_size) + self.rows * index_size
        return storage


@with_hints
def by_rows(A: object, powers: Sequence[float]) -> Partition:
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
    return _neighbours(ends_by_rows, A, powers)


@with_hints
def by_nnz(A: object, powers: Sequence[float]) -> Partition:
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
    return _neighbours(ends_by_nnz, A, powers)


def row_lengths(A: object) -> HostArray:
    """Return the number of entries of each row of a matrix.

    Duplicate entries count once.

    Parameters
    ----------
    A : matrix or array of int
        A sparse matrix as in `aslinearoperator`, or row lengths. Row lengths are checked and returned.

    Returns
    -------
    (m,) array of int64

    Raises
    ------
    TypeError, ValueError
        If `A` is neither a matrix nor row lengths.

    Examples
    --------
    >>> from spmvgpu import partition
    >>> from spmvgpu import gallery
    >>> partition.row_lengths(gallery.poisson1d(4))
    array([2, 3, 3, 2])
    """
    if isinstance(A, tuple) and any(isinstance(entry, Sequence | np.ndarray) for entry in A):
        raise TypeError("CSR arrays need a shape: give csr_array((data, indices, indptr), shape=...)")
    if isinstance(A, list | tuple | np.ndarray) and (lengths := as_array("A", A)).ndim == 1:
        if lengths.size and lengths.dtype.kind not in "iu":
            raise TypeError(f"A holds row lengths, which must be integers, not {lengths.dtype}")
        if lengths.size and lengths.min() < 0:
            row = int(np.argmax(lengths < 0))
            raise ValueError(f"A holds row lengths, which must not be negative; row {row} has {lengths[row]}")
        return lengths.astype(np.int64)
    row_offsets: HostArray = canonical_csr(A).indptr
    return np.diff(row_offsets).astype(np.int64)


def _partition_of(sets: tuple[HostArray, ...], lengths: HostArray, powers: HostArray) -> Partition:
    """The partition with these rows in each part."""
    rows = np.array([len(part) for part in sets], dtype=np.int64)
    nnz = np.array([lengths[part].sum() for part in sets], dtype=np.int64)
    width = np.array([lengths[part].max(initial=0) for part in sets], dtype=np.int64)
    return Partition(powers=powers, rows=rows, nnz=nnz, elements=rows * width, width=width, sets=sets)


def ends_by_rows(offsets: HostArray | OffsetsThere, powers: HostArray) -> HostArray:
    """Where each part ends in rows with these offsets, with a number of rows proportional to each power."""
    rows = len(offsets) - 1
    ends = np.floor(targets_of(powers, rows, up_to=True)).astype(np.int64)
    return _to_the_last(ends, rows, powers)


def ends_by_nnz(offsets: HostArray | OffsetsThere, powers: HostArray) -> HostArray:
    """The same with a number of non-zeros nearest to what is proportional to each power."""
    ends = np.zeros(len(powers), dtype=np.int64)
    begin = 0
    for part, target in enumerate(targets_of(powers, int(offsets[-1]))):
        if target > 0:
            wanted = int(offsets[begin]) + target
            nearest = min(math.ceil(wanted), int(offsets[-1]))
            if isinstance(offsets, OffsetsThere):
                end = offsets.first_at_least(nearest)
            else:
                end = bisect_left(offsets, nearest)
            if int(offsets[end]) - wanted >= wanted - int(offsets[end - 1]):
                end -= 1
            begin = end
        ends[part] = begin
    return _to_the_last(ends, len(offsets) - 1, powers)


def _to_the_last(ends: HostArray, rows: int, powers: HostArray) -> HostArray:
    """The ends, where the rows that are left over go to the last part that has power."""
    ends[np.flatnonzero(powers)[-1] :] = rows
    return ends


def in_order(
    order: HostArray,
    lengths: HostArray,
    powers: HostArray,
    ends_of: Callable[[HostArray, HostArray], HostArray] = ends_by_nnz,
) -> Partition:
    """The partition of rows that are in an order, with non-zeros proportional to each power."""
    offsets = np.concatenate(([0], np.cumsum(lengths[order])))
    sets = np.split(order, ends_of(offsets, powers)[:-1])
    return _partition_of(tuple(map(np.sort, sets)), lengths, powers)


def _neighbours(
    ends_of: Callable[[HostArray, HostArray], HostArray], A: object, powers: Sequence[float]
) -> Partition:
    lengths, checked = row_lengths(A), check_powers(powers)
    return in_order(np.arange(len(lengths)), lengths, checked, ends_of)


def check_sizes(value_size: object, index_size: object) -> None:
    for name, size in (("value_size", value_size), ("index_size", index_size)):
        whole_number(name, size, 1, 1024)


def check_powers(powers: object) -> HostArray:
    """Computing powers as an array of float64, checked."""
    checked = as_array("powers", powers)
    if checked.ndim != 1 or checked.dtype.kind not in "biuf" or len(checked) == 0:
        raise TypeError(f"powers must be a sequence of numbers, one per processor, not {powers!r}")
    checked = checked.astype(np.float64)
    if not np.isfinite(checked).all() or checked.min() < 0 or checked.max() == 0:
        raise ValueError(
            f"powers={checked.tolist()} is not allowed; give finite numbers, none negative and not all 0"
        )
    return checked


def targets_of(powers: HostArray, amount: int, up_to: bool = False) -> HostArray:
    """What each processor should get of an amount, or all up to each.

    To a millionth: so powers 0.1, 0.2 and 0.6 cut where 1, 2 and 6 do.
    """
    scaled = powers / powers.max()
    targets: HostArray = (np.cumsum(scaled) if up_to else scaled) * (amount / scaled.sum())
    return np.round(targets, 6)


def _row_indices(rows: object) -> HostArray:
    indices = as_array("one of sets", rows)
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iu"):
        raise TypeError(f"sets must be sequences of row numbers, not {rows!r}")
    return indices.astype(np.int64)
