"""Times every format on the calibration matrices, which models are fitted to, and on others to validate with.

    python -m benchmarks.model_samples --device cuda:0 --out model_samples.json

One JSON file, with a list of timings for each of "calibration", "guo2011" and "validation".
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from benchmarks import suite
from spmvgpu import _core, gallery
from spmvgpu.devices import CPU, resolve_device
from spmvgpu.model import measure, samples

CSR_KERNELS = ("balanced", "shuffle", "shared", "half_warp")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=420, help="stop starting matrices after so long")
    parser.add_argument("--max-nnz", type=float, default=6e7)
    parser.add_argument("--workers", type=int, default=8, help="processes that generate matrices")
    args = parser.parse_args()
    ordinal = resolve_device(args.device)
    start = perf_counter()
    device = next(d for d in sg.devices() if d.name == ("cpu" if ordinal == CPU else f"cuda:{ordinal}"))
    full_load = {dtype: measure.full_load(dtype, ordinal) for dtype in measure.DTYPES}
    result: dict[str, Any] = {
        "device": device.model,
        "properties": _core.device_properties(ordinal),
        "bus": measure.bus_bandwidth(ordinal),
        "full_load": full_load,
        "left_out": [],
    }
    calibration_nnz = int(min(args.max_nnz, 1 << 24))
    every = measure.all_variants() + [("csr", {"kernel": kernel}) for kernel in CSR_KERNELS]

    guo = [(s, (measure.ELL,)) for s in samples.ell_samples(calibration_nnz)]
    guo += [(s, (measure.COO,)) for s in samples.coo_samples(calibration_nnz)]
    for rows in sorted(set(full_load.values())):
        guo += [(s, (measure.CSR_VECTOR,)) for s in samples.csr_vector_samples(rows, calibration_nnz)]
    # In random order, so that a run cut short has seen something of every kind.
    general = [(s, every) for s in samples.general_samples(calibration_nnz)]
    shuffled = [general[i] for i in np.random.default_rng(0).permutation(len(general))]
    validation = [(item, every) for item in _validation(args.max_nnz)]

    written = perf_counter()
    multiprocessing.set_start_method("spawn")  # a process with a CUDA context must not be forked
    with ProcessPoolExecutor(args.workers) as pool:
        for part, items in (("calibration", shuffled), ("validation", validation), ("guo2011", guo)):
            rows = result[part] = []
            for (item, variants), matrix in zip(items, _ahead(pool, [i for i, _ in items]), strict=True):
                if perf_counter() - start > args.seconds:
                    result["left_out"].append([item.name, "out of time"])
                    matrix.cancel()
                    continue
                try:
                    built = matrix.result()
                except Exception as error:  # one matrix that cannot be had must not cost all the others
                    result["left_out"].append([item.name, repr(error)])
                    continue
                if built.nnz > args.max_nnz:
                    result["left_out"].append([item.name, f"{built.nnz} non-zeros"])
                    continue
                for dtype in measure.DTYPES:
                    rows.extend(measure.time_variants(item.name, built, variants, dtype, ordinal))
                print(f"{perf_counter() - start:6.1f} s  {part}  {item.name}", flush=True)
                if perf_counter() - written > 10:
                    written = _write(args.out, result, start)
    _write(args.out, result, start)


def _write(out: Path, result: dict[str, Any], start: float) -> float:
    result["seconds"] = round(perf_counter() - start, 1)
    out.write_text(json.dumps(result))
    return perf_counter()


def _ahead(pool: ProcessPoolExecutor, items: list[Any], depth: int = 12) -> Iterator[Future[sp.csr_array]]:
    """The matrices of the items in their order, generated ahead of their use."""
    waiting: deque[Future[sp.csr_array]] = deque()
    rest = iter(items)
    for item in rest:
        waiting.append(pool.submit(_build, item))
        if len(waiting) == depth:
            yield waiting.popleft()
    yield from waiting


def _build(item: Any) -> sp.csr_array:
    built: sp.csr_array = item.build()
    return built


def _validation(max_nnz: float) -> list[suite.Item]:
    """The suite of the benchmarks, and generated matrices of kinds that no calibration sample has."""
    real_and_generated, _ = suite.suite()
    if max_nnz < 1e6:
        real_and_generated = [item for item in real_and_generated if item.group == "real"][:6]
    return real_and_generated + [suite.Item(name, "generated", build) for name, build in OTHERS.items()]


def shuffled_grid() -> sp.csr_array:
    """A grid numbered at random."""
    grid = gallery.poisson2d(700)
    order = np.random.default_rng(3).permutation(grid.shape[0])
    return _canonical(grid[order][:, order])


def triangle() -> sp.csr_array:
    """Rows of every length from 1 to 3000."""
    return _canonical(sp.tril(np.ones((3000, 3000)), format="csr"))


def trefethen() -> sp.csr_array:
    """Ones where the distance from the diagonal is a power of two, 20000 rows."""
    n = 20_000
    offsets = [0] + [sign * (1 << k) for k in range(15) for sign in (-1, 1)]
    return _canonical(
        sp.diags_array([np.ones(n)] * len(offsets), offsets=offsets, shape=(n, n), format="csr")
    )


def block_diagonal() -> sp.csr_array:
    """Dense blocks of 50 on the diagonal."""
    return _canonical(sp.kron(sp.eye_array(2000), np.ones((50, 50)), format="csr"))


def in_links() -> sp.csr_array:
    """The web graph of the real matrices by its in-links: more skewed."""
    return _canonical(suite.real_matrix("cnr-2000").T.tocsr())


def coupled_graph() -> sp.csr_array:
    """A power law with four unknowns a node."""
    return _canonical(sp.kron(gallery.powerlaw(60_000, 7, exponent=2.4), np.ones((4, 4)), format="csr"))


def long_band() -> sp.csr_array:
    return _canonical(gallery.banded_random(400_000, 50, 30_000))


def _canonical(matrix: Any) -> sp.csr_array:
    matrix = sp.csr_array(matrix, dtype=np.float64)
    matrix.sum_duplicates()
    indices = (matrix.indices.astype(np.int32, copy=False), matrix.indptr.astype(np.int32, copy=False))
    return sp.csr_array((matrix.data, *indices), shape=matrix.shape)


OTHERS: dict[str, Callable[[], sp.csr_array]] = {
    "shuffled_grid_700": shuffled_grid,
    "triangle_3000": triangle,
    "trefethen_20000": trefethen,
    "block_diagonal_50": block_diagonal,
    "cnr-2000_in_links": in_links,
    "coupled_graph_4": coupled_graph,
    "long_band_400k": long_band,
}


if __name__ == "__main__":
    main()
