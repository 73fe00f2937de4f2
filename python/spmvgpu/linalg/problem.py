"""A system of equations for `solve`, and what is known of its matrix."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from scipy.sparse.linalg import LinearOperator

from .._util.types import DType, HostArray
from ..arrays import NUMPY, AnyArray, AnyLibrary, Located, is_sparse
from ..arrays.products import kind_of
from ..devices import device_name, resolve_device
from ..inputs.canonical import matrix_of
from ..inputs.compressed import storage_dtype
from ..operator.construct import aslinearoperator
from ..operator.operator import SparseOperator
from .choice import dominance
from .preconditioners import InverseDiagonal, Jacobi, inverse_diagonal, inverse_of
from .systems import check_square

_SMALL_ROWS = 4000  # up to which a direct solver on the CPU is as fast as any other
_SMALL_ENTRIES = 50  # in a row of such a matrix, unless it is very small
_VERY_SMALL_ROWS = 500


class Problem:
    """A system in double precision, whatever its matrix is given as.

    Parameters
    ----------
    A : matrix, SparseOperator or LinearOperator
    b, library, located
        The right-hand side, as `taken` gives it.
    device : str
        Where a matrix goes to.
    """

    def __init__(self, A: Any, b: AnyArray, library: AnyLibrary, located: Located, device: str) -> None:
        self.b, self.library, self.located = b, library, located
        resolve_device(device)  # refuses what is none
        self._device = device_name(located.ordinal) if device == "auto" and library is not NUMPY else device
        self.is_foreign = (
            not isinstance(A, SparseOperator) and hasattr(A, "matvec") and not hasattr(A, "tocsr")
        )
        if self.is_foreign:
            A = sla.aslinearoperator(A)
        elif not isinstance(A, SparseOperator) and not (is_sparse(A) and hasattr(A, "dtype")):
            A = matrix_of(A)  # CuPy's stays on its GPU
            if A.ndim != 2:
                raise ValueError(f"A has {A.ndim} dimensions; give a square matrix")
        check_square(A)
        self._given, self.rows = A, int(A.shape[0])
        self.dtype: DType = np.dtype(np.float64)
        if "c" in (storage_dtype(np.dtype(A.dtype), None).kind, kind_of(located.dtype)):
            self.dtype = np.dtype(np.complex128)
        self.kind = "Hermitian" if self.dtype.kind == "c" else "symmetric"

    @cached_property
    def op(self) -> SparseOperator | LinearOperator:
        """The operator on its device."""
        A = self._given
        if self.is_foreign:
            return sla.LinearOperator(A.shape, A.matvec, matmat=A.matmat, dtype=self.dtype)
        if isinstance(A, SparseOperator):
            return A.astype(self.dtype, copy=False)
        return aslinearoperator(A, device=self._device, dtype=self.dtype)

    @cached_property
    def matrix(self) -> sp.csr_array:
        """The matrix in host memory."""
        A = self._given
        if hasattr(A, "get"):
            A = A.get()
        return sp.csr_array(A.tocsr() if hasattr(A, "tocsr") else A)

    @property
    def is_small(self) -> bool:
        """Whether a direct solver on the CPU is the best."""
        if self.is_foreign or self.located.host is None or self.rows > _SMALL_ROWS:
            return False
        return self.rows <= _VERY_SMALL_ROWS or self.matrix.nnz <= _SMALL_ENTRIES * self.rows

    @cached_property
    def diagonal(self) -> HostArray | None:
        op = self.op
        return op.diagonal() if isinstance(op, SparseOperator) else None

    @cached_property
    def _signs(self) -> InverseDiagonal | None:
        op = self.op
        return inverse_diagonal(op) if isinstance(op, SparseOperator) else None

    @cached_property
    def divides(self) -> bool:
        """Whether the diagonal has an inverse."""
        signs = self._signs
        if signs is None or signs.others == 0:
            return signs is not None
        diagonal = self.diagonal
        return diagonal is not None and bool(np.isfinite(inverse_of(diagonal, self.dtype)).all())

    def preconditioner(self, name: str) -> Jacobi | str | None:
        """What stands for a name: the inverse of a positive diagonal has been made."""
        if name != "jacobi":
            return None if name == "none" else name
        signs = self._signs
        return name if signs is None or signs.negative or signs.others else signs.inverse

    @property
    def has_positive_diagonal(self) -> bool:
        """Whether the diagonal is positive, as far as it is known."""
        signs = self._signs
        if signs is None or signs.negative == signs.others == 0:
            return True
        diagonal = self.diagonal
        return diagonal is not None and signs.negative == 0 and bool((diagonal.real > 0).all())

    @cached_property
    def is_hermitian(self) -> bool:
        """Whether two products with random vectors differ by rounding errors only."""
        u, v = (random_vector(self.rows, self.dtype, seed) for seed in (0, 1))
        a, b = self.op @ u, self.op @ v
        size = max(float(np.abs(a).max(initial=0.0)), float(np.abs(b).max(initial=0.0)))
        if not np.isfinite(size):
            raise ValueError("A contains inf or NaN, or its products overflow")
        if size == 0:
            return True
        difference = abs(np.vdot(u, b / size) - np.vdot(a / size, v))
        allowed = 1e4 * np.finfo(self.dtype).eps * np.linalg.norm(u) * np.linalg.norm(b / size)
        return bool(difference <= allowed)

    @cached_property
    def dominance(self) -> float:
        """As `dominance` gives it; 0 if the entries are not in host memory."""
        if self.diagonal is None or isinstance(self._given, SparseOperator):
            return 0.0
        return dominance(self.matrix, self.diagonal)


def random_vector(length: int, dtype: DType, seed: int) -> HostArray:
    """A vector whose entries are drawn evenly about 0."""
    rng = np.random.default_rng(seed)
    drawn: HostArray = (rng.random(length) - 0.5).astype(dtype, copy=False)
    return drawn + 1j * (rng.random(length) - 0.5) if dtype.kind == "c" else drawn
