"""New values for the matrix of an operator with the same sparsity pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .._util.value_types import AnyMatrix, Matrix, PartedMatrix
from ..arrays import taken
from ..devices import at_most
from ..planning.parts import takes_new_values
from ..planning.symmetry import Symmetry
from .operands import kind_of
from .stored import Stored, Variant

if TYPE_CHECKING:
    from typing_extensions import Self


class UpdateMethods:
    """The part of `SparseOperator` that replaces its values."""

    if TYPE_CHECKING:  # what SparseOperator has
        dtype: np.dtype[Any]
        _stored: Stored
        _matrix: AnyMatrix
        _origin: Any
        _copies: dict[Variant, Self]

        def _hold(self, stored: Stored) -> None: ...

        @property
        def nnz(self) -> int: ...
        @property
        def max_threads(self) -> int | None: ...
        def tocsr(self) -> Any: ...

    def update_values(self, data: Any) -> None:
        """Replace the values of the stored entries, as in Newton's method and time stepping.

        The sparsity pattern, the format and its options stay. The operator does not choose or time formats
        again.

        Parameters
        ----------
        data : (nnz,) array
            New values in the order of ``tocsr().data``: row by row, columns ascending, no duplicates. A NumPy
            array, or an array of another library on the device of the operator. Its dtype must convert to the
            dtype of the operator without loss.

        Raises
        ------
        TypeError
            If `data` is not an array, if its values would be rounded, or if the operator is on several
            devices.
        ValueError
            If `data` has another length or is on another device. If the operator was made with
            ``symmetric="hermitian"`` and the new matrix is not Hermitian. Symmetry is not checked.
        FormatError
            If the requested format cannot hold the new values: a symmetric format holds symmetric values
            only, and "stencil" holds repeated rows only. If ``format="auto"`` chose the format, another one
            is chosen instead.
        MemoryError, CudaError
            If the device has no memory left, or fails. After any error except `CudaError`, the operator has
            the old values.

        Notes
        -----
        Everything made from the operator keeps its values: copies, slices, multiples, sums, products, powers,
        preconditioners, `T`, `H` and gradients that are still to be computed. `T` and `H` are rebuilt when
        they are used next. Sums, products, powers and `linalg.chebyshev` share memory with the operator.
        While one of them exists, an update allocates new arrays.

        A `LinearOperator` of another library, such as ``other @ op``, refers to the operator and follows its
        updates. Use ``op.copy()`` to keep the values.

        "csr", "csr_b", "csr_m" and "coo" store values in the given order. Every other format computes the
        positions of the values in the first update and keeps them. `nbytes` includes this memory: 4 bytes per
        row, 8 in "hyb", 8 per 32 diagonals in "dia" and "sdia", 4 more per 32 blocks in "bsell", and 8 per
        stored value in "tsmv". A reordered matrix needs 4 more bytes per stored value.

        "packed_sell" and matrices in several parts are rebuilt in each update. "packed_sell" keeps the
        sparsity pattern for this: 4 bytes per entry and 4 per row. After such an update, and after one that
        allocates new arrays, capture CUDA graphs again that contain products.

        An update waits for products that are queued. Do not run it at the same time as a product, a solve or
        another update of the operator in another thread, nor while a product with device arrays is being
        captured in a CUDA stream.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.update_values(np.array([8.0, 2.0, 6.0]))
        >>> op @ np.ones(2)
        array([10.,  6.])
        """
        values = _NewValues(self, data)
        with self._stored.lock, at_most(self.max_threads):
            symmetric = self._symmetry_with(values)
            if symmetric != self._origin.symmetric or not self._takes(values):
                csr = self.tocsr()
                csr.data = values.on_host()
                self._hold(self._origin.with_values(csr, symmetric)._stored)
            self._copies.clear()

    def _symmetry_with(self, values: _NewValues) -> Symmetry | None:
        """What is known of the matrix with the new values, which must be Hermitian where it has to be."""
        known: Symmetry | None = self._origin.symmetric
        is_real = self.dtype.kind != "c"
        if not known or Symmetry.HERMITIAN not in known or (known == Symmetry.BOTH and is_real):
            return known
        csr, data = self.tocsr(), values.on_host()
        if known == Symmetry.BOTH and not data.imag.any():
            return known
        found = _core.asymmetry(csr.indptr, csr.indices, data, True)
        if not found:
            return Symmetry.HERMITIAN
        if known == Symmetry.HERMITIAN:
            raise ValueError(
                "the operator was made with symmetric='hermitian', but the new values are not Hermitian: "
                f"{found}"
            )
        found = _core.asymmetry(csr.indptr, csr.indices, data, False)
        if found:
            raise ValueError(
                "the operator was made from a real symmetric matrix, but the new values are neither "
                f"symmetric nor Hermitian: {found}"
            )
        return Symmetry.SYMMETRIC

    def _takes(self, values: _NewValues) -> bool:
        """Whether the matrix has the values now; it has the old ones where it is shared, or they do not suit.

        Whatever ends this in the middle, `T` and `H` are not those of other values than there are: they are
        forgotten before, and once more those that a signal handler had made meanwhile.
        """
        stored = self._stored
        if not takes_new_values(stored.matrix) or stored.is_shared(self):
            return False
        stored.copies = {}
        try:
            values.go_to(stored.matrix)
        except _core.FormatError:
            if not self._origin.gives_way:
                raise
            return False
        stored.copies = {}
        return True


class _NewValues:
    """Values of the operator's type and number, wherever they lie."""

    def __init__(self, op: UpdateMethods, data: Any) -> None:
        data, library = taken("data", data)
        located = library.locate(data, "data")
        if not library.moves:
            op._origin.check_device("data", located)
        _check_type(located.dtype, op.dtype)
        if located.shape != (op.nnz,):
            raise ValueError(
                f"data has shape {located.shape}; the matrix has {op.nnz} stored entries, so it must have "
                f"shape ({op.nnz},), in the order of op.tocsr().data"
            )
        if located.host is not None:
            located = located._replace(host=np.require(located.host, op.dtype, ["C", "A"]))
        elif not located.contiguous or located.dtype != op.dtype:
            data = library.contiguous(data, op.dtype)
            located = library.locate(data, "data")
        self._data = data  # kept alive
        self._located = located
        self._dtype = op.dtype

    def on_host(self) -> npt.NDArray[Any]:
        located = self._located
        if located.host is not None:
            host: npt.NDArray[Any] = located.host
            return host
        copy = np.empty(located.shape, self._dtype)
        _core.fetch(located.pointer, copy, located.ordinal)
        return copy

    def go_to(self, matrix: Matrix | PartedMatrix) -> None:
        located = self._located
        if located.host is not None:
            matrix.update_values(located.host)
        else:
            matrix.update_values_at(located.pointer, located.shape[0])


def _check_type(given: Any, dtype: np.dtype[Any]) -> None:
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
