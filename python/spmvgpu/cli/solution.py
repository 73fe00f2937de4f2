"""From a solver to a solution: corrected until the true residual is small, reported, judged."""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .output import check_writable, fail, print_line, replacing

Array = npt.NDArray[Any]

# What to try where a solver finds that a matrix, or a preconditioner, is none for it.
ADVICE = {
    "cg": "try --solver minres, for which it need not be positive definite, or --solver gmres",
    "minres": "try --solver gmres",
    "bicgstab": "try --solver gmres",
    "gmres": "try another --preconditioner",
}


class Solution(NamedTuple):
    """What `refine` found."""

    x: Array
    residual: float
    iterations: int
    exhausted: bool  # all iterations that were allowed are used up
    rounds: int
    solve_seconds: float
    verify_seconds: float


def refine(
    b: Array,
    rtol: float,
    limit: int,
    dtype: np.dtype[Any],
    step: Callable[[Array, float, int, float], tuple[Array, int]],
    multiply: Callable[[Array], Array],
    norm: Callable[..., Any] = np.linalg.norm,
) -> Solution:
    """Run a solver, and again on the true residual as long as that is too large and gets smaller.

    The residual that the solver updates drifts from the true one by rounding: hardly in float64, but in
    float32 long before a usual tolerance. Solving for the correction makes up for it: products in single
    precision, and an answer in double precision.

    Parameters
    ----------
    b : array
    rtol : float
    limit : int
        Most iterations of all runs together.
    dtype : dtype
        What the solver computes in.
    step : callable
        ``step(right, rtol, limit, relative)`` gives a solution and its iterations; `relative` is the norm of
        the residual before, relative to that of `b`.
    multiply : callable
        The product with the matrix in double precision.
    norm : callable
        ``norm(v)``, and ``norm(v, np.inf)``.
    """
    size = float(norm(b, np.inf)) or 1.0  # without it the norm of very large or small b over- or underflows
    b = b / size
    norm_b = float(norm(b))
    double = np.result_type(dtype, np.float64)
    x, residual = np.zeros(len(b), double), b
    rounds, iterations, solve_seconds, verify_seconds = 0, 0, 0.0, 0.0
    relative = previous = 1.0 if norm_b else 0.0
    reachable = 32 * float(np.finfo(dtype).eps)
    while relative > rtol and iterations < limit and (rounds == 0 or relative <= 0.5 * previous):
        start = perf_counter()
        scale = float(norm(residual))
        goal = max(rtol / relative, reachable)
        correction, taken = step((residual / scale).astype(dtype), goal, limit - iterations, relative)
        solved = perf_counter()
        x += scale * correction.astype(double)
        residual = b - multiply(x)
        previous, relative = relative, float(norm(residual)) / norm_b
        iterations += taken
        solve_seconds += solved - start
        verify_seconds += perf_counter() - solved
        rounds += 1
    exhausted = iterations >= limit
    return Solution(size * x, relative, iterations, exhausted, rounds, solve_seconds, verify_seconds)


def broken_down(title: str, why: object, solver: str) -> ValueError:
    """What is said of a solver that cannot go on."""
    return ValueError(f"{title}: {why}; {ADVICE[solver]}")


def check_output(output: Path | None) -> None:
    """Refuse, with ValueError, to write the solution where nothing can be written."""
    if output is None:
        return
    if output.suffix != ".npy":
        raise ValueError(f"{output}: the solution goes to a .npy file; give a name that ends in .npy")
    check_writable(output)


def write_solution(output: Path, x: Array) -> None:
    """Write it whole or not at all."""
    content = io.BytesIO()
    np.save(content, x)  # to a file itself NumPy would write without saying what went wrong
    with replacing(output) as file:
        file.write_bytes(content.getvalue())


def report(
    solution: Solution,
    before: dict[str, float],
    verified: str,
    args: argparse.Namespace,
    dtype: np.dtype[Any],
) -> int:
    """Print how the solve went, and how long it and what was before it took; return the exit code."""
    print_line("seconds", "")
    times = {**before, "solve": solution.solve_seconds, "verify": solution.verify_seconds}
    for name, seconds in times.items():
        print_line(f"  {name}", f"{seconds:.3f}")
    again = f", started {solution.rounds} times" if solution.rounds > 1 else ""
    print_line(
        "iterations", f"{solution.iterations} ({args.solver}, preconditioner: {args.preconditioner}{again})"
    )
    print_line("residual", f"{solution.residual:.2e} = ||b - A x|| / ||b||, {verified}")
    if args.output:
        print_line("written", str(args.output))
    return _verdict(solution, args.rtol, dtype)


def _verdict(solution: Solution, rtol: float, dtype: np.dtype[Any]) -> int:
    if solution.residual <= rtol:
        print_line("converged", f"yes, to rtol {rtol:g}")
        return 0
    found = f"not converged: the residual is {solution.residual:.2e}, not {rtol:g}"
    if solution.exhausted:
        return fail(f"{found}; raise --maxiter or --rtol", 1)
    double = np.result_type(dtype, np.float64)
    advice = f"try --dtype {double} or a larger --rtol" if dtype != double else "the matrix may be singular"
    return fail(f"{found}, and {dtype} does not get closer; {advice}", 1)
