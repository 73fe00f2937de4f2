"""Measure products with complex matrices: ``python -m experiments complex``.

The general formats beside every algorithm of cuSPARSE and beside CuPy (on the CPU: SciPy), on the matrices of
`speed` with random phases.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

from experiments.peers import cupy, cusparse, ours, scipy
from experiments.peers.problem import COMPLEX
from experiments.records import Recorder
from experiments.report.complex_values import summary

from .products import Run, spmv
from .run import add_common_options, measure, names_of
from .suite import suite


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments complex", description=__doc__)
    add_common_options(parser)
    parser.set_defaults(dtype="c128")
    options = parser.parse_args(arguments)
    options.dtype = names_of(parser, "--dtype", options.dtype, tuple(COMPLEX))
    items, left_out = suite(options.quick)
    return measure(options, items, left_out, {"complex": complex_values}, summary)


def complex_values(run: Run, record: Recorder, deadline: float) -> None:
    """As `experiments.spmv`, with fewer of our variants."""
    prepare = partial(ours.prepare_general, device=run.device)
    mine = SimpleNamespace(NAME=ours.NAME, THREADED=ours.THREADED, prepare=prepare)
    others = (scipy,) if run.clock is None else (cusparse, cupy)
    spmv(replace(run, peers=[mine, *(peer for peer in others if peer in run.peers)]), record, deadline)
