"""Which entries of x the ranks send each other, planned once, and the messages that carry them."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .communicators import mpi
from .ranges import Ranges

Array = npt.NDArray[Any]

_TAG = 1  # of all messages: on a communicator of our own, those between two ranks keep their order


class Message(NamedTuple):
    """What one rank and this one have for each other: neighbouring entries of a buffer."""

    rank: int
    begin: int
    end: int


class Exchange:
    """The plan of an exchange: which entries of its piece of x each rank sends to which others.

    Attributes
    ----------
    ranges : Ranges
        Of x.
    halo : int
        Entries that this rank needs of others.
    sources : tuple of Message
        From whom they come, in ascending order, and where they lie among them.
    indices : array of int
        The entries of this rank's piece that others need, one after the other.
    targets : tuple of Message
        To whom they go, in ascending order.
    """

    def __init__(self, ranges: Ranges, needed: Array) -> None:
        """Plan it; all ranks do so together.

        Parameters
        ----------
        ranges : Ranges
        needed : array of int64
            Indices of x, ascending, each once, none of this rank's own.
        """
        comm = ranges.comm
        self.ranges = ranges
        self.halo = len(needed)
        wanted = np.bincount(ranges.owners(needed), minlength=comm.size).astype(np.int64)
        asked = np.empty_like(wanted)
        comm.Alltoall(wanted, asked)
        indices = np.empty(int(asked.sum()), np.int64)
        comm.Alltoallv([needed.astype(np.int64), wanted], [indices, asked])
        self.indices = (indices - ranges.begin).astype(np.intp)
        self.sources = _messages(wanted)
        self.targets = _messages(asked)
        self._channels: dict[tuple[np.dtype[Any], int | None, bool], Channel] = {}

    def channel(self, dtype: np.dtype[Any], columns: int | None = None, back: bool = False) -> Channel:
        """The messages for vectors of a type, or for so many columns; `back` for the opposite direction.

        Those of vectors are kept, and of blocks of columns the latest.
        """
        key = (dtype, columns, back)
        found = self._channels.get(key)
        if found is None:
            for other in [other for other in self._channels if columns is not None and other[1] is not None]:
                del self._channels[other]
            found = self._channels[key] = Channel(self, dtype, columns, back)
        return found


def _messages(counts: Array) -> tuple[Message, ...]:
    ends = np.cumsum(counts)
    return tuple(
        Message(int(rank), int(ends[rank] - counts[rank]), int(ends[rank])) for rank in np.flatnonzero(counts)
    )


class Channel:
    """Buffers in host memory, and persistent requests that send one and receive the other.

    Between `start` and `finish` neither is touched.

    Attributes
    ----------
    outgoing, incoming : array
        In the order of the exchange's `indices` and of the halo, or the other way round on the way back.
    """

    def __init__(self, exchange: Exchange, dtype: np.dtype[Any], columns: int | None, back: bool) -> None:
        comm = exchange.ranges.comm
        shape = () if columns is None else (columns,)
        sent, halo = (np.zeros((n, *shape), dtype) for n in (len(exchange.indices), exchange.halo))
        to, of = exchange.targets, exchange.sources
        if back:
            sent, halo, to, of = halo, sent, of, to
        self.outgoing, self.incoming = sent, halo
        receives = [comm.Recv_init(self.incoming[m.begin : m.end], m.rank, _TAG) for m in of]
        sends = [comm.Send_init(self.outgoing[m.begin : m.end], m.rank, _TAG) for m in to]
        self._requests = receives + sends
        weakref.finalize(self, _free, self._requests)

    def start(self) -> None:
        """Begin to send and to receive."""
        mpi().Prequest.Startall(self._requests)

    def finish(self) -> None:
        """Wait until everything has come and `outgoing` may be written again."""
        mpi().Prequest.Waitall(self._requests)


def _free(requests: Iterable[Any]) -> None:
    if not mpi().Is_finalized():
        for request in requests:
            request.Free()
