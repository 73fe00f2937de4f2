"""Hands out problems: built where they are asked for, or ahead of time by worker processes."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from concurrent.futures import Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path

import scipy.sparse as sp

from .peers.problem import ALL, Problem
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
        self._last: tuple[str, sp.csr_array] | None = None
        self._folder: Path | None = None
        self._pool: ProcessPoolExecutor | None = None
        self._jobs: dict[str, Future[None]] = {}
        if workers:
            self._folder = Path(tempfile.mkdtemp(prefix="spmvgpu-benchmark-", dir=_roomy_disk()))
            # Spawned, not forked: the parent may already hold a CUDA context.
            self._pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
            for item in items:
                self._jobs[item.name] = self._pool.submit(_build, item, dtypes, self._folder)

    def wait(self) -> None:
        """Return when all is built, so that no worker disturbs what is timed."""
        wait(self._jobs.values())

    def get(self, item: Item, dtype: str) -> Problem:
        """The problem of one item in one dtype."""
        if self._folder is not None:
            self._jobs[item.name].result()
            with _file(self._folder, item, dtype).open("rb") as file:
                problem: Problem = pickle.load(file)
            return problem
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


def _build(item: Item, dtypes: list[str], folder: Path) -> None:
    """Write the problems of an item, each with its reference."""
    matrix = item.build()
    for dtype in dtypes:
        problem = Problem.make(matrix, ALL[dtype], item.name, item.group)
        _ = problem.reference, problem.scale  # which are kept in the problem
        with _file(folder, item, dtype).open("wb") as file:
            pickle.dump(problem, file, protocol=5)


def _file(folder: Path, item: Item, dtype: str) -> Path:
    return folder / f"{item.name}-{dtype}.pickle"
