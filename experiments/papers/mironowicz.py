"""Mironowicz, Dziekonski, Mrozowski: Efficient symmetric sparse matrix-vector product on a GPU (a poster).

The symmetric format `tsmv` against general kernels, in the order given and after reverse Cuthill-McKee: its
preprocessing, its speed, its memory, and what the reordering changes.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from typing import Any

import numpy as np

import spmvgpu as sg
from experiments.clock import timed
from experiments.papers import figures
from experiments.papers.matrices import Sample
from experiments.papers.mironowicz_claims import (
    BEST_CUSPARSE,
    BEST_GENERAL,
    GIVEN,
    POSTER,
    POSTER_CHANGE,
    POSTER_PREPROCESSING,
    POSTER_START,
    RCM,
    START,
    TSMV,
    all_claims,
    by_beginning,
    change,
    quotients,
)
from experiments.papers.mironowicz_matrices import MATRICES, Mesh, load
from experiments.papers.mironowicz_timing import Stopwatch, measure
from experiments.papers.run import Run, Table
from experiments.peers.problem import DTYPES
from spmvgpu.gallery import meshes

TITLE = (
    "Mironowicz, Dziekonski and Mrozowski: a task-scheduled symmetric product in half the storage (measured"
    " there on a Tesla C2075)"
)
STAND_INS = "generated: meshes like theirs with as many unknowns, nearly, in an order of their own"
ORDERS = {GIVEN: "in the order given", RCM: "in reverse Cuthill-McKee order"}


def add_arguments(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """What `experiment` takes besides the run."""
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="f64", help="precision (default: f64)")
    return ("dtype",)


def experiment(run: Run, dtype: str = "f64") -> None:
    """Measure, print, draw and write."""
    run.stand_ins = STAND_INS
    run.start(TITLE)
    stopwatch = Stopwatch(run)
    for peer in stopwatch.peers:
        run.environment["versions"].update(peer.versions())
    run.environment["host"] = {"device": sg.devices()[0].model, "cores": os.cpu_count()}
    for mesh in MATRICES:
        sample = run.introduce(load(mesh, run.quick))
        reordered = _reordered(run, sample, mesh)
        for order, matrix in ((GIVEN, sample.matrix), (RCM, reordered)):
            measure(run, stopwatch, replace(sample, matrix=matrix), order, dtype)
    if stopwatch.start_seconds is not None:
        run.records[START] = [{"library": "cusparse", "seconds": round(stopwatch.start_seconds, 6)}]
    report(run)
    run.claims = all_claims(run, _host(run))
    run.finish()


def report(run: Run) -> None:
    """Print the tables and draw the figures."""
    _tables(run, run.matrices, _host(run))
    _pictures(run, run.matrices)


def _host(run: Run) -> str:
    """The label of the product on the CPU."""
    return next(str(row["label"]) for row in run.rows if row["library"] in ("mkl", "scipy"))


def _reordered(run: Run, sample: Sample, mesh: Mesh) -> Any:
    dof = 1 if sample.origin == "real" else mesh.dof  # a real matrix may leave out entries of its blocks
    seconds, matrix = timed(lambda: meshes.cuthill_mckee(sample.matrix, dof))
    run.records.setdefault("orders", []).append(
        {
            "matrix": sample.name,
            "bandwidth": _bandwidth(sample.matrix),
            "rcm_bandwidth": _bandwidth(matrix),
            "rcm_seconds": round(seconds, 4),
        }
    )
    return matrix


def _bandwidth(matrix: Any) -> int:
    row = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))
    return int(np.abs(row - matrix.indices).max(initial=0))


def _tables(run: Run, names: list[str], host: str) -> None:
    def table(title: str, columns: Table, form: str) -> None:
        known = {label: values for label, values in columns.items() if values}
        if known:
            run.table(title, known, names, form)

    orders = {entry["matrix"]: entry for entry in run.records["orders"]}
    headings = {"as given": "bandwidth", "after RCM": "rcm_bandwidth"}
    bandwidths = {
        heading: {name: orders[name][field] for name in names} for heading, field in headings.items()
    }
    table("Bandwidth: how far an entry lies from the diagonal", bandwidths, ".0f")

    seconds = run.values("preprocess_seconds", library="spmvgpu", order=RCM)
    products = run.values("preprocess_products", library="spmvgpu", order=RCM)
    preprocessing: Table = {"poster [s]": by_beginning(POSTER_PREPROCESSING, names)}
    for label in (POSTER, TSMV):
        preprocessing[f"{label} [s]"] = seconds.get(label, {})
        preprocessing[f"{label} [products]"] = products.get(label, {})
    started = f"on the poster, starting cuSPARSE takes {POSTER_START} s"
    if START in run.records:
        started += f", here, CUDA being there, {run.records[START][0]['seconds']:.3f} s"
    table(f"Preprocessing after RCM; {started}", preprocessing, ".3f")

    for order, words in ORDERS.items():
        times = run.values("time_us", order=order)
        shown = (BEST_CUSPARSE, host, BEST_GENERAL, "csr", "sell", POSTER, TSMV)
        table(f"Microseconds a product, {words}", {label: times.get(label, {}) for label in shown}, ".1f")
        speed = {
            f"{label} / {other}": quotients(times.get(other, {}), times.get(label, {}))
            for label in (POSTER, TSMV)
            for other in (BEST_CUSPARSE, BEST_GENERAL, host)
        }
        table(f"How many times as fast, {words}", speed, ".2f")
    table("Memory of the matrix over CSR's with 32-bit indices", _memory(run), ".2f")
    changes = {f"poster: {label}": by_beginning(values, names) for label, values in POSTER_CHANGE.items()}
    changes |= {f"here: {label}": change(run, label) for label in (host, BEST_CUSPARSE, "csr", POSTER, TSMV)}
    table("Change of time through RCM (%)", changes, "+.0f")


def _memory(run: Run) -> Table:
    return {
        f"{label}, {order}": values[label]
        for order, values in ((order, run.values("memory_ratio", order=order)) for order in ORDERS)
        for label in (POSTER, TSMV)
        if label in values
    }


def _pictures(run: Run, names: list[str]) -> None:
    seconds = run.values("preprocess_seconds", library="spmvgpu", order=RCM)
    speeds, changes = {}, {}
    for order in ORDERS:
        times = run.values("time_us", order=order)
        for label in (POSTER, TSMV):
            gain = quotients(times.get(BEST_CUSPARSE, times.get(BEST_GENERAL, {})), times.get(label, {}))
            if gain:
                speeds[f"{label}, {order}"] = gain
    for label in (BEST_CUSPARSE, BEST_GENERAL, POSTER, TSMV):
        if change(run, label):
            changes[label] = change(run, label)
    over = "cuSPARSE" if run.values("time_us").get(BEST_CUSPARSE) else "our best general format"
    preprocessing = {label: seconds[label] for label in (POSTER, TSMV) if label in seconds}
    for name, title, unit, series in (
        ("preprocessing", "Preprocessing", "seconds", preprocessing),
        ("speed", f"Speed over the best of {over}", "times as fast", speeds),
        ("memory", "Memory of the matrix over CSR's", "of CSR", _memory(run)),
        ("rcm", "Change of time through reverse Cuthill-McKee", "%", changes),
    ):
        if series:
            run.draw(name, title, figures.bars, unit, names, series)
