"""New values for a stored matrix with the same sparsity pattern."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np

from .. import _core
from .._core import Hierarchy, Matrix, PartedMatrix
from .._util.types import HostArray
from ..arrays import ArrayInfo, array_and_library
from ..arrays.products import kind_of
from ..inputs.canonical import canonical_csr, sparse_source
from ..inputs.csr import CanonicalCsr
from ..planning.parts import takes_new_values, whole
from ..planning.symmetry import Symmetry
from .build import build_values
from .stored import StoredMatrix

T = TypeVar("T")


def replaced(stored: StoredMatrix, values: NewValues, op: object) -> StoredMatrix:
    """The matrix with new values for an operator; `lock` is held.

    It is the same one where it takes them and nothing but the operator relies on the old ones.
    """
    symmetric = _symmetry_with(stored, values.on_host)
    if symmetric == stored.description.request.symmetric and _takes(stored, values, op):
        return stored
    return build_values(values.canonical(stored), stored.description, symmetric, stored.parts)


def with_values(stored: StoredMatrix, csr: CanonicalCsr) -> StoredMatrix:
    """A matrix with the same pattern and other values, stored in the same way."""
    return build_values(csr, stored.description, _symmetry_with(stored, lambda: csr.data))


def _symmetry_with(stored: StoredMatrix, values: Callable[[], HostArray]) -> Symmetry | None:
    """What is known of the matrix with the new values, which must be Hermitian where it has to be."""
    known = stored.description.request.symmetric
    is_real = stored.dtype.kind != "c"
    if not known or Symmetry.HERMITIAN not in known or (known == Symmetry.BOTH and is_real):
        return known
    csr, data = stored.to_csr(), values()
    if known == Symmetry.BOTH and not data.imag.any():
        return known
    found = _core.asymmetry(csr.indptr, csr.indices, data, True)
    if not found:
        return Symmetry.HERMITIAN
    if known == Symmetry.HERMITIAN:
        raise ValueError(
            f"the operator was made with symmetric='hermitian', but the new values are not Hermitian: {found}"
        )
    found = _core.asymmetry(csr.indptr, csr.indices, data, False)
    if found:
        raise ValueError(
            "the operator was made from a real symmetric matrix, but the new values are neither symmetric "
            f"nor Hermitian: {found}"
        )
    return Symmetry.SYMMETRIC


def _takes(stored: StoredMatrix, values: NewValues, op: object) -> bool:
    """Whether the matrix has the values now; it has the old ones where it is shared, or they do not suit.

    If an exception ends this in the middle, `T` and `H` still have the values of the matrix: they are
    forgotten before, and once more those that a signal handler had made meanwhile.
    """
    matrix = whole(stored.matrix)
    if not takes_new_values(matrix) or stored.is_shared(op):
        return False
    stored.variants = {}
    try:
        values.go_to(matrix, stored.ordinal)
    except _core.FormatError:
        if not stored.description.may_change_format:
            raise
        return False
    stored.variants = {}
    return True


class NewValues:
    """What a caller gives as `data` of any `update_values`: values of a stored matrix's type, one per entry.

    This is the one place that knows what may be given; see `SparseOperator.update_values`.
    """

    def __init__(self, stored: StoredMatrix, data: object) -> None:
        self._located: ArrayInfo | None = None
        self._csr: CanonicalCsr | None = None
        if isinstance(data, CanonicalCsr):  # with the same pattern and of the same type
            self._csr = data
            return
        other = getattr(data, "_stored", None)
        if isinstance(other, StoredMatrix):
            check_type(other.dtype, stored.dtype)
            self._csr = _in_places_of(stored, other.canonical_there().astype(stored.dtype))
            return
        source = _of_data(partial(sparse_source, data))
        if source is None or len(source.shape) != 2:
            data, library = array_and_library("data", data, "a sparse matrix or an array of values")
            located = library.locate(data, "data")
            if located.shape != stored.shape or len(located.shape) != 2:
                self._located = _checked_array(stored, located)
                return
        given = getattr(data, "dtype", None)
        if given is not None:
            check_type(given, stored.dtype)
        convert = partial(canonical_csr, source or data, dtype=stored.dtype, ordinal=stored.ordinal)
        self._csr = _in_places_of(stored, _of_data(convert))

    @property
    def are_in_order(self) -> bool:
        """Whether a caller gave an array, and so relied on the order of values."""
        return self._located is not None

    def on_host(self) -> HostArray:
        if self._csr is not None:
            return self._csr.data
        located = self._located
        assert located is not None
        if located.host is not None:
            return located.host
        copy = np.empty(located.shape, located.dtype)
        _core.fetch(located.pointer, copy, located.ordinal)
        return copy

    def canonical(self, stored: StoredMatrix) -> CanonicalCsr:
        """The matrix that has them where the stored one has its own, on the same device if that has room."""
        if self._csr is not None:
            return self._csr
        csr, located = stored.canonical_there(), self._located
        assert located is not None
        if not csr.is_wide:
            try:
                if located.host is None and located.ordinal == csr.ordinal:
                    return CanonicalCsr.on(csr.source.with_values_at(located.pointer, located.shape[0]))
                return CanonicalCsr.on(csr.source.with_values(self.on_host()))
            except MemoryError:
                pass
        return csr.with_data(self.on_host())

    def go_to(self, matrix: Matrix | PartedMatrix, ordinal: int) -> None:
        """Replace the values of a matrix on a device."""
        there = self._there(ordinal)
        if there is None:
            matrix.update_values(self.on_host())
        else:
            matrix.update_values_at(*there)

    def renew(self, hierarchy: Hierarchy, ordinal: int) -> None:
        """Give them to a hierarchy of the matrix."""
        there = self._there(ordinal)
        if there is None:
            hierarchy.renew(self.on_host())
        else:
            hierarchy.renew_at(*there, ordinal)

    def _there(self, ordinal: int) -> tuple[int, int] | None:
        """Their address on a device, and how many; None if they lie in host memory, or elsewhere."""
        csr, located = self._csr, self._located
        if csr is not None:
            return (csr.source.values, csr.nnz) if not csr.is_wide and csr.ordinal == ordinal else None
        assert located is not None
        return None if located.host is not None else (located.pointer, located.shape[0])


def _checked_array(stored: StoredMatrix, located: ArrayInfo) -> ArrayInfo:
    """An array of values, contiguous and of the matrix's type."""
    dtype, nnz = stored.dtype, stored.matrix.nnz
    if not located.library.moves:
        stored.check_device("data", located)
    check_type(located.dtype, dtype)
    if located.shape != (nnz,):
        raise ValueError(
            f"data has shape {located.shape}; the matrix has {nnz} stored entries, so it must have shape "
            f"({nnz},), in CSR order, as op.tocsr().data; or give a matrix of shape "
            f"{stored.shape}, whose entries may be in any order"
        )
    if not located.contiguous or located.dtype != dtype:
        made = located.library.contiguous(located.array, dtype)
        located = located.library.locate(made, "data")
    return located


