"""Measure the symmetric format: ``python -m experiments symmetric``.

Its variants beside CSR and SELL of this library and every algorithm of cuSPARSE (on the CPU: SciPy and
MKL), on finite element matrices in reverse Cuthill-McKee order, the same one for all, and as they come.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from experiments.peers import cusparse, mkl, ours, scipy
from experiments.peers.problem import DTYPES
from experiments.records import Recorder
from experiments.report.symmetric import summary

from .products import Run, spmv
from .run import add_common_options, measure, names_of
from .symmetric_suite import symmetric_suite


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments symmetric", description=__doc__)
    add_common_options(parser)
    options = parser.parse_args(arguments)
    options.dtype = names_of(parser, "--dtype", options.dtype, tuple(DTYPES))
    items, left_out = symmetric_suite(options.quick)
    return measure(options, items, left_out, {"symmetric": symmetric}, summary)


def symmetric(run: Run, record: Recorder, deadline: float) -> None:
    """As `experiments.spmv`, with the peers that matter here and rows that say what storing costs."""
    mine = SimpleNamespace(
        NAME=ours.NAME, THREADED=ours.THREADED, prepare=partial(ours.prepare_symmetric, device=run.device)
    )
    others = (scipy, mkl) if run.clock is None else (cusparse,)
    peers = [mine, *(peer for peer in others if peer in run.peers)]
    record.complete = partial(completed, record.environment)
    spmv(replace(run, peers=peers), record, deadline)


def completed(environment: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """A row with what is worked out from it.

    `memory_ratio` is the matrix as stored over CSR with 32-bit indices; `predicted_us` the time in which a
    copy moves as many bytes; `preprocess_seconds` all of `setup_seconds` but the transfer, and
    `preprocess_products` how many products take as long.
    """
    size = DTYPES[row["dtype"]].itemsize
    csr_bytes = row["nnz"] * (size + 4) + (row["rows"] + 1) * 4
    vectors = (row["rows"] + row["cols"]) * size
    derived: dict[str, Any] = {"memory_ratio": round((row["bytes"] - vectors) / csr_bytes, 4)}
    bandwidth = environment.get("copy_kernel_bandwidth")
    if bandwidth is None:  # the CPU's are by number of threads
        bandwidth = environment["copy_bandwidth"].get(str(row.get("threads")))
    if bandwidth is not None:
        derived["predicted_us"] = round(1e6 * row["bytes"] / bandwidth, 3)
    if row["setup_seconds"]:
        seconds = sum(value for name, value in row["setup_seconds"].items() if name != "transfer")
        derived["preprocess_seconds"] = round(seconds, 6)
        derived["preprocess_products"] = round(1e6 * seconds / row["time_us"], 1)
    return {**row, **derived}
