"""Guo, Huang, Chen, Lee, Chen, Wang: A Model-Driven Partitioning and Auto-tuning Integrated Framework for
Sparse Matrix-Vector Multiplication on GPUs, TeraGrid 2011.

The samples and fits of the paper's model (figures 3 to 6); on the 14 matrices of Bell and Garland, what
tuning gains (figures 7 to 9), and the approach against CSR, ELL and HYB (figure 10). Beyond the paper: how
far the predictions of the model are off, and what its choices cost.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from experiments.clock import timed
from experiments.papers import guo2011_figures as pictures
from experiments.papers import guo2011_fits as fits
from experiments.papers import guo2011_predictions as predictions
from experiments.papers.guo2011_claims import (
    APPROACH,
    BEST_CUT,
    COO,
    CSR,
    ELL,
    HYB,
    OVER,
    TUNING,
    approach_claims,
    percent,
    tuned,
    tuning_claims,
)
from experiments.papers.guo2011_matrices import GUO2011, further_matrices, load_paper_matrix
from experiments.papers.guo2011_models import PAD_ALWAYS, Models, in_force
from experiments.papers.measure import Variant, measure_kernel
from experiments.papers.run import Run, Table
from experiments.peers.problem import DTYPES, Problem
from experiments.records import Row
from spmvgpu.devices import resolve_device
from spmvgpu.papers.guo2011_planning import check
from spmvgpu.planning.calibrate import calibrate
from spmvgpu.planning.profile import Profile, load_profile

TITLE = (
    "Guo et al. 2011: a performance model, partitioning into CSR and ELL, and tuning in single precision"
    " (measured there on a GeForce GTX 295)"
)


FULL = {"tune": "full"}
# A warp per row, reduced by shuffles: what of tuning is not the number of lanes.
SHUFFLES = Variant("CSR, shuffles", "csr", {"kernel": "shuffle", "lanes_per_row": 32})
EVERY_KERNEL = Variant("csr, tuned", "csr", FULL)
TUNED = (
    Variant(tuned(CSR), "csr", {"kernel": "shuffle", **FULL}),
    Variant(tuned(ELL), "ellpack", {**PAD_ALWAYS, **FULL}),
    Variant(tuned(HYB), "hyb", FULL),
    Variant(tuned(COO), "coo", FULL),
)


def add_arguments(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """The options of this experiment besides every paper's."""
    parser.add_argument(
        "--dtype", choices=tuple(DTYPES), default="f32", help="precision (default: f32, the paper's)"
    )
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
    run.records.update({kind: [] for kind in ("samples", "partitions", "predictions", "choices")})
    found, timed = _profile(run, profile)
    models = Models(run, dtype, found)
    fits.record_samples(run, models.paper, timed, dtype)
    with in_force(found, models.ordinal):
        _measure(run, models)
    report(run)
    run.claims = [
        *fits.fit_claims(run, models.paper),
        *tuning_claims(run),
        *approach_claims(run),
        *predictions.prediction_claims(run),
    ]
    run.finish()


def report(run: Run) -> None:
    """Print the tables and draw the figures."""
    fits.draw(run)
    _products(run, [entry["matrix"] for entry in run.records["partitions"]])
    _predictions(run)


def _profile(run: Run, path: Path | None) -> tuple[Profile, dict[str, list[Row]]]:
    """The profile that is given, or a new one with the timings of its samples."""
    ordinal = resolve_device(run.device)
    if path is not None:
        print(f"profile: {path}\n", flush=True)
        return load_profile(ordinal, path, check), {}
    seconds, (profile, samples) = timed(lambda: calibrate(ordinal, quick=run.quick, sections=True))
    run.environment["calibration_seconds"] = round(seconds, 1)
    print(f"calibrated in {seconds:.0f} seconds\n", flush=True)
    return profile, samples


def _measure(run: Run, models: Models) -> None:
    """Time everything."""
    for wanted in GUO2011:
        sample = run.introduce(load_paper_matrix(wanted, run.quick))
        problem = Problem.make(sample.matrix, DTYPES[models.dtype])
        models.compare(sample, problem)
        measured = partial(measure_kernel, run, sample, models.dtype, problem)
        for variant in (SHUFFLES, EVERY_KERNEL):
            measured(variant)
        whole = {variant.format: measured(variant) for variant in TUNED}
        models.approach(sample, problem, whole)
    for sample in further_matrices(run.quick):
        run.introduce(sample)
        models.compare(sample, Problem.make(sample.matrix, DTYPES[models.dtype]))


def _products(run: Run, names: list[str]) -> None:
    """Figures 7 to 10 and their tables."""
    rates = run.values("gflops")
    for number, label in enumerate(TUNING, 7):
        title = f"Figure {number}: Performance evaluation on {label} kernel"
        shown: Table = {each: rates.get(each, {}) for each in (label, tuned(label))}
        run.bars(f"figure{number}", title, "GFLOPS", shown, names)
    title = "Figure 10: Performance of the approach against CSR, ELL and HYB kernel"
    shown = {label: rates.get(label, {}) for label in (CSR, ELL, HYB, BEST_CUT, APPROACH)}
    run.bars("figure10", title, "GFLOPS", shown, names)
    _partitions(run, names)
    gains: Table = {f"over {label}": percent(run.gains(APPROACH, label)) for label in OVER}
    run.table("gain of the approach (%)", gains, names)
    tunings: Table = {label: percent(run.gains(tuned(label), label)) for label in (CSR, ELL, HYB, COO)}
    run.table("gain of tuning (%)", tunings, names)


def _partitions(run: Run, names: list[str]) -> None:
    """Decisions of the paper's model."""
    times: Table = {APPROACH: {}, BEST_CUT: {}} | run.values("time_us")
    order = ("format", "predicted", "us", "rows in CSR", "nnz in CSR", "cut predicted", "cut us")
    columns: Table = {column: {} for column in order}
    for entry in run.records["partitions"]:
        name = entry["matrix"]
        columns["format"][name] = entry["chosen"]
        columns["predicted"][name] = f"{entry['predicted_us']:.1f}"
        for what in ("rows", "nnz") if "cut_us" in entry else ():
            above, below = entry[f"csr_{what}"], entry[f"ell_{what}"]
            columns[f"{what} in CSR"][name] = f"{above / (above + below):.1%}"
        if "cut_us" in entry:
            columns["cut predicted"][name] = f"{entry['cut_us']:.1f}"
        for column, label in (("us", APPROACH), ("cut us", BEST_CUT)):
            if name in times[label]:
                columns[column][name] = f"{times[label][name]:.1f}"
    title = "what the paper's model decides on, and its best cut into CSR and ELL (microseconds)"
    run.table(title, columns, names, "")


def _predictions(run: Run) -> None:
    """Errors of predictions by format, and costs of choices by matrix."""
    off = predictions.mean_errors(run)
    run.table("mean absolute error of the predicted times (%)", {"guo2011": off}, list(off))
    title = "time of what the model picks, over that of the best format"
    run.table(title, {"guo2011": predictions.losses(run)}, run.matrices, ".2f")
    if off:
        title = f"Predicted and measured time of a product; grey: within {predictions.ERROR:.0%}"
        run.draw("predictions", title, pictures.predictions, predictions.points(run), predictions.ERROR)
