"""What the solvers of `spmvgpu.linalg` see of a system over ranks: this rank's piece of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, cast

import numpy as np

from .. import _core
from .._core import AnyMatrix, LinearMap
from .._util.types import HostArray
from ..arrays import NUMPY, array_and_library
from ..arrays.library import Memory
from ..devices import CPU
from ..linalg.systems import Callback, DeviceVector, Function, OverRanks, System, Vectors, check_square
from ..operator.solve_info import SolveInfo
from .communicators import Communicator
from .errors import agreement, check_same, raise_together
from .exchange import Piece
from .products import Product
from .ranges import Ranges


class Distributed(OverRanks, Protocol):
    """What is asked of a `DistributedOperator`."""

    local_shape: tuple[int, int]
    row_ranges: Ranges
    col_ranges: Ranges
    solve_info: SolveInfo | None
    _product: Product
    _threads: int | None

    @property
    def comm(self) -> Communicator: ...
    @property
    def _core_matrix(self) -> AnyMatrix | None: ...
    def _memory_of_solvers(self, ordinal: int) -> _core.SolverMemory: ...
    def _multiply(self, x: Piece, out: Piece) -> Piece: ...
    def _check_piece(self, name: str, shape: tuple[int, ...], length: int) -> None: ...


class PieceOfSystem(System):
    """This rank's piece of a square system.

    Vectors are where `b` is, or on the rank's GPU. Inner products are added up over all ranks, in the order
    of the ranks, so that all of them do the same and the same again.

    Attributes
    ----------
    failure : Exception or None
        What this rank's preconditioner has raised, and the others do not know of yet.
    """

    def __init__(self, op: Distributed, b: Piece) -> None:
        check_square(op.shape)
        if op.row_ranges != op.col_ranges:
            raise ValueError(
                "rows and columns are distributed differently; a solver needs an operator with the same "
                "row_ranges and col_ranges"
            )
        b, library = array_and_library("b", b)
        located = library.locate(b, "b")
        matrix = op._core_matrix
        if matrix is not None:  # all vectors are where it is, also NumPy's
            ordinal: int = op._product.local.block._ordinal
        elif located.host is not None:
            ordinal = CPU
        else:
            library.device(b)  # refuses what its entries cannot be picked of
            ordinal = located.ordinal
        super().__init__(b, library, op.local_shape[0], op.dtype, ordinal, op._memory_of_solvers(ordinal))
        self._op, self._matrix, self.unknowns = op, matrix, op.shape[0]
        self.failure: Exception | None = None
        self.max_threads = op._threads
        # The core adds sums with it, unless there is one rank.
        self.ranks = op._product.transport.nccl if matrix is not None else self._add_over_ranks

    def report(self, how: SolveInfo) -> None:
        self._op.solve_info = how

    def operator(self, why: str) -> OverRanks:
        return self._op

    def agreement(self) -> AbstractContextManager[None]:
        return agreement(self._op.comm)

    def shared_callback(self, callback: Callback | None) -> Callback | None:
        anywhere = any(self._op.comm.allgather(callback is not None))
        return (lambda _: None) if anywhere and callback is None else callback

    def vectors(self, in_pieces: bool) -> Vectors:
        return _Pieces(self)

    def map_of(self, op: OverRanks) -> LinearMap:
        """The products with a distributed operator, as the core calls them."""
        op = cast("Distributed", op)
        if op.row_ranges != self._op.row_ranges or op.col_ranges != self._op.row_ranges:
            raise ValueError(
                "M is distributed differently from the system; give both the same row_ranges and col_ranges"
            )
        if op.dtype != self.dtype:
            raise TypeError(f"M has dtype {op.dtype}, and the system {self.dtype}; give both the same dtype")

        matrix = op._core_matrix
        if (matrix is None) != (self._matrix is None):
            raise ValueError("M and the system use different transports; give both the same transport=")
        if matrix is not None:
            return _core.matrix_map(matrix)

        def multiply(x: int, y: int) -> None:
            op._multiply(self._array_at(x), self._array_at(y))
            if self._ordinal != CPU:
                located = self.library.locate(self.b, "b")
                _core.synchronize(self.library.stream(located), self._ordinal)

        return _core.in_place_map(self.dtype, multiply, self._ordinal)

    def core_map(self) -> LinearMap:
        return self.map_of(self._op)

    def _array_at(self, address: int) -> Piece:
        """The piece of a vector at an address, as an array of the library of `b`, or of NumPy."""
        library = NUMPY if self._ordinal == CPU else self.library
        return library.beside(Memory(address, (self.shape[0],), self.dtype), self.b)

    def _add_over_ranks(self, sums: HostArray) -> None:
        """Add what the other ranks have, in the order of the ranks; or raise what failed on one of them."""
        everywhere = np.empty((self._op.comm.size, len(sums) + 1))
        self._op.comm.Allgather(np.append(sums, self.failure is not None), everywhere)
        if everywhere[:, -1].any():
            raise_together(self._op.comm, self.failure)
        sums[:] = 0.0
        for of_rank in everywhere:
            sums += of_rank[:-1]

    def guarded(self, function: Function) -> Function:
        """A function of this rank's, which others do not call: what it raises, all raise together later.

        Until then it gives NaN: the other ranks wait for messages of this one, and learn of it with the next
        sums that they add.
        """

        if self._op.comm.size == 1:
            return function

        def called(x: HostArray) -> HostArray:
            if self.failure is None:
                try:
                    return function(x)
                except Exception as error:
                    self.failure = error
            return np.full_like(x, np.nan)

        return called

    def together(self, call: Callable[..., object]) -> Callable[..., object]:
        def called(*arguments: object) -> None:
            with agreement(self._op.comm):
                call(*arguments)

        return called

    def check_same(self, **values: object) -> None:
        check_same(self._op.comm, **values)


class _Pieces(Vectors):
    def __init__(self, system: PieceOfSystem) -> None:
        super().__init__(system)
        self._piece = system

    def result(self) -> Piece:
        """The result for the caller; or all ranks raise what failed on one after the last sums were added."""
        raise_together(self._piece._op.comm, self._piece.failure)
        return super().result()

    def take(self, name: str, array: object) -> DeviceVector:
        array, library = array_and_library(name, array)
        shape = library.locate(array, name).shape
        n = self._piece.shape[0]
        if shape != (n, 1):
            self._piece._op._check_piece(name, shape, n)
        return super().take(name, array)
