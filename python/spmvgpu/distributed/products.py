"""The product of a distributed matrix, and of its transpose, on the pieces of one rank."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .._core import AnyMatrix, RankMatrix, TransposedRankMatrix
from .._util.lazy import lazy
from .._util.types import HostArray
from ..arrays import AnyLibrary, array_and_library
from ..operator import operands
from ..operator.operator import SparseOperator
from .exchange import Exchange, Piece, device_of
from .rows import LocalRows
from .transports import Transport


@dataclass(frozen=True)
class _IndexMap:
    """Indices of vectors, with copies on the devices where they are used."""

    host: HostArray
    copies: dict[str, Piece] = field(default_factory=dict)

    def near(self, x: Piece, library: AnyLibrary) -> Piece:
        device = device_of(x)
        if device not in self.copies:
            self.copies[device] = library.beside(self.host, x)
        return self.copies[device]


class _BetweenGpus:
    """What `operands` takes for an operator: products of vectors on a GPU, with messages over NCCL."""

    _stream: int | None = None  # that of the vectors' library

    def __init__(self, block: SparseOperator, matrix: AnyMatrix) -> None:
        self.shape, self.dtype, self._matrix = block.shape, block.dtype, matrix
        self._check_device = block._check_device


class Product:
    """A product on one rank, which sends and receives while the block is multiplied.

    For ``A @ x``, messages carry the entries of x that the halo needs. Every row is the sum of two: of its
    entries in the block, and of those in the halo.

    For ``A.T @ x`` and ``A.H @ x``, messages carry the sums that the rows of the halo add to other ranks.
    They are added in the order of the ranks that they come from, after the block's own, so that the result
    does not depend on which comes first.
    """

    def __init__(
        self, local: LocalRows, exchange: Exchange, transport: Transport, transposed: bool, conjugated: bool
    ) -> None:
        self.exchange, self.transport, self.transposed = exchange, transport, transposed
        self.local = local.conj() if conjugated and not transposed else local
        self._conjugated = conjugated
        self._boundary, self._sent = _IndexMap(local.boundary), _IndexMap(exchange.indices)
        self._received = [
            (slice(m.begin, m.end), _IndexMap(exchange.indices[m.begin : m.end])) for m in exchange.targets
        ]

    def __call__(
        self, x: Piece, out: Piece | None = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> Piece:
        """Multiply: ``alpha * A @ x + beta * out`` of pieces that are contiguous and of the operator's type.

        `x` may have columns.
        """
        if self.transport.nccl is not None and not isinstance(x, np.ndarray):
            return operands.scaled_product(self._between_gpus, x, out, alpha, beta, None)
        _, library = array_and_library("x", x)
        block, halo = self._operators
        with library.device(x):
            channel = self.exchange.channel(library, x, self.transport.cuda_mpi, self.transposed)
            if not self.transposed:
                library.take(x, self._sent.near(x, library), channel.outgoing)
            elif halo is not None:
                of_boundary = x[self._boundary.near(x, library)]
                library.copy(halo.spmv(of_boundary, None, alpha), channel.outgoing)
            channel.start()
            try:
                y = block.spmv(x, out, alpha, beta)
            finally:
                channel.finish()
            incoming = library.beside(channel.incoming, x)
            if self.transposed:
                for piece, index_map in self._received:  # no piece has an entry twice
                    y[index_map.near(x, library)] += incoming[piece]
            elif halo is not None:
                y[self._boundary.near(x, library)] += halo.spmv(incoming, None, alpha)
            channel.release()
            return y

    @lazy
    def _operators(self) -> tuple[SparseOperator, SparseOperator | None]:
        """The operators that multiply: of the block, and of the halo."""
        operators = self.local.operators
        if self.transposed:
            operators = [op.H if self._conjugated else op.T for op in operators]
        block, *halo = operators
        return block, halo[0] if halo else None

    @property
    def block(self) -> SparseOperator:
        return self._operators[0]

    @lazy
    def matrix(self) -> AnyMatrix:
        """The core's matrix for vectors where the block is: it sends what `exchange` says over NCCL."""
        block, halo = self._operators
        nccl, exchange = self.transport.nccl, self.exchange
        if nccl is None:  # there is one rank
            return block._matrix
        kind: type[RankMatrix | TransposedRankMatrix] = RankMatrix
        messages = exchange.targets, exchange.sources
        if self.transposed:
            kind, messages = TransposedRankMatrix, messages[::-1]
        boundary, wanted = (indices.astype(np.int32) for indices in (self.local.boundary, exchange.indices))
        return kind(nccl, block._matrix, halo and halo._matrix, boundary, wanted, *messages)

    @lazy
    def _between_gpus(self) -> _BetweenGpus:
        return _BetweenGpus(self._operators[0], self.matrix)
