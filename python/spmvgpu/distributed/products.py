"""The product of a distributed matrix, and of its transpose, on the pieces of one rank."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import numpy.typing as npt

from .blocks import Blocks
from .exchange import Exchange
from .staging import Staging, staging_of

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _IndexMap:
    """Indices of vectors, with copies on the devices where they are used."""

    host: Array
    copies: dict[Any, Any] = field(default_factory=dict)

    def near(self, x: Any, staging: Staging) -> Any:
        device = str(getattr(x, "device", None))
        if device not in self.copies:
            self.copies[device] = staging.index_map(self.host, x)
        return self.copies[device]


class Forward:
    """``A @ x``: entries of x come from other ranks while the inner block is multiplied.

    Messages carry entries of x. Every row is the sum of two: of its entries in the inner block, and of those
    in the halo.
    """

    def __init__(self, blocks: Blocks, exchange: Exchange) -> None:
        self.blocks, self.exchange = blocks, exchange
        self._boundary = _IndexMap(blocks.boundary)
        self._index_map = _IndexMap(exchange.indices)

    def __call__(self, x: Any, out: Any = None, alpha: complex = 1.0, beta: complex = 0.0) -> Any:
        """``alpha * A @ x + beta * out`` of pieces that are contiguous and of the operator's type.

        `x` may have columns, if there is nothing but it.
        """
        blocks, staging = self.blocks, staging_of(x)
        channel = self.exchange.channel(blocks.inner.dtype, _columns(x))
        staging.take(x, self._index_map.near(x, staging), channel.outgoing)
        channel.start()
        try:
            y = _multiply(blocks.inner, x, out, alpha, beta)
        finally:
            channel.finish()
        if blocks.halo is not None:
            y[self._boundary.near(x, staging)] += _multiply(
                blocks.halo, staging.like(channel.incoming, x), None, alpha, 0.0
            )
        return y


class Backward:
    """``A.T @ x`` or ``A.H @ x``: what rows add to other ranks goes there while the inner block multiplies.

    Messages carry sums. They are added in the order of the ranks that they come from, after the inner block's
    own, so that the result does not depend on which comes first.
    """

    def __init__(self, blocks: Blocks, exchange: Exchange, conjugated: bool) -> None:
        self.blocks, self.exchange = blocks, exchange
        self._turned = attrgetter("H" if conjugated else "T")  # of operators, made on first use
        self._boundary = _IndexMap(blocks.boundary)
        self._parts = [
            (slice(m.begin, m.end), _IndexMap(exchange.indices[m.begin : m.end])) for m in exchange.targets
        ]

    def __call__(self, x: Any, out: Any = None, alpha: complex = 1.0, beta: complex = 0.0) -> Any:
        """As `Forward`."""
        blocks, staging = self.blocks, staging_of(x)
        channel = self.exchange.channel(blocks.inner.dtype, _columns(x), back=True)
        if blocks.halo is not None:
            sums = _multiply(self._turned(blocks.halo), x[self._boundary.near(x, staging)], None, alpha, 0.0)
            staging.download(sums, channel.outgoing)
        channel.start()
        try:
            y = _multiply(self._turned(blocks.inner), x, out, alpha, beta)
        finally:
            channel.finish()
        received = staging.like(channel.incoming, x)
        for part, index_map in self._parts:  # of which none holds an entry twice
            y[index_map.near(x, staging)] += received[part]
        return y


def _columns(x: Any) -> int | None:
    return None if x.ndim == 1 else int(x.shape[1])


def _multiply(op: Any, x: Any, out: Any, alpha: complex, beta: complex) -> Any:
    return op.spmv(x, out, alpha, beta) if x.ndim == 1 else op @ x
