"""From a matrix to an operator, beside CuPy's upload.

What is timed is `aslinearoperator`, with nothing in the cache, beside what another library takes to have
the matrix on the device: CuPy's ``csr_matrix(A)``, complete. `source` says where the matrix comes from:
"scipy", or "cupy" for one that is on the device already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import spmvgpu as sg

from . import peers
from .clock import timed
from .engine import Experiment, Run
from .peers.problem import Problem
from .records import Row
from .suite import suite_items

REPEATS = 5
SECONDS = 1.0  # after which no more samples of one kind are taken
MEASURED_PRODUCTS = 20
# Variant -> what `aslinearoperator` is asked for.
VARIANTS: dict[str, dict[str, Any]] = {
    "csr": {"format": "csr"},
    "auto, tune=off": {"tune": "off"},
    "auto": {},
}


def start(run: Run) -> None:
    """Start the device and load what a process loads once."""
    run.record.environment["repeats"] = REPEATS
    A = sg.gallery.poisson2d(20)
    with sg.cache.empty():
        for asked in VARIANTS.values():
            sg.aslinearoperator(A, device=run.device, **asked)
    if has_cupy(run):
        to_cupy(A)


def has_cupy(run: Run) -> bool:
    """Whether matrices of CuPy are measured."""
    return run.on_gpu and peers.cupy.available() is None


def to_cupy(A: Any) -> Any:
    """The matrix on the GPU, as CuPy's."""
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    given = csr_matrix(A)
    cupy.cuda.Device().synchronize()
    return given


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    A = problem.matrix
    case = problem.size()
    sources = {"scipy": A}
    if has_cupy(run):
        upload, _ = _samples(partial(to_cupy, A))
        yield {**case, "library": "cupy", "variant": "csr", "source": "scipy", **upload}
        sources["cupy"] = to_cupy(A)
    for source, given in sources.items():
        for variant, asked in VARIANTS.items():
            make = partial(sg.aslinearoperator, given, device=run.device, **asked)
            with sg.cache.empty():
                op = make()
            facts = {
                "format": op.format,
                "product_us": round(op.time_products(MEASURED_PRODUCTS), 2),
                "setup": {part: round(1e6 * seconds, 1) for part, seconds in op.setup_seconds.items()},
            }
            del op
            times, steps = _samples(make)
            ours = {"library": "spmvgpu", "variant": variant, "source": source}
            yield {**case, **ours, **facts, "steps": steps, **times}


def _steps_us(op: sg.SparseOperator) -> dict[str, float]:
    """Microseconds of every kind of step, those of formats by their names: "plan sell"."""
    steps: dict[str, float] = {}
    for step in op.tuning.steps if op.tuning is not None else []:
        name = f"{step.name} {step.of.partition(' ')[0]}".strip()
        steps[name] = round(steps.get(name, 0.0) + 1e6 * step.seconds, 1)
    return steps


def _samples(make: Callable[[], Any]) -> tuple[Row, dict[str, float]]:
    """Times of several calls, none of which finds anything in the cache, and the steps of the fastest."""
    samples: list[float] = []
    steps: dict[str, float] = {}
    while not samples or (len(samples) < REPEATS and sum(samples) < 1e6 * SECONDS):
        with sg.cache.empty():
            seconds, made = timed(make)
        samples.append(1e6 * seconds)
        if isinstance(made, sg.SparseOperator) and min(samples) == samples[-1]:
            steps = _steps_us(made)
        del made
    us, least = median(samples), min(samples)
    return {"time_us": round(us, 1), "least_us": round(least, 1), "samples": len(samples)}, steps


EXPERIMENTS = [
    Experiment(
        command="setup",
        about="from a matrix to an operator, beside CuPy's upload",
        file="setup",
        items=suite_items,
        seconds=240,
        start=start,
        measure=measure,
    )
]
