"""What importing a library takes beyond SciPy: time, and memory of the process; and what our `info` takes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from statistics import median

from experiments.engine import Report, Run, Table
from experiments.goals import Mark
from experiments.records import Content, Row
from experiments.tables import duration

from . import jobs

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


def imports(run: Run) -> Iterator[Row]:
    """New processes of each library in turns.

    The first process of each, which reads the library from the disk, does not count. Rows have medians:
    ``time_us`` and ``bytes`` of the library, ``scipy_us`` and ``scipy_bytes`` of NumPy and SciPy before it,
    ``resident_bytes`` of the whole process.
    """
    measured: dict[str, list[list[float]]] = {}
    for library in STATEMENTS:
        if find_spec(library) is None:
            run.record.skip("not installed", library=library)
        else:
            measured[library] = []
    for repeat in range(2 if run.options.quick else REPEATS + 1):
        for library, samples in measured.items():
            if run.fits(0, job="import", library=library, repeat=repeat):
                sample = measure(STATEMENTS[library])
                samples += [sample] if repeat else []
    for library, samples in measured.items():
        if samples:
            scipy_us, scipy_bytes, time_us, taken, resident = map(median, zip(*samples, strict=True))
            yield {
                "library": library, "variant": STATEMENTS[library], "time_us": round(time_us, 1),
                "bytes": int(taken), "scipy_us": round(scipy_us, 1), "scipy_bytes": int(scipy_bytes),
                "resident_bytes": int(resident), "samples": len(samples),
            }  # fmt: skip


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


def info(run: Run) -> Iterator[Row]:
    """The command that says what was built and which devices there are."""
    samples = []
    for _ in range(2 if run.options.quick else REPEATS + 1):
        begin = time.perf_counter()
        subprocess.run([sys.executable, *INFO], capture_output=True, timeout=LIMIT, check=True)
        samples.append((time.perf_counter() - begin) * 1e6)
    us, command = median(samples[1:]), " ".join(["python", *INFO])
    yield {"library": "spmvgpu", "variant": command, "time_us": round(us, 1), "samples": len(samples) - 1}


# -- report --------------------------------------------------------------------------------------------------

HEAD = ("library", "imported", "time", "memory", "of the process then")
NOTE = (
    "Time and memory of an import beyond NumPy and SciPy, in a new process, and the resident set of "
    "the process after it."
)


def rows(content: Content) -> Table:
    for row in content.rows:
        sizes = (f"{row[key] / 1e6:.1f} MB" for key in ("bytes", "resident_bytes"))
        yield row["library"], f"`{row['variant']}`", duration(row["time_us"]), *sizes


def goal(name: str, limit_us: float) -> Callable[[Content], list[Mark]]:
    """That ours take no longer."""
    return lambda content: [
        Mark(name, f"<= {duration(limit_us)}", duration(row["time_us"]), bool(row["time_us"] <= limit_us))
        for row in content.rows
        if row["library"] == "spmvgpu"
    ]


EXPERIMENTS = [
    jobs.experiment(
        "imports",
        imports,
        reserve=0.09,
        file="imports",
        report=Report(150, "Imports", NOTE, HEAD, rows, goals=goal("import beyond SciPy's", 250e3)),
    ),
    jobs.experiment(
        "info",
        info,
        reserve=0.02,
        file="info",
        report=Report(151, goals=goal("`python -m spmvgpu info`", 600e3)),
    ),
]
