"""The Lanczos method with thick restarts, whose vectors stay on a device."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse.linalg as sla

from .. import _core
from .._core import LinearMap
from .._util.arguments import one_of, whole_number
from .._util.types import DType, HostArray
from ..arrays import AnyArray, is_sparse
from ..inputs.canonical import matrix_of
from .systems import refuse_ranks
from .vectors import DeviceVector, Vectors, random_vector

WHICH = ("LM", "SM", "LA", "SA", "BE")


class Eigenpairs(NamedTuple):
    """What the Lanczos method has found.

    Attributes
    ----------
    values : (k,) array
        Those that have converged, in ascending order.
    factors : (k, m) array
        Of the basis vectors that their eigenvectors are made of.
    restarts : int
    converged : bool
        Whether these are as many as were asked for.
    """

    values: HostArray
    factors: HostArray
    restarts: int
    converged: bool


class Lanczos:
    """An orthonormal basis, and the matrix that a Hermitian map is on it.

    Every vector is made orthogonal to all others twice. At a restart the best Ritz vectors stay, so that the
    matrix is diagonal but for the row of the next vector. A subspace that the map does not leave is continued
    with a random vector.

    Parameters
    ----------
    map : LinearMap
        Of vectors of length `n` on a device.
    n, dtype, ordinal
        What the vectors are, and their device.
    ncv : int
        Number of basis vectors.
    memory : SolverMemory
        For them.
    threads : int or None
        Of the CPU.
    """

    def __init__(
        self,
        map: LinearMap,
        n: int,
        dtype: DType,
        ordinal: int,
        ncv: int,
        memory: _core.SolverMemory,
        threads: int | None,
    ) -> None:
        self.basis = _core.KrylovBasis(dtype, n, ncv + 1, memory, threads)
        self._map, self._n, self._dtype, self._ordinal, self._ncv = map, n, dtype, ordinal, ncv
        self._matrix = np.zeros((ncv, ncv))
        self._size = self._kept = 0  # of the matrix that is known, and of the part that a restart has left
        self._beside = 0.0  # what stands beside it, for the next vector
        self._seed = 0
        self.eps = float(np.finfo(dtype).eps)

    def find(self, start: DeviceVector | None, k: int, which: str, tol: float, maxiter: int) -> Eigenpairs:
        """The eigenpairs at one end of the spectrum, or both, as `which` says; in `maxiter` restarts at most.

        Without a start vector it begins with a random one, the same in every run.

        Raises
        ------
        ValueError
            If the map gives numbers that are not finite.
        """
        self._begin(start)
        restarts = 0
        while True:
            self._extend()
            m = self._size
            values, vectors = np.linalg.eigh(self._matrix[:m, :m])
            order = chosen_first(values, which)
            wanted = order[:k]
            bounds = np.abs(self._beside * vectors[m - 1, wanted])
            size = np.maximum(np.abs(values[wanted]), self.eps ** (2 / 3))
            good = wanted[bounds <= max(tol, self.eps) * size]
            done = len(good) == k or m == self._n
            if done or restarts == maxiter:
                good = np.sort(wanted if done else good)
                scaled = np.ldexp(values[good], self._exponent)
                return Eigenpairs(scaled, vectors[:, good].T, restarts, done)
            restarts += 1
            # More than are wanted stay, as those beside them speed up what follows.
            self._restart(values, vectors, order[: min(m - 1, k + len(good) + (m - k) // 3)])

    def rotate(self, factors: HostArray) -> None:
        """Put combinations of the basis vectors in their place."""
        self.basis.restart(self.wide(factors))

    def write(self, factors: HostArray, to: int) -> None:
        """Write combinations of the basis vectors to an address, one after the other."""
        self.basis.combine(self.wide(factors), to)

    def wide(self, factors: HostArray) -> HostArray:
        """Factors of vectors, of the type that the core takes."""
        return np.ascontiguousarray(factors, np.result_type(self._dtype, np.float64))

    def put_random(self, number: int) -> bool:
        """A random vector orthogonal to those before it; whether there is one."""
        if number >= self._n:
            return False
        for _ in range(3):
            self._seed += 1
            vector = random_vector(self._n, self._dtype, self._seed, self._ordinal)
            parts = np.abs(self.basis.put(vector.pointer, number))
            if parts[-1] > 1e-6 * np.linalg.norm(parts):
                return True
        return False

    def _begin(self, start: DeviceVector | None) -> None:
        if start is None:
            self.put_random(0)
        else:
            norm = abs(self.basis.put(start.pointer, 0)[0])
            if not np.isfinite(norm):
                raise ValueError("v0 contains inf or NaN")
            if norm == 0:
                raise ValueError("v0 is zero; give another vector, or None")
        exponent = self.basis.exponent(self._map)
        # A map whose numbers are far from 1 is scaled, so that no square leaves the range of numbers.
        far = 30 if self._dtype.itemsize // (2 if self._dtype.kind == "c" else 1) == 4 else 100
        self._exponent = exponent if exponent is not None and abs(exponent) > far else 0

    def _extend(self) -> None:
        """Go on to as many vectors as there may be."""
        j, T = self._kept, self._matrix
        while j < self._ncv:
            found = self.basis.extend(self._map, j, self._ncv, -self._exponent)
            if not np.isfinite(found).all():
                raise ValueError("A contains inf or NaN, or its products overflow")
            for alpha, beta in found:
                T[j, j] = alpha
                self._beside = beta
                j += 1
                if j < self._ncv:
                    T[j, j - 1] = T[j - 1, j] = beta
                # What is left of a vector is rounding errors: the map does not leave the subspace.
                if beta <= 10 * self.eps * np.abs(T[:j, :j]).max():
                    self._beside = 0.0
                    if j < self._ncv:
                        T[j, j - 1] = T[j - 1, j] = 0.0
                    break
            if self._beside == 0.0 and not self.put_random(j):
                break
        self._size = j

    def _restart(self, values: HostArray, vectors: HostArray, kept: HostArray) -> None:
        count, last = len(kept), self._size - 1
        self.rotate(vectors[:, kept].T)
        beside = self._beside * vectors[last, kept]
        self._matrix[:] = 0
        np.fill_diagonal(self._matrix[:count, :count], values[kept])
        self._matrix[count, :count] = self._matrix[:count, count] = beside
        self._kept = count


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


def checked_which(which: object, k: object, most: int, ncv: object, n: int) -> tuple[str, int, int]:
    """`which`, `k` and `ncv` of a caller, for at most so many values of a map of vectors of length `n`."""
    which = one_of("which", which, WHICH)
    count = whole_number("k", k, 1, max(most, 1))
    if ncv is None:
        return which, count, min(n, max(2 * count + 1, 20))
    return which, count, whole_number("ncv", ncv, min(count + 1, n), n)


def with_start(A: Any, v0: object) -> tuple[object, object]:
    """A matrix or an operator, and a vector on its smaller side that stands for the start: `v0`, or zeros."""
    refuse_ranks(A)
    if not (hasattr(A, "matvec") or (is_sparse(A) and hasattr(A, "dtype"))):  # CuPy's stays on its GPU
        A = matrix_of(A)
    if len(A.shape) != 2:
        raise ValueError(f"A has {len(A.shape)} dimensions; give a matrix")
    if v0 is None:
        dtype = np.dtype(getattr(A, "dtype", np.float64))
        v0 = np.zeros(min(A.shape), np.float32 if dtype in (np.float32, np.complex64) else np.float64)
    return A, v0


def start_of(v0: object, vectors: Vectors) -> DeviceVector | None:
    """The start vector of a caller on the device; None for a random one."""
    if v0 is None:
        return None
    start = vectors.take("v0", v0)
    vectors.wait()
    return start


def no_convergence(found: int, k: int, restarts: int, values: AnyArray, vectors: AnyArray) -> None:
    """Raise SciPy's error, with the eigenpairs that have converged."""
    raise sla.ArpackNoConvergence(
        f"No convergence ({restarts} restarts, {found}/{k} eigenvectors converged); "
        "raise maxiter, ncv or tol",
        values,
        vectors,
    )
