"""Orders of rows and columns: ``python -m experiments orders``. See experiments/README.md.

Meshes whose nodes are numbered at random, as they come, by reverse Cuthill-McKee and by clusters: what making
the operator takes (`setup_us`, from a matrix on the device), and a product (`time_us`).
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from experiments import environment, peers
from experiments.clock import timed, wall_us
from experiments.records import RESULTS, Recorder
from spmvgpu import gallery
from spmvgpu.gallery import meshes

from .families import build
from .run import chosen_device

SECONDS = 0.1  # of each kind; what takes longer is done once
MEASURED_PRODUCTS = 100
FORMATS = ("csr", "sell")
ORDERS = {"given": False, "rcm": "rcm", "clusters": "clusters"}


def _tetrahedra(side: int) -> sp.csr_array:
    pattern = meshes.coupled(meshes.tetrahedra(meshes.cells((side,) * 3)), side**3)
    return meshes.symmetric_values(meshes.shuffled(pattern, 1))


def _grid(side: int) -> sp.csr_array:
    return meshes.shuffled(sp.csr_array(gallery.poisson2d(side)), 1)


MATRICES = {
    "tetrahedra_unordered": partial(build, "tetrahedra_unordered"),
    "tetrahedra_1M_unordered": partial(_tetrahedra, 100),
    "grid_1000_unordered": partial(_grid, 1000),
    "quadratic_tetrahedra": partial(build, "quadratic_tetrahedra"),
    "rmat_17": partial(build, "rmat_17"),
}
QUICK = {"tetrahedra_1k_unordered": partial(_tetrahedra, 10)}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments orders", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--device", default="auto", help="cuda:0, cpu or auto (a GPU if there is one)")
    parser.add_argument("--quick", action="store_true", help="a small matrix")
    options = parser.parse_args(arguments)
    device = chosen_device(options.device)
    facts = environment.describe(device, [peers.ours])
    record = Recorder(options.out / environment.slug(facts) / "orders.json", facts)
    try:
        for name, make in (QUICK if options.quick else MATRICES).items():
            A = make()
            for dtype in (np.float64, np.float32):
                _measure(record, name, A.astype(dtype), device)
            record.write()
    finally:
        record.write()
    return 0


def _measure(record: Recorder, name: str, A: Any, device: str) -> None:
    given = A
    if device != "cpu" and peers.cupy.available() is None:
        from cupyx.scipy.sparse import csr_matrix

        given = csr_matrix(A)
    case = {
        "matrix": name, "rows": A.shape[0], "nnz": A.nnz, "dtype": A.dtype.name, "library": "spmvgpu"
    }  # fmt: skip
    for format in (*FORMATS, "auto"):
        for order, reorder in ORDERS.items() if format != "auto" else [("any", None), ("given", False)]:
            make = partial(sg.aslinearoperator, given, format=format, device=device, reorder=reorder)
            with sg.cache.empty():
                try:
                    seconds, op = timed(make)
                except ValueError as refused:
                    record.skip(str(refused)[:200], matrix=name, variant=format, order=order)
                    continue
                samples = [1e6 * seconds] if seconds > SECONDS else wall_us(make, SECONDS)
            product_us = op.time_products(MEASURED_PRODUCTS)
            steps = op.tuning.steps if op.tuning is not None else []
            order_us = sum(round(1e6 * step.seconds) for step in steps if step.name == "order")
            record.add(
                **case,
                variant=format,
                order=order,
                format=op.format,
                time_us=round(product_us, 2),
                setup_us=round(min(samples), 1),
                order_us=order_us,
            )
            print(
                f"{name} {A.dtype} {format} {order}: {product_us:.1f} us, made in {min(samples):.0f}",
                flush=True,
            )
