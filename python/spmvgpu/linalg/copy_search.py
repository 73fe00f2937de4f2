"""The search for copies of eigenvalues that the Lanczos method has found."""

from __future__ import annotations

import numpy as np

from .._util.types import HostArray
from .eigen_order import better


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
    share : float, default 1
        By how much the part of a random vector may be smaller: in the inner product of a matrix, the parts
        along different vectors are of different sizes.
    """

    def __init__(self, found: HostArray, which: str, n: int, eps: float, share: float = 1.0) -> None:
        distinct = np.unique(found)
        matters = [better(found, value, len(found), which, eps).size for value in distinct[:, np.newaxis]]
        self._values = distinct[np.array(matters) > 0]  # another copy of one of these would change the result
        self._parts = np.ones((len(self._values), 1))
        self._is_sure = np.zeros(len(self._values), bool)
        self._most = 1e6 * n / share**2

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

    def restart(self, factors: HostArray) -> None:
        """Follow a restart with combinations, in the columns, of the basis vectors and of the next one."""
        with np.errstate(over="ignore", invalid="ignore"):
            self._parts = self._parts @ factors
