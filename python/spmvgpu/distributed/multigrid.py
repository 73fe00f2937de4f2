"""Multigrid over ranks: aggregates of each rank, and matrices of coarser levels that all ranks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import AnyMatrix, LinearMap
from .._util.types import HostArray
from ..linalg.multigrid import LARGEST_DIRECT, SAFETY, Multigrid, dense_inverse, visited_twice
from ..linalg.preconditioners import DevicePreconditioner
from ..linalg.systems import check_square
from ..operator.construct import aslinearoperator
from ..operator.operator import SparseOperator
from . import from_rows
from .errors import agreement
from .exchange import Exchange
from .explain import Summary
from .operator import DistributedOperator
from .ranges import Ranges
from .rows import LocalRows, split

_POWERS = 10  # products to estimate the largest eigenvalue of a level
_BELOW = 1.1  # the eigenvalue over such an estimate, at most


class _Transfer(NamedTuple):
    """This rank's restriction to the next coarser level, and its prolongation from there."""

    R: SparseOperator
    P: SparseOperator


class _Grids(NamedTuple):
    """What a hierarchy applies: matrices and transfers, finest first, and the inverse of the last matrix."""

    levels: list[DistributedOperator]
    transfers: list[_Transfer]
    inverse: DistributedOperator | None


def multigrid_over_ranks(
    op: DistributedOperator, make: Callable[[SparseOperator, int], Multigrid]
) -> MultigridOverRanks:
    """The hierarchy of an operator over ranks.

    `make` makes the hierarchy of a rank's block, with at most a number of unknowns on the coarsest level.

    Raises
    ------
    TypeError, ValueError, numpy.linalg.LinAlgError
        As `linalg.amg`, on all ranks.
    """
    with op.agreement():
        check_square(op.shape)
        if op.row_ranges != op.col_ranges:
            raise ValueError("amg needs an operator whose rows and columns are distributed in the same way")
        own = make(op._block, max(1, LARGEST_DIRECT // op.comm.size))
    return MultigridOverRanks(op, own)


class MultigridOverRanks(DevicePreconditioner):
    """A multigrid hierarchy of an operator over ranks as a preconditioner, as `amg` returns it.

    The solvers of `spmvgpu.linalg` take it. One application is one cycle, which all ranks do together.
    Aggregates and prolongators do not cross ranks. The matrices of coarser levels have all entries, and the
    coarsest one is inverted. So the number of iterations depends little on the number of ranks.

    Attributes
    ----------
    levels : list of DistributedOperator
        The matrix of each level, finest first.
    operator_complexity : float
        Number of stored entries of all levels, divided by the number of the finest.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> from mpi4py import MPI
    >>> op = sg.distributed.scatter(sg.gallery.poisson2d(60), MPI.COMM_SELF, device="cpu")
    >>> M = sg.linalg.amg(op)
    >>> sg.linalg.cg(op, np.ones(3600), M=M)[1]
    0
    """

    def __init__(self, op: DistributedOperator, own: Multigrid) -> None:
        super().__init__(op.dtype, op.local_shape, own._ordinal)
        self._own, comm = own, op.comm
        # A snapshot with variants of its own, for the caller's operator may get new values.
        finest = DistributedOperator(
            replace(op._shared, local=op._shared.local.snapshot(), variants={}), *op._which
        )
        depth = max(comm.allgather(len(own.levels)))
        levels, transfers = [finest], []
        for number in range(1, depth):
            transfers.append(_transfer(own, number - 1))
            block = own.levels[min(number, len(own.levels) - 1)].A
            levels.append(_coarser(levels[-1], transfers[-1], block))
        self._largest = [
            max(*comm.allgather(_own_largest(own, number)), _BELOW * _largest_by_powers(level)) or 1.0
            for number, level in enumerate(levels)
        ]
        self._smoothed = max(comm.allgather(own._hierarchy.smoothed_levels))
        self._state = _Grids(levels, transfers, _inverse(levels[-1]))

    @property
    def levels(self) -> list[DistributedOperator]:
        return list(self._state.levels)

    @property
    def operator_complexity(self) -> float:
        return sum(level.nnz for level in self.levels) / max(1, self.levels[0].nnz)

    def _core_map(self) -> LinearMap:
        levels, transfers, inverse = self._state
        degree, ratio = self._own._arguments.smoothing
        given: list[Any] = []
        for number, level in enumerate(levels):
            high = SAFETY * self._largest[number]
            diagonal = (
                self._own._hierarchy.inverse_diagonal(self._number(number)) if level.local_shape[0] else 0
            )
            R, P = transfers[number] if number < len(transfers) else (None, None)
            to_coarser = R and R._matrix, P and P._matrix
            given.append((_matrix(level), diagonal, high / ratio, high, degree, *to_coarser, None))
        if inverse is not None:
            given[-1] = (None, 0, 1.0, 1.0, 1, None, None, _matrix(inverse))
        twice = [] if inverse is None else visited_twice([level.nnz for level in levels], self._smoothed)
        return _core.cycle_map(self.dtype, given, self._memory, twice)

    def _number(self, number: int) -> int:
        """The level of the rank's own hierarchy, which may have fewer."""
        return min(number, len(self._own.levels) - 1)

    def _conjugate_transposed(self, state: _Grids) -> _Grids:
        return state  # as the matrix of a positive definite system

    def _state_with(self, data: object) -> _Grids:
        raise TypeError("a hierarchy over ranks takes no new values; make a new one")

    def _reduced(self) -> tuple[object, ...]:
        raise TypeError("a hierarchy over ranks cannot be pickled; make it anew from its operator")

    def __repr__(self) -> str:
        unknowns = ", ".join(str(level.shape[0]) for level in self.levels)
        return f"<MultigridOverRanks of {self.dtype}: {unknowns} unknowns>"


def _transfer(own: Multigrid, number: int) -> _Transfer:
    """From a level to the next one: of a rank whose own hierarchy ends before, the identity."""
    level = own.levels[min(number, len(own.levels) - 1)]
    if level.R is not None and level.P is not None:
        return _Transfer(level.R, level.P)
    identity = sp.eye_array(level.A.shape[0], dtype=own.dtype, format="csr")
    same = aslinearoperator(identity, format="csr", device=level.A.device)
    return _Transfer(same, same)


def _coarser(fine: DistributedOperator, transfer: _Transfer, block: SparseOperator) -> DistributedOperator:
    """The Galerkin product of a level's matrix, of which a rank knows the block already.

    The ranks exchange the rows of their prolongators that others have a halo of.
    """
    comm, local, exchange = fine.comm, fine._product.local, fine._product.exchange
    cols = Ranges.from_counts(comm, block.shape[0])
    with agreement(comm):
        P = transfer.P.tocsr()
        outgoing: list[Any] = [None] * comm.size
        for target in exchange.targets:
            rows = P[exchange.indices[target.begin : target.end]]
            outgoing[target.rank] = (
                np.diff(rows.indptr),
                rows.indices.astype(np.int64) + cols.begin,
                rows.data,
            )
    received = [rows for rows in comm.alltoall(outgoing) if rows is not None]
    with agreement(comm):
        lengths, columns, data = (
            (np.concatenate(arrays) for arrays in zip(*received, strict=True))
            if received
            else (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, fine.dtype))
        )
        coupling = sp.csr_array((block.shape[0], cols.total), dtype=fine.dtype)
        if local.halo is not None:
            offsets = np.concatenate(([0], np.cumsum(lengths)))
            of_halo = sp.csr_array((data, columns, offsets), shape=(len(local.needed), cols.total))
            coupling = transfer.R.tocsr()[:, local.boundary] @ (local.halo.tocsr() @ of_halo)
        _, halo, boundary, needed = split(coupling, cols)
        others = None if halo is None else aslinearoperator(halo, device=block.device, tune="off")
        rows_of_rank = LocalRows(block, others, boundary, needed)
    plan = Exchange(cols, needed)
    summaries = tuple(comm.allgather(Summary.of(comm.rank, rows_of_rank, plan)))
    shared = replace(
        fine._shared,
        local=rows_of_rank,
        exchange=plan,
        rows=cols,
        cols=cols,
        summaries=summaries,
        variants={},
    )
    return DistributedOperator(shared)


def _inverse(coarsest: DistributedOperator) -> DistributedOperator | None:
    """The inverse of a small matrix, of which each rank has its rows."""
    if coarsest.shape[0] > LARGEST_DIRECT:
        return None
    comm, ranges = coarsest.comm, coarsest.row_ranges
    everywhere = comm.allgather(coarsest.tocsr().toarray())
    dense = comm.bcast(dense_inverse(np.concatenate(everywhere)) if comm.rank == 0 else None)
    rows = sp.csr_array(dense[ranges.begin : ranges.end].astype(coarsest.dtype))
    return from_rows.aslinearoperator(
        rows, comm, row_ranges=ranges, col_ranges=ranges, format="csr", device=coarsest.device
    )


def _own_largest(own: Multigrid, number: int) -> float:
    """The largest eigenvalue of the block of a level, with its diagonal one."""
    is_there = number < len(own.levels) and own.shape[0] > 0
    return own._hierarchy.largest_eigenvalue(number) if is_there else 0.0


def _largest_by_powers(level: DistributedOperator) -> float:
    """The same of the whole matrix, or a little less: the eigenvalues of blocks are smaller."""
    diagonal = level.diagonal().real
    inverse = np.divide(1, diagonal, where=diagonal > 0, out=np.zeros_like(diagonal))
    x = np.random.default_rng(level.row_ranges.begin).standard_normal(len(diagonal)).astype(level.dtype)
    found = 0.0
    for _ in range(_POWERS):
        y = level @ x
        of_rank = np.vdot(x, y).real, np.vdot(x, diagonal * x).real, np.vdot(y, y).real
        product, size, norm = np.sum(level.comm.allgather(of_rank), axis=0)
        if not (norm > 0 and size > 0):
            break
        found, x = float(product / size), (inverse * y / np.sqrt(norm)).astype(level.dtype)
    return found


def _matrix(op: DistributedOperator) -> AnyMatrix:
    """The matrix as the core's cycle multiplies by it."""
    matrix = op._core_matrix
    if matrix is not None:
        return matrix
    rows, cols = op.local_shape

    def multiply(x: HostArray, y: HostArray, alpha: complex, beta: complex) -> None:
        op._multiply(x, y, alpha, beta)

    return _core.called_matrix(op.dtype, multiply, rows, cols, op._block._ordinal)
