"""Measure whole jobs, as users run them: ``python -m experiments jobs``. See experiments/README.md."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from experiments import environment, peers
from experiments.records import RESULTS, Recorder
from experiments.report.jobs import summary
from experiments.speed.run import chosen_device, names_of

from . import libraries
from .imports import imports, info
from .loops import loops
from .products import columns, thousand
from .run import Run
from .solve import solve
from .start import start

# In this order PyTorch, with threads of its own, is loaded last. Each with its part of the time budget; what
# one leaves, the later ones have.
JOBS: dict[str, tuple[Callable[[Run], None], float]] = {
    "solve": (solve, 0.4),
    "loops": (loops, 0.3),
    "start": (start, 0.1),
    "imports": (imports, 0.1),
    "info": (info, 0.02),
    "thousand": (thousand, 0.1),
    "columns": (columns, 0.1),
}
THREAD_SETTINGS = (
    "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "GOTO_NUM_THREADS", "MKL_", "BLIS_NUM_THREADS",
    "SPMVGPU_NUM_THREADS", "SPMVGPU_THREADS",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    started = time.perf_counter()
    options = parse(arguments)
    set_here = thread_settings(initial_environment())
    if set_here:
        print(
            "The jobs are measured with default settings, as users run them, but this process was started "
            f"with {', '.join(set_here)}. Start it without: "
            f"env -u {' -u '.join(set_here)} python -m experiments jobs",
            file=sys.stderr,
        )
        return 2
    gpu = chosen_device(options.device) != "cpu"
    missing = libraries.missing(gpu)
    if gpu and peers.cupy.available() is not None:
        print("a GPU is measured beside CuPy, which is not installed; or give --device cpu", file=sys.stderr)
        return 2
    measured = [peers.ours, peers.scipy, *([peers.cupy] if gpu else [])]
    facts = environment.describe("cuda:0" if gpu else "cpu", measured)
    facts |= {"missing_peers": missing, "load_average": os.getloadavg()[0], "budget_seconds": options.seconds}
    record = Recorder(options.out / environment.slug(facts) / "jobs.json", facts)
    for library, reason in missing.items():
        record.skip(reason, library=library)
    run = Run(gpu, options.quick, record, started)
    run.say(f"{facts['device']} -> {options.out / environment.slug(facts)}")
    try:
        share = 0.0
        whole = sum(JOBS[name][1] for name in options.jobs)
        for name in options.jobs:
            job, part = JOBS[name]
            share += part / whole
            run.deadline = started + share * options.seconds
            job(run)
        if "torch" not in missing:
            facts["versions"].update(peers.torch.versions())
    finally:
        record.write()
    print(summary({"environment": facts, "rows": record.rows, "skipped": record.skipped}))
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m experiments jobs", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--device", default="auto", help="cuda:0, cpu or auto (a GPU if there is one)")
    parser.add_argument(
        "--seconds", type=float, default=240.0, help="time budget; what does not fit is left out and named"
    )
    parser.add_argument("--jobs", default=",".join(JOBS), help=f"comma-separated, of {', '.join(JOBS)}")
    parser.add_argument("--quick", action="store_true", help="two small matrices")
    options = parser.parse_args(arguments)
    chosen = names_of(parser, "--jobs", options.jobs, tuple(JOBS))
    options.jobs = [name for name in JOBS if name in chosen]
    if not options.seconds > 0:
        parser.error(f"--seconds is {options.seconds:g}; give a positive number")
    return options


def initial_environment() -> dict[str, str]:
    """The environment that the process was started with, whatever has been changed since."""
    file = Path("/proc/self/environ")
    if not file.is_file():
        return dict(os.environ)
    entries = (entry.decode(errors="replace") for entry in file.read_bytes().split(b"\0"))
    return {name: value for name, equals, value in (entry.partition("=") for entry in entries) if equals}


def thread_settings(variables: Mapping[str, str]) -> list[str]:
    """Variables that tell some library how many threads to use, or how these wait."""
    return sorted(name for name in variables if name.startswith(THREAD_SETTINGS))
