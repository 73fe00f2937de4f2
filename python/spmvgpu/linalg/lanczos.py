"""The Lanczos method with thick restarts, whose vectors stay on a device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .._core import LinearMap
from .._util.types import DType, HostArray
from ..arrays import AnyArray
from .copy_search import CopySearch
from .eigen_order import best_of, better, chosen_first
from .stopping import warn
from .systems import System
from .vectors import DeviceVector, Vectors, empty, random_vector

_MOST_HIDDEN = 1e4  # growth of rounding errors in the null space of M


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


@dataclass(eq=False)
class Lanczos:
    """An orthonormal basis, and the matrix that a Hermitian map is on it.

    Both may be so in the inner product of a matrix `M`. If this is singular, the map takes its null space to
    zero, and the search is for vectors in the range of the map. Rounding errors in the null space are hidden
    from the inner product, and grow as the matrix tells. When they are large, they are taken out unless
    eigenvalues near zero are wanted, which would go, too. `in_range` does so in the end.

    Every vector is made orthogonal to all others twice. At a restart the best Ritz vectors stay, so that the
    matrix is diagonal but for the row of the next vector. A subspace that the map does not leave is continued
    with a random vector.

    Parameters
    ----------
    map : LinearMap
        Of vectors on a device.
    space : System
        The space of the vectors.
    ordinal : int
        Their device.
    ncv : int
        Number of basis vectors.
    places : int
        Number of basis vectors while copies are searched for, at least `ncv`.
    seed : int
        Of the random vectors.
    M : LinearMap, optional
        The matrix of the inner product.
    is_inverse : bool
        True if the map is zero where `M` is, and nowhere else.

    Attributes
    ----------
    n, dtype : int, numpy.dtype
        Length of the vectors, over all ranks, and their type.
    norm : float
        The largest magnitude of an eigenvalue that the matrix has had: about the norm of the map.
    """

    map: LinearMap
    space: System
    ordinal: int
    ncv: int
    places: int
    seed: int
    M: LinearMap | None = None
    is_inverse: bool = False

    def __post_init__(self) -> None:
        space = self.space
        self.n, self.dtype = space.unknowns, space.dtype
        length, memory = space.shape[0], _core.SolverMemory(self.ordinal)
        self._has_hidden = self.M is not None and self.is_inverse
        shape = length, self.places + 1 + self._has_hidden
        self.basis = _core.KrylovBasis(self.dtype, *shape, memory, space.max_threads, space.ranks, self.M)
        self._matrix = np.zeros((self.places, self.places))
        self._size = 0  # of the matrix that is known
        self._half = (self.ncv + 1) // 2  # vectors until the next look at the matrix
        self._locked = 0  # vectors at the start of the basis that the search stays orthogonal to
        self._beside = 0.0  # what stands beside the matrix, for the next vector
        self._is_whole = False  # whether there is no vector beside the basis
        self.eps = float(np.finfo(self.dtype).eps)
        self._largest = 0.0
        self._hidden = np.ones(1)  # the growth of what is hidden, in each vector that is not locked

    def find(
        self, start: DeviceVector | None, k: int, which: str, tol: float, maxiter: int, copies: bool
    ) -> Eigenpairs:
        """The eigenpairs at one end of the spectrum, or both, as `which` says; in `maxiter` restarts at most.

        Without a start vector it begins with a random one. Products with one vector lead to one eigenvector
        of each eigenvalue, but for rounding errors. To find the `copies` of multiple eigenvalues, the search
        goes on from random vectors orthogonal to the eigenvectors found, until it is sure that no copy is
        left.

        Raises
        ------
        ValueError
            If the map gives numbers that are not finite.
        """
        self._begin(start)
        limit, restarts = max(tol, self.eps), 0
        found, factors = np.empty(0), np.empty((0, 0))
        search: CopySearch | None = None
        while True:
            self._extend(search, k, which)
            values, vectors, bounds = self._ritz_pairs()
            self._largest = max(self._largest, np.abs(values).max())
            is_good = bounds <= limit * np.maximum(np.abs(values), self.eps ** (2 / 3) * self._largest)
            wanted = better(found, values, k, which, self.eps)
            good = wanted[is_good[wanted]]
            # Where the map does not leave a subspace, all in it has converged, but the best may be outside.
            is_full = self._size == self.ncv or search is not None
            is_new = len(wanted) > 0 and len(good) == len(wanted) and (self._beside > 0.0 or is_full)
            is_new &= len(found) + len(wanted) >= k
            if is_new or self._is_whole:
                found, factors = self._best(found, values, vectors, k, which)
                search = CopySearch(found, which, self.n, self.eps, 1.0 if self.M is None else 1e-4)
                if not copies or self._is_whole or search.is_sure:
                    break
                # Orthogonal to the whole basis, as copies that it does not contain are.
                self.put_random(self._size)
                self._lock(found, factors)
                factors = np.eye(k)
            elif search is not None and search.is_sure and not len(wanted):
                break
            elif self._size < self.ncv:
                continue
            elif restarts == maxiter:
                if search is None:
                    good = np.sort(good)
                    return Eigenpairs(self._unscaled(values[good]), vectors[:, good].T, restarts, False)
                warn(
                    f"copies of multiple eigenvalues may be missing: maxiter={maxiter} restarts did not show "
                    "that there are none; raise maxiter or ncv",
                    stacklevel=5,
                )
                break
            else:
                restarts += 1
                count = kept_count(len(values), max(len(wanted), 1), len(good), restarts)
                self._restart(values, vectors, which, count, search)
        order = np.argsort(found)
        return Eigenpairs(self._unscaled(found[order]), factors[order], restarts, True)

    @property
    def norm(self) -> float:
        return float(self._unscaled(np.float64(self._largest)))

    def rotate(self, factors: HostArray) -> None:
        """Put combinations of the basis vectors in their place."""
        self.basis.restart(self.wide(factors))

    def in_range(self, values: HostArray, factors: HostArray) -> HostArray:
        """The factors of eigenvectors that are products of the map, put in place of the basis vectors."""
        self.rotate(factors)
        product = empty(self.space.shape[:1], self.dtype, self.ordinal)
        for j, value in enumerate(np.abs(values)):
            self.basis.multiply(self.map, j, product.pointer)
            if not abs(self.basis.put(product.pointer, j)[-1].real - value) < 0.5 * value:
                raise _not_definite()
        return np.eye(len(factors))

    def columns(self, factors: HostArray, vectors: Vectors) -> AnyArray:
        """Combinations of the basis vectors for the caller."""
        made = vectors.of(self.space, len(factors))
        to = made.new()
        if len(factors):
            self.basis.combine(self.wide(factors), to.pointer)
        return made.result()

    def wide(self, factors: HostArray) -> HostArray:
        """Factors of vectors, of the type that the core takes."""
        return np.ascontiguousarray(factors, np.result_type(self.dtype, np.float64))

    def put_random(self, number: int) -> bool:
        """A random vector orthogonal to those before it; whether there is one."""
        if number >= self.n:
            return False
        for _ in range(3):
            self.seed += 1
            kind = self.space.shape[0], self.dtype
            of_space = self.space.first, self.space.max_threads
            vector = random_vector(*kind, self.seed, self.ordinal, *of_space)
            if self._put(vector, number) and (not self._has_hidden or self._put_product(number)):
                return True
        return False

    def _put(self, vector: DeviceVector, number: int) -> bool:
        """Make a vector orthogonal to those before it; whether more than rounding errors is left."""
        parts = np.array(self.basis.put(vector.pointer, number))
        largest = np.abs(parts).max()
        if not np.isfinite(largest):
            raise ValueError("A or M contains inf or NaN, or their products overflow")
        # A part in the null space of M has a norm there, of rounding errors under the root.
        least = max(1e-6, 10 * np.sqrt(self.eps)) if self._has_hidden else 1e-6
        return bool(largest and parts[-1].real / largest > least * np.linalg.norm(parts / largest))

    def _put_product(self, number: int) -> bool:
        """Put the product of a vector in its place, which is in the range of the map."""
        product = empty(self.space.shape[:1], self.dtype, self.ordinal)
        self.basis.multiply(self.map, number, product.pointer)
        return self._put(product, number)

    def _begin(self, start: DeviceVector | None) -> None:
        if start is None:
            if not self.put_random(0) and self.M is not None:
                raise _not_definite()
        else:
            norm = self.basis.put(start.pointer, 0)[0].real
            if not np.isfinite(norm):
                raise ValueError("v0 contains inf or NaN")
            if norm < 0:
                raise _not_definite()
            if norm == 0:
                raise ValueError("v0 is zero; give another vector, or None")
            if self._has_hidden:
                self._put_product(0)
        # A map whose numbers are far from 1 is scaled, so that no square leaves the range of numbers.
        far = far_exponent(self.dtype)
        self._exponent = 0
        steps = self.basis.extend(self.map, 0, 1, 0)
        if not 2.0**-far <= np.hypot(*steps[0]) <= 2.0**far:
            exponent = self.basis.exponent(self.map)
            self._exponent = exponent if exponent is not None and abs(exponent) > far else 0
            steps = self.basis.extend(self.map, 0, 1, -self._exponent)
        self._take(steps)

    def _extend(self, search: CopySearch | None, k: int, which: str) -> None:
        """Go on until it is worth while to look at the matrix: a search for copies often ends after a few."""
        first = self._size
        to = self.ncv if first >= self._half else max(self._half, k + 1)
        to = min(to if search is None else first + 4, self.ncv)
        while self._size < to and not self._is_whole:
            first = self._size
            last = min(to, first + 4) if self._has_hidden else to
            self._take(self.basis.extend(self.map, first, last, -self._exponent))
            if search is not None:
                block = self._matrix[self._locked : self._size, self._locked : self._size]
                search.extend(block, self._beside, first - self._locked)
                if self._beside == 0.0:
                    break
            if last - first > 1 and self._shows_hidden(which):  # one vector goes
                values, vectors, _ = self._ritz_pairs()
                self._restart(values, vectors, which, len(values) - 1, search)

    def _take(self, steps: HostArray) -> None:
        """Put the coefficients of new vectors into the matrix."""
        if not np.isfinite(steps).all():
            of_M = ", or M is singular and eigenvalues far from sigma are wanted" if self._has_hidden else ""
            raise ValueError(f"A contains inf or NaN, or its products overflow{of_M}")
        j, T = self._size, self._matrix
        for alpha, beta in steps:
            T[j, j] = alpha
            self._beside = beta
            j += 1
            # The rest of a vector is rounding errors: the map does not leave the subspace.
            largest = np.abs(T[:j, :j]).max()
            is_nothing = beta <= 10 * self.eps * largest
            if beta < -np.sqrt(self.eps) * largest:
                raise _not_definite()
            if is_nothing:
                self._beside = 0.0
            if self._has_hidden:
                along = T[self._locked : j, j - 1] @ self._hidden
                next_part = 1.0 if is_nothing else -(along + np.copysign(largest, along)) / beta
                self._hidden = np.append(self._hidden, next_part)
            if j < self.ncv:
                T[j, j - 1] = T[j - 1, j] = self._beside
            if is_nothing:
                break
        self._size = j
        self._is_whole = j == self.n or (self._beside == 0.0 and not self.put_random(j))

    def _ritz_pairs(self) -> tuple[HostArray, HostArray, HostArray]:
        """The eigenpairs of the part of the matrix that is not locked, and bounds of their residuals."""
        block = self._matrix[self._locked : self._size, self._locked : self._size]
        values, vectors = self.space.same(np.linalg.eigh(block))
        return values, vectors, np.abs(self._beside * vectors[-1])

    def _best(
        self, found: HostArray, values: HostArray, vectors: HostArray, k: int, which: str
    ) -> tuple[HostArray, HostArray]:
        """The best of the eigenvalues found before and of new ones, and the factors of their vectors."""
        both = np.concatenate([found, values])
        chosen = best_of(both, k, which)
        factors = np.zeros((len(both), len(both)))
        factors[: len(found), : len(found)] = np.eye(len(found))
        factors[len(found) :, len(found) :] = vectors.T
        return both[chosen], factors[chosen]

    def _lock(self, values: HostArray, factors: HostArray) -> None:
        self.rotate(factors)
        self._matrix[:] = 0
        np.fill_diagonal(self._matrix[: len(values), : len(values)], values)
        self._size = self._locked = len(values)
        self._hidden = np.ones(1)
        self.ncv = self.places

    def _restart(
        self, values: HostArray, vectors: HostArray, which: str, count: int, search: CopySearch | None
    ) -> None:
        takes_out = self._shows_hidden(which)
        if takes_out:
            values, factors, beside = self._without_hidden(which, count)
        else:
            kept = chosen_first(values, which)[:count]
            values, factors, beside = values[kept], np.zeros((len(values) + 1, count + 1)), vectors[-1, kept]
            factors[:-1, :-1], factors[-1, -1], beside = vectors[:, kept], 1, self._beside * beside
        locked = self._locked
        end = locked + len(values)
        whole = np.zeros((end + 1, self._size + 1))
        whole[:locked, :locked] = np.eye(locked)
        whole[locked:, locked:] = factors.T
        self.rotate(whole if takes_out else whole[:-1, :-1])
        self._matrix[locked:, locked:] = 0
        np.fill_diagonal(self._matrix[locked:end, locked:end], values)
        self._matrix[end, locked:end] = self._matrix[locked:end, end] = beside
        self._size, self._half = end, (end + self.ncv + 1) // 2
        if self._has_hidden:
            self._hidden = np.eye(len(factors.T))[-1] if takes_out else self._hidden @ factors
        if search is not None:
            search.restart(factors)

    def _shows_hidden(self, which: str) -> bool:
        """Tell whether errors in the null space of `M` are large, and can be taken out.

        Parts near the eigenvalue zero go with them, which must not be wanted ones.
        """
        if not self._has_hidden or self._beside == 0.0 or np.abs(self._hidden).max() < _MOST_HIDDEN:
            return False
        values = self._ritz_pairs()[0]
        wanted = np.abs(values[chosen_first(values, which)[: len(values) // 4]])
        return len(values) > 2 and bool(wanted.min(initial=np.inf) >= np.median(np.abs(values)))

    def _without_hidden(self, which: str, count: int) -> tuple[HostArray, HostArray, HostArray]:
        """Ritz values of the products of the map, what their vectors are made of, and what stands beside.

        The products of the basis vectors lie in the space of these and of the next one, where they leave one
        direction out: with it go the errors in the null space of `M`. The combinations in the columns, the
        last of which is the next vector, are of products alone.
        """
        block = self._matrix[self._locked : self._size, self._locked : self._size]
        products = np.vstack([block, np.zeros(len(block))])
        products[-1, -1] = self._beside
        within = np.linalg.qr(products)[0]
        # The products without a part along the next vector, and one that is orthogonal to them.
        rest = np.linalg.qr(within[-1:].T, mode="complete")[0]
        basis, after = within @ rest[:, 1:], within @ rest[:, 0]
        of_basis = products @ basis[:-1]
        values, vectors = np.linalg.eigh(basis.T @ of_basis)
        kept = chosen_first(values, which)[:count]
        factors = np.column_stack([basis @ vectors[:, kept], after])
        values, factors, beside = self.space.same(
            (values[kept], factors, after @ of_basis @ vectors[:, kept])
        )
        return values, factors, beside

    def _unscaled(self, values: Any) -> Any:
        return np.ldexp(values, self._exponent)


def _not_definite() -> np.linalg.LinAlgError:
    return np.linalg.LinAlgError(
        "M is not positive definite, or zero: a vector x has no positive product x.H @ M @ x; where A is "
        "positive definite, exchange A and M, and take 1 / w"
    )


def kept_count(room: int, wanted: int, good: int, restarts: int) -> int:
    """How many of as many vectors as there is room for stay at a restart.

    More than are wanted stay, as the vectors beside them speed up what follows: about half of the rest, and
    more where wanted ones have converged. The number changes from restart to restart, for with a constant
    one the same vectors may come back every few restarts.
    """
    share = 0.4 + 0.3 * (good + 1) / (wanted + 1)
    count = min(room - 2, wanted + int(share * (room - wanted))) + restarts % 3
    return max(1, min(room - 1, max(count, wanted)))


def far_exponent(dtype: DType) -> int:
    """The exponent, of either sign, of the largest numbers whose squares surely stay in range."""
    return 30 if np.finfo(dtype).bits == 32 else 100
