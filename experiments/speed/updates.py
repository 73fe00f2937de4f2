"""New values for a matrix whose structure stays, in every format.

What is timed is `op.update_values(data)` until it is complete, in every format that holds the matrix, after
a first call that finds out where values belong. `source` says where the values come from: "device", or
"numpy". Afterwards the operator is compared with what the new values multiply to.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np

import spmvgpu as sg
from experiments import families, peers
from experiments.clock import wall_us
from experiments.engine import Experiment, Report, Run, Table
from experiments.goals import Mark, at_most
from experiments.peers.problem import Problem, WrongResultError
from experiments.records import Content, Row
from experiments.suite import chosen
from experiments.tables import number
from spmvgpu import gallery

SECONDS = 0.1  # of each kind
MEASURED_PRODUCTS = 20
MATRICES = {
    "poisson2d_1000": partial(gallery.poisson2d, 1000),
    "poisson3d_100": partial(gallery.poisson3d, 100),
    "poisson2d_3000": partial(gallery.poisson2d, 3000),
    "elast_59k": partial(gallery.elasticity3d, 27),
    "elast_470k": partial(gallery.elasticity3d, 54),
    "shell_x6": partial(families.build, "shell_x6"),
    "powerlaw_500k": partial(gallery.powerlaw, 500_000, 12),
}
QUICK = {
    "poisson2d_30": partial(gallery.poisson2d, 30),
    "elast_1k": partial(gallery.elasticity3d, 7),
}


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    A = problem.matrix
    sources: dict[str, Any] = {"numpy": 2 * A.data}
    if run.on_gpu and peers.cupy.available() is None:
        import cupy

        sources["device"] = cupy.asarray(sources["numpy"])
    x = np.ones(A.shape[1], A.dtype)
    for format in sg.formats():
        with run.noted(**problem.case, library="spmvgpu", variant=format):
            op = sg.aslinearoperator(A, format=format, device=run.device)
            bytes_before, product_us = op.nbytes, op.time_products(MEASURED_PRODUCTS)
            expected = 2 * (op @ x)
            for source, data in sources.items():
                update = partial(op.update_values, data)
                update()
                samples = wall_us(update, SECONDS)
                if not np.array_equal(op @ x, expected):  # twice the values are exact
                    raise WrongResultError("the product with new values is wrong")
                yield {
                    **problem.size(), "library": "spmvgpu", "variant": format, "source": source,
                    "time_us": round(median(samples), 1), "least_us": round(min(samples), 1),
                    "samples": len(samples), "product_us": round(product_us, 2),
                    "map_bytes": op.nbytes - bytes_before,
                }  # fmt: skip


# -- report --------------------------------------------------------------------------------------------------

HEAD = ("matrix", "format", "product", "new values", "products", "from NumPy", "map, bytes per non-zero")
NOTE = (
    "Times in microseconds of `op.update_values(data)` until it is complete, for values on the GPU, "
    "also in products of the same format; the time for values from NumPy; and the memory that an "
    "operator keeps from the first update on."
)
GOAL = 3  # products


def _products(row: Row) -> float:
    return float(row["time_us"] / row["product_us"])


def rows(content: Content) -> Table:
    for case, by_source in content.grouped("matrix variant", "source").items():
        if (row := by_source.get("device")) is not None:
            yield (
                *case, number(row["product_us"], 1), number(row["time_us"], 0), number(_products(row), 1),
                number(by_source["numpy"]["time_us"], 0), row["map_bytes"] / row["nnz"],
            )  # fmt: skip


def goals(content: Content) -> list[Mark]:
    there = [row for row in content.rows if row["source"] == "device"]
    products = {f"{row['matrix']} {row['variant']}": _products(row) for row in there}
    return at_most("new values, in products", products, each=GOAL)


EXPERIMENTS = [
    Experiment(
        command="updates",
        about="new values for a matrix whose structure stays, in every format",
        file="updates",
        items=chosen(MATRICES, QUICK),
        dtypes=("f64",),
        measure=measure,
        report=Report(40, "New values", NOTE, HEAD, rows, goals=goals, needs_gpu=True),
    )
]
