"""What factors of a matrix are to `splu`, and the factors of SciPy's SuperLU on the CPU."""

from __future__ import annotations

import threading
from typing import Protocol

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from .. import _core
from .._core import LinearMap
from ..devices import CPU
from .vectors import DeviceVector

_SECONDS_TO_LOOK = 0.1  # between two looks for a signal


class SingularMatrixError(np.linalg.LinAlgError, RuntimeError):
    """A matrix has no factors that systems can be solved with.

    Both `numpy.linalg.LinAlgError` and, as SciPy's `splu` raises it, `RuntimeError`.
    """


class Factors(Protocol):
    """The factors of a matrix where its vectors are.

    Attributes
    ----------
    norm : float
        A bound of the spectral norm of the matrix.
    is_checked : bool
        Whether pivots were chosen so that solutions need no check.
    """

    norm: float
    is_checked: bool

    @property
    def nnz(self) -> int:
        """Entries of the factors."""

    def solve(self, b: DeviceVector, x: DeviceVector, columns: int, trans: str) -> None:
        """x = inverse of op(A) times b, for columns one after the other; complete on return."""

    def core_map(self, trans: str) -> LinearMap:
        """The same for solvers of the core."""

    def renewed(self, csr: sp.csr_array) -> Factors:
        """The factors of a matrix with the same pattern; these are as they were."""


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

    is_checked = True
    norm = 1.0  # which is not asked for

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
    """The factors of SciPy's `splu`, which looks for no signals, and so works in a thread.

    What a signal handler raises ends the wait, and leaves the thread behind until the factors are made.
    """
    made: list[sla.SuperLU] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            made.append(sla.splu(sp.csc_array(matrix)))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_SECONDS_TO_LOOK)
    if raised:
        raise raised[0]
    return made[0]
