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
    parser.add_argument("paper", choices=sorted(PAPERS), help="whose experiment")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("reproduced"),
        metavar="DIR",
        help="folder for the JSON file and the figures (default: reproduced)",
    )
    parser.add_argument("--quick", action="store_true", help="small matrices, under a minute on a CPU")
    parser.set_defaults(run=run_reproduce)


def run_reproduce(args: argparse.Namespace) -> int:
    PAPERS[args.paper].experiment(Run(args.paper, args.device, args.out, args.quick))
    return 0
