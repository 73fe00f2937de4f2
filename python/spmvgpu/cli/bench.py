"""``bench``: the product in every format, beside SciPy's."""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Annotated, NamedTuple

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg

from .._util.progress import counting
from .._util.types import Format
from .arguments import add_quiet, positive_int
from .output import Fields, Report, check_writable, fields_of, in_bytes, replacing
from .problem import MATRIX_FIELDS, add_problem_arguments, load_problem, reading, tell_matrix

HELP = "time the product of one matrix in every format, beside SciPy"
DESCRIPTION = """\
Time the product of one matrix in every storage format, in the one that is chosen by default (auto), and with
SciPy. The fastest comes first."""


class _Result(NamedTuple):
    name: Annotated[str, "a format, `auto` for the one that is chosen by default, or `scipy`"]
    format: Annotated[str, "the format behind the name"]
    device: Annotated[str, "the device"]
    time_us: Annotated[float, "median microseconds of a product"]
    speedup: Annotated[float, "time of SciPy over this time"]
    bytes: Annotated[int, "memory of the matrix"]
    bytes_per_second: Annotated[float, "bytes of the matrix and of both vectors, over the time"]

    @property
    def label(self) -> str:
        """The name, and what was chosen."""
        return self.name if self.name != "auto" else f"auto: {self.format}"


class _LeftOut(NamedTuple):
    name: Annotated[str, "a format that cannot hold the matrix"]
    reason: Annotated[str, "why"]


FIELDS: Fields = {
    **MATRIX_FIELDS,
    **fields_of("results[]", _Result),
    **fields_of("left_out[]", _LeftOut),
    "plot": ("string or null", "file with the chart"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_problem_arguments(parser)
    add("--repeats", type=positive_int, metavar="N", default=50, help="products to time (default: 50)")
    add(
        "--plot",
        type=Path,
        metavar="FILE",
        help="draw a bar chart to FILE (.png, .svg, .pdf or another type of matplotlib)",
    )
    add_quiet(parser)


def run(args: argparse.Namespace) -> int:
    if args.plot is not None:
        _check_plot(args.plot)
    report = Report(args.json)
    with reading(args):
        problem = load_problem(args)
        matrix = problem.matrix.astype(args.dtype or problem.matrix.dtype)
    tell_matrix(report, problem.title, matrix)
    results, left_out = _measure(matrix, args)
    report.text()
    report.text(f"{'format':<18} {'device':<8} {'us/product':>11} {'speedup':>8} {'memory':>10} {'GB/s':>7}")
    for result in results:
        speed = result.bytes_per_second / 1e9
        report.text(
            f"{result.label:<18} {result.device:<8} {result.time_us:>11.2f} {result.speedup:>7.2f}x "
            f"{in_bytes(result.bytes):>10} {speed:>7.1f}"
        )
    if left_out:
        report.text("\nleft out")
    for name, reason in left_out:
        report.wrapped(f"  {name:<15}", reason)
    report.text("\nspeedup: over SciPy; GB/s: bytes of the matrix and of both vectors, read or written once")
    if args.plot is not None:
        _plot(args.plot, problem.title, matrix, results)
        report.text(f"chart: {args.plot}")
    report.finish(results=results, left_out=left_out, plot=args.plot)
    return 0


def _measure(matrix: sp.csr_array, args: argparse.Namespace) -> tuple[list[_Result], list[_LeftOut]]:
    """The times, the shortest first, and why some formats have none."""
    scipy_us = _time_scipy(matrix, args.repeats)
    vectors = sum(matrix.shape) * matrix.dtype.itemsize
    left_out: list[_LeftOut] = []

    def result(name: str, format: str, device: str, time_us: float, stored: int) -> _Result:
        speed = (stored + vectors) / time_us * 1e6
        return _Result(name, format, device, time_us, scipy_us / time_us, stored, speed)

    stored = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    results = [result("scipy", "csr", "cpu", scipy_us, stored)]
    names: list[Format] = ["auto", *sg.formats()]
    times: dict[tuple[str, str, int], float] = {}
    with counting("timing", "formats", total=len(names), quiet=args.quiet) as bar:
        for name in names:
            bar.set_postfix_str(name, refresh=False)
            try:
                op = sg.aslinearoperator(matrix, name, args.device)
                # Rows that are stored alike are timed once: noise would put one before the other.
                stored_as = op.format, str(op.options), op.nbytes
                if stored_as not in times:
                    times[stored_as] = op.time_products(args.repeats)
                results.append(result(name, op.format, str(op.device), times[stored_as], op.nbytes))
            except (sg.FormatError, MemoryError) as error:
                left_out.append(_LeftOut(name, str(error)))
            bar.update()
    return sorted(results, key=lambda result: result.time_us), left_out


def _time_scipy(matrix: sp.csr_array, repeats: int) -> float:
    """Median microseconds of SciPy's product."""
    x = np.ones(matrix.shape[1], dtype=matrix.dtype)
    times = []
    for _ in range(repeats):
        start = perf_counter()
        matrix @ x
        times.append(perf_counter() - start)
    return 1e6 * float(np.median(times))


def _check_plot(path: Path) -> None:
    """Refuse, before anything is measured, a chart that cannot be drawn."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError:
        raise ValueError("--plot needs matplotlib: pip install matplotlib") from None
    kinds = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix.removeprefix(".") not in kinds:
        raise ValueError(f"{path}: unknown type of file; its name must end in .{', .'.join(sorted(kinds))}")
    check_writable(path)


def _plot(path: Path, title: str, matrix: sp.csr_array, results: list[_Result]) -> None:
    """Draw the times as bars; the choice of `auto` and SciPy stand out."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 1.2 + 0.28 * len(results)), layout="constrained")
    FigureCanvasAgg(figure)  # no display is needed
    ax = figure.add_subplot()
    colors = [{"auto": "tab:green", "scipy": "tab:gray"}.get(r.name, "tab:blue") for r in results]
    # From a power of ten on: on a linear axis, short bars beside long ones cannot be seen.
    left = 10.0 ** np.floor(np.log10(min(r.time_us for r in results)) - 0.1)
    bars = ax.barh([r.label for r in results], [r.time_us - left for r in results], left=left, color=colors)
    ax.set_xscale("log")
    ax.bar_label(bars, [f"{r.time_us:.3g}" for r in results], padding=3)
    ax.invert_yaxis()
    ax.set_xlim(left, 3 * max(r.time_us for r in results))
    ax.set_xlabel(f"microseconds per product, {matrix.dtype}")
    ax.set_title(title if len(title) <= 60 else f"...{title[-57:]}", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    with replacing(path) as file:
        figure.savefig(file, format=path.suffix.removeprefix("."), dpi=150)
