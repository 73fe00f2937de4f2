"""An iteration of `cg` beside a copy of the matrix and of eight vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import spmvgpu as sg
from experiments import peers
from experiments.clock import DeviceClock
from experiments.engine import Run
from experiments.peers.problem import Problem
from experiments.records import Row
from spmvgpu import linalg

from . import libraries, systems
from .whole import sampled

PART = "iteration"
#: Iterations of the two solves whose difference counts, so that what a solve takes once does not.
SHORT, LONG = 100, 300
VECTORS = 8
BANDWIDTH = "copy_kernel_bandwidth"


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    """With vectors on the device, and as many iterations as are asked for."""
    system = systems.system_of(problem, systems.ITERATION, run.options.seed)
    described = {"part": PART, **system.case, "device": "gpu" if run.on_gpu else "cpu"}
    op = sg.aslinearoperator(system.A, device=run.device)
    b: Any = system.b
    has_cupy = run.on_gpu and "cupy" not in libraries.missing(True)
    if has_cupy:
        import cupy

        b = cupy.asarray(b)
        if BANDWIDTH not in run.record.environment:
            run.record.environment[BANDWIDTH] = DeviceClock().copy_bandwidth(by_kernel=True)
    bandwidth = run.record.environment.get(BANDWIDTH)
    for variant in ("none", "jacobi"):
        what = {"part": PART, "matrix": system.name, "library": "spmvgpu", "variant": variant}
        if not run.fits(0, **what):
            continue
        with run.noted(**what):
            us = _iteration_us(partial(_ours, op, b, None if variant == "none" else linalg.jacobi(op)))
            moved = op.nbytes + VECTORS * b.nbytes
            yield {
                **described, "library": "spmvgpu", "variant": variant, "time_us": us, "format": op.format,
                "bytes": moved, **({"copy_us": round(1e6 * moved / bandwidth, 2)} if bandwidth else {}),
            }  # fmt: skip
    what = {"part": PART, "matrix": system.name, "library": "cupy", "variant": "none"}
    if has_cupy and run.fits(1, **what):
        with run.noted(**what):
            us = _iteration_us(_by_cupy(system, b))
            yield {**described, "library": "cupy", "variant": "none", "time_us": us}


def _iteration_us(solve: Callable[[int], Any]) -> float:
    times = [sampled(partial(solve, iterations))[0] for iterations in (SHORT, LONG)]
    return round((times[1] - times[0]) / (LONG - SHORT), 3)


def _ours(op: sg.SparseOperator, b: Any, M: Any, iterations: int) -> None:
    linalg.cg(op, b, rtol=0, atol=0, maxiter=iterations, M=M)
    assert op.solve_info is not None
    if op.solve_info.iterations != iterations:
        raise ValueError(f"{op.solve_info.iterations} iterations, and not {iterations}")


def _by_cupy(system: systems.System, b: Any) -> Callable[[int], None]:
    import scipy.sparse as sp
    from cupyx.scipy.sparse import csr_matrix
    from cupyx.scipy.sparse.linalg import cg

    G = csr_matrix(sp.csr_matrix(system.A))
    options = {peers.cupy.tolerance(cg): 0.0, "atol": 0.0}
    return lambda iterations: cg(G, b, maxiter=iterations, **options)
