"""Predicted beside measured times of every format, on matrices that no model was fitted to.

The rows are those of the other results, with what either model predicted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from experiments import suite
from experiments.engine import Experiment, Items, Report, Run, Table
from experiments.goals import Mark, at_most
from experiments.peers import NotApplicableError
from experiments.peers.problem import Problem
from experiments.records import Content, Row
from experiments.suite import Item
from spmvgpu import gallery
from spmvgpu.devices import device_name, resolve_device
from spmvgpu.formats import variant_name
from spmvgpu.inputs.csr import CanonicalCsr
from spmvgpu.papers.guo2011_planning import CSR_VECTOR
from spmvgpu.planning import calibrate, measure
from spmvgpu.planning.predict import MODELS, predict_csr
from spmvgpu.planning.profile import load_profile

AUTO = "auto"  # the variant of what format="auto" took

# -- matrices ------------------------------------------------------------------------------------------------


def shuffled_grid() -> sp.csr_array:
    """A grid numbered at random."""
    grid = gallery.poisson2d(700)
    order = np.random.default_rng(3).permutation(grid.shape[0])
    return grid[order][:, order]


def triangle() -> sp.csr_array:
    """Rows of every length from 1 to 3000."""
    return sp.tril(np.ones((3000, 3000)), format="csr")


def trefethen() -> sp.csr_array:
    """Ones where the distance from the diagonal is a power of two, 20000 rows."""
    n = 20_000
    offsets = [0] + [sign * (1 << k) for k in range(15) for sign in (-1, 1)]
    return sp.diags_array([np.ones(n)] * len(offsets), offsets=offsets, shape=(n, n), format="csr")


def block_diagonal() -> sp.csr_array:
    """Dense blocks of 50 on the diagonal."""
    return sp.kron(sp.eye_array(2000), np.ones((50, 50)), format="csr")


def in_links() -> sp.csr_array:
    """The web graph of the real matrices by its in-links: more skewed."""
    return suite.real_matrix("cnr-2000").T.tocsr()


def coupled_graph() -> sp.csr_array:
    """A power law with four unknowns a node."""
    return sp.kron(gallery.powerlaw(60_000, 7, exponent=2.4), np.ones((4, 4)), format="csr")


def long_band() -> sp.csr_array:
    return gallery.banded_random(400_000, 50, 30_000)


OTHERS: dict[str, Callable[[], sp.csr_array]] = {
    "shuffled_grid_700": shuffled_grid,
    "triangle_3000": triangle,
    "trefethen_20000": trefethen,
    "block_diagonal_50": block_diagonal,
    "cnr-2000_in_links": in_links,
    "coupled_graph_4": coupled_graph,
    "long_band_400k": long_band,
}


def items(options: argparse.Namespace) -> Items:
    """The suite, and generated matrices of kinds that no calibration sample has."""
    found, left_out = suite.suite(options.quick)
    if not options.quick:
        found += [Item(name, "generated", make) for name, make in OTHERS.items()]
    return found, left_out


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--profile", type=Path, help="instead of the device's own")
    parser.add_argument("--max-nnz", type=float, default=6e7, help="leave out larger ones")


# -- rows ----------------------------------------------------------------------------------------------------


def compare(run: Run, problem: Problem) -> Iterator[Row]:
    """A row per variant that either model knows, and one of what ``format="auto"`` takes."""
    csr, ordinal = problem.matrix, resolve_device(run.device)
    if csr.nnz > run.options.max_nnz:
        raise NotApplicableError(f"{csr.nnz} non-zeros")
    profile = load_profile(ordinal, run.options.profile)
    described = {key: value for key, value in problem.describe().items() if key != "group"}
    canonical = CanonicalCsr.of(csr)
    predicted = {
        model: {p.name: p.time_us for p in predict_csr(canonical, ordinal, model, profile)}
        for model in MODELS
    }
    variants = calibrate.variants(ordinal)
    if CSR_VECTOR not in variants:
        variants = [*variants, CSR_VECTOR]
    for record in measure.time_variants(problem.name, csr, variants, described["dtype"], ordinal):
        variant = variant_name(record["format"], record["options"])
        yield {
            **described, "bytes": record["bytes"], "time_us": record["time_us"], "library": "spmvgpu",
            "variant": variant, "cache": "hot",
            **{f"{model}_us": predicted[model].get(variant) for model in MODELS},
        }  # fmt: skip
    with sg.cache.empty():
        op = sg.aslinearoperator(csr, device=device_name(ordinal))
    yield {
        **described, "bytes": op.nbytes, "library": "spmvgpu", "variant": AUTO, "format": op.format,
        "time_us": round(op.time_products(measure.series_of(csr.nnz)), 4), "cache": "hot",
        **{f"{model}_us": None for model in MODELS},
    }  # fmt: skip


# -- report --------------------------------------------------------------------------------------------------

SHOWN = ("roofline", "guo2011")
ERROR, CHOICE, WORST_CHOICE, PRODUCTS, CALIBRATION = 0.15, 1.05, 1.25, 40, 120
AUTO_CHOICE, WORST_OF_AUTO = 1.01, 1.10
LARGE_NNZ = 1_000_000
HEAD = ("format", "", "cases", *(f"error of {model}" for model in SHOWN))
NOTE = (
    "Mean absolute error of the predicted time of a product, on matrices that no model was fitted to. "
    "`roofline` is the library's model. `guo2011` is the model of Guo et al. 2011, which covers four "
    "formats."
)


def errors(rows: Sequence[Row], model: str, variant: str | None = None) -> list[float]:
    """Absolute relative errors, of one variant or of all that the model knows."""
    return [
        abs(row[f"{model}_us"] / row["time_us"] - 1)
        for row in rows
        if row[f"{model}_us"] is not None and variant in (None, row["variant"])
    ]


def losses(rows: Sequence[Row], model: str) -> dict[str, float]:
    """By matrix: the time of the format predicted to be the fastest over that of the fastest one it knows."""
    cases: dict[str, list[Row]] = {}
    for row in rows:
        if row[f"{model}_us"] is not None:
            cases.setdefault(f"{row['matrix']} {row['dtype']}", []).append(row)
    return {
        case: min(own, key=lambda row: row[f"{model}_us"])["time_us"] / min(row["time_us"] for row in own)
        for case, own in cases.items()
    }


def losses_of_auto(rows: Sequence[Row]) -> dict[str, float]:
    """By matrix: the time of what ``format="auto"`` took over that of the fastest variant, or its own."""
    fastest: dict[str, float] = {}
    taken: dict[str, float] = {}
    for row in rows:
        case = f"{row['matrix']} {row['dtype']}"
        fastest[case] = min(row["time_us"], fastest.get(case, row["time_us"]))
        if row["variant"] == AUTO:
            taken[case] = row["time_us"]
    return {case: time / fastest[case] for case, time in taken.items()}


def rows(content: Content) -> Table:
    for variant in dict.fromkeys(row["variant"] for row in content.rows if row["variant"] != AUTO):
        found = [errors(content.rows, model, variant) for model in SHOWN]
        format, _, options = variant.partition(" ")
        means = (f"{fmean(own):.1%}" if own else None for own in found)
        yield f"`{format}`", options, max(map(len, found)), *means


def goals(content: Content) -> list[Mark]:
    off = errors(content.rows, "roofline")
    if not off:
        return []
    text = f"mean absolute error {fmean(off):.1%} of {len(off)} products"
    best = losses(content.rows, "roofline")
    return [
        Mark("prediction of roofline", f"<= {ERROR:.0%}", text, fmean(off) <= ERROR),
        *at_most("format that roofline predicts, over the best", best, mean=CHOICE, each=WORST_CHOICE),
        *at_most(
            'format="auto", over the best', losses_of_auto(content.rows), mean=AUTO_CHOICE, each=WORST_OF_AUTO
        ),
    ]


def goals_of_trials(content: Content) -> Iterator[Mark]:
    """What the experiment of Guo et al. 2011 says of the trials of the library."""
    trials = content.parts.get("auto", [])
    lost = {f"{row['matrix']} {row['dtype']}": row["time_us"] / row["best_us"] for row in trials}
    yield from at_most('format="auto", after its trials, over the best', lost, mean=CHOICE, each=WORST_CHOICE)
    products = {row["matrix"]: row["products"] for row in trials if row["nnz"] > LARGE_NNZ}
    yield from at_most('products that the trials of format="auto" take', products, each=PRODUCTS)
    seconds = content.environment.get("calibration_seconds")
    if seconds is not None:
        yield Mark("calibration", f"< {CALIBRATION} s", f"{seconds:.0f} s", seconds < CALIBRATION)


EXPERIMENTS = [
    Experiment(
        command="prediction",
        about="predicted beside measured times of every format",
        file="prediction",
        items=items,
        seconds=240,
        measure=compare,
        add_options=add_options,
        report=Report(95, "Performance models", NOTE, HEAD, rows, goals=goals),
    ),
    Experiment(
        command="guo2011",  # of the papers, which writes this file
        file="reproduce/guo2011",
        report=Report(96, goals=goals_of_trials),
    ),
]
