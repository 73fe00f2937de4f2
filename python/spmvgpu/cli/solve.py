"""``solve``: conjugate gradients through an operator, checked against SciPy."""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

import spmvgpu as sg

from .output import in_bytes, print_line, progress_bar
from .problem import add_problem_arguments, check_square, load_problem, positive_float, positive_int
from .ranks import launched_ranks
from .solution import check_output, refine, report

Array = npt.NDArray[Any]


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "solve",
        help="solve A x = b with conjugate gradients",
        description="Solve A x = b (A symmetric positive definite) with scipy.sparse.linalg.cg; "
        "over the ranks of mpiexec or srun with spmvgpu.linalg.cg.",
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
    if launched_ranks() > 1:
        from .solve_ranks import run

        return run(args)
    check_output(args.output)
    problem = load_problem(args, args.rhs)
    print_line("problem", problem.title)
    start = perf_counter()
    diagonal = _check_solvable(problem.title, problem.matrix)
    checked = perf_counter() - start
    dtype = None if args.dtype is None else np.dtype(args.dtype)
    op = sg.aslinearoperator(problem.matrix, args.format, args.device, dtype=dtype)
    _describe(op, args.format)
    watch = _Watch(op, 1 / diagonal if args.preconditioner == "jacobi" else None, not args.quiet)

    def step(right: Array, goal: float, most: int, relative: float) -> tuple[Array, int]:
        watch.scale, before = relative, watch.products
        x, _ = cg(watch, right, rtol=goal, maxiter=most, M=watch.preconditioner)
        return x, watch.products - before

    try:
        solution = refine(
            problem.rhs, args.rtol, args.maxiter or 10 * op.shape[0], op.dtype, step, problem.matrix.dot
        )
    finally:
        watch.progress.close()
    if args.output:
        np.save(args.output, solution.x)
    before = {
        "assemble" if args.matrix is None else "read": problem.seconds,
        "check": checked,
        "convert": op.setup_seconds["convert"],
        "transfer": op.setup_seconds["transfer"],
    }
    return report(solution, before, "computed by SciPy from the matrix", args, op.dtype)


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
        self.progress = progress_bar(unit=" iterations", disable=not show)
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
