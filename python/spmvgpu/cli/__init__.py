"""The command line, ``python -m spmvgpu``: reads the arguments and runs a command.

Exit codes: 0 done, 1 the solver did not reach the tolerance, 2 the input is at fault (``error: ...`` on
stderr says how), 130 interrupted, 141 whoever read the output stopped reading (nothing is said of it).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from .. import CudaError, __version__
from ..messages import said
from .output import fail

# Each is a module of this package with a function `add`.
COMMANDS = ("info", "solve", "bench", "calibrate", "cache")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="spmvgpu", description="Sparse matrix-vector products on GPUs and CPUs."
    )
    parser.add_argument("--version", action="version", version=f"spmvgpu {__version__}")
    commands = parser.add_subparsers(metavar="command", required=True)
    argv = sys.argv[1:] if argv is None else list(argv)
    # Only what the command needs is imported: `info` shall not wait for SciPy.
    for name in argv[:1] if argv[:1] and argv[0] in COMMANDS else COMMANDS:
        import_module(f"{__name__}.{name}").add(commands)
    args = parser.parse_args(argv)
    try:
        code = int(args.run(args))
        sys.stdout.flush()  # here, where a broken pipe can still be told from a failure
        return code
    except BrokenPipeError:
        _abandon_output()
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        return fail("interrupted", 130)
    except (ArithmeticError, CudaError, ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        if isinstance(error, OSError) and error.errno and not error.filename:  # of no file that was opened
            _abandon_output()
            error.filename = "standard output"
        return fail(said(error), 2)


def _abandon_output() -> None:
    """Nobody gets what is still in the buffer; Python would complain of it when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
