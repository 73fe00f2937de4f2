"""Eigenvalues of symmetric matrices by the Lanczos method, and by LOBPCG."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from .. import _core
from .._core import LinearMap
from .._util.arguments import one_of, real_number, whole_number, with_hints
from .._util.types import HostArray
from ..arrays import host_array
from ..devices import CPU, device_name
from ..operator.construct import as_operator, aslinearoperator
from ..operator.operator import SparseOperator
from . import cudss
from .direct import DirectFactors
from .factors import SingularMatrixError
from .krylov import MOST_ITERATIONS
from .lanczos import Lanczos, checked_which, no_convergence, places_of, seed_of, start_of, with_start
from .named import named
from .preconditioners import checked_preconditioner, map_of_preconditioner
from .stopping import tolerance
from .systems import OverRanks, System, Vectors, agreement_of, callback_map, refuse_ranks, system_of

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
    M, Minv : None
        Generalized problems are not solved. Use `scipy.sparse.linalg.eigsh` or `lobpcg`.
    sigma : float, optional
        Find eigenvalues near `sigma`: the method multiplies by the inverse of ``A - sigma * I``, whose
        eigenvalues are ``w' = 1 / (w - sigma)``. Each product is a solve, as `inner` says.
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
    OPinv : LinearOperator or SparseOperator, optional
        The inverse of ``A - sigma * I``, in place of inner solves.
    mode : {"normal"}
        Other modes are for generalized problems.
    rng : numpy.random.Generator or int, optional
        For another random start vector, where `v0` is not given.
    inner : {"auto", "direct", "cg", "minres"}, default "auto"
        With `sigma`, how to solve with ``A - sigma * I``. "direct": with factors, as of `splu`, on a GPU if
        cuDSS is installed, and otherwise on the CPU. "cg" and "minres": with these solvers, on the device, to
        a relative residual of ``max(tol / 10, 100 * eps)``; cg is for a `sigma` below all eigenvalues. "auto"
        is "direct" up to 20,000 rows, or 200,000 with cuDSS, and "minres" for larger matrices, for those
        whose entries are not known, and over ranks.
    preconditioner : preconditioner or str, optional
        Of the inner solver, as `M` of `cg`. A name makes the preconditioner of ``A - sigma * I``.

    Returns
    -------
    w : (k,) array
        Eigenvalues in ascending order.
    v : (n, k) array
        Eigenvectors in its columns. Both are of the library of `v0`, on its device.

    Raises
    ------
    scipy.sparse.linalg.ArpackNoConvergence
        If not all have converged after `maxiter` restarts. It has those that have as attributes.
    numpy.linalg.LinAlgError
        If ``A - sigma * I`` is singular, or an inner solve does not converge.
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a value that is not allowed, or if `A` or `v0` contains
        infinity or NaN.

    See Also
    --------
    lobpcg : With a preconditioner, and for generalized problems.

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
    """
    with agreement_of(A):
        for name, given in (("M", M), ("Minv", Minv)):
            if given is not None:
                raise ValueError(
                    f"{name} is for generalized problems, which this eigsh does not solve; use "
                    "scipy.sparse.linalg.eigsh or spmvgpu.linalg.lobpcg"
                )
        one_of("mode", mode, ("normal",))
        seed = seed_of(rng)
        tol = tolerance("tol", tol)
        system = system_of(*with_start(A, v0), "v0")
        n = system.unknowns
        which, k, ncv = checked_which(which, k, ncv, n)
        restarts = 10 * n if maxiter is None else whole_number("maxiter", maxiter, 1)
        system.columns = None
        vectors = system.vectors(False)
        start = start_of(None if v0 is None else system.b, vectors)
        shift = None if sigma is None else real_number("sigma", sigma, "a finite real number", np.isfinite)
        method = one_of("inner", inner, _INNER)
        if shift is None:
            given = {"OPinv": OPinv, "inner": None if method == "auto" else method}
            for name, value in {**given, "preconditioner": preconditioner}.items():
                if value is not None:
                    raise ValueError(f"{name} is for solves with A - sigma * I; give sigma")
            product = system.core_map()
        elif isinstance(A, OverRanks) and not isinstance(OPinv, OverRanks | None):
            raise TypeError("OPinv is not distributed over ranks, but A is; give a distributed operator")
        else:
            product = _inverse(system, vectors, shift, OPinv, method, preconditioner, tol)
    limits = {"which": which, "k": k, "ncv": ncv, "tol": tol, "maxiter": restarts, "rng": seed}
    kinds = {"return_eigenvectors": bool(return_eigenvectors), "sigma": shift, "inner": method}
    optional = {"v0": v0, "OPinv": OPinv, "preconditioner": preconditioner}
    kinds |= {f"{name} is None": value is None for name, value in optional.items()}
    system.check_same(**limits, **kinds)
    lanczos = Lanczos(product, system, vectors.ordinal, ncv, places_of(k, ncv, n), seed)
    found = lanczos.find(start, k, which, tol, restarts, copies=tol == 0)
    values, factors = found.values, found.factors
    if shift is not None:
        with np.errstate(divide="ignore"):
            values = shift + 1 / values
        order = np.argsort(values)
        values, factors = values[order], factors[order]
    w = system.library.from_host(values.astype(np.finfo(system.dtype).dtype), system.b)
    if found.converged and not return_eigenvectors:
        return w
    v = lanczos.columns(factors, vectors)
    if not found.converged:
        raise no_convergence(found, k, w, v)
    return w, v


