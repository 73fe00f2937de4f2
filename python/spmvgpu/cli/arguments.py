"""Options that several commands have, and the numbers that options take."""

from __future__ import annotations

import argparse
from math import inf, nan

from .._util.messages import quoted


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")


def add_quiet(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quiet", action="store_true", help="show no progress")


def positive_int(text: str) -> int:
    value = int(text) if text.isdecimal() and len(text) < 10 else 0  # more digits than fit int32 are no size
    if value < 1:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a whole number from 1 to 999999999")
    return value


def positive_float(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not 0 < value < inf:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is not a positive finite number")
    return value
