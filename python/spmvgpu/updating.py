"""New values for the matrix of an operator, whose structure stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _core
from .arrays import taken
from .devices import at_most
from .operands import kind_of
from .parts import takes_new_values
from .stored import Stored, Variant
from .symmetry import Symmetry
from .value_types import AnyMatrix, Matrix, PartedMatrix

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
        """Replace the values of the stored entries, for Newton's method and time stepping.

        The structure stays, and so do format and options: nothing is chosen or tried again, and the operator
        is as one that is made of the new matrix. On a GPU values that are there are moved by one or two
        passes over the matrix, and NumPy's cross the bus before.

        Formats ``"csr"``, ``"csr_b"``, ``"csr_m"`` and ``"coo"`` hold values in the order in which they are
        given. In the others the first call finds out where they belong, and that is kept: 4 bytes a row, 8 in
        ``"hyb"``, 8 for every 32 diagonals in ``"dia"`` and of the whole matrix in ``"sdia"``, in ``"bsell"``
        4 more for every 32 blocks, and in ``"tsmv"``, which finds it on the CPU, 8 a stored value. Where rows
        and columns are stored in another order it is 4 more a stored value, found where the matrix lies, once
        its pattern has been through host memory. `nbytes` counts them.

        In ``"packed_sell"`` the values decide how they are stored, so the matrix is planned and stored anew
        on its device, which takes as long as making an operator of a matrix that is there, and memory for
        the new arrays beside the old ones. For that the pattern is kept there from the first call on, which
        reads it in host memory: 4 bytes an entry and 4 a row, counted in `nbytes`. The arrays may have other
        sizes and lie elsewhere afterwards: a CUDA graph that you captured with a product must not be
        replayed, but captured anew. The same is true where there are several parts, which are converted in
        host memory each time; that takes far longer.

        An operator is a value: whatever was made of it before keeps the values that it was made with. That is
        true of `T` and `H`, which are made again when they are asked for, of copies, parts and multiples, of
        preconditioners, of sums, products and powers, as ``op.T @ op`` is one, and of gradients that are
        still to be computed. Where the operator itself is given back, as for `T` of a symmetric one, nothing
        was made. Sums, products, powers and `spmvgpu.linalg.chebyshev` share the matrix with the operator, as
        that does of which it is the transpose. While there are such, an update stores the new values beside
        the old ones: it takes as long as making the operator, and CUDA graphs have to be captured anew.

        What another library's `LinearOperator` makes of the operator follows it instead, because Python asks
        the operand on the left: ``other + op`` and ``other @ op``. Beside ``op.T``, as in
        ``(other @ op.T) @ op``, that is a mixture of old and new values; ``other @ (op.T @ op)`` and
        ``other @ op.copy()`` are none.

        No product, solve or other update with the operator may run at the same time in another thread, and
        none with device arrays may be under way in a CUDA stream that is being captured; products that are
        queued already are waited for.

        Parameters
        ----------
        data : (nnz,) array
            In the order of ``tocsr().data``: of the whole matrix, row by row, by ascending columns, without
            duplicates. NumPy, what NumPy makes an array of, or on the operator's device (CuPy, PyTorch,
            DLPack); of the operator's dtype or of one that it holds without loss. Infinities and NaN are
            values like others.

        Raises
        ------
        TypeError
            For what is no array, for a type whose values would be rounded, and for an operator over several
            devices.
        ValueError
            For an array of another length or on another device, and for values that are not Hermitian where
            the operator was declared to be. Whether they are symmetric, where ``symmetric=`` said so, is not
            checked, as there.
        FormatError
            In a format for symmetric matrices that was asked for, or that `symmetric=` allowed, for values
            that are not symmetric, or not Hermitian, as those before; and in ``"stencil"``, if it was asked
            for, for values that differ between rows that had the same. A format that was found to suit the
            old values gives way to another one.
        MemoryError, CudaError
            If the device lacks memory, or fails. After every error but the last the values are the old ones.

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
                "the operator was made with symmetric='hermitian', and with the new values it is not: "
                f"{found}"
            )
        found = _core.asymmetry(csr.indptr, csr.indices, data, False)
        if found:
            raise ValueError(
                "the operator was made of a real symmetric matrix, and with the new values it is neither "
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
            f"data has dtype {given}, whose values would not all fit {dtype}, the operator's; convert it, or "
            "make a new operator"
        )
