"""What is made of stored matrices: multiples, sums, submatrices, transposes, and copies on other devices.

What is made is in the same format with the same options, on the same device, unless it is said otherwise. It
shares no memory. A format that cannot hold it, as one for Hermitian matrices cannot hold 1j times one, gives
way to CSR.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeGuard

import numpy as np
import scipy.sparse as sp

from .._util.arguments import is_number
from .._util.types import Devices, DType, HostArray
from ..arrays import is_sparse, library_of
from ..devices import at_most
from ..inputs.canonical import canonical_csr, source_of
from ..planning.symmetry import of_multiple
from .build import build, build_derived, build_multiple
from .stored import Stored, Variant


def multiple(stored: Stored, function: Callable[[HostArray], HostArray], factor: complex = 1) -> Stored:
    """The matrix with values that a function makes of its own, which they are times a factor."""
    csr = stored.canonical()
    known = stored.description.request.symmetric
    return build_multiple(csr.with_data(function(csr.data)), stored.description, of_multiple(known, factor))


def retyped(stored: Stored, dtype: DType) -> Stored:
    """The matrix with values of another type, made where it lies."""
    description = stored.description
    with at_most(description.threads):
        csr = stored.canonical_there().astype(dtype)
    return build_multiple(csr, description, of_multiple(description.request.symmetric, 1))


def is_factor(value: object, dtype: DType) -> TypeGuard[complex]:
    """Whether this is a number, and values of a type times it are of a type that operators have."""
    if isinstance(value, bool | np.bool_ | np.longdouble | np.clongdouble):
        return False
    if isinstance(value, complex | np.complexfloating):
        return dtype.kind == "c"
    return isinstance(value, int | float | np.integer | np.floating)


def variant(stored: Stored, which: Variant) -> Stored:
    """The matrix transposed, conjugated or both."""
    transposed, conjugated = which
    if not transposed:
        return multiple(stored, np.conjugate)
    description = stored.description
    with at_most(description.threads):
        csr = stored.canonical_there().transposed()
        csr = csr.with_data(np.conjugate(csr.data)) if conjugated else csr
        return build_derived(csr, description.transposed(), "transposed")


def moved(stored: Stored, device: str | Devices) -> Stored:
    """The matrix on another device in the same format, or on several in a format for each."""
    there = stored.description.on(device)
    stays = not there.is_divided and not stored.description.is_divided
    return build(stored.canonical(), there if stays else there.unchosen())


def submatrix(stored: Stored, key: object) -> Stored:
    """The rows and columns that `SparseOperator.__getitem__` selects."""
    keys = key if isinstance(key, tuple) else (key, slice(None))
    if len(keys) != 2:
        raise IndexError(f"an operator takes 1 or 2 indices, not {len(keys)}; give rows, or rows and columns")
    rows, cols = map(_slice_or_array, keys, stored.shape)
    if not isinstance(rows, slice) and not isinstance(cols, slice):
        raise TypeError(
            "index arrays for both rows and columns select single entries; use op[rows][:, columns]"
        )
    # One after the other: SciPy fails at an array and a slice with a step together.
    part = stored.to_csr()[rows]
    if not isinstance(cols, slice) or cols != slice(None):
        part = part[:, cols]
    return _of_entries(stored, part)


def _of_entries(stored: Stored, csr: sp.csr_array) -> Stored:
    """A matrix with other entries, stored like a part of the given one."""
    with at_most(stored.description.threads):
        return build_derived(canonical_csr(csr), stored.description.of_part(), "new")


def _slice_or_array(key: object, length: int) -> slice | HostArray:
    """An index of rows or columns, of which there are so many: a slice, or whole numbers."""
    if isinstance(key, slice):
        return key
    indices = np.asarray(key)
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iub"):
        raise TypeError(
            f"{key!r} is not allowed as an index; give a slice, as in op[5:6], or a 1-D array of integers or "
            "bool"
        )
    if indices.dtype.kind == "b":
        if len(indices) != length:  # which not every SciPy refuses
            raise IndexError(f"a boolean index has {len(indices)} entries; it must have {length}")
        return np.flatnonzero(indices)
    return indices if indices.size else indices.astype(np.intp)


def summed(stored: Stored, other: object, sign: int, other_sign: int) -> Stored | None:
    """``sign A + other_sign other`` for a sparse matrix.

    None for what may know by itself how it is added; TypeError for what cannot be added at all.
    """
    if is_sparse(other):
        source = source_of(other)
        if source.shape != stored.shape:
            raise ValueError(
                f"a sparse matrix of shape {source.shape} cannot be added to an operator of shape "
                f"{stored.shape}"
            )
        with at_most(stored.description.threads):
            csr = canonical_csr(source, dtype=np.result_type(stored.dtype, source.dtype)).host
        return _of_entries(stored, _signed(stored.to_csr(), sign) + _signed(csr, other_sign))
    is_array = isinstance(other, list | tuple) or hasattr(other, "__array__") or library_of(other) is not None
    if is_array or is_number(other):
        raise TypeError(
            f"{type(other).__name__} cannot be added to or subtracted from a sparse operator, because the "
            "result would be dense; give a sparse matrix, such as 2.0 * scipy.sparse.eye_array(n), or use "
            "op.toarray()"
        )
    return None


def _signed(csr: sp.csr_array, sign: int) -> sp.csr_array:
    return csr if sign == 1 else -csr


def multiply_sparse(stored: Stored, x: object, *, from_left: bool = False) -> sp.sparray:
    """``A @ x`` or ``x @ A`` for a sparse matrix: a ``csr_array`` of SciPy, or CuPy's on the GPU of `x`."""
    A = stored.to_csr()
    if type(x).__module__.startswith("cupyx.scipy.sparse."):
        with x.data.device:  # type: ignore[attr-defined]
            A, B = sys.modules["cupyx.scipy.sparse"].csr_matrix(A), x.tocsr()  # type: ignore[attr-defined]
            return B @ A if from_left else A @ B
    B = sp.csr_array(source_of(x).host())
    return sp.csr_array(B @ A if from_left else A @ B)
