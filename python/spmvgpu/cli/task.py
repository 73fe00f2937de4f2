"""What ``solve`` works on: a system that is read, checked and put on its device."""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from .._util.progress import waiting
from .._util.types import HostArray
from ..linalg.diagonals import diagonal_of, empty_rows
from ..linalg.direct import device_for_factors
from ..linalg.factors import contradiction
from ..linalg.named import SYMMETRIC_SOLVERS
from ..linalg.problem import DoubleSystem
from .advice import OTHER_SOLVER
from .output import check_writable, replacing
from .problem import check_square, load_problem, reading

LEAST_SQUARES = ("lsqr", "lsmr")
_METHODS = {"cg": "conjugate gradients", "minres": "minimal residuals"}


class Task(NamedTuple):
    """A system of equations, or this rank's piece of one.

    Attributes
    ----------
    title : str
    problem : DoubleSystem
    matrix : csr_array or None
        Of one process.
    seconds : dict
        So far.
    is_first : bool
        Whether this process prints.
    whole : callable
        Makes the solution in the order of the file of what is solved for; None on other ranks than the first.
    """

    title: str
    problem: DoubleSystem
    matrix: sp.csr_array | None
    seconds: dict[str, float]
    is_first: bool
    whole: Callable[[HostArray], HostArray | None]

    def facts(self) -> dict[str, Any]:
        """What advice depends on."""
        A = self.matrix
        if A is None:
            return {}
        # Entries are scattered if they lie further from the diagonal, in the mean, than a tenth of the rows.
        rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        scattered = A.nnz and np.abs(rows - A.indices).mean() > 0.1 * A.shape[0]
        return {"zero_diagonal": not diagonal_of(A).all(), "scattered": bool(scattered)}


def read_task(args: argparse.Namespace) -> Task:
    """The system of one process."""
    check_output(args.output)
    with reading(args):
        title, matrix, b, seconds = load_problem(args, args.rhs)
    start, order = perf_counter(), slice(None)
    with waiting("checking the matrix", args.quiet):
        _check(title, matrix, b, args.rtol)
    if args.reorder:
        with waiting("reordering", args.quiet):
            order = reverse_cuthill_mckee(sp.csr_matrix(matrix))
            matrix, b = sp.csr_array(matrix[order][:, order]), b[order]
    checked = perf_counter() - start
    device = device_for_factors(args.device) if args.solver == "direct" else args.device
    problem = DoubleSystem(matrix, b, None, device, args.format, np.dtype(args.dtype or matrix.dtype))
    with waiting("making the operator", args.quiet):
        setup = problem.op.setup_seconds
    times = {"input": seconds, "check": checked, "convert": setup["convert"], "transfer": setup["transfer"]}

    def in_order(x: HostArray) -> HostArray:
        whole = np.empty_like(x)
        whole[order] = x
        return whole

    return Task(title, problem, matrix, times, True, in_order)


def _check(title: str, matrix: sp.csr_array, b: HostArray, rtol: float) -> None:
    """Refuse, with ValueError, a system that no solver is for."""
    check_square(title, matrix, ", or --solver lsmr")
    if matrix.shape[0] == 0:
        raise ValueError(f"{title}: the matrix is empty (0 x 0)")
    bad = ~np.isfinite(matrix.data)
    if bad.any():
        row, col = (index[bad][0] for index in matrix.tocoo().coords)
        raise ValueError(f"{title}: the matrix holds inf or nan, the first at row {row}, column {col}")
    if why := contradiction(np.flatnonzero(empty_rows(matrix)), b, rtol, 0.0):
        raise ValueError(f"{title}: there is no solution: {why}")


def check_solver(task: Task, solver: str, hint: str) -> None:
    """Refuse, with ValueError, a matrix that the solver that was asked for does not suit."""
    problem, kind = task.problem, task.problem.kind
    if solver == "cg" and not problem.has_positive_diagonal:
        with problem.agreement():
            _check_positive(task)
    if solver in SYMMETRIC_SOLVERS and not problem.is_hermitian:
        found = "" if task.matrix is None else f": {_asymmetry(task.matrix)}"
        raise ValueError(
            f"{task.title}: the matrix is not {kind}{found}; {_METHODS[solver]} need a {kind} one: "
            f"try --solver bicgstab or gmres{f', and {hint}' if hint else ''}"
        )


def _check_positive(task: Task) -> None:
    diagonal = diagonal_of(task.problem.op if task.matrix is None else task.matrix)
    bad = np.flatnonzero(~(diagonal.real > 0))
    if len(bad):
        first = bad[0] + (task.problem.op.row_ranges.begin if task.matrix is None else 0)
        is_negative = (diagonal.real < 0).all()
        hint = " (all of the diagonal is negative: solve with -A and -b)" if is_negative else ""
        raise ValueError(
            f"{task.title}: the matrix is not positive definite: {len(bad)} of {len(diagonal)} diagonal "
            f"entries are zero or negative, the first in row {first} "
            f"({diagonal[bad[0]]:g}){hint}; {OTHER_SOLVER['cg']}"
        )


def _asymmetry(matrix: sp.csr_array) -> str:
    """Which two entries are not those of a symmetric or Hermitian matrix, in digits that show it."""
    difference = sp.coo_array(matrix - matrix.conj().T)
    row, col = (index[np.argmax(np.abs(difference.data))] for index in difference.coords)
    value, found = matrix[row, col], matrix[col, row]
    if row == col:
        return f"A[{row}, {col}] = {value:g}, which must be real"
    expected = value.conjugate()
    digits = "g" if f"{expected:g}" != f"{found:g}" else ".17g"
    text = f"A[{row}, {col}] = {value:{digits}}, but A[{col}, {row}] = {found:{digits}}"
    return text + (f" and not {expected:{digits}}" if matrix.dtype.kind == "c" else "")


def check_output(output: Path | None) -> None:
    """Refuse, with ValueError, to write the solution where nothing can be written."""
    if output is None:
        return
    if output.suffix not in (".npy", ".mtx"):
        raise ValueError(f"{output}: results go to a .npy or .mtx file; give a name that ends so")
    check_writable(output)


def write_solution(output: Path, x: HostArray) -> None:
    """Write it whole or not at all."""
    content = io.BytesIO()
    if output.suffix == ".mtx":
        from scipy.io import mmwrite

        mmwrite(content, x.reshape(len(x), -1), symmetry="general")
    else:
        np.save(content, x)  # to a file itself NumPy would write without saying what went wrong
    with replacing(output) as file:
        file.write_bytes(content.getvalue())
