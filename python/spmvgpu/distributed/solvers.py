"""Conjugate gradients on the pieces of vectors that ranks have; `spmvgpu.linalg.cg` calls it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arrays import library_of
from ..linalg.preconditioners import Jacobi
from ..linalg.stopping import check_limits, info_of
from ..linalg.vectors import check_square
from .errors import agreement, check_same, raise_together
from .operator import DistributedOperator
from .pieces import vector
from .staging import Staging, staging_of


def cg(
    op: DistributedOperator,
    b: Any,
    x0: Any,
    *,
    rtol: Any,
    atol: Any,
    maxiter: Any,
    M: Any,
    callback: Callable[[Any], object] | None,
) -> tuple[Any, int]:
    """See `spmvgpu.linalg.cg`. What one rank's arguments or callback raise, all ranks raise."""
    comm = op.comm
    with agreement(comm):
        check_square(op)
        if op.row_ranges != op.col_ranges:
            raise ValueError("rows and columns are not divided alike, so x would not be as b is")
        relative, absolute, limit = check_limits(op, rtol, atol, maxiter, callback)
        right = vector(op, "b", b)
        guess = None if x0 is None else vector(op, "x0", x0, right)
        inverse = None if M is None else _inverse_diagonal(op, M, right)
    check_same(
        comm, rtol=relative, atol=absolute, maxiter=limit, x0=x0 is not None, M=M is not None
    )  # or ranks would go different ways
    library: Any = library_of(right if isinstance(b, list | tuple) else b)
    staging = staging_of(right)
    x = staging.zeros(right)

    def deliver() -> Any:
        return library.from_host(x, b) if isinstance(x, np.ndarray) else x

    def look() -> None:
        if callback is not None:
            callback(deliver())

    status, iterations, value = _iterate(
        op, right, x, guess, inverse, _Sums(comm, staging), relative, absolute, limit, look
    )
    return deliver(), info_of("cg", op.dtype, status, iterations, value, limit)


class _Sums:
    """Inner products over all ranks, with the same bits on each of them, and for as many ranks every time."""

    def __init__(self, comm: Any, staging: Staging) -> None:
        self._comm, self._staging = comm, staging

    def __call__(self, *pairs: tuple[Any, Any], failure: Exception | None = None) -> list[float]:
        """One number for each pair of vectors; raises, on all ranks, if any brings a failure."""
        own = np.array([*(self._staging.dot(*pair) for pair in pairs), float(failure is not None)])
        everywhere = np.empty((self._comm.size, len(own)))
        self._comm.Allgather(own, everywhere)
        *sums, failures = (sum(parts) for parts in everywhere.T.tolist())  # in the order of the ranks
        if failures:
            raise_together(self._comm, failure)
        return sums


def _iterate(
    op: DistributedOperator,
    b: Any,
    x: Any,
    guess: Any,
    inverse: Any,
    sums: _Sums,
    relative: float,
    absolute: float,
    limit: int,
    look: Callable[[], None],
) -> tuple[str, int, float]:
    """Saad, Iterative Methods for Sparse Linear Systems, algorithm 9.1; `x` begins as zero."""
    staging = staging_of(b)
    r, z, q = staging.zeros(b), staging.zeros(b), staging.zeros(b)
    r += b
    if guess is not None:
        x += guess
        r -= op.spmv(x, out=q)
    _precondition(z, inverse, r)
    p = staging.zeros(b)
    p += z
    bb, rr, rho = sums((b, b), (r, r), (r, z))
    if bb == 0:
        x[...] = 0  # whatever the guess
        return "converged", 0, 0.0
    bound = max(relative**2 * bb, absolute**2)
    iterations = 0
    while not (status := _judge(rr, rho, bound, iterations >= limit)):
        op.spmv(p, out=q)
        (curvature,) = sums((p, q))
        if curvature <= 0:
            return "indefinite", iterations, curvature
        alpha = rho / curvature
        if not (0 < alpha < math.inf):
            return "not_finite", iterations, curvature
        staging.add(x, alpha, p)
        staging.add(r, -alpha, q)
        _precondition(z, inverse, r)
        iterations += 1
        rr, new_rho = sums((r, r), (r, z), failure=_outcome(look))
        p *= new_rho / rho
        p += z
        rho = new_rho
    return status, iterations, rho if status == "bad_preconditioner" else rr


def _judge(rr: float, rho: float, bound: float, exhausted: bool) -> str:
    """How the solve ended; empty if it goes on."""
    if not math.isfinite(rr):
        return "not_finite"
    if rr <= bound:
        return "converged"
    if not 0 < rho < math.inf:
        return "bad_preconditioner"
    return "exhausted" if exhausted else ""


def _precondition(z: Any, inverse: Any, r: Any) -> None:
    z[...] = r
    if inverse is not None:
        z *= inverse


def _outcome(look: Callable[[], None]) -> Exception | None:
    """What the callback raises, to be raised where all ranks meet."""
    try:
        look()
    except Exception as error:
        return error
    return None


def _inverse_diagonal(op: DistributedOperator, M: Any, like: Any) -> Any:
    """This rank's piece of a diagonal preconditioner, where `like` lies."""
    if isinstance(M, Jacobi):
        M = M.inverse_diagonal
    if library_of(M) is None:
        raise TypeError(
            "M must be spmvgpu.linalg.jacobi(op), or this rank's piece of the inverse of a diagonal as a 1-D "
            f"array, not {type(M).__name__}"
        )
    piece = vector(op, "M", M)
    return staging_of(like).like(piece, like) if isinstance(piece, np.ndarray) else piece