def _inverse(
    system: System, vectors: Vectors, sigma: float, OPinv: object, method: str, M: object, tol: float
) -> LinearMap:
    """Solves with a shifted matrix, as products on the device."""
    ordinal = vectors.ordinal
    if isinstance(OPinv, OverRanks):
        return system.map_of(OPinv, "OPinv")
    if OPinv is not None:
        if tuple(getattr(OPinv, "shape", ())) != system.shape:
            raise ValueError(f"OPinv has shape {getattr(OPinv, 'shape', None)}; it must have {system.shape}")
        if isinstance(OPinv, SparseOperator) and OPinv._ordinal == ordinal and OPinv.dtype == system.dtype:
            return _core.matrix_map(OPinv._matrix)
        return callback_map(system, "OPinv", sla.aslinearoperator(OPinv), ordinal)
    try:
        op: SparseOperator | OverRanks | None = system.operator("inner='direct'")
    except TypeError:
        op = None
        if method in ("direct", "cg") and (method == "direct" or sigma != 0):
            raise
    if method == "auto":
        most = _MOST_ON_GPU if ordinal != CPU and cudss.is_available() else _MOST_DIRECT
        method = "direct" if isinstance(op, SparseOperator) and system.unknowns <= most else "minres"
        if M is not None:
            method = "minres"
    if method == "direct":
        if M is not None:
            raise ValueError("preconditioner is for inner='cg' or inner='minres', and inner is 'direct'")
        if not isinstance(op, SparseOperator):
            raise ValueError("inner='direct' needs the whole matrix in one process; give inner='minres'")
        return _factors(system, op, sigma, ordinal)
    return _solves(system, vectors, op, sigma, method, M, tol)


def _shifted(op: SparseOperator, sigma: float) -> sp.csc_array:
    n = op.shape[0]
    return sp.csc_array(op.tocsr() - op.dtype.type(sigma) * sp.eye_array(n, dtype=op.dtype, format="csr"))


def _factors(system: System, op: SparseOperator, sigma: float, ordinal: int) -> LinearMap:
    """The inverse of a shifted matrix, by its factors: on the device if they can be made there."""
    where = ordinal if ordinal != CPU and cudss.is_available() else CPU
    shifted = aslinearoperator(_shifted(op, sigma), device=device_name(where), dtype=op.dtype, format="csr")
    try:
        factors = DirectFactors(shifted)
    except SingularMatrixError as error:
        raise _singular(sigma) from error
    return factors._core_map() if where == ordinal else callback_map(system, "the inverse", factors, ordinal)


