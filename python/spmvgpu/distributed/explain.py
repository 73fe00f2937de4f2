"""The text of `DistributedOperator.explain`."""

from __future__ import annotations

from typing import NamedTuple

from .communicators import library
from .exchange import Exchange
from .rows import LocalRows
from .transports import Transport, nccl_name

_MOST_LINES = 16

# Heads and widths of the columns of numbers of a `Summary`.
_HEADS = ("rank", "rows", "non-zeros", "in halo", "x received", "x sent", "messages")
_WIDTHS = (6, 12, 14, 12, 11, 11, 9)


class Summary(NamedTuple):
    """What one rank holds and sends: the numbers of the table in their order, and the rest."""

    rank: int
    rows: int
    entries: int
    halo_entries: int  # the entries that are multiplied by other ranks' entries of x
    received: int  # entries of x
    sent: int
    messages: int  # that it sends
    formats: str
    device: str

    @classmethod
    def of(cls, rank: int, rows: LocalRows, exchange: Exchange) -> Summary:
        """The summary of this rank."""
        entries = [op.nnz for op in rows.operators]
        device = rows.block.device
        return cls(
            rank,
            rows.block.shape[0],
            sum(entries),
            sum(entries[1:]),
            exchange.halo,
            len(exchange.indices),
            len(exchange.targets),
            " + ".join(op.format for op in rows.operators),
            device if isinstance(device, str) else ", ".join(device),
        )


def explanation(title: str, item: int, summaries: tuple[Summary, ...], transport: Transport) -> str:
    """A table of the ranks, or of the first of many, and what a product sends, of `item` bytes an entry."""
    head = " ".join(f"{name:>{width}s}" for name, width in zip(_HEADS, _WIDTHS, strict=True))
    lines = [title, "", f"{head}   format (block, halo) and device"]
    for s in summaries[:_MOST_LINES]:
        numbers = " ".join(f"{n:{width},d}" for n, width in zip(s, _WIDTHS, strict=False))
        lines.append(f"{numbers}   {s.formats} on {s.device}")
    if len(summaries) > _MOST_LINES:
        lines.append(f"{'...':>6s} {len(summaries) - _MOST_LINES} more ranks")
    messages, sent = sum(s.messages for s in summaries), sum(s.sent for s in summaries)
    most = max(s.sent + s.received for s in summaries)
    lines += [
        "",
        f"each product sends {messages:,d} messages with {sent * item:,d} bytes in total; one rank sends and "
        f"receives at most {most * item:,d} bytes",
        f"transport: {_carrier(summaries, transport)}",
    ]
    return "\n".join(lines)


def _carrier(summaries: tuple[Summary, ...], transport: Transport) -> str:
    """What carries the messages, and why it is not what would be better."""
    if len(summaries) == 1:
        return f"none, there is one rank ({library()})"
    if transport.nccl is not None:
        return f"{nccl_name()} between GPUs; MPI ({library()}) for vectors in host memory"
    if transport.cuda_mpi:
        return f"CUDA-aware MPI ({library()}) between GPUs ({transport.reason})"
    if any("cuda" in s.device for s in summaries):
        return f"MPI ({library()}) through host memory ({transport.reason})"
    return f"MPI ({library()})"
