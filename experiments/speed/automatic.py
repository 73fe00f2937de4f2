"""Measure what one gets by default: ``python -m experiments auto``.

``format="auto"`` and ``csr`` beside every algorithm of cuSPARSE (on the CPU: beside MKL and SciPy), and
``op @ x`` beside CuPy's, on the matrices of `speed` and of further families, hot. The environment variable
CUSPARSE_LIBRARY names another cuSPARSE than CuPy's.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

from experiments.clock import DeviceClock
from experiments.peers import cupy, cusparse, mkl, ours, scipy
from experiments.peers.problem import DTYPES
from experiments.records import Recorder
from experiments.report.automatic import summary

from .families import all_items
from .products import Run, spmv
from .run import add_common_options, measure, names_of


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments auto", description=__doc__)
    add_common_options(parser)
    options = parser.parse_args(arguments)
    options.dtype = names_of(parser, "--dtype", options.dtype, tuple(DTYPES))
    items, left_out = all_items(options.quick)
    return measure(options, items, left_out, {"auto": automatic}, summary)


def automatic(run: Run, record: Recorder, deadline: float) -> None:
    """As `experiments.spmv`, with the default choice alone, and without flushes of the cache."""
    prepare = partial(ours.prepare_default, device=run.device)
    mine = SimpleNamespace(NAME=ours.NAME, THREADED=ours.THREADED, prepare=prepare)
    others = (scipy, mkl) if run.clock is None else (cusparse, cupy)
    peers = [mine, *(peer for peer in others if peer in run.peers)]
    if run.clock is not None:
        record.environment["empty_kernel_us"] = empty_kernel_us(run.clock)
    spmv(replace(run, peers=peers, flushes=False), record, deadline)


def empty_kernel_us(clock: DeviceClock) -> float:
    """Device time of a kernel that does nothing, among others like it in a graph."""
    import cupy as cp

    kernel = cp.RawKernel('extern "C" __global__ void nothing() {}', "nothing")
    return clock.hot({"nothing": lambda stream: kernel((1,), (32,), ())})["nothing"].us
