"""Preconditioners that solvers apply on the device, and how any other one gets there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from scipy.sparse.linalg import LinearOperator

from .. import _core
from ..arrays import library_of
from ..construct import aslinearoperator
from ..devices import device_name
from ..operator import SparseOperator
from ..value_types import core_class
from ..value_types import is_distributed as is_spread
from .vectors import DeviceVector, Vectors, check_square, is_distributed, staged, staged_numpy


class Jacobi(LinearOperator):  # type: ignore[misc]
    """Multiplication with the inverse of a matrix's diagonal: a preconditioner for `cg` here and in SciPy.

    Attributes
    ----------
    inverse_diagonal : (n,) numpy.ndarray
        Read-only: the copies on devices are made from it once.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> M = sg.linalg.Jacobi(np.array([0.25, 0.5]))
    >>> M @ np.ones(2)
    array([0.25, 0.5 ])
    """

    def __init__(self, inverse_diagonal: npt.NDArray[Any]) -> None:
        own = np.array(inverse_diagonal)
        own.flags.writeable = False
        super().__init__(own.dtype, (len(own), len(own)))
        self._inverse_diagonal = own
        self._copies: dict[tuple[int, np.dtype[Any]], DeviceVector] = {}

    @property
    def inverse_diagonal(self) -> npt.NDArray[Any]:
        return self._inverse_diagonal

    def _matvec(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        y: npt.NDArray[Any] = self.inverse_diagonal * np.asarray(x).ravel()
        return y

    def _adjoint(self) -> Jacobi:
        return Jacobi(self.inverse_diagonal.conj()) if self.dtype.kind == "c" else self

    def _on_device(self, op: SparseOperator, ordinal: int) -> DeviceVector:
        """A copy for an operator of the same size, made once for each device and dtype."""
        if op.shape != self.shape:
            raise ValueError(
                f"M has shape {self.shape}; an operator of shape {op.shape} needs one of its own"
            )
        key = ordinal, op.dtype
        if key not in self._copies:
            self._copies[key] = staged_numpy(op, self.inverse_diagonal, ordinal)
        return self._copies[key]

    def __reduce__(self) -> tuple[Any, ...]:
        return Jacobi, (self.inverse_diagonal,)


class DevicePreconditioner(LinearOperator):  # type: ignore[misc]
    """A preconditioner that the core applies; made by functions of `spmvgpu.linalg`.

    A `LinearOperator`, so that SciPy's solvers take it too, with NumPy vectors.
    """

    def __init__(self, op: SparseOperator) -> None:
        super().__init__(op.dtype, op.shape)
        self._ordinal = op._ordinal
        self._memory = _core.SolverMemory(op._ordinal)

    def _core_map(self) -> Any:
        """What the core applies, with memory for one solve."""
        raise NotImplementedError

    def _is_polynomial_in(self, op: SparseOperator) -> bool:
        """Whether it is made of products with `op` alone, and sums."""
        return False

    def _map_for(self, op: Any, ordinal: int) -> PreconditionerMap | None:
        """Itself for an operator of its size; None for another type, or for vectors on another device."""
        if not keeps_pieces(op, self) and (ordinal != self._ordinal or op.dtype != self.dtype):
            return None
        return PreconditionerMap(self._core_map(), self)

    def _matvec(self, x: Any) -> npt.NDArray[Any]:
        given = np.ascontiguousarray(np.asarray(x).reshape(-1), self.dtype)
        result = np.empty_like(given)
        source, target = staged(given, self._ordinal), staged(result, self._ordinal, upload=False)
        _core.apply_map(self._core_map(), source.pointer, target.pointer, self._ordinal)
        if target.owner is not result:
            target.owner.download(result)
        return result


def jacobi(op: Any) -> Jacobi:
    """The Jacobi preconditioner of a matrix: the inverse of its diagonal.

    Parameters
    ----------
    op : SparseOperator or DistributedOperator

    Returns
    -------
    Jacobi
        Of a distributed operator, that of this rank's piece of the diagonal.

    Raises
    ------
    numpy.linalg.LinAlgError
        If an entry of the diagonal is not positive, so that the matrix is not positive definite.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [1.0, 2.0]]), device="cpu")
    >>> sg.linalg.jacobi(op).inverse_diagonal
    array([0.25, 0.5 ])
    """
    if is_distributed(op):
        with op.agreement():
            check_square(op)
            return of_diagonal(op.diagonal(), op.dtype, op.row_ranges.begin)
    check_operator(op)
    return of_diagonal(op.tocsr().diagonal(), op.dtype, 0)


def check_operator(op: Any) -> None:
    if not isinstance(op, SparseOperator):
        raise TypeError(
            f"op must be a SparseOperator, made by spmvgpu.aslinearoperator, not {type(op).__name__}"
        )
    check_square(op)


def of_diagonal(diagonal: npt.NDArray[Any], dtype: np.dtype[Any], first_row: int) -> Jacobi:
    """The preconditioner of a diagonal, or of a piece that begins in row `first_row`."""
    rounding = np.sqrt(np.finfo(diagonal.dtype).eps)  # of a Hermitian matrix that was computed
    is_real = np.abs(diagonal.imag) <= rounding * diagonal.real
    bad = np.flatnonzero(~(is_real & (diagonal.real > 0) & np.isfinite(diagonal)))
    if len(bad):
        raise np.linalg.LinAlgError(
            f"the matrix is not positive definite: {len(bad)} of {len(diagonal)} diagonal entries are not "
            f"positive numbers, the first in row {first_row + bad[0]} ({diagonal[bad[0]]:g})"
        )
    return Jacobi((1 / diagonal.real).astype(dtype))


class PreconditionerMap(NamedTuple):
    """A preconditioner as the core applies it."""

    core: Any
    owner: Any  # kept alive as long as the core uses it
    is_diagonal: bool = False


def map_of_preconditioner(op: Any, M: Any, vectors: Vectors) -> PreconditionerMap | None:
    """`M` for the core: on the device where it can be, and otherwise a function that the core calls."""
    if M is None:
        return None
    if is_distributed(M):
        if not hasattr(op, "map_of"):
            raise TypeError("M is distributed over ranks, and the system is not")
        return PreconditionerMap(op.map_of(M), M)
    if isinstance(M, Jacobi):
        return _diagonal_map(op, M._on_device(op, vectors.ordinal))
    if is_diagonal(op, M):
        of_numpy = isinstance(M, np.ndarray)
        return _diagonal_map(op, staged_numpy(op, M, vectors.ordinal) if of_numpy else vectors.take("M", M))
    if sp.issparse(M) or isinstance(M, np.ndarray):
        _check_shape(op, M)
        M = aslinearoperator(M, device=device_name(vectors.ordinal), dtype=op.dtype)
    if not isinstance(M, LinearOperator) and not hasattr(M, "matvec"):
        raise TypeError(
            "M must be a preconditioner of spmvgpu.linalg, the inverse of a diagonal as a 1-D array, "
            f"a matrix, or a LinearOperator, not {type(M).__name__}"
        )
    _check_shape(op, M)
    if isinstance(M, DevicePreconditioner) and (there := M._map_for(op, vectors.ordinal)):
        return there
    if isinstance(M, SparseOperator) and M._ordinal == vectors.ordinal and M.dtype == op.dtype:
        return PreconditionerMap(_core.matrix_map(M._matrix), M)
    matvec = sla.aslinearoperator(M).matvec
    return PreconditionerMap(callback_map(op, partial(checked_product, "M", matvec), vectors.ordinal), M)


def is_diagonal(op: Any, M: Any) -> bool:
    """Whether a preconditioner is a diagonal, or the array of one."""
    if isinstance(M, Jacobi | LinearOperator):
        return isinstance(M, Jacobi)
    if isinstance(M, np.ndarray):
        return M.ndim == 1 or M.shape == (op.shape[0], 1)
    return library_of(M) is not None


def keeps_pieces(op: Any, M: Any) -> bool:
    """Whether the core keeps the vectors in pieces on several devices, wherever they are given."""
    if not isinstance(op, SparseOperator) or not is_spread(op._matrix) or op._matrix.solver_pieces < 2:
        return False
    if isinstance(M, DevicePreconditioner):
        return M._is_polynomial_in(op)
    return M is None or is_diagonal(op, M)


def _check_shape(op: Any, M: Any) -> None:
    if tuple(M.shape) != tuple(op.shape):
        raise ValueError(
            f"M has shape {tuple(M.shape)}; an operator of shape {op.shape} needs one of its own"
        )


def _diagonal_map(op: Any, diagonal: DeviceVector) -> PreconditionerMap:
    return PreconditionerMap(core_class("DiagonalMap", op.dtype)(diagonal.pointer), diagonal, True)


def callback_map(op: Any, function: Callable[[Any], Any], ordinal: int) -> Any:
    """A function of NumPy vectors as what the core multiplies by, of vectors on a device."""
    return core_class("CallbackMap", op.dtype)(function, op.shape[0], ordinal)


def checked_product(name: str, multiply: Callable[[Any], Any], x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The product that a callback computes, as the core takes it; TypeError or ValueError for any other."""
    y = np.asarray(multiply(x))
    if y.shape not in (x.shape, (len(x), 1)):
        raise ValueError(f"{name} gave a vector of shape {y.shape}; it must be {x.shape}")
    if y.dtype.kind not in ("biufc" if x.dtype.kind == "c" else "biuf"):
        kind = "numbers" if x.dtype.kind == "c" else "real numbers, as b and the matrix are"
        raise TypeError(f"{name} gave a vector of dtype {y.dtype}; allowed are {kind}")
    return np.ascontiguousarray(y.reshape(-1), x.dtype)
