"""The product of a distributed matrix, and of its transpose, on the pieces of one rank."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from .._util.lazy import lazy
from .._util.value_types import core_class
from ..operator import operands
from .between_gpus import Transport
from .blocks import Blocks
from .exchange import Exchange
from .staging import Staging, device_of, staging_of

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _IndexMap:
    """Indices of vectors, with copies on the devices where they are used."""

    host: Array
    copies: dict[Any, Any] = field(default_factory=dict)

    def near(self, x: Any, staging: Staging) -> Any:
        device = device_of(x)
        if device not in self.copies:
            self.copies[device] = staging.index_map(self.host, x)
        return self.copies[device]


class _BetweenGpus:
    """What `operands` takes for an operator: products of vectors on a GPU, with messages over NCCL."""

    _stream: int | None = None  # that of the vectors' library

    def __init__(self, inner: Any, matrix: Any) -> None:
        self.shape, self.dtype, self._matrix = inner.shape, inner.dtype, matrix
        self._check_device = inner._check_device

    def multiply(self, x: Any, out: Any, alpha: complex, beta: complex) -> Any:
        return operands.scaled_product(self, x, out, alpha, beta, None)


class Forward:
    """``A @ x``: entries of x come from other ranks while the inner block is multiplied.

    Messages carry entries of x. Every row is the sum of two: of its entries in the inner block, and of those
    in the halo.
    """

    def __init__(self, blocks: Blocks, exchange: Exchange, transport: Transport) -> None:
        self.blocks, self.exchange, self.transport = blocks, exchange, transport
        self._boundary = _IndexMap(blocks.boundary)
        self._index_map = _IndexMap(exchange.indices)

    def __call__(self, x: Any, out: Any = None, alpha: complex = 1.0, beta: complex = 0.0) -> Any:
        """``alpha * A @ x + beta * out`` of pieces that are contiguous and of the operator's type.

        `x` may have columns, if there is nothing but it.
        """
        if self.transport.nccl is not None and not isinstance(x, np.ndarray):
            return self._between_gpus.multiply(x, out, alpha, beta)
        staging = staging_of(x, self.transport.cuda_mpi)
        with staging.device(x):
            return self._staged(staging, x, out, alpha, beta)

    def _staged(self, staging: Staging, x: Any, out: Any, alpha: complex, beta: complex) -> Any:
        blocks, channel = self.blocks, self.exchange.channel(staging, x)
        staging.take(x, self._index_map.near(x, staging), channel.outgoing)
        channel.start()
        try:
            y = _multiply(blocks.inner, x, out, alpha, beta)
        finally:
            channel.finish()
        if blocks.halo is not None:
            of_halo = _multiply(blocks.halo, staging.like(channel.incoming, x), None, alpha, 0.0)
            staging.add(y, self._boundary.near(x, staging), of_halo)
        channel.release()
        return y

    @lazy
    def matrix(self) -> Any:
        """The core's, of vectors where the block is: it sends what `exchange` says over NCCL."""
        inner, halo = self.blocks.inner, self.blocks.halo
        return _core_matrix("RankMatrix", self, inner, halo, self.exchange.targets, self.exchange.sources)

    @lazy
    def _between_gpus(self) -> _BetweenGpus:
        return _BetweenGpus(self.blocks.inner, self.matrix)


class Backward:
    """``A.T @ x`` or ``A.H @ x``: what rows add to other ranks goes there while the inner block multiplies.

    Messages carry sums. They are added in the order of the ranks that they come from, after the inner block's
    own, so that the result does not depend on which comes first.
    """

    def __init__(
        self, blocks: Blocks, exchange: Exchange, transport: Transport, conjugated: bool = False
    ) -> None:
        self.blocks, self.exchange, self.transport = blocks, exchange, transport
        self._turned = attrgetter("H" if conjugated else "T")  # of operators, made on first use
        self._boundary = _IndexMap(blocks.boundary)
        self._parts = [
            (slice(m.begin, m.end), _IndexMap(exchange.indices[m.begin : m.end])) for m in exchange.targets
        ]

    def __call__(self, x: Any, out: Any = None, alpha: complex = 1.0, beta: complex = 0.0) -> Any:
        """As `Forward`."""
        if self.transport.nccl is not None and not isinstance(x, np.ndarray):
            return self._between_gpus.multiply(x, out, alpha, beta)
        staging = staging_of(x, self.transport.cuda_mpi)
        with staging.device(x):
            return self._staged(staging, x, out, alpha, beta)

    def _staged(self, staging: Staging, x: Any, out: Any, alpha: complex, beta: complex) -> Any:
        blocks, channel = self.blocks, self.exchange.channel(staging, x, back=True)
        if blocks.halo is not None:
            of_boundary = staging.pick(x, self._boundary.near(x, staging))
            sums = _multiply(self._turned(blocks.halo), of_boundary, None, alpha, 0.0)
            staging.copy(sums, channel.outgoing)
        channel.start()
        try:
            y = _multiply(self._turned(blocks.inner), x, out, alpha, beta)
        finally:
            channel.finish()
        received = staging.like(channel.incoming, x)
        for part, index_map in self._parts:  # of which none holds an entry twice
            staging.add(y, index_map.near(x, staging), received[part])
        channel.release()
        return y

    @lazy
    def matrix(self) -> Any:
        """As `Forward`."""
        inner, halo = self._turned(self.blocks.inner), self.blocks.halo and self._turned(self.blocks.halo)
        sent, received = self.exchange.sources, self.exchange.targets
        return _core_matrix("TransposedRankMatrix", self, inner, halo, sent, received)

    @lazy
    def _between_gpus(self) -> _BetweenGpus:
        return _BetweenGpus(self._turned(self.blocks.inner), self.matrix)


def _core_matrix(
    name: str, product: Forward | Backward, inner: Any, halo: Any, sent: Any, received: Any
) -> Any:
    if product.transport.nccl is None:  # of the only rank
        return inner._matrix
    boundary, wanted = (
        indices.astype(np.int32) for indices in (product.blocks.boundary, product.exchange.indices)
    )
    kind, nccl = core_class(name, inner.dtype), product.transport.nccl
    return kind(nccl, inner._matrix, halo and halo._matrix, boundary, wanted, sent, received)


def _multiply(op: Any, x: Any, out: Any, alpha: complex, beta: complex) -> Any:
    return op.spmv(x, out, alpha, beta) if x.ndim == 1 else op @ x
