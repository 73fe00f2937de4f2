"""The command of a paper: ``python -m experiments yin2012 --out DIR``."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TextIO

from . import PAPERS
from .run import Run


def main(name: str, arguments: Sequence[str]) -> int:
    """Run the experiment of one paper, by its name in `PAPERS`."""
    paper = PAPERS[name]
    parser = argparse.ArgumentParser(prog=f"python -m experiments {name}", description=paper.TITLE)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("reproduced"),
        metavar="DIR",
        help="folder for the text, the JSON file and the figures (default: reproduced)",
    )
    parser.add_argument("--quick", action="store_true", help="small matrices, under a minute on a CPU")
    # What a paper's experiment takes besides: its keyword arguments.
    extra = paper.add_arguments(parser) if hasattr(paper, "add_arguments") else ()
    options = parser.parse_args(arguments)
    run = Run(name, options.device, options.out, options.quick)
    path = options.out / f"{name}.txt"
    with path.open("w", encoding="utf-8") as file, redirect_stdout(_Both(sys.stdout, file)):
        paper.experiment(run, **{option: getattr(options, option) for option in extra})
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
