"""Canonical matrices: what a caller gave, once it is checked, in host memory or on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .. import _core
from .._core import CsrSource, Matrix
from .._util.lazy import lazy
from .._util.steps import step, took
from .._util.types import DType, HostArray, Options
from ..devices import CPU
from . import limits

Arrays: TypeAlias = tuple[HostArray, HostArray, HostArray]  # data, indices, indptr
Rows: TypeAlias = range | npt.NDArray[np.int32]
#: Shape, value type, number of stored entries, and device.
Facts: TypeAlias = tuple[tuple[int, int], DType, int, int]


class Reach(NamedTuple):
    """Which columns and diagonals of a matrix have entries; zeros if none has.

    Attributes
    ----------
    first, end : int
        The first column, and the one after the last.
    low, high : int
        The lowest and the highest diagonal, column minus row.
    """

    first: int
    end: int
    low: int
    high: int


class CanonicalCsr:
    """A matrix in CSR whose rows are sorted and have no duplicates. It never changes.

    Formats are planned, ranked and built where its arrays lie, by the core's `source`.

    Parameters
    ----------
    data, indices, indptr : ndarray
        Contiguous, with data of a value type. The indices become int32, unless there are more than
        `limits.ENTRY_LIMIT` entries.
    shape : tuple of int

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    nnz : int
    ordinal : int
        The device that the arrays lie on.
    """

    def __init__(
        self, data: HostArray, indices: HostArray, indptr: HostArray, shape: tuple[int, int]
    ) -> None:
        if len(data) <= limits.ENTRY_LIMIT:
            indices, indptr = (array.astype(np.int32, copy=False) for array in (indices, indptr))
        self._arrays: Arrays | None = (data, indices, indptr)
        self._source: CsrSource | None = None
        self.shape, self.dtype, self.nnz, self.ordinal = shape, data.dtype, len(data), CPU

    @classmethod
    def of(cls, csr: CanonicalCsr | sp.csr_array) -> CanonicalCsr:
        """A ``csr_array`` that is canonical."""
        return csr if isinstance(csr, CanonicalCsr) else cls(csr.data, csr.indices, csr.indptr, csr.shape)

    @classmethod
    def on(cls, source: CsrSource, facts: Facts | None = None) -> CanonicalCsr:
        """What the core has on a device. A caller that knows `facts` saves a call."""
        made = cls.__new__(cls)
        made._arrays, made._source = None, source
        made.shape, made.dtype, made.nnz, made.ordinal = facts or source.facts
        return made

    # The arrays in host memory, which are fetched when they are first asked for.

    @property
    def arrays(self) -> Arrays:
        """(data, indices, indptr)."""
        if self._arrays is None:
            self._arrays = self.source.to_csr()
        return self._arrays

    @property
    def data(self) -> HostArray:
        return self.arrays[0]

    @property
    def indices(self) -> HostArray:
        return self.arrays[1]

    @property
    def indptr(self) -> HostArray:
        return self.arrays[2]

    @property
    def offsets(self) -> HostArray:
        """The offsets of rows, as a search among them needs them."""
        return self.indptr

    @lazy
    def host(self) -> sp.csr_array:
        """The matrix as a ``csr_array`` over the same arrays."""
        # SciPy's constructor copies windows on less than half of an array.
        csr = sp.csr_array(self.shape, dtype=self.dtype)
        csr.data, csr.indices, csr.indptr = self.arrays
        csr.has_canonical_format = True
        return csr

    @property
    def is_wide(self) -> bool:
        """Whether the matrix has more entries than one format holds."""
        return self.nnz > limits.ENTRY_LIMIT

    # Where it lies.

    @property
    def source(self) -> CsrSource:
        """The core's handle, of a matrix that is not wide."""
        if self._source is None:
            data, indices, indptr = self.arrays
            self._source = CsrSource(indptr, indices, data, self.shape[1], CPU)
        return self._source

    def at(self, ordinal: int) -> CanonicalCsr:
        """The matrix on a GPU; itself where it is there already, or is to stay in host memory.

        That is so for the CPU, for a wide matrix, and where the GPU has no room: what is made of it then
        needs no copy as CSR besides, or says how much was asked for.
        """
        if ordinal in (CPU, self.ordinal) or self.is_wide:
            return self
        data, indices, indptr = self.arrays
        try:
            with step("upload"):
                source = CsrSource(indptr, indices, data, self.shape[1], ordinal)
        except MemoryError:
            return self
        there = CanonicalCsr.on(source, (self.shape, self.dtype, self.nnz, ordinal))
        there._arrays = self._arrays
        return there

    def in_host_memory(self) -> CanonicalCsr:
        """The matrix in host memory."""
        return self if self.ordinal == CPU else CanonicalCsr(*self.arrays, self.shape)

    def leave_device(self) -> None:
        """Fetch the matrix to host memory, and free its copy on a device."""
        self._arrays = self.arrays
        self._source, self.ordinal = None, CPU

    # Matrices that are made of it, on the same device if that has room; else in host memory.

    def _made(self, make: Callable[[CsrSource], CsrSource]) -> CanonicalCsr:
        """What the core makes of the matrix, which is not wide."""
        try:
            return CanonicalCsr.on(make(self.source))
        except MemoryError:
            if self.ordinal == CPU:
                raise
        return CanonicalCsr.on(make(self.in_host_memory().source))

    def transposed(self) -> CanonicalCsr:
        if self.is_wide:
            return CanonicalCsr.of(sp.csr_array(self.host.T))
        return self._made(CsrSource.transposed)

    def _with_values(
        self, make: Callable[[CsrSource], CsrSource], of_wide: Callable[[HostArray], HostArray]
    ) -> CanonicalCsr:
        """The same pattern with other values. The core makes them, or NumPy for a wide matrix."""
        return self.with_data(of_wide(self.data)) if self.is_wide else self._made(make)

    def astype(self, dtype: DType) -> CanonicalCsr:
        """With values of another type."""
        if dtype == self.dtype:
            return self
        return self._with_values(lambda source: source.astype(dtype), lambda values: values.astype(dtype))

    def times_number(self, factor: complex) -> CanonicalCsr:
        by = complex(factor)
        return self._with_values(lambda source: source.times_number(by), lambda values: values * factor)

    def divided(self, divisor: complex) -> CanonicalCsr:
        """The matrix divided by a number."""
        by = complex(divisor)
        return self._with_values(
            lambda source: source.times_number(by, divides=True), lambda values: values / divisor
        )

    def conjugated(self) -> CanonicalCsr:
        return self._with_values(CsrSource.conjugated, np.conjugate)

    def without_zeros(self) -> CanonicalCsr:
        """Without entries that are zero."""
        if self.is_wide:
            kept = self.host.copy()
            kept.eliminate_zeros()
            return CanonicalCsr.of(kept)
        return self._made(CsrSource.without_zeros)

    def columns(self, begin: int, end: int) -> CanonicalCsr:
        """The columns from `begin`, which becomes 0, to before `end`. Columns beyond the matrix are empty."""
        if self.is_wide and 0 <= begin <= end <= self.shape[1]:
            return CanonicalCsr.of(self.host[:, begin:end])
        return self._made(lambda source: source.columns(begin, end))

    def diagonal(self, shift: int) -> HostArray:
        """The entries (i, i + shift) in new memory."""
        if self.is_wide:
            entries: HostArray = self.host.diagonal(shift)
            return entries
        return self.source.diagonal(shift)

    def with_data(self, data: HostArray) -> CanonicalCsr:
        """In host memory, with other values in the same places."""
        return CanonicalCsr(data, self.indices, self.indptr, self.shape)

    def with_values_of(self, other: CanonicalCsr) -> CanonicalCsr | None:
        """With the values of a matrix of the same shape and type, and zero where that has no entry.

        On the same device, if that has room. None if the other one has an entry where this one has none.
        """
        if not (self.is_wide or other.is_wide):
            try:
                source = self.source.with_values_of(other.source)
                return None if source is None else CanonicalCsr.on(source)
            except MemoryError:
                if self.ordinal == CPU:
                    raise
        data, start = [np.zeros(0, self.dtype)], 0
        for piece in self.in_host_memory().pieces():
            part = other.in_host_memory().rows(range(start, start + piece.shape[0]))
            if part.nnz > piece.nnz:
                return None
            source = piece.source.with_values_of(part.source)
            if source is None:
                return None
            data.append(source.to_csr()[0])
            start += piece.shape[0]
        return self.with_data(np.concatenate(data))

    def entry_outside(self, other: CanonicalCsr) -> tuple[int, int]:
        """The row and column of the first entry that another matrix has, and this one has not."""
        for row in range(self.shape[0]):
            own, cols = (one.indices[one.indptr[row] : one.indptr[row + 1]] for one in (self, other))
            missing = np.setdiff1d(cols, own, assume_unique=True)
            if len(missing):
                return row, int(missing[0])
        raise ValueError("the other matrix has no such entry")

    def rows(self, rows: Rows, ordinal: int = CPU) -> CanonicalCsr:
        """Some rows, in the order given, where the matrix lies, whatever the device that they are to go to.

        Neighbouring ones, in a range, are a window on arrays in host memory.
        """
        if not isinstance(rows, range):
            if self.is_wide:
                return CanonicalCsr.of(self.host[rows])
            listed = np.ascontiguousarray(rows, np.int32)
            return self._made(lambda source: source.rows(listed))
        if len(rows) == self.shape[0]:
            return self
        if self.ordinal != CPU or self._arrays is None:
            return CanonicalCsr.on(self.source.rows(rows.start, rows.stop))
        data, indices, indptr = self.arrays
        begin, end = int(indptr[rows.start]), int(indptr[rows.stop])
        offsets = indptr[rows.start : rows.stop + 1] - begin
        return CanonicalCsr(data[begin:end], indices[begin:end], offsets, (len(rows), self.shape[1]))

    def shared_rows(self, listed: HostArray, first: int, cols: int, ordinal: int) -> CanonicalCsr:
        """Some rows on a device, in the columns of a wider matrix, where the own ones begin at `first`."""
        rows = np.ascontiguousarray(listed, np.int32)
        return CanonicalCsr.on(self.source.shared_rows(rows, first, cols, ordinal))

    # Made where the matrix lies, which is not wide. Operands lie there, too.

    def outside(self, begin: int, end: int) -> CanonicalCsr:
        """The entries outside of these columns, with the numbers that they have."""
        return CanonicalCsr.on(self.source.outside(begin, end))

    def plus(self, other: CanonicalCsr, first: int = 0) -> CanonicalCsr:
        """The sum with a matrix of as many rows, in which the columns of this one begin at `first`."""
        if first == 0 and self.nnz + other.nnz > limits.ENTRY_LIMIT:
            return CanonicalCsr.of(self.host + other.host)
        return CanonicalCsr.on(self.source.plus(other.source, first))

    def times(self, other: CanonicalCsr) -> CanonicalCsr:
        """The product with a matrix of the same type."""
        return CanonicalCsr.on(self.source.times(other.source))

    def to(self, ordinal: int) -> CanonicalCsr:
        """The matrix on a device, or itself."""
        return self if ordinal == self.ordinal else CanonicalCsr.on(self.source.to(ordinal))

    @classmethod
    def stacked(cls, parts: Sequence[CanonicalCsr]) -> CanonicalCsr:
        """The rows of matrices with as many columns, one matrix after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls.on(CsrSource.stacked([part.source for part in parts]))

    @classmethod
    def sum_of_rows(cls, parts: Sequence[CanonicalCsr], rows: range, ordinal: int) -> CanonicalCsr:
        """The sum on a device of these rows of matrices of one shape, which lie on any devices."""
        return cls.on(CsrSource.sum_of_rows([part.source for part in parts], rows.start, rows.stop, ordinal))

    @classmethod
    def empty(cls, shape: tuple[int, int], dtype: DType, ordinal: int) -> CanonicalCsr:
        """A matrix without entries on a device."""
        return cls.of(sp.csr_array(shape, dtype=dtype)).to(ordinal)

    def pieces(self) -> Iterator[CanonicalCsr]:
        """The matrix in pieces of neighbouring rows that fit one format each; one, unless it is wide.

        One after the other, so that no more than one need be there besides the matrix.
        """
        start, rows = 0, self.shape[0]
        while self.is_wide and start < rows:
            most = self.indptr[start] + limits.ENTRY_LIMIT  # at least a row has, whose columns fit int32
            end = min(int(np.searchsorted(self.indptr, most, side="right")) - 1, rows)
            yield self.rows(range(start, end))
            start = end
        if not self.is_wide:
            yield self

    def column_reach(self) -> Reach:
        """The columns and the diagonals that have entries."""
        found, start = [], 0
        for piece in self.pieces():
            if piece.nnz:
                first, last, low, high = piece.source.column_reach()
                found.append((first, last + 1, low - start, high - start))
            start += piece.shape[0]
        starts, ends, lows, highs = zip(*found, strict=True) if found else ((0,),) * 4
        return Reach(min(starts), max(ends), min(lows), max(highs))

    def by_clusters(self) -> tuple[_core.Permutation, CanonicalCsr]:
        """An order of the rows and columns of a square matrix by clusters, and the matrix in it.

        Raises
        ------
        ValueError
            For a matrix that is not square, or has a very long row.
        """
        permutation, source = self.source.by_clusters()
        return permutation, CanonicalCsr.on(source)

    def nearer_order(self, products: float, spent_us: float) -> tuple[_core.Permutation | None, CanonicalCsr]:
        """An order by clusters, and the matrix in it, if ``format="auto"`` is to store the matrix so.

        Finding it may take the time of `products` products, less the time that is spent.
        """
        permutation, source, steps = self.source.nearer_order(products, spent_us)
        took(steps)
        return (None, self) if source is None else (permutation, CanonicalCsr.on(source))

    def by_entries_of_columns(self) -> tuple[npt.NDArray[np.int32], CanonicalCsr]:
        """The columns with the most entries first, as many as given else, and the matrix with that order."""
        transpose = self.transposed()
        offsets, _ = transpose.sample(1, max(self.nnz, 1))
        lengths = np.minimum(np.diff(offsets), 65_535).astype(np.uint16)  # which are sorted by their bits
        order = np.argsort(~lengths, kind="stable").astype(np.int32)
        return order, transpose.rows(order).transposed()

    def sample(self, row_step: int, entry_step: int) -> tuple[HostArray, HostArray]:
        """``indptr[::row_step], indices[::entry_step]``, without the others."""
        if self._arrays is not None:
            return self.indptr[::row_step], self.indices[::entry_step]
        return self.source.sample(row_step, entry_step)

    @property
    def features(self) -> _core.Features:
        """What the performance model knows of the matrix."""
        return self.source.features()

    def plan(
        self, format: str, ordinal: int, options: Options | None = None, processors: int | None = None
    ) -> _core.Plan:
        """What a format would do with the matrix on a device: its options, all chosen, and its cost.

        With `processors` given, the device need not be here.
        """
        with step("plan", format):
            return self.source.plan(format, options or {}, ordinal, processors)

    def build(self, format: str, options: Options, ordinal: int) -> Matrix:
        """The matrix in a format on a device. It may keep the index arrays."""
        where = self if self.ordinal in (CPU, ordinal) else self.in_host_memory()
        return where.source.build(format, options, ordinal)
