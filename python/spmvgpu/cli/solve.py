"""``solve``: conjugate gradients through an operator, checked against SciPy."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

import spmvgpu as sg

from .output import fail, in_bytes, print_line, progress_bar
from .problem import (
    add_problem_arguments,
    check_square,
    load_problem,
    positive_float,
    positive_int,
)

Array = npt.NDArray[Any]

# Between two looks at the progress, and before the first: what takes less time shows none.
_SECONDS_ON_TERMINAL, _SECONDS_ELSEWHERE = 0.1, 5.0


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "solve",
        help="solve A x = b with conjugate gradients",
        description="Solve A x = b (A symmetric positive definite) with scipy.sparse.linalg.cg.",
    )
    add_problem_arguments(parser)
    parser.add_argument("--rhs", metavar="b.mtx", help=".mtx, .mtx.gz or .npy (default: all ones)")
    parser.add_argument(
        "--format", default="auto", help=f"auto or one of {', '.join(sg.formats())} (default: auto)"
    )
    parser.add_argument(
        "--rtol", type=positive_float, default=1e-8, help="||b - A x|| / ||b|| to reach (default: 1e-8)"
    )
    parser.add_argument("--maxiter", type=positive_int, help="most iterations (default: 10 times the rows)")
    parser.add_argument(
        "--preconditioner", choices=("jacobi", "none"), default="jacobi", help="(default: jacobi)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument("-o", "--output", type=Path, metavar="x.npy", help="where to write the solution")
    parser.set_defaults(run=run_solve)


def run_solve(args: argparse.Namespace) -> int:
    if args.output and (args.output.suffix != ".npy" or not args.output.parent.is_dir()):
        raise ValueError(f"{args.output}: the solution goes to a .npy file in a folder that exists")
    problem = load_problem(args, args.rhs)
    print_line("problem", problem.title)
    start = perf_counter()
    diagonal = _check_solvable(problem.title, problem.matrix)
    checked = perf_counter() - start
    dtype = None if args.dtype is None else np.dtype(args.dtype)
    op = sg.aslinearoperator(problem.matrix, args.format, args.device, dtype=dtype)
    _describe(op, args.format)
    watch = _Watch(op, 1 / diagonal if args.preconditioner == "jacobi" else None, not args.quiet)
    try:
        solution = _solve(watch, problem.matrix, problem.rhs, args.rtol, args.maxiter)
    finally:
        watch.progress.close()
    if args.output:
        np.save(args.output, solution.x)

    print_line("seconds", "")
    times = {
        "assemble" if args.matrix is None else "read": problem.seconds,
        "check": checked,
        "convert": op.setup_seconds["convert"],
        "transfer": op.setup_seconds["transfer"],
        "solve": solution.solve_seconds,
        "verify": solution.verify_seconds,
    }
    for name, seconds in times.items():
        print_line(f"  {name}", f"{seconds:.3f}")
    again = f", started {solution.rounds} times" if solution.rounds > 1 else ""
    print_line("iterations", f"{watch.products} (preconditioner: {args.preconditioner}{again})")
    print_line(
        "residual", f"{solution.residual:.2e} = ||b - A x|| / ||b||, computed by SciPy from the matrix"
    )
    if args.output:
        print_line("written", str(args.output))
    return _verdict(solution, args.rtol, op.dtype)


class _Solution(NamedTuple):
    x: Array
    residual: float
    exhausted: bool  # all iterations that were allowed are used up
    rounds: int
    solve_seconds: float
    verify_seconds: float


def _solve(watch: _Watch, matrix: sp.csr_array, b: Array, rtol: float, maxiter: int | None) -> _Solution:
    """Run `cg`, and again on the true residual as long as that is too large and gets smaller.

    The residual that the solver updates drifts from the true one by rounding: hardly in float64, but in
    float32 long before a usual tolerance. Solving for the correction makes up for it: float32 products,
    float64 answer.
    """
    size = float(np.abs(b).max()) or 1.0  # without it the norm of a very large or small b over- or underflows
    b = b / size
    norm_b = float(np.linalg.norm(b))
    x, residual = np.zeros(len(b)), b
    rounds, solve_seconds, verify_seconds = 0, 0.0, 0.0
    relative = previous = 1.0 if norm_b else 0.0
    limit = 10 * len(b) if maxiter is None else maxiter
    reachable = 32 * float(np.finfo(watch.dtype).eps)
    while relative > rtol and watch.products < limit and (rounds == 0 or relative <= 0.5 * previous):
        start = perf_counter()
        norm = float(np.linalg.norm(residual))
        watch.scale = relative
        right = (residual / norm).astype(watch.dtype)
        goal = max(rtol / relative, reachable)
        step, _ = cg(watch, right, rtol=goal, maxiter=limit - watch.products, M=watch.preconditioner)
        solved = perf_counter()
        x += norm * step.astype(np.float64)
        residual = b - matrix @ x
        previous, relative = relative, float(np.linalg.norm(residual)) / norm_b
        solve_seconds += solved - start
        verify_seconds += perf_counter() - solved
        rounds += 1
    return _Solution(size * x, relative, watch.products >= limit, rounds, solve_seconds, verify_seconds)


def _verdict(solution: _Solution, rtol: float, dtype: np.dtype[Any]) -> int:
    if solution.residual <= rtol:
        print_line("converged", f"yes, to rtol {rtol:g}")
        return 0
    found = f"not converged: the residual is {solution.residual:.2e}, not {rtol:g}"
    if solution.exhausted:
        return fail(f"{found}; raise --maxiter or --rtol", 1)
    advice = "try --dtype float64 or a larger --rtol" if dtype == np.float32 else "the matrix may be singular"
    return fail(f"{found}, and {dtype} does not get closer; {advice}", 1)


def _check_solvable(title: str, matrix: sp.csr_array) -> Array:
    """Refuse a matrix whose entries show that it is not symmetric positive definite; return the diagonal."""
    check_square(title, matrix)
    if matrix.shape[0] == 0:
        raise ValueError(f"{title}: the matrix is empty (0 x 0)")
    data = matrix.data
    if not np.isfinite(data).all():
        row, col = _position(matrix, int(np.argmin(np.isfinite(data))))
        raise ValueError(f"{title}: the matrix holds inf or nan, the first at row {row}, column {col}")
    diagonal: Array = matrix.diagonal().astype(np.float64)
    bad = np.flatnonzero(~(diagonal > 0))
    if len(bad):
        hint = " (all of the diagonal is negative: solve with -A and -b)" if (diagonal < 0).all() else ""
        raise ValueError(
            f"{title}: the matrix is not positive definite: {len(bad)} of {len(diagonal)} diagonal entries "
            f"are zero or negative, the first in row {bad[0]} ({diagonal[bad[0]]:g}){hint}"
        )
    _check_symmetric(title, matrix)
    return diagonal


def _check_symmetric(title: str, matrix: sp.csr_array) -> None:
    """Compare with the transpose, entry by entry; differences of the size of rounding errors are let pass."""
    transposed = matrix.T.tocsr()
    if np.array_equal(matrix.indptr, transposed.indptr) and np.array_equal(
        matrix.indices, transposed.indices
    ):
        difference = sp.csr_array(
            (matrix.data - transposed.data, matrix.indices, matrix.indptr), shape=matrix.shape
        )
    else:
        difference = matrix - transposed
    allowed = 1e-10 * float(np.abs(matrix.data).max())
    largest = int(np.argmax(np.abs(difference.data))) if difference.nnz else 0
    if difference.nnz and abs(difference.data[largest]) > allowed:
        row, col = _position(difference, largest)
        one_triangle = not (sp.tril(matrix, -1).nnz and sp.triu(matrix, 1).nnz)
        advice = (
            "; if the file stores one triangle only, pass --symmetric lower or upper" if one_triangle else ""
        )
        raise ValueError(
            f"{title}: the matrix is not symmetric: A[{row}, {col}] = {matrix[row, col]:g}, but "
            f"A[{col}, {row}] = {matrix[col, row]:g}; conjugate gradients need a symmetric matrix{advice}"
        )


def _position(matrix: sp.csr_array, position: int) -> tuple[int, int]:
    """Row and column of a stored entry."""
    row = int(np.searchsorted(matrix.indptr, position, side="right")) - 1
    return row, int(matrix.indices[position])


class _Watch(LinearOperator):  # type: ignore[misc]
    """The operator as the solver sees it: counts products, shows progress, stops on a matrix that is not SPD.

    SciPy's `cg` passes neither the residual nor the curvature to its callback, but it hands the first to the
    preconditioner and the second can be formed from each product.
    """

    def __init__(self, op: sg.SparseOperator, inverse_diagonal: Array | None, show: bool) -> None:
        super().__init__(op.dtype, op.shape)
        self.op = op
        self.products = 0
        self.scale = 1.0  # ||b|| of the running solve over ||b|| of the whole
        self.inverse_diagonal = None if inverse_diagonal is None else inverse_diagonal.astype(op.dtype)
        # On a terminal the bar is rewritten in place, elsewhere every line of it stays.
        seconds = _SECONDS_ON_TERMINAL if sys.stderr.isatty() else _SECONDS_ELSEWHERE
        self.progress = progress_bar(unit=" iterations", mininterval=seconds, delay=seconds, disable=not show)
        self.preconditioner = LinearOperator(op.shape, matvec=self._precondition, dtype=op.dtype)

    def _matvec(self, x: Array) -> Array:
        y: Array = self.op.matvec(x)
        self.products += 1
        curvature = float(np.dot(x, y))
        if not 0 < curvature < np.inf:  # in float32 it may have under- or overflown
            curvature = float(np.dot(x.astype(np.float64), y.astype(np.float64)))
        if not np.isfinite(curvature):
            raise ValueError(f"{self.dtype} overflows in iteration {self.products}: scale the matrix and b")
        if curvature <= 0:
            advice = (
                "" if self.dtype == np.float64 else ", or so nearly singular that it takes --dtype float64"
            )
            raise ValueError(
                "the matrix is not positive definite: conjugate gradients broke down in iteration "
                f"{self.products} (p @ A @ p = {curvature:g}){advice}"
            )
        return y

    def _precondition(self, residual: Array) -> Array:
        if self.progress.update():  # and so it was shown
            relative = float(np.linalg.norm(residual)) * self.scale
            self.progress.set_postfix_str(f"relative residual {relative:.2e}")
        return residual if self.inverse_diagonal is None else self.inverse_diagonal * residual


def _describe(op: sg.SparseOperator, asked: str) -> None:
    model = next((device.model for device in sg.devices() if device.name == op.device), "")
    print_line("matrix", f"{op.shape[0]} x {op.shape[1]}, {op.nnz} non-zeros, {op.dtype}")
    print_line("device", f"{op.device} ({model})" if model else op.device)
    print_line("format", f"{op.format} (chosen automatically)" if asked == "auto" else op.format)
    print_line("bytes", f"{op.nbytes} ({in_bytes(op.nbytes)})")
