"""Measure: ``python -m experiments speed``. See experiments/README.md."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import spmvgpu as sg
from experiments import environment, peers
from experiments.clock import DeviceClock
from experiments.peers.problem import DTYPES
from experiments.records import EXPERIMENTS, RESULTS, Recorder, read
from experiments.report.summary import Results, summary

from . import memory, python_costs
from .products import DeviceLostError, Run, spmv
from .store import Store, default_workers
from .suite import Item, suite

Experiment = Callable[[Run, Recorder, float], None]
RUNNERS: dict[str, Experiment] = {
    "spmv": spmv,
    "overhead": python_costs.overhead,
    "roundtrip": python_costs.roundtrip,
    "memory": memory.memory,
}
# Part of the time budget kept for each experiment that is still to come.
RESERVE = {"spmv": 0.0, "overhead": 0.06, "roundtrip": 0.2, "memory": 0.06}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments speed", description=__doc__)
    add_common_options(parser)
    parser.add_argument("--experiments", default=",".join(EXPERIMENTS), help="comma-separated")
    options = parser.parse_args(arguments)
    options.dtype = names_of(parser, "--dtype", options.dtype, tuple(DTYPES))
    options.experiments = names_of(parser, "--experiments", options.experiments, EXPERIMENTS)
    return options


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """What every command that measures takes: where, on what, which part of it and for how long."""
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--device", default="auto", help="cuda:0, cpu or auto (a GPU if there is one)")
    parser.add_argument("--quick", action="store_true", help="a few small matrices")
    parser.add_argument("--only", default="", metavar="REGEX", help="matrices whose name matches")
    parser.add_argument(
        "--skip", default="", metavar="REGEX", help='leave out matching "library/variant" names'
    )
    parser.add_argument("--dtype", default="f64,f32", help="comma-separated, of f64 and f32")
    parser.add_argument(
        "--budget-seconds",
        type=float,
        default=float("inf"),
        metavar="N",
        help="start no new matrix after N s",
    )
    parser.add_argument(
        "--workers", type=int, default=None, help="processes that build matrices first (0: none)"
    )
    parser.add_argument(
        "--merge", action="store_true", help="keep the other matrices' rows of the files that are there"
    )


def names_of(parser: argparse.ArgumentParser, option: str, text: str, allowed: tuple[str, ...]) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in allowed:
            parser.error(f"{option}: {name!r} is not one of {', '.join(allowed)}")
    return names


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    items, left_out = suite(options.quick)
    runners = {name: RUNNERS[name] for name in options.experiments}
    return measure(options, items, left_out, runners, summary)


def measure(
    options: argparse.Namespace,
    items: list[Item],
    left_out: dict[str, str],
    experiments: dict[str, Experiment],
    summarise: Callable[[Results], str],
) -> int:
    """Run experiments on the matrices that the options let through; print what `summarise` says of them."""
    started = time.perf_counter()
    device = chosen_device(options.device)
    items = [item for item in items if re.search(options.only, item.name)]
    if not items:
        print(f"no matrix matches --only {options.only!r}", file=sys.stderr)
        return 2
    workers = options.workers
    if workers is None:
        workers = 0 if device == "cpu" else default_workers()
    store = Store(items, options.dtype, workers)
    try:
        usable, missing = peers.usable(device)
        for name, reason in {**missing, **left_out}.items():
            print(f"skipped: {name}: {reason}", flush=True)
        clock = None if device == "cpu" else DeviceClock()
        facts = environment.describe(device, usable)
        facts["missing_peers"] = missing
        if clock is None:
            facts["copy_bandwidth"] = {str(n): environment.cpu_copy_bandwidth(n) for n in (1, 2)}
        else:
            facts["copy_bandwidth"] = clock.copy_bandwidth()
            facts["copy_kernel_bandwidth"] = clock.copy_kernel_bandwidth()
        store.wait()
        skip = re.compile(options.skip) if options.skip else None
        run = Run(device, items, options.dtype, store, usable, clock, skip, started)
        folder = options.out / environment.slug(facts)
        run.say(
            f"{facts['device']}, {len(items)} matrices, {', '.join(peer.NAME for peer in usable)} -> {folder}"
        )
        complete = _experiments(run, options, experiments, folder, facts, left_out)
        print(summarise(read(folder)), flush=True)
        return 0 if complete else 3
    finally:
        store.close()


def _experiments(
    run: Run,
    options: argparse.Namespace,
    experiments: dict[str, Experiment],
    folder: Path,
    facts: dict[str, Any],
    left_out: dict[str, str],
) -> bool:
    names = list(experiments)
    for position, name in enumerate(names):
        record = Recorder(folder / f"{name}.json", facts)
        if options.merge:
            record.keep_other_matrices(item.name for item in run.items)
        for library, reason in facts["missing_peers"].items():
            record.skip(reason, library=library)
        for matrix, reason in left_out.items():
            record.skip(reason, matrix=matrix)
        later = sum(RESERVE[other] for other in names[position + 1 :])
        deadline = run.started + options.budget_seconds * (1 - later)
        try:
            experiments[name](run, record, deadline)
        except DeviceLostError as error:
            print(f"stopped: {error}. What was measured is kept; try --skip.", file=sys.stderr, flush=True)
            return False
        finally:
            record.write()
    return True


def chosen_device(wanted: str) -> str:
    names = [info.name for info in sg.devices()]
    if wanted == "auto":
        return next((name for name in names if name != "cpu"), "cpu")
    device = "cuda:0" if wanted == "cuda" else wanted
    if device not in names:
        raise SystemExit(f"no device {wanted!r}; there are: {', '.join(names)}")
    if device not in ("cpu", "cuda:0"):
        raise SystemExit(f"{wanted}: choose a GPU with CUDA_VISIBLE_DEVICES and measure cuda:0")
    return device
