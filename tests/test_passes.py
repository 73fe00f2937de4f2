"""What builders of formats are written in, in programs of their own: in `tests/cpp`."""

import os
import subprocess

import pytest

from find_nvcc import system_nvcc
from programs import LONGEST, ROOT, check, program_fixture

CORE = ("team", "interrupt", "parallel", "environment", "mutex", "system")
SOURCES = [*(f"core/{name}.cpp" for name in CORE), "gpu/memory.cpp", "gpu/gather.cpp"]


program = program_fixture("passes", SOURCES)


@pytest.mark.parametrize(
    "case", ["scan", "reduce", "select", "sets", "order", "distinct", "chains", "entries", "gathers"]
)
def test_a_primitive_says_what_a_loop_says(program, case):
    check(program, case)


@pytest.mark.parametrize(
    "case",
    ["tiles", "nodes", "spans", "transposes", "canonical", "widths", "sums", "products", "hierarchies"],
)
def test_a_builder_makes_what_is_described(program, case):
    check(program, case)


def test_lanes_compile_for_the_oldest_gpus(tmp_path):
    """Builds elsewhere are for newer ones, which have more instructions."""
    nvcc = system_nvcc(os.environ)
    if nvcc is None:
        pytest.skip("no nvcc")
    flags = ["-std=c++20", "-arch=compute_75", "-Icpp", "--extended-lambda", "-ptx", "-o", tmp_path / "ptx"]
    command = [nvcc.path, *flags, "tests/cpp/oldest_gpu.cu"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=LONGEST)
