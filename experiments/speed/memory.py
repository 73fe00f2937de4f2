"""Does `nbytes` say what the allocator gave, and does making and dropping operators leak?"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path

import spmvgpu as sg
from experiments.peers.problem import Problem
from experiments.records import Recorder

from .products import Run, noted

# Large, so that the allocator's granularity does not show.
PREFERRED = ("uniform_1M_40", "elast3d_160k", "elast3d_20k")
CYCLES = 1000
WARM_UP_CYCLES = 50


def memory(run: Run, record: Recorder, deadline: float) -> None:
    """Memory of every format on one large matrix, and 1,000 create/multiply/destroy cycles on a small one."""
    names = {item.name: item for item in run.items}
    large = next((names[name] for name in PREFERRED if name in names), run.items[-1])
    free = _free_device_bytes if run.clock is not None else _process_bytes_negative
    problem = run.store.get(large, run.dtypes[0])
    for format in (*sg.formats(), "auto"):
        with noted(run, record, matrix=large.name, library="spmvgpu", variant=format):
            _measure_nbytes(run, problem, format, free, record)
    record.write()
    _cycles(run, run.store.get(run.items[0], run.dtypes[0]), free, record)
    record.write()
    run.say(f"memory: {len(record.rows)} rows")


def _measure_nbytes(
    run: Run, problem: Problem, format: str, free: Callable[[], int], record: Recorder
) -> None:
    """Compare `nbytes` with what the device (on the CPU: the process) has less of afterwards."""
    # Loading kernels and growing pools is not the operator's: have that done by a first one.
    first = sg.aslinearoperator(problem.matrix[:1000], format=format, device=run.device)
    first @ problem.x
    del first
    gc.collect()
    before = free()
    op = sg.aslinearoperator(problem.matrix, format=format, device=run.device)
    taken = before - free()
    record.add(
        **problem.describe(),
        library="spmvgpu",
        variant=format,
        measure="nbytes",
        allocator="device" if run.clock is not None else "resident set of the process",
        bytes=int(op.nbytes),
        bytes_taken=int(taken),
        options={"format": op.format},
    )
    del op
    gc.collect()
    record.rows[-1]["bytes_given_back"] = int(free() - (before - taken))


def _cycles(run: Run, problem: Problem, free: Callable[[], int], record: Recorder) -> None:
    formats = []
    for format in sg.formats():
        with noted(run, record, matrix=problem.name, library="spmvgpu", variant=f"{format} cycles"):
            sg.aslinearoperator(problem.matrix, format=format, device=run.device)
            formats.append(format)

    def cycle(count: int) -> None:
        for number in range(count):
            op = sg.aslinearoperator(problem.matrix, format=formats[number % len(formats)], device=run.device)
            op @ problem.x

    with noted(run, record, matrix=problem.name, library="spmvgpu", variant="cycles"):
        cycle(WARM_UP_CYCLES)
        gc.collect()
        device, resident = free(), _process_bytes()
        cycle(CYCLES)
        gc.collect()
        record.add(
            **problem.describe(),
            library="spmvgpu",
            variant=", ".join(formats),
            measure="cycles",
            cycles=CYCLES,
            device_bytes_lost=int(device - free()) if run.clock is not None else None,
            resident_bytes_lost=_process_bytes() - resident,
        )


def _free_device_bytes() -> int:
    """Free memory of the device, once CuPy has given back what it keeps for itself."""
    import cupy

    cupy.cuda.runtime.deviceSynchronize()
    cupy.get_default_memory_pool().free_all_blocks()
    return int(cupy.cuda.runtime.memGetInfo()[0])


def _process_bytes() -> int:
    """Resident set of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _process_bytes_negative() -> int:
    """The resident set as something that memory taken makes smaller, as free memory is."""
    return -_process_bytes()
