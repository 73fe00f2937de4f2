"""``eigsh``: eigenvalues of a symmetric or Hermitian matrix from a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.sparse.linalg import ArpackNoConvergence

import spmvgpu as sg

from .._util.progress import waiting
from ..linalg.named import NAMES
from ..linalg.problem import DoubleSystem
from .arguments import add_quiet, positive_float, positive_int
from .output import Fields, Report, fail
from .problem import (
    MATRIX_FIELDS,
    add_problem_arguments,
    check_square,
    load_problem,
    reading,
    tell_matrix,
    tell_operator,
)
from .task import check_output, write_solution

HELP = "find eigenvalues and eigenvectors of a symmetric or Hermitian matrix"
DESCRIPTION = """\
Find some eigenvalues of a symmetric or Hermitian matrix with spmvgpu.linalg.eigsh, and check the residuals of
their eigenvectors with SciPy."""

FIELDS: Fields = {
    **MATRIX_FIELDS,
    "device": ("string", "device of the operator"),
    "format": ("string", "storage format"),
    "bytes": ("integer", "memory of the operator"),
    "seconds.input": ("number", "reading or assembling"),
    "seconds.solve": ("number", "finding the eigenvalues and eigenvectors"),
    "eigenvalues": ("array", "numbers in ascending order"),
    "residuals": ("array", "norms of A v - w v for the eigenvalues w and eigenvectors v of norm 1"),
    "converged": ("boolean", "whether as many were found as were asked for"),
    "output": ("string or null", "file with the eigenvectors"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_problem_arguments(parser)
    add("-k", type=positive_int, metavar="N", default=6, help="number of eigenvalues (default: 6)")
    add(
        "--which",
        choices=("LM", "SM", "LA", "SA", "BE"),
        default="LM",
        help="LM or SM: the largest or smallest in magnitude; LA or SA: the largest or smallest; BE: half "
        "from each end. With --sigma this is about 1 / (w - sigma), of which LM are nearest (default: LM)",
    )
    add("--sigma", type=float, help="find eigenvalues near this number, by solves with A - sigma * I")
    add(
        "--inner",
        choices=("auto", "direct", "cg", "minres"),
        default="auto",
        help="how to solve with A - sigma * I (default: auto)",
    )
    add("--preconditioner", choices=NAMES, help="of the inner solver")
    add("--tol", type=positive_float, default=0.0, help="relative accuracy (default: as the data type)")
    add("--maxiter", type=positive_int, metavar="N", help="most restarts (default: 10 times the rows)")
    add_quiet(parser)
    add("-o", "--output", type=Path, metavar="FILE", help="write the eigenvectors to FILE (.npy or .mtx)")


def run(args: argparse.Namespace) -> int:
    check_output(args.output)
    with reading(args):
        title, matrix, b, seconds = load_problem(args)
    check_square(title, matrix)
    system = DoubleSystem(matrix, b, None, args.device, dtype=np.dtype(args.dtype or matrix.dtype))
    if not system.is_hermitian:
        raise ValueError(f"{title}: the matrix is not {system.kind}, and eigsh is for {system.kind} ones")
    report = Report(args.json)
    tell_matrix(report, title, system.op)
    tell_operator(report, system.op, " (chosen automatically)")
    start, converged = perf_counter(), True
    try:
        with waiting("eigsh", args.quiet):
            options = {"which": args.which, "sigma": args.sigma, "tol": args.tol, "maxiter": args.maxiter}
            options |= {"inner": args.inner, "preconditioner": args.preconditioner}
            w, v = sg.linalg.eigsh(system.op, args.k, **options)
    except ArpackNoConvergence as found:
        w, v, converged = found.eigenvalues, found.eigenvectors, False
    solved = perf_counter() - start
    residuals = np.linalg.norm(matrix @ v - v * w, axis=0)
    report.text(f"{'seconds':<14} {solved:.3f}")
    report.text(f"{'eigenvalue':>24} {'||A v - w v||':>14}")
    for value, residual in zip(w, residuals, strict=True):
        report.text(f"{value:>24.12g} {residual:>14.2e}")
    if args.output:
        write_solution(args.output, v)
        report.line("written", str(args.output))
    report.finish(
        seconds={"input": seconds, "solve": solved},
        eigenvalues=w.tolist(),
        residuals=residuals.tolist(),
        converged=converged,
        output=args.output,
    )
    what = f"not converged: {len(w)} of {args.k} eigenvalues were found; try --maxiter, --tol or --sigma"
    return 0 if converged else fail(what, 1)
