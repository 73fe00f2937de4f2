"""``info``: what there is to work with."""

from __future__ import annotations

import argparse
from typing import Any

import spmvgpu as sg

from .output import in_bytes


def add(commands: Any) -> None:
    parser = commands.add_parser("info", help="show devices, formats and how this copy was built")
    parser.set_defaults(run=run_info)


def run_info(args: argparse.Namespace) -> int:
    print("devices")
    for device in sg.devices():
        details = [device.model]
        if device.memory_total:
            details.append(f"{in_bytes(device.memory_free)} of {in_bytes(device.memory_total)} free")
        if device.multiprocessors:
            details.append(f"{device.multiprocessors} multiprocessors")
        if device.compute_capability:
            details.append(f"compute capability {_version(device.compute_capability)}")
        print(f"  {device.name:<8} {', '.join(str(detail) for detail in details if detail)}")
    print("formats and their options")
    for name in sg.formats():
        options = [f"{option['name']} ({_allowed(option['allowed'])})" for option in sg.format_options(name)]
        print(f"  {name:<8} {', '.join(options) or 'no options'}")
    print("build")
    for key, value in sg.build_info().items():
        print(f"  {key:<20} {value}")
    return 0


def _version(value: Any) -> str:
    return ".".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _allowed(values: Any) -> str:
    """Show a range, which is given as a tuple, perhaps with a name after it, or a list of values."""
    if not isinstance(values, tuple):
        return "|".join(map(str, values))
    low, high, *names = values
    return "|".join([f"{low} to {high}", *names])
