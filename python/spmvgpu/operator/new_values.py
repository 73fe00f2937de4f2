"""New values for a stored matrix with the same sparsity pattern."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import _core
from .._core import Hierarchy, Matrix, PartedMatrix
from .._util.types import HostArray
from ..arrays import taken
from ..arrays.products import kind_of
from ..inputs.csr import CanonicalCsr
from ..planning.parts import takes_new_values
from ..planning.symmetry import Symmetry
from .build import build_values
from .stored import Stored


def replaced(stored: Stored, values: NewValues, op: object) -> Stored:
    """The matrix with new values for an operator; `lock` is held.

    It is the same one where it takes them and nothing but the operator relies on the old ones.
    """
    symmetric = _symmetry_with(stored, values.on_host)
    if symmetric == stored.description.request.symmetric and _takes(stored, values, op):
        return stored
    csr = values.in_places_of(stored.canonical_there())
    return build_values(csr, stored.description, symmetric)


def with_values(stored: Stored, csr: CanonicalCsr) -> Stored:
    """A matrix with the same pattern and other values, stored in the same way."""
    return build_values(csr, stored.description, _symmetry_with(stored, lambda: csr.data))


def _symmetry_with(stored: Stored, values: Callable[[], HostArray]) -> Symmetry | None:
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


def _takes(stored: Stored, values: NewValues, op: object) -> bool:
    """Whether the matrix has the values now; it has the old ones where it is shared, or they do not suit.

    Whatever ends this in the middle, `T` and `H` are not those of other values than there are: they are
    forgotten before, and once more those that a signal handler had made meanwhile.
    """
    matrix = stored.matrix
    if not takes_new_values(matrix) or stored.is_shared(op):
        return False
    stored.copies = {}
    try:
        values.go_to(matrix)
    except _core.FormatError:
        if not stored.description.gives_way:
            raise
        return False
    stored.copies = {}
    return True


class NewValues:
    """Values of a matrix's type and number, wherever they lie."""

    def __init__(self, stored: Stored, data: object) -> None:
        dtype, nnz = stored.dtype, stored.matrix.nnz
        data, library = taken("data", data)
        located = library.locate(data, "data")
        if not library.moves:
            stored.check_device("data", located)
        _check_type(located.dtype, dtype)
        if located.shape != (nnz,):
            raise ValueError(
                f"data has shape {located.shape}; the matrix has {nnz} stored entries, so it must have "
                f"shape ({nnz},), in the order of op.tocsr().data"
            )
        if not located.contiguous or located.dtype != dtype:
            made = located.library.contiguous(located.array, dtype)
            located = located.library.locate(made, "data")
        self._located = located

    def on_host(self) -> HostArray:
        located = self._located
        if located.host is not None:
            return located.host
        copy = np.empty(located.shape, located.dtype)
        _core.fetch(located.pointer, copy, located.ordinal)
        return copy

    def in_places_of(self, csr: CanonicalCsr) -> CanonicalCsr:
        """The matrix that has them where `csr` has its own, on the same device if that has room."""
        located = self._located
        if not csr.is_wide:
            try:
                if located.host is None and located.ordinal == csr.ordinal:
                    return csr.with_source(csr.source.with_values_at(located.pointer, located.shape[0]))
                return csr.with_source(csr.source.with_values(self.on_host()))
            except MemoryError:
                pass
        return csr.with_data(self.on_host())

    def renew(self, hierarchy: Hierarchy) -> None:
        """Give them to a hierarchy of the matrix."""
        located = self._located
        if located.host is not None:
            hierarchy.renew(located.host)
        else:
            hierarchy.renew_at(located.pointer, located.shape[0], located.ordinal)

    def go_to(self, matrix: Matrix | PartedMatrix) -> None:
        located = self._located
        if located.host is not None:
            matrix.update_values(located.host)
        else:
            matrix.update_values_at(located.pointer, located.shape[0])


def _check_type(given: object, dtype: np.dtype[np.generic]) -> None:
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
