"""The command of a paper: ``python -m experiments yin2012 --out DIR``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from . import PAPERS
from .run import Run


def main(name: str, arguments: Sequence[str]) -> int:
    """Run the experiment of one paper, by its name in `PAPERS`."""
    paper = PAPERS[name]
    parser = argparse.ArgumentParser(prog=f"python -m experiments {name}", description=paper.TITLE)
    add = parser.add_argument
    add("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    add("--out", type=Path, default=Path("reproduced"), metavar="DIR",
        help="folder for the JSON file and the figures (default: reproduced)")  # fmt: skip
    add("--quick", action="store_true", help="small matrices, under a minute on a CPU")
    # Keyword arguments of this paper's experiment.
    extra = paper.add_arguments(parser) if hasattr(paper, "add_arguments") else ()
    options = parser.parse_args(arguments)
    run = Run(name, options.device, options.out, options.quick)
    paper.experiment(run, **{option: getattr(options, option) for option in extra})
    return 0
