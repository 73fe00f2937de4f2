"""Multigrid over ranks: aggregates of each rank, and matrices of coarser levels that all ranks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import AnyMatrix, LinearMap
from .._util.types import DType, HostArray
from ..linalg.multigrid import LARGEST_DIRECT, SAFETY, Level, Multigrid, dense_inverse, visited_twice
from ..linalg.preconditioners import DevicePreconditioner
from ..linalg.systems import DeviceVector, check_square, staged
from ..operator.construct import aslinearoperator
from ..operator.operator import SparseOperator
from ..planning.symmetry import Symmetry
from . import from_rows
from .errors import agreement
from .exchange import Exchange, send_to
from .explain import Summary
from .operator import DistributedOperator
from .ranges import Ranges
from .rows import LocalRows, split

_SMOOTHING = 4 / 3  # the weight that smooths prolongators, for a largest eigenvalue of one
_POWERS = 10  # products to estimate the largest eigenvalue of a level
_BELOW = 1.1  # the eigenvalue over such an estimate, at most


class _GalerkinLevel(NamedTuple):
    """A level in the making: the matrix, and what it has besides the block that is known without other ranks.

    Attributes
    ----------
    op : DistributedOperator
    block : SparseOperator
        The matrix of this level in the rank's own hierarchy.
    own, halo : csr_array
        The rest of the rank's rows, in the columns of the rank and in those that it needs of others.
    """

    op: DistributedOperator
    block: SparseOperator
    own: sp.csr_array
    halo: sp.csr_array

    def times(self, of_rank: sp.csr_array, of_others: sp.csr_array) -> sp.csr_array:
        """The product of the rest with a matrix, of which there are the rows of this rank and the halo's."""
        return self.own @ of_rank + self.halo @ of_others


class _GridsOverRanks(NamedTuple):
    """What a hierarchy applies, finest first, and the inverse of the coarsest matrix.

    Attributes
    ----------
    matrices, prolongators : list of DistributedOperator
    diagonals : list of DeviceVector
        The inverses of the diagonals of the matrices.
    largest : list of float
        The largest eigenvalue of each matrix with its diagonal scaled to one, or a little more.
    smoothed : int
        How many prolongators are smoothed.
    inverse : DistributedOperator or None
    """

    matrices: list[DistributedOperator]
    prolongators: list[DistributedOperator]
    diagonals: list[DeviceVector]
    largest: list[float]
    smoothed: int
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
    return MultigridOverRanks(op, make)


