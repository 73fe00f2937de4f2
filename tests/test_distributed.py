"""The tests in `distributed`, which every rank runs, under mpiexec with one to four ranks."""

from __future__ import annotations

import re

import pytest

from mpiexec import TESTS, need_ranks, run_ranks

FILES = sorted((TESTS / "distributed").glob("check_*.py"))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_on_ranks(ranks):
    need_ranks()
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly"]
    done = run_ranks(ranks, "-m", "pytest", *options, *FILES, SPMVGPU_DEVICE="cpu")
    report = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, report
    passed = re.findall(r"(\d+) passed", done.stdout)
    assert len(passed) == ranks, report
    assert len(set(passed)) == 1, report
