"""A system over ranks for the search of `solve`: what is known of its matrix, the same on all ranks."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import numpy as np

from .._util.types import HostArray
from ..arrays import AnyArray, array_and_library, on_host
from ..linalg.diagonals import diagonal_of
from ..linalg.factors import norms
from ..linalg.forecast import OnesInSystem, Rival, iterations_of_multigrid, rival_of
from ..linalg.problem import DoubleSystem
from .communicators import mpi
from .errors import agreement
from .from_rows import aslinearoperator
from .operator import DistributedOperator


class DoubleSystemOverRanks(DoubleSystem):
    """See `DoubleSystem`. Vectors are this rank's pieces."""

    def __init__(self, op: DistributedOperator, b: object, x0: AnyArray = None) -> None:
        with agreement(op.comm):
            self.b, self.library = array_and_library("b", b)
            self.located, self.x0 = self.library.locate(self.b, "b"), x0
        self.op: Any = op
        self._op, self.rows, self.dtype, self.is_foreign = op, op.shape[0], op.dtype, False
        self._comm, self._double = op.comm, np.result_type(op.dtype, np.float64)
        self.kind = "Hermitian" if op.dtype.kind == "c" else "symmetric"

    is_small, dominance = False, 0.0  # no rank has all entries
    has_constant_null_space = suits_multigrid = False

    @cached_property
    def diagonal(self) -> HostArray:
        """This rank's piece."""
        return diagonal_of(self._op)

    @cached_property
    def divides(self) -> bool:
        return self._everywhere(self.diagonal.all())

    @cached_property
    def has_positive_diagonal(self) -> bool:
        return self._everywhere((self.diagonal.real > 0).all())

    def multigrid(self, solver: str) -> Rival:
        block = self._op._block
        one = iterations_of_multigrid(block._ordinal, self._op.local_shape[0], block.nnz, block.nbytes)
        # The setup over ranks takes about twice as long as on one device with as many rows as each has.
        return rival_of(solver, float(self._comm.bcast(2 * one)), lambda: self.ones)

    @cached_property
    def ones(self) -> OnesInSystem | None:
        if not self.has_positive_diagonal:
            return None
        product, inverse = self._op @ np.ones(self._op.local_shape[1], self.dtype), 1 / self.diagonal.real
        own = product.sum().real, inverse @ product.real, self.diagonal.real.sum(), inverse.sum()
        return OnesInSystem(self.rows, *map(float, np.sum(self._comm.allgather(own), axis=0)))

    @cached_property
    def _exact(self) -> DistributedOperator:
        op = self._op
        if op.dtype == self._double:
            return op
        return aslinearoperator(op.tocsr(), self._comm, row_ranges=op.row_ranges, dtype=self._double)

    def delivered(self, x: AnyArray) -> AnyArray:
        """A solution as the caller gets it, if it is a refined one, in host memory."""
        is_refined = isinstance(x, np.ndarray) and self.located.host is None
        return self.library.from_host(x, self.b) if is_refined else x

    def residual(self, x: HostArray) -> HostArray:
        found: HostArray = on_host("b", self.b) - self._exact.dot(x)
        return found

    def norm(self, v: HostArray) -> float:
        return float(norms(np.array(self._comm.allgather(float(norms(v))))))

    def agreement(self) -> AbstractContextManager[None]:
        return agreement(self._comm)

    def _everywhere(self, condition: object) -> bool:
        return bool(self._comm.allreduce(bool(condition), op=mpi().LAND))
