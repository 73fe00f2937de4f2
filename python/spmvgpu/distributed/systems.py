"""What the solvers of `spmvgpu.linalg` see of a system over ranks: this rank's piece of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .._util.value_types import core_class
from ..arrays import taken
from ..devices import CPU, device_name
from ..linalg.vectors import DeviceVector, Vectors, check_square
from .errors import agreement, check_same, raise_together
from .pieces import check_shape
from .staging import staging_of


class PieceOfSystem:
    """This rank's piece of a square system, as `SparseOperator` is the whole of one.

    Vectors are where `b` is, or on the rank's GPU. Inner products are added up over all ranks, in the order
    of the ranks, so that all of them do the same and the same again.

    Attributes
    ----------
    unknowns : int
        Of the whole system.
    failure : Exception or None
        What this rank's preconditioner has raised, and the others do not know of yet.
    """

    def __init__(self, op: Any, b: Any) -> None:
        check_square(op)
        if op.row_ranges != op.col_ranges:
            raise ValueError(
                "rows and columns are distributed differently; a solver needs an operator with the same "
                "row_ranges and col_ranges"
            )
        b, library = taken("b", b)
        located = library.locate(b, "b")
        self._op, self._library, self._b = op, library, b
        self._matrix = op._core_matrix
        if self._matrix is not None:  # vectors are where it is, also those of NumPy
            self._ordinal: int = op._shared.blocks.inner._ordinal
        elif located.host is not None:
            self._ordinal = CPU
        else:
            staging_of(b)  # refuses what its entries cannot be picked of
            self._ordinal = located.ordinal
        self.failure: Exception | None = None
        self._stream: int | None = None
        self._solver_memory = op._memory_of_solvers(self._ordinal)
        self.shape = (op.local_shape[0], op.local_shape[0])
        self.unknowns: int = op.shape[0]
        self.dtype: np.dtype[Any] = op.dtype
        self.max_threads: int | None = op._shared.threads
        # What the core adds sums with; the only rank has no need of it.
        self.ranks: Any = op._shared.transport.nccl if self._matrix is not None else self._add_over_ranks

    @property
    def solve_info(self) -> Any:
        return self._op.solve_info

    @solve_info.setter
    def solve_info(self, value: Any) -> None:
        self._op.solve_info = value

    def _check_device(self, name: str, located: Any, beside: int | None = None) -> None:
        if located.host is None and located.ordinal != self._ordinal:
            there, here = device_name(located.ordinal), device_name(self._ordinal)
            raise ValueError(
                f"{name} is on {there}, but the vectors of the solve are on {here}; move {name} there"
            )

    def vectors(self) -> Vectors:
        return _Pieces(self, self._b)

    def map_of(self, op: Any) -> Any:
        """The products with a distributed operator, as the core calls them."""
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
                located = self._library.locate(self._b, "b")
                _core.synchronize(self._library.stream(located), self._ordinal)

        return core_class("InPlaceMap", self.dtype)(multiply, self._ordinal)

    def core_map(self) -> Any:
        return self.map_of(self._op)

    def _array_at(self, address: int) -> Any:
        """The piece of a vector at an address, as an array of the library of `b`, or of NumPy."""
        like = np.empty(0) if self._ordinal == CPU else self._b
        return staging_of(like).array_at(address, self.shape[0], self.dtype, self._ordinal)

    def _add_over_ranks(self, sums: npt.NDArray[Any]) -> None:
        """Add what the other ranks have, in the order of the ranks; or raise what failed on one of them."""
        everywhere = np.empty((self._op.comm.size, len(sums) + 1))
        self._op.comm.Allgather(np.append(sums, self.failure is not None), everywhere)
        if everywhere[:, -1].any():
            raise_together(self._op.comm, self.failure)
        sums[:] = 0.0
        for of_rank in everywhere:
            sums += of_rank[:-1]

    def guarded(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """A function of this rank's, which others do not call: what it raises, all raise together later.

        Until then it gives NaN: the other ranks wait for messages of this one, and learn of it with the next
        sums that they add.
        """

        if self._op.comm.size == 1:
            return function

        def called(x: npt.NDArray[Any]) -> Any:
            if self.failure is None:
                try:
                    return function(x)
                except Exception as error:
                    self.failure = error
            return np.full_like(x, np.nan)

        return called

    def together(self, call: Callable[..., object]) -> Callable[..., None]:
        """A function that all ranks call, and all ranks raise what it raises on any of them."""

        def called(*arguments: Any) -> None:
            with agreement(self._op.comm):
                call(*arguments)

        return called

    def check_same(self, **values: Any) -> None:
        """Refuse, with ValueError, values that differ: ranks would go different ways."""
        check_same(self._op.comm, **values)


class _Pieces(Vectors):
    def result(self) -> Any:
        """The result for the caller; or all ranks raise what failed on one after the last sums were added."""
        raise_together(self._op._op.comm, self._op.failure)
        return super().result()

    def take(self, name: str, array: Any) -> DeviceVector:
        array, library = taken(name, array)
        shape = tuple(library.locate(array, name).shape)
        n = self._op.shape[0]
        if shape != (n, 1):
            check_shape(self._op._op, name, shape, n, (1,))
        return super().take(name, array)
