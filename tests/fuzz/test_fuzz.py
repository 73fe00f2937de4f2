"""Some thousand cases of the fuzzer, in processes of their own; docs/sanitizers.md says how to run more."""

import re
import subprocess
import sys

import pytest

from . import cases as fuzz
from .every_kernel import run_formats, run_others
from .runner import ROOT, Task, run, tasks

CASES = 4000
ALL = tasks(fuzz.default_kinds(), 0, CASES)
# Few, and each takes a second: test_fork_exit.py has its own.
TASKS = [task for task in ALL if task.kind not in ("forks", "exits")]


def found(task):
    return [f"{finding.kind} --seed {finding.seed}: {finding.text}" for finding in run([task], jobs=1)]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.kind}-{task.first}")
def test_nothing_is_found(task):
    assert not found(task)


def test_every_kind_is_run():
    assert {task.kind for task in ALL} == set(fuzz.default_kinds())
    assert sum(task.count for task in ALL) == CASES


@pytest.mark.parametrize("run_all", [run_formats, run_others])
def test_every_kernel(run_all, device):
    """What a GPU's checkers are given is right."""
    assert run_all(device) > 0


def test_what_is_wrong_is_found():
    """Wrong results, other exceptions and processes that end are findings; the cases after them are run."""
    findings = run([Task("faults", 0, 10)], jobs=1)
    assert [(finding.kind, finding.seed) for finding in findings] == [
        ("faults", k) for k in (1, 2, 3, 6, 7, 8)
    ]
    for finding, text in zip(
        findings, ["wrong", "IndexError", "Fatal Python error: Aborted"] * 2, strict=True
    ):
        assert text in finding.text


def test_the_command():
    command = [sys.executable, "-m", "tests.fuzz", "--kinds", "faults", "--cases", "5", "--jobs", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "5 cases of 1 kinds from seed 0, 3 findings"
    reproduce = re.findall(r"python -m tests.fuzz (--kinds faults --seed \d --cases 1)", done.stdout)
    assert len(reproduce) == 3
    command = [*command[:3], *reproduce[0].split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "1 cases of 1 kinds from seed 1, 1 findings"
