"""Meshes without an order, as given, by reverse Cuthill-McKee and by clusters.

The nodes are numbered at random. What is timed is making the operator, from a matrix on the device
(`setup_us`), and a product (`time_us`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import scipy.sparse as sp

import spmvgpu as sg
from experiments import families, peers
from experiments.clock import timed, wall_us
from experiments.engine import Experiment, Report, Run, Table
from experiments.peers.problem import Problem
from experiments.records import Content, Row
from experiments.suite import chosen
from experiments.tables import number
from spmvgpu import gallery
from spmvgpu.gallery import meshes

SECONDS = 0.1  # of each kind; what takes longer is done once
MEASURED_PRODUCTS = 100
FORMATS = ("csr", "sell")
ORDERS = {"given": False, "rcm": "rcm", "clusters": "clusters"}


def _grid(side: int) -> sp.csr_array:
    return meshes.shuffled(sp.csr_array(gallery.poisson2d(side)), 1)


MATRICES = {
    "tetrahedra_unordered": partial(families.build, "tetrahedra_unordered"),
    "tetrahedra_1M_unordered": partial(families.unordered, 100, 100, 100),
    "grid_1000_unordered": partial(_grid, 1000),
    "quadratic_tetrahedra": partial(families.build, "quadratic_tetrahedra"),
    "rmat_17": partial(families.build, "rmat_17"),
}
QUICK = {"tetrahedra_1k_unordered": partial(families.unordered, 10, 10, 10)}


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    given = problem.matrix
    if run.on_gpu and peers.cupy.available() is None:
        from cupyx.scipy.sparse import csr_matrix

        given = csr_matrix(given)
    cases = [(format, order, reorder) for format in FORMATS for order, reorder in ORDERS.items()]
    for format, order, reorder in [*cases, ("auto", "any", None), ("auto", "given", False)]:
        make = partial(sg.aslinearoperator, given, format=format, device=run.device, reorder=reorder)
        with run.noted(**problem.case, variant=format, order=order), sg.cache.empty():
            seconds, op = timed(make)
            samples = [1e6 * seconds] if seconds > SECONDS else wall_us(make, SECONDS)
            steps = op.tuning.steps if op.tuning is not None else []
            yield {
                **problem.size(), "library": "spmvgpu", "variant": format, "order": order,
                "format": op.format,
                "time_us": round(op.time_products(MEASURED_PRODUCTS), 2),
                "setup_us": round(min(samples), 1),
                "order_us": sum(round(1e6 * step.seconds) for step in steps if step.name == "order"),
            }  # fmt: skip


# -- report --------------------------------------------------------------------------------------------------

HEAD = ("matrix", "dtype", "format", *("product", "made") * 3, "order, in products")
NOTE = (
    "Times in microseconds of a product, and of making the operator of a matrix that is already on "
    "the GPU. The rows and columns are in the given order, in reverse Cuthill-McKee order (found on "
    "the CPU), or ordered by clusters (found on the GPU; its cost is also given in products in the "
    "given order)."
)


def rows(content: Content) -> Table:
    for case, by_order in content.grouped("matrix dtype variant", "order").items():
        if case[-1] != "auto":
            found = [by_order.get(order, {}) for order in ORDERS]
            times = [
                cell
                for row in found
                for cell in (number(row.get("time_us"), 1), number(row.get("setup_us"), 0))
            ]
            given, clusters = by_order["given"], by_order.get("clusters")
            yield *case, *times, number(clusters["order_us"] / given["time_us"], 0) if clusters else None


EXPERIMENTS = [
    Experiment(
        command="orders",
        about="meshes without an order, as given, by rcm and by clusters",
        file="orders",
        items=chosen(MATRICES, QUICK),
        measure=measure,
        report=Report(45, "Orders of rows", NOTE, HEAD, rows, 3),
    )
]
