"""What builders of formats are written in, in a program of its own: `tests/cpp/passes.cpp`."""

import pytest

from programs import check, compiled
from support import over

SOURCES = [f"core/{name}.cpp" for name in ("team", "interrupt", "memory", "parallel", "mutex")]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The compiled program."""
    return compiled("passes", SOURCES, tmp_path_factory)


@over("case", ["scan", "reduce", "select", "sets", "order", "distinct", "chains", "entries"])
def test_a_primitive_says_what_a_loop_says(program, case):
    check(program, case)


@over("case", ["tiles", "spans", "transposes", "canonical", "widths"])
def test_a_builder_makes_what_is_described(program, case):
    check(program, case)
