"""Copies of multiple eigenvalues: whether a search beside the eigenvectors found has missed one."""

from __future__ import annotations

import numpy as np

from .._util.types import HostArray


class CopySearch:
    """A search from a random vector that is orthogonal to the eigenvectors found.

    If another eigenvector of a known eigenvalue exists, the matrix on the basis of the search tells how large
    its parts along the basis vectors are, compared with its part along the first one. The squares of the
    parts sum to at most 1. The part of a random vector is larger than ``1e-3 / sqrt(n)`` with a probability
    of 0.999. Once the sum is too large for that, there is no such eigenvector.

    Parameters
    ----------
    found : array
        The eigenvalues found.
    which : str
        Which are wanted.
    n : int
        Length of the vectors.
    eps : float
        Of their type.
    """

    def __init__(self, found: HostArray, which: str, n: int, eps: float) -> None:
        distinct = np.unique(found)
        matters = [better(found, value, len(found), which, eps).size for value in distinct[:, np.newaxis]]
        self._values = distinct[np.array(matters) > 0]  # another copy of one of these would change the result
        self._parts = np.ones((len(self._values), 1))
        self._is_sure = np.zeros(len(self._values), bool)
        self._most = 1e6 * n

    @property
    def is_sure(self) -> bool:
        """Whether no copy is left outside the subspace of the search."""
        return bool(self._is_sure.all())

    def extend(self, matrix: HostArray, beside: float, first: int) -> None:
        """Take in the columns of the matrix from `first` on; `beside` stands below the last one."""
        if beside == 0.0:  # nothing is left outside the subspace
            self._is_sure[:] = True
            return
        size = len(matrix)
        parts = np.empty((len(self._values), size + 1))
        parts[:, : first + 1] = self._parts
        with np.errstate(over="ignore", invalid="ignore"):
            for j in range(first, size):
                norm = matrix[j + 1, j] if j + 1 < size else beside
                along = self._values * parts[:, j] - parts[:, : j + 1] @ matrix[: j + 1, j]
                parts[:, j + 1] = along / norm
            # A sum that overflows, or is not a number after that, is too large also.
            self._is_sure |= ~(np.sum(parts**2, axis=1) < self._most)
        self._parts = parts

    def restart(self, vectors: HostArray) -> None:
        """Follow a restart with combinations of the basis vectors."""
        with np.errstate(over="ignore", invalid="ignore"):
            kept = self._parts[:, :-1] @ vectors
        self._parts = np.concatenate([kept, self._parts[:, -1:]], axis=1)


def chosen_first(values: HostArray, which: str) -> HostArray:
    """The places of ascending values in the order in which `which` prefers them."""
    count = len(values)
    if which == "LA":
        return np.arange(count)[::-1]
    if which == "SA":
        return np.arange(count)
    if which == "BE":  # from both ends in turn, the upper one first
        ends = np.stack([np.arange(count)[::-1], np.arange(count)], axis=1).reshape(-1)
        return ends[:count]
    order = np.argsort(np.abs(values), kind="stable")
    return order if which == "SM" else order[::-1]


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
