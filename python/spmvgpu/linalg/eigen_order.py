"""Which eigenvalues are wanted, and in which order."""

from __future__ import annotations

import numpy as np

from .._util.types import HostArray

WHICH = ("LM", "SM", "LA", "SA", "BE")


def chosen_first(values: HostArray, which: str) -> HostArray:
    """The places of ascending values in the order in which `which` prefers them."""
    ascending = np.arange(len(values))
    if which == "BE":  # from both ends in turn, the upper one first
        return np.stack([ascending[::-1], ascending], axis=1).reshape(-1)[: len(values)]
    order = ascending if which.endswith("A") else np.argsort(np.abs(values), kind="stable")
    return order[::-1] if which.startswith("L") else order


def best_of(values: HostArray, k: int, which: str) -> HostArray:
    """The places of the `k` values, in any order, that `which` prefers."""
    ascending = np.argsort(values, kind="stable")
    return ascending[chosen_first(values[ascending], which)[:k]]


def better(found: HostArray, others: HostArray, k: int, which: str, eps: float) -> HostArray:
    """The places of the other values among the `k` best of all; none if those found are about as good."""
    both = np.concatenate([found, others])
    chosen = best_of(both, k, which)
    new = chosen[chosen >= len(found)] - len(found)
    if len(found) < k:
        return new
    key = np.abs if which in ("LM", "SM") else np.asarray
    before, after = np.sort(key(found)), np.sort(key(both[chosen]))
    # Copies differ by rounding errors.
    slack = np.maximum(eps**0.75 * np.abs(before), 100 * eps * np.abs(both).max())
    return new if (np.abs(after - before) > slack).any() else new[:0]
