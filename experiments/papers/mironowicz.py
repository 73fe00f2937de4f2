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
from experiments.papers.claims import quotients
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
    """Options of `experiment` besides the run."""
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
    _tables(run, _host(run))
    _pictures(run, _host(run))


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


def _tables(run: Run, host: str) -> None:
    orders = {entry["matrix"]: entry for entry in run.records["orders"]}
    bandwidths: Table = {
        heading: {name: orders[name][field] for name in run.matrices}
        for heading, field in (("as given", "bandwidth"), ("after RCM", "rcm_bandwidth"))
    }
    run.table("Bandwidth: how far an entry lies from the diagonal", bandwidths, form=".0f")
    started = f"on the poster, starting cuSPARSE takes {POSTER_START} s"
    if START in run.records:
        started += f", here, CUDA being there, {run.records[START][0]['seconds']:.3f} s"
    seconds, products = (
        run.values(f"preprocess_{unit}", library="spmvgpu", order=RCM) for unit in ("seconds", "products")
    )
    columns: Table = {"poster [s]": by_beginning(POSTER_PREPROCESSING, run.matrices)}
    for label in (POSTER, TSMV):
        columns |= {f"{label} [products]": products.get(label, {})}
    run.table(f"Preprocessing after RCM; {started}", columns, form=".3f")
    for order, words in ORDERS.items():
        times = run.values("time_us", order=order)
        shown = (BEST_CUSPARSE, host, BEST_GENERAL, "csr", "sell", POSTER, TSMV)
        run.table(f"Microseconds a product, {words}", {label: times.get(label, {}) for label in shown})
    changes: Table = {f"poster: {label}": by_beginning(values, run.matrices)
                      for label, values in POSTER_CHANGE.items()}  # fmt: skip
    run.table("Change of time through RCM on the poster (%)", changes, form="+.0f")
    preprocessing = {label: seconds.get(label, {}) for label in (POSTER, TSMV)}
    run.bars("preprocessing", "Preprocessing", "seconds", preprocessing)


def _pictures(run: Run, host: str) -> None:
    speeds: Table = {}
    memory: Table = {}
    for order in ORDERS:
        times, ratios = run.values("time_us", order=order), run.values("memory_ratio", order=order)
        for label in (POSTER, TSMV):
            other = times.get(BEST_CUSPARSE, times.get(BEST_GENERAL, {}))
            speeds[f"{label}, {order}"] = quotients(other, times.get(label, {}))
            memory[f"{label}, {order}"] = ratios.get(label, {})
    over = "cuSPARSE" if run.values("time_us").get(BEST_CUSPARSE) else "our best general format"
    run.bars("speed", f"Speed over the best of {over}", "times as fast", speeds)
    run.bars("memory", "Memory of the matrix over CSR's with 32-bit indices", "of CSR", memory)
    changes: Table = {
        label: change(run, label) for label in (host, BEST_CUSPARSE, BEST_GENERAL, POSTER, TSMV)
    }
    run.bars("rcm", "Change of time through reverse Cuthill-McKee", "%", changes)
