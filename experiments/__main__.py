"""``python -m experiments NAME ...``: runs an experiment, or makes the report of all of them.

Exit codes are those of ``python -m spmvgpu``; `speed` also ends with 3 if it lost the device on the way.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import spmvgpu as sg

# Name -> module with a function `main`, and what it does. Only the module that is asked for is imported.
COMMANDS = {
    "jobs": ("jobs.measure", "whole jobs: matrix to solution, SciPy's loops, start of a process"),
    "speed": ("speed.run", "products of every library; calls from Python, round trips, memory"),
    "auto": ("speed.automatic", "what one gets by default beside all of cuSPARSE, on matrices of every kind"),
    "setup": ("speed.setup", "from a matrix to an operator, beside CuPy's upload"),
    "updates": ("speed.updates", "new values for a matrix whose structure stays, in every format"),
    "orders": ("speed.orders", "meshes without an order, as given, by rcm and by clusters"),
    "symmetric": ("speed.symmetric", "the symmetric format beside general ones"),
    "matmat": ("speed.columns", "products with several columns beside CuPy, PyTorch and SciPy"),
    "complex": ("speed.complex_values", "products with complex matrices beside cuSPARSE and CuPy"),
    "multi": ("speed.multi", "products and solvers over several GPUs and the CPU"),
    "scaling": ("speed.scaling", "products and cg over the GPUs of ranks, under mpiexec"),
    "halos": ("speed.halos", "what ranks send for a product, counted"),
    "solvers": ("speed.solvers", "iterative solvers beside those of CuPy, PyTorch, SciPy and pyamg"),
    "prediction": ("speed.prediction", "predicted beside measured times of every format"),
    "bytes": ("speed.byte_model", "bytes per non-zero of formats, and the time to read them: predictions"),
    "report": ("report.pages", "tables and pictures of all results, into README.md and docs/"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one experiment and return its exit code."""
    name, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in ("-h", "--help"):
        print(usage())
        return 0
    try:
        if name in COMMANDS:
            return int(import_module(f"experiments.{COMMANDS[name][0]}").main(rest))
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
    lines += [f"  {name:<12} {text}" for name, (_, text) in COMMANDS.items()]
    lines += ["", "experiments of papers, with each claim beside what is measured here:"]
    lines += [f"  {name:<12} {paper.TITLE}" for name, paper in PAPERS.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
