"""``reproduce``: the experiment of a paper, on this machine."""

from __future__ import annotations

import argparse
import io
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TextIO

from spmvgpu.reproduce import PAPERS
from spmvgpu.reproduce.run import Run


def add(commands: Any) -> None:
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
            help="folder for the text, the JSON file and the figures (default: reproduced)",
        )
        paper.add_argument("--quick", action="store_true", help="small matrices, under a minute on a CPU")
        # What a paper's experiment takes besides: its keyword arguments.
        extra = module.add_arguments(paper) if hasattr(module, "add_arguments") else ()
        paper.set_defaults(run=run_reproduce, extra=extra)


def run_reproduce(args: argparse.Namespace) -> int:
    extra = {name: getattr(args, name) for name in args.extra}
    run = Run(args.paper, args.device, args.out, args.quick)
    path = args.out / f"{args.paper}.txt"
    with path.open("w", encoding="utf-8") as file, redirect_stdout(_Both(sys.stdout, file)):
        PAPERS[args.paper].experiment(run, **extra)
    print(f"wrote this text to {path}")
    return 0


class _Both(io.TextIOBase):
    """A text stream that writes to two others."""

    def __init__(self, *streams: TextIO) -> None:
        self._streams = streams

    def write(self, text: str) -> int:
        for stream in self._streams:
            stream.write(text)
        return len(text)

    def flush(self) -> None:
        for stream in self._streams:
            stream.flush()
