"""Yin, Zhang, Xu, Hu, He: Optimizing Sparse Matrix-Vector Multiplication Based on GPU, JATIT 42(2), 2012.

Computing performance, effective bandwidth and kernel time of CSR and ELLPACK kernels on six matrices: figures
12 to 17. The paper gives them as pictures only, so what is compared are its conclusions (`yin2012_claims`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import spmvgpu as sg
from experiments.papers.matrices import YIN2012, Sample
from experiments.papers.measure import NotMeasuredError, Variant, allowed_values, build, time_calls
from experiments.papers.run import Run
from experiments.papers.yin2012_claims import KEPT, NEW, NUMPY, all_claims
from experiments.peers.problem import Problem

TITLE = (
    "Yin et al. 2012: CSR-R, CSR-O, CSR-M, CSR-B and ELLPACK, ELLPACK-R, ELLR-T in single precision"
    " (measured there on a Tesla C1060)"
)

CSR_R = Variant("CSR-R", "csr", {"kernel": "shared"})
CSR_O = Variant("CSR-O", "csr", {"kernel": "half_warp"})
# With half warps, as section 5.1 has it: then the format is all that sets it apart from CSR-O.
# The host gathers, as in the paper, which leaves the kernel alone on the device.
CSR_M = Variant("CSR-M", "csr_m", {"gather": "host", "kernel": "half_warp"})
CSR_B = Variant("CSR-B", "csr_b")
CSR_M_WARP = Variant("CSR-M, warp", "csr_m", {"gather": "host", "kernel": "warp"})
CSR_M_DEVICE = Variant("CSR-M, device gather", "csr_m", {"gather": "device", "kernel": "half_warp"})
CSR_M_DEVICE_WARP = Variant("CSR-M, device gather, warp", "csr_m", {"gather": "device", "kernel": "warp"})
PAD_ALWAYS = {"max_padding": 1000.0}  # as the paper did, whatever the matrix
ELLPACK = Variant("ELLPACK", "ellpack", PAD_ALWAYS)
ELLPACK_R = Variant("ELLPACK-R", "ellpack_r", PAD_ALWAYS)
ELLR_T = Variant("ELLR-T", "ellr_t", PAD_ALWAYS)

KERNELS = (CSR_R, CSR_O, CSR_M, CSR_B, CSR_M_WARP, CSR_M_DEVICE, CSR_M_DEVICE_WARP, ELLPACK, ELLPACK_R)
# The bars of figures 12 to 14 and of figures 15 to 17.
CSR_LABELS = ("CSR-R", "CSR-O", "CSR-M", "CSR-B")
ELL_LABELS = ("ELLPACK", "ELLPACK-R", "ELLR-T")


def gflops(nnz: int, milliseconds: float) -> float:
    """Formula (1); it prints 10^9 for a T in milliseconds, which gives GFLOPS only with 10^6."""
    return 2 * nnz / (milliseconds * 1e6)


def bandwidth(label: str, nnz: int, rows: int, milliseconds: float) -> float:
    """Formulas (2) to (5) in GB/s, for 4-byte values and indices. Padding is not counted, and x only for CSR.

    CSR-B goes by (2), whose arrays it reads, and ELLR-T by (5).
    """
    if label.startswith("CSR-M"):
        size = 2 * 4 * nnz + 4 * (rows * 3 + 1)  # (3)
    elif label.startswith("CSR"):
        size = 3 * 4 * nnz + 4 * (rows * 3 + 1)  # (2)
    elif label == "ELLPACK":
        size = 2 * 4 * nnz + 2 * 4 * rows  # (4)
    else:
        size = 2 * 4 * nnz + 3 * 4 * rows  # (5)
    return size / (milliseconds * 1e6)


def experiment(run: Run) -> None:
    """Measure, print, draw and write."""
    run.start(TITLE)
    samples = []
    for wanted in YIN2012:
        sample = run.load(wanted)
        problem = Problem.make(sample.matrix, np.float32)
        for variant in KERNELS:
            _kernel(run, sample, problem, variant)
        _tuned_ellr_t(run, sample, problem)
        for variant in (CSR_O, CSR_M, CSR_M_DEVICE):
            _called_from_numpy(run, sample, problem, variant)
        samples.append(sample)
    report(run)
    run.claims = all_claims(run, samples)
    run.finish()


def _kernel(run: Run, sample: Sample, problem: Problem, variant: Variant) -> dict[str, Any] | None:
    """Time products on the device: the kernel alone, as the paper does, unless the device gathers."""
    try:
        op, size = build(problem, variant, run.device)
    except NotMeasuredError as error:
        run.skip(sample, "f32", variant.label, error)
        return None
    gathers = variant.options.get("gather")
    if gathers == "host" and run.on_cpu:
        op.set_x(problem.x)  # a CPU, which is its own host, would gather in every product
        time_us = time_calls(op, [problem.x], run.repeats)
    else:
        time_us = op.time_products(run.repeats)
    return _add(run, sample, variant, op, size, time_us, NEW if gathers == "device" else KEPT)


def _tuned_ellr_t(run: Run, sample: Sample, problem: Problem) -> None:
    """Time every T; the fastest is the paper's ELLR-T."""
    variants = (
        replace(ELLR_T, label=f"ELLR-{threads}", options={**PAD_ALWAYS, "threads_per_row": threads})
        for threads in allowed_values("ellr_t", "threads_per_row") or [1]
    )
    rows = [_kernel(run, sample, problem, variant) for variant in variants]
    run.tune(ELLR_T.label, [row for row in rows if row is not None])


