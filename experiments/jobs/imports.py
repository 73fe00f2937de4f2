"""What importing a library takes beyond SciPy: time, and memory of the process; and what our `info` takes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib.util import find_spec
from statistics import median

from experiments.records import Recorder

from .run import Run

FILE = "imports.json"
INFO_FILE = "info.json"
INFO = ["-m", "spmvgpu", "info"]
REPEATS = 7
LIMIT = 120  # seconds that a process may take

# What a user of each library imports to multiply with a sparse matrix; SciPy is there before.
STATEMENTS = {
    "spmvgpu": "import spmvgpu; spmvgpu.aslinearoperator",
    "cupy": "import cupy, cupyx.scipy.sparse",
    "torch": "import torch",
}
_SCRIPT = """
import json, os, time
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
found = [(time.perf_counter(), resident())]
import numpy, scipy.sparse, scipy.sparse.linalg
found.append((time.perf_counter(), resident()))
{}
found.append((time.perf_counter(), resident()))
print(json.dumps(found))
"""


def imports(run: Run) -> None:
    """New processes of each library in turns, to a file beside that of the jobs.

    The first process of each, which reads the library from the disk, does not count. Rows have medians:
    ``time_us`` and ``bytes`` of the library, ``scipy_us`` and ``scipy_bytes`` of NumPy and SciPy before it,
    ``resident_bytes`` of the whole process.
    """
    record = Recorder(run.record.path.with_name(FILE), run.record.environment)
    measured: dict[str, list[list[float]]] = {}
    for library in STATEMENTS:
        if find_spec(library) is None:
            record.skip("not installed", library=library)
        else:
            measured[library] = []
    for repeat in range(2 if run.quick else REPEATS + 1):
        for library, samples in measured.items():
            if run.fits(0, job="import", library=library, repeat=repeat):
                sample = measure(STATEMENTS[library])
                samples += [sample] if repeat else []
    for library, samples in measured.items():
        if samples:
            scipy_us, scipy_bytes, time_us, taken, resident = map(median, zip(*samples, strict=True))
            record.add(
                library=library,
                variant=STATEMENTS[library],
                time_us=round(time_us, 1),
                bytes=int(taken),
                scipy_us=round(scipy_us, 1),
                scipy_bytes=int(scipy_bytes),
                resident_bytes=int(resident),
                samples=len(samples),
            )
            run.say(f"import {library}: {time_us / 1e3:.0f} ms and {taken / 1e6:.0f} MB beyond SciPy")
    record.write()


def measure(statement: str) -> list[float]:
    """One process: microseconds and bytes of NumPy and SciPy, then of the statement, and bytes of all."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _SCRIPT.format(statement)],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{statement!r} ended with {done.returncode}: {done.stderr[-300:]}")
    (begin, least), (middle, half), (end, whole) = json.loads(done.stdout)
    return [(middle - begin) * 1e6, half - least, (end - middle) * 1e6, whole - half, whole]


def info(run: Run) -> None:
    """The command that says what was built and which devices there are, to a file of its own."""
    record = Recorder(run.record.path.with_name(INFO_FILE), run.record.environment)
    samples = []
    for _ in range(2 if run.quick else REPEATS + 1):
        begin = time.perf_counter()
        subprocess.run([sys.executable, *INFO], capture_output=True, timeout=LIMIT, check=True)
        samples.append((time.perf_counter() - begin) * 1e6)
    us = median(samples[1:])
    command = " ".join(["python", *INFO])
    record.add(library="spmvgpu", variant=command, time_us=round(us, 1), samples=len(samples) - 1)
    run.say(f"{command}: {us / 1e3:.0f} ms")
    record.write()
