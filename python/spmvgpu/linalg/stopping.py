"""When solvers stop: what callers may ask for, and what they are told where a method breaks down."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arguments import real_number, whole_number

_MOST_ITERATIONS = 2**31 - 1  # as many as the core counts


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


def check_status(op: Any, status: str, iterations: int, offending: float) -> None:
    """Raise LinAlgError for a solve that broke down, with the number that shows it."""
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
