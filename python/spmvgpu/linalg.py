"""Solvers with the signatures of `scipy.sparse.linalg` that do all their work on the operator's device."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator

from . import _core
from .arguments import real_number, whole_number
from .arrays import NUMPY, Located, library_of
from .devices import CPU
from .multi import MultiDeviceOperator
from .operands import converted_vector
from .operator import SparseOperator

_MOST_ITERATIONS = 2**31 - 1  # as many as the core counts


def cg(
    op: SparseOperator,
    b: Any,
    x0: Any = None,
    *,
    rtol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callable[[Any], object] | None = None,
) -> tuple[Any, int]:
    """Solve ``A x = b`` for a symmetric positive definite matrix by conjugate gradients.

    The same call as `scipy.sparse.linalg.cg`. Everything stays on the operator's device: vectors, of its
    dtype, and scalars, in float64. Repeated on the same device, it gives the same bits.

    Parameters
    ----------
    op : SparseOperator or DistributedOperator
        Made by `aslinearoperator`, or by `spmvgpu.distributed`: all its ranks call then, and vectors are
        their pieces. That it is symmetric is not checked.
    b : (n,) or (n, 1) array
        Right-hand side, of any real dtype, which is converted to the operator's: a NumPy array, or an array
        of another library on the operator's device.
    x0 : (n,) or (n, 1) array, optional
        First guess, of the same library as `b`; zero by default.
    rtol, atol : float
        Done when ``norm(b - A @ x) <= max(rtol * norm(b), atol)``, by the residual that the method updates.
    maxiter : int, optional
        Most iterations; ``10 * n`` by default.
    M : Jacobi or (n,) array, optional
        Preconditioner: `jacobi(op)`, or the inverse of a diagonal.
    callback : callable, optional
        Called as ``callback(xk)`` after every iteration; the device waits for it. `xk` is the same array in
        every call; copy it to keep it.

    Returns
    -------
    x : (n,) array
        Of the library of `b`, of the operator's dtype.
    info : int
        0: converged. Otherwise the number of iterations, all that were allowed.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the matrix or `M` turns out not to be positive definite, or if infinite numbers or NaN come up.
        SciPy goes on there, and what it returns may be anything.
    TypeError, ValueError
        For arguments of wrong type, shape, dtype or device. With an `M` that is not diagonal, use
        `scipy.sparse.linalg.cg`, which takes a `SparseOperator` too.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [1.0, 3.0]]), device="cpu")
    >>> x, info = sg.linalg.cg(op, np.array([1.0, 2.0]), rtol=1e-12)
    >>> x.round(6), info
    (array([0.090909, 0.636364]), 0)
    """
    if _is_distributed(op):
        from .distributed import solvers

        return solvers.cg(op, b, x0, rtol=rtol, atol=atol, maxiter=maxiter, M=M, callback=callback)
    _check_operator(op)
    if isinstance(op, MultiDeviceOperator):
        raise TypeError(
            "op is on several devices, and this solver runs on one; scipy.sparse.linalg.cg takes it"
        )
    relative, absolute, limit = check_limits(op, rtol, atol, maxiter, callback)
    if isinstance(b, list | tuple):
        b = np.asarray(b)
    vectors = _Vectors(op, b)
    right = vectors.take("b", b)
    guess = _NOTHING if x0 is None else vectors.take("x0", x0)
    inverse = _NOTHING if M is None else _inverse_diagonal(op, M, vectors)
    x = vectors.new()
    look = None if callback is None else lambda: callback(vectors.result())
    status, iterations, culprit = _core.cg(
        op._matrix,
        right.pointer,
        guess.pointer,
        inverse.pointer,
        x.pointer,
        relative,
        absolute,
        limit,
        vectors.stream,
        look,
    )
    check_status(op, status, iterations, culprit)
    return vectors.result(), 0 if status == "converged" else iterations


class Jacobi(LinearOperator):  # type: ignore[misc]
    """Multiplication with the inverse of a matrix's diagonal: a preconditioner for `cg` here and in SciPy.

    Attributes
    ----------
    inverse_diagonal : (n,) numpy.ndarray
        Read-only: the copies on devices are made from it once.
    """

    def __init__(self, inverse_diagonal: npt.NDArray[Any]) -> None:
        own = np.array(inverse_diagonal)
        own.flags.writeable = False
        super().__init__(own.dtype, (len(own), len(own)))
        self._inverse_diagonal = own
        self._copies: dict[tuple[int, np.dtype[Any]], _Placed] = {}

    @property
    def inverse_diagonal(self) -> npt.NDArray[Any]:
        return self._inverse_diagonal

    def _matvec(self, x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        y: npt.NDArray[Any] = self.inverse_diagonal * np.asarray(x).ravel()
        return y

    def _adjoint(self) -> Jacobi:
        return self

    def _on_device(self, op: SparseOperator) -> _Placed:
        """A copy for an operator of the same size, made once for each device and dtype."""
        if op.shape != self.shape:
            raise ValueError(
                f"M has shape {self.shape}; an operator of shape {op.shape} needs one of its own"
            )
        key = op._ordinal, op.dtype
        if key not in self._copies:
            self._copies[key] = _place_numpy(op, self.inverse_diagonal)
        return self._copies[key]

    def __reduce__(self) -> tuple[Any, ...]:
        return Jacobi, (self.inverse_diagonal,)


def jacobi(op: SparseOperator) -> Jacobi:
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
    """
    if _is_distributed(op):
        from .distributed import solvers

        return solvers.jacobi(op)
    _check_operator(op)
    return jacobi_of(op.tocsr().diagonal(), op.dtype)


