"""What an operator does as a matrix: copies, parts and multiples of it, and questions about its entries."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from .._util.arguments import is_number, whole_number
from .._util.value_types import NAMES
from ..arrays import is_sparse, library_of
from ..devices import at_most
from ..inputs.canonical import canonical_csr
from ..inputs.compressed import INDEX_LIMIT, storage_dtype, wanted_dtype
from ..inputs.sparse import scipy_sparse
from ..planning.symmetry import Symmetry, of_multiple
from .composed import Composable, plain

if TYPE_CHECKING:
    from typing_extensions import Self


MethodsT = TypeVar("MethodsT", bound="MatrixMethods")


class MatrixMethods(Composable):
    """The part of `SparseOperator` that needs the entries, which it reads back from the device.

    New operators are of the same format and options, on the same device, unless they say otherwise. They are
    copies, with values of their own. Where the format does not hold those, as one for Hermitian matrices does
    not hold them times 1j, they are CSR.
    """

    __pandas_priority__ = 5000  # above that of a data frame: pandas would multiply each entry by the operator

    if TYPE_CHECKING:  # what SparseOperator has
        _origin: Any

        def _like(self, csr: Any, symmetric: Symmetry | None) -> Self: ...
        def _like_part(self, csr: Any) -> Self: ...
        def _rdot(self, x: Any) -> Any: ...

        # What LinearOperator has, whose stubs do not know of which class it is here.
        @property
        def T(self) -> Self: ...  # noqa: N802
        @property
        def H(self) -> Self: ...  # noqa: N802
        def transpose(self) -> Self: ...
        def adjoint(self) -> Self: ...

    def astype(self, dtype: Any, copy: bool = True) -> Self:
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
        return _with_values(self, lambda values: values.astype(storage_dtype(self.dtype, wanted)))

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
        return _with_values(self, np.conjugate) if self.dtype.kind == "c" else self

    def copy(self) -> Self:
        """Return a copy that shares no memory with the operator.

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
        return _with_values(self, lambda values: values)

    def toarray(self) -> npt.NDArray[Any]:
        """Return the matrix as a dense array in host memory.

        Returns
        -------
        (m, n) numpy.ndarray

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.toarray()
        array([[4., 1.],
               [0., 3.]])
        """
        dense: npt.NDArray[Any] = self.tocsr().toarray()
        return dense

    def diagonal(self, k: int = 0) -> npt.NDArray[Any]:
        """Return a diagonal of the matrix.

        Parameters
        ----------
        k : int, default 0
            Which diagonal. ``k > 0`` is above the main diagonal.

        Returns
        -------
        numpy.ndarray
            In host memory.

        Raises
        ------
        TypeError, ValueError
            If `k` is not an integer, or out of range.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.diagonal(), op.diagonal(1)
        (array([4., 3.]), array([1.]))
        """
        entries: npt.NDArray[Any] = self.tocsr().diagonal(whole_number("k", k, -INDEX_LIMIT, INDEX_LIMIT))
        return entries

    def trace(self, offset: int = 0) -> Any:
        """Return the sum of the entries of a diagonal.

        Parameters
        ----------
        offset : int, default 0
            Which diagonal, as `k` of `diagonal`.

        Returns
        -------
        scalar

        Raises
        ------
        TypeError, ValueError
            If `offset` is not an integer, or out of range.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> float(op.trace())
        7.0
        """
        return self.tocsr().trace(whole_number("offset", offset, -INDEX_LIMIT, INDEX_LIMIT))

    def sum(self, axis: int | None = None) -> Any:
        """Sum the entries of the matrix, of each column or of each row.

        Parameters
        ----------
        axis : {None, 0, 1, -1, -2}, optional
            None: all entries. 0: the sum of each column. 1: the sum of each row.

        Returns
        -------
        scalar or numpy.ndarray

        Raises
        ------
        TypeError, ValueError
            If `axis` is not one of these.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.sum(axis=0)
        array([4., 4.])
        """
        return self.tocsr().sum(None if axis is None else whole_number("axis", axis, -2, 1))

    def __getitem__(self, key: Any) -> Self:
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
        rows, cols = map(_slice_or_array, keys, self.shape)
        if not isinstance(rows, slice) and not isinstance(cols, slice):
            raise TypeError(
                "index arrays for both rows and columns select single entries; use op[rows][:, columns]"
            )
        # One after the other: SciPy fails at an array and a slice with a step together.
        part = self.tocsr()[rows]
        if not isinstance(cols, slice) or cols != slice(None):
            part = part[:, cols]
        with at_most(self.max_threads):
            return self._like_part(canonical_csr(part))

    def __neg__(self) -> Self:
        return _with_values(self, np.negative)

    def __add__(self, other: Any) -> Any:
        return super().__add__(other) if isinstance(other, LinearOperator) else _sum(self, other, 1, 1)

    def __radd__(self, other: Any) -> Any:
        return _sum(self, other, 1, 1)

    def __sub__(self, other: Any) -> Any:
        return super().__sub__(other) if isinstance(other, LinearOperator) else _sum(self, other, 1, -1)

    def __rsub__(self, other: Any) -> Any:
        return _sum(self, other, -1, 1)

    @overload
    def __mul__(self, other: float) -> Self: ...
    @overload
    def __mul__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any:
        factor = plain(other)
        if _is_factor(self, factor):
            return _with_values(self, lambda values: values * factor, factor)
        return super().__mul__(factor)

    @overload
    def __rmul__(self, other: float) -> Self: ...
    @overload
    def __rmul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any:
        factor = plain(other)
        return self * factor if is_number(factor) else self._rdot(other)

    @overload
    def __truediv__(self, other: float) -> Self: ...
    @overload
    def __truediv__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any:
        divisor = plain(other)
        if _is_factor(self, divisor):
            return _with_values(self, lambda values: values / divisor, divisor)
        return super().__truediv__(divisor)


