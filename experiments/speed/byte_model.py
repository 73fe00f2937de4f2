"""What the byte model says of formats: bytes per non-zero, and the time to read them, beside times.

Formats are planned for the matrices of the suite, on the CPU. The time of a product is that of its bytes at a
bandwidth: the stored arrays, x and y, once each. It is a bound: gathers, latency and the reading of packed
values come on top. With ``--device`` products are timed there, in packed_sell and the formats that it is to
be faster than, and kept in packed_sell.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from experiments.engine import Experiment, Items, Report, Run, Table
from experiments.peers import NotApplicableError
from experiments.peers.problem import Problem
from experiments.records import Content, Row
from experiments.suite import Item, suite
from experiments.tables import number
from spmvgpu import _core, gallery
from spmvgpu.devices import CPU
from spmvgpu.inputs.csr import CanonicalCsr

FORMATS = ("csr", "sell", "packed_sell")
TIMED = ("csr", "sell", "dia", "packed_sell")


def _ones() -> sp.csr_array:
    A = gallery.SUITE["web_like"](np.float64)
    return sp.csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape)


# The same kinds as in the suite with few different values, where a format can store fewer bytes.
FEW_VALUES: dict[str, Callable[[], sp.csr_array]] = {
    "poisson2d_1000_constant": partial(gallery.poisson2d, 1000),
    "poisson3d7_200_constant": partial(gallery.poisson3d, 200),
    "poisson3d27_128_constant": partial(gallery.poisson3d, 128, points=27),
    "web_like_ones": _ones,
}


def items(options: argparse.Namespace) -> Items:
    found, left_out = suite(options.quick)
    few = [] if options.quick else [Item(name, "generated", make) for name, make in FEW_VALUES.items()]
    return few + found, left_out


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(device="")
    parser.add_argument("--max-nnz", type=float, default=np.inf, help="leave out larger ones")
    parser.add_argument("--bandwidth", type=float, default=4.2, help="TB/s at which bytes are read")


def start(run: Run) -> None:
    run.record.environment["planned_bandwidth"] = run.options.bandwidth


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    """A row for each format that holds the matrix, with times if there is a device."""
    A = problem.matrix
    if A.nnz > run.options.max_nnz:
        raise NotApplicableError(f"{A.nnz} non-zeros")
    for format in TIMED if run.options.device else FORMATS:
        row: Row = {**problem.size(), "cols": A.shape[1], "library": "spmvgpu", "variant": format}
        plan = _plan(A, format) if format in FORMATS else None
        if plan is not None:
            row |= {"planned_bytes": plan.bytes + problem.vector_bytes, "modes": _modes(plan.counts)}
        if run.options.device:
            with run.noted(**problem.case, library="spmvgpu", variant=format):
                op = sg.aslinearoperator(A, format=format, device=run.device)
                moved, us = op.nbytes + problem.vector_bytes, round(op.time_products(), 2)
                yield {**row, "bytes": moved, "options": op.options, "time_us": us}
        elif plan is not None:
            yield row


def _plan(A: sp.csr_array, format: str) -> _core.Plan | None:
    try:
        return CanonicalCsr.of(A).plan(format, CPU)
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


# -- report --------------------------------------------------------------------------------------------------

HEAD = (
    "matrix", "dtype", "nnz", *(f"{name}, bytes" for name in FORMATS), "fewer than csr", "bound, us", "modes",
    *(f"{name}, us" for name in TIMED),
)  # fmt: skip


def rows(content: Content) -> Table:
    bandwidth = content.environment.get("planned_bandwidth")
    for case, found in content.grouped("matrix dtype nnz", "variant").items():
        vectors = (
            sum(next(iter(found.values()))[side] for side in ("rows", "cols")) * np.dtype(case[1]).itemsize
        )
        planned = {name: row["planned_bytes"] for name, row in found.items() if "planned_bytes" in row}
        packed = planned.get("packed_sell")
        stored = ((planned[name] - vectors) / case[2] if name in planned else None for name in FORMATS)
        times = ((found.get(name) or {}).get("time_us") for name in TIMED)
        yield (
            *case[:2], f"{case[2] / 1e6:.2f} M", *stored, planned["csr"] / packed if packed else None,
            number(packed / bandwidth / 1e6 if packed else None, 1),
            found["packed_sell"]["modes"] if packed else "refused", *(number(us, 1) for us in times),
        )  # fmt: skip


EXPERIMENTS = [
    Experiment(
        command="bytes",
        about="bytes per non-zero of formats, and the time to read them: predictions",
        file="packed_sell",
        items=items,
        dtypes=("f32", "f64"),
        stores=lambda options: bool(options.device),
        start=start,
        measure=measure,
        add_options=add_options,
        report=Report(75, head=HEAD, rows=rows),
    )
]