class MultigridOverRanks(DevicePreconditioner):
    """A multigrid hierarchy of an operator over ranks as a preconditioner, as `amg` returns it.

    The solvers of `spmvgpu.linalg` take it. One application is one cycle, which all ranks do together.
    Aggregates do not cross ranks. Prolongators are smoothed across ranks. The matrices of coarser levels have
    all entries, and the coarsest one is inverted. So the number of iterations depends little on the number of
    ranks.

    Attributes
    ----------
    levels : tuple of Level
        As of `Multigrid`, with distributed operators.
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

    def __init__(self, op: DistributedOperator, make: Callable[[SparseOperator, int], Multigrid]) -> None:
        super().__init__(op.dtype, op.local_shape, op._block._ordinal)
        self._make = make
        self._state = self._set_up(op._snapshot())  # for the caller's operator may get new values

    def _set_up(self, finest: DistributedOperator) -> _GridsOverRanks:
        comm = finest.comm
        with agreement(comm):
            own = self._make(finest._block, max(1, LARGEST_DIRECT // comm.size))
            self._smoothing = own._arguments.smoothing
        depth = max(comm.allgather(len(own.levels)))
        grids = _GridsOverRanks([], [], [], [], max(comm.allgather(own._hierarchy.smoothed_levels)), None)
        level = _finest(finest, own)
        for number in range(depth):
            diagonal = level.op.diagonal().real
            inverse = np.divide(1, diagonal, where=diagonal > 0, out=np.zeros_like(diagonal))
            is_there = number < len(own.levels) and own.shape[0] > 0
            of_block = own._hierarchy.largest_eigenvalue(number) if is_there else 0.0
            of_all = _BELOW * _largest(level.op, diagonal, inverse)
            grids.largest.append(SAFETY * max(*comm.allgather(of_block), of_all) or 1.0)
            grids.matrices.append(level.op)
            grids.diagonals.append(staged(inverse.astype(self.dtype), self._ordinal))
            if number + 1 < depth:
                weight = _SMOOTHING / grids.largest[-1] if number < own._hierarchy.smoothed_levels else 0.0
                prolongator, level = _coarser(level, own, number, weight * inverse)
                grids.prolongators.append(prolongator)
        return grids._replace(inverse=_inverse(level.op))

    @property
    def levels(self) -> tuple[Level, ...]:
        grids: _GridsOverRanks = self._state
        to_coarser: list[Any] = [(P.H, P) for P in grids.prolongators]
        matrices: list[Any] = grids.matrices
        return tuple(Level(A, *pair) for A, pair in zip(matrices, [*to_coarser, (None, None)], strict=True))

    @property
    def operator_complexity(self) -> float:
        entries = [level.A.nnz for level in self.levels]
        return sum(entries) / max(1, entries[0])

    def _core_map(self) -> LinearMap:
        matrices, _, diagonals, largest, smoothed, inverse = self._state
        degree, ratio = self._smoothing
        given: list[Any] = []
        for (A, R, P), high, diagonal in zip(self.levels, largest, diagonals, strict=True):
            of_core = [None if op is None else _matrix(op) for op in (R, P)]
            given.append((_matrix(A), diagonal.pointer, high / ratio, high, degree, *of_core, None))
        if inverse is not None:
            given[-1] = (None, 0, 1.0, 1.0, 1, None, None, _matrix(inverse))
        twice = [] if inverse is None else visited_twice([A.nnz for A in matrices], smoothed)
        return _core.cycle_map(self.dtype, given, self._memory, twice)

    def _conjugate_transposed(self, state: _GridsOverRanks) -> _GridsOverRanks:
        return state  # as the matrix of a positive definite system

    def _state_with(self, data: object) -> _GridsOverRanks:
        """See `DistributedOperator.update_values`; the hierarchy is made anew."""
        finest = self._state.matrices[0]._snapshot()
        finest.update_values(data)
        return self._set_up(finest)

    def _reduced(self) -> tuple[object, ...]:
        raise TypeError("a hierarchy over ranks cannot be pickled; make it anew from its operator")

    def __repr__(self) -> str:
        unknowns = ", ".join(str(A.shape[0]) for A in self._state.matrices)
        return f"<MultigridOverRanks of {self.dtype}: {unknowns} unknowns>"


def _finest(op: DistributedOperator, own: Multigrid) -> _GalerkinLevel:
    local, rows = op._product.local, op.local_shape[0]
    halo = None if local.halo is None else local.halo.tocsr()
    of_halo = _in_all_rows(halo, local.boundary, (rows, len(local.needed)), op.dtype)
    return _GalerkinLevel(op, own.levels[0].A, sp.csr_array((rows, rows), dtype=op.dtype), of_halo)


def _coarser(
    fine: _GalerkinLevel, own: Multigrid, number: int, weights: HostArray
) -> tuple[DistributedOperator, _GalerkinLevel]:
    """The prolongator of a level and the next coarser level, whose matrix is the Galerkin product.

    A = B + E and P = Q + D, where B and Q are of the ranks' own hierarchies, which have Q* B Q, and D smooths
    Q by E. So the matrix is Q* B Q + Q* (E Q + A D) + D* A P. All but its first term have few entries, near
    the rows that have entries in columns of other ranks.
    """
    comm, exchange, dtype = fine.op.comm, fine.op._product.exchange, fine.op.dtype
    with agreement(comm):
        level = own.levels[min(number, len(own.levels) - 1)]
        is_coarser = level.P is not None
        block = own.levels[number + 1].A if is_coarser else level.A
        identity = sp.eye_array(level.A.shape[0], dtype=dtype, format="csr")
        of_block = level.P.tocsr() if level.P is not None else identity
    ranges = Ranges.from_counts(comm, block.shape[0])
    Q = _in_columns(of_block, ranges)
    Q_of_halo = _rows_of_halo(exchange, Q)
    EQ = fine.times(Q, Q_of_halo)
    D = sp.csr_array(sp.diags_array(-weights.astype(dtype)) @ EQ)
    D.eliminate_zeros()
    rest = fine.times(D, _rows_of_halo(exchange, D))  # E D; with B D it is A D
    with agreement(comm):
        smoothed = np.flatnonzero(np.diff(D.indptr))
        beside = fine.block.tocsr()[smoothed]  # B is Hermitian
        AD = sp.csr_array(beside.conj().T @ D[smoothed]) + rest
        AP = beside @ Q + EQ[smoothed] + AD[smoothed]
        of_rank = sp.coo_array(of_block.conj().T @ (EQ + AD))
        of_any = sp.coo_array(D[smoothed].conj().T @ AP)
    owners = ranges.owners(of_any.coords[0].astype(np.int64))
    _, (row, col, data) = send_to(
        comm, owners, *(part.astype(np.int64) for part in of_any.coords), of_any.data
    )
    with agreement(comm):
        row = np.concatenate((of_rank.coords[0], row - ranges.begin))
        col = np.concatenate((of_rank.coords[1], col))
        shape = (block.shape[0], ranges.total)
        more = sp.csr_array((np.concatenate((of_rank.data, data)), (row, col)), shape=shape)
        of_coarser, *of_rest = _rows_of_rank(block, more, ranges)
        of_fine, *_ = _rows_of_rank(level.P or aslinearoperator(identity, "csr", level.A.device), D, ranges)
    coarser = _over_ranks(fine.op, of_coarser, ranges, ranges, fine.op._shared.symmetry)
    prolongator = _over_ranks(fine.op, of_fine, fine.op.row_ranges, ranges, None)
    return prolongator, _GalerkinLevel(coarser, block, *of_rest)


def _rows_of_rank(
    block: SparseOperator, more: sp.csr_array, cols: Ranges
) -> tuple[LocalRows, sp.csr_array, sp.csr_array]:
    """The rows of a rank, a block and more entries; and these entries as `_GalerkinLevel` has them."""
    own, halo, boundary, needed = split(more, cols)
    if own.nnz:
        block = aslinearoperator(block.tocsr() + own, device=block.device, tune="off")
    others = None if halo is None else aslinearoperator(halo, device=block.device, tune="off")
    of_halo = _in_all_rows(halo, boundary, (block.shape[0], len(needed)), own.dtype)
    return LocalRows(block, others, boundary, needed), own, of_halo


def _over_ranks(
    like: DistributedOperator, local: LocalRows, rows: Ranges, cols: Ranges, symmetry: Symmetry | None
) -> DistributedOperator:
    """The operator of the rows that the ranks have, with the transport of another one."""
    exchange = Exchange(cols, local.needed)
    summaries = tuple(like.comm.allgather(Summary.of(like.comm.rank, local, exchange)))
    return DistributedOperator(
        replace(
            like._shared,
            local=local,
            exchange=exchange,
            rows=rows,
            cols=cols,
            summaries=summaries,
            symmetry=symmetry,
            variants={},
        )
    )


def _in_columns(csr: sp.csr_array, cols: Ranges) -> sp.csr_array:
    """A matrix in the columns of a rank, with the column numbers of the whole matrix."""
    columns = csr.indices.astype(np.int64) + cols.begin
    return sp.csr_array((csr.data, columns, csr.indptr), shape=(csr.shape[0], cols.total))


def _in_all_rows(
    halo: sp.csr_array | None, boundary: HostArray, shape: tuple[int, int], dtype: DType
) -> sp.csr_array:
    """A halo with all rows of the rank."""
    if halo is None:
        return sp.csr_array(shape, dtype=dtype)
    entries = halo.tocoo()
    return sp.csr_array((entries.data, (boundary[entries.coords[0]], entries.coords[1])), shape=shape)


def _rows_of_halo(exchange: Exchange, csr: sp.csr_array) -> sp.csr_array:
    """The rows of a matrix over ranks that a product needs of other ranks; each rank gives its rows."""
    comm = exchange.ranges.comm
    outgoing: list[Any] = [None] * comm.size
    for target in exchange.targets:
        outgoing[target.rank] = csr[exchange.indices[target.begin : target.end]]
    received = [rows for rows in comm.alltoall(outgoing) if rows is not None]
    return sp.csr_array(sp.vstack(received)) if received else sp.csr_array((0, csr.shape[1]), dtype=csr.dtype)


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


def _largest(level: DistributedOperator, diagonal: HostArray, inverse: HostArray) -> float:
    """The largest eigenvalue of a matrix whose diagonal is scaled to one, or a little less."""
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


def _matrix(op: Any) -> AnyMatrix:
    """The matrix as the core's cycle multiplies by it."""
    matrix: AnyMatrix | None = op._core_matrix
    if matrix is not None:
        return matrix
    rows, cols = op.local_shape

    def multiply(x: HostArray, y: HostArray, alpha: complex, beta: complex) -> None:
        op._multiply(x, y, alpha, beta)

    return _core.called_matrix(op.dtype, multiply, rows, cols, op._block._ordinal)