def jacobi_of(diagonal: npt.NDArray[Any], dtype: np.dtype[Any], first_row: int = 0) -> Jacobi:
    """The preconditioner of a diagonal, or of a piece of one that begins in row `first_row`."""
    bad = np.flatnonzero(~((diagonal > 0) & np.isfinite(diagonal)))
    if len(bad):
        raise np.linalg.LinAlgError(
            f"the matrix is not positive definite: {len(bad)} of {len(diagonal)} diagonal entries are not "
            f"positive numbers, the first in row {first_row + bad[0]} ({diagonal[bad[0]]:g})"
        )
    return Jacobi((1 / diagonal).astype(dtype))


class _Placed(NamedTuple):
    """A vector on the operator's device."""

    pointer: int
    owner: Any  # kept alive as long as the pointer is used


_NOTHING = _Placed(0, None)


class _Vectors:
    """The vectors of one solve, of the kind that `b` has."""

    def __init__(self, op: SparseOperator, b: Any) -> None:
        library = library_of(b)
        if library is None:
            raise TypeError(f"b must be an array, not {type(b).__name__}")
        self._op, self._library, self._b = op, library, b
        self.stream: int | None = (
            None  # the solve starts after what it holds; None: there is nothing to wait for
        )

    def take(self, name: str, array: Any) -> _Placed:
        """A vector that the caller gave, checked and converted."""
        if isinstance(array, list | tuple) and self._library is NUMPY:
            array = np.asarray(array)
        if library_of(array) is not self._library:
            wanted = "a NumPy array like b" if self._library is NUMPY else "an array of the same library as b"
            raise TypeError(f"{name} must be {wanted}, not {type(array).__name__}")
        array, located = converted_vector(self._op, name, array, self._library)
        if located.host is not None:
            return _place(located.host, self._op._ordinal)
        if name == "b":
            self._like = array, located
        self._wait_for(located)
        return _Placed(located.pointer, (array, located))

    def _wait_for(self, located: Located) -> None:
        stream = self._library.stream(located) if self._op._stream is None else self._op._stream
        if self.stream is not None and stream != self.stream:
            _core.synchronize(self.stream, self._op._ordinal)
        self.stream = stream

    def new(self) -> _Placed:
        """Memory for the result, once `take` has had b."""
        n = self._op.shape[0]
        if self.stream is None:
            self._x: Any = np.empty(n, self._op.dtype)
            self._placed = _place(self._x, self._op._ordinal, upload=False)
        else:
            self._x, pointer = self._library.empty((n,), *self._like)
            self._placed = _Placed(pointer, self._x)
        return self._placed

    def result(self) -> Any:
        """The result for the caller."""
        if self.stream is not None:
            return self._library.deliver(self._x, self._b, self.stream)
        if self._placed.owner is not self._x:
            self._placed.owner.download(self._x)
        return self._library.from_host(self._x, self._b)


