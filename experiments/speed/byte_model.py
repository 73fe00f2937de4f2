"""What the byte model says of formats: bytes per non-zero, and the time to read them, beside times.

``python -m experiments bytes`` plans formats for the matrices of the suite, on the CPU, and prints a table in
Markdown. The time of a product is that of its bytes at a bandwidth: the stored arrays, x and y, once each. It
is a bound: gathers, latency and the reading of packed values come on top. With ``--device`` products are
timed there, in packed_sell and the formats that it is to be faster than, and kept in packed_sell.json.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from experiments import environment, peers
from experiments.matrices import canonical
from experiments.peers.problem import DTYPES
from experiments.records import RESULTS, Recorder
from experiments.report.markdown import number, table
from spmvgpu import gallery
from spmvgpu.devices import CPU
from spmvgpu.formats import plan_csr

from .suite import Item, suite

FORMATS = ("csr", "sell", "packed_sell")
TIMED = ("csr", "sell", "dia", "packed_sell")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments bytes", description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="matrices whose name matches")
    parser.add_argument("--max-nnz", type=float, default=np.inf, help="leave out larger ones")
    parser.add_argument("--bandwidth", type=float, default=4.2, help="TB/s at which bytes are read")
    parser.add_argument("--device", help="time products there")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results, with --device")
    options = parser.parse_args(arguments)
    head = [
        "matrix",
        "dtype",
        "nnz",
        *(f"{name}, bytes" for name in FORMATS),
        "fewer than csr",
        "bound, us",
        "modes",
    ]
    record = None
    if options.device is not None:
        facts = environment.describe(options.device, [peers.ours])
        record = Recorder(options.out / environment.slug(facts) / "packed_sell.json", facts)
        head += [f"{name}, us" for name in TIMED]
    rows: list[list[str]] = []
    for item in items():
        if re.search(options.only, item.name):
            rows += rows_of(item, options.max_nnz, options.bandwidth, options.device, record)
            if record is not None:
                record.write()
    print(table(head, rows))
    return 0


def items() -> list[Item]:
    """The suite, and the same kinds with few different values, where a format can store fewer bytes."""
    few: dict[str, Callable[[], sp.csr_array]] = {
        "poisson2d_1000_constant": lambda: gallery.poisson2d(1000),
        "poisson3d7_200_constant": lambda: gallery.poisson3d(200),
        "poisson3d27_128_constant": lambda: gallery.poisson3d(128, points=27),
        "web_like_ones": lambda: _ones(gallery.SUITE["web_like"](np.float64)),
    }
    return [Item(name, "generated", partial(_canonical, make)) for name, make in few.items()] + suite()[0]


def _canonical(make: Callable[[], sp.csr_array]) -> sp.csr_array:
    return canonical(make())


def _ones(A: sp.csr_array) -> sp.csr_array:
    return sp.csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape)


def rows_of(
    item: Item, max_nnz: float, bandwidth: float, device: str | None = None, record: Recorder | None = None
) -> Iterator[list[str]]:
    """A line of the table for each type of values, with times if there is a device."""
    matrix = item.build()
    if matrix.nnz > max_nnz:
        return
    for name, dtype in DTYPES.items():
        A = matrix.astype(dtype)
        plans = {format: _plan(A, format) for format in FORMATS}
        stored = [None if plan is None else plan["bytes"] / A.nnz for plan in plans.values()]
        # Of every product: x, and y, of which a row without entries is written as well.
        vectors = sum(A.shape) * A.dtype.itemsize
        csr, packed = plans["csr"], plans["packed_sell"]
        assert csr is not None
        gain = None if packed is None else (csr["bytes"] + vectors) / (packed["bytes"] + vectors)
        time = None if packed is None else (packed["bytes"] + vectors) / bandwidth / 1e6
        modes = "refused" if packed is None else _modes(packed["counts"])
        line = [
            item.name, name, f"{A.nnz / 1e6:.2f} M", *(number(value) for value in stored), number(gain),
            number(time, 1), modes,
        ]  # fmt: skip
        if device is not None:
            line += [number(_time(A, item.name, format, device, record), 1) for format in TIMED]
        yield line


def _time(A: sp.csr_array, matrix: str, format: str, device: str, record: Recorder | None) -> float | None:
    """Microseconds of a product; None if the format refuses the matrix."""
    case = {"matrix": matrix, "dtype": A.dtype.name, "library": "spmvgpu", "variant": format}
    try:
        op = sg.aslinearoperator(A, format=format, device=device)
    except sg.FormatError as refused:
        if record is not None:
            record.skip(str(refused), **case)
        return None
    time = op.time_products()
    if record is not None:
        size = {"rows": A.shape[0], "cols": A.shape[1], "nnz": A.nnz}
        moved = op.nbytes + sum(A.shape) * A.dtype.itemsize
        record.add(**case, **size, bytes=moved, options=op.options, time_us=round(time, 2))
    return time


def _plan(A: sp.csr_array, format: str) -> dict[str, Any] | None:
    try:
        return plan_csr(A, format, CPU)
    except sg.FormatError:
        return None


def _modes(counts: dict[str, float]) -> str:
    """The modes of more than a tenth of the slots, by how many they have."""
    slots = sum(count for name, count in counts.items() if name.startswith("index_"))
    often = sorted(
        (-count, name)
        for name, count in counts.items()
        if name.startswith(("index_", "values_")) and count > slots / 10
    )
    return ", ".join(f"{name} {-count / slots:.0%}" for count, name in often)
