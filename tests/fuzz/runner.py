"""Cases in processes of their own, so that one that ends its process, or hangs, is a finding like any other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, NamedTuple

from .cases import KINDS

ROOT = Path(__file__).parents[2]

#: Bytes that a process may take by default; what asks for more gets a MemoryError.
MEMORY = 4 << 30
#: Seconds after which a case hangs: forks and checkers are slow.
LONGEST = 300.0

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


def tasks(kinds: list[str], seed: int, cases: int) -> Iterator[Task]:
    """Cases divided among the kinds by their weights, the first seed being the same for all."""
    total = sum(KINDS[name].weight for name in kinds)
    ends, before = [], 0.0
    for name in kinds:
        before += KINDS[name].weight
        ends.append(round(cases * before / total))
    for name, begin, end in zip(kinds, [0, *ends], ends, strict=False):
        batch = KINDS[name].batch
        for first in range(seed, seed + end - begin, batch):
            yield Task(name, first, min(batch, seed + end - begin - first))


def run(
    todo: list[Task],
    jobs: int,
    device: str = "cpu",
    memory: int = MEMORY,
    report: Callable[[Task, list[Finding]], None] = lambda task, findings: None,
) -> list[Finding]:
    """Run all tasks, several at a time; `report` gets each as it is done, and its findings."""
    found: list[Finding] = []

    def work(task: Task) -> tuple[Task, list[Finding]]:
        return task, list(_watch(task, device, memory))

    with ThreadPoolExecutor(jobs) as pool:
        for task, findings in pool.map(work, todo):
            report(task, findings)
            found += findings
    return found


def _watch(task: Task, device: str, memory: int) -> Iterator[Finding]:
    """Run a task, in another process again after each case that ended one."""
    end = task.first + task.count
    seed = task.first
    while seed < end:
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            command = [sys.executable, "-m", "tests.fuzz", "--kinds", task.kind, "--seed", str(seed),
                       "--cases", str(end - seed), "--device", device, "--memory", str(memory), "--worker"]  # fmt: skip
            worker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=said, text=True)
            for line in _lines(worker):
                seed = line["seed"]
                if "text" in line:
                    yield Finding(task.kind, seed, line["text"])
            if worker.wait() == 0:
                return
            said.seek(0)
            yield Finding(task.kind, seed, f"the process ended with {worker.returncode}\n{said.read()[-_SHOWN:]}")
        seed += 1


def _lines(worker: subprocess.Popen[str]) -> Iterator[dict]:
    assert worker.stdout is not None
    for line in _timed(worker, worker.stdout):
        yield json.loads(line)


def _timed(worker: subprocess.Popen[str], lines: IO[str]) -> Iterator[str]:
    """The lines of a worker, which is aborted if the next takes too long, and then says where it is."""
    while True:
        alarm = threading.Timer(LONGEST, worker.send_signal, [signal.SIGABRT])
        alarm.start()
        try:
            line = lines.readline()
        finally:
            alarm.cancel()
        if not line:
            return
        yield line


def channel() -> IO[str]:
    """A worker's standard output, for `_watch` alone: whatever else is printed goes with the errors."""
    own = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return own