def _solves(
    system: System,
    vectors: Vectors,
    op: SparseOperator | OverRanks | None,
    sigma: float,
    method: str,
    M: object,
    tol: float,
) -> LinearMap:
    """Solves by a method of the core, with vectors that stay on the device."""
    of_shifted, shift = system, sigma
    if op is not None and sigma != 0 and (method == "cg" or M is not None):
        # A matrix of its own: cg has no shift, and preconditioners are made of its entries.
        if isinstance(op, OverRanks):
            made: object = op._shifted(sigma)
        else:
            made = aslinearoperator(_shifted(op, sigma).tocsr(), device=op.device, dtype=op.dtype)
        of_shifted, shift = system_of(made, system.b), 0.0
    try:
        if isinstance(M, str):
            many = {"cycle": "auto"} if M == "amg" else {}
            M = named(M, of_shifted.operator(f"preconditioner={M!r}"), method, **many)
        known = map_of_preconditioner(of_shifted, checked_preconditioner(M), vectors)
    except (TypeError, ValueError) as error:
        error.args = (f"preconditioner cannot be used: {error}",)
        raise
    product, n, ordinal = of_shifted.core_map(), system.shape[0], vectors.ordinal

    def report_of(method: str, M: LinearMap | None, x: int, y: int) -> _core.SolverReport:
        request = _core.SolverRequest(method, product, n, of_shifted.memory, system.max_threads)
        request.rtol = max(tol / 10, 100 * float(np.finfo(system.dtype).eps))
        request.maxiter = min(10 * system.unknowns, MOST_ITERATIONS)
        request.ranks = of_shifted.ranks
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
            raise _singular(sigma)
        is_below = ", below all eigenvalues" if method == "cg" else ""
        raise np.linalg.LinAlgError(
            f"{method} did not solve with A - sigma * I (it {report.status}, with a relative residual of "
            f"{report.true_residual / (report.norm_b or 1.0):.1e}); give another sigma{is_below}, a "
            "preconditioner, another method for inner, or OPinv"
        )

    return _core.in_place_map(system.dtype, solve, ordinal)


def _singular(sigma: float) -> np.linalg.LinAlgError:
    return np.linalg.LinAlgError(
        f"A - sigma * I is singular for sigma={sigma:g}; give another sigma, near this one"
    )


@with_hints
def lobpcg(
    A: object,
    X: object,
    B: object = None,
    M: object = None,
    Y: object = None,
    tol: float | None = None,
    maxiter: int | None = None,
    largest: bool = True,
    verbosityLevel: int = 0,
    retLambdaHistory: bool = False,
    retResidualNormsHistory: bool = False,
    restartControl: int = 20,
) -> Any:
    """Find eigenvalues and eigenvectors of a symmetric matrix by LOBPCG.

    This calls `scipy.sparse.linalg.lobpcg`. Products with the columns of `X` run on the device of the
    operator, several columns at once. SciPy does the dense algebra on the CPU.

    Parameters
    ----------
    A : SparseOperator, array, sparse matrix or LinearOperator
        Symmetric or Hermitian. A matrix is converted to an operator.
    X : (n, k) array
        Initial guess of the eigenvectors, in host memory. It is not changed.
    B : like `A`, optional
        Right-hand matrix of a generalized problem.
    M : like `A`, optional
        Preconditioner.
    Y, tol, maxiter, largest, verbosityLevel, retLambdaHistory, retResidualNormsHistory, restartControl
        As in `scipy.sparse.linalg.lobpcg`.

    Returns
    -------
    w : (k,) numpy.ndarray
        Eigenvalues.
    v : (n, k) numpy.ndarray
        Eigenvectors.
    histories : list of numpy.ndarray
        Returned only if `retLambdaHistory` or `retResidualNormsHistory` is set.

    Raises
    ------
    TypeError, ValueError
        As `spmvgpu.aslinearoperator` for a matrix, and as SciPy for the other arguments. If `X` or `Y` has a
        shape that does not fit, or is on a GPU.

    References
    ----------
    .. [1] A. V. Knyazev, "Toward the optimal preconditioned eigensolver: locally optimal block preconditioned
       conjugate gradient method", 2001.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> A = sg.gallery.poisson1d(100)
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> w, v = sg.linalg.lobpcg(A, X, tol=1e-4, maxiter=200)
    >>> bool(3.9 < w[0] < 4.0)
    True
    """
    refuse_ranks(A)
    op, start = _operator(A), _columns("X", X, A)
    if start.shape[1] == 0:
        raise ValueError(f"X has shape {start.shape}; give at least one column")
    constraints = None if Y is None else _columns("Y", Y, A)
    options = tol, maxiter, largest, verbosityLevel, retLambdaHistory, retResidualNormsHistory, restartControl
    # SciPy writes to the start.
    return sla.lobpcg(op, start.copy(), _operator(B), _operator(M), constraints, *options)


def _columns(name: str, given: object, A: object) -> HostArray:
    """Columns in host memory of the length that the matrix has, if it has one."""
    columns = host_array(name, given)
    rows = getattr(A, "shape", columns.shape)[0]
    if columns.ndim != 2 or columns.shape[0] != rows:
        raise ValueError(f"{name} has shape {columns.shape}; give columns, ({rows}, k)")
    return columns


def _operator(matrix: object) -> object:
    """A matrix as one of our operators; operators and functions as they are."""
    is_as_scipy_takes = matrix is None or callable(matrix) or isinstance(matrix, sla.LinearOperator)
    return matrix if is_as_scipy_takes else as_operator(matrix)
