"""The threads of the CPU's loops, in a program of their own: `tests/cpp/team.cpp`."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support import over

ROOT = Path(__file__).parents[1]
COMPILER = os.environ.get("CXX") or shutil.which("c++")
SOURCES = ["tests/cpp/team.cpp", "cpp/core/team.cpp", "cpp/core/interrupt.cpp"]
LONGEST = 300  # seconds, after which it hangs


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The compiled program."""
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    path = tmp_path_factory.mktemp("team") / "team"
    flags = ["-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-Icpp"]
    subprocess.run([COMPILER, *flags, *SOURCES, "-o", path], cwd=ROOT, check=True, timeout=LONGEST)
    return path


@over("case", ["failure", "interrupted_caller", "interrupted_piece", "handler_with_loop"])
def test_a_loop_that_fails_ends_in_every_thread(program, case):
    run = subprocess.run([program, case], capture_output=True, text=True, timeout=LONGEST)
    assert (run.returncode, run.stderr) == (0, "")
