"""``solve``: a Krylov solver on the operator's device, its answer checked with SciPy."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

import spmvgpu as sg
from spmvgpu.linalg import SolverWarning, aspreconditioner, block_jacobi, chebyshev, ic0, ilu0
from spmvgpu.linalg.systems import solve as solve_system

from ..messages import said
from .output import in_bytes, print_line, progress_bar
from .problem import add_problem_arguments, check_square, load_problem, positive_float, positive_int
from .ranks import launched_ranks
from .solution import ADVICE, broken_down, check_output, refine, report, write_solution

Array = npt.NDArray[Any]

_METHODS = {"cg": "conjugate gradients", "minres": "minimal residuals"}


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "solve",
        help="solve A x = b with an iterative solver",
        description="Solve A x = b with a solver of spmvgpu.linalg, on the device of the operator; also over "
        "the ranks of mpiexec or srun.",
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
        "--solver",
        choices=("cg", "minres", "bicgstab", "gmres"),
        default="cg",
        help="cg for symmetric or Hermitian positive definite matrices, minres for symmetric or Hermitian "
        "ones, the others for all (default: cg)",
    )
    parser.add_argument(
        "--preconditioner",
        choices=("jacobi", "block-jacobi", "chebyshev", "ic0", "ilu0", "amg", "none"),
        default="jacobi",
        help="ic0 is for cg and minres, ilu0 for the others; amg takes pyamg (default: jacobi)",
    )
    parser.add_argument(
        "--block", type=positive_int, default=3, help="rows of a block of block-jacobi (default: 3)"
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
    diagonal = _check_solvable(problem.title, problem.matrix, args.solver)
    checked = perf_counter() - start
    dtype = None if args.dtype is None else np.dtype(args.dtype)
    op = sg.aslinearoperator(problem.matrix, args.format, args.device, dtype=dtype)
    _describe(op, args.format)
    start = perf_counter()
    try:
        M = _preconditioner(args, op, problem.matrix, diagonal)
    except (ArithmeticError, TypeError, ValueError, np.linalg.LinAlgError) as error:
        raise ValueError(
            f"{problem.title}: --preconditioner {args.preconditioner}: {said(error)}; "
            "try another --preconditioner, with --solver gmres where the matrix is not positive definite"
        ) from error
    prepared = perf_counter() - start
    progress = progress_bar(unit=" iterations", disable=args.quiet)

    def step(right: Array, goal: float, most: int, relative: float) -> tuple[Array, int]:
        limits = {"rtol": goal, "atol": 0.0, "maxiter": most, "legacy": True, "restart": min(20, len(right))}
        if args.solver == "minres":  # whose test is beside the norms of the matrix and the solution
            limits["rtol"] = min(goal, 1e-3) / 100
        done = progress.n

        def watch(iterations: int, residual: float, norm_b: float) -> None:
            if progress.update(done + iterations - progress.n):  # and so it was shown
                progress.set_postfix_str(f"relative residual {residual / norm_b * relative:.2e}")

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", SolverWarning)
            try:
                x, info, how = solve_system(args.solver, op, right, None, M, lambda *_: limits, watch=watch)
            except ValueError as error:
                raise broken_down(problem.title, error, args.solver) from error
        if info < 0:
            raise broken_down(problem.title, caught[0].message, args.solver)
        return x, how.iterations

    try:
        solution = refine(
            problem.rhs, args.rtol, args.maxiter or 10 * op.shape[0], op.dtype, step, problem.matrix.dot
        )
    finally:
        progress.close()
    if args.output:
        write_solution(args.output, solution.x)
    before = {
        "assemble" if args.matrix is None else "read": problem.seconds,
        "check": checked,
        "convert": op.setup_seconds["convert"],
        "transfer": op.setup_seconds["transfer"],
        "precondition": prepared,
    }
    return report(solution, before, "computed by SciPy from the matrix", args, op.dtype)


def _check_solvable(title: str, matrix: sp.csr_array, solver: str) -> Array:
    """Refuse a matrix whose entries show that it is not one for the solver; return the diagonal."""
    check_square(title, matrix)
    if matrix.shape[0] == 0:
        raise ValueError(f"{title}: the matrix is empty (0 x 0)")
    data = matrix.data
    if not np.isfinite(data).all():
        row, col = _position(matrix, int(np.argmin(np.isfinite(data))))
        raise ValueError(f"{title}: the matrix holds inf or nan, the first at row {row}, column {col}")
    diagonal: Array = matrix.diagonal().astype(np.result_type(matrix.dtype, np.float64))
    bad = np.flatnonzero(~(diagonal.real > 0)) if solver == "cg" else np.zeros(0, int)
    if len(bad):
        hint = " (all of the diagonal is negative: solve with -A and -b)" if (diagonal.real < 0).all() else ""
        raise ValueError(
            f"{title}: the matrix is not positive definite: {len(bad)} of {len(diagonal)} diagonal entries "
            f"are zero or negative, the first in row {bad[0]} ({diagonal[bad[0]]:g}){hint}; {ADVICE['cg']}"
        )
    if solver in ("cg", "minres"):
        _check_symmetric(title, matrix, solver)
    return diagonal


def _check_symmetric(title: str, matrix: sp.csr_array, solver: str) -> None:
    """Compare with the transpose, entry by entry; differences of the size of rounding errors are let pass."""
    transposed = matrix.conj().T.tocsr()
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
        kind = "Hermitian" if matrix.dtype.kind == "c" else "symmetric"
        one_triangle = not (sp.tril(matrix, -1).nnz and sp.triu(matrix, 1).nnz)
        advice = ", and --symmetric lower or upper if the file has one triangle only" if one_triangle else ""
        raise ValueError(
            f"{title}: the matrix is not {kind}: {_contradiction(matrix, row, col)}; {_METHODS[solver]} need "
            f"a {kind} one: try --solver bicgstab or gmres{advice}"
        )


def _contradiction(matrix: sp.csr_array, row: int, col: int) -> str:
    """Which two entries are not those of a symmetric or Hermitian matrix, in digits that show it."""
    value, found = matrix[row, col], matrix[col, row]
    if row == col:
        return f"A[{row}, {col}] = {value:g}, which must be real"
    expected = value.conjugate()
    digits = "g" if f"{expected:g}" != f"{found:g}" else ".17g"
    text = f"A[{row}, {col}] = {value:{digits}}, but A[{col}, {row}] = {found:{digits}}"
    return text + (f" and not {expected:{digits}}" if matrix.dtype.kind == "c" else "")


def _position(matrix: sp.csr_array, position: int) -> tuple[int, int]:
    """Row and column of a stored entry."""
    row = int(np.searchsorted(matrix.indptr, position, side="right")) - 1
    return row, int(matrix.indices[position])


def _preconditioner(args: argparse.Namespace, op: sg.SparseOperator, matrix: Any, diagonal: Array) -> Any:
    """What `--preconditioner` asks for, as solvers take it."""
    if args.preconditioner == "jacobi":
        if not (np.abs(diagonal) > 0).all():
            raise ValueError("the diagonal has zeros")
        return 1 / (np.abs(diagonal) if args.solver in ("cg", "minres") else diagonal)
    if args.preconditioner == "block-jacobi":
        return block_jacobi(op, args.block)
    if args.preconditioner == "chebyshev":
        return chebyshev(op)
    if args.preconditioner in ("ic0", "ilu0"):
        return ic0(op) if args.preconditioner == "ic0" else ilu0(op)
    if args.preconditioner == "amg":
        try:
            import pyamg
        except ImportError:
            raise ValueError("it takes pyamg: pip install pyamg") from None
        hierarchy = pyamg.smoothed_aggregation_solver(sp.csr_matrix(matrix))
        return aspreconditioner(hierarchy, device=op.device, dtype=op.dtype)
    return None


def _describe(op: sg.SparseOperator, asked: str) -> None:
    model = next((device.model for device in sg.devices() if device.name == op.device), "")
    print_line("matrix", f"{op.shape[0]} x {op.shape[1]}, {op.nnz} non-zeros, {op.dtype}")
    print_line("device", f"{op.device} ({model})" if model else op.device)
    print_line("format", f"{op.format} (chosen automatically)" if asked == "auto" else op.format)
    print_line("bytes", f"{op.nbytes} ({in_bytes(op.nbytes)})")
