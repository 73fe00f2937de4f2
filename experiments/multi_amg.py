"""Multigrid over several GPUs: `amg` and `cg` to a relative residual of 1e-8, as one whole job.

The grids have 1, 2 and 4 times as many unknowns: on 1, 2 and 4 GPUs each has as many unknowns (weak scaling),
and one grid on all numbers of GPUs shows how much faster more of them are (strong scaling). The operator is
there before; `b` is on the first GPU, where CuPy is installed. The residual of every solution is checked.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import numpy as np

import spmvgpu as sg
from spmvgpu import gallery, linalg

from .clock import timed
from .engine import Experiment, Items, Run
from .multi import device_lists
from .peers.problem import Problem
from .records import Row
from .setup import has_cupy
from .suite import Item

JOBS = 3
RTOL = 1e-8


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--unknowns", type=int, default=16_000_000, help="of a grid for one GPU")
    add("--counts", default="1,2,4", help="numbers of GPUs, comma-separated")


def _points(unknowns: float) -> int:
    """Along an edge of a grid."""
    return int(np.rint(np.cbrt(unknowns)))


def _modes(name: str) -> np.ndarray[Any, Any] | None:
    """The near null space of a system by its name."""
    kind, points = name.rsplit("_", 1)
    if kind != "elasticity3d":
        return None
    modes: np.ndarray[Any, Any] = gallery.rigid_body_modes(gallery.elasticity3d_points(int(points)))
    return modes


def items(options: argparse.Namespace) -> Items:
    unknowns = 8000 if options.quick else options.unknowns
    counts = list(map(int, options.counts.split(",")))
    grids = {f"poisson3d_{n}": partial(gallery.poisson3d, n) for n in (_points(unknowns * k) for k in counts)}
    n, small = _points(unknowns), _points(unknowns / 48)
    made: dict[str, Callable[[], Any]] = {
        **grids,
        f"jumps3d_{n}": partial(gallery.poisson3d, n, contrast=1e6),
        f"elasticity3d_{small}": partial(gallery.elasticity3d, small),
    }
    return [Item(name, "generated", make) for name, make in made.items()], {}


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    """Rows of one system, over one list of devices after the other."""
    described = {key: value for key, value in problem.describe().items() if key != "group"}
    B, b = _modes(described["matrix"]), np.ones(problem.matrix.shape[0], problem.matrix.dtype)
    for devices in device_lists(map(int, run.options.counts.split(","))):
        if "cpu" in devices and set(devices) != {"cpu"}:
            continue  # vectors stay in pieces on devices of one kind only
        if not run.fits(0, **problem.case, devices=devices):
            continue
        op = sg.aslinearoperator(problem.matrix, device=devices if len(devices) > 1 else devices[0])
        yield {**described, "library": "spmvgpu", "devices": devices, **_job(run, op, B, b)}


def _job(run: Run, op: Any, B: Any, b: Any) -> Row:
    """Times of setup and solution, and how they went."""
    given = b
    if has_cupy(run):
        import cupy

        given = cupy.asarray(b)
    setups, solves = [], []
    for _ in range(1 + JOBS):
        setup, M = timed(partial(linalg.amg, op, B=B))
        solve, found = timed(partial(linalg.cg, op, given, M=M, rtol=RTOL))
        setups.append(1e6 * setup)
        solves.append(1e6 * solve)
    info, x = op.solve_info, cast(Any, found[0])
    residual = float(np.linalg.norm(b - op @ np.asarray(x if given is b else x.get())) / np.linalg.norm(b))
    if not residual <= 2 * RTOL:
        raise SystemExit(f"the relative residual is {residual:.3g}, more than {2 * RTOL:.3g}")
    whole = [setup + solve for setup, solve in zip(setups[1:], solves[1:], strict=True)]
    setup, solve = (round(statistics.median(times[1:]), 2) for times in (setups, solves))
    return {
        "time_us": round(statistics.median(whole), 2), "least_us": round(min(whole), 2), "samples": JOBS,
        "setup_us": setup, "solve_us": solve, "iterations": info.iterations, "pieces": info.pieces,
        "residual": residual, "unknowns": [level.A.shape[0] for level in M.levels],
        "complexity": round(M.operator_complexity, 3),
    }  # fmt: skip


EXPERIMENTS = [
    Experiment(
        command="multi_amg",
        about="multigrid over several GPUs",
        file="multi_amg",
        items=items,
        measure=measure,
        dtypes=("f64",),
        add_options=add_options,
    )
]
