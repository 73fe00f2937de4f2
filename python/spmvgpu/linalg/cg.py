"""Conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from ..arguments import real_number, whole_number
from ..operator import SparseOperator
from ..spread import MultiDeviceOperator
from .preconditioners import inverse_diagonal
from .vectors import NOTHING, Vectors, check_operator

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
    op : SparseOperator
        Made by `aslinearoperator`. That it is symmetric is not checked.
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
    check_operator(op)
    if isinstance(op, MultiDeviceOperator):
        raise TypeError(
            "op is on several devices, and this solver runs on one; scipy.sparse.linalg.cg takes it"
        )
    limit = 10 * op.shape[0] if maxiter is None else whole_number("maxiter", maxiter, 1)
    limit = min(limit, _MOST_ITERATIONS)
    relative, absolute = _tolerance("rtol", rtol), _tolerance("atol", atol)
    if callback is not None and not callable(callback):
        raise TypeError(f"callback={callback!r} is not allowed; give a function of the iterate, or None")
    if isinstance(b, list | tuple):
        b = np.asarray(b)
    vectors = Vectors(op, b)
    right = vectors.take("b", b)
    guess = NOTHING if x0 is None else vectors.take("x0", x0)
    inverse = NOTHING if M is None else inverse_diagonal(op, M, vectors)
    x = vectors.new()
    look = None if callback is None else lambda: callback(vectors.result())
    status, iterations, offending = _core.cg(
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
    _check_status(op, status, iterations, offending)
    return vectors.result(), 0 if status == "converged" else iterations


def _tolerance(name: str, value: Any) -> float:
    allowed = "a non-negative real number"
    number = real_number(name, value, allowed)
    if number < 0:
        raise ValueError(f"{name}={value!r} is not allowed; give {allowed}")
    return number


def _check_status(op: SparseOperator, status: str, iterations: int, offending: float) -> None:
    if status == "indefinite":
        advice = "" if op.dtype == np.float64 else ", or so nearly singular that it takes float64"
        raise np.linalg.LinAlgError(
            "the matrix is not positive definite: conjugate gradients broke down in iteration "
            f"{iterations + 1} (p @ A @ p = {offending:g}){advice}"
        )
    if status == "bad_preconditioner":
        raise np.linalg.LinAlgError(
            f"M is not positive definite: r @ M @ r = {offending:g} after {iterations} iterations; "
            "the inverse of the diagonal must be positive"
        )
    if status == "not_finite":
        raise np.linalg.LinAlgError(
            f"infinite numbers or NaN after {iterations} iterations: they are in the matrix, b, x0 or M, "
            f"or {op.dtype} overflows, and the system must be scaled"
        )
