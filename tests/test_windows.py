"""Parts of an operator read what they get of x, and nothing else; null pointers are refused."""

import os
import sys

import pytest

from programs import check, compiled
from support import run_python
from test_passes import SOURCES


def test_parts_read_what_they_get():
    """In every format, with every option, of matrices without entries, rows or columns too."""
    run_python("import guarded; guarded.main()", PYTHONPATH=os.pathsep.join(sys.path))


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The compiled program."""
    return compiled("operands", SOURCES, tmp_path_factory)


def test_null_operands_are_refused(program):
    """Where products check their operands: in builds with sanitizers, and for compute-sanitizer."""
    check(program, "null")
