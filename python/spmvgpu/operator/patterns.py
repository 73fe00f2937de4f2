"""Sparsity patterns of matrices whose values are arrays that a library differentiates with respect to."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import scipy.sparse as sp

from .._util.lazy import lazy
from .._util.types import DType, HostArray
from .._util.value_types import TYPE_NAMES
from ..devices import device_name, resolve_device
from ..inputs.canonical import canonical_csr
from .construct import aslinearoperator
from .operator import SparseOperator

if TYPE_CHECKING:
    from typing_extensions import Self

A = TypeVar("A")  # an array of the library


class Pattern(Generic[A]):
    """What the patterns of all libraries have in common."""

    def __init__(self, A: Any, format: str = "csr", device: str = "auto", **format_options: Any) -> None:
        csr = canonical_csr(A).host
        self._ordinal = resolve_device(device)
        self._arguments: dict[str, Any] = {
            "format": format,
            "device": device_name(self._ordinal),
            **format_options,
        }
        self._csr = csr
        # Operators that values are given to, by type; more than one where some are still in use.
        self._operators: dict[DType, list[SparseOperator]] = {}
        self._lock = Lock()
        self.shape: tuple[int, int] = csr.shape
        self._new_operator(csr.dtype)  # refused here, if it is at all
        self.nnz: int = csr.nnz
        self.rows: A = self._array(np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr)))
        self.cols: A = self._array(csr.indices)
        self.values: A = self._array(csr.data)

    def __repr__(self) -> str:
        rows, cols = self.shape
        where = f"{self._arguments['format']!r} on {self._arguments['device']!r}"
        return f"<{rows}x{cols} MatrixPattern, {self.nnz} stored entries, format {where}>"

    def _array(self, array: HostArray) -> A:
        """A copy in an array of the library on the device of the pattern; integers become indices."""
        raise NotImplementedError

    def _type_of(self, values: Any) -> DType:
        """The type of values, or ValueError for those that the pattern does not take."""
        name = str(values.dtype).removeprefix("torch.")
        if tuple(values.shape) != (self.nnz,) or name not in TYPE_NAMES:
            raise ValueError(
                f"values has shape {tuple(values.shape)} and dtype {values.dtype}; it must have shape "
                f"({self.nnz},) and one of the dtypes {', '.join(TYPE_NAMES)}"
            )
        return np.dtype(name)

    def _updated(self, values: object, dtype: DType) -> SparseOperator:
        """The operator with the given values; the next one may take its memory over."""
        with self._lock:
            free = (op for op in self._operators.get(dtype, []) if not _is_in_use(op))
            op = next(free, None) or self._new_operator(dtype)
            op.update_values(values)
            return op._snapshot()

    def _new_operator(self, dtype: DType) -> SparseOperator:
        csr, data = self._csr, self._csr.data if dtype.kind == "c" else self._csr.data.real
        arrays = data.astype(dtype), csr.indices, csr.indptr
        made: SparseOperator = aslinearoperator(arrays, shape=self.shape, tune="off", **self._arguments)
        self._operators.setdefault(dtype, []).append(made)
        return made

    @lazy
    def _turned(self) -> tuple[Self, A]:
        """The pattern of the transposed matrix, and where its values are among this one's."""
        numbered = sp.csr_array((np.arange(self.nnz), self._csr.indices, self._csr.indptr), shape=self.shape)
        turned = sp.csr_array(numbered.T)
        order = turned.data
        turned.data = self._csr.data[order]
        kind = type(self)
        try:
            made = kind(turned, **self._arguments)
        except ValueError:  # a FormatError, or an option that the shape does not allow
            made = kind(turned, "csr", self._arguments["device"])
        made.__dict__["_turned"] = self, self._array(np.argsort(order))
        return made, self._array(order)


def _is_in_use(op: SparseOperator) -> bool:
    with op._stored.lock:
        return op._stored.is_shared(op)
