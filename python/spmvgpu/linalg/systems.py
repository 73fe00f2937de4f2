"""Systems of equations as solvers see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from .. import _core
from .._core import AnyMatrix, LinearMap, MultiDeviceMatrix
from .._util.types import DType, HostArray
from ..arrays import NUMPY, AnyArray, AnyLibrary, ArrayInfo, array_and_library
from ..arrays.products import common_type
from ..operator.construct import as_operator
from ..operator.operands import check_place, converted_vector
from ..operator.operator import SparseOperator
from ..operator.solve_info import SolveInfo
from .vectors import DeviceVector, Vectors, staged


def staged_numpy(space: System, array: HostArray, ordinal: int) -> DeviceVector:
    """A diagonal of NumPy's, checked and converted, where the device can read it."""
    return staged(converted_vector(space, "M", array, NUMPY)[0], ordinal)


Callback: TypeAlias = Callable[[AnyArray], object]
Function: TypeAlias = Callable[[HostArray], HostArray]
Ranks: TypeAlias = Callable[[HostArray], object] | _core.NcclCommunicator
Factors = TypeVar("Factors", bound=Sequence[HostArray])


class System:
    """What a solver asks of a system of equations; subclasses say where the products come from.

    A process alone agrees with itself. The piece of a system that a rank has overrides these methods.

    Attributes
    ----------
    b, library : array, Library
        The right-hand side, as `array_and_library` gives it.
    columns : int or None
        Number of right-hand sides, which may be 0; None for a vector.
    shape, dtype : tuple of int, numpy.dtype
        Of what this process has of the system.
    unknowns, first : int
        Length of the whole vectors, and the number of their first entry that this process has.
    max_threads : int or None
        Of the CPU.
    ranks : callable, NcclCommunicator or None
        What the core adds sums over ranks with.
    """

    max_threads: int | None = None
    first = 0
    ranks: Ranks | None = None
    solve_info: SolveInfo | None = None
    _matrix: AnyMatrix | None = None  # that the core multiplies by, if it has one
    _stream: int | None = None

    def __init__(
        self, b: AnyArray, library: AnyLibrary, n: int, dtype: DType, ordinal: int, memory: _core.SolverMemory
    ) -> None:
        self.b, self.library, self.columns = b, library, column_count(b, library)
        self.shape, self.dtype, self.unknowns = (n, n), dtype, n
        self._ordinal, self.memory = ordinal, memory

    def core_map(self) -> LinearMap:
        """The products with the system, as the core does them."""
        assert self._matrix is not None
        return _core.matrix_map(self._matrix)

    @property
    def pieces(self) -> int:
        """On how many devices the core keeps pieces of the vectors."""
        matrix = self._matrix
        return matrix.solver_pieces if matrix is not None and isinstance(matrix, MultiDeviceMatrix) else 1

    def vectors(self, in_pieces: bool) -> Vectors:
        """The vectors of a solve."""
        return Vectors(self, in_pieces)

    def report(self, how: SolveInfo) -> None:
        """Tell the operator how the solve went."""
        self.solve_info = how

    def operator(self, why: str) -> SparseOperator | OverRanks:
        """The operator, if its entries are known; `why` says what they are for."""
        raise no_entries(why)

    def _check_device(self, name: str, located: ArrayInfo, beside: int | None = None) -> None:
        """Refuse, with ValueError, a vector that is on another device."""
        if located.host is None:
            check_place(name, located, (self._ordinal,), "the vectors of the solve are on")

    # Among ranks

    def agreement(self) -> AbstractContextManager[None]:
        """A block at whose end all ranks raise what any of them has raised within."""
        return nullcontext()

    def shared_callback(self, callback: Callback | None) -> Callback | None:
        """A callback for all ranks if any of them has one."""
        return callback

    def check_same(self, **values: object) -> None:
        """Refuse, with ValueError, values that are not the same on all ranks."""

    def same(self, values: Factors) -> Factors:
        """Those of rank 0: NumPy's factorizations may have other bits, and signs, on another host."""
        return values

    def sum(self, values: HostArray) -> HostArray:
        """Sums over the ranks."""
        return values

    def norm(self, vector: HostArray) -> float:
        """The norm of a vector in host memory."""
        return float(np.linalg.norm(vector))

    def qr(self, vectors: HostArray) -> tuple[HostArray, HostArray]:
        """Orthonormal columns and the triangle of the QR factorization of vectors in host memory."""
        return np.linalg.qr(vectors)

    def together(self, call: Callable[..., object]) -> Callable[..., object]:
        """A function that all ranks call, and all ranks raise what it raises on any of them."""
        return call

    def guarded(self, function: Function) -> Function:
        """A function that this rank calls alone: the others hear of what it raises."""
        return function

    def map_of(self, op: OverRanks, name: str = "M") -> LinearMap:
        """The products with another operator over the ranks, which a caller gave as `name`."""
        raise TypeError(
            f"{name} is distributed over ranks, but the system is not; give an operator that is not "
            "distributed"
        )


