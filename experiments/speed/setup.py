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
from experiments import peers
from experiments.clock import timed
from experiments.engine import Experiment, Report, Run, Table
from experiments.goals import Mark, at_most
from experiments.peers.problem import Problem
from experiments.records import Content, Results, Row, ratio
from experiments.suite import suite_items
from experiments.tables import number

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
    if _has_cupy(run):
        _to_cupy(A)


def _has_cupy(run: Run) -> bool:
    return run.on_gpu and peers.cupy.available() is None


def _to_cupy(A: Any) -> Any:
    import cupy
    from cupyx.scipy.sparse import csr_matrix

    given = csr_matrix(A)
    cupy.cuda.Device().synchronize()
    return given


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    A = problem.matrix
    case = problem.size()
    sources = {"scipy": A}
    if _has_cupy(run):
        upload, _ = _samples(partial(_to_cupy, A))
        yield {**case, "library": "cupy", "variant": "csr", "source": "scipy", **upload}
        sources["cupy"] = _to_cupy(A)
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


# -- report --------------------------------------------------------------------------------------------------

HEAD = (
    "matrix", "dtype", "M non-zeros", "CuPy", *VARIANTS, "auto, x", "format", "from CuPy: auto", "products"
)  # fmt: skip
NOTE = (
    "Times in microseconds to make an operator on the GPU from a SciPy matrix with a million "
    "non-zeros or more, with an empty cache: CuPy's `csr_matrix(A)` and `aslinearoperator`. *x* is "
    "the time of `auto` over CuPy's time. The last columns are for a CuPy matrix, which is already on "
    "the GPU: the time of `auto`, and that time in products in the chosen format."
)
LEAST_NNZ = 1_000_000  # what the goals are for
GOAL, WORST, PRODUCTS = 0.75, 1.2, 60


def _cases(content: Content) -> dict[tuple[str, str], dict[tuple[str, str, str], Row]]:
    """The rows of every large matrix and type, by library, variant and source."""
    large = Content({}, [row for row in content.rows if row["nnz"] >= LEAST_NNZ])
    cases = large.grouped("matrix dtype", "library variant source")
    both = {("cupy", "csr", "scipy"), ("spmvgpu", "auto", "cupy")}
    return {case: found for case, found in cases.items() if both <= found.keys()}


def _over_cupy(case: dict[tuple[str, str, str], Row]) -> float | None:
    return ratio(case["spmvgpu", "auto", "scipy"], case["cupy", "csr", "scipy"])


def _in_products(row: Row) -> float:
    return float(row["time_us"] / row["product_us"])


def rows(content: Content) -> Table:
    for name, case in _cases(content).items():
        cupy, there = case["cupy", "csr", "scipy"], case["spmvgpu", "auto", "cupy"]
        ours = [case["spmvgpu", variant, "scipy"] for variant in VARIANTS]
        yield (
            *name, number(cupy["nnz"] / 1e6, 1), *(number(row["time_us"], 0) for row in (cupy, *ours)),
            _over_cupy(case), ours[-1]["format"], number(there["time_us"], 0), number(_in_products(there), 0),
        )  # fmt: skip


def goals(content: Content) -> list[Mark]:
    cases = {" ".join(name): case for name, case in _cases(content).items()}
    over = {name: _over_cupy(case) for name, case in cases.items()}
    products = {name: _in_products(case["spmvgpu", "auto", "cupy"]) for name, case in cases.items()}
    return [
        *at_most("auto from SciPy over CuPy's upload", over, mean=GOAL, each=WORST),
        *at_most("auto from CuPy, in products of the chosen format", products, each=PRODUCTS),
    ]


def against(results: Results) -> Iterator[str]:
    """How many products take as long as making the operator for them."""
    rows = results["setup"].rows if "setup" in results else []
    products = [
        _in_products(row)
        for row in rows
        if row["variant"] == "auto" and row["source"] == "scipy" and row["nnz"] >= LEAST_NNZ
    ]
    if products:
        yield (
            "**Few products.** Making an operator on the GPU takes as long as "
            f"{round(median(products), -1):.0f} products (median of {len(products)} matrices with a million "
            "non-zeros or more, transfer included)."
        )


EXPERIMENTS = [
    Experiment(
        command="setup",
        about="from a matrix to an operator, beside CuPy's upload",
        file="setup",
        items=suite_items,
        seconds=240,
        start=start,
        measure=measure,
        report=Report(
            30, "Making an operator", NOTE, HEAD, rows, goals=goals, needs_gpu=True, against=against
        ),
    )
]
