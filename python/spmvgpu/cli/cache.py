"""``cache``: see what is kept on disk between programs, or delete it."""

from __future__ import annotations

import argparse

from .. import cache
from ..planning.profile import forget_loaded
from .output import Fields, Report, in_bytes

FIELDS: Fields = {
    "deleted": ("integer or null", "files that were deleted, with `--clear`"),
    "directory": ("string or null", "where the files are"),
    "tuning_entries": ("integer", "matrices for which tuning is remembered"),
    "tuning_limit": ("integer", "most matrices that are remembered"),
    "profiles": ("array of strings", "names of the calibrated devices"),
    "bytes": ("integer", "size of all files"),
}


HELP = "show or delete the results of tuning and calibration that are kept on disk"
DESCRIPTION = """\
Show or delete the results of tuning and calibration that are kept on disk. The environment variable
SPMVGPU_CACHE_DIR names another directory."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--clear", action="store_true", help="delete the results of tuning")
    add("--profiles", action="store_true", help="with --clear: also delete the profiles made by calibrate")


def run(args: argparse.Namespace) -> int:
    if args.profiles and not args.clear:
        raise ValueError("--profiles is for --clear; give both")
    report = Report(args.json)
    deleted = None
    if args.clear:
        deleted = cache.clear(profiles=args.profiles)
        forget_loaded()
        report.line("deleted", f"{deleted} {'file' if deleted == 1 else 'files'}")
    found = cache.info()
    directory = found.directory
    report.line("directory", str(directory or "none"), deleted=deleted, directory=directory)
    entries, limit = found.tuning_entries, cache.MAX_TUNING_ENTRIES
    text = f"{entries} of at most {limit} matrices"
    report.line("tuning", text, tuning_entries=entries, tuning_limit=limit)
    report.line("profiles", ", ".join(found.profiles) or "none", profiles=list(found.profiles))
    report.line("size", in_bytes(found.bytes), bytes=found.bytes)
    report.finish()
    return 0
