"""Multigrid over ranks: aggregates of each rank, and matrices of coarser levels that all ranks share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import AnyMatrix, EntriesBetween
from .._util.types import HostArray
from ..arrays import NUMPY
from ..devices import CPU
from ..inputs.csr import CanonicalCsr
from ..linalg.coarsest import LARGEST_DIRECT, dense_inverse
from ..linalg.multigrid import SAFETY, Arguments, Level, Multigrid, checked_csr, stored
from ..linalg.multigrid_in_pieces import (
    BlockHierarchy,
    Coupling,
    GridsInPieces,
    MultigridInPieces,
    SharedMatrix,
    coupled,
    fits_one,
    is_scattered,
    most_coarse_of_block,
    sent,
    whole_hierarchy,
)
from ..linalg.systems import check_square
from ..linalg.vectors import empty
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

_MOST_UNKNOWNS = np.iinfo(np.int32).max
_POWERS = 10  # products to estimate the largest eigenvalue of a level
_BELOW = 1.1  # the eigenvalue over such an estimate, at most


class _LevelInMaking(NamedTuple):
    """A level in the making.

    Attributes
    ----------
    op : DistributedOperator
    csr : CanonicalCsr
        The rows and columns of the rank.
    between : EntriesBetween
        The entries of its rows that its hierarchy does not have.
    first : int
        The number that these give to the first row of the rank.
    """

    op: DistributedOperator
    csr: CanonicalCsr
    between: EntriesBetween
    first: int


def multigrid_over_ranks(
    op: DistributedOperator, arguments_for: Callable[[SparseOperator], Arguments]
) -> MultigridOverRanks:
    """The hierarchy of an operator over ranks.

    `arguments_for` checks the arguments beside the block of a rank.

    Raises
    ------
    TypeError, ValueError, numpy.linalg.LinAlgError
        As `linalg.amg`, on all ranks.
    """
    with op.agreement():
        check_square(op.shape)
        if op.row_ranges != op.col_ranges:
            raise ValueError("amg needs an operator whose rows and columns are distributed in the same way")
        if op._block._stored.description.is_divided:
            raise TypeError("amg over ranks needs one device for each rank, not a list; use more ranks")
        arguments = arguments_for(op._block)
    return MultigridOverRanks(op, arguments)


class MultigridOverRanks(MultigridInPieces):
    """A multigrid hierarchy of an operator over ranks as a preconditioner, as `amg` returns it.

    The solvers of `spmvgpu.linalg` take it. One application is one cycle, which all ranks do together.
    Aggregates do not cross ranks on levels with many entries; others are on every rank. Prolongators are
    smoothed across ranks, and the coarsest matrix is inverted. So the number of iterations depends little on
    the number of ranks.

    Attributes
    ----------
    levels : tuple of Level
        As of `Multigrid`, with distributed operators.
    operator_complexity : float
        Number of stored entries of all levels, divided by the number of the finest.
    nbytes : int
        Bytes of the hierarchy of this rank, without the finest matrix.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> from mpi4py import MPI
    >>> op = sg.distributed.scatter(sg.gallery.poisson2d(60), MPI.COMM_SELF, device="cpu")
    >>> M = sg.linalg.amg(op)
    >>> sg.linalg.cg(op, np.ones(3600), M=M)[1]
    0
    """

    def __init__(self, op: DistributedOperator, arguments: Arguments) -> None:
        super().__init__(op.dtype, op.local_shape, op._block._ordinal)
        self._arguments, self._smoothing = arguments, arguments.smoothing
        self._state = self._set_up(op._snapshot())  # for the caller's operator may get new values

    def _set_up(self, finest: DistributedOperator) -> GridsInPieces:
        comm = finest.comm
        largest_piece = max(comm.allgather(finest.local_shape[0]))
        with agreement(comm):
            most = most_coarse_of_block(self._arguments, comm.size, largest_piece, self._ordinal)
            block = checked_csr(finest._block)
            level = _finest(finest, block)
            own = BlockHierarchy(block, level.between, self._arguments._replace(max_coarse=most))
            own.grow()
        own_smoothed = sum(map(own.is_smoothed, range(own.depth)))
        depth, smoothed = max(comm.allgather(own.depth)), max(comm.allgather(own_smoothed))
        levels: list[Level] = []
        diagonals, largest = [], []
        for number in range(depth):
            op: Any = level.op
            between = _BELOW * _largest_between(level, own.A(number))
            largest.append(SAFETY * max(*comm.allgather(own.largest(number)), between) or 1.0)
            inverse = empty((level.csr.shape[0],), self.dtype, self._ordinal)
            level.csr.source.positive_inverses(0, inverse.pointer, self._ordinal)
            diagonals.append(inverse)
            if depth == 1:
                break
            is_smoothed = number < smoothed
            P, level = _coarser(level, own, number, is_smoothed=is_smoothed)
            fits = comm.bcast(fits_one(level.op.nnz, self._ordinal))  # other ranks may have other devices
            entries_between = sum(comm.allgather(level.between.nnz))
            if number + 2 == depth or fits or is_scattered(entries_between, level.op.nnz):
                R: Any = _GatheredRestrictor(P.H)
                levels.append(Level(op, R, _stored_here(CanonicalCsr.of(P.tocsr()), P)))
                whole = self._whole(level.op, own, number + 1, is_smoothed=is_smoothed)
                smoothed = min(smoothed, number + 1) + whole._hierarchy.smoothed_levels
                return GridsInPieces(tuple(levels), diagonals, largest, smoothed, whole)
            transfers: Any = P.H, P
            levels.append(Level(op, *transfers))
        return GridsInPieces((Level(op),), diagonals, largest, 0, None, _inverse(op))

    def _whole(
        self, op: DistributedOperator, own: BlockHierarchy, number: int, *, is_smoothed: bool
    ) -> Multigrid:
        """The levels from a whole one on, on every rank."""
        csr = CanonicalCsr.of(sp.csr_array(sp.vstack(op.comm.allgather(op.tocsr()))))
        here, spaces = _stored_here(csr, op), op.comm.allgather(own.near_null_space(number))
        with agreement(op.comm):
            csr = csr.at(here._ordinal)
            return whole_hierarchy(here, csr, spaces, number, self._arguments, is_smoothed=is_smoothed)

    def _matrix_of(self, op: Any) -> AnyMatrix:
        """An operator of a level in pieces as the core's cycle multiplies by it."""
        matrix: AnyMatrix | None = op._matrix if isinstance(op, SparseOperator) else op._core_matrix
        if matrix is not None:
            return matrix
        rows, cols = op.local_shape

        def multiply(x: HostArray, y: HostArray, alpha: complex, beta: complex) -> None:
            op._multiply(x, y, alpha, beta)

        return _core.called_matrix(op.dtype, multiply, rows, cols, op._block._ordinal)

    def _reduced(self) -> tuple[object, ...]:
        raise TypeError("a hierarchy over ranks cannot be pickled; make it again from its operator")


