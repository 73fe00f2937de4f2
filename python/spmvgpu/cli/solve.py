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
from scipy.sparse.csgraph import reverse_cuthill_mckee

import spmvgpu as sg
from spmvgpu._core import SolverLimits
from spmvgpu.linalg import SolverWarning, aspreconditioner, block_jacobi, chebyshev, ic0, ilu0
from spmvgpu.linalg.solve import solve as solve_system

from .._util.messages import said
from .advice import OTHER_SOLVER, RESTART, Choice, choose
from .output import Fields, Report, in_bytes
from .problem import (
    MATRIX_FIELDS,
    add_problem_arguments,
    check_square,
    load_problem,
    positive_float,
    positive_int,
    tell_matrix,
)
from .progress import counting, waiting
from .ranks import launched_ranks
from .solution import (
    BrokenDownError,
    Solution,
    check_output,
    first_that_works,
    outcome_of,
    refine,
    tell,
    write_solution,
)

Array = npt.NDArray[Any]

FIELDS: Fields = {
    **MATRIX_FIELDS,
    "ranks": ("integer", "processes of MPI"),
    "device": ("string", "device of the operator; of rank 0 with several ranks"),
    "format": ("string", "storage format; of rank 0 with several ranks"),
    "bytes": ("integer", "memory of the operator, on all ranks"),
    "solver": ("string", "the solver, the last one where another one broke down or diverged"),
    "solver_reason": ("string or null", "why it was chosen; null if `--solver` named it"),
    "preconditioner": ("string", "the preconditioner"),
    "reordered": ("boolean", "whether the rows and columns were reordered, with `--reorder`"),
    "seconds.input": ("number", "reading or assembling; with several ranks also making the operator"),
    "seconds.check": ("number", "checking the matrix, and reordering it"),
    "seconds.convert": ("number or null", "conversion to the format; null with several ranks"),
    "seconds.transfer": ("number or null", "copying to the device; null with several ranks"),
    "seconds.precondition": ("number or null", "making the preconditioner; null with several ranks"),
    "seconds.solve": ("number", "the solver"),
    "seconds.verify": ("number", "computing the true residual"),
    "iterations": ("integer", "iterations of all rounds"),
    "rounds": ("integer", "how often the solver was started, on the true residual"),
    "residual": ("number or null", "norm of b - A x over the norm of b; null if not finite"),
    "rtol": ("number", "the tolerance"),
    "converged": ("boolean", "whether the residual is within the tolerance"),
    "output": ("string or null", "file with the solution"),
    "suggestions[].options": ("string", "options to try, if the solver did not converge"),
    "suggestions[].reason": ("string", "why they may help"),
}

_METHODS = {"cg": "conjugate gradients", "minres": "minimal residuals"}


def add(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "solve",
        help="solve A x = b with an iterative solver",
        description="Solve A x = b with an iterative solver of spmvgpu.linalg, and check the residual with "
        "SciPy. Started by mpiexec or srun, all processes solve together.",
    )
    add_problem_arguments(parser)
    parser.add_argument(
        "--rhs", metavar="FILE", help="right-hand side b: .mtx, .mtx.gz or .npy (default: all ones)"
    )
    parser.add_argument(
        "--format",
        default="auto",
        help=f"storage format: auto, {', '.join(sg.formats())} (default: auto)",
    )
    parser.add_argument(
        "--rtol",
        type=positive_float,
        default=1e-8,
        help="solve until ||b - A x|| <= rtol ||b|| (default: 1e-8)",
    )
    parser.add_argument(
        "--maxiter", type=positive_int, metavar="N", help="most iterations (default: 10 times the rows)"
    )
    parser.add_argument(
        "--solver",
        choices=("auto", *OTHER_SOLVER),
        default="auto",
        help="auto takes cg for a symmetric or Hermitian matrix with a positive diagonal, minres for other "
        "symmetric or Hermitian ones, and bicgstab for all others. If cg breaks down or diverges, minres "
        "goes on; if bicgstab does, gmres (default: auto)",
    )
    parser.add_argument(
        "--restart",
        type=positive_int,
        metavar="N",
        default=RESTART,
        help=f"iterations of gmres between restarts, and vectors that it stores (default: {RESTART})",
    )
    parser.add_argument(
        "--preconditioner",
        choices=("auto", "jacobi", "block-jacobi", "chebyshev", "ic0", "ilu0", "amg", "none"),
        default="auto",
        help="auto is jacobi, or none if the diagonal has zeros; ic0 is for cg and minres, ilu0 for bicgstab "
        "and gmres; amg needs pyamg (default: auto)",
    )
    parser.add_argument(
        "--block", type=positive_int, metavar="N", default=3, help="block size of block-jacobi (default: 3)"
    )
    parser.add_argument(
        "--reorder",
        action="store_true",
        help="solve with the rows and columns in reverse Cuthill-McKee order, which helps ic0 and ilu0 where "
        "entries lie far from the diagonal",
    )
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write the solution to FILE, which ends in .npy"
    )
    parser.set_defaults(run=run_solve)
    return parser


