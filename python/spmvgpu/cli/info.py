"""``info``: what there is to work with."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata
from typing import Any

import spmvgpu as sg

from .output import Fields, Report, in_bytes

FIELDS: Fields = {
    "versions": ("object", "versions of spmvgpu, Python, NumPy and SciPy, and the platform, as strings"),
    "devices[].name": ("string", "what `--device` takes"),
    "devices[].model": ("string", "name of the processor or GPU"),
    "devices[].memory_total": ("integer", "bytes"),
    "devices[].memory_free": ("integer", "bytes"),
    "devices[].multiprocessors": ("integer", "multiprocessors of a GPU, or threads of the CPU"),
    "devices[].compute_capability": ("string or null", "of a GPU, like `9.0`"),
    "formats[].name": ("string", "what `--format` takes"),
    "formats[].options[].name": ("string", "name of an option of the format"),
    "formats[].options[].default": ("string or number", "its default value"),
    "formats[].options[].values": ("array", "the values that it takes"),
    "formats[].options[].minimum": ("number or null", "smallest value, if it takes a range"),
    "formats[].options[].maximum": ("number or null", "largest value, if it takes a range"),
    "build": ("object", "how this copy was built, like `spmvgpu.build_info()`"),
}


def add(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "info",
        help="show the devices, the storage formats and the build",
        description="Show the devices, the storage formats with their options, versions, and how this copy "
        "of spmvgpu was built.",
    )
    parser.set_defaults(run=run_info)
    return parser


def run_info(args: argparse.Namespace) -> int:
    report = Report(args.json)
    versions = {
        "spmvgpu": sg.__version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("numpy", "scipy")},  # without importing SciPy
        "platform": " ".join([platform.system(), platform.machine(), *platform.libc_ver()]),
    }
    devices = [_device(device) for device in sg.devices()]
    formats: list[dict[str, Any]] = [
        {"name": name, "options": [_option(option) for option in sg.format_options(name)]}
        for name in sg.formats()
    ]
    build = sg.build_info()
    report.text("devices")
    for device in devices:
        report.wrapped(f"  {device['name']:<18}", ", ".join(_details(device)))
    report.text("formats and their options")
    for format in formats:
        options = ", ".join(f"{option['name']}\u00a0({_allowed(option)})" for option in format["options"])
        report.wrapped(f"  {format['name']:<18}", options or "no options")
    for title, values in (("versions", versions), ("build", build)):
        report.text(title)
        for key, value in values.items():
            report.text(f"  {key:<18} {'none' if value == '' else value}")
    report.finish(versions=versions, devices=devices, formats=formats, build=build)
    return 0


def _device(device: sg.DeviceInfo) -> dict[str, Any]:
    capability = device.compute_capability
    return {
        "name": device.name,
        "model": device.model,
        "memory_total": device.memory_total,
        "memory_free": device.memory_free,
        "multiprocessors": device.multiprocessors,
        "compute_capability": None if capability is None else ".".join(map(str, capability)),
    }


def _details(device: dict[str, Any]) -> list[str]:
    details = [device["model"]] if device["model"] else []
    if device["memory_total"]:
        memory = f"{in_bytes(device['memory_free'])} of {in_bytes(device['memory_total'])} free"
        details.append(memory)
    if device["multiprocessors"]:
        unit = "threads" if device["name"] == "cpu" else "multiprocessors"
        details.append(f"{device['multiprocessors']} {unit}")
    if device["compute_capability"]:
        details.append(f"compute capability {device['compute_capability']}")
    return details


def _option(option: dict[str, Any]) -> dict[str, Any]:
    """An option; the values that it takes are a list, or a tuple of a range and perhaps of names."""
    allowed = option["allowed"]
    low, high, *values = allowed if isinstance(allowed, tuple) else (None, None, *allowed)
    return {
        "name": option["name"],
        "default": option["default"],
        "values": values,
        "minimum": low,
        "maximum": high,
    }


def _allowed(option: dict[str, Any]) -> str:
    ranges = (
        []
        if option["minimum"] is None
        else [f"{option['minimum']:.10g}\u00a0to\u00a0{option['maximum']:.10g}"]
    )
    return "|".join([*ranges, *map(str, option["values"])])