@runtime_checkable
class OverRanks(Protocol):
    """An operator over ranks, all of which call a solver; `spmvgpu.distributed` has it."""

    shape: tuple[int, int]
    local_shape: tuple[int, int]
    dtype: DType
    row_ranges: Any

    @property
    def _block(self) -> SparseOperator:
        """This rank's block of the diagonal."""

    def agreement(self) -> AbstractContextManager[None]:
        """As `System.agreement`."""

    def diagonal(self) -> HostArray:
        """This rank's piece of the diagonal."""

    def tocsr(self) -> sp.csr_array:
        """The rows of this rank."""

    def update_values(self, data: object) -> None:
        """Take new values of the rows of this rank; all ranks call it."""

    def _piece_of_system(self, b: object, name: str) -> System:
        """This rank's piece of a system, whose right-hand side is called `name`."""

    def _spaces(self, b: object, name: str) -> tuple[System, System, LinearMap, LinearMap]:
        """The spaces of right-hand sides and of solutions, the products between them and their adjoint."""

    def _check_same(self, **values: object) -> None:
        """As `System.check_same`."""

    def _snapshot(self) -> OverRanks:
        """The operator with the values that it has now."""

    def _shifted(self, sigma: float) -> OverRanks:
        """The operator of the matrix less a multiple of the identity."""


class OperatorSystem(System):
    """The system of an operator of this process."""

    def __init__(self, op: SparseOperator, b: object, library: AnyLibrary) -> None:
        check_square(op.shape)
        super().__init__(b, library, op.shape[0], op.dtype, op._ordinal, op._solver_memory)
        self._op, self._stream = op, op._stream
        self._matrix, self.max_threads = op._matrix, op.max_threads

    def report(self, how: SolveInfo) -> None:
        self._op.solve_info = how

    def operator(self, why: str) -> SparseOperator:
        return self._op

    def _check_device(self, name: str, located: ArrayInfo, beside: int | None = None) -> None:
        self._op._check_device(name, located, beside)


class ForeignSystem(System):
    """The system of another LinearOperator: products are callbacks, and vectors are where `b` is."""

    def __init__(self, op: sla.LinearOperator, b: object, library: AnyLibrary) -> None:
        check_square(op.shape)
        located = library.locate(b, "b")
        dtype, memory = common_type(np.dtype(op.dtype), located.dtype), _core.SolverMemory(located.ordinal)
        super().__init__(b, library, op.shape[0], dtype, located.ordinal, memory)
        self._op = op

    def core_map(self) -> LinearMap:
        return callback_map(self, "A", self._op, self._ordinal)


def agreement_of(A: object) -> AbstractContextManager[None]:
    """As `System.agreement`, for what a caller gave as a matrix."""
    return A.agreement() if isinstance(A, OverRanks) else nullcontext()


def system_of(A: object, b: object, name: str = "b") -> System:
    """The system of what a caller gave to a solver, whose right-hand side is called `name`."""
    if isinstance(A, OverRanks):
        return A._piece_of_system(b, name)
    b, library = array_and_library(name, b)
    op = as_operator(A, b, name)
    return (OperatorSystem if isinstance(op, SparseOperator) else ForeignSystem)(op, b, library)


