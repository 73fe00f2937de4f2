"""Factors of SciPy's SuperLU on the CPU, and the direct method of `solve`, which estimates them first."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError
from contextlib import suppress
from threading import Thread

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from scipy.sparse.csgraph import maximum_bipartite_matching

from .. import _core
from .._core import LinearMap
from .._util.types import HostArray
from ..devices import CPU
from .vectors import DeviceVector

_MOST_REFINEMENTS = 3
_MOST_SECONDS = 60.0  # that factors may take
_OPERATIONS_PER_SECOND = 2e9  # the bound counts about twice as many operations as SuperLU does
_QUICK = 0.5  # seconds, below which no order of the columns is asked for
_WAIT = 0.2  # seconds of one wait for factors
_COUNTED = 600.0  # seconds, after which the bound is not counted further


class SingularMatrixError(np.linalg.LinAlgError, RuntimeError):
    """A matrix has no factors that systems can be solved with.

    Both `numpy.linalg.LinAlgError` and, as SciPy's `splu` raises it, `RuntimeError`.
    """


class SuperLUFactors:
    """The factors of SciPy's `splu`, with partial pivoting.

    Parameters
    ----------
    csr : csr_array
        Square and finite, with at least one row.

    Attributes
    ----------
    scipy : scipy.sparse.linalg.SuperLU
    """

    def __init__(self, csr: sp.csr_array) -> None:
        try:
            self.scipy = superlu(csr)
        except RuntimeError as error:
            raise SingularMatrixError(f"the matrix is singular: SuperLU found {error}") from error
        self._dtype = csr.dtype

    @property
    def nnz(self) -> int:
        return int(self.scipy.nnz)

    def solve(self, b: DeviceVector, x: DeviceVector, columns: int, trans: str) -> None:
        given, result = b.owner, x.owner
        assert isinstance(given, np.ndarray)
        assert isinstance(result, np.ndarray)
        result[...] = self.scipy.solve(given.T, trans).T

    def core_map(self, trans: str) -> LinearMap:
        factors, n = self.scipy, self.scipy.shape[0]
        return _core.callback_map(self._dtype, lambda rows: factors.solve(rows.T, trans).T.copy(), n, n, CPU)

    def renewed(self, csr: sp.csr_array) -> SuperLUFactors:
        return SuperLUFactors(csr)


def superlu(matrix: sp.csr_array) -> sla.SuperLU:
    """The factors of SciPy's `splu`, which looks for no signals, and so has a thread where it may take long.

    What a signal handler raises ends the wait, and leaves the thread behind until the factors are made.
    """
    if _seconds_of_full(matrix) <= _WAIT:
        return sla.splu(matrix.tocsc())
    made: Future[sla.SuperLU] = Future()

    def run() -> None:
        try:
            made.set_result(sla.splu(matrix.tocsc()))
        except BaseException as error:
            made.set_exception(error)

    Thread(target=run, daemon=True).start()
    while not made.done():
        # Python notices a signal that comes just before a wait after it, and so none lasts long.
        with suppress(NotYetError):
            made.exception(_WAIT)
    return made.result()


def solve_by_factors(
    A: sp.csr_array, b: HostArray, x0: HostArray | None, rtol: float, atol: float
) -> tuple[HostArray | None, float, str]:
    """Solve with the factors of a canonical matrix.

    A row without entries whose column has none either is set aside: `x` is there what `x0` is, or zero. The
    caller has checked that `b` is zero in such rows.

    Returns
    -------
    x : array or None
    residual : float
        ``norm(b - A @ x) / norm(b)``, the largest of all columns.
    outcome : str
        "converged", or what went wrong.
    """
    if not A.data.all():
        A = A.copy()
        A.eliminate_zeros()
    connected = np.flatnonzero((np.diff(A.indptr) > 0) | (np.bincount(A.indices, minlength=len(b)) > 0))
    x = np.zeros_like(b) if x0 is None else x0.copy()
    sizes = norms(b)
    goals = np.maximum(rtol * sizes, atol)
    part = A if len(connected) == len(b) else A[connected][:, connected]
    try:
        refusal = _refusal(part)
        if refusal:
            return None, np.inf, refusal
        x[connected], left = _refined(part, b[connected], goals)
    except RuntimeError:  # of SuperLU
        return None, np.inf, "found that the matrix is singular"
    except MemoryError:
        return None, np.inf, "had no memory for the factors"
    worst = float(np.max(left / np.where(sizes > 0, sizes, 1.0), initial=0.0))
    is_solved = bool((left <= goals).all())
    outcome = "converged" if is_solved else "came to where rounding errors keep the residual"
    return x, worst if np.isfinite(worst) else np.inf, outcome


def contradiction(empty_rows: HostArray, b: HostArray, rtol: float, atol: float) -> str:
    """Why a system with empty rows has no solution within the tolerance; empty if it may have one."""
    B = b.reshape(len(b), -1)
    there = B[empty_rows]
    bad = np.flatnonzero(norms(there) > np.maximum(rtol * norms(B), atol))
    if not len(bad):
        return ""
    first = int(np.abs(there[:, bad[0]]).argmax())
    return (
        f"row {empty_rows[first]} of A has no entries but zeros, and b is {there[first, bad[0]]:g} there; "
        "give a b that is zero in empty rows"
    )


def norms(X: HostArray) -> HostArray:
    """The norms of columns, without squares that leave the range of numbers."""
    sizes = np.abs(X).max(axis=0, initial=0.0)
    with np.errstate(invalid="ignore"):  # infinity by infinity
        return np.asarray(sizes * np.linalg.norm(X / np.where(sizes > 0, sizes, 1.0), axis=0))


def _refined(A: sp.csr_array, b: HostArray, goals: HostArray) -> tuple[HostArray, HostArray]:
    """The solution, refined a few times where it is not exact enough, and the norms of its residuals."""
    if not len(b):
        return b, norms(b)
    factors = superlu(A)
    x: HostArray = factors.solve(b)
    refinements = 0
    while True:
        residual = b - A @ x
        left = norms(residual)
        if (left <= goals).all() or not np.isfinite(left).all() or refinements == _MOST_REFINEMENTS:
            return x, left
        x = x + factors.solve(residual)
        refinements += 1


def _refusal(A: sp.csr_array) -> str:
    """Why no factors are made of a matrix; empty if they are."""
    if _seconds_of_full(A) <= _QUICK or seconds_of_factors(A, _QUICK) <= _QUICK:
        return ""
    order = _order_of_columns(A)
    if order is None:
        return "found that the matrix is singular, whatever the values of its entries are"
    entries, seconds = _bound(A, order, _COUNTED)
    if seconds <= _MOST_SECONDS:
        return ""
    gib = entries * (A.dtype.itemsize + np.dtype(np.int32).itemsize) / 2**30
    about = "about" if seconds <= _COUNTED else "more than"
    return (
        f"was not tried: factors would have {about} {entries:.0e} entries ({gib:.2g} GiB) and take {about} "
        f"{seconds / 60:.0f} minutes; spsolve(A, b) makes them all the same"
    )


def _seconds_of_full(A: sp.csr_array) -> float:
    """How long the factors of a matrix of this size take if they are full."""
    return float(A.shape[0] ** 3 / _OPERATIONS_PER_SECOND)


def seconds_of_factors(A: sp.csr_array, most: float) -> float:
    """About how long factors take, with the columns in their order; or more than `most` if that is longer."""
    return _bound(A, None, most)[1]


def _bound(A: sp.csr_array, order: HostArray | None, most: float) -> tuple[float, float]:
    """Entries of the factors, and seconds that they take; without the rest where there are more than `most`.

    Without an order, the columns are eliminated as they are. SuperLU's order is rarely worse.
    """
    ordered = A
    if order is not None or not A.has_sorted_indices:
        indices = A.indices if order is None else order[A.indices]
        ordered = sp.csr_array((np.ones(A.nnz, bool), indices, A.indptr), shape=A.shape, copy=True)
        ordered.sort_indices()
    indptr, indices = (array.astype(np.int32, copy=False) for array in (ordered.indptr, ordered.indices))
    entries, operations = _core.fill_bound(indptr, indices, most * _OPERATIONS_PER_SECOND)
    return entries, operations / _OPERATIONS_PER_SECOND


def _order_of_columns(A: sp.csr_array) -> HostArray | None:
    """The place that SuperLU gives each column; None for a matrix that is singular for its pattern.

    SciPy tells the order only with factors. These are quick to make of a matrix with the same pattern and a
    large diagonal, if all other entries are dropped. The order does not depend on the order of the rows.
    """
    n = A.shape[0]
    rows = maximum_bipartite_matching(A, perm_type="row")
    if (rows < 0).any():
        return None
    matched = sp.csc_array(A[rows])
    matched.data = np.where(matched.indices == np.repeat(np.arange(n), np.diff(matched.indptr)), 1.0, 1e-9)
    order: HostArray = sla.spilu(matched, drop_tol=1.0, drop_rule="basic").perm_c
    return order
