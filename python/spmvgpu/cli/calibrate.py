"""``calibrate``: measure a device, so that predictions and ``format="auto"`` know it."""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter
from typing import Any

from ..devices import device_name, resolve_device
from ..planning.model.calibrate import calibrate, save_records
from ..planning.model.profile import forget_loaded, profile_path
from .output import check_writable, print_line, progress_bar, replacing


def add(commands: Any) -> None:
    parser = commands.add_parser(
        "calibrate", help="measure a device for the performance models; takes a minute or two"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N (default: auto)")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="where to write the profile (default: the user's cache)"
    )
    parser.add_argument("--samples", type=Path, metavar="FILE", help="also write the timings, as JSON")
    parser.add_argument(
        "--quick", action="store_true", help="small samples only, to try the command; the profile is no good"
    )
    parser.set_defaults(run=run_calibrate)


def run_calibrate(args: argparse.Namespace) -> int:
    ordinal = resolve_device(args.device)
    if args.quick and args.out is None:
        raise ValueError("--quick makes a profile that is no good; give --out FILE, so that nothing uses it")
    path = args.out or profile_path(ordinal)
    if path is None:
        raise ValueError(
            "there is no cache directory to keep the profile in; give --out FILE, or set SPMVGPU_CACHE_DIR"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    for file in filter(None, (path, args.samples)):
        check_writable(file)
    start = perf_counter()
    form = "{bar:30} {percentage:3.0f}% {elapsed}{postfix}"
    bar = progress_bar(total=1.0, bar_format=form, disable=None)  # None: on a terminal only

    def report(done: float, what: str) -> None:
        bar.update(done - bar.n)
        bar.set_postfix_str(what)

    try:
        profile, records = calibrate(ordinal, quick=args.quick, report=report)
    finally:
        bar.close()
    with replacing(path) as file:
        profile.save(file)
    forget_loaded()
    if args.samples is not None:
        with replacing(args.samples) as file:
            save_records(file, records)
    print_line("device", f"{device_name(ordinal)}, {profile.device}")
    print_line("samples", f"{sum(map(len, records.values()))} timed in {perf_counter() - start:.0f} s")
    for dtype, rate in profile.power.items():
        print_line(f"power {dtype}", f"{rate / 1e9:.2f} billion non-zeros per second")
    for way, rate in profile.bus.items():
        print_line(f"bus {way}", f"{rate / 1e9:.1f} GB/s")
    for dtype, parameters in profile.roofline.items():
        errors = ", ".join(f"{v['format']} {v['error']:.0%}" for v in parameters["variants"])
        print_line(f"error {dtype}", f"{errors or 'too few samples'} (mean, on samples left out)")
    print_line("written", str(path))
    return 0
