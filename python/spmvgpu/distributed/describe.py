"""The text of `DistributedOperator.explain`."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import between_gpus
from .blocks import Blocks
from .communicators import library
from .exchange import Exchange

_MOST_LINES = 16


class Summary(NamedTuple):
    """One rank's part of an operator."""

    rank: int
    rows: int
    entries: int
    halo_entries: int  # of them, those that meet other ranks' entries of x
    boundary: int  # rows with such
    received: int  # entries of x
    sent: int
    messages: int  # that it sends
    format: str
    device: str

    @classmethod
    def of(cls, rank: int, blocks: Blocks, exchange: Exchange) -> Summary:
        halo = 0 if blocks.halo is None else blocks.halo.nnz
        formats = [blocks.inner.format] + ([] if blocks.halo is None else [blocks.halo.format])
        device = blocks.inner.device
        return cls(
            rank,
            blocks.inner.shape[0],
            blocks.inner.nnz + halo,
            halo,
            len(blocks.boundary),
            exchange.halo,
            len(exchange.indices),
            len(exchange.targets),
            " + ".join(formats),
            device if isinstance(device, str) else ", ".join(device),
        )


def explanation(
    title: str, item: int, summaries: tuple[Summary, ...], transport: between_gpus.Transport
) -> str:
    """A table of the ranks, or of the first of many, and what a product sends, of `item` bytes an entry."""
    header = (
        f"{'rank':>6s} {'rows':>12s} {'non-zeros':>14s} {'in halo':>12s} {'x received':>11s} {'x sent':>11s}"
    )
    lines = [title, "", f"{header} {'messages':>9s}   format (block, halo) and device"]
    for s in summaries[:_MOST_LINES]:
        counts = f"{s.rank:6d} {s.rows:12,d} {s.entries:14,d} {s.halo_entries:12,d}"
        carried = f"{s.received:11,d} {s.sent:11,d} {s.messages:9d}"
        lines.append(f"{counts} {carried}   {s.format} on {s.device}")
    if len(summaries) > _MOST_LINES:
        lines.append(f"{'...':>6s} {len(summaries) - _MOST_LINES} more ranks")
    messages, sent = sum(s.messages for s in summaries), sum(s.sent for s in summaries)
    most = max(s.sent + s.received for s in summaries)
    lines += [
        "",
        f"each product sends {messages:,d} messages with {sent * item:,d} bytes in total; one rank sends and "
        f"receives at most {most * item:,d} bytes",
        f"transport: {_transport(summaries, transport)}",
    ]
    return "\n".join(lines)


def _transport(summaries: tuple[Summary, ...], transport: between_gpus.Transport) -> str:
    names: Any = {s.device for s in summaries}
    if len(summaries) == 1:
        return f"none, there is one rank ({library()})"
    if transport.nccl is not None:
        return f"{between_gpus.name()} between GPUs; MPI ({library()}) for vectors in host memory"
    if transport.cuda_mpi:
        return f"CUDA-aware MPI ({library()}) between GPUs ({transport.reason})"
    if any("cuda" in name for name in names):
        return f"MPI ({library()}) through host memory ({transport.reason})"
    return f"MPI ({library()})"
