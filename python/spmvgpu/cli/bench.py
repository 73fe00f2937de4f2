"""``bench``: the product in every format, beside SciPy's."""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg

from .output import in_bytes, print_line
from .problem import add_problem_arguments, load_problem, positive_int


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "bench", help="time the product of every format on one matrix, beside SciPy's"
    )
    add_problem_arguments(parser)
    parser.add_argument("--repeats", type=positive_int, default=50, help="products to time (default: 50)")
    parser.set_defaults(run=run_bench)


def run_bench(args: argparse.Namespace) -> int:
    problem = load_problem(args)
    matrix = problem.matrix.astype(args.dtype or problem.matrix.dtype)
    print_line("problem", problem.title)
    print_line("matrix", f"{matrix.shape[0]} x {matrix.shape[1]}, {matrix.nnz} non-zeros, {matrix.dtype}")
    reference = _time_scipy(matrix, args.repeats)
    scipy_bytes = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    print(f"\n{'format':<10} {'device':<8} {'us/product':>11} {'to SciPy':>9} {'bytes':>10} {'GB/s':>8}")
    _row("scipy", "cpu", reference, reference, scipy_bytes, matrix)
    for name in sg.formats():
        try:
            op = sg.aslinearoperator(matrix, name, args.device)
        except (sg.FormatError, MemoryError) as error:
            print(f"{name:<10} left out: {error}")
            continue
        _row(name, op.device, op.time_products(args.repeats), reference, op.nbytes, matrix)
    print("\nus/product: repeated products, matrix hot; GB/s: bytes of the format and of both vectors, once.")
    return 0


def _row(name: str, device: str, time_us: float, reference: float, stored: int, matrix: sp.csr_array) -> None:
    speed = (stored + sum(matrix.shape) * matrix.dtype.itemsize) / time_us / 1e3
    ratio = reference / time_us
    print(f"{name:<10} {device:<8} {time_us:>11.2f} {ratio:>8.2f}x {in_bytes(stored):>10} {speed:>8.1f}")


def _time_scipy(matrix: sp.csr_array, repeats: int) -> float:
    """Median microseconds of SciPy's product."""
    x = np.ones(matrix.shape[1], dtype=matrix.dtype)
    times = []
    for _ in range(repeats):
        start = perf_counter()
        matrix @ x
        times.append(perf_counter() - start)
    return 1e6 * float(np.median(times))
