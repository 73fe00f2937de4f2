"""``python -m experiments NAME ...``: runs an experiment, or makes the report of all of them.

Exit codes are those of ``python -m spmvgpu``; `speed` also ends with 3 if it lost the device on the way.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import spmvgpu as sg

from .engine import load_experiments, run_command
from .pages import main as report

# Name -> what it does, in the order of the report.
COMMANDS = {
    **{experiment.command: experiment.about for experiment in load_experiments() if experiment.about},
    "report": "tables and pictures of all results, into README.md and docs/",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one experiment and return its exit code."""
    name, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in ("-h", "--help"):
        print(usage())
        return 0
    try:
        if name == "report":
            return report(rest)
        if name in COMMANDS:
            return run_command(name, rest)
        from .papers import PAPERS
        from .papers.command import main as run_paper

        if name in PAPERS:
            return run_paper(name, rest)
        raise ValueError(f"there is no experiment {name!r}; allowed: {', '.join([*COMMANDS, *PAPERS])}")
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130
    except (ValueError, MemoryError, OSError, sg.CudaError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def usage() -> str:
    """What there is to run."""
    from .papers import PAPERS

    lines = ["usage: python -m experiments NAME [OPTION ...]; each NAME has --help", ""]
    lines += ["measurements, and their report:"]
    lines += [f"  {name:<12} {text}" for name, text in COMMANDS.items()]
    lines += ["", "experiments of papers, with each claim beside what is measured here:"]
    lines += [f"  {name:<12} {paper.TITLE}" for name, paper in PAPERS.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