class _GatheredRestrictor:
    """A restrictor over ranks whose products all ranks get whole, because all have the coarser level."""

    def __init__(self, op: DistributedOperator) -> None:
        self.dtype, self.shape, self.nnz, self.nbytes = op.dtype, op.shape, op.nnz, op.nbytes
        self.local_shape = op.shape[0], op.local_shape[1]
        self._op, self._block = op, op._block

    def __matmul__(self, x: HostArray) -> HostArray:
        """The whole product with the pieces of all ranks."""
        return np.concatenate(self._op.comm.allgather(self._op @ x))

    @property
    def _core_matrix(self) -> AnyMatrix | None:
        own, nccl = self._op._core_matrix, self._op._shared.transport.nccl
        if own is None or nccl is None:
            return own
        return _core.GatheredMatrix(nccl, own, self._op.comm.allgather(self._op.local_shape[0]))

    # A cycle asks for products alone, with the factors one and zero.
    def _multiply(self, x: HostArray, y: HostArray, alpha: complex, beta: complex) -> None:
        part = np.empty(self._op.local_shape[0], self.dtype)
        self._op._multiply(x, part, 1.0, 0.0)
        y[:] = np.concatenate(self._op.comm.allgather(part))


def _stored_here(csr: CanonicalCsr, like: DistributedOperator) -> SparseOperator:
    with agreement(like.comm):
        return stored(csr, like.device)


def _finest(op: DistributedOperator, block: CanonicalCsr) -> _LevelInMaking:
    local, rows = op._product.local, op.local_shape[0]
    # The columns of the rank come first, and then the needed ones of others.
    entries = sp.coo_array((len(local.boundary), 0), dtype=op.dtype)
    if local.halo is not None:
        entries = local.halo.tocsr().tocoo()
    places = local.boundary[entries.row], rows + entries.col
    csr = sp.csr_array((entries.data, places), shape=(rows, rows + len(local.needed)))
    return _LevelInMaking(op, block, _between(csr, 0, rows, op._block._ordinal), 0)


def _between(csr: sp.csr_array, begin: int, end: int, ordinal: int) -> EntriesBetween:
    return EntriesBetween(CanonicalCsr.of(csr).to(ordinal).source, begin, end)


