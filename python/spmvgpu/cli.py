"""The command line, ``python -m spmvgpu``: reads the arguments and runs a command.

Exit codes: 0 done, 1 the solver did not reach the tolerance, 2 the input is at fault (``error: ...`` on
stderr says how), 130 interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import spmvgpu as sg
from spmvgpu.commands.bench import add_bench
from spmvgpu.commands.cache import add_cache
from spmvgpu.commands.calibrate import add_calibrate
from spmvgpu.commands.info import add_info
from spmvgpu.commands.output import fail
from spmvgpu.commands.reproduce import add_reproduce
from spmvgpu.commands.solve import add_solve

COMMANDS = (add_info, add_solve, add_bench, add_calibrate, add_cache, add_reproduce)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="spmvgpu", description="Sparse matrix-vector products on GPUs and CPUs."
    )
    parser.add_argument("--version", action="version", version=f"spmvgpu {sg.__version__}")
    commands = parser.add_subparsers(metavar="command", required=True)
    for add in COMMANDS:
        add(commands)
    args = parser.parse_args(argv)
    try:
        return int(args.run(args))
    except KeyboardInterrupt:
        return fail("interrupted", 130)
    except (ValueError, MemoryError, OSError, sg.CudaError) as error:
        return fail(str(error) or type(error).__name__, 2)
