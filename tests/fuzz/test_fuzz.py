"""Cases of the fuzzer, in processes of their own: some hundreds in the suite, nightly as many thousands.

docs/sanitizers.md says how to run more.
"""

import re
import subprocess
import sys

import pytest

from support import nightly

from . import cases as fuzz
from .every_kernel import GROUPS
from .faults import fault_of
from .runner import ROOT, Task, run, tasks

CASES, CASES_AT_NIGHT = 400, 40_000
CASES_WITH_FAULTS = 8
KINDS = fuzz.default_kinds()
TASKS = tasks(KINDS, 0, CASES)
# One type of each format in turn, as the code is one template for all; compute_sanitizer.sh runs every one.
SOME_GROUPS = [group for i, group in enumerate(GROUPS) if (i + i // 4) % 4 == 0]


def found(task):
    return [f"{finding.kind} --seed {finding.seed}: {finding.text}" for finding in run([task], jobs=1)]


@pytest.mark.parametrize(
    "task",
    [*TASKS, *nightly(tasks(KINDS, CASES, CASES_AT_NIGHT))],
    ids=lambda task: f"{task.kind}-{task.first}",
)
def test_nothing_is_found(task):
    assert not found(task)


def test_every_kind_is_run():
    assert {task.kind for task in TASKS} == set(KINDS)
    assert sum(task.count for task in TASKS) == CASES


@pytest.mark.parametrize(
    "group", [*SOME_GROUPS, *nightly(group for group in GROUPS if group not in SOME_GROUPS)]
)
def test_every_kernel(group, device):
    """What checkers are given is right."""
    assert GROUPS[group](device) > 0


def test_what_is_wrong_is_found():
    """Wrong results, other exceptions and processes that end are findings; the cases after them are run."""
    faults = {seed: fault_of(fuzz.generator("faults", seed)) for seed in range(CASES_WITH_FAULTS)}
    assert set(faults.values()) == {"", "wrong", "IndexError", "Aborted"}
    findings = run([Task("faults", 0, CASES_WITH_FAULTS)], jobs=1)
    assert [finding.seed for finding in findings] == [seed for seed, fault in faults.items() if fault]
    for finding in findings:
        assert faults[finding.seed] in finding.text


def test_the_command():
    def last_line(*arguments):
        command = [sys.executable, "-m", "tests.fuzz", "--kinds", "faults", *arguments, "--jobs", "1"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stdout.splitlines()[-1]

    code, text, last = last_line("texts", "--without", "texts", "--cases", "4")
    seeds = re.findall(r"python -m tests.fuzz --kinds faults --seed (\d) --cases 1", text)
    assert (code, last) == (1, f"4 cases of 1 kinds from seed 0, {len(seeds)} findings")
    code, _, last = last_line("--seed", seeds[0], "--cases", "1")  # is what reproduces it
    assert (code, last) == (1, f"1 cases of 1 kinds from seed {seeds[0]}, 1 findings")
    code, _, last = last_line("--cases", "4", "--minutes", "0")
    assert (code, last) == (0, "0 cases of 1 kinds from seed 0, 0 findings")
