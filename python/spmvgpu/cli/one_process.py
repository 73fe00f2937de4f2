"""A system that one process solves: its matrix is checked entry by entry, its solution with SciPy."""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

import spmvgpu as sg
from spmvgpu.linalg.by_factors import contradiction
from spmvgpu.linalg.choice import dominance
from spmvgpu.linalg.preconditioners import diagonal_of, empty_rows

from .._util.types import HostArray
from .advice import Outcome
from .output import Report, in_bytes
from .problem import check_square, load_problem, reading
from .progress import waiting
from .solution import System, write_solution


class OneProcess(System):
    """See `System`."""

    op: sg.SparseOperator
    verified = "computed by SciPy"

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        with reading(args):
            problem = load_problem(args, args.rhs)
        self.title, self.matrix, self.b = problem.title, problem.matrix, problem.rhs
        self._order: HostArray | None = None
        self._start = perf_counter()
        self.seconds = self.seconds._replace(input=problem.seconds)
        with waiting("checking the matrix", args.quiet):
            self.kind = "Hermitian" if self.matrix.dtype.kind == "c" else "symmetric"
            self.diagonal = self._checked_diagonal()

    def _checked_diagonal(self) -> HostArray:
        """Refuse a matrix that no solver is for; return the diagonal that preconditioners invert."""
        matrix = self.matrix
        check_square(self.title, matrix)
        if matrix.shape[0] == 0:
            raise ValueError(f"{self.title}: the matrix is empty (0 x 0)")
        if not np.isfinite(matrix.data).all():
            row, col = _position(matrix, int(np.argmin(np.isfinite(matrix.data))))
            raise ValueError(
                f"{self.title}: the matrix holds inf or nan, the first at row {row}, column {col}"
            )
        if why := contradiction(np.flatnonzero(empty_rows(matrix)), self.b, self.args.rtol, 0.0):
            raise ValueError(f"{self.title}: there is no solution: {why}")
        diagonal: HostArray = diagonal_of(matrix).astype(np.result_type(matrix.dtype, np.float64))
        return diagonal

    def build(self) -> None:
        args = self.args
        if args.reorder:
            with waiting("reordering", args.quiet):
                order = reverse_cuthill_mckee(sp.csr_matrix(self.matrix))
                self.matrix = sp.csr_array(self.matrix[order][:, order])
                self.b, self.diagonal, self._order = self.b[order], self.diagonal[order], order
        checked = perf_counter() - self._start
        dtype = None if args.dtype is None else np.dtype(args.dtype)
        with waiting("making the operator", args.quiet):
            self.op = sg.aslinearoperator(self.matrix, args.format, args.device, dtype=dtype)
        steps = {name: self.op.setup_seconds[name] for name in ("convert", "transfer")}
        self.seconds = self.seconds._replace(check=checked, precondition=0.0, **steps)

    def asymmetry(self) -> str | None:
        found = _asymmetry(self.matrix)
        return None if found is None else _contradiction(self.matrix, *found)

    def dominance(self) -> float:
        return dominance(self.matrix, self.diagonal)

    def has_one_triangle(self) -> bool:
        return not (sp.tril(self.matrix, -1).nnz and sp.triu(self.matrix, 1).nnz)

    def multiply(self, x: HostArray) -> HostArray:
        product: HostArray = self.matrix.dot(x)
        return product

    def norm(self, v: HostArray, order: float | None = None) -> float:
        return float(np.linalg.norm(v, order))

    def write(self, x: HostArray) -> None:
        if self._order is not None:
            ordered, x = x, np.empty_like(x)
            x[self._order] = ordered
        write_solution(self.args.output, x)

    def tell_operator(self, report: Report) -> None:
        op, chosen = self.op, " (chosen automatically)" if self.args.format == "auto" else ""
        model = next((device.model for device in sg.devices() if device.name == op.device), "")
        report.line("device", f"{op.device} ({model})" if model else op.device, ranks=1, device=op.device)
        report.line("format", f"{op.format}{chosen}", format=op.format)
        report.line("memory", in_bytes(op.nbytes), bytes=op.nbytes)

    def described(self, outcome: Outcome) -> Outcome:
        # Entries are scattered if they lie further from the diagonal, in the mean, than a tenth of the rows.
        matrix = self.matrix
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        scattered = matrix.nnz and np.abs(rows - matrix.indices).mean() > 0.1 * matrix.shape[0]
        zero = (self.diagonal == 0).any()
        return outcome._replace(zero_diagonal=bool(zero), scattered=bool(scattered))


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


def _position(matrix: sp.csr_array, position: int) -> tuple[int, int]:
    """Row and column of a stored entry."""
    row = int(np.searchsorted(matrix.indptr, position, side="right")) - 1
    return row, int(matrix.indices[position])
