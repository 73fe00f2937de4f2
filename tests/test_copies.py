"""Copies in host memory, in a program of their own: `tests/cpp/copies.cpp`."""

import pytest

from programs import check, compiled

SOURCES = [
    "core/parallel.cpp",
    "core/environment.cpp",
    "core/interrupt.cpp",
    "core/system.cpp",
    "core/team.cpp",
]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The compiled program."""
    return compiled("copies", SOURCES, tmp_path_factory)


@pytest.mark.parametrize("copy", ["streaming", "parallel"])
def test_copies_between_addresses_of_every_alignment(program, copy):
    check(program, copy)
