"""New values for the matrix of an operator, whose structure stays."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _core
from .arrays import taken
from .devices import at_most
from .operands import kind_of
from .parts import takes_new_values
from .value_types import AnyMatrix, Matrix, PartedMatrix

if TYPE_CHECKING:
    from typing_extensions import Self


class UpdateMethods:
    """The part of `SparseOperator` that replaces its values."""

    if TYPE_CHECKING:  # what SparseOperator has
        dtype: np.dtype[Any]
        _matrix: AnyMatrix
        _origin: Any
        _transposing: Any
        _copies: dict[str, Self]
        _copy_of: tuple[str, weakref.ref[Self]] | None

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

        What was made of the operator before has the old values: `T` and `H`, which are made again when they
        are asked for, copies, multiples and preconditioners. No product, solve or other update with the
        operator may run at the same time in another thread, and none with device arrays may be under way in a
        CUDA stream that is being captured; products that are queued already are waited for.

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
        with self._transposing, at_most(self.max_threads):
            if self._origin.symmetric == "hermitian":
                _check_hermitian(self.tocsr(), values.on_host())
            if not self._takes(values):
                csr = self.tocsr()
                csr.data = values.on_host()
                updated = self._origin.like(csr)
                self._matrix = updated._matrix
                if updated._origin.choice.format != self._origin.choice.format:
                    self._origin = updated._origin
            self._forget_copies()

    def _takes(self, values: _NewValues) -> bool:
        """Whether the matrix has the values now; it has the old ones where they do not suit its format."""
        if not takes_new_values(self._matrix):
            return False
        try:
            values.go_to(self._matrix)
        except _core.FormatError:
            if not self._origin.gives_way:
                raise
            return False
        return True

    def _forget_copies(self) -> None:
        """`T` and `H` are made anew of the new values; those that there are stay what they are."""
        for copy in self._copies.values():
            copy._copy_of = None
        self._copies.clear()
        if self._copy_of is not None:
            name, original = self._copy_of[0], self._copy_of[1]()
            self._copy_of = None
            if original is not None:
                original._copies.pop(name, None)


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


def _check_hermitian(csr: Any, data: npt.NDArray[Any]) -> None:
    found = _core.asymmetry(csr.indptr, csr.indices, data, True)
    if found:
        raise ValueError(
            f"the operator was made with symmetric='hermitian', and with the new values it is not: {found}"
        )
