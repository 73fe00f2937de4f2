"""The libraries that are measured: one module each, with the same few functions.

A peer module has ``NAME``, ``DEVICES`` (of "cpu", "cuda"), ``available()`` (None, or the reason why not),
``versions()`` and ``prepare(problem)``, which lists its ways to compute a product as `base.Job`. Those for
the CPU also say whether they use several threads (``THREADED``).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from . import cupy, cusparse, mkl, ours, scipy, torch
from .base import NotApplicableError

__all__ = ["ALL", "NotApplicableError", "cupy", "ours", "scipy", "torch", "usable"]

# CuPy before PyTorch: the first to load cuSPARSE decides which one both use.
OTHERS = (cusparse, cupy, torch, scipy, mkl)
ALL = {
    kind: tuple(peer.NAME for peer in OTHERS if kind in peer.DEVICES) for kind in ("cuda", "cpu")
}  # on each kind of device


def usable(names: Collection[str]) -> tuple[list[Any], dict[str, str]]:
    """This library and those with these names that can run, and the others, each with its reason."""
    reasons = {peer: peer.available() for peer in OTHERS if peer.NAME in names}
    missing = {peer.NAME: reason for peer, reason in reasons.items() if reason is not None}
    return [ours, *(peer for peer, reason in reasons.items() if reason is None)], missing