class Rectangle:
    """A matrix of any shape between the spaces of right-hand sides and of solutions.

    Parameters
    ----------
    A : matrix, SparseOperator, LinearOperator or DistributedOperator
    b : array
        A vector of either space, for which a matrix goes to its device.
    name : str
        Of `b`, for messages.

    Attributes
    ----------
    rows, columns : System
        Both spaces.
    product, adjoint : LinearMap
        Of the core.
    """

    def __init__(self, A: object, b: object, name: str = "b") -> None:
        if isinstance(A, OverRanks):
            self.rows, self.columns, self.product, self.adjoint = A._spaces(b, name)
            self.rows.columns = self.columns.columns = None
            return
        b, library = array_and_library(name, b)
        located = library.locate(b, name)
        op = as_operator(A, b, name)
        shape = (int(op.shape[0]), int(op.shape[1]))
        ordinal = located.ordinal
        if isinstance(op, SparseOperator):
            dtype, stream = op.dtype, op._stream
            if located.host is None:  # on any of the devices of the operator, and the other vectors as well
                op._check_device(name, located)
            else:
                ordinal = op._ordinal
            memory = op._solver_memory if ordinal == op._ordinal else _core.SolverMemory(ordinal)
        else:
            dtype, stream = common_type(np.dtype(op.dtype), located.dtype), None
            memory = _core.SolverMemory(ordinal)
        self.rows, self.columns = (System(b, library, n, dtype, ordinal, memory) for n in shape)
        for space in (self.rows, self.columns):
            space.columns, space._stream = None, stream
            space.max_threads = getattr(op, "max_threads", None)
        self.rows.shape, self.columns.shape = shape, shape[::-1]
        if isinstance(op, SparseOperator):
            self.product, self.adjoint = _core.matrix_map(op._matrix), _core.matrix_map(op.H._matrix)
        else:
            self.product = callback_map(self.rows, "A", op, ordinal)
            # Not op.H, whose products without an rmatvec of A say nothing of what is missing.
            adjoint = sla.LinearOperator(shape[::-1], matvec=op.rmatvec, dtype=op.dtype)
            self.adjoint = callback_map(self.rows, "the adjoint of A", adjoint, ordinal)


def no_entries(why: str) -> TypeError:
    """The refusal of an operator whose entries are not known."""
    return TypeError(f"{why} needs the entries of A; give a matrix or an operator of spmvgpu")


def refuse_ranks(A: object) -> None:
    """Refuse, with TypeError, an operator over ranks."""
    if isinstance(A, OverRanks):
        raise TypeError(
            "A is distributed over ranks, and this needs one process; use the solvers of spmvgpu.linalg, "
            "eigsh and svds, or SciPy's with A.replicated()"
        )


def column_count(b: AnyArray, library: AnyLibrary) -> int | None:
    """The number of right-hand sides that an array has as columns; None for a vector."""
    shape = library.locate(b, "b").shape
    return None if len(shape) != 2 or shape[1] == 1 else int(shape[1])


def check_square(shape: tuple[int, ...]) -> None:
    """Refuse, with ValueError, the shape of an operator that is no system of equations."""
    if shape[0] != shape[1]:
        raise ValueError(f"the operator has shape {shape}; this needs a square one")


def callback_map(system: System, name: str, op: sla.LinearOperator, ordinal: int) -> LinearMap:
    """An operator of NumPy arrays as what the core multiplies vectors on a device by."""
    function = system.guarded(partial(_checked_products, name, op))
    return _core.callback_map(system.dtype, function, op.shape[0], op.shape[1], ordinal)


def _checked_products(name: str, op: sla.LinearOperator, vectors: HostArray) -> HostArray:
    """The products with the rows of an array, as the core takes them; TypeError or ValueError for others."""
    rows, dtype, count = op.shape[0], vectors.dtype, len(vectors)
    if count > 1:
        return np.ascontiguousarray(_checked(name, op.matmat(vectors.T), dtype, (rows, count)).T, dtype)
    y = _checked(name, op.matvec(vectors[0]), dtype, (rows,), (rows, 1))
    return np.ascontiguousarray(y.reshape(1, -1), dtype)


def _checked(name: str, result: object, dtype: DType, *allowed: tuple[int, ...]) -> HostArray:
    y, kind = np.asarray(result), "a vector" if len(allowed) > 1 else "an array"
    if y.shape not in allowed:
        raise ValueError(f"{name} returned {kind} of shape {y.shape}; it must have shape {allowed[0]}")
    if y.dtype.kind not in ("biufc" if dtype.kind == "c" else "biuf"):
        numbers = "numbers" if dtype.kind == "c" else "real numbers, as b and the matrix are"
        raise TypeError(f"{name} returned {kind} of dtype {y.dtype}; allowed are {numbers}")
    return y
