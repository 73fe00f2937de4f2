"""Copies in host memory, in a program of their own: `tests/cpp/copies.cpp`."""

import pytest

from programs import check, program_fixture

SOURCES = [f"core/{name}.cpp" for name in ("parallel", "environment", "interrupt", "system", "team")]


program = program_fixture("copies", SOURCES)


@pytest.mark.parametrize("copy", ["streaming", "parallel"])
def test_copies_between_addresses_of_every_alignment(program, copy):
    check(program, copy)
