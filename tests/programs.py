"""Programs in C++ that test what Python does not reach: `tests/cpp`."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMPILER = os.environ.get("CXX") or shutil.which("c++")
FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread", "-fopenmp-simd", "-Icpp"]
LONGEST = 300  # seconds, after which it hangs


def program_fixture(name, sources, optimized="-O1"):
    """The fixture `program` of a module: the path of `tests/cpp/<name>.cpp`, compiled with these sources."""

    @pytest.fixture(scope="module")
    def program(tmp_path_factory):
        if COMPILER is None:
            pytest.skip("no C++ compiler")
        path = tmp_path_factory.mktemp(name) / name
        files = [f"tests/cpp/{name}.cpp", *(f"cpp/{source}" for source in sources)]
        command = [COMPILER, optimized, *FLAGS, *files, "-o", path]
        subprocess.run(command, cwd=ROOT, check=True, timeout=LONGEST)
        return path

    return program


def check(program, case):
    """A case of a program is silent if all is well."""
    run = subprocess.run([program, case], capture_output=True, text=True, timeout=LONGEST)
    assert (run.returncode, run.stderr) == (0, "")