def _called_from_numpy(run: Run, sample: Sample, problem: Problem, variant: Variant) -> None:
    """Time products whose x is a NumPy array, and a new one every time."""
    try:
        op, size = build(problem, variant, run.device)
    except NotMeasuredError:
        return  # said already
    _add(run, sample, variant, op, size, time_calls(op, [problem.x, -problem.x], run.repeats), NUMPY)


def _add(
    run: Run, sample: Sample, variant: Variant, op: sg.SparseOperator, size: int, time_us: float, x: str
) -> dict[str, Any]:
    nnz, (rows, cols) = op.nnz, op.shape
    if op.format == "csr_m":
        # What a kernel reads and writes, wherever the arrays are kept: values, col_x, row offsets and y, and
        # to gather, column indices, x and col_x.
        size = 8 * nnz + 8 * rows + 4 + (0 if x == KEPT else 8 * nnz + 4 * cols)
    return run.add(
        sample,
        "f32",
        op.format,
        label=variant.label,
        time_us=time_us,
        bytes=size,
        gflops=gflops(nnz, time_us / 1e3),
        formula_gb_per_s=bandwidth(variant.label, nnz, rows, time_us / 1e3),
        stored_gb_per_s=size / time_us / 1e3,
        options=op.options,
        x=x,
        how="call" if run.on_cpu or x == NUMPY else "graph",
    )


def report(run: Run) -> None:
    """Print the tables and draw the figures."""
    quantities = (
        ("Computing performance", "GFLOPS, formula (1)", "gflops"),
        ("Memory bandwidth", "GB/s, formulas (2) to (5)", "formula_gb_per_s"),
        ("Running time", "microseconds a product", "time_us"),
    )
    for family, first, labels in (("CSR", 12, CSR_LABELS), ("ELLPACK", 15, ELL_LABELS)):
        for number, (title, unit, field) in enumerate(quantities, first):
            values = run.values(field, x=KEPT)
            heading = f"Figure {number}: {title} based on {family} SpMV kernels"
            run.bars(f"figure{number}", heading, unit, {label: values.get(label, {}) for label in labels})
    kept, new, numpy = (run.values("time_us", x=x) for x in (KEPT, NEW, NUMPY))
    stored = run.values("stored_gb_per_s", x=KEPT)
    title = "GB/s of the arrays as they are stored, padding included, and of x and y once"
    run.table(title, {label: stored.get(label, {}) for label in (*CSR_LABELS, *ELL_LABELS)})
    threads = {label: kept[label] for label in kept if label.startswith("ELLR-") and label != ELLR_T.label}
    run.table("ELLR-T by threads per row (microseconds)", threads)
    gathered = {label: kept.get(label, {}) for label in ("CSR-O", "CSR-M", CSR_M_WARP.label)}
    gathered |= {variant.label: new.get(variant.label, {}) for variant in (CSR_M_DEVICE, CSR_M_DEVICE_WARP)}
    run.table("CSR-M with x gathered beforehand, and on the device every time (microseconds)", gathered)
    run.table("Products from NumPy arrays whose x changes every time (microseconds)", numpy)