def run_solve(args: argparse.Namespace) -> int:
    if launched_ranks() > 1:
        from .solve_ranks import run

        return run(args)
    check_output(args.output)
    report = Report(args.json)
    with waiting("reading the matrix" if args.matrix else "assembling the matrix", args.quiet):
        problem = load_problem(args, args.rhs)
    title, matrix, b = problem.title, problem.matrix, problem.rhs
    start = perf_counter()
    with waiting("checking the matrix", args.quiet):
        diagonal = _check_solvable(title, matrix)
        if args.preconditioner == "auto":
            args.preconditioner = "jacobi" if (np.abs(diagonal) > 0).all() else "none"
        choice = _choice(args, title, matrix, diagonal)
    order = None
    if args.reorder:
        with waiting("reordering", args.quiet):
            order = reverse_cuthill_mckee(sp.csr_matrix(matrix))
            matrix, b, diagonal = sp.csr_array(matrix[order][:, order]), b[order], diagonal[order]
    checked = perf_counter() - start
    dtype = None if args.dtype is None else np.dtype(args.dtype)
    with waiting("making the operator", args.quiet):
        op = sg.aslinearoperator(matrix, args.format, args.device, dtype=dtype)
    tell_matrix(report, title, op)
    _tell_operator(report, op, args.format)
    report.line("preconditioner", args.preconditioner, preconditioner=args.preconditioner)
    prepared = 0.0

    def attempt(solver: str) -> Solution:
        nonlocal prepared
        start = perf_counter()
        with waiting(f"making the preconditioner {args.preconditioner}", args.quiet):
            M = _checked_preconditioner(args, title, solver, op, matrix, diagonal)
        prepared += perf_counter() - start
        return _solve(args, title, solver, op, b, M, matrix)

    solver, solution = first_that_works(choice, attempt, report)
    if args.output:
        x = solution.x
        if order is not None:
            x = np.empty_like(solution.x)
            x[order] = solution.x
        write_solution(args.output, x)
    before = {
        "input": problem.seconds,
        "check": checked,
        "convert": op.setup_seconds["convert"],
        "transfer": op.setup_seconds["transfer"],
        "precondition": prepared,
    }
    known = {"zero_diagonal": bool((diagonal == 0).any()), "scattered": _is_scattered(matrix)}
    outcome = outcome_of(args, choice, solver, solution, op, **known)
    report.values["reordered"] = args.reorder
    return tell(report, solution, before, "computed by SciPy", args, outcome)


def _solve(
    args: argparse.Namespace,
    title: str,
    solver: str,
    op: sg.SparseOperator,
    b: Array,
    M: Any,
    matrix: sp.csr_array,
) -> Solution:
    """Solve with one solver; BrokenDownError where it cannot go on."""
    with counting(solver, "iterations", quiet=args.quiet) as bar:

        def step(right: Array, goal: float, most: int, relative: float) -> tuple[Array, int]:
            limits = SolverLimits()
            limits.rtol, limits.atol, limits.maxiter = goal, 0.0, most
            limits.legacy, limits.restart = True, min(args.restart, len(right))
            if solver == "minres":  # whose test is beside the norms of the matrix and the solution
                limits.rtol = min(goal, 1e-3) / 100
            done = bar.n

            def watch(iterations: int, residual: float, norm_b: float) -> None:
                bar.set_postfix_str(f"relative residual {residual / norm_b * relative:.2e}", refresh=False)
                bar.update(done + iterations - bar.n)

            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", SolverWarning)
                try:
                    x, info, how = solve_system(solver, op, right, None, M, lambda *_: limits, watch=watch)
                except ValueError as error:
                    raise BrokenDownError(title, error, solver) from error
            if info < 0:
                raise BrokenDownError(title, caught[0].message, solver)
            return x, how.iterations

        limit = args.maxiter or 10 * op.shape[0]
        return refine(b, args.rtol, limit, op.dtype, step, matrix.dot)


def _check_solvable(title: str, matrix: sp.csr_array) -> Array:
    """Refuse a matrix that no solver is for; return the diagonal."""
    check_square(title, matrix)
    if matrix.shape[0] == 0:
        raise ValueError(f"{title}: the matrix is empty (0 x 0)")
    data = matrix.data
    if not np.isfinite(data).all():
        row, col = _position(matrix, int(np.argmin(np.isfinite(data))))
        raise ValueError(f"{title}: the matrix holds inf or nan, the first at row {row}, column {col}")
    diagonal: Array = matrix.diagonal().astype(np.result_type(matrix.dtype, np.float64))
    return diagonal


