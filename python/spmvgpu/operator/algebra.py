"""Operators that are made of a stored matrix.

What is made is in the same format with the same options, on the same device. It shares no values. A format
that cannot hold it, as one for Hermitian matrices cannot hold 1j times one, gives way to CSR.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeGuard, overload

import numpy as np
import scipy.sparse as sp

from .._util.arguments import is_number
from .._util.linear_operator import LinearOperator
from .._util.types import DType
from .._util.value_types import NAMES
from ..arrays import is_sparse, library_of
from ..arrays.library import AnyArray, AnyLibrary
from ..devices import at_most
from ..formats import Indices
from ..inputs.canonical import CupySource, canonical_csr, source_of
from ..inputs.csr import CanonicalCsr
from ..inputs.source import storage_dtype, wanted_dtype
from ..planning.symmetry import of_multiple
from .build import build_derived, build_multiple
from .composed import Composable, together
from .operands import plain
from .stored import StoredMatrix, Transposition

if TYPE_CHECKING:
    from typing_extensions import Self


class MatrixAlgebra(Composable):
    """Arithmetic of an operator with a stored matrix, which gives operators with stored matrices."""

    _stored: StoredMatrix
    _takes_sparse = True

    if TYPE_CHECKING:  # what LinearOperator has, whose stubs do not know of which class it is here
        T: Self
        H: Self
        transpose: Callable[[], Self]
        adjoint: Callable[[], Self]

        @overload
        def __rmul__(self, other: float) -> Self: ...
        @overload
        def __rmul__(self, other: object) -> Any: ...
        def __rmul__(self, other: object) -> Any: ...

    def astype(self, dtype: object, copy: bool = True) -> Self:
        """Return the operator with its values in another dtype.

        Parameters
        ----------
        dtype : {float32, float64, complex64, complex128}
        copy : bool, default True
            With False, return the operator itself if it has this dtype.

        Returns
        -------
        SparseOperator

        Raises
        ------
        TypeError
            If `dtype` is not one of these, or is real and the operator is complex.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.astype(np.float32).dtype
        dtype('float32')
        """
        wanted = wanted_dtype(dtype)
        if wanted is None:
            raise TypeError(f"dtype=None is not a dtype; allowed are {NAMES}")
        if wanted == self.dtype and not copy:
            return self
        return self._multiple(lambda csr: csr.astype(storage_dtype(self.dtype, wanted)))

    def conj(self) -> Self:
        """Return the complex conjugate of the operator.

        Returns
        -------
        SparseOperator
            The operator itself if it is real.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0j], [0.0, 3.0]]), device="cpu")
        >>> bool((op.conj().toarray() == op.toarray().conj()).all())
        True
        """
        return self._multiple(CanonicalCsr.conjugated) if self.dtype.kind == "c" else self

    def copy(self) -> Self:
        """Return an operator with a copy of the values.

        Returns
        -------
        SparseOperator

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.copy() is op
        False
        """
        return self._multiple(lambda csr: csr)

    def without_zeros(self) -> Self:
        """Return the operator without the stored entries that are zero.

        Sums and products have such entries where terms cancel. SciPy's ``eliminate_zeros`` does the same to a
        matrix itself.

        Returns
        -------
        SparseOperator
            In the format of the operator, or in "csr" if that format cannot hold the entries that are left.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> A = sg.aslinearoperator(np.array([[1.0, 1.0], [0.0, 1.0]]), device="cpu")
        >>> B = sg.aslinearoperator(np.array([[1.0, -1.0], [0.0, 1.0]]), device="cpu")
        >>> product = sg.aslinearoperator(A @ B)
        >>> product.nnz, product.without_zeros().nnz
        (3, 2)
        """
        with at_most(self._stored.description.threads):
            return self._with_entries(self._stored.canonical_there().without_zeros())

    def __getitem__(self, key: object) -> Self:
        """Select rows and columns: ``op[10:20]``, ``op[rows]`` or ``op[:, 5:]``.

        Parameters
        ----------
        key : slice, 1-D array of int or bool, or a tuple of these for rows and columns
            At least one of rows and columns must be a slice.

        Returns
        -------
        SparseOperator
            In the format of the operator, or in "csr" if that format cannot hold the submatrix.

        Raises
        ------
        TypeError
            If `key` selects a single row, column or entry.
        IndexError
            If an index is out of range, or there are more than two.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op[1:].toarray()
        array([[0., 3.]])
        >>> op[:, [1, 0]].toarray()
        array([[1., 4.],
               [3., 0.]])
        """
        keys = key if isinstance(key, tuple) else (key, slice(None))
        if len(keys) != 2:
            raise IndexError(
                f"an operator takes 1 or 2 indices, not {len(keys)}; give rows, or rows and columns"
            )
        rows, cols = map(_indexed, keys, self.shape)
        if not any(isinstance(key, slice) for key in keys):
            raise TypeError(
                "index arrays for both rows and columns select single entries; use op[rows][:, columns]"
            )
        with at_most(self._stored.description.threads):
            part = self._stored.canonical_there().rows(rows)
            if isinstance(cols, range):
                part = part if len(cols) == self.shape[1] else part.columns(cols.start, cols.stop)
            else:
                part = part.transposed().rows(cols).transposed()
        return self._with_entries(part)

    def __neg__(self) -> Self:
        return self._multiple(lambda csr: csr.times_number(-1))

    def __add__(self, other: object) -> Any:
        return super().__add__(other) if isinstance(other, LinearOperator) else self._sum(other, 1, 1)

    def __radd__(self, other: object) -> Any:
        return self._sum(other, 1, 1)

    def __sub__(self, other: object) -> Any:
        return super().__sub__(other) if isinstance(other, LinearOperator) else self._sum(other, 1, -1)

    def __rsub__(self, other: object) -> Any:
        return self._sum(other, -1, 1)

    @overload
    def __mul__(self, other: float) -> Self: ...
    @overload
    def __mul__(self, other: object) -> Any: ...
    def __mul__(self, other: object) -> Any:
        factor = plain(other)
        if _is_factor(factor, self.dtype):
            return self._scaled(factor, CanonicalCsr.times_number)
        return super().__mul__(factor)

    @overload
    def __truediv__(self, other: float) -> Self: ...
    @overload
    def __truediv__(self, other: object) -> Any: ...
    def __truediv__(self, other: object) -> Any:
        divisor = plain(other)
        if _is_factor(divisor, self.dtype):
            return self._scaled(divisor, CanonicalCsr.divided)
        return super().__truediv__(divisor)

    def _as_csr(self, dtype: DType) -> CanonicalCsr:
        return self._entries_in(dtype, may_lend=False)

    def _lent_csr(self, dtype: DType) -> CanonicalCsr:
        """As `_as_csr`, with the values that are stored: those of a snapshot, as long as it lives."""
        return self._entries_in(dtype, may_lend=True)

    def _entries_in(self, dtype: DType, *, may_lend: bool) -> CanonicalCsr:
        with at_most(self._stored.description.threads):
            return self._stored.canonical_there(may_lend=may_lend).astype(dtype)

    def _scaled(self, number: complex, scale: Callable[[CanonicalCsr, complex], CanonicalCsr]) -> Self:
        dtype = np.result_type(self.dtype, number)
        return self._multiple(lambda csr: scale(csr.astype(dtype), number), number)

    def _multiple(self, function: Callable[[CanonicalCsr], CanonicalCsr], factor: complex = 1) -> Self:
        return type(self)(_multiple(self._stored, function, factor))

    def _sum(self, other: object, sign: int, other_sign: int) -> Any:
        """``sign A + other_sign other``."""
        if is_number(other) and not other:  # what `sum` begins with
            return self if sign == 1 else -self
        if is_sparse(other):
            source = source_of(other)
            if source.shape != self.shape:
                raise ValueError(
                    f"a sparse matrix of shape {source.shape} cannot be added to an operator of shape "
                    f"{self.shape}"
                )
            with at_most(self._stored.description.threads):
                dtype = np.result_type(self.dtype, source.dtype)
                csr = canonical_csr(source, dtype=dtype, ordinal=self._stored.ordinal)
                a, b = _signed(self._as_csr(csr.dtype), sign), _signed(csr, other_sign)
                made = together(lambda a, b: a.plus(b), a, b).without_zeros()
            return self._with_entries(made)
        is_array = isinstance(other, list | tuple) or hasattr(other, "__array__")
        if is_array or library_of(other) is not None or is_number(other):
            raise TypeError(
                f"{type(other).__name__} cannot be added to or subtracted from a sparse operator, because "
                "the result would be dense; give a sparse matrix, such as 2.0 * scipy.sparse.eye_array(n), "
                "or use op.toarray()"
            )
        return NotImplemented

    def _with_entries(self, csr: CanonicalCsr) -> Self:
        """A matrix with other entries, stored like a part of this one."""
        description = self._stored.description
        with at_most(description.threads):
            return type(self)(build_derived(csr, description.of_part(), "new"))

    def _times(self, x: AnyArray, library: AnyLibrary) -> AnyArray:
        """The product with a sparse matrix; that with an array is `_product`."""
        return _multiply_sparse(self._stored.to_csr(), x)

    def _from_left(self, x: object) -> Any:
        if is_sparse(x):
            return _multiply_sparse(self._stored.to_csr(), x, from_left=True)
        return super()._from_left(x)


def _multiple(
    stored: StoredMatrix, function: Callable[[CanonicalCsr], CanonicalCsr], factor: complex = 1
) -> StoredMatrix:
    """What a function makes of the matrix: the same pattern with the values times a factor."""
    with at_most(stored.description.threads):
        csr = function(stored.canonical_there())
    return build_multiple(csr, stored.description, of_multiple(stored.description.request.symmetric, factor))


def _is_factor(value: object, dtype: DType) -> TypeGuard[complex]:
    """Whether this is a number, and values of a type times it are of a type that operators have."""
    if isinstance(value, bool | np.bool_ | np.longdouble | np.clongdouble):
        return False
    if isinstance(value, complex | np.complexfloating):
        return dtype.kind == "c"
    return isinstance(value, int | float | np.integer | np.floating)


def variant(stored: StoredMatrix, which: Transposition) -> StoredMatrix:
    """The matrix transposed, conjugated or both."""
    transposed, conjugated = which
    if not transposed:
        return _multiple(stored, CanonicalCsr.conjugated)
    description = stored.description
    with at_most(description.threads):
        csr = stored.canonical_there().transposed()
        csr = csr.conjugated() if conjugated else csr
        return build_derived(csr, description.transposed(), "transposed")


def _indexed(key: object, length: int) -> range | Indices:
    """The rows or columns that an index selects among `length` of them."""
    if isinstance(key, slice):
        start, stop, step = key.indices(length)
        return range(start, max(start, stop)) if step == 1 else np.arange(start, stop, step, dtype=np.int32)
    indices = np.asarray(key)
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iub"):
        raise TypeError(
            f"{key!r} is not allowed as an index; give a slice, as in op[5:6], or a 1-D array of integers or "
            "bool"
        )
    if indices.dtype.kind == "b":
        if len(indices) != length:
            raise IndexError(f"a boolean index has {len(indices)} entries; it must have {length}")
        return np.flatnonzero(indices).astype(np.int32)
    outside = indices[(indices < -length) | (indices >= length)]
    if outside.size:
        raise IndexError(f"index {outside[0]} is out of range; there are {length} rows or columns")
    indices = indices.astype(np.int64)  # a narrower type may not hold the sum
    return np.where(indices < 0, indices + length, indices).astype(np.int32)


def _signed(csr: CanonicalCsr, sign: int) -> CanonicalCsr:
    return csr if sign == 1 else csr.times_number(-1)


def _multiply_sparse(A: sp.csr_array, x: Any, *, from_left: bool = False) -> sp.sparray:
    """``A @ x`` or ``x @ A`` for a sparse matrix: a ``csr_array`` of SciPy, or CuPy's on the GPU of `x`."""
    source = source_of(x)
    if isinstance(source, CupySource):
        with x.data.device:
            A, B = sys.modules["cupyx.scipy.sparse"].csr_matrix(A), x.tocsr()
            return B @ A if from_left else A @ B
    B = sp.csr_array(source.host())
    return sp.csr_array(B @ A if from_left else A @ B)
