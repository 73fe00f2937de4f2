"""Eigenvalues of symmetric matrices by the Lanczos method."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from scipy.sparse.linalg import LinearOperator

from .. import _core
from .._core import LinearMap
from .._util.arguments import one_of, real_number, whole_number, with_hints
from ..devices import CPU, device_name
from ..operator.construct import as_operator, aslinearoperator
from ..operator.operator import SparseOperator
from . import cudss
from .direct_factors import DirectFactors
from .eigen_arguments import checked_which, no_convergence, places_of, seed_of, start_of, with_start
from .factors import SingularMatrixError
from .krylov import MOST_ITERATIONS
from .lanczos import Lanczos
from .named import named
from .preconditioner_maps import checked_preconditioner, map_of_preconditioner
from .stopping import tolerance
from .systems import OverRanks, System, agreement_of, callback_map, no_entries, system_of
from .vectors import Vectors

_INNER = ("auto", "direct", "cg", "minres")
# Rows up to which factors of the shifted matrix are made unasked: by SciPy, and by cuDSS.
_MOST_DIRECT, _MOST_ON_GPU = 20_000, 200_000


@with_hints
def eigsh(
    A: object,
    k: int = 6,
    M: object = None,
    sigma: float | None = None,
    which: str = "LM",
    v0: object = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    tol: float = 0,
    return_eigenvectors: bool = True,
    Minv: object = None,
    OPinv: object = None,
    mode: str = "normal",
    rng: object = None,
    *,
    inner: str = "auto",
    preconditioner: object = None,
) -> Any:
    """Find `k` eigenvalues and eigenvectors of a symmetric or Hermitian matrix.

    `scipy.sparse.linalg.eigsh` has the same arguments. This is the Lanczos method with thick restarts. All
    vectors stay on the device of `A`. The same call on the same device gives the same bits, except with the
    factors of cuDSS.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix, LinearOperator or DistributedOperator
        Symmetric or Hermitian. This is not checked. A matrix is converted in each call. A `LinearOperator` of
        another library is called with NumPy vectors. The ranks of a `DistributedOperator` call it together:
        `v0` and the eigenvectors are pieces, and all ranks get the same eigenvalues.
    k : int, default 6
        Number of eigenvalues, at most n.
    M : like `A`, optional
        Matrix of the generalized problem ``A @ v = w * M @ v``: symmetric or Hermitian, and positive
        definite. With `sigma` it may be singular, and eigenvalues that are infinite are not found. It is cast
        to the dtype of `A`, and copied to its device. Ranks need `Minv` or `OPinv`, or solve with `M` by cg.
    sigma : float, optional
        Find eigenvalues near `sigma`: the method multiplies by the inverse of ``A - sigma * I``, whose
        eigenvalues are ``w' = 1 / (w - sigma)``; with `M`, by `M` and the inverse of ``A - sigma * M``. Each
        product is a solve, as `inner` says.
    which : {"LM", "SM", "LA", "SA", "BE"}, default "LM"
        Which eigenvalues: the largest or smallest in magnitude, the largest or smallest, or half from each
        end, of which the upper one has one more if `k` is odd. With `sigma` it is about ``w'``: "LM" finds
        the eigenvalues nearest to `sigma`.
    v0 : (n,) array, optional
        Start vector. The default is a random vector, the same in each call without `rng`.
    ncv : int, optional
        Number of vectors stored, greater than `k` and at most n. The default is ``min(n, max(2*k + 1, 20))``.
        The search for copies stores at least ``min(n, k + 8)``.
    maxiter : int, optional
        Maximum number of restarts. The default is ``10 * n``. If it ends the search for copies, a
        `SolverWarning` says that some may be missing.
    tol : float, default 0
        Relative accuracy of eigenvalues. 0 stands for the precision of the data type, and for all copies of
        multiple eigenvalues: the search continues beside the eigenvectors found until none is left. A larger
        tolerance may miss copies, as with ARPACK: rounding errors bring them in late.
    return_eigenvectors : bool, default True
        Whether to return eigenvectors also.
    Minv : LinearOperator or SparseOperator, optional
        The inverse of `M`, in place of inner solves without `sigma`.
    OPinv : LinearOperator or SparseOperator, optional
        The inverse of ``A - sigma * I``, or of ``A - sigma * M``, in place of inner solves.
    mode : {"normal"}
        SciPy's other modes are not available.
    rng : numpy.random.Generator or int, optional
        For another random start vector, where `v0` is not given.
    inner : {"auto", "direct", "cg", "minres"}, default "auto"
        How to solve with ``A - sigma * M``, or with `M` without `sigma`. "direct": with factors, as of
        `splu`, on a GPU if cuDSS is installed, and otherwise on the CPU. "cg" and "minres": with these
        solvers, on the device, to a relative residual of ``max(tol / 10, 100 * eps)``; cg is for a `sigma`
        below all eigenvalues. "auto" is "direct" up to 20,000 rows, or 200,000 with cuDSS. For larger
        matrices, for those whose entries are not known, and over ranks, it is "minres", or "cg" for `M`.
    preconditioner : preconditioner or str, optional
        Of the inner solver, as `M` of `cg`. A name makes the preconditioner of ``A - sigma * M``, or of `M`,
        for which "jacobi" is the default.

    Returns
    -------
    w : (k,) array
        Eigenvalues in ascending order.
    v : (n, k) array
        Eigenvectors in its columns, orthonormal: ``v.conj().T @ M @ v`` is the identity. Both are of the
        library of `v0`, on its device.

    Raises
    ------
    scipy.sparse.linalg.ArpackNoConvergence
        If not all have converged after `maxiter` restarts. It has those that have as attributes.
    numpy.linalg.LinAlgError
        If ``A - sigma * M`` is singular, an inner solve does not converge, `M` turns out not to be definite,
        or fewer than `k` eigenvalues are finite.
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a value that is not allowed, or if `A` or `v0` contains
        infinity or NaN.

    See Also
    --------
    lobpcg : With a preconditioner.

    References
    ----------
    .. [1] K. Wu and H. Simon, "Thick-restart Lanczos method for large symmetric eigenvalue problems", 2000.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> A = sg.gallery.poisson1d(100)
    >>> w, v = sg.linalg.eigsh(A, k=2)
    >>> w.round(4)
    array([3.9961, 3.999 ])
    >>> sg.linalg.eigsh(A, k=2, sigma=0.0, return_eigenvectors=False).round(4)
    array([0.001 , 0.0039])

    With a matrix of masses:

    >>> import scipy.sparse as sp
    >>> M = sp.diags_array([1.0, 4.0, 1.0], offsets=[-1, 0, 1], shape=(100, 100)) / 6
    >>> w, v = sg.linalg.eigsh(A, k=2, M=M, sigma=0.0)
    >>> w.round(4)
    array([0.001 , 0.0039])
    """
    with agreement_of(A):
        one_of("mode", mode, ("normal",))
        seed = seed_of(rng)
        tol = tolerance("tol", tol)
        op, b = with_start(A, v0)
        system = system_of(op, b, "v0")
        n = system.unknowns
        which, k, ncv = checked_which(which, k, ncv, n)
        restarts = 10 * n if maxiter is None else whole_number("maxiter", maxiter, 1)
        system.columns = None
        vectors = system.vectors(False)
        start = start_of(None if v0 is None else system.b, vectors)
        shift = None if sigma is None else real_number("sigma", sigma, "a finite real number", np.isfinite)
        method = one_of("inner", inner, _INNER)
        mass = _mass(system, op, M, vectors.ordinal)
        if Minv is not None and (M is None or shift is not None):
            raise ValueError("Minv is the inverse of M, for M without sigma; give OPinv with sigma")
        if shift is None:
            inner_options = {"inner": None if method == "auto" else method, "preconditioner": preconditioner}
            for name, value in {"OPinv": OPinv, **(inner_options if mass is None else {})}.items():
                if value is not None:
                    raise ValueError(f"{name} is for solves with A - sigma * I; give sigma")
        name, inverse = ("Minv", Minv) if shift is None else ("OPinv", OPinv)
        if isinstance(op, OverRanks) and not isinstance(inverse, OverRanks | None):
            raise TypeError(f"{name} is not distributed over ranks, but A is; give a distributed operator")
        product, of_M = system.core_map(), None
        if mass is not None:
            of_M = _map(system, "M", mass, vectors.ordinal)
        if mass is not None or shift is not None:
            matrix = _Matrix(op, mass, shift)
            if inverse is not None:
                solves = _map(system, name, inverse, vectors.ordinal)
            else:
                solves = _inverse(system, vectors, matrix, method, preconditioner, tol)
            first = product if shift is None else of_M
            product = solves if first is None else _after(first, solves, system, vectors.ordinal)
    limits = {"which": which, "k": k, "ncv": ncv, "tol": tol, "maxiter": restarts, "rng": seed}
    kinds = {"return_eigenvectors": bool(return_eigenvectors), "sigma": shift, "inner": method}
    optional = {"v0": v0, "M": M, "Minv": Minv, "OPinv": OPinv, "preconditioner": preconditioner}
    kinds |= {f"{name} is None": value is None for name, value in optional.items()}
    system.check_same(**limits, **kinds)
    if of_M is not None and shift is not None:
        ncv = min(ncv + 1, n)  # a restart takes one vector out
    places = places_of(k, ncv, n)
    lanczos = Lanczos(product, system, vectors.ordinal, ncv, places, seed, of_M, shift is not None)
    found = lanczos.find(start, k, which, tol, restarts, copies=tol == 0)
    values, factors = found.values, found.factors
    if found.converged and len(values) < k:
        raise np.linalg.LinAlgError(
            f"k={k} is more than the {len(values)} eigenvalues found: the others are infinite, as M is "
            f"singular, or sigma={shift} is too near an eigenvalue; give a smaller k or another sigma"
        )
    wants_vectors = bool(return_eigenvectors) or not found.converged
    if of_M is not None and shift is not None and wants_vectors and len(values):
        factors = lanczos.in_range(values, factors)
    if shift is not None:
        with np.errstate(divide="ignore"):
            values = shift + 1 / values
        order = np.argsort(values)
        values, factors = values[order], factors[order]
    w = system.library.from_host(values.astype(np.finfo(system.dtype).dtype), system.b)
    if not wants_vectors:
        return w
    v = lanczos.columns(factors, vectors)
    if not found.converged:
        raise no_convergence(found, k, w, v)
    return w, v


def _mass(
    system: System, A: LinearOperator | OverRanks, M: object, ordinal: int
) -> LinearOperator | OverRanks | None:
    """The operator of `M`, of the type of a system and on its device."""
    if M is None:
        return None
    if isinstance(M, OverRanks) or isinstance(A, OverRanks):
        if not isinstance(M, OverRanks):
            raise TypeError("M is not distributed over ranks, but A is; give a distributed operator")
        return M  # which the system checks
    place: Any = {"device": device_name(ordinal), "dtype": system.dtype}
    try:
        made = as_operator(M, **place)
        if isinstance(made, SparseOperator) and (made._ordinal, made.dtype) != (ordinal, system.dtype):
            made = aslinearoperator(made, **place)
    except (TypeError, ValueError) as error:
        error.args = (f"M cannot be used: {error}",)
        raise
    return made


def _map(system: System, name: str, op: Any, ordinal: int) -> LinearMap:
    """The products with an operator of the size of a system, as the core calls them."""
    if isinstance(op, OverRanks):
        return system.map_of(op, name)
    if tuple(getattr(op, "shape", ())) != system.shape:
        raise ValueError(f"{name} has shape {getattr(op, 'shape', None)}; it must have {system.shape}")
    if isinstance(op, SparseOperator) and op._ordinal == ordinal and op.dtype == system.dtype:
        return _core.matrix_map(op._matrix)
    return callback_map(system, name, sla.aslinearoperator(op), ordinal)


def _after(first: LinearMap, second: LinearMap, system: System, ordinal: int) -> LinearMap:
    return _core.composed_map(first, second, system.shape[0], _core.SolverMemory(ordinal))


class _Matrix(NamedTuple):
    """The matrix of inner solves: ``A - sigma * M``, or `M` without `sigma`. No `M` is the identity."""

    A: Any
    M: LinearOperator | OverRanks | None
    sigma: float | None

    def __str__(self) -> str:
        return "M" if self.sigma is None else f"A - sigma * {'I' if self.M is None else 'M'}"

    @property
    def has_entries(self) -> bool:
        """True if the entries of all its parts are known."""
        return all(isinstance(part, SparseOperator | OverRanks) for part in self._parts())

    @property
    def is_whole(self) -> bool:
        """True if they are all in this process."""
        return all(isinstance(part, SparseOperator) for part in self._parts())

    def _parts(self) -> list[LinearOperator | OverRanks]:
        used = [self.M] if self.sigma is None else [self.A, self.M]
        return [part for part in used if part is not None]

    def entries(self) -> Any:
        """The matrix, as an operator is made of."""
        A, M, sigma = self
        if sigma is None or sigma == 0:
            return M if sigma is None else A
        if isinstance(A, OverRanks):
            if M is not None:
                raise TypeError(f"solves with {self} are not made over ranks; give OPinv")
            return A._shifted(sigma)
        if M is not None or not isinstance(A, SparseOperator):
            return A - A.dtype.type(sigma) * M
        identity = sp.eye_array(A.shape[0], dtype=A.dtype, format="csr")
        return sp.csr_array(A.tocsr() - A.dtype.type(sigma) * identity)

    def operator(self) -> Any:
        """An operator of its own."""
        made = self.entries()
        if self.sigma is None or self.sigma == 0 or not self.is_whole:
            return made
        return aslinearoperator(made, device=self.A.device, dtype=self.A.dtype)

    def singular(self) -> np.linalg.LinAlgError:
        if self.sigma is None:
            return np.linalg.LinAlgError(f"{self} is singular; give sigma")
        return np.linalg.LinAlgError(
            f"{self} is singular for sigma={self.sigma:g}; give another sigma, near this one"
        )


def _inverse(
    system: System, vectors: Vectors, matrix: _Matrix, method: str, M: object, tol: float
) -> LinearMap:
    """Solves with a matrix, as products on the device."""
    if not matrix.has_entries and (method == "direct" or (method == "cg" and matrix.sigma != 0)):
        raise no_entries(f"inner={method!r}")
    if method == "auto":
        most = _MOST_ON_GPU if vectors.ordinal != CPU and cudss.is_available() else _MOST_DIRECT
        is_direct = matrix.is_whole and system.unknowns <= most and M is None
        method = "direct" if is_direct else "cg" if matrix.sigma is None else "minres"
    if method != "direct":
        return _solves(system, vectors, matrix, method, M, tol)
    if M is not None:
        raise ValueError("preconditioner is for inner='cg' or inner='minres', and inner is 'direct'")
    if not matrix.is_whole:
        raise ValueError("inner='direct' needs the whole matrix in one process; give inner='minres'")
    where = vectors.ordinal if vectors.ordinal != CPU and cudss.is_available() else CPU
    op = aslinearoperator(matrix.entries(), device=device_name(where), dtype=system.dtype, format="csr")
    try:
        factors = DirectFactors(op)
    except SingularMatrixError as error:
        raise matrix.singular() from error
    is_here = where == vectors.ordinal
    return factors._core_map() if is_here else callback_map(system, "the inverse", factors, vectors.ordinal)


def _solves(
    system: System, vectors: Vectors, matrix: _Matrix, method: str, M: object, tol: float
) -> LinearMap:
    """Solves by a method of the core, with vectors that stay on the device."""
    of_matrix, shift, ordinal = system, matrix.sigma or 0.0, vectors.ordinal
    is_plain = matrix.M is None and shift != 0 and method == "minres" and M is None
    if matrix.sigma is None and matrix.has_entries and M is None:
        M = "jacobi"
    product = system.core_map()
    if not is_plain:
        # A matrix of its own: only minres has a shift, and preconditioners are made of its entries.
        made, shift = matrix.operator(), 0.0
        if matrix.has_entries:
            of_matrix = system_of(made, system.b)
            product = of_matrix.core_map()
        elif made is not matrix.A:
            product = callback_map(system, str(matrix), made, ordinal)
    try:
        if isinstance(M, str):
            many = {"cycle": "auto"} if M == "amg" else {}
            if not matrix.has_entries:
                raise no_entries(f"preconditioner={M!r}")
            M = named(M, of_matrix.operator(f"preconditioner={M!r}"), method, **many)
        known = map_of_preconditioner(of_matrix, checked_preconditioner(M), vectors)
    except (TypeError, ValueError) as error:
        error.args = (f"preconditioner cannot be used: {error}",)
        raise
    n = system.shape[0]

    def report_of(method: str, M: LinearMap | None, x: int, y: int) -> _core.SolverReport:
        request = _core.SolverRequest(method, product, n, of_matrix.memory, system.max_threads)
        request.rtol = max(tol / 10, 100 * float(np.finfo(system.dtype).eps))
        request.maxiter = min(10 * system.unknowns, MOST_ITERATIONS)
        request.ranks = of_matrix.ranks
        request.M, request.shift, request.ordinal, request.b, request.x = M, shift, ordinal, x, y
        (report,) = _core.solve(request)
        return report

    def solve(x: int, y: int) -> None:
        report = report_of(method, None if known is None else known.core, x, y)
        # A residual that rounding errors keep a little above the tolerance is as small as it can be.
        is_close = report.status == "stagnated" and report.true_residual <= 1e3 * report.goal
        if report.status == "converged" or is_close:
            return
        # Unless the matrix is singular but for rounding errors, minres reduces the residual.
        least = report_of("minres", None, x, y)
        stays = least.status == "stagnated" and least.true_residual > 1e-2 * least.norm_b
        if least.status == "least_squares" or stays:
            raise matrix.singular()
        is_below = ", below all eigenvalues" if method == "cg" else ""
        other = "an M that is positive definite" if matrix.sigma is None else f"another sigma{is_below}"
        raise np.linalg.LinAlgError(
            f"{method} did not solve with {matrix} (it {report.status}, with a relative residual of "
            f"{report.true_residual / (report.norm_b or 1.0):.1e}); give {other}, a preconditioner, another "
            f"method for inner, or {'Minv' if matrix.sigma is None else 'OPinv'}"
        )

    return _core.in_place_map(system.dtype, solve, ordinal)
