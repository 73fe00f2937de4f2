"""Time of ``op @ x`` with a device array, called from Python, beyond the kernel's own time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import spmvgpu as sg
from experiments import peers
from experiments.clock import Call, DeviceClock, Launch
from experiments.engine import Experiment, Report, Run, Table
from experiments.goals import Mark, at_most
from experiments.peers.problem import Problem
from experiments.records import Content, Row
from experiments.suite import Item
from experiments.tables import number

# Products of a few microseconds up to tens: there the cost of a call shows.
MATRICES = ("add32", "bcsstk16", "small_fem", "econ_like", "elast3d_20k", "poisson2d_1000", "web_like")


def choose(items: list[Item]) -> list[Item]:
    """Those matrices, or the first three where there is none of them."""
    return [item for item in items if item.name in MATRICES] or items[:3]


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    if run.clock is None:
        raise peers.NotApplicableError("a call with a device array needs a GPU")
    import cupy

    clock, x = run.clock, problem.on_device.x
    y = cupy.empty(problem.matrix.shape[0], dtype=problem.dtype)
    for format in ("auto", "csr"):
        op = sg.aslinearoperator(problem.matrix, format=format, device=run.device)
        problem.check(op @ x)
        calls = {f"{format}: {name}": call for name, call in _ours(op, x, y).items()}
        launch = partial(_launch, op, x, y)
        yield from _calls(clock, problem, "spmvgpu", calls, launch, {"format": op.format})
    A = peers.cupy.matrix(problem)
    launch_theirs = peers.cupy.launch_into(A, x, y)
    yield from _calls(clock, problem, "cupy", {"csr: A @ x": lambda: A @ x}, launch_theirs, {})


def _ours(op: sg.SparseOperator, x: Any, y: Any) -> dict[str, Call]:
    return {"op @ x": lambda: op @ x, "op.spmv(x, out=y)": lambda: op.spmv(x, out=y)}


def _launch(op: sg.SparseOperator, x: Any, y: Any, stream: int) -> None:
    op.spmv(x, out=y, stream=stream)


def _calls(
    clock: DeviceClock, problem: Problem, library: str, calls: dict[str, Call], launch: Launch, options: Any
) -> Iterator[Row]:
    kernel = clock.hot({"": launch})[""].us
    for variant, call in calls.items():
        timing = clock.python_calls(call)
        times = {
            "time_us": timing.batch.us, "kernel_us": kernel, "overhead_us": timing.batch.us - kernel,
            "issue_us": timing.issue_us, "latency_us": timing.latency_us,
        }  # fmt: skip
        rounded = {name: round(us, 3) for name, us in times.items()}
        yield {**problem.describe(), "library": library, "variant": variant, **rounded, "options": options}


# -- report --------------------------------------------------------------------------------------------------

GOAL = 12  # microseconds
HEAD = ("matrix", "call", "dtype", "kernel", "per call", "overhead", "host time", "one call and wait")
NOTE = (
    "Times in microseconds of calls with a CuPy array. *Overhead* is the time per call in a row "
    "of calls, less the time of the kernel."
)


def rows(content: Content) -> Table:
    for row in content.rows if content.on_gpu else ():
        format, _, call = row["variant"].partition(": ")
        times = ("kernel_us", "time_us", "overhead_us", "issue_us", "latency_us")
        numbers = (number(row[key], 1) for key in times)
        yield row["matrix"], f"{row['library']} {format}: `{call}`", row["dtype"], *numbers


def goals(content: Content) -> list[Mark]:
    ours = {
        f"{row['matrix']} {row['dtype']}, {row['variant']}": row["overhead_us"]
        for row in content.rows
        if row["library"] == "spmvgpu" and row["variant"].endswith("op @ x")
    }
    return at_most("overhead of op @ cupy_array, us", ours, each=GOAL)


EXPERIMENTS = [
    Experiment(
        command="speed",
        file="overhead",
        choose=choose,
        reserve=0.06,
        measure=measure,
        report=Report(110, "Calls from Python", NOTE, HEAD, rows, goals=goals, needs_gpu=True),
    )
]
