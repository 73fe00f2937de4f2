"""Which entries of x the ranks send each other, planned once, and the messages that carry them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from .._util.types import HostArray
from ..arrays import AnyArray, AnyLibrary
from .communicators import Communicator, mpi
from .ranges import Ranges

if TYPE_CHECKING:
    from mpi4py.MPI import Prequest

#: A rank's piece of a vector, or of the rows of a 2-D array: an array of NumPy, CuPy or PyTorch.
Piece: TypeAlias = AnyArray

_TAG = 1  # all messages have it: on a private communicator, messages between two ranks keep their order


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
        The ranges of x.
    halo : int
        Entries that this rank needs of others.
    sources : tuple of Message
        The ranks that they come from, in ascending order, and where they lie in the halo.
    indices : array of int
        The entries of this rank's piece that others need, one after the other.
    targets : tuple of Message
        The ranks that they go to, in ascending order.
    """

    def __init__(self, ranges: Ranges, needed: HostArray) -> None:
        """Plan it; all ranks do so together.

        Parameters
        ----------
        ranges : Ranges
        needed : array of int64
            Indices of x, ascending, each once, none of this rank's own.
        """
        self.ranges = ranges
        self.halo = len(needed)
        owners = ranges.owners(needed)
        asked, (indices,) = send_to(ranges.comm, owners, needed)
        self.indices = (indices - ranges.begin).astype(np.intp)
        self.sources = _messages(np.bincount(owners, minlength=ranges.comm.size))
        self.targets = _messages(asked)
        self._channels: dict[tuple[object, ...], Channel] = {}

    def channel(self, library: AnyLibrary, x: Piece, on_device: bool, back: bool) -> Channel:
        """The messages for arrays of the type, device and columns of `x`; `back` for the opposite direction.

        They begin and end on the device if MPI reads the memory of GPUs, and in host memory otherwise. Those
        of vectors are kept, and of blocks of columns the latest.
        """
        columns = x.shape[1:]
        key = (columns, x.dtype, device_of(x), back)
        found = self._channels.get(key)
        if found is None:
            for other in [other for other in self._channels if columns and other[0]]:
                del self._channels[other]
            found = self._channels[key] = Channel(self, library, x, on_device, back)
        return found


def send_to(comm: Communicator, to: HostArray, *arrays: HostArray) -> tuple[HostArray, list[HostArray]]:
    """Send each entry of some arrays to a rank; all ranks do so together.

    Parameters
    ----------
    comm : communicator
    to : array of int
        The rank that each entry goes to.
    *arrays : array
        As long as `to`.

    Returns
    -------
    counts : array of int64
        Entries that come from each rank.
    arrays : list of array
        What comes, in the order of the ranks that it comes from.
    """
    order = np.argsort(to, kind="stable")
    counts = np.bincount(to, minlength=comm.size).astype(np.int64)
    coming = np.empty_like(counts)
    comm.Alltoall(counts, coming)
    received = [np.empty(int(coming.sum()), array.dtype) for array in arrays]
    for array, target in zip(arrays, received, strict=True):
        comm.Alltoallv([array[order], counts], [target, coming])
    return coming, received


def device_of(x: Piece) -> str:
    """The device of an array, to tell it from others."""
    return str(getattr(x, "device", None))


def _messages(counts: HostArray) -> tuple[Message, ...]:
    ends = np.cumsum(counts)
    return tuple(
        Message(int(rank), int(ends[rank] - counts[rank]), int(ends[rank])) for rank in np.flatnonzero(counts)
    )


class Channel:
    """Buffers where MPI reads and writes them, and persistent requests that send one and receive the other.

    Between `start` and `finish` neither is touched.

    Attributes
    ----------
    outgoing, incoming : array
        In the order of the exchange's `indices` and of the halo, or the other way round on the way back.
    """

    def __init__(
        self, exchange: Exchange, library: AnyLibrary, x: Piece, on_device: bool, back: bool
    ) -> None:
        """Make buffers for arrays of the type and columns of `x`; its device is the current one."""
        comm = exchange.ranges.comm
        lengths = len(exchange.indices), exchange.halo
        sent, halo = (library.buffer((n, *x.shape[1:]), x, on_device) for n in lengths)
        to, of = exchange.targets, exchange.sources
        if back:
            sent, halo, to, of = halo, sent, of, to
        self.outgoing, self.incoming = sent, halo
        self._queued = library.event()
        receives = [comm.Recv_init(self.incoming[m.begin : m.end], m.rank, _TAG) for m in of]
        sends = [comm.Send_init(self.outgoing[m.begin : m.end], m.rank, _TAG) for m in to]
        self._requests = receives + sends
        weakref.finalize(self, _free, self._requests, self._queued)

    def start(self) -> None:
        """Begin to send and to receive, once what is queued on the current stream is done.

        MPI knows nothing of streams: the host waits until `outgoing` is written, and `incoming` was read.
        """
        self._queued.synchronize()  # `release` may have been called on another stream
        self._queued.record()
        self._queued.synchronize()
        mpi().Prequest.Startall(self._requests)

    def finish(self) -> None:
        """Wait until everything has come and `outgoing` may be written again."""
        mpi().Prequest.Waitall(self._requests)

    def release(self) -> None:
        """What is queued on the current stream so far is the last that reads `incoming`."""
        self._queued.record()


def _free(requests: list[Prequest], queued: Any) -> None:
    queued.synchronize()  # the memory of the buffers may be used otherwise from now on
    if not mpi().Is_finalized():
        for request in requests:
            request.Free()
