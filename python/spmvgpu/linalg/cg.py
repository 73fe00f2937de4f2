"""Conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _core
from ..spread import MultiDeviceOperator
from .preconditioners import inverse_diagonal
from .stopping import check_limits, check_status
from .vectors import NOTHING, Vectors, check_operator, is_distributed


def cg(
    op: Any,
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
    if is_distributed(op):
        from ..distributed import solvers

        return solvers.cg(op, b, x0, rtol=rtol, atol=atol, maxiter=maxiter, M=M, callback=callback)
    check_operator(op)
    if isinstance(op, MultiDeviceOperator):
        raise TypeError(
            "op is on several devices, and this solver runs on one; scipy.sparse.linalg.cg takes it"
        )
    relative, absolute, limit = check_limits(op, rtol, atol, maxiter, callback)
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
    check_status(op, status, iterations, offending)
    return vectors.result(), 0 if status == "converged" else iterations