def multiply_sparse(op: MatrixMethods, x: Any) -> Any:
    """``op @ x`` for a sparse matrix: SciPy's product, a ``csr_array``, or CuPy's, on the GPU of `x`."""
    if _is_of_cupy(x):
        with x.data.device:
            return sys.modules["cupyx.scipy.sparse"].csr_matrix(op.tocsr()) @ x.tocsr()
    return sp.csr_array(op.tocsr() @ sp.csr_array(scipy_sparse(x)))


def multiply_sparse_from_left(x: Any, op: MatrixMethods) -> Any:
    """``x @ op`` for a sparse matrix, as `multiply_sparse` gives it."""
    if _is_of_cupy(x):
        with x.data.device:
            return x.tocsr() @ sys.modules["cupyx.scipy.sparse"].csr_matrix(op.tocsr())
    return sp.csr_array(sp.csr_array(scipy_sparse(x)) @ op.tocsr())


def _is_of_cupy(x: Any) -> bool:
    return type(x).__module__.startswith("cupyx.scipy.sparse.")


def _sum(op: MatrixMethods, other: Any, sign: int, other_sign: int) -> Any:
    """``sign op + other_sign other`` for a sparse matrix, as an operator like `op`.

    NotImplemented for what may know by itself how it is added; TypeError for what cannot be added at all.
    """
    if is_sparse(other):
        if tuple(other.shape) != op.shape:
            raise ValueError(
                f"a sparse matrix of shape {tuple(other.shape)} cannot be added to an operator of shape "
                f"{op.shape}"
            )
        csr: Any = scipy_sparse(other)
        with at_most(op.max_threads):
            csr = canonical_csr(csr, dtype=np.result_type(op.dtype, csr.dtype))
            return op._like_part(canonical_csr(_signed(op.tocsr(), sign) + _signed(csr, other_sign)))
    if is_number(other) and not other:  # what `sum` begins with
        return op if sign == 1 else -op
    is_array = isinstance(other, list | tuple) or hasattr(other, "__array__") or library_of(other) is not None
    if is_array or is_number(other):
        raise TypeError(
            f"{type(other).__name__} cannot be added to or subtracted from a sparse operator, because the "
            "result would be dense; give a sparse matrix, such as 2.0 * scipy.sparse.eye_array(n), or use "
            "op.toarray()"
        )
    return NotImplemented


def _signed(csr: Any, sign: int) -> Any:
    return csr if sign == 1 else -csr


def _with_values(op: MethodsT, function: Callable[[Any], Any], factor: Any = 1) -> MethodsT:
    """An operator with values that are made of those of `op`, which they are times a factor."""
    csr = op.tocsr()
    csr.data = function(csr.data)
    return op._like(csr, of_multiple(op._origin.symmetric, factor))


def _is_factor(op: MatrixMethods, value: Any) -> bool:
    """Whether the values times a number are of a type that operators have."""
    if isinstance(value, bool | np.bool_ | np.longdouble | np.clongdouble):
        return False
    if isinstance(value, complex | np.complexfloating):
        return bool(op.dtype.kind == "c")
    return isinstance(value, int | float | np.integer | np.floating)


def _slice_or_array(key: Any, length: int) -> Any:
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
