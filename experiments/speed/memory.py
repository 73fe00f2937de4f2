"""Does `nbytes` say what the allocator gave, and does making and dropping operators leak?"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import spmvgpu as sg
from experiments.engine import Experiment, Report, Run
from experiments.goals import Mark
from experiments.peers.problem import Problem
from experiments.records import Content, Row
from experiments.suite import Item

# Large, so that the allocator's granularity does not show.
PREFERRED = ("uniform_1M_40", "elast3d_160k", "elast3d_20k")
CYCLES = 1000
WARM_UP_CYCLES = 50


def choose(items: list[Item]) -> list[Item]:
    """A large matrix for the bytes of every format, and a small one for cycles; one may be both."""
    names = {item.name: item for item in items}
    large = next((names[name] for name in PREFERRED if name in names), items[-1])
    return list(dict.fromkeys((large, items[0])))


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    if problem.case["dtype"] != run.options.dtype[0]:
        return
    if problem.name == run.items[0].name:
        for format in (*sg.formats(), "auto"):
            with run.noted(**problem.case, library="spmvgpu", variant=format):
                yield _nbytes(run, problem, format)
    if problem.name == run.items[-1].name:
        yield from _cycles(run, problem)


def _nbytes(run: Run, problem: Problem, format: str) -> Row:
    """Compare `nbytes` with what the device (on the CPU: the process) has less of afterwards."""

    def make(A: Any) -> sg.SparseOperator:
        return sg.aslinearoperator(A, format=format, device=run.device)

    # Loading kernels and growing pools is not the operator's: have that done by a first one.
    make(problem.matrix[:1000]) @ problem.x
    gc.collect()
    before = _free_bytes(run)
    op = make(problem.matrix)
    nbytes, chosen, after = int(op.nbytes), op.format, _free_bytes(run)
    del op
    gc.collect()
    return {
        **problem.describe(), "library": "spmvgpu", "variant": format, "measure": "nbytes",
        "allocator": "device" if run.on_gpu else "resident set of the process", "bytes": nbytes,
        "bytes_taken": before - after, "options": {"format": chosen},
        "bytes_given_back": _free_bytes(run) - after,
    }  # fmt: skip


def _cycles(run: Run, problem: Problem) -> Iterator[Row]:
    formats = []
    for format in sg.formats():
        with run.noted(**problem.case, library="spmvgpu", variant=f"{format} cycles"):
            sg.aslinearoperator(problem.matrix, format=format, device=run.device)
            formats.append(format)

    def cycle(count: int) -> None:
        for number in range(count):
            op = sg.aslinearoperator(problem.matrix, format=formats[number % len(formats)], device=run.device)
            op @ problem.x

    cycle(WARM_UP_CYCLES)
    gc.collect()
    device, resident = _free_bytes(run), _process_bytes()
    cycle(CYCLES)
    gc.collect()
    yield {
        **problem.describe(), "library": "spmvgpu", "variant": ", ".join(formats), "measure": "cycles",
        "cycles": CYCLES, "device_bytes_lost": device - _free_bytes(run) if run.on_gpu else None,
        "resident_bytes_lost": _process_bytes() - resident,
    }  # fmt: skip


def _free_bytes(run: Run) -> int:
    """Free memory of the device, once CuPy has given back what it keeps; of a CPU less the more is used."""
    if not run.on_gpu:
        return -_process_bytes()
    import cupy

    cupy.cuda.runtime.deviceSynchronize()
    cupy.get_default_memory_pool().free_all_blocks()
    return int(cupy.cuda.runtime.memGetInfo()[0])


def _process_bytes() -> int:
    """Resident set of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# -- report --------------------------------------------------------------------------------------------------


def goals(content: Content) -> Iterator[Mark]:
    for row in content.rows:
        if row["measure"] == "cycles":
            lost, resident = row["device_bytes_lost"], row["resident_bytes_lost"]
            text = f"resident {resident / 2**20:+.1f} MiB"
            text += "" if lost is None else f", device {lost} bytes lost"
            # The resident set breathes by a few pages; a leak of whole operators would be far more.
            reached = (lost is None or lost <= 0) and resident < 16 * 2**20
            name = f"{row['cycles']} cycles of {row['variant']} on {row['matrix']}"
            yield Mark(name, "no leak", text, reached)
        elif row["allocator"] == "device":
            off = abs(row["bytes_taken"] / row["bytes"] - 1)
            text = f"{row['bytes']} said, {row['bytes_taken']} taken ({off:.2%} off)"
            yield Mark(f"nbytes of {row['variant']} on {row['matrix']}", "within 1 %", text, off <= 0.01)


EXPERIMENTS = [
    Experiment(
        command="speed",
        file="memory",
        choose=choose,
        reserve=0.06,
        measure=measure,
        report=Report(130, "Memory", goals=goals, goals_apart=True),
    )
]
