"""Which device a rank computes on, and with how many threads."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..devices import automatic_device, devices
from .communicators import mpi


@dataclass(frozen=True)
class Placement:
    """What a rank knows of the ranks on the same host.

    Attributes
    ----------
    local_rank, local_ranks : int
        Its number among them, and how many there are.
    threads : int or None
        Threads for products on the CPU: the cores that it may run on, divided by the ranks that may run on
        the same. None where environment variables or the user say how many.
    """

    local_rank: int
    local_ranks: int
    threads: int | None

    def device(self, device: Any) -> Any:
        """The device that "auto" and "cuda" stand for: the GPUs of a host go round among its ranks."""
        if device == "auto":
            device = automatic_device()
        if device not in ("auto", "cuda"):
            return device
        gpus = [info.name for info in devices() if info.name != "cpu"]
        return gpus[self.local_rank % len(gpus)] if gpus else device


def place(comm: Any) -> Placement:
    """Find out; all ranks do so together."""
    host = comm.Split_type(mpi().COMM_TYPE_SHARED)
    try:
        # macOS does not say where a process may run.
        cores = (
            sorted(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else [*range(os.cpu_count() or 1)]
        )
        sharing = sum(other == cores for other in host.allgather(cores))
        told = _core.threads_of_environment() is not None
        return Placement(host.rank, host.size, None if told else max(1, len(cores) // sharing))
    finally:
        host.Free()
