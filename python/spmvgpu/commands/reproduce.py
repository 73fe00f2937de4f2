"""``reproduce``: the experiment of a paper, on this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from spmvgpu.reproduce import PAPERS
from spmvgpu.reproduce.run import Run


def add_reproduce(commands: Any) -> None:
    parser = commands.add_parser(
        "reproduce", help="rerun the experiment of a paper and compare its claims with this machine"
    )
    papers = parser.add_subparsers(dest="paper", metavar="paper", required=True, help="whose experiment")
    for name, module in sorted(PAPERS.items()):
        paper = papers.add_parser(name, help=module.TITLE, description=module.TITLE)
        paper.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
        paper.add_argument(
            "--out",
            type=Path,
            default=Path("reproduced"),
            metavar="DIR",
            help="folder for the JSON file and the figures (default: reproduced)",
        )
        paper.add_argument("--quick", action="store_true", help="small matrices, under a minute on a CPU")
        # What a paper's experiment takes besides: its keyword arguments.
        extra = module.add_arguments(paper) if hasattr(module, "add_arguments") else ()
        paper.set_defaults(run=run_reproduce, extra=extra)


def run_reproduce(args: argparse.Namespace) -> int:
    extra = {name: getattr(args, name) for name in args.extra}
    PAPERS[args.paper].experiment(Run(args.paper, args.device, args.out, args.quick), **extra)
    return 0
