"""Direct solvers: from a SciPy matrix to the solution in NumPy, and again with new values."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from experiments.engine import Run
from experiments.peers.problem import Problem
from experiments.records import Row
from spmvgpu import linalg

from . import libraries, systems
from .systems import Array, System
from .whole import checked, sampled

PART = "direct"
GROWTH = 1.5  # of all values, in place of others


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    """`spsolve` and `splu` on the device, beside SciPy on the CPU where there is a GPU."""
    system = systems.system_of(problem, systems.DIRECT, run.options.seed)
    known = {library.name: library for library in libraries.LIBRARIES if library.variant == "direct"}
    by_cudss = run.on_gpu
    ways = {"spmvgpu": known["cudss" if by_cudss else "scipy"]}
    if run.on_gpu:
        ways["scipy"] = known["scipy"]
    for name, like in ways.items():
        what = {"part": PART, "matrix": system.name, "library": name}
        expected = like.seconds(system)
        if name == "spmvgpu" and by_cudss and "cudss" in libraries.missing(True):
            run.record.skip("cuDSS is not installed", **what)
        elif isinstance(expected, str):
            run.record.skip(expected, **what)
        elif run.fits(expected, **what):
            with run.noted(**what):
                fields = _ours(run, system) if name == "spmvgpu" else _scipy(system)
                yield {"part": PART, **system.case, "library": name, "variant": "direct", **fields}


def _ours(run: Run, system: System) -> Row:
    device = run.device
    time_us, x = sampled(lambda: linalg.spsolve(system.A, system.b, device=device))
    setup_us, factors = sampled(lambda: linalg.splu(system.A, device=device))
    solve_us, _ = sampled(lambda: factors.solve(system.b))
    new = GROWTH * system.A.data

    def again() -> Array:
        factors.update_values(new)
        solved: Array = factors.solve(system.b)
        return solved

    update_us, grown = sampled(again)
    checked(system, GROWTH * np.asarray(grown))
    return {
        "device": "gpu" if run.on_gpu else "cpu", "time_us": time_us, "setup_us": setup_us,
        "solve_us": solve_us, "update_us": update_us, "factors_nnz": factors.nnz,
        "residual": checked(system, x),
    }  # fmt: skip


def _scipy(system: System) -> Row:
    """SciPy's functions, for which new values are another matrix."""
    time_us, x = sampled(lambda: sla.spsolve(sp.csc_array(system.A), system.b))
    setup_us, factors = sampled(lambda: sla.splu(sp.csc_array(system.A)))
    solve_us, _ = sampled(lambda: factors.solve(system.b))
    return {
        "device": "cpu", "time_us": time_us, "setup_us": setup_us, "solve_us": solve_us,
        "update_us": round(setup_us + solve_us, 1), "factors_nnz": int(factors.nnz),
        "residual": checked(system, x),
    }  # fmt: skip
