"""From SciPy matrix to solution: conversion, choice of the format, transfers, iterations and all."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from typing import Any

import numpy as np

import spmvgpu as sg
from experiments.clock import timed
from experiments.engine import Run
from experiments.peers.problem import WrongResultError
from experiments.records import Row

from . import libraries, systems
from .systems import times_row

RTOL = 1e-8
SLACK = 3.0
MAXITER = 20_000
MOST = 3  # solutions that are timed of each kind, fewer where one takes long
SECONDS = 2.0
JOB = "matrix to solution"


def solve(run: Run) -> Iterator[Row]:
    """All systems by all libraries.

    `variant` is "first" with an empty cache, "again" with what the first solution left there.
    """
    names = systems.QUICK if run.options.quick else systems.SYSTEMS
    contestants = libraries.solvers(run.on_gpu)
    _warm_up(contestants)
    # Seconds per unit of work of the system before, which say whether the next one fits the budget.
    pace: dict[str, float] = {}
    for name in names:
        if not run.fits(0, job=JOB, matrix=name):
            continue
        A = systems.matrix(name)
        b = systems.right_hand_side(A)
        case = {"job": JOB, **systems.describe(name, A)}
        work = A.nnz + 10 * A.shape[0]
        counted = _iterations(run, name, b, pace.get("iterations", 0.0) * work)
        pace["iterations"] = counted.pop("seconds") / work
        for library in contestants:
            each = pace.get(str(library), 0.0) * work
            solutions = 2 if library.name == "spmvgpu" else 1
            if run.fits(solutions * each, job=JOB, matrix=name, **library.fields):
                with run.noted(job=JOB, matrix=name, **library.fields):
                    took = yield from _measure(library, name, b, {**case, **counted})
                    pace[str(library)] = took / work


def _warm_up(contestants: list[libraries.Library]) -> None:
    """Load libraries, start the device: what a process pays once is measured by itself, in `start`."""
    A = systems.matrix("poisson2d_20")
    b = systems.right_hand_side(A)
    with sg.cache.empty():
        for library in contestants:
            assert library.solve is not None
            library.solve(A, b, {"rtol": RTOL})


def _iterations(run: Run, name: str, b: np.ndarray, expected: float) -> dict[str, Any]:
    """The number of iterations, counted in a solve that is not timed; not counted where that takes long."""
    if not run.on_gpu and expected > SECONDS:
        return {"seconds": expected}
    count = 0

    def step(x: Any) -> None:
        nonlocal count
        count += 1

    def count_them() -> None:
        op = sg.aslinearoperator(systems.matrix(name), device="cuda:0" if run.on_gpu else "cpu", tune="off")
        sg.linalg.cg(op, b, rtol=RTOL, maxiter=MAXITER, callback=step)

    with sg.cache.empty():
        seconds, _ = timed(count_them)
    return {"iterations": count, "seconds": seconds}


def _measure(
    library: libraries.Library, name: str, b: np.ndarray, case: dict[str, Any]
) -> Generator[Row, None, float]:
    """Time one library on one system; returns the seconds that a solution took."""
    assert library.solve is not None
    variants = ("first", "again") if library.name == "spmvgpu" else ("",)
    times: dict[str, list[float]] = {variant: [] for variant in variants}
    spent = 0.0
    while spent < SECONDS and len(times[variants[0]]) < MOST:
        with sg.cache.empty():
            for variant in variants:
                A = systems.matrix(name)
                took, x = timed(partial(library.solve, A, b, {"rtol": RTOL, "maxiter": MAXITER}))
                spent += took
                times[variant].append(took * 1e6)
                _check(A, x, b)
    for variant, samples in times.items():
        yield times_row(samples, **case, **library.fields, variant=variant)
    return spent / sum(map(len, times.values()))


def _check(A: Any, x: np.ndarray, b: np.ndarray) -> None:
    """The true residual; the one that the method updates, by which it ends, may be a little off."""
    residual = float(np.linalg.norm(b - A @ x) / np.linalg.norm(b))
    if not residual <= SLACK * RTOL:
        raise WrongResultError(f"the true residual is {residual:.1e}, asked for was {RTOL:.0e}")
