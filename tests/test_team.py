"""The threads of the CPU's loops, in a program of their own: `tests/cpp/team.cpp`."""

import pytest

from programs import check, compiled


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The compiled program."""
    return compiled("team", ["core/team.cpp", "core/interrupt.cpp", "core/system.cpp"], tmp_path_factory)


@pytest.mark.parametrize("case", ["failure", "interrupted_caller", "interrupted_piece", "handler_with_loop"])
def test_a_loop_that_fails_ends_in_every_thread(program, case):
    check(program, case)