def _place(array: npt.NDArray[Any], ordinal: int, upload: bool = True) -> _Placed:
    """A NumPy array where the device can read it: as it is on the CPU, in the GPU's memory otherwise."""
    if ordinal == CPU:
        return _Placed(array.ctypes.data, array)
    memory = _core.DeviceArray(array.shape, array.dtype.itemsize, ordinal)
    if upload:
        memory.upload(array)
    return _Placed(memory.pointer, memory)


def _place_numpy(op: SparseOperator, array: npt.NDArray[Any]) -> _Placed:
    return _place(converted_vector(op, "M", array, NUMPY)[1].host, op._ordinal)


def _inverse_diagonal(op: SparseOperator, M: Any, vectors: _Vectors) -> _Placed:
    if isinstance(M, Jacobi):
        return M._on_device(op)
    if isinstance(M, np.ndarray) and (M.ndim == 1 or M.shape == (op.shape[0], 1)):
        return _place_numpy(op, M)
    if isinstance(M, np.ndarray) or library_of(M) is None:
        raise TypeError(
            "M must be spmvgpu.linalg.jacobi(op) or the inverse of a diagonal as a 1-D array, "
            f"not {type(M).__name__}; for other preconditioners use scipy.sparse.linalg.cg(op, b, M=M)"
        )
    return vectors.take("M", M)


def _is_distributed(op: Any) -> bool:
    """Asked without importing what nobody else has: there can be no such operator then."""
    module = sys.modules.get(f"{__package__}.distributed")
    return module is not None and isinstance(op, module.DistributedOperator)


def _check_operator(op: Any) -> None:
    if not isinstance(op, SparseOperator):
        raise TypeError(
            f"op must be a SparseOperator, made by spmvgpu.aslinearoperator, not {type(op).__name__}; "
            "scipy.sparse.linalg.cg takes other operators"
        )
    check_square(op)


def check_square(op: Any) -> None:
    """Refuse, with ValueError, an operator that is no system of equations."""
    if op.shape[0] != op.shape[1]:
        raise ValueError(f"the operator has shape {op.shape}; a system of equations needs a square one")


def check_limits(op: Any, rtol: Any, atol: Any, maxiter: Any, callback: Any) -> tuple[float, float, int]:
    """Both tolerances and the most iterations as numbers; TypeError or ValueError for what is not allowed."""
    limit = 10 * op.shape[0] if maxiter is None else whole_number("maxiter", maxiter, 1)
    relative, absolute = _tolerance("rtol", rtol), _tolerance("atol", atol)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={callback!r} is not allowed; give a function of the iterate, or None")
    return relative, absolute, min(limit, _MOST_ITERATIONS)


def _tolerance(name: str, value: Any) -> float:
    allowed = "a non-negative real number"
    number = real_number(name, value, allowed)
    if number < 0:
        raise ValueError(f"{name}={value!r} is not allowed; give {allowed}")
    return number


def check_status(op: Any, status: str, iterations: int, culprit: float) -> None:
    """Raise LinAlgError for a solve that broke down, with the number that says so."""
    if status == "indefinite":
        advice = "" if op.dtype == np.float64 else ", or so nearly singular that it takes float64"
        raise np.linalg.LinAlgError(
            "the matrix is not positive definite: conjugate gradients broke down in iteration "
            f"{iterations + 1} (p @ A @ p = {culprit:g}){advice}"
        )
    if status == "bad_preconditioner":
        raise np.linalg.LinAlgError(
            f"M is not positive definite: r @ M @ r = {culprit:g} after {iterations} iterations; "
            "the inverse of the diagonal must be positive"
        )
    if status == "not_finite":
        raise np.linalg.LinAlgError(
            f"infinite numbers or NaN after {iterations} iterations: they are in the matrix, b, x0 or M, "
            f"or {op.dtype} overflows, and the system must be scaled"
        )
