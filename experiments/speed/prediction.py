"""Predicted beside measured time of every format, on matrices that no model was fitted to.

``python -m experiments prediction``: the rows of its file are those of the other results, with what either
model predicted; the summary is printed.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from experiments import environment
from experiments.matrices import canonical
from experiments.peers.problem import DTYPES
from experiments.records import RESULTS, Recorder, Row, geometric_mean
from experiments.report.models import AUTO, errors, losses, losses_of_auto
from spmvgpu import gallery
from spmvgpu.devices import device_name, resolve_device
from spmvgpu.planning import calibrate, measure, roofline
from spmvgpu.planning.predict import MODELS, predict_csr
from spmvgpu.planning.profile import Profile, load_profile

from . import suite


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments prediction", description=__doc__)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    parser.add_argument("--profile", type=Path, help="instead of the device's own")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--seconds", type=float, default=240, help="stop starting matrices after so long")
    parser.add_argument("--max-nnz", type=float, default=6e7)
    parser.add_argument("--workers", type=int, default=8, help="processes that generate matrices")
    options = parser.parse_args(arguments)
    ordinal = resolve_device(options.device)
    profile = load_profile(ordinal, options.profile)
    start = perf_counter()
    facts = environment.describe(device_name(ordinal))
    record = Recorder(options.out / environment.slug(facts) / "prediction.json", facts)
    items = _validation(options.max_nnz)
    # Spawned: a process with a CUDA context must not be forked.
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for item, matrix in zip(items, _ahead(pool, items), strict=True):
            if perf_counter() - start > options.seconds:
                record.skip("out of time", matrix=item.name)
                matrix.cancel()
                continue
            try:
                built = matrix.result()
            except Exception as error:  # one matrix that cannot be had must not cost all the others
                record.skip(repr(error), matrix=item.name)
                continue
            if built.nnz > options.max_nnz:
                record.skip(f"{built.nnz} non-zeros", matrix=item.name)
                continue
            for dtype in DTYPES:
                for row in compare(item.name, built, dtype, ordinal, profile):
                    record.add(**row)
            print(f"{perf_counter() - start:6.1f} s  {item.name}", flush=True)
            record.write()
    record.write()
    print(summary(record.rows))
    return 0


def compare(name: str, matrix: sp.csr_array, dtype: str, ordinal: int, profile: Profile) -> Iterator[Row]:
    """A row per variant that either model knows, and one of what ``format="auto"`` takes."""
    data = matrix.data.astype(DTYPES[dtype], copy=False)
    csr = sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)
    predicted = {
        model: {p.name: p.time_us for p in predict_csr(csr, ordinal, model, profile)} for model in MODELS
    }
    variants = calibrate.variants(profile.kind)
    if measure.CSR_VECTOR not in variants:
        variants = [*variants, measure.CSR_VECTOR]
    for record in measure.time_variants(name, matrix, variants, dtype, ordinal):
        variant = roofline.variant_name(record["format"], record["options"])
        yield {
            **{key: record[key] for key in ("matrix", "rows", "cols", "nnz", "dtype", "bytes", "time_us")},
            "library": "spmvgpu",
            "variant": variant,
            "cache": "hot",
            **{f"{model}_us": predicted[model].get(variant) for model in MODELS},
        }
    with sg.cache.empty():
        op = sg.aslinearoperator(csr, device=device_name(ordinal))
    yield {
        **{"matrix": name, "rows": csr.shape[0], "cols": csr.shape[1], "nnz": csr.nnz, "dtype": dtype},
        "bytes": op.nbytes,
        "time_us": round(op.time_products(measure.series_of(csr.nnz)), 4),
        "library": "spmvgpu",
        "variant": AUTO,
        "format": op.format,
        "cache": "hot",
        **{f"{model}_us": None for model in MODELS},
    }


def summary(rows: list[Row]) -> str:
    """Errors of both models, and what their choices cost."""
    lines = []
    for model in MODELS:
        off = errors(rows, model)
        lines.append(f"{model}: mean absolute error {np.mean(off):.1%}, median {np.median(off):.1%}")
        for variant in dict.fromkeys(row["variant"] for row in rows):
            own = errors(rows, model, variant)
            if own:
                lines.append(f"  {variant:<24} {np.mean(own):6.1%} of {len(own)}")
        lines += _lost("  its choice", losses(rows, model))
    return "\n".join(lines + _lost(AUTO, losses_of_auto(rows)))


def _lost(what: str, lost: dict[str, float]) -> list[str]:
    worst = sorted(lost.items(), key=lambda entry: -entry[1])[:6]
    head = f"{what} over the fastest: geometric mean {geometric_mean(lost.values()):.3f}"
    return [head, *(f"    {case}: {loss:.2f}" for case, loss in worst)]


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
    """The suite of the other experiments, and generated matrices of kinds that no calibration sample has."""
    real_and_generated, _ = suite.suite()
    if max_nnz < 1e6:
        real_and_generated = [item for item in real_and_generated if item.group == "real"][:6]
    return real_and_generated + [suite.Item(name, "generated", build) for name, build in OTHERS.items()]


def shuffled_grid() -> sp.csr_array:
    """A grid numbered at random."""
    grid = gallery.poisson2d(700)
    order = np.random.default_rng(3).permutation(grid.shape[0])
    return canonical(grid[order][:, order])


def triangle() -> sp.csr_array:
    """Rows of every length from 1 to 3000."""
    return canonical(sp.tril(np.ones((3000, 3000)), format="csr"))


def trefethen() -> sp.csr_array:
    """Ones where the distance from the diagonal is a power of two, 20000 rows."""
    n = 20_000
    offsets = [0] + [sign * (1 << k) for k in range(15) for sign in (-1, 1)]
    return canonical(sp.diags_array([np.ones(n)] * len(offsets), offsets=offsets, shape=(n, n), format="csr"))


def block_diagonal() -> sp.csr_array:
    """Dense blocks of 50 on the diagonal."""
    return canonical(sp.kron(sp.eye_array(2000), np.ones((50, 50)), format="csr"))


def in_links() -> sp.csr_array:
    """The web graph of the real matrices by its in-links: more skewed."""
    return canonical(suite.real_matrix("cnr-2000").T.tocsr())


def coupled_graph() -> sp.csr_array:
    """A power law with four unknowns a node."""
    return canonical(sp.kron(gallery.powerlaw(60_000, 7, exponent=2.4), np.ones((4, 4)), format="csr"))


def long_band() -> sp.csr_array:
    return canonical(gallery.banded_random(400_000, 50, 30_000))


OTHERS: dict[str, Callable[[], sp.csr_array]] = {
    "shuffled_grid_700": shuffled_grid,
    "triangle_3000": triangle,
    "trefethen_20000": trefethen,
    "block_diagonal_50": block_diagonal,
    "cnr-2000_in_links": in_links,
    "coupled_graph_4": coupled_graph,
    "long_band_400k": long_band,
}
