"""The threads of the CPU's loops, in a program of their own: `tests/cpp/team.cpp`."""

import pytest

from programs import check, program_fixture

program = program_fixture("team", ["core/team.cpp", "core/interrupt.cpp", "core/system.cpp"])


@pytest.mark.parametrize("case", ["failure", "interrupted_caller", "interrupted_piece", "handler_with_loop"])
def test_a_loop_that_fails_ends_in_every_thread(program, case):
    check(program, case)
