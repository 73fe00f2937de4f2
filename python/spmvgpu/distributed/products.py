"""The product of a distributed matrix, and of its transpose, on the pieces of one rank."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

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

    def multiply(self, x: Piece, out: Piece | None, alpha: complex, beta: complex) -> Piece:
        return operands.scaled_product(self, x, out, alpha, beta, None)


class Product(ABC):
    """A product on one rank, which sends and receives while the block is multiplied."""

    _back: ClassVar[bool]  # whether messages go from those that need entries to those that hold them
    _kind: ClassVar[type[RankMatrix | TransposedRankMatrix]]

    def __init__(self, local: LocalRows, exchange: Exchange, transport: Transport) -> None:
        self.local, self.exchange, self.transport = local, exchange, transport
        self._boundary = _IndexMap(local.boundary)

    def __call__(
        self, x: Piece, out: Piece | None = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> Piece:
        """Multiply: ``alpha * A @ x + beta * out`` of pieces that are contiguous and of the operator's type.

        `x` may have columns.
        """
        if self.transport.nccl is not None and not isinstance(x, np.ndarray):
            return self._between_gpus.multiply(x, out, alpha, beta)
        _, library = array_and_library("x", x)
        with library.device(x):
            channel = self.exchange.channel(library, x, self.transport.cuda_mpi, self._back)
            self._fill(channel.outgoing, x, alpha, library)
            channel.start()
            try:
                y = self._operators[0].spmv(x, out, alpha, beta)
            finally:
                channel.finish()
            self._add(channel.incoming, x, y, alpha, library)
            channel.release()
            return y

    @property
    @abstractmethod
    def _operators(self) -> tuple[SparseOperator, SparseOperator | None]:
        """What multiplies: for the block, and for the halo."""

    @abstractmethod
    def _fill(self, outgoing: Piece, x: Piece, alpha: complex, library: AnyLibrary) -> None:
        """Write what is sent of ``alpha * x``, or of the product with it."""

    @abstractmethod
    def _add(self, incoming: Piece, x: Piece, y: Piece, alpha: complex, library: AnyLibrary) -> None:
        """Complete the product `y` of the block with what was received."""

    @lazy
    def matrix(self) -> AnyMatrix:
        """The core's, of vectors where the block is: it sends what `exchange` says over NCCL."""
        block, halo = self._operators
        nccl, exchange = self.transport.nccl, self.exchange
        if nccl is None:  # of the only rank
            return block._matrix
        sent, received = exchange.targets, exchange.sources
        if self._back:
            sent, received = received, sent
        boundary, wanted = (indices.astype(np.int32) for indices in (self.local.boundary, exchange.indices))
        return self._kind(nccl, block._matrix, halo and halo._matrix, boundary, wanted, sent, received)

    @lazy
    def _between_gpus(self) -> _BetweenGpus:
        return _BetweenGpus(self._operators[0], self.matrix)


class Forward(Product):
    """``A @ x``: messages carry the entries of x that the halo needs.

    Every row is the sum of two: of its entries in the block, and of those in the halo.
    """

    _back, _kind = False, RankMatrix

    def __init__(self, local: LocalRows, exchange: Exchange, transport: Transport) -> None:
        super().__init__(local, exchange, transport)
        self._sent = _IndexMap(exchange.indices)

    @property
    def _operators(self) -> tuple[SparseOperator, SparseOperator | None]:
        return self.local.block, self.local.halo

    def _fill(self, outgoing: Piece, x: Piece, alpha: complex, library: AnyLibrary) -> None:
        library.take(x, self._sent.near(x, library), outgoing)

    def _add(self, incoming: Piece, x: Piece, y: Piece, alpha: complex, library: AnyLibrary) -> None:
        if self.local.halo is not None:
            of_halo = self.local.halo.spmv(library.beside(incoming, x), None, alpha)
            y[self._boundary.near(x, library)] += of_halo


class Backward(Product):
    """``A.T @ x`` or ``A.H @ x``: messages carry the sums that the rows of the halo add to other ranks.

    They are added in the order of the ranks that they come from, after the block's own, so that the result
    does not depend on which comes first.
    """

    _back, _kind = True, TransposedRankMatrix

    def __init__(self, local: LocalRows, exchange: Exchange, transport: Transport, conjugated: bool) -> None:
        super().__init__(local, exchange, transport)
        self._conjugated = conjugated
        self._received = [
            (slice(m.begin, m.end), _IndexMap(exchange.indices[m.begin : m.end])) for m in exchange.targets
        ]

    @lazy
    def _operators(self) -> tuple[SparseOperator, SparseOperator | None]:
        block, *halo = (op.H if self._conjugated else op.T for op in self.local.operators)
        return block, halo[0] if halo else None

    def _fill(self, outgoing: Piece, x: Piece, alpha: complex, library: AnyLibrary) -> None:
        halo = self._operators[1]
        if halo is not None:
            of_boundary = x[self._boundary.near(x, library)]
            library.copy(halo.spmv(of_boundary, None, alpha), outgoing)

    def _add(self, incoming: Piece, x: Piece, y: Piece, alpha: complex, library: AnyLibrary) -> None:
        received = library.beside(incoming, x)
        for piece, index_map in self._received:  # of which none holds an entry twice
            y[index_map.near(x, library)] += received[piece]
