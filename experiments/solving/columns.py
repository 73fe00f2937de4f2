"""Several right-hand sides beside one: what each further column costs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

import spmvgpu as sg
from experiments import peers
from experiments.engine import Run
from experiments.peers.problem import Problem, WrongResultError
from experiments.records import Row
from spmvgpu import linalg

from . import libraries, systems
from .libraries import MOST, RTOL
from .systems import Array, System
from .whole import SLACK, sampled

PART = "columns"
COUNTS = (1, 4, 16)


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    """`cg` with vectors where the library keeps them, without and with multigrid."""
    system = systems.system_of(problem, systems.COLUMNS, run.options.seed)
    B = np.random.default_rng(run.options.seed).standard_normal((system.A.shape[0], max(COUNTS)))
    op = sg.aslinearoperator(system.A, device=run.device)
    described = {"part": PART, **system.case, "device": "gpu" if run.on_gpu else "cpu"}
    for variant in ("none", "amg"):
        M = linalg.amg(op, B=system.modes) if variant == "amg" else None
        for count in COUNTS:
            what = {"part": PART, "matrix": system.name, "library": "spmvgpu", "variant": variant}
            if not run.fits(0, **what, columns=count):
                continue
            with run.noted(**what, columns=count):
                b = _there(run, B[:, 0] if count == 1 else B[:, :count])
                us, x = sampled(partial(_solved, op, b, M))
                info = op.solve_info
                assert info is not None
                yield {
                    **described, "library": "spmvgpu", "variant": variant, "columns": count, "time_us": us,
                    "iterations": info.iterations, "format": op.format,
                    "residual": _checked(system, B, x, count),
                }  # fmt: skip
    if run.on_gpu and "cupy" not in libraries.missing(True):
        for count in COUNTS:
            if run.fits(count, part=PART, matrix=system.name, library="cupy", columns=count):
                with run.noted(part=PART, matrix=system.name, library="cupy", columns=count):
                    us, x = sampled(partial(_by_cupy, *_on_cupy(system, B[:, :count])))
                    yield {
                        **described, "library": "cupy", "variant": "none", "columns": count, "time_us": us,
                        "residual": _checked(system, B, x, count),
                    }  # fmt: skip


def _there(run: Run, B: Array) -> Any:
    """An array on the device, or in host memory where there is no CuPy."""
    if not run.on_gpu or "cupy" in libraries.missing(True):
        return np.ascontiguousarray(B)
    import cupy

    return cupy.asarray(B)


def _solved(op: sg.SparseOperator, b: Any, M: Any) -> Any:
    return linalg.cg(op, b, rtol=RTOL, maxiter=MOST, M=M)[0]


def _on_cupy(system: System, B: Array) -> tuple[Any, Any]:
    import cupy
    import scipy.sparse as sp
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix(sp.csr_matrix(system.A)), cupy.asarray(B)


def _by_cupy(G: Any, B: Any) -> Any:
    """CuPy takes one right-hand side at a time."""
    import cupy
    from cupyx.scipy.sparse.linalg import cg

    options = {peers.cupy.tolerance(cg): RTOL, "maxiter": MOST}
    X = cupy.stack([cg(G, B[:, column], **options)[0] for column in range(B.shape[1])], axis=1)
    cupy.cuda.Device().synchronize()
    return X


def _checked(system: System, B: Array, x: Any, count: int) -> float:
    X = x.get() if hasattr(x, "get") else np.asarray(x)
    X, wanted = X.reshape(len(X), -1), B[:, :count]
    norms = np.linalg.norm(wanted - system.A @ X, axis=0) / np.linalg.norm(wanted, axis=0)
    residual = float(norms.max())
    if not residual <= SLACK * RTOL:
        raise WrongResultError(f"the true residual is {residual:.1e}, asked for was {RTOL:.0e}")
    return residual
