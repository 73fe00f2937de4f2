"""Tao, Huang: Shuffle Reduction Based Sparse Matrix-Vector Multiplication on Kepler GPU, 2015.

CSR with a warp per row, whose partial sums are reduced in shared memory or by warp shuffles: throughput in
single and double precision on eleven matrices (figures 3 and 4 of section 4.2), and the average gain.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from experiments.papers.claims import FAILS, HOLDS, Claim, judge, judge_average, spread
from experiments.papers.matrices import TAO2015, Sample
from experiments.papers.measure import Variant, allowed_values, measure_kernel
from experiments.papers.run import Run, Table
from experiments.peers.problem import DTYPES, Problem
from experiments.records import geometric_mean

TITLE = "Tao and Huang 2015: shared-memory against shuffle reduction in CSR (measured there on a Tesla K20M)"

NAMES = {"f32": "single precision", "f64": "double precision"}
CLAIMED = {"f32": 5.3, "f64": 9.1}  # average gain in per cent, section 4.2

SHARED = Variant("shared memory", "csr", {"kernel": "shared"})
# 32 lanes, as `shared` has: then the reduction is all that differs.
SHUFFLE = Variant("shuffle", "csr", {"kernel": "shuffle", "lanes_per_row": 32})
DEFAULT = Variant("csr default", "csr")
TUNED = "shuffle, tuned lanes"
LABELS = (SHARED.label, SHUFFLE.label, TUNED, DEFAULT.label)
WARP = 32


def experiment(run: Run) -> None:
    """Measure, print, draw and write."""
    run.start(TITLE)
    samples = []
    for wanted in TAO2015:
        sample = run.load(wanted)
        for dtype, precision in DTYPES.items():
            problem = Problem.make(sample.matrix, precision)
            for variant in (SHARED, SHUFFLE, DEFAULT):
                measure_kernel(run, sample, dtype, problem, variant)
            _tuned(run, sample, dtype, problem)
        samples.append(sample)
    report(run)
    run.claims = [
        *(_average_claim(run, dtype, samples) for dtype in DTYPES),
        _everywhere(run),
        *(_lanes(run, dtype) for dtype in DTYPES),
    ]
    run.finish()


def report(run: Run) -> None:
    """Print the tables and draw the figures."""
    for number, dtype in enumerate(DTYPES, 3):
        values = run.values("gflops", dtype=dtype)
        heading = f"Figure {number}: Throughput of {NAMES[dtype]} data"
        run.bars(f"figure{number}", heading, "GFLOPS", {label: values.get(label, {}) for label in LABELS})
        gains: Table = {"gain": _percent(run, dtype)}
        run.table(f"gain of shuffle over shared memory, {NAMES[dtype]} (%)", gains)


def _tuned(run: Run, sample: Sample, dtype: str, problem: Problem) -> None:
    """Time every number of lanes per row and mark the fastest."""
    found = []
    for lanes in allowed_values("csr", "lanes_per_row"):
        label = f"shuffle, {lanes} lanes"
        variant = replace(SHUFFLE, label=label, options={"kernel": "shuffle", "lanes_per_row": lanes})
        row = measure_kernel(run, sample, dtype, problem, variant)
        if row is not None:
            found.append(row)
    run.tune(TUNED, found)


def _percent(run: Run, dtype: str) -> dict[str, float]:
    gains = run.gains(SHUFFLE.label, SHARED.label, dtype=dtype)
    return {name: 100 * (gain - 1) for name, gain in gains.items()}


def _average_claim(run: Run, dtype: str, samples: list[Sample]) -> Claim:
    percent = _percent(run, dtype)
    paper = f"shuffles gain {CLAIMED[dtype]} % on average in {NAMES[dtype]}"
    why = _cost_of_reduction(run, dtype, samples) if percent else ""
    return judge_average("4.2", paper, percent, CLAIMED[dtype], why)


def _cost_of_reduction(run: Run, dtype: str, samples: list[Sample]) -> str:
    """Cost of the reduction per row, from the time that shuffles save."""
    times = run.values("time_us", dtype=dtype)
    shared, shuffle = times[SHARED.label], times[SHUFFLE.label]
    saved, spent = [], []  # picoseconds per row, where rows are so short that a reduction weighs
    for sample in samples:
        rows = sample.matrix.shape[0]
        if sample.name in shared and sample.name in shuffle and sample.matrix.nnz < WARP * rows:
            saved.append(1e6 * (shared[sample.name] - shuffle[sample.name]) / rows)
            spent.append(1e6 * shared[sample.name] / rows)
    if not saved:
        return ""
    return (
        "a reduction is five steps a row, however long the row. Where rows hold less than a warp's 32"
        " entries, so"
        f" that it weighs most, shuffles save {np.mean(saved):.0f} ps of the {np.mean(spent):.0f} ps that a"
        f" row"
        " takes; the rest is reading the matrix and x, which both kernels do alike"
    )


def _everywhere(run: Run) -> Claim:
    gains = {
        f"{name} {dtype}": gain
        for dtype in DTYPES
        for name, gain in run.gains(SHUFFLE.label, SHARED.label, dtype=dtype).items()
    }
    paper = "shuffles surpass shared memory on every matrix, in both precisions"
    return judge("4.2", paper, gains, "speed of shuffle over shared memory")


def _lanes(run: Run, dtype: str) -> Claim:
    """Not a claim of the paper: what its fixed 32 lanes leave unused."""
    where, what = (
        "beyond the paper",
        f"the number of lanes matters more than the way of reducing, in {NAMES[dtype]}",
    )
    gains = run.gains(TUNED, SHUFFLE.label, dtype=dtype)
    reduction = run.gains(SHUFFLE.label, SHARED.label, dtype=dtype)
    if not gains or not reduction:
        return judge(where, what, {}, "speed")
    lanes, ways = geometric_mean(gains.values()), geometric_mean(reduction.values())
    options = run.values("options", dtype=dtype)[TUNED]
    best = ", ".join(f"{name} {options[name]['lanes_per_row']}" for name in gains)
    here = (
        f"the best number of lanes over 32: {lanes:.2f}x ({spread(gains.values())}); shuffle over shared"
        f" memory:"
        f" {ways:.2f}x; csr as it is by default over shuffle with 32 lanes:"
        f" {geometric_mean(run.gains(DEFAULT.label, SHUFFLE.label, dtype=dtype).values()):.2f}x"
    )
    return Claim(where, what, here, HOLDS if lanes > ways else FAILS, f"best lanes: {best}", gains)
