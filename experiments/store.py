"""Hands out problems: built where they are asked for, or ahead of time by worker processes."""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from .peers.problem import ALL, Problem, values_in
from .suite import Item

# Room that a store of the whole suite needs; a smaller memory disk is passed over for the ordinary one.
MEMORY_DISK_BYTES = 10 << 30


class Store:
    """Problems of a list of suite items.

    With ``workers > 0`` all matrices are built at once by that many processes and kept on disk (in memory,
    where there is room) for as many experiments as follow; with ``workers == 0`` each is built when asked
    for.
    """

    def __init__(self, items: list[Item], dtypes: list[str], workers: int = 0) -> None:
        self._dtypes = dtypes
        self._last: tuple[str, sp.csr_array] | None = None
        self._folder: Path | None = None
        self._pool: ProcessPoolExecutor | None = None
        self._jobs: dict[str, Future[None]] = {}
        if workers:
            self._folder = Path(tempfile.mkdtemp(prefix="spmvgpu-benchmark-", dir=_roomy_disk()))
            # Spawned, not forked: the parent may already hold a CUDA context.
            self._pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
            for item in items:
                self._jobs[item.name] = self._pool.submit(_build, item, dtypes, str(self._folder / item.name))

    def wait(self) -> None:
        """Return when all is built, so that no worker disturbs what is timed."""
        wait(self._jobs.values())

    def get(self, item: Item, dtype: str) -> Problem:
        """The problem of one item in one dtype."""
        if self._folder is not None:
            self._jobs[item.name].result()
            return load(self._folder / item.name, item.name, item.group, dtype)
        if self._last is None or self._last[0] != item.name:
            self._last = None
            self._last = (item.name, item.build())
        return Problem.make(self._last[1], ALL[dtype], item.name, item.group)

    def close(self) -> None:
        """Stop the workers and delete what they wrote."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def default_workers() -> int:
    """One per large matrix at most; each may need 3 GB."""
    return min(8, (os.cpu_count() or 1) // 2)


def _roomy_disk() -> str | None:
    memory_disk = "/dev/shm"
    if os.path.isdir(memory_disk) and shutil.disk_usage(memory_disk).free > MEMORY_DISK_BYTES:
        return memory_disk
    return None


def _build(item: Item, dtypes: list[str], folder: str) -> None:
    matrix = item.build()
    problems = {dtype: Problem.make(matrix, ALL[dtype], item.name, item.group) for dtype in dtypes}
    save(Path(folder), matrix, problems)


ARRAYS = ("data", "indices", "indptr")
VECTORS = ("x", "reference", "scale")


def save(folder: Path, matrix: sp.csr_array, problems: dict[str, Problem]) -> None:
    """Write a float64 matrix and the vectors of its problems as plain .npy files, fast to read."""
    folder.mkdir(parents=True)
    for array in ARRAYS:
        np.save(folder / f"{array}.npy", getattr(matrix, array))
    np.save(folder / "shape.npy", np.array(matrix.shape))
    for dtype, problem in problems.items():
        for vector in VECTORS:
            np.save(folder / f"{dtype}-{vector}.npy", getattr(problem, vector))


def load(folder: Path, name: str, group: str, dtype: str) -> Problem:
    """Read back one problem written by `save`."""
    data, indices, indptr = (np.load(folder / f"{array}.npy") for array in ARRAYS)
    rows, cols = np.load(folder / "shape.npy")
    values = values_in(data, ALL[dtype])
    matrix = sp.csr_array((values, indices, indptr), shape=(int(rows), int(cols)))
    vectors = {vector: np.load(folder / f"{dtype}-{vector}.npy") for vector in VECTORS}
    problem = Problem(matrix, vectors["x"], name, group)
    vars(problem).update(reference=vectors["reference"], scale=vectors["scale"])  # known already
    return problem
