"""What is paid around the product: calls from Python, and round trips of NumPy arrays through the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

import spmvgpu as sg
from experiments.clock import Call, DeviceClock, Launch, Timing, in_turns, wall_us
from experiments.peers.problem import Problem
from experiments.records import Recorder

from .products import Run, noted, release, until

# Products of a few microseconds up to tens: there the cost of a call shows. Where none of them is selected,
# the first three matrices are measured.
OVERHEAD_MATRICES = (
    "add32",
    "bcsstk16",
    "small_fem",
    "econ_like",
    "elast3d_20k",
    "poisson2d_1000",
    "web_like",
)
ROUNDTRIP_ROWS = 50_000
ROUNDTRIP_SECONDS = 0.25  # per library


def overhead(run: Run, record: Recorder, deadline: float) -> None:
    """Time of ``op @ x`` with a device array, called from Python, beyond the kernel's own time."""
    items = [item for item in run.items if item.name in OVERHEAD_MATRICES] or run.items[:3]
    for item, dtype in until(deadline, run, items, record):
        with noted(run, record, matrix=item.name, dtype=dtype):
            problem = run.store.get(item, dtype)
            if run.clock is None:
                _overhead_on_cpu(problem, record)
            else:
                _overhead_on_device(run, run.clock, problem, record)
        record.write()
    run.say(f"overhead: {len(record.rows)} rows")


def _overhead_on_device(run: Run, clock: DeviceClock, problem: Problem, record: Recorder) -> None:
    import cupy

    from experiments.peers import cupy as cupy_peer

    x = problem.on_device.x
    y = cupy.empty(problem.matrix.shape[0], dtype=problem.dtype)

    def measure(library: str, calls: dict[str, Call], launch: Launch, options: dict[str, Any]) -> None:
        kernel = clock.hot({"": launch})[""].us
        for variant, call in calls.items():
            timing = clock.python_calls(call)
            record.add(
                **problem.describe(),
                library=library,
                variant=variant,
                time_us=round(timing.batch.us, 3),
                kernel_us=round(kernel, 3),
                overhead_us=round(timing.batch.us - kernel, 3),
                issue_us=round(timing.issue_us, 3),
                latency_us=round(timing.latency_us, 3),
                options=options,
            )

    def measure_ours(format: str) -> None:
        op = sg.aslinearoperator(problem.matrix, format=format, device=run.device)
        problem.check(op @ x)
        calls: dict[str, Call] = {
            f"{format}: op @ x": lambda: op @ x,
            f"{format}: op.spmv(x, out=y)": lambda: op.spmv(x, out=y),
        }
        measure("spmvgpu", calls, lambda stream: op.spmv(x, out=y, stream=stream), {"format": op.format})

    measure_ours("auto")
    measure_ours("csr")
    A = cupy_peer.matrix(problem)
    measure("cupy", {"csr: A @ x": lambda: A @ x}, cupy_peer.launch_into(A, x, y), {})


def _overhead_on_cpu(problem: Problem, record: Recorder) -> None:
    op = sg.aslinearoperator(problem.matrix, format="csr", device="cpu")
    A, x, y = problem.matrix, problem.x, np.empty(problem.matrix.shape[0], dtype=problem.dtype)
    calls: list[tuple[str, str, Call]] = [
        ("spmvgpu", "csr: op @ x", lambda: op @ x),
        ("spmvgpu", "csr: op.spmv(x, out=y)", lambda: op.spmv(x, out=y)),
        ("scipy", "csr: A @ x", lambda: A @ x),
    ]
    for library, variant, call in calls:
        call()
        timing = Timing.of(wall_us(call, 0.1))
        record.add(**problem.describe(), library=library, variant=variant, time_us=round(timing.us, 3))


def roundtrip(run: Run, record: Recorder, deadline: float) -> None:
    """NumPy array in, NumPy array out: ``op @ x`` against ``cupy.asnumpy(G @ cupy.asarray(x))``."""
    if run.clock is None:
        record.skip("a round trip needs a GPU")
        record.write()
        return
    for item, dtype in until(deadline, run, run.items, record):
        with noted(run, record, matrix=item.name, dtype=dtype):
            problem = run.store.get(item, dtype)
            if problem.matrix.shape[0] >= ROUNDTRIP_ROWS:
                _roundtrip(run, problem, record)
            release(run, problem)
        record.write()
    run.say(f"roundtrip: {len(record.rows)} rows")


def _roundtrip(run: Run, problem: Problem, record: Recorder) -> None:
    import cupy

    from experiments.peers import cupy as cupy_peer

    op = sg.aslinearoperator(problem.matrix, device=run.device)
    G, x = cupy_peer.matrix(problem), problem.x
    calls: dict[tuple[str, str], Call] = {
        ("spmvgpu", "auto"): lambda: op @ x,
        ("cupy", "csr"): lambda: cupy.asnumpy(G @ cupy.asarray(x)),
    }
    for call in calls.values():
        problem.check(call())
    samples = in_turns(calls, ROUNDTRIP_SECONDS, least=7, most=300)
    for (library, variant), values in samples.items():
        timing = Timing.of(values)
        record.add(
            **problem.describe(),
            library=library,
            variant=variant,
            **timing.fields(),
            options={"format": op.format} if library == "spmvgpu" else {},
        )
