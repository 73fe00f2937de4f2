"""Whole jobs, as users run them: from matrix to solution, SciPy's loops, start of a process, products."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from experiments import peers
from experiments.engine import Experiment, Run
from experiments.records import Row

from . import libraries, loops, products, solve, start

THREAD_SETTINGS = (
    "OMP_", "GOMP_", "KMP_", "OPENBLAS_", "GOTO_NUM_THREADS", "MKL_", "BLIS_NUM_THREADS",
    "SPMVGPU_NUM_THREADS", "SPMVGPU_THREADS",
)  # fmt: skip


def prepare(run: Run) -> None:
    """Refuse settings that users do not have, and say what the jobs are measured with."""
    set_here = thread_settings(initial_environment())
    if set_here:
        raise ValueError(
            "the jobs are measured with default settings, as users run them, but this process was started "
            f"with {', '.join(set_here)}; start it without: "
            f"env -u {' -u '.join(set_here)} python -m experiments jobs"
        )
    if run.on_gpu and peers.cupy.available() is not None:
        raise ValueError("a GPU is measured beside CuPy, which is not installed; or give --device cpu")
    facts, missing = run.record.environment, libraries.missing(run.on_gpu)
    if "load_average" not in facts:
        if run.on_gpu:
            facts["versions"].update(peers.cupy.versions())
        facts |= {"missing_peers": missing, "load_average": os.getloadavg()[0]}
        facts["budget_seconds"] = run.options.budget_seconds
        for library, reason in missing.items():
            run.record.skip(reason, library=library)


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


def experiment(name: str, job: Callable[[Run], Iterator[Row]], reserve: float) -> Experiment:
    """A job, with the part of the time that is kept for it."""
    return Experiment(
        command="jobs",
        about="whole jobs: matrix to solution, SciPy's loops, start of a process",
        file="jobs",
        name=name,
        dtypes=(),
        seconds=240,
        reserve=reserve,
        start=prepare,
        measure=job,
    )


# In this order PyTorch, with threads of its own, is loaded last.
EXPERIMENTS = [
    experiment("solve", solve.solve, 0.35),
    experiment("loops", loops.loops, 0.27),
    experiment("start", start.start, 0.09),
    experiment("thousand", products.thousand, 0.09),
    experiment("columns", products.columns, 0.09),
]
