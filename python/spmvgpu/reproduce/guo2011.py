"""Guo, Huang, Chen, Lee, Chen, Wang: A Model-Driven Partitioning and Auto-tuning Integrated Framework for Sparse
Matrix-Vector Multiplication on GPUs, TeraGrid 2011.

The samples and fits of the paper's model (figures 3 to 6), what tuning gains (figures 7 to 9), and the
partitioned product against CSR, ELL and HYB (figure 10), all on the 14 matrices of Bell and Garland. Beyond
the paper: how far the predictions of both models are off, and what their choices cost.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import spmvgpu as sg
from spmvgpu.reproduce import guo2011_figures as pictures
from spmvgpu.reproduce import guo2011_predictions as predictions
from spmvgpu.reproduce.guo2011_claims import (
    COO,
    CSR,
    ELL,
    HYB,
    OURS,
    approach_claims,
    percent,
    tuned,
    tuning_claims,
)
from spmvgpu.reproduce.guo2011_matrices import GUO2011, further_matrices, load_paper_matrix
from spmvgpu.reproduce.matrices import Sample
from spmvgpu.reproduce.measure import NotMeasuredError, Problem, Variant, build
from spmvgpu.reproduce.run import Run, Table

TITLE = (
    "Guo et al. 2011: a performance model, partitioning into CSR and ELL, and tuning in single precision"
    " (measured there on a GeForce GTX 295)"
)

PRECISIONS = {"f32": np.float32, "f64": np.float64}

# The kernels of Bell and Garland 2009. ELL pads whatever the matrix, as theirs does.
PAD_ALWAYS = {"max_padding": 1000.0}
KERNELS = (
    Variant(CSR, "csr", {"kernel": "shared"}),  # a warp per row, reduced in shared memory: "CSR vector"
    Variant(ELL, "ellpack", PAD_ALWAYS),
    Variant(HYB, "hyb"),
    Variant(COO, "coo"),
)
FULL = {"tune": "full"}
TUNED = (
    Variant("CSR, shuffles", "csr", {"kernel": "shuffle", "lanes_per_row": 32}),
    Variant(tuned(CSR), "csr", {"kernel": "shuffle", **FULL}),
    Variant("csr, tuned", "csr", FULL),
    Variant(tuned(ELL), "ellpack", {**PAD_ALWAYS, **FULL}),
    Variant(tuned(HYB), "hyb", FULL),
    Variant(tuned(COO), "coo", FULL),
)
# The approach: the paper's model decides on the partition or the whole format, and the parts are tuned.
PARTITIONED = Variant(OURS, "partitioned", {"model": predictions.PAPER, **FULL})


def add_arguments(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """The options of this experiment besides every paper's."""
    parser.add_argument("--dtype", choices=tuple(PRECISIONS), default="f32", help="default: f32, as the paper")
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="a profile that `calibrate` wrote for this device, in place of calibrating",
    )
    return "dtype", "profile"


def experiment(run: Run, dtype: str = "f32", profile: Path | None = None) -> None:
    """Measure, print, draw and write."""
    run.start(TITLE)
    models = Models.make(run, dtype, profile)
    fits.measure_samples(run, models.paper, dtype, models.ordinal)
    names = []
    for wanted in GUO2011:
        sample = run.introduce(load_paper_matrix(wanted, run.quick))
        names.append(sample.name)
        problem = Problem.make(sample.matrix, PRECISIONS[dtype])
        for variant in (*TUNED, PARTITIONED):
            time_kernel(run, sample, dtype, problem, variant)
        models.separate(sample)
        models.try_on(sample, problem)
    for sample in further_matrices(run.quick):
        models.try_on(run.introduce(sample), Problem.make(sample.matrix, PRECISIONS[dtype]))
    fits.draw(run, models.paper)
    _figures(run, names)
    _tables(run, names)
    run.claims = [
        *fits.fit_claims(run, models.paper),
        *tuning_claims(run),
        *approach_claims(run),
        *predictions.prediction_claims(run),
    ]
    run.finish()


def _figures(run: Run, names: list[str]) -> None:
    rates = run.values("gflops")
    for number, label in enumerate(TUNING, 7):
        labels = (label, tuned(label))
        _bars(run, number, f"Performance evaluation on {label} kernel", names, rates, labels)
    labels = (CSR, ELL, HYB, OURS)
    _bars(run, 10, "Performance of the approach against CSR, ELL and HYB", names, rates, labels)
    for over in OVER:
        ...


def _bars(run: Run, number: int, title: str, names: list[str], rates: Table, labels: Sequence[str]) -> None:
    heading = f"Figure {number}: {title}"
    run.table(f"{heading} (GFLOPS)", {label: rates.get(label, {}) for label in labels}, names)
    bars = {label: rates[label] for label in labels if label in rates}
    if bars:
        run.figure(number, heading, "GFLOPS", names, bars)
