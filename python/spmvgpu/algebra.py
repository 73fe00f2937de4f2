"""What an operator does as a matrix: copies, parts and multiples of it, and questions about its entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from .arguments import whole_number
from .canonical import canonical_csr
from .compressed import INDEX_LIMIT, wanted_dtype
from .devices import CPU, at_most, device_name, resolve_device

if TYPE_CHECKING:
    from .operator import SparseOperator


class MatrixMethods(LinearOperator):  # type: ignore[misc]
    """The part of `SparseOperator` that needs the entries, which it reads back from the device.

    New operators are of the same format and options, on the same device, unless they say otherwise. They are
    copies: an operator's values do not change.
    """

    if TYPE_CHECKING:  # what SparseOperator has

        def _like(self, csr: Any, device: str | None = None) -> SparseOperator: ...
        def _like_part(self, csr: Any) -> SparseOperator: ...

    def astype(self, dtype: Any, copy: bool = True) -> SparseOperator:
        """The operator with its values in another type.

        Parameters
        ----------
        dtype : {float32, float64}
        copy : bool, default True
            False: the operator itself if it is of that type.

        Raises
        ------
        TypeError
            For another type.
        """
        wanted = wanted_dtype(dtype)
        if wanted is None:
            raise TypeError("dtype=None is no type; allowed are float32 and float64")
        if wanted == self.dtype and not copy:
            return cast("SparseOperator", self)
        return self._like(self.tocsr().astype(wanted))

    def copy(self) -> SparseOperator:
        """An operator of its own, which shares no memory with this one."""
        return self._like(self.tocsr())

    def to(self, device: Any) -> SparseOperator:
        """The operator on another device; itself if it is there already.

        ``aslinearoperator(op, device=device)`` chooses the format anew, for that device.

        Parameters
        ----------
        device : str or list of str
            As `aslinearoperator` takes it. On several devices the formats are chosen for each.
        """
        from .construct import aslinearoperator

        if self.device == (tuple(device) if isinstance(device, list | tuple) else _full_name(device)):
            return cast("SparseOperator", self)
        if isinstance(self.device, str) and isinstance(device, str):
            return self._like(self.tocsr(), device)
        names = device if isinstance(device, list | tuple) else [device]
        threads = self._threads if CPU in map(resolve_device, names) else None
        moved: SparseOperator = aslinearoperator(
            self.tocsr(), device=device, symmetric=self._symmetric, max_threads=threads
        )
        return moved

    def toarray(self) -> npt.NDArray[Any]:
        """The matrix as a dense array in host memory."""
        dense: npt.NDArray[Any] = self.tocsr().toarray()
        return dense

    def diagonal(self, k: int = 0) -> npt.NDArray[Any]:
        """The entries of diagonal `k` as an array in host memory; ``k > 0`` lies above the main diagonal."""
        entries: npt.NDArray[Any] = self.tocsr().diagonal(whole_number("k", k, -INDEX_LIMIT, INDEX_LIMIT))
        return entries

    def trace(self, offset: int = 0) -> Any:
        """The sum of the entries of a diagonal."""
        return self.tocsr().trace(whole_number("offset", offset, -INDEX_LIMIT, INDEX_LIMIT))

    def sum(self, axis: int | None = None) -> Any:
        """The sum of all entries, or the sums of the columns (``axis=0``) or rows (``axis=1``).

        Returns
        -------
        scalar or numpy.ndarray
        """
        return self.tocsr().sum(None if axis is None else whole_number("axis", axis, -2, 1))

    def __getitem__(self, key: Any) -> SparseOperator:
        """Rows, ``op[10:20]`` or ``op[indices]``, and columns, ``op[:, 5:]``, as an operator.

        In the operator's own format, or as CSR where that refuses the part.

        Raises
        ------
        TypeError
            For a single row, column or entry, which is no matrix.
        IndexError
            For indices that are out of range, or too many of them.
        """
        keys = key if isinstance(key, tuple) else (key, slice(None))
        if len(keys) != 2:
            raise IndexError(f"{len(keys)} indices for a matrix; give rows, or rows and columns")
        rows, cols = map(_slice_or_array, keys)
        if not isinstance(rows, slice) and not isinstance(cols, slice):
            raise TypeError("rows and columns by index arrays pick single entries; use op[rows][:, columns]")
        # One after the other: SciPy fails at an array and a slice with a step together.
        part = self.tocsr()[rows]
        if not isinstance(cols, slice) or cols != slice(None):
            part = part[:, cols]
        with at_most(self._threads):
            return self._like_part(canonical_csr(part, wide=True))

    def __neg__(self) -> SparseOperator:
        return _with_values(self, np.negative)

    @overload
    def __mul__(self, other: float) -> SparseOperator: ...
    @overload
    def __mul__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any:
        if _is_real_number(other):
            return _with_values(self, lambda values: values * other)
        return super().__mul__(other)

    def __rmul__(self, other: Any) -> Any:
        if _is_real_number(other):
            return _with_values(self, lambda values: values * other)
        return super().__rmul__(other)

    def __truediv__(self, other: Any) -> Any:
        if _is_real_number(other):
            return _with_values(self, lambda values: values / other)
        return NotImplemented


def multiply_sparse(op: MatrixMethods, x: Any) -> Any:
    """``op @ x`` for a sparse matrix, with SciPy, as a ``csr_array``."""
    return sp.csr_array(op.tocsr() @ sp.csr_array(x))


def multiply_sparse_from_left(x: Any, op: MatrixMethods) -> Any:
    """``x @ op`` for a sparse matrix, with SciPy, as a ``csr_array``."""
    return sp.csr_array(sp.csr_array(x) @ op.tocsr())


def _with_values(op: MatrixMethods, function: Callable[[Any], Any]) -> SparseOperator:
    csr = op.tocsr()
    csr.data = function(csr.data)
    return op._like(csr)


def _full_name(device: Any) -> str:
    return device_name(resolve_device(device))


def _is_real_number(value: Any) -> bool:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return not isinstance(value, np.longdouble)


def _slice_or_array(key: Any) -> Any:
    if isinstance(key, slice):
        return key
    indices = np.asarray(key)
    if indices.ndim != 1 or (indices.size and indices.dtype.kind not in "iub"):
        raise TypeError(
            f"{key!r} is not allowed as an index; give a slice, as in op[5:6], or a 1-D array of integers or "
            "bool"
        )
    return indices if indices.size else indices.astype(np.intp)
