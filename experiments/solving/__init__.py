"""From a matrix to a solution: multigrid, columns, spectra, least squares, exponentials, factors, `solve`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

import spmvgpu as sg
from experiments.engine import Experiment, Items, Run
from experiments.peers.problem import Problem
from experiments.records import Row
from spmvgpu import gallery, linalg

from . import batches, columns, direct, libraries, spectra, systems, which, whole

SECONDS = 540.0
KINDS = {
    "whole": (whole.PART, systems.WHOLE),
    "columns": (columns.PART, systems.COLUMNS),
    "eigenvalues": (spectra.EIGENVALUES, systems.EIGENVALUES),
    "vibrations": (spectra.VIBRATIONS, systems.VIBRATIONS),
    "least_squares": (spectra.LEAST_SQUARES, systems.LEAST_SQUARES),
    "exponential": (spectra.EXPONENTIAL, systems.HEAT),
    "which": (which.PART, systems.WHICH),
    "direct": (direct.PART, systems.DIRECT),
    "batches": (batches.PART, systems.BATCHES),
}  # by the name that --experiments has


def items(options: argparse.Namespace) -> Items:
    """The matrices of the chosen experiments, so that ``--merge`` keeps those of the others."""
    chosen = [KINDS[name] for name in KINDS if name in options.experiments]
    return [item for part, kinds in chosen for item in systems.items(kinds, part, options)], {}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=_share, default=1.0, metavar="S",
                        help="part of the unknowns that all systems have, at most 1 (1)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of random coefficients (1)")


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not allowed; give a number above 0 and at most 1")
    return value


def start(run: Run) -> None:
    """Say what is missing, start the device, and load what a process loads once."""
    facts = run.record.environment
    if "missing_peers" in facts:  # an experiment of the same command has done so
        return
    facts["missing_peers"] = libraries.missing(run.on_gpu)
    facts["versions"].update(libraries.versions(run.on_gpu))
    for library, reason in facts["missing_peers"].items():
        run.record.skip(reason, library=library)
    A = gallery.poisson2d(70)
    b = np.ones(A.shape[0])
    small = systems.System("warm-up", systems.WHICH["grid"], A, b)
    with sg.cache.empty():
        op = sg.aslinearoperator(A, device=run.device)
        linalg.cg(op, b, M="amg")
        linalg.solve(A, b, device=run.device)
        linalg.eigsh(op, k=2, tol=1e-2)
        linalg.lsmr(op, b)
    for library in libraries.others(run.on_gpu):
        with run.noted(matrix=small.name, library=library.name, variant=library.variant):
            library.solve(small)


def experiment(
    name: str, measure: Callable[[Run, Problem], Iterator[Row]], reserve: float, file: str = "solve"
) -> Experiment:
    """One of the experiments, with the part of the time that is kept for it."""
    part, _ = KINDS[name]
    return Experiment(
        command="solve",
        about="from a matrix to a solution: multigrid, eigenvalues, least squares, factors, which solver",
        file=file,
        name=name,
        items=items,
        group=part,
        dtypes=("f64",),
        seconds=SECONDS,
        reserve=reserve,
        start=start,
        measure=measure,
        add_options=add_options,
    )


EXPERIMENTS = [
    experiment("whole", whole.measure, 0.35),
    experiment("columns", columns.measure, 0.05),
    experiment("eigenvalues", spectra.eigenvalues, 0.2),
    experiment("vibrations", spectra.vibrations, 0.05, "vibrations"),
    experiment("least_squares", spectra.least_squares, 0.1),
    experiment("exponential", spectra.exponential, 0.05, "exponential"),
    experiment("which", which.measure, 0.15),
    experiment("direct", direct.measure, 0.1),
    experiment("batches", batches.measure, 0.05, "batches"),
]