def _of_data(function: Callable[[], T]) -> T:
    """What a function makes of `data`, which its errors name."""
    try:
        return function()
    except (TypeError, ValueError) as error:
        raise type(error)(f"data: {error}") from error


def _in_places_of(stored: StoredMatrix, csr: CanonicalCsr) -> CanonicalCsr:
    """The matrix with the stored one's pattern and another one's values: zero where that has no entry."""
    if csr.shape != stored.shape:
        raise ValueError(
            f"data is a matrix of shape {csr.shape}; it must have the shape {stored.shape} of the old one, "
            "and its sparsity pattern or a part of that"
        )
    own = stored.canonical_there()
    placed = own.with_values_of(csr)
    if placed is None:
        row, col = own.entry_outside(csr)
        raise ValueError(
            f"data is a matrix with another sparsity pattern: it has an entry ({row}, {col}), where the old "
            "matrix has none. Entries may be left out, which become zero, but none may be added; make a new "
            "object for this matrix, or store zeros in the first matrix where entries may come later"
        )
    known = stored.description.request.symmetric
    if csr.nnz < own.nnz and known and Symmetry.SYMMETRIC in known:
        found = _core.asymmetry(placed.indptr, placed.indices, placed.data, False)
        if found:
            raise ValueError(
                "data is a matrix that is not symmetric, but the operator was made of a symmetric one: "
                f"{found}; give both triangles, as with aslinearoperator(data, symmetric='lower')"
            )
    return placed


def check_type(given: object, dtype: np.dtype[np.generic]) -> None:
    """Refuse a type whose values the operator's type does not hold."""
    if kind_of(given) not in "biufc":
        raise TypeError(f"data has dtype {given}, which is not numeric; the operator needs {dtype}")
    if isinstance(given, np.dtype):
        fits = np.can_cast(given, dtype, "safe")
    else:  # a type of another library that NumPy lacks, narrower than every type of an operator
        fits = kind_of(given) != "c" or dtype.kind == "c"
    if not fits:
        raise TypeError(
            f"data has dtype {given}, which cannot be converted to {dtype} without loss; convert it, or make "
            "a new operator"
        )
