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

# Offsets that are fetched together, in hardly more time than one.
_WINDOW = 4096


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
            self._known[k] = int(self._fetched(k, k + 1)[0])
        return self._known[k]

    def first_at_least(self, wanted: int) -> int:
        """As `bisect.bisect_left`, with guesses for rows of similar length."""
        low, high, guesses = 0, len(self) - 1, True
        if self[low] >= wanted:
            return low
        if self[high] < wanted:
            return len(self)
        while high - low > 1:  # offset `low` is less than wanted, `high` is not
            share = (wanted - self[low]) / (self[high] - self[low]) if guesses else 0.5
            guesses = not guesses
            first = min(max(low, low + int(share * (high - low)) - _WINDOW // 2), high - 1)
            window = self._fetched(first, min(first + _WINDOW, high + 1))
            place = int(np.searchsorted(window, wanted))
            if 0 < place < len(window):
                return first + place
            if place == 0:
                high, self._known[first] = first, int(window[0])
            else:
                low = first + len(window) - 1
                self._known[low] = int(window[-1])
        return high

    def _fetched(self, begin: int, end: int) -> HostArray:
        dtype = self._located.dtype
        found = np.empty(end - begin, dtype)
        _core.fetch(self._located.pointer + begin * dtype.itemsize, found, self._located.ordinal)
        return found


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


def divided_csr(A: Any, *, shape: Any = None, dtype: Any = None, symmetric: Symmetric = None) -> DividedCsr:
    """A matrix for several devices, of which each gets some rows. The arguments are as in `canonical_csr`.

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
    return canonical_csr(source, dtype=dtype, symmetric=symmetric)