def _choice(args: argparse.Namespace, title: str, matrix: sp.csr_array, diagonal: Array) -> Choice:
    """The solver that was asked for, if its matrix is one for it, or those to try."""
    kind = "Hermitian" if matrix.dtype.kind == "c" else "symmetric"
    if args.solver == "auto":
        hermitian = _asymmetry(matrix) is None
        positive = bool((diagonal.real > 0).all())
        choice = choose(hermitian, positive, args.preconditioner, kind)
        if not hermitian and _has_one_triangle(matrix):
            hint = f"if the file has one triangle of a {kind} matrix, give --symmetric lower or upper"
            choice = choice._replace(reason=f"{choice.reason}; {hint}")
        return choice
    bad = np.flatnonzero(~(diagonal.real > 0)) if args.solver == "cg" else np.zeros(0, int)
    if len(bad):
        hint = " (all of the diagonal is negative: solve with -A and -b)" if (diagonal.real < 0).all() else ""
        raise ValueError(
            f"{title}: the matrix is not positive definite: {len(bad)} of {len(diagonal)} diagonal entries "
            f"are zero or negative, the first in row {bad[0]} ({diagonal[bad[0]]:g}){hint}; "
            f"{OTHER_SOLVER['cg']}"
        )
    if args.solver in _METHODS and (found := _asymmetry(matrix)) is not None:
        one = _has_one_triangle(matrix)
        advice = ", and --symmetric lower or upper if the file has one triangle only" if one else ""
        raise ValueError(
            f"{title}: the matrix is not {kind}: {_contradiction(matrix, *found)}; {_METHODS[args.solver]} "
            f"need a {kind} one: try --solver bicgstab or gmres{advice}"
        )
    return Choice((args.solver,))


def _has_one_triangle(matrix: sp.csr_array) -> bool:
    return not (sp.tril(matrix, -1).nnz and sp.triu(matrix, 1).nnz)


def _asymmetry(matrix: sp.csr_array) -> tuple[int, int] | None:
    """Where a matrix differs most from its transpose; None if by rounding errors at most."""
    transposed = matrix.conj().T.tocsr()
    if np.array_equal(matrix.indptr, transposed.indptr) and np.array_equal(
        matrix.indices, transposed.indices
    ):
        difference = sp.csr_array(
            (matrix.data - transposed.data, matrix.indices, matrix.indptr), shape=matrix.shape
        )
    else:
        difference = matrix - transposed
    if not difference.nnz:
        return None
    allowed = 1e-10 * float(np.abs(matrix.data).max())
    largest = int(np.argmax(np.abs(difference.data)))
    return _position(difference, largest) if abs(difference.data[largest]) > allowed else None


def _contradiction(matrix: sp.csr_array, row: int, col: int) -> str:
    """Which two entries are not those of a symmetric or Hermitian matrix, in digits that show it."""
    value, found = matrix[row, col], matrix[col, row]
    if row == col:
        return f"A[{row}, {col}] = {value:g}, which must be real"
    expected = value.conjugate()
    digits = "g" if f"{expected:g}" != f"{found:g}" else ".17g"
    text = f"A[{row}, {col}] = {value:{digits}}, but A[{col}, {row}] = {found:{digits}}"
    return text + (f" and not {expected:{digits}}" if matrix.dtype.kind == "c" else "")


def _is_scattered(matrix: sp.csr_array) -> bool:
    """Whether entries lie further from the diagonal, in the mean, than a tenth of the rows."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return bool(matrix.nnz and np.abs(rows - matrix.indices).mean() > 0.1 * matrix.shape[0])


def _position(matrix: sp.csr_array, position: int) -> tuple[int, int]:
    """Row and column of a stored entry."""
    row = int(np.searchsorted(matrix.indptr, position, side="right")) - 1
    return row, int(matrix.indices[position])


def _checked_preconditioner(
    args: argparse.Namespace,
    title: str,
    solver: str,
    op: sg.SparseOperator,
    matrix: sp.csr_array,
    diagonal: Array,
) -> Any:
    try:
        return _preconditioner(args, solver, op, matrix, diagonal)
    except (ArithmeticError, TypeError, ValueError, np.linalg.LinAlgError) as error:
        raise ValueError(
            f"{title}: --preconditioner {args.preconditioner}: {said(error)}; "
            "try another --preconditioner, with --solver gmres where the matrix is not positive definite"
        ) from error


def _preconditioner(
    args: argparse.Namespace, solver: str, op: sg.SparseOperator, matrix: sp.csr_array, diagonal: Array
) -> Any:
    """What `--preconditioner` asks for, as solvers take it."""
    if args.preconditioner == "jacobi":
        if not (np.abs(diagonal) > 0).all():
            raise ValueError("the diagonal has zeros")
        return 1 / (np.abs(diagonal) if solver in _METHODS else diagonal)
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
            raise ValueError("it needs pyamg: pip install pyamg") from None
        hierarchy = pyamg.smoothed_aggregation_solver(sp.csr_matrix(matrix))
        return aspreconditioner(hierarchy, device=op.device, dtype=op.dtype)
    return None


def _tell_operator(report: Report, op: sg.SparseOperator, asked: str) -> None:
    model = next((device.model for device in sg.devices() if device.name == op.device), "")
    report.line("device", f"{op.device} ({model})" if model else op.device, ranks=1, device=op.device)
    chosen = f"{op.format} (chosen automatically)" if asked == "auto" else op.format
    report.line("format", chosen, format=op.format)
    report.line("memory", in_bytes(op.nbytes), bytes=op.nbytes)
