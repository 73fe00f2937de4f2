"""The command line, ``spmvgpu`` or ``python -m spmvgpu``: reads the arguments and runs a command."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from importlib import import_module
from textwrap import fill
from typing import NoReturn

from .. import CudaError, __version__
from .._util.messages import said
from .output import fail

# Each is a module of this package with the texts `HELP` and `DESCRIPTION`, the functions `add_arguments` and
# `run`, and the table `FIELDS` of what `--json` prints.
COMMANDS = ("info", "solve", "eigsh", "bench", "calibrate", "cache")

EXIT_CODES = {
    0: "done",
    1: "the solver did not reach the tolerance",
    2: "a wrong option, file or matrix, or a device that fails",
    130: "interrupted with Ctrl-C",
    141: "the program that reads the output closed the pipe",
}
_NOT_DONE, _INTERRUPTED, _BROKEN_PIPE = 2, 130, 141


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, like the errors of the commands."""

    def error(self, message: str) -> NoReturn:
        self.exit(_NOT_DONE, f"error: {message}; see {self.prog} --help\n")


def parser_of(names: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser of the whole command line, with some of its commands."""
    codes = "exit codes:\n" + "\n".join(f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items())
    parser = _Parser(
        prog="spmvgpu",
        description="Sparse matrix-vector products on GPUs and CPUs.",
        epilog=f"spmvgpu COMMAND --help describes a command.\n\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"spmvgpu {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    for name in names:
        module = import_module(f"{__name__}.{name}")
        texts = {"help": module.HELP, "description": fill(module.DESCRIPTION, 79), "epilog": codes}
        command = commands.add_parser(name, formatter_class=argparse.RawDescriptionHelpFormatter, **texts)
        module.add_arguments(command)
        command.add_argument("--json", action="store_true", help="print one JSON object in place of text")
        command.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    with ExitStack() as stack:
        # A daemon starts programs with closed streams, in whose place Python has None.
        for stream, redirect in ((sys.stdout, redirect_stdout), (sys.stderr, redirect_stderr)):
            if stream is None:
                stack.enter_context(redirect(stack.enter_context(open(os.devnull, "w", encoding="utf-8"))))
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    argv = (sys.argv[1:] if argv is None else list(argv)) or ["--help"]
    # Only the command that is called is imported, so that `info` does not wait for SciPy.
    args = parser_of(argv[:1] if argv[:1] and argv[0] in COMMANDS else COMMANDS).parse_args(argv)
    try:
        code = int(args.run(args))
        sys.stdout.flush()  # here, where a broken pipe can still be told from a failure
        return code
    except BrokenPipeError:
        _abandon_output()
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return fail("interrupted", _INTERRUPTED)
    except (ArithmeticError, CudaError, ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        if isinstance(error, OSError) and error.errno and not error.filename:  # of no file that was opened
            _abandon_output()
            error.filename = "standard output"
        return fail(said(error), _NOT_DONE)


def _abandon_output() -> None:
    """Drop what is still in the buffer, or Python would complain about it when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
