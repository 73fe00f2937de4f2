"""``calibrate``: measure a device, so that predictions and ``format="auto"`` know it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter
from typing import Annotated, NamedTuple

from .._util.progress import counting
from ..devices import device_name, resolve_device
from ..planning.calibrate import calibrate
from ..planning.profile import forget_loaded, profile_path
from .arguments import add_device, add_quiet
from .output import Fields, Report, check_writable, fields_of, replacing

HELP = "measure a device, so that predictions and the choice of the format fit it"
DESCRIPTION = """\
Measure a device, so that predictions and the choice of the format fit it. This takes a minute or two; the
device should have nothing else to do."""


class _Error(NamedTuple):
    format: Annotated[str, "storage format"]
    error: Annotated[float, "mean relative error of predictions"]


FIELDS: Fields = {
    "device": ("string", "the device that was measured"),
    "device_model": ("string", "name of the processor or GPU"),
    "samples": ("integer", "sample matrices that were timed"),
    "seconds": ("number", "how long it took"),
    "power": ("object", "non-zeros per second of a product, by data type"),
    "bus": ("object", "bytes per second of copies, by direction; empty for the CPU"),
    **fields_of("errors[]", _Error),
    "profile": ("string", "file with the profile"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_device(parser)
    add("--out", type=Path, metavar="FILE", help="write the profile to FILE (default: the cache directory)")
    add("--samples", type=Path, metavar="FILE", help="also write the times of the samples to FILE, as JSON")
    add(
        "--quick",
        action="store_true",
        help="measure small samples only, to try the command; the profile is too coarse to use",
    )
    add_quiet(parser)


def run(args: argparse.Namespace) -> int:
    ordinal = resolve_device(args.device)
    if args.quick and args.out is None:
        raise ValueError(
            "--quick makes a profile that is too coarse to use; give --out FILE to keep it apart"
        )
    path = args.out or profile_path(ordinal)
    if path is None:
        raise ValueError(
            "there is no cache directory to keep the profile in; give --out FILE, or set SPMVGPU_CACHE_DIR"
        )
    if args.out is None:
        path.parent.mkdir(parents=True, exist_ok=True)
    for file in filter(None, (path, args.samples)):
        check_writable(file)
    start = perf_counter()
    with counting("calibrating", "samples", total=1.0, quiet=args.quiet) as bar:

        def progress(done: float, what: str) -> None:
            bar.set_postfix_str(what, refresh=False)
            bar.update(done - bar.n)

        profile, records = calibrate(ordinal, quick=args.quick, report=progress)
    with replacing(path) as file:
        profile.save(file)
    forget_loaded()
    if args.samples is not None:
        with replacing(args.samples) as file:
            file.write_text(json.dumps(records))
    report, device, seconds = Report(args.json), device_name(ordinal), perf_counter() - start
    report.line("device", f"{device}, {profile.device}", device=device, device_model=profile.device)
    samples = sum(map(len, records.values()))
    report.line("samples", f"{samples} timed in {seconds:.0f} s", samples=samples, seconds=seconds)
    for dtype, rate in profile.power.items():
        report.line(f"power {dtype}", f"{rate / 1e9:.2f} billion non-zeros per second")
    for way, rate in profile.bus.items():
        report.line(f"bus {way}", f"{rate / 1e9:.1f} GB/s")
    errors = [_Error(name, found["error"]) for name, found in profile.formats.items() if found["error"]]
    found = ", ".join(f"{e.format}\u00a0{e.error:.0%}" for e in errors)
    report.wrapped("mean error of predictions: ", found or "too few samples")
    kept = str(profile.measured["kept"])
    report.wrapped("not measured, kept as known: ", kept or "none")
    report.line("profile", str(path))
    report.finish(power=dict(profile.power), bus=dict(profile.bus), errors=errors, profile=path)
    return 0
