"""From a SciPy matrix to the solution in NumPy: upload, choice of the format, set-up and solve included."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np

import spmvgpu as sg
from experiments.clock import timed
from experiments.engine import Run
from experiments.peers.problem import Problem, WrongResultError
from experiments.records import Row
from spmvgpu import linalg

from . import libraries, systems
from .libraries import MOST, RTOL, Library
from .systems import Array, System

PART = "whole"
REPEATS = 5
SECONDS = 3.0  # after which no more samples of one kind are taken
LONGEST = 60.0  # seconds of a solution without multigrid
SLACK = 3.0  # of the true residual over the tolerance; other libraries stop by the one that they update


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    system = systems.system_of(problem, systems.WHOLE, run.options.seed)
    what = {"part": PART, "matrix": system.name}
    ways: dict[str, Callable[[Run, System], Row]] = {
        "amg": multigrid,
        "once": partial(multigrid, cycle="once"),
        "AMLI": partial(multigrid, cycle="AMLI"),
        "jacobi": conjugate_gradients,
        "solve()": automatic,
    }
    for variant, rows in ways.items():
        named = {**what, "library": "spmvgpu", "variant": variant}
        seconds = _seconds_of_cg(run, system) if variant == "jacobi" else 0.0
        if seconds > LONGEST:
            run.record.skip(f"left out: it would take about {seconds:.0f} s", **named)
        elif run.fits(seconds, **named):
            with run.noted(**named):
                yield rows(run, system)
    for library in libraries.others(run.on_gpu):
        named = {**what, "library": library.name, "variant": library.variant}
        expected = library.seconds(system)
        if isinstance(expected, str):
            run.record.skip(expected, **named)
        elif run.fits(expected, **named):
            with run.noted(**named):
                yield of_another(library, system)


def _seconds_of_cg(run: Run, system: System) -> float:
    """About how long a solution takes without multigrid: some iterations for each point along an axis."""
    points = system.A.shape[0] ** (1 / system.kind.dim)
    return float(4 * points * system.A.nnz * (1e-11 if run.on_gpu else 1e-9))


def multigrid(run: Run, system: System, cycle: str = "auto") -> Row:
    """Multigrid set up by `amg`, for many solves or for one: the whole, and each part of it."""
    options: dict[str, Any] = {"B": system.modes, "cycle": cycle}

    def made() -> linalg.Multigrid:
        return linalg.amg(system.A, device=run.device, **options)

    def whole() -> tuple[linalg.Multigrid, Array]:
        M = made()
        return M, linalg.cg(M.A, system.b, rtol=RTOL, M=M)[0]

    whole_us, (M, x) = sampled(whole)
    setup_us, M = sampled(made)
    solve_us, x = sampled(lambda: linalg.cg(M.A, system.b, rtol=RTOL, M=M)[0])
    info = M.A.solve_info
    assert info is not None
    new = 1.5 * system.A.data
    update_us, _ = sampled(lambda: M.update_values(new))
    M.update_values(system.A.data)
    checked(system, linalg.cg(M.A, system.b, rtol=RTOL, M=M)[0])
    there = sg.aslinearoperator(system.A, device=run.device, format="csr")
    hierarchy_us, _ = sampled(lambda: linalg.amg(there, **options))
    return row(
        system, run, "amg" if cycle == "auto" else cycle, checked(system, x), whole_us,
        iterations=info.iterations, setup_us=setup_us, hierarchy_us=hierarchy_us, solve_us=solve_us,
        update_us=update_us,
        levels=[level.A.shape[0] for level in M.levels], complexity=round(M.operator_complexity, 3),
        format=M.A.format,
    )  # fmt: skip


def conjugate_gradients(run: Run, system: System) -> Row:
    """`cg` with the diagonal."""

    def whole() -> tuple[sg.SparseOperator, Array]:
        op = sg.aslinearoperator(system.A, device=run.device)
        return op, linalg.cg(op, system.b, rtol=RTOL, maxiter=MOST, M="jacobi")[0]

    us, (op, x) = sampled(whole)
    assert op.solve_info is not None
    iterations = op.solve_info.iterations
    return row(system, run, "jacobi", checked(system, x), us, iterations=iterations, format=op.format)


def automatic(run: Run, system: System) -> Row:
    """`solve`, and what it chose."""
    us, (x, how) = sampled(
        lambda: linalg.solve(system.A, system.b, rtol=RTOL, device=run.device, full_output=True)
    )
    found = how.tried[-1]
    return row(
        system, run, "solve()", checked(system, x), us, iterations=found.iterations, chose=str(found),
        tried=len(how.tried),
    )  # fmt: skip


def of_another(library: Library, system: System) -> Row:
    """A row of another library, from one solution where that takes long."""
    samples: list[libraries.Found] = []
    while not samples or (len(samples) < 3 and sum(map(_seconds, samples)) < SECONDS):
        samples.append(library.solve(system))
    best = min(samples, key=_seconds)
    return {
        "part": PART, **system.case, "library": library.name, "variant": library.variant,
        "device": library.device, "time_us": _us(_seconds(best)), "setup_us": _us(best.setup),
        "solve_us": _us(best.solve), "iterations": best.iterations,
        "residual": checked(system, best.x), "samples": len(samples),
    }  # fmt: skip


def _seconds(found: libraries.Found) -> float:
    return found.setup + found.solve


def _us(seconds: float) -> float:
    return round(1e6 * seconds, 1)


def sampled(call: Callable[[], Any]) -> tuple[float, Any]:
    """The median time in microseconds of calls that find nothing in the cache, and what the last returned."""
    samples: list[float] = []
    result = None
    while not samples or (len(samples) < REPEATS and sum(samples) < SECONDS):
        del result  # before the next call, which may need its memory
        with sg.cache.empty():
            seconds, result = timed(lambda: _finished(call()))
        samples.append(seconds)
    return _us(median(samples[1:] or samples)), result


def _finished(result: Any) -> Any:
    """A result for which all work on the GPU is done; CuPy is loaded where a GPU is measured beside it."""
    if "cupy" in sys.modules:
        import cupy

        cupy.cuda.Device().synchronize()
    return result


def checked(system: System, x: Array) -> float:
    """The true residual, which must be about what was asked for."""
    residual = system.residual(np.asarray(x))
    if not residual <= SLACK * RTOL:
        raise WrongResultError(f"the true residual is {residual:.1e}, asked for was {RTOL:.0e}")
    return residual


def row(system: System, run: Run, variant: str, residual: float, us: float, **more: Any) -> Row:
    """A row of this library."""
    return {
        "part": PART, **system.case, "library": "spmvgpu", "variant": variant,
        "device": "gpu" if run.on_gpu else "cpu", "time_us": us, "residual": residual, **more,
    }  # fmt: skip
