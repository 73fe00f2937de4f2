"""From a matrix to an operator: ``python -m experiments setup``. See experiments/README.md.

What is timed is `aslinearoperator`, with nothing in the cache, beside what another library takes to have
the matrix on the device: CuPy's ``csr_matrix(A)``, complete. `source` says where the matrix comes from:
"scipy", or "cupy" for one that is on the device already.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from experiments import environment, peers
from experiments.clock import timed
from experiments.records import RESULTS, Recorder

from .run import chosen_device
from .suite import suite

REPEATS = 5
SECONDS = 1.0  # after which no more samples of one kind are taken
MEASURED_PRODUCTS = 20

#: Variant -> what `aslinearoperator` is asked for.
VARIANTS: dict[str, dict[str, Any]] = {
    "auto": {},
    "auto, tune=off": {"tune": "off"},
    "csr": {"format": "csr"},
}


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    device = chosen_device(options.device)
    gpu = device != "cpu"
    has_cupy = gpu and peers.cupy.available() is None
    measured = [peers.ours, peers.scipy, *([peers.cupy] if has_cupy else [])]
    facts = environment.describe(device, measured) | {"repeats": REPEATS}
    record = Recorder(options.out / environment.slug(facts) / "setup.json", facts)
    items, left_out = suite(options.quick)
    for name, reason in left_out.items():
        record.skip(reason, matrix=name)
    if gpu and not has_cupy:
        record.skip("it is not installed", library="cupy")
    deadline = time.perf_counter() + options.seconds
    _warm_up(device, has_cupy)
    try:
        for item in items:
            if time.perf_counter() > deadline:
                record.skip("the time budget was spent", matrix=item.name)
                continue
            A = item.build()
            for dtype in (np.float64, np.float32):
                typed = sp.csr_array((A.data.astype(dtype), A.indices, A.indptr), shape=A.shape)
                try:
                    _measure(record, item.name, typed, device, has_cupy)
                except Exception as error:  # one matrix that fails costs no other its results
                    record.skip(f"{type(error).__name__}: {error}"[:400], matrix=item.name)
            record.write()
    finally:
        record.write()
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments setup", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--device", default="auto", help="cuda:0, cpu or auto (a GPU if there is one)")
    parser.add_argument(
        "--seconds", type=float, default=240.0, help="time budget; what does not fit is left out and named"
    )
    parser.add_argument("--quick", action="store_true", help="a few small matrices")
    options = parser.parse_args(arguments)
    if not options.seconds > 0:
        parser.error(f"--seconds is {options.seconds:g}; give a positive number")
    return options


def _warm_up(device: str, has_cupy: bool) -> None:
    """Start the device and load what a process loads once."""
    A = sg.gallery.poisson2d(20)
    with sg.cache.empty():
        for asked in VARIANTS.values():
            sg.aslinearoperator(A, device=device, **asked)
    if has_cupy:
        _to_cupy(A)


def _to_cupy(A: Any) -> Any:
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    given = csr_matrix(A)
    cupy.cuda.Device().synchronize()
    return given


def _measure(record: Recorder, name: str, A: Any, device: str, has_cupy: bool) -> None:
    case = {"matrix": name, "rows": A.shape[0], "nnz": A.nnz, "dtype": A.dtype.name}
    sources = {"scipy": A}
    if has_cupy:
        _add(record, partial(_to_cupy, A), **case, library="cupy", variant="csr", source="scipy")
        sources["cupy"] = _to_cupy(A)
    for source, given in sources.items():
        for variant, asked in VARIANTS.items():
            make = partial(sg.aslinearoperator, given, device=device, **asked)
            with sg.cache.empty():
                op = make()
            facts = {
                "format": op.format,
                "product_us": round(op.time_products(MEASURED_PRODUCTS), 2),
                "setup": {part: round(1e6 * seconds, 1) for part, seconds in op.setup_seconds.items()},
            }
            del op
            _add(record, make, **case, library="spmvgpu", variant=variant, source=source, **facts)


def _steps_us(op: sg.SparseOperator) -> dict[str, float]:
    """Microseconds of every kind of step, those of formats by their names: "plan sell"."""
    steps: dict[str, float] = {}
    for step in op.tuning.steps if op.tuning is not None else []:
        name = f"{step.name} {step.of.partition(' ')[0]}".strip()
        steps[name] = round(steps.get(name, 0.0) + 1e6 * step.seconds, 1)
    return steps


def _add(record: Recorder, make: Callable[[], Any], **row: Any) -> None:
    """The median of several calls, none of which finds anything in the cache; the steps are the fastest's."""
    samples: list[float] = []
    steps: dict[str, float] = {}
    while not samples or (len(samples) < REPEATS and sum(samples) < 1e6 * SECONDS):
        with sg.cache.empty():
            seconds, made = timed(make)
        samples.append(1e6 * seconds)
        if isinstance(made, sg.SparseOperator) and min(samples) == samples[-1]:
            steps = _steps_us(made)
        del made
    if steps:
        row["steps"] = steps
    us = median(samples)
    record.add(**row, time_us=round(us, 1), least_us=round(min(samples), 1), samples=len(samples))
    names = (row[key] for key in ("matrix", "dtype", "library", "variant", "source"))
    print(f"{' '.join(names)}: {us:.0f} us", flush=True)
