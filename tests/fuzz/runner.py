"""Cases in processes of their own, so that one that ends its process or hangs is a finding, too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import IO, NamedTuple

from . import faults, files, hostile, machine, several_threads  # noqa: F401 (enter their kinds)
from .cases import KINDS

ROOT = Path(__file__).parents[2]

#: Bytes that a process may take by default; what asks for more gets a MemoryError.
MEMORY = 4 << 30
#: Seconds after which a case hangs: forks and checkers are slow.
LONGEST = 300

_SHOWN = 20_000  # characters of what a process that ended has said


class Task(NamedTuple):
    """Cases of one kind with successive seeds."""

    kind: str
    first: int
    count: int


class Finding(NamedTuple):
    """What is wrong with a case."""

    kind: str
    seed: int
    text: str


def tasks(kinds: list[str], seed: int, cases: int) -> list[Task]:
    """Cases divided among the kinds by their weights, all from the same seed on; the kinds take turns."""
    weights = [KINDS[name].weight or 1.0 for name in kinds]
    total = sum(weights)
    ends, before = [], 0.0
    for weight in weights:
        before += weight
        ends.append(round(cases * before / total))
    batches: list[list[Task]] = []
    for name, begin, end in zip(kinds, [0, *ends], ends, strict=False):
        batch, last = KINDS[name].batch, seed + end - begin
        batches.append([Task(name, k, min(batch, last - k)) for k in range(seed, last, batch)])
    return [task for turn in zip_longest(*batches) for task in turn if task is not None]


def run(
    todo: list[Task],
    jobs: int,
    device: str = "cpu",
    memory: int = MEMORY,
    seconds: float = float("inf"),
    report: Callable[[Task, list[Finding]], None] = lambda task, findings: None,
) -> list[Finding]:
    """Run the tasks, several at a time, and begin none when the seconds are over.

    `report` gets each task that was run, and its findings.
    """
    found: list[Finding] = []
    end = time.monotonic() + seconds

    def work(task: Task) -> list[Finding] | None:
        return list(_watch(task, device, memory)) if time.monotonic() < end else None

    with ThreadPoolExecutor(jobs) as pool:
        for task, findings in zip(todo, pool.map(work, todo), strict=True):
            if findings is not None:
                report(task, findings)
                found += findings
    return found


def _watch(task: Task, device: str, memory: int) -> Iterator[Finding]:
    """Run a task, in another process again after each case that ended one."""
    end = task.first + task.count
    seed = task.first
    while seed < end:
        command = [sys.executable, "-m", "tests.fuzz", "--worker", "--kinds", task.kind]
        command += f"--seed {seed} --cases {end - seed} --device {device} --memory {memory}".split()
        with (
            tempfile.TemporaryFile("w+", errors="replace") as said,
            subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=said, text=True) as worker,
        ):
            for line in _lines(worker):
                seed = line["seed"]
                if "text" in line:
                    yield Finding(task.kind, seed, line["text"])
            if worker.wait() == 0:
                return
            said.seek(0)
            text = f"the process ended with {worker.returncode}\n{said.read()[-_SHOWN:]}"
            yield Finding(task.kind, seed, text)
        seed += 1


def _lines(worker: subprocess.Popen[str]) -> Iterator[dict]:
    assert worker.stdout is not None
    for line in _timed(worker, worker.stdout):
        yield json.loads(line)


def _timed(worker: subprocess.Popen[str], lines: IO[str]) -> Iterator[str]:
    """The lines of a worker, which is aborted if the next takes too long, and then says where it is."""
    while True:
        spoke = threading.Event()
        threading.Thread(target=_abort_unless, args=(spoke, worker)).start()
        try:
            line = lines.readline()
        finally:
            spoke.set()
        if not line:
            return
        yield line


def _abort_unless(spoke: threading.Event, worker: subprocess.Popen[str]) -> None:
    for _ in range(LONGEST):  # second by second, of which none passes while all of this is suspended
        if spoke.wait(1):
            return
    worker.send_signal(signal.SIGABRT)


def channel() -> IO[str]:
    """A worker's standard output, for `_watch` alone: whatever else is printed goes with the errors."""
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return own
