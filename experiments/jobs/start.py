"""From the start of a process to its first product: imports, device, conversion and all."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from experiments.engine import Run
from experiments.peers.problem import WrongResultError
from experiments.records import Row
from spmvgpu import cache

from . import libraries, systems
from .systems import times_row

JOB = "process start to first product"
REPEATS = 3
LIMIT = 120  # seconds that a process may take

# Every script first loads the matrix from a file; the line that it prints at the end stops the clock.
_HEAD = """
import sys
import numpy as np
import scipy.sparse as sp
A = sp.csr_array(sp.load_npz(sys.argv[1]))
x = np.ones(A.shape[1])
"""
_TAIL = """
print(float(np.linalg.norm(y)), flush=True)
"""
_SCRIPTS = {
    ("spmvgpu", "gpu"): 'import spmvgpu as sg\ny = sg.aslinearoperator(A, device="cuda:0") @ x',
    ("spmvgpu", "cpu"): 'import spmvgpu as sg\ny = sg.aslinearoperator(A, device="cpu") @ x',
    ("scipy", "cpu"): "y = A @ x",
    ("cupy", "gpu"): (
        "import cupy as cp\n"
        "from cupyx.scipy.sparse import csr_matrix\n"
        "y = cp.asnumpy(csr_matrix(sp.csr_matrix(A)) @ cp.asarray(x))"
    ),
}
_TORCH = (
    "import torch\n"
    "parts = [torch.from_numpy(part) for part in (A.indptr, A.indices, A.data)]\n"
    "T = torch.sparse_csr_tensor(*parts, size=A.shape).to({0!r})\n"
    "y = (T @ torch.from_numpy(x).to({0!r})).cpu().numpy()"
)
_SCRIPTS["torch", "gpu"] = _TORCH.format("cuda:0")
_SCRIPTS["torch", "cpu"] = _TORCH.format("cpu")


def start(run: Run) -> Iterator[Row]:
    """Processes of each library in turns. `variant` is as in `solve`."""
    # Which libraries there are must not be found out by importing them here.
    names = [(library.name, library.device) for library in libraries.solvers(run.on_gpu)]
    if "torch" not in libraries.missing(run.on_gpu):
        names += [("torch", device) for device in (("gpu", "cpu") if run.on_gpu else ("cpu",))]
    for name in systems.QUICK if run.options.quick else systems.START:
        A = systems.matrix(name)
        expected = float(np.linalg.norm(A @ np.ones(A.shape[1])))
        with tempfile.TemporaryDirectory(prefix="spmvgpu-jobs-") as folder:
            file = Path(folder) / "matrix.npz"
            sp.save_npz(file, sp.csr_matrix(A), compressed=False)
            for library, device in names:
                what = {"job": JOB, "matrix": name, "library": library, "device": device}
                if run.fits(0, **what):
                    with run.noted(**what):
                        yield from _measure(run, {**systems.describe(name, A), **what}, file, expected)


def _measure(run: Run, case: dict[str, object], file: Path, expected: float) -> Iterator[Row]:
    script = _HEAD + _SCRIPTS[str(case["library"]), str(case["device"])] + _TAIL
    variants = ("first", "again") if case["library"] == "spmvgpu" else ("",)
    times: dict[str, list[float]] = {variant: [] for variant in variants}
    for repeat in range(1 if run.options.quick else REPEATS):
        if repeat and not run.fits(2 * max(map(max, times.values())) / 1e6, **case, repeat=repeat):
            break
        with cache.empty():
            for variant in variants:
                times[variant].append(_process_us(script, file, expected))
    for variant, samples in times.items():
        yield times_row(samples, **case, variant=variant)


def _process_us(script: str, file: Path, expected: float) -> float:
    begin = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script, str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        limit = threading.Timer(LIMIT, process.kill)
        limit.start()
        line = process.stdout.readline()
        us = (time.perf_counter() - begin) * 1e6
        _, errors = process.communicate()
        limit.cancel()
    if process.returncode:
        raise RuntimeError(f"the process ended with {process.returncode}: {errors[-300:]}")
    if not abs(float(line) - expected) <= 1e-10 * expected:
        raise WrongResultError(f"the norm of the product is {line.strip()}, expected {expected!r}")
    return us
