"""Rows of a matrix that a caller gave, which go to several devices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, starmap
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._util.lazy import lazy
from .._util.types import DType, HostArray
from ..arrays import ArrayInfo, on_host
from ..devices import CPU
from .canonical import CsrArrays, Symmetric, canonical_csr, checked_symmetry, given_source
from .csr import CanonicalCsr, Rows
from .source import Source, storage_dtype, wanted_dtype


class OffsetsThere:
    """Row offsets on a GPU, of which a search fetches few."""

    def __init__(self, located: ArrayInfo) -> None:
        self._located = located
        self._known: dict[int, int] = {}

    def __len__(self) -> int:
        return self._located.shape[0]

    def __getitem__(self, k: int) -> int:
        k %= len(self)
        if k not in self._known:
            found = np.empty(1, self._located.dtype)
            _core.fetch(self._located.pointer + k * found.itemsize, found, self._located.ordinal)
            self._known[k] = int(found[0])
        return self._known[k]

    def first_at_least(self, wanted: int) -> int:
        """As `bisect.bisect_left`."""
        at = self._located
        found = _core.first_at_least(at.pointer, len(self), at.dtype.itemsize, wanted, at.ordinal)
        place, before, there = found
        self._known.update({place - 1: before, place: there})  # which are asked for next
        return place


class UncheckedRows:
    """The rows of a CSR matrix, of which each range is checked on the device where it goes.

    So it crosses the bus once, and all devices check at the same time.

    Parameters
    ----------
    source : Source
        Has a `located_csr`.
    dtype : dtype
        The type that values are stored in.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    nnz : int
    offsets : sequence of int
        The row offsets, not checked, where they lie.
    """

    def __init__(self, source: Source, dtype: DType) -> None:
        self._source = source
        self._data, self._indices, self._indptr = source.csr() or ()  # an empty tuple is for type checkers
        *_, located = source.located_csr() or ()
        host = located.host
        self.offsets: OffsetsThere | HostArray = OffsetsThere(located) if host is None else host
        rows, cols = source.shape
        self.shape, self.dtype, self.nnz = (rows, cols), dtype, len(self._data)

    @lazy
    def indptr(self) -> HostArray:
        """The row offsets in host memory."""
        return on_host("indptr", self._indptr)

    def rows(self, rows: Rows, ordinal: int = CPU) -> CanonicalCsr:
        """Some rows; neighbouring ones, in a range, on a GPU if they can be checked there.

        Raises
        ------
        TypeError, ValueError
            If the matrix is broken.
        """
        if isinstance(rows, range):
            # The first and the last offset are known, so that a check finds others in their place.
            begin = 0 if rows.start == 0 else int(self.offsets[rows.start])
            end = self.nnz if rows.stop == self.shape[0] else int(self.offsets[rows.stop])
            of_rows, first = slice(rows.start, rows.stop + 1), 0
            if isinstance(self.offsets, OffsetsThere):
                offsets, first = self._indptr[of_rows], begin  # the GPU takes it off once they are copied
            else:
                offsets = self.offsets[of_rows] - begin
            arrays = self._data[begin:end], self._indices[begin:end], offsets
            try:
                window = CsrArrays(arrays, (len(rows), self.shape[1]), first=first)
                return canonical_csr(window, dtype=self.dtype, ordinal=ordinal)
            except (TypeError, ValueError):
                pass  # the checks of the whole matrix say where it is broken
        return self.in_host_memory().rows(rows)

    def in_host_memory(self) -> CanonicalCsr:
        """The whole matrix, checked."""
        return canonical_csr(self._source, dtype=self.dtype)


class RowsOnDevices:
    """The rows of a canonical matrix, of which each device has a range.

    Parameters
    ----------
    parts : sequence of CanonicalCsr
        With all columns, in the order of the rows.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    nnz : int
    ranges : list of range
        The rows of each part.
    """

    def __init__(self, parts: Sequence[CanonicalCsr]) -> None:
        self.parts = parts
        ends = np.cumsum([part.shape[0] for part in parts]).tolist()
        self.ranges = list(starmap(range, pairwise([0, *ends])))
        self.shape, self.dtype = (ends[-1], parts[0].shape[1]), parts[0].dtype
        self.nnz = sum(part.nnz for part in parts)

    @property
    def offsets(self) -> HostArray:
        return self.indptr

    @property
    def indptr(self) -> HostArray:
        return self.in_host_memory().indptr

    def rows(self, rows: Rows, ordinal: int = CPU) -> CanonicalCsr:
        """Some rows; those of a device are there already."""
        if isinstance(rows, range) and rows in self.ranges:
            return self.parts[self.ranges.index(rows)]
        return self.in_host_memory().rows(rows, ordinal)

    def in_host_memory(self) -> CanonicalCsr:
        """The whole matrix."""
        return CanonicalCsr.of(sp.csr_array(sp.vstack([part.host for part in self.parts])))


#: What is divided among devices.
DividedCsr: TypeAlias = CanonicalCsr | UncheckedRows | RowsOnDevices


def divided_csr(
    A: Any,
    ordinals: Sequence[int],
    *,
    shape: Any = None,
    dtype: Any = None,
    symmetric: Symmetric = None,
) -> DividedCsr:
    """A matrix for several devices, of which each gets some rows, or for a list of one device.

    The other arguments are as in `canonical_csr`.

    Rows of a CSR matrix are checked when they are asked for.

    Raises
    ------
    TypeError, ValueError
        As `canonical_csr`.
    """
    source, declared, wanted = given_source(A, shape), checked_symmetry(symmetric), wanted_dtype(dtype)
    if declared is None or (declared is True and source.shape[0] == source.shape[-1]):
        located = source.located_csr()
        if located is not None:
            return UncheckedRows(source, storage_dtype(located[0].dtype, wanted))
    place = ordinals[0] if len(ordinals) == 1 else CPU
    return canonical_csr(source, dtype=dtype, symmetric=symmetric, ordinal=place)
