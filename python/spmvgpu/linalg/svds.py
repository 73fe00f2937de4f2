"""Singular values by the Lanczos method."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core
from .._util.arguments import one_of, whole_number, with_hints
from .._util.types import HostArray
from ..arrays import AnyArray
from .lanczos import Lanczos, checked_which, no_convergence, start_of, with_start
from .stopping import tolerance
from .systems import Rectangle, System
from .vectors import DeviceVector, Vectors, empty


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
    A : SparseOperator, array, sparse matrix or LinearOperator
        Any matrix, of shape (m, n). A matrix is converted in each call. A `LinearOperator` of another library
        is called with NumPy vectors, and needs `rmatvec`. The operator stores its conjugate transpose also.
    k : int, default 6
        Number of singular values, at most ``min(m, n)``.
    ncv : int, optional
        Number of vectors stored, greater than `k`. The default is ``max(2*k + 1, 20)``, or ``min(m, n)`` if
        that is less.
    tol : float, default 0
        Relative accuracy of the squares of singular values. 0 stands for the precision of the data type.
    which : {"LM", "SM"}, default "LM"
        The largest or the smallest singular values. The smallest ones converge slowly. Values below
        ``sqrt(eps) * norm(A)`` are found with an absolute error of about that size.
    v0 : (min(m, n),) array, optional
        Start vector. The default is a random vector, the same in each call.
    maxiter : int, optional
        Maximum number of restarts. The default is ``10 * min(m, n)``.
    return_singular_vectors : bool or {"u", "vh"}, default True
        Which singular vectors to return. False: only `s`. "u" and "vh": these only, and None for the others.
    solver : {"arpack"}
        There is one method, which stops as ARPACK does.
    rng, options : None
        Not used. Pass `v0` for another start vector.

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
    one_of("solver", solver, ("arpack",))
    one_of("which", which, ("LM", "SM"))
    for name, given in (("rng", rng), ("options", options)):
        if given is not None:
            raise ValueError(f"{name} is not used; leave it out, and give v0 for another start vector")
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
    which, k, ncv = checked_which("LA" if which == "LM" else "SA", k, n, ncv, n)
    restarts = 10 * n if maxiter is None else whole_number("maxiter", maxiter, 1)
    vectors = Vectors(small, small.b, small.library)
    start = start_of(None if v0 is None else small.b, vectors)
    ordinal, dtype, threads = vectors.ordinal, small.dtype, rectangle.max_threads
    product = _core.composed_map(forward, back, large.unknowns, _core.SolverMemory(ordinal))
    method = Lanczos(product, n, dtype, ordinal, ncv, _core.SolverMemory(ordinal), threads)
    found = method.find(start, k, which, tol, restarts)
    if not found.converged:
        columns = vectors.of(small, len(found.values))
        target = columns.new()
        if len(found.values):
            method.write(found.factors, target.pointer)
        eigenvalues = small.library.from_host(found.values.astype(np.finfo(dtype).dtype), small.b)
        no_convergence(len(found.values), k, found.restarts, eigenvalues, columns.result())

    # One step of the bidiagonalisation of a block: the products with the eigenvectors are made orthonormal,
    # and the small triangular matrix that this takes has the singular values.
    method.rotate(found.factors)
    image = Lanczos(forward, large.unknowns, dtype, ordinal, k, _core.SolverMemory(ordinal), threads)
    triangle = _triangle(method, image, forward, k, empty((large.unknowns,), dtype, ordinal))
    left, s, right = np.linalg.svd(triangle)
    left, s, right = left[:, ::-1], s[::-1], right[::-1]
    values = small.library.from_host(np.ascontiguousarray(s, np.finfo(dtype).dtype), small.b)
    if not wanted:
        return values

    def made(of: Lanczos, space: System, factors: HostArray, is_conjugate: bool) -> AnyArray:
        columns = vectors.of(space, k)
        of.write(factors.T, columns.new().pointer)
        result = columns.result()
        if not is_conjugate:
            return result
        transposed = small.library.transposed(result)
        return transposed.conj() if dtype.kind == "c" else transposed

    # Of the smaller side `right` makes the vectors, of the larger one `left`.
    of_small, of_large = (method, small, right.conj().T), (image, large, left)
    of_u, of_v = (of_small, of_large) if is_wide else (of_large, of_small)
    u = made(*of_u, False) if "u" in wanted else None
    vh = made(*of_v, True) if "vh" in wanted else None
    return u, values, vh


def _triangle(method: Lanczos, image: Lanczos, forward: Any, k: int, product: DeviceVector) -> HostArray:
    """The triangular factor of the products with the first vectors of `method`; the other goes to `image`."""
    triangle = np.zeros((k, k), np.complex128)
    for j in range(k):
        method.basis.multiply(forward, j, product.pointer)
        triangle[: j + 1, j] = image.basis.put(product.pointer, j)
        if not np.isfinite(triangle).all():
            raise ValueError("A contains inf or NaN, or its products overflow")
        if abs(triangle[j, j]) <= 10 * image.eps * np.abs(triangle).max():
            triangle[j, j] = 0.0  # and with it the vector, in whose place any other one does
            image.put_random(j)
    return triangle if np.iscomplexobj(image.wide(np.zeros(1))) else triangle.real
