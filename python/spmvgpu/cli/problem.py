"""The matrix that ``solve`` and ``bench`` work on: read from a file or assembled."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg

from .. import gallery, matrix_io
from .._util.messages import quoted
from .._util.progress import waiting
from .._util.types import DType, HostArray
from .._util.value_types import TYPE_NAMES
from .arguments import add_device, positive_int
from .output import Fields, Report, in_bytes

MATRIX_FIELDS: Fields = {
    "problem": ("string", "the matrix file, or what was assembled"),
    "rows": ("integer", "rows of the matrix"),
    "cols": ("integer", "columns of the matrix"),
    "nnz": ("integer", "stored entries of the matrix"),
    "dtype": ("string", "data type of the product"),
}

_DEFAULT_SIZE = {"elasticity3d": 27, "poisson3d": 64}


class Problem(NamedTuple):
    """A matrix, its right-hand side and where they come from."""

    title: str
    matrix: sp.csr_array
    rhs: HostArray
    seconds: float


def add_problem_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "matrix",
        nargs="?",
        metavar="A.mtx",
        help="matrix file: .mtx, .mtx.gz or .npz (default: see --problem)",
    )
    add(
        "--problem",
        choices=sorted(_DEFAULT_SIZE),
        help="problem to assemble if there is no file (default: elasticity3d)",
    )
    sizes = ", ".join(f"{size} for {name}" for name, size in _DEFAULT_SIZE.items())
    add(
        "--size",
        type=positive_int,
        metavar="N",
        help=f"size of that problem: free nodes along each axis (default: {sizes})",
    )
    add(
        "--symmetric",
        choices=("lower", "upper"),
        help="the file has only this triangle of a symmetric matrix; not needed for .mtx files that declare "
        "it",
    )
    add_device(parser)
    add(
        "--dtype",
        choices=TYPE_NAMES,
        help="data type to convert the values to (default: the type of the matrix)",
    )


def tell_matrix(report: Report, title: str, matrix: Any) -> None:
    """Report a matrix or an operator."""
    rows, cols = matrix.shape
    report.line("problem", title, problem=title)
    size = f"{rows} x {cols}, {matrix.nnz} non-zeros, {matrix.dtype}"
    report.line("matrix", size, rows=rows, cols=cols, nnz=int(matrix.nnz), dtype=str(matrix.dtype))


def tell_operator(report: Report, op: sg.SparseOperator, chosen: str) -> None:
    """Report where the operator of one process is, and how it is stored."""
    model = next((device.model for device in sg.devices() if device.name == op.device), "")
    report.line("device", f"{op.device} ({model})" if model else op.device, device=op.device)
    report.line("format", f"{op.format}{chosen}", format=op.format)
    report.line("memory", in_bytes(op.nbytes), bytes=op.nbytes)


def reading(args: argparse.Namespace) -> AbstractContextManager[None]:
    """Say that the matrix is read or assembled."""
    return waiting("reading the matrix" if args.matrix else "assembling the matrix", args.quiet)


def load_problem(args: argparse.Namespace, rhs: str | None = None) -> Problem:
    if args.matrix is not None and (args.problem or args.size):
        raise ValueError(f"give either a file ({args.matrix}) or --problem and --size, not both")
    if args.matrix is None and (rhs or args.symmetric):
        raise ValueError("--rhs and --symmetric belong to a matrix file, and none is given")
    start = perf_counter()
    if args.matrix is None:
        try:
            title, matrix, b = _assemble(args.problem or "elasticity3d", args.size)
        except MemoryError as error:
            raise MemoryError(f"no memory for --size {args.size}: {error}; give a smaller size") from error
    else:
        title, matrix = args.matrix, matrix_io.read_matrix(args.matrix)
        if matrix.dtype.kind not in "fc":
            matrix = matrix.astype(np.float64)
        if matrix.dtype.kind == "c" and args.dtype in ("float32", "float64"):
            raise ValueError(f"{args.matrix}: the matrix is complex, and --dtype {args.dtype} is not")
        if args.symmetric:
            matrix = _mirror(args.matrix, matrix, args.symmetric)
        b = read_rhs(rhs, args.matrix, matrix.shape[0])
        check_rhs_type(rhs, b, np.dtype(args.dtype or matrix.dtype))
    return Problem(title, matrix, b, perf_counter() - start)


def _assemble(problem: str, size: int | None) -> tuple[str, sp.csr_array, HostArray]:
    n = _DEFAULT_SIZE[problem] if size is None else size
    if problem == "elasticity3d":
        title = f"linear elasticity, {n} x {n} x {n} free nodes, trilinear hexahedra"
        return title, gallery.elasticity3d(n), gallery.elasticity3d_load(n)
    matrix = gallery.poisson3d(n)
    return f"Poisson equation, {n} x {n} x {n} points, 7-point stencil", matrix, np.ones(matrix.shape[0])


def _mirror(path: str, matrix: sp.csr_array, stored: str) -> sp.csr_array:
    check_square(path, matrix)
    triangle, other = (sp.tril, sp.triu) if stored == "lower" else (sp.triu, sp.tril)
    beyond = 1 if stored == "lower" else -1
    if other(matrix, beyond).nnz:
        raise ValueError(
            f"{path}: --symmetric {stored} was given, but there are entries beyond that triangle; leave it "
            "out for a matrix that is stored in full"
        )
    return sp.csr_array(matrix + triangle(matrix, -beyond).T)


def read_rhs(path: str | None, matrix_path: str, rows: int) -> HostArray:
    """The right-hand side, of ones if there is no file."""
    if path is None:
        return np.ones(rows)
    b = matrix_io.read_vector(path)
    if b.dtype.kind not in "buifc":
        raise ValueError(f"{path}: the right-hand side is of type {quoted(str(b.dtype))}; give numbers")
    if b.shape != (rows,):
        raise ValueError(
            f"{path}: the right-hand side has {len(b)} entries, but {matrix_path} has {rows} rows"
        )
    if not np.isfinite(b).all():
        raise ValueError(
            f"{path}: entry {int(np.argmin(np.isfinite(b)))} of the right-hand side is not finite"
        )
    return b.astype(np.complex128 if b.dtype.kind == "c" else np.float64)


def check_rhs_type(path: str | None, b: HostArray, dtype: DType) -> None:
    if b.dtype.kind == "c" and dtype.kind != "c":
        raise ValueError(f"{path}: the right-hand side is complex; add --dtype complex128")


def check_square(title: str, matrix: Any, other: str = "") -> None:
    rows, cols = matrix.shape
    if rows != cols:
        raise ValueError(f"{title}: the matrix is rectangular ({rows} x {cols}); give a square one{other}")
