"""Parts of an operator read what they get of x, and nothing else; null pointers are refused."""

import os
import sys

from programs import check, program_fixture
from support import run_python
from test_passes import SOURCES


def test_parts_read_what_they_get():
    """In every format, with every option, of matrices without entries, rows or columns too."""
    run_python("import guarded; guarded.main()", PYTHONPATH=os.pathsep.join(sys.path))


program = program_fixture("operands", SOURCES, "-O0")


def test_null_operands_are_refused(program):
    """Where products check their operands: in builds with sanitizers, and for compute-sanitizer."""
    check(program, "null")
