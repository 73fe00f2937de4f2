"""The libraries that are measured: one module each, with the same few functions.

A peer module has ``NAME``, ``DEVICES`` (of "cpu", "cuda"), ``available()`` (None, or the reason why not),
``versions()`` and ``prepare(problem)``, which lists its ways to compute a product as `base.Job`. Those for
the CPU also say whether they use several threads (``THREADED``).
"""

from __future__ import annotations

from typing import Any

from . import cupy, cusparse, mkl, ours, scipy, torch
from .base import Job
from .problem import Problem

# CuPy before PyTorch: the first to load cuSPARSE decides which one both use.
PEERS = (ours, cusparse, cupy, torch, scipy, mkl)


def usable(device: str) -> tuple[list[Any], dict[str, str]]:
    """The peers that can run on "cpu" or "cuda:N", and the others, each with its reason."""
    kind = device.partition(":")[0]
    peers, missing = [], {}
    for peer in PEERS:
        if kind not in peer.DEVICES:
            continue
        reason = peer.available()
        if reason is None:
            peers.append(peer)
        else:
            missing[peer.NAME] = reason
    return peers, missing


def jobs(peer: Any, problem: Problem, device: str) -> list[Job]:
    """What one peer can run on a problem."""
    result: list[Job] = ours.prepare(problem, device) if peer is ours else peer.prepare(problem)
    return result
