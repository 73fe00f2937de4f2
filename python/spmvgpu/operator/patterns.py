"""Sparsity patterns of matrices whose values are arrays that a library differentiates with respect to."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import scipy.sparse as sp

from .._core import Matrix
from .._util.lazy import lazy
from .._util.types import Device, DType, Format, HostArray
from .._util.value_types import TYPE_NAMES
from ..arrays import ArrayKind, array_and_library
from ..devices import CPU, device_name, resolve_device
from ..inputs.canonical import canonical_csr
from .batch import block_diagonal
from .construct import aslinearoperator
from .new_values import NewValues
from .operands import address, multiply_now
from .operator import SparseOperator

if TYPE_CHECKING:
    from typing_extensions import Self

A = TypeVar("A")  # an array of the library
_FORMAT: Format = "csr"  # the default: every product has new values, which csr takes as they are


class Pattern(Generic[A]):
    """What the patterns of all libraries have in common."""

    _kind: ClassVar[ArrayKind]  # of values and vectors

    def __init__(
        self, A: Any, format: Format = "auto", device: Device = "auto", **format_options: Any
    ) -> None:
        csr = canonical_csr(A).host
        self._ordinal = resolve_device(device)
        self._requested = device  # as the caller named it, which pickles go by
        self._arguments: dict[str, Any] = {
            "format": format,
            "device": device_name(self._ordinal),
            **format_options,
        }
        self._csr = csr
        # Operators that values are given to, by type; more than one where some are still in use.
        self._operators: dict[DType, list[SparseOperator]] = {}
        self._multipliers: dict[DType, tuple[SparseOperator, bool]] = {}
        self._batches: dict[int, Self] = {}  # by their sizes
        self._turned_from: Self | None = None  # the pattern that this one is made of as the transposed one
        self._lock = Lock()
        self.shape: tuple[int, int] = csr.shape
        self._multiplier(csr.dtype)  # refused here, if it is at all
        self.nnz: int = csr.nnz
        self._rows: A = self._array(np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr)))
        self._cols: A = self._array(csr.indices)
        self.values: A = self._array(csr.data)

    def __repr__(self) -> str:
        rows, cols = self.shape
        where = f"{self._arguments['format']!r} on {self._arguments['device']!r}"
        return f"<{rows}x{cols} MatrixPattern, {self.nnz} stored entries, format {where}>"

    def __reduce__(self) -> tuple[object, ...]:
        is_there = resolve_device(self._requested) == self._ordinal
        arguments = {**self._arguments, "device": self._requested} if is_there else self._arguments
        return _restored, (type(self), self._csr, arguments), self.values

    def __setstate__(self, values: A) -> None:
        """Have the values of the original, which may have changed since it was made."""
        self.values = self._beside(values)

    def _beside(self, values: A) -> A:
        """Values on the device of the pattern."""
        raise NotImplementedError

    def _array(self, array: HostArray) -> A:
        """A copy in an array of the library on the device of the pattern; integers become indices."""
        raise NotImplementedError

    def _type_of(self, values: Any) -> DType:
        """The type of values; ValueError for those that the pattern does not take."""
        name = str(values.dtype).removeprefix("torch.")
        if tuple(values.shape) != (self.nnz,) or name not in TYPE_NAMES:
            raise ValueError(
                f"values has shape {tuple(values.shape)} and dtype {values.dtype}; it must have shape "
                f"({self.nnz},) and one of the dtypes {', '.join(TYPE_NAMES)}"
            )
        return np.dtype(name)

    def _unrecorded(self, values: A) -> A:
        """Values for an operator; TypeError if a library would record what is done with them."""
        values = self._kind.array("values", values)
        array_and_library("values", values)[1].locate(values, "values")
        return values

    def _updated(self, values: object, dtype: DType) -> SparseOperator:
        """The operator with the given values; the next one may take its memory over."""
        with self._lock:
            operators = self._operators.setdefault(dtype, [])
            op = next((op for op in operators if not _is_in_use(op)), None)
            if op is None:
                op = self._new_operator(dtype, self._arguments)
                operators.append(op)
            op.update_values(values)
            return op._snapshot()

    def _values_of(self, matrix: Any) -> A:
        """The values of a matrix with the pattern or a part of it, in the order of `rows` and `cols`."""
        csr = canonical_csr(matrix)
        op, _ = self._multiplier(csr.dtype)
        return self._array(NewValues(op._stored, csr.host).on_host())

    def _new_operator(self, dtype: DType, arguments: dict[str, Any]) -> SparseOperator:
        csr, data = self._csr, self._csr.data if dtype.kind == "c" else self._csr.data.real
        arrays = data.astype(dtype), csr.indices, csr.indptr
        made: SparseOperator = aslinearoperator(arrays, shape=self.shape, tune="off", **arguments)
        return made

    def _multiplier(self, dtype: DType) -> tuple[SparseOperator, bool]:
        """An operator for products, and whether these can read other values than it has."""
        with self._lock:
            if dtype not in self._multipliers:
                arguments = self._arguments
                if arguments["format"] == "auto":
                    arguments = {**arguments, "format": _FORMAT}
                op = self._new_operator(dtype, arguments)
                matrix = op._matrix
                reads = isinstance(matrix, Matrix) and matrix.with_values_at(0) is not None
                self._multipliers[dtype] = op, reads
            return self._multipliers[dtype]

    def _multiply(self, values: Any, x: Any) -> Any:
        """The product with the given values, which are not copied if the format stores them in this order."""
        dtype = self._type_of(values)
        op, reads = self._multiplier(dtype)
        values, own = array_and_library("values", values)
        located = own.locate(values, "values")
        if not located.contiguous or located.dtype != dtype:
            made = located.library.contiguous(located.array, dtype)
            located = located.library.locate(made, "values")
        x, of_x = array_and_library("x", x)
        is_on_host = located.host is not None or of_x.locate(x, "x").host is not None
        # A copy from the host waits for no stream, and so not for the values either.
        if not reads or (is_on_host and op._ordinal != CPU):
            return self._updated(values, dtype) @ x
        op._check_device("values", located)
        matrix: Any = op._matrix
        op = op._snapshot()
        op._matrix = matrix.with_values_at(address(located))
        return multiply_now(op, x, of_x)

    @lazy
    def _turned(self) -> tuple[Self, A]:
        """The pattern of the transposed matrix, and where its values are among this one's."""
        numbered = sp.csr_array((np.arange(self.nnz), self._csr.indices, self._csr.indptr), shape=self.shape)
        turned = sp.csr_array(numbered.T)
        order = turned.data
        turned.data = self._csr.data[order]
        made = self._of(turned)
        made.__dict__["_turned"], made._turned_from = (self, self._array(np.argsort(order))), self
        return made, self._array(order)

    def _batched(self, count: int) -> Self:
        """The pattern of the block-diagonal matrix with this one in each of its blocks."""
        found = self._batches.get(count)
        if found is None:
            made = block_diagonal(self._csr, np.tile(self._csr.data, (count, 1)))
            found = self._batches[count] = self._of(sp.csr_array(made.arrays, shape=made.shape))
        return found

    def _of(self, csr: sp.csr_array) -> Self:
        """The pattern of another matrix, in this one's format if that is possible."""
        kind = type(self)
        try:
            return kind(csr, **self._arguments)
        except ValueError:  # a FormatError, or an option that the shape does not allow
            return kind(csr, _FORMAT, self._arguments["device"])


def _restored(kind: type[Pattern[Any]], csr: sp.csr_array, arguments: dict[str, Any]) -> Pattern[Any]:
    """What pickle and copy call."""
    made = kind.__new__(kind)
    Pattern.__init__(made, csr, **arguments)
    return made


def _is_in_use(op: SparseOperator) -> bool:
    with op._stored.lock:
        return op._stored.is_shared(op)