def _coarser(
    fine: _LevelInMaking, own: BlockHierarchy, number: int, *, is_smoothed: bool
) -> tuple[DistributedOperator, _LevelInMaking]:
    """The prolongator of a level and the next coarser level."""
    comm, op = fine.op.comm, fine.op
    with agreement(comm):
        block, prolongator = own.A(number + 1), own.P(number)
    ranges = Ranges.from_counts(comm, block.shape[0])
    with agreement(comm):
        if ranges.total > _MOST_UNKNOWNS:
            raise ValueError(f"{ranges.total} unknowns on level {number + 1}; at most 2**31 - 1 are allowed")
        step = coupled(fine.between, own, number, ranges.begin, ranges.total, is_smoothed=is_smoothed)
        asked: Any = next(step)
    while not isinstance(asked, Coupling):
        halos = [_rows_of_halo(op._product.exchange, shared) for shared in asked]
        with agreement(comm):
            asked = sent(step, halos)
    row, col, data = _coo(asked.A)
    _, (row, col, data) = send_to(comm, ranges.owners(row), row, col, data)
    with agreement(comm):
        more = sp.csr_array((data, (row - ranges.begin, col)), shape=(block.shape[0], ranges.total))
        csr, of_coarser = _rows_of_rank(block, more, ranges, op.device)
        between = _between(more, ranges.begin, ranges.end, block.ordinal)
        nothing = sp.csr_array((prolongator.shape[0], ranges.total), dtype=op.dtype)
        D = nothing if asked.D is None else asked.D.host
        _, of_fine = _rows_of_rank(prolongator, D, ranges, op.device)
    coarser = _over_ranks(op, of_coarser, ranges, ranges, op._shared.symmetry)
    level = _LevelInMaking(coarser, csr, between, ranges.begin)
    return _over_ranks(op, of_fine, op.row_ranges, ranges, None), level


def _coo(csr: CanonicalCsr) -> tuple[HostArray, HostArray, HostArray]:
    """The rows, columns and values of a matrix."""
    entries = csr.host.tocoo()
    return entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data


def _rows_of_rank(
    block: CanonicalCsr, more: sp.csr_array, cols: Ranges, device: str
) -> tuple[CanonicalCsr, LocalRows]:
    """The rows of a rank, which are a block and more entries: in the columns of the rank, and all of them."""
    own, halo, boundary, needed = split(more, cols)
    whole = block.plus(CanonicalCsr.of(own).to(block.ordinal)) if own.nnz else block
    others = None if halo is None else aslinearoperator(halo, device=device, tune="off")
    return whole, LocalRows(stored(whole, device), others, boundary, needed)


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


def _rows_of_halo(exchange: Exchange, shared: SharedMatrix) -> CanonicalCsr:
    """The rows of a matrix over ranks that a product needs of other ranks; each rank gives its rows."""
    comm = exchange.ranges.comm
    outgoing: list[Any] = [None] * comm.size
    for target in exchange.targets:
        outgoing[target.rank] = shared.rows(exchange.indices[target.begin : target.end], CPU).host
    received = [rows for rows in comm.alltoall(outgoing) if rows is not None]
    nothing = sp.csr_array((0, shared.total), dtype=shared.csr.dtype)
    return CanonicalCsr.of(sp.csr_array(sp.vstack([nothing, *received]))).to(shared.csr.ordinal)


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


def _largest_between(level: _LevelInMaking, block: CanonicalCsr) -> float:
    """The largest eigenvalue of the rows and columns near other ranks, scaled by their diagonal.

    It is estimated, and may be a little less.
    An eigenvector of a large eigenvalue is local: if that is larger than those of the blocks, it is here.
    """
    E, comm, exchange = level.between, level.op.comm, level.op._product.exchange
    with agreement(comm):
        near, numbers = E.near, np.concatenate((E.near + level.first, E.needed))
        order = np.argsort(numbers)
        rows = CanonicalCsr.on(E.near_rows(block.source, numbers[order].astype(np.int32))).host
        # The columns of the rank come first.
        A = sp.csr_array((rows.data, order[rows.indices], rows.indptr), shape=rows.shape)
        diagonal = A.diagonal().real
        inverse = np.divide(1, diagonal, where=diagonal > 0, out=np.zeros_like(diagonal))
        x = np.random.default_rng(level.op.row_ranges.begin).standard_normal(len(near)).astype(A.dtype)
        channel = exchange.channel(NUMPY, x, False, False)
        wanted = np.isin(exchange.indices, near)
        places = np.searchsorted(near, exchange.indices[wanted])
        channel.outgoing[:] = 0
    found = 0.0
    for _ in range(_POWERS):
        channel.outgoing[wanted] = x[places]
        channel.start()
        channel.finish()
        y = A @ np.concatenate((x, channel.incoming))
        of_rank = np.vdot(x, y).real, np.vdot(x, diagonal * x).real, np.vdot(y, y).real
        product, size, norm = np.sum(comm.allgather(of_rank), axis=0)
        if not (norm > 0 and size > 0):
            break
        found, x = float(product / size), (inverse * y / np.sqrt(norm)).astype(A.dtype)
    return found
