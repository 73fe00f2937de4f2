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
from ..linalg.systems import Callback, Factors, Function, OverRanks, System
from ..linalg.vectors import DeviceVector, Vectors
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
    def H(self) -> Distributed: ...  # noqa: N802
    @property
    def _core_matrix(self) -> AnyMatrix | None: ...
    def _memory_of_solvers(self, ordinal: int) -> _core.SolverMemory: ...
    def _multiply(self, x: Piece, out: Piece) -> Piece: ...
    def _check_piece(self, name: str, shape: tuple[int, ...], length: int) -> None: ...


class PieceOfSystem(System):
    """This rank's piece of a system, or of the space of right-hand sides or of solutions of a rectangle.

    Vectors are where `b` is, or on the rank's GPU. Inner products are added up over all ranks, in the order
    of the ranks, so that all of them do the same and the same again.

    Attributes
    ----------
    failure : Exception or None
        What this rank's preconditioner has raised, and the others do not know of yet.
    """

    def __init__(self, op: Distributed, b: Piece, name: str, ranges: Ranges) -> None:
        b, library = array_and_library(name, b)
        located = library.locate(b, name)
        matrix = op._core_matrix
        if matrix is not None:  # all vectors are where it is, also NumPy's
            ordinal: int = op._product.local.block._ordinal
        elif located.host is not None:
            ordinal = CPU
        else:
            library.device(b)  # refuses what its entries cannot be picked of
            ordinal = located.ordinal
        super().__init__(b, library, len(ranges), op.dtype, ordinal, op._memory_of_solvers(ordinal))
        self._op, self._matrix, self.unknowns, self.first = op, matrix, ranges.total, ranges.begin
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

    def map_of(self, op: OverRanks, name: str = "M") -> LinearMap:
        """The products with another distributed operator."""
        op = cast("Distributed", op)
        if op.row_ranges != self._op.row_ranges or op.col_ranges != self._op.row_ranges:
            raise ValueError(
                f"{name} is distributed differently from the system; give both the same row_ranges and "
                "col_ranges"
            )
        if op.dtype != self.dtype:
            raise TypeError(
                f"{name} has dtype {op.dtype}, and the system {self.dtype}; give both the same dtype"
            )
        if (op._core_matrix is None) != (self._matrix is None):
            raise ValueError(f"{name} and the system use different transports; give both the same transport=")
        return self.products(op)

    def products(self, op: Distributed) -> LinearMap:
        """The products with a distributed operator, as the core calls them."""
        matrix = op._core_matrix
        if matrix is not None:
            return _core.matrix_map(matrix)
        rows, columns = op._block.shape  # a transpose is made here, before other ranks wait for its products

        def multiply(x: int, y: int) -> None:
            op._multiply(self._array_at(x, columns), self._array_at(y, rows))
            if self._ordinal != CPU:
                located = self.library.locate(self.b, "b")
                _core.synchronize(self.library.stream(located), self._ordinal)

        return _core.in_place_map(self.dtype, multiply, self._ordinal)

    def core_map(self) -> LinearMap:
        return self.products(self._op)

    def _array_at(self, address: int, length: int) -> Piece:
        """The piece of a vector at an address, as an array of the library of `b`, or of NumPy."""
        library = NUMPY if self._ordinal == CPU else self.library
        return library.beside(Memory(address, (length,), self.dtype), self.b)

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
        def called(*arguments: object) -> object:
            with agreement(self._op.comm):
                return call(*arguments)

        return called

    def check_same(self, **values: object) -> None:
        check_same(self._op.comm, **values)

    def same(self, values: Factors) -> Factors:
        return cast("Factors", self._op.comm.bcast(values))

    def sum(self, values: HostArray) -> HostArray:
        summed: HostArray = np.sum(self._op.comm.allgather(values), axis=0)
        return summed

    def norm(self, vector: HostArray) -> float:
        return float(np.linalg.norm(self._op.comm.allgather(np.linalg.norm(vector))))

    def qr(self, vectors: HostArray) -> tuple[HostArray, HostArray]:
        orthonormal, triangle = np.linalg.qr(vectors)
        triangles = self._op.comm.allgather(triangle)
        first = sum(map(len, triangles[: self._op.comm.rank]))
        of_triangles, whole = self.same(np.linalg.qr(np.concatenate(triangles)))
        return orthonormal @ of_triangles[first : first + len(triangle)], whole


class _Pieces(Vectors):
    _space: PieceOfSystem

    def result(self) -> Piece:
        """The result for the caller; or all ranks raise what failed on one after the last sums were added."""
        raise_together(self._space._op.comm, self._space.failure)
        return super().result()

    def take(self, name: str, array: object) -> DeviceVector:
        array, library = array_and_library(name, array)
        shape = library.locate(array, name).shape
        n = self._space.shape[0]
        if shape != (n, 1):
            self._space._op._check_piece(name, shape, n)
        return _with_address(super().take(name, array))

    def new(self) -> DeviceVector:
        return _with_address(super().new())


def _with_address(vector: DeviceVector) -> DeviceVector:
    """A vector that the core does not take for a missing one, as an empty piece on a GPU has address 0."""
    return vector if vector.pointer else vector._replace(pointer=256)
