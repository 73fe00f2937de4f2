"""``python -m experiments NAME ...``: runs an experiment, or makes the report of all of them.

Exit codes are those of ``python -m spmvgpu``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import spmvgpu as sg

from . import (
    algebra,
    halos,
    jobs,
    multi,
    multi_amg,
    products,
    report,
    scaling,
    setup,
    solvers,
    solving,
    unseen,
)
from .engine import run_command
from .papers import PAPERS
from .papers.command import main as run_paper

EXPERIMENTS = [
    experiment
    for module in (jobs, products, unseen, setup, algebra, solvers, solving, multi, multi_amg, scaling, halos)
    for experiment in module.EXPERIMENTS
]
COMMANDS = {
    **{experiment.command: experiment.about for experiment in EXPERIMENTS},
    "report": "sentences and picture of README.md, from the results",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one experiment and return its exit code."""
    name, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in ("-h", "--help"):
        print(usage())
        return 0
    try:
        if name == "report":
            return report.main(rest)
        if name in COMMANDS:
            return run_command([e for e in EXPERIMENTS if e.command == name], rest)
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
    """The list of commands."""
    return "\n".join([
        "usage: python -m experiments NAME [OPTION ...]; each NAME has --help", "",
        "measurements, and their report:",
        *(f"  {name:<12} {text}" for name, text in COMMANDS.items()), "",
        "experiments of papers, with each claim beside what is measured here:",
        *(f"  {name:<12} {paper.TITLE}" for name, paper in PAPERS.items()),
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
