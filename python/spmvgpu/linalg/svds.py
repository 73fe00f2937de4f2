"""Singular values by the Lanczos method."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._core import LinearMap
from .._util.arguments import one_of, whole_number, with_hints
from .._util.types import HostArray
from ..devices import at_most, device_name
from ..operator.construct import aslinearoperator
from .eigen_arguments import (
    checked_which,
    no_convergence,
    places_of,
    seed_of,
    start_of,
    with_start,
)
from .lanczos import Eigenpairs, Lanczos, far_exponent
from .stopping import tolerance
from .systems import Rectangle, System, agreement_of
from .vectors import DeviceVector, empty, random_vector


@with_hints
def svds(
    A: object,
    k: int = 6,
    ncv: int | None = None,
    tol: float = 0,
    which: str = "LM",
    v0: object = None,
    maxiter: int | None = None,
    return_singular_vectors: bool | str = True,
    solver: str = "arpack",
    rng: object = None,
    options: None = None,
) -> Any:
    """Find `k` singular values and singular vectors of a matrix.

    `scipy.sparse.linalg.svds` has the same arguments. This is the Lanczos method with thick restarts for
    ``A.H @ A`` or ``A @ A.H``, whichever is smaller. At the end the products of `A` with the eigenvectors are
    diagonalized, so that the singular values are no square roots. All vectors stay on the device of `A`. The
    same call on the same device gives the same bits.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix, LinearOperator or DistributedOperator
        Any matrix, of shape (m, n). A matrix is converted in each call. A `LinearOperator` of another library
        is called with NumPy vectors, and needs `rmatvec`. The operator stores its conjugate transpose also.
        The ranks of a `DistributedOperator` call it together: `v0` and singular vectors are pieces, and all
        ranks get the same singular values.
    k : int, default 6
        Number of singular values, at most ``min(m, n)``.
    ncv : int, optional
        Number of vectors stored, greater than `k`. The default is ``max(2*k + 1, 20)``, or ``min(m, n)`` if
        that is less. The search for copies stores at least ``min(m, n, k + 8)``.
    tol : float, default 0
        Relative accuracy of the squares of singular values. 0 stands for the precision of the data type, and
        for all copies of multiple singular values, as in `eigsh`.
    which : {"LM", "SM"}, default "LM"
        The largest or the smallest singular values. The smallest ones converge slowly. Values below
        ``sqrt(eps) * norm(A)``, such as 0, have an absolute error of up to about that size. They may be
        others than the smallest, and the norms of ``A @ v - u * s`` and ``A.H @ u - v * s`` may be as large.
    v0 : (min(m, n),) array, optional
        Start vector. The default is a random vector, the same in each call without `rng`.
    maxiter : int, optional
        Maximum number of restarts. The default is ``10 * min(m, n)``.
    return_singular_vectors : bool or {"u", "vh"}, default True
        Which singular vectors to return. False: only `s`. "u" and "vh": these only, and None for the others.
    solver : {"arpack"}
        There is one method, which stops as ARPACK does.
    rng : numpy.random.Generator or int, optional
        For another random start vector, where `v0` is not given.
    options : None
        Not used.

    Returns
    -------
    u : (m, k) array
        Left singular vectors in its columns.
    s : (k,) array
        Singular values in ascending order.
    vh : (k, n) array
        Conjugated right singular vectors in its rows. All are of the library of `v0`, on its device.

    Raises
    ------
    scipy.sparse.linalg.ArpackNoConvergence
        If not all have converged after `maxiter` restarts. Its attributes are eigenvalues and eigenvectors of
        the smaller product.
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a value that is not allowed, or if `A` or `v0` contains
        infinity or NaN.

    References
    ----------
    .. [1] G. H. Golub and W. Kahan, "Calculating the singular values and pseudo-inverse of a matrix", 1965.
    .. [2] K. Wu and H. Simon, "Thick-restart Lanczos method for large symmetric eigenvalue problems", 2000.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> A = np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]])
    >>> u, s, vh = sg.linalg.svds(A, k=2)
    >>> s.round(6)
    array([3., 4.])
    """
    with agreement_of(A):
        one_of("solver", solver, ("arpack",))
        one_of("which", which, ("LM", "SM"))
        if options is not None:
            raise ValueError("options is not used; leave it out")
        seed = seed_of(rng)
        if isinstance(return_singular_vectors, bool | np.bool_):
            wanted: tuple[str, ...] = ("u", "vh") if return_singular_vectors else ()
        else:
            wanted = (one_of("return_singular_vectors", return_singular_vectors, ("u", "vh")),)
        tol = tolerance("tol", tol)
        rectangle = Rectangle(*with_start(A, v0), "v0")
        small, large = rectangle.columns, rectangle.rows
        forward, back = rectangle.product, rectangle.adjoint
        is_wide = small.unknowns > large.unknowns
        if is_wide:
            small, large, forward, back = large, small, back, forward
        n = small.unknowns
        which, k, ncv = checked_which("LA" if which == "LM" else "SA", k, ncv, n)
        restarts = 10 * n if maxiter is None else whole_number("maxiter", maxiter, 1)
        vectors = small.vectors(False)
        start = start_of(None if v0 is None else small.b, vectors)
    limits = {"which": which, "k": k, "ncv": ncv, "tol": tol, "maxiter": restarts, "rng": seed}
    small.check_same(**limits, return_singular_vectors=wanted, **{"v0 is None": v0 is None})
    ordinal, dtype = vectors.ordinal, small.dtype

    def lanczos(map: LinearMap, space: System, ncv: int, places: int) -> Lanczos:
        return Lanczos(map, space, ordinal, ncv, places, seed)

    def find(method: Lanczos, start: DeviceVector | None, k: int, which: str) -> Eigenpairs:
        found = method.find(start, k, which, tol, restarts, copies=tol == 0)
        if found.converged:
            return found
        with np.errstate(over="ignore", under="ignore"):
            squares = np.ldexp(found.values, exponent).astype(np.finfo(dtype).dtype)
        squares = small.library.from_host(squares, small.b)
        raise no_convergence(found, k, squares, method.columns(found.factors, vectors))

    image = lanczos(forward, large, k, k)
    exponent = _exponent(forward, small, image)
    product = _gram(forward, back, large, exponent, ordinal)
    method = lanczos(product, small, ncv, places_of(k, ncv, n))
    found = find(method, start, k, which)

    # One step of the bidiagonalization of a block, the largest first: the products with the eigenvectors are
    # made orthonormal, and the small matrix that this takes has the singular values.
    method.rotate(found.factors[::-1])
    norm = np.ldexp(np.sqrt(np.ldexp(method.norm, -exponent)), exponent)
    block = _Block(method, image, forward, back, k, float(norm))
    if block.sure < k and ("vh" if is_wide else "u") in wanted:
        product = _gram(back, forward, small, exponent, ordinal)
        count = k - block.sure
        ncv = checked_which("SA", count, None, large.unknowns)[2]
        other = lanczos(product, large, ncv, places_of(count, ncv, large.unknowns))
        null = find(other, None, count, "SA")
        block.put_null(other, null)
    left, s, right = small.same(np.linalg.svd(block.factors))
    left, s, right = left[:, ::-1], s[::-1], right[::-1]
    values = small.library.from_host(np.ascontiguousarray(s, np.finfo(dtype).dtype), small.b)
    if not wanted:
        return values

    # `right` makes the vectors of the smaller side, and `left` the vectors of the larger one.
    bases = (image, left.T), (method, right.conj())
    pairs = zip(("u", "vh"), bases[::-1] if is_wide else bases, strict=True)
    u, vh = (basis.columns(factors, vectors) if name in wanted else None for name, (basis, factors) in pairs)
    if vh is not None:
        vh = small.library.transposed(vh)
        vh = small.library.conjugate(vh) if dtype.kind == "c" else vh
    return u, values, vh


def _exponent(map: LinearMap, domain: System, image: Lanczos) -> int:
    """The exponent of the norm of a map, about; 0 if squares of such numbers stay in the range."""
    n = domain.shape[0]
    x = random_vector(n, image.dtype, 1, image.ordinal, domain.first, domain.max_threads)
    y = empty(image.space.shape[:1], image.dtype, image.ordinal)
    with at_most(domain.max_threads):
        _core.apply_map(map, x.pointer, y.pointer, n, 1, image.ordinal)
    norm = abs(image.basis.put(y.pointer, 0)[0]) / np.sqrt(domain.unknowns)
    exponent = int(np.frexp(norm)[1]) if 0 < norm < np.inf else 0
    return exponent if 2 * abs(exponent) > far_exponent(image.dtype) else 0


def _gram(first: LinearMap, second: LinearMap, between: System, exponent: int, ordinal: int) -> LinearMap:
    """The product of a matrix with its adjoint, by one after the other, divided by a power of 2."""
    n, memory = between.shape[0], _core.SolverMemory(ordinal)
    if exponent != 0:
        diagonal = sp.diags_array(np.full(n, np.ldexp(1.0, -exponent)), format="csr")
        scale = aslinearoperator(diagonal, device=device_name(ordinal), dtype=between.dtype, format="csr")
        first = _core.composed_map(first, _core.matrix_map(scale._matrix), n, _core.SolverMemory(ordinal))
    return _core.composed_map(first, second, n, memory)


class _Block:
    """The products with the first vectors of one side, as combinations of orthonormal vectors of the other.

    Where a product is about as small as rounding errors, any vector does in its place. `put_null` brings
    better ones.

    Attributes
    ----------
    factors : (k, k) array
        The factors of the products in its columns.
    sure : int
        Number of vectors before those of values that are nearly 0, if any of these has a wrong direction.
    """

    def __init__(
        self, domain: Lanczos, image: Lanczos, forward: LinearMap, back: LinearMap, k: int, norm: float
    ) -> None:
        self._domain, self._image, self._forward = domain, image, forward
        self._product = empty(image.space.shape[:1], image.dtype, image.ordinal)
        back_product = empty(domain.space.shape[:1], domain.dtype, domain.ordinal)
        self.factors = np.zeros((k, k), image.wide(np.zeros(1)).dtype)
        self.sure, small = k, np.sqrt(image.eps) * norm
        first = k
        for j in range(k):
            column = self._column(j, j)
            self.factors[: j + 1, j] = column
            if np.abs(column).max() > small:
                continue
            first = min(first, j)
            if abs(column[-1]) <= 10 * image.eps * norm:
                self.factors[j, j] = 0.0
                image.put_random(j)
                self.sure = first
                continue
            image.basis.multiply(back, j, back_product.pointer)
            if abs(domain.basis.put(back_product.pointer, k)[-1]) > small:
                self.sure = first

    def put_null(self, other: Lanczos, null: Eigenpairs) -> None:
        """Put eigenvectors of the smallest squares in the place of vectors that are not sure."""
        k, dtype = len(self.factors), self._image.dtype
        length = self._image.space.shape[0]
        vectors = empty((len(null.values), length), dtype, self._image.ordinal)
        other.basis.combine(other.wide(null.factors), vectors.pointer)
        for i in range(len(null.values)):
            self._image.basis.put(vectors.pointer + i * length * dtype.itemsize, self.sure + i)
        for j in range(self.sure, k):
            self.factors[:, j] = self._column(j, k)[:k]

    def _column(self, j: int, place: int) -> HostArray:
        """The factors of a product; what is left of it becomes the vector at a place."""
        self._domain.basis.multiply(self._forward, j, self._product.pointer)
        column = np.array(self._image.basis.put(self._product.pointer, place))
        if not np.isfinite(column).all():
            raise ValueError("A contains inf or NaN, or its products overflow")
        return column
