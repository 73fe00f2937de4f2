"""``cache``: see what is kept on disk between programs, or delete it."""

from __future__ import annotations

import argparse
from typing import Any

from .. import cache
from ..planning.model.profile import forget_loaded
from .output import in_bytes, print_line


def add(commands: Any) -> None:
    parser = commands.add_parser("cache", help="show or clear what is kept of tuning and calibration")
    parser.add_argument(
        "--clear", action="store_true", help="forget which formats were found to be the fastest"
    )
    parser.add_argument(
        "--profiles", action="store_true", help="with --clear: delete calibrated profiles, too"
    )
    parser.set_defaults(run=run_cache)


def run_cache(args: argparse.Namespace) -> int:
    if args.profiles and not args.clear:
        raise ValueError("--profiles says what to delete; give it together with --clear")
    if args.clear:
        deleted = cache.clear(profiles=args.profiles)
        forget_loaded()
        print_line("deleted", f"{deleted} {'file' if deleted == 1 else 'files'}")
    found = cache.info()
    print_line("directory", "none" if found.directory is None else str(found.directory))
    print_line("tuning", f"{found.tuning_entries} of at most {cache.MAX_TUNING_ENTRIES} matrices")
    print_line("profiles", ", ".join(found.profiles) or "none")
    print_line("size", in_bytes(found.bytes))
    return 0
