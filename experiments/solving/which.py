"""Which solver: what `solve` chooses for unlike systems, beside every solver and preconditioner by name."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import spmvgpu as sg
from experiments.clock import timed
from experiments.engine import Run
from experiments.peers.problem import Problem
from experiments.records import Row
from spmvgpu import linalg

from . import libraries, systems
from .libraries import MOST, RTOL
from .systems import System

PART = "which"
LONGEST = 5.0  # seconds of a method, about
PACE = 20  # iterations that show how long one takes
RESTART = 50

# By what the matrix is: the solvers, and the preconditioners of each. "rigid" is "amg" with rigid body modes.
SYMMETRIC = ("none", "jacobi", "block_jacobi", "chebyshev", "ic0", "amg", "rigid")
METHODS: dict[bool | None, dict[str, tuple[str, ...]]] = {
    True: {"cg": SYMMETRIC, "minres": ("jacobi",)},
    False: {"minres": ("none", "jacobi"), "gmres": ("jacobi", "ilu0"), "bicgstab": ("ilu0",)},
    None: {"bicgstab": ("none", "jacobi", "ilu0"), "gmres": ("none", "jacobi", "ilu0")},
}


class Outcome(NamedTuple):
    """Result of a method."""

    seconds: float
    iterations: int
    residual: float
    words: str


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    """Result of `solve`, and then of each method by name."""
    system = systems.system_of(problem, systems.WHICH, run.options.seed)
    described = {"part": PART, **system.case, "seed": run.options.seed}
    own = {"library": "spmvgpu", "device": "gpu" if run.on_gpu else "cpu"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sg.linalg.SolverWarning)  # the rows say how each ended
        yield {**described, **own, "solver": "solve()", "preconditioner": "auto", **_automatic(run, system)}
        for solver, names in METHODS[system.kind.definite].items():
            for name in names:
                what = {"part": PART, "matrix": system.name, "solver": solver, "preconditioner": name}
                if (name == "rigid") > (system.modes is not None):
                    continue
                if run.fits(0, **what):
                    with run.noted(**what):
                        outcome = _by_name(run, system, solver, name)
                        yield {**described, **own, **what, **_fields(outcome)}
    yield from _direct(run, system, described)


def _fields(outcome: Outcome) -> Row:
    """A time only where there is a solution."""
    us = {"time_us": round(1e6 * outcome.seconds, 1)} if outcome.words == "converged" else {}
    residual = outcome.residual if np.isfinite(outcome.residual) else None
    return {**us, "outcome": outcome.words, "iterations": outcome.iterations, "residual": residual}


def _automatic(run: Run, system: System) -> Row:
    """`solve` as it is called without knowing more than the null space; the better of two."""
    options: dict[str, Any] = {"rtol": RTOL, "nullspace": system.nullspace, "device": run.device}
    times = []
    for _ in range(2):
        with sg.cache.empty():
            try:
                seconds, (x, how) = timed(
                    lambda: linalg.solve(system.A, system.b, full_output=True, **options)
                )
            except linalg.NotSolvedError as error:
                outcome = Outcome(0.0, 0, float("nan"), "no solution found")
                return {**_fields(outcome), "tried": [str(attempt) for attempt in error.tried]}
        times.append(seconds)
    found = how.tried[-1]
    outcome = Outcome(min(times), found.iterations, system.residual(np.asarray(x)), "converged")
    return {
        **_fields(outcome), "chose": str(found), "reason": how.reason,
        "tried": [str(attempt) for attempt in how.tried],
    }  # fmt: skip


def _by_name(run: Run, system: System, solver: str, name: str) -> Outcome:
    """One method from the SciPy matrix on, with no more iterations than about `LONGEST` allows."""
    options: dict[str, Any] = {"rtol": RTOL, "nullspace": system.nullspace}
    if solver == "gmres":
        options["restart"] = RESTART
    per_cycle = RESTART if solver == "gmres" else 1

    def solved(most: int) -> tuple[sg.SparseOperator, Any, int]:
        op = sg.aslinearoperator(system.A, device=run.device)
        M: Any = None if name == "none" else name
        if name == "rigid":
            M = linalg.amg(op, B=system.modes)
        cycles = max(1, most // per_cycle)
        x, info = getattr(linalg, solver)(op, system.b, M=M, maxiter=cycles, **options)
        return op, x, info

    with sg.cache.empty():
        try:
            start, _ = timed(lambda: solved(0))
            pace, (op, *_) = timed(lambda: solved(max(PACE, per_cycle)))
            assert op.solve_info is not None
            each = max(pace - start, 0.0) / max(op.solve_info.iterations, 1)
            most = min(MOST, int(LONGEST / max(each, 1e-7)))
            seconds, (op, x, info) = timed(lambda: solved(most))
        except (ValueError, np.linalg.LinAlgError) as error:
            return Outcome(0.0, 0, float("nan"), f"refused: {error}"[:120])
    how = op.solve_info
    assert how is not None
    words = "converged" if info == 0 else f"not in {how.iterations} iterations" if info > 0 else how.status
    return Outcome(seconds, how.iterations, system.residual(np.asarray(x)), words)


def _direct(run: Run, system: System, described: Row) -> Iterator[Row]:
    """Direct solvers, which need no definite matrix."""
    for library in libraries.others(run.on_gpu):
        what = {"part": PART, "matrix": system.name, "library": library.name, "solver": library.variant}
        if library.variant != "direct":
            continue
        if system.nullspace is not None:
            run.record.skip("the matrix is singular", **what)
            continue
        expected = library.seconds(system)
        if isinstance(expected, str):
            run.record.skip(expected, **what)
        elif run.fits(expected, **what):
            with run.noted(**what):
                found = library.solve(system)
                residual = system.residual(found.x)
                words = "converged" if residual <= RTOL else f"a residual of {residual:.0e}"
                outcome = Outcome(found.setup + found.solve, 0, residual, words)
                yield {
                    **described, **what, "device": library.device, "preconditioner": "none",
                    **_fields(outcome),
                }  # fmt: skip
