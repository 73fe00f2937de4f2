"""New values in the same structure: ``python -m experiments updates``. See experiments/README.md.

What is timed is `op.update_values(data)` until it is complete, in every format that holds the matrix, after
a first call that finds out where values belong. `source` says where the values come from: "device", or
"numpy". Afterwards the operator is compared with what the new values multiply to.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import spmvgpu as sg
from experiments import environment, peers
from experiments.clock import wall_us
from experiments.records import RESULTS, Recorder
from spmvgpu import gallery

from . import families
from .run import chosen_device

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


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments updates", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--device", default="auto", help="cuda:0, cpu or auto (a GPU if there is one)")
    parser.add_argument("--quick", action="store_true", help="a few small matrices")
    options = parser.parse_args(arguments)
    device = chosen_device(options.device)
    facts = environment.describe(device, [peers.ours])
    record = Recorder(options.out / environment.slug(facts) / "updates.json", facts)
    has_cupy = device != "cpu" and peers.cupy.available() is None
    try:
        for name, make in (QUICK if options.quick else MATRICES).items():
            A = make()
            for format in sg.formats():
                _measure(record, name, A, format, device, has_cupy)
            record.write()
    finally:
        record.write()
    return 0


def _measure(record: Recorder, name: str, A: Any, format: str, device: str, has_cupy: bool) -> None:
    case = {
        "matrix": name, "rows": A.shape[0], "nnz": A.nnz, "dtype": A.dtype.name, "library": "spmvgpu",
        "variant": format,
    }  # fmt: skip
    try:
        op = sg.aslinearoperator(A, format=format, device=device)
    except (sg.FormatError, MemoryError) as error:
        record.skip(str(error)[:200], matrix=name, variant=format)
        return
    bytes_before, product_us = op.nbytes, op.time_products(MEASURED_PRODUCTS)
    sources: dict[str, Any] = {"numpy": 2 * A.data}
    if has_cupy:
        import cupy

        sources["device"] = cupy.asarray(sources["numpy"])
    x = np.ones(A.shape[1], A.dtype)
    expected = 2 * (op @ x)
    for source, data in sources.items():
        update = partial(op.update_values, data)
        update()
        samples = wall_us(update, SECONDS)
        if not np.array_equal(op @ x, expected):  # twice the values are exact
            raise SystemExit(f"{name} in {format}: the product with new values is wrong")
        record.add(
            **case,
            source=source,
            time_us=round(median(samples), 1),
            least_us=round(min(samples), 1),
            samples=len(samples),
            product_us=round(product_us, 2),
            map_bytes=op.nbytes - bytes_before,
        )
        print(f"{name} {format} {source}: {median(samples):.0f} us, a product {product_us:.1f}", flush=True)
