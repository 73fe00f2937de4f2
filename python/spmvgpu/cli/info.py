"""``info``: what there is to work with."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Annotated, Any, NamedTuple

import spmvgpu as sg

from ..devices import cuda_error
from .output import Fields, Report, fields_of, in_bytes

HELP = "show the devices, the storage formats and the build"
DESCRIPTION = """\
Show the devices, the storage formats with their options, versions, and how this copy of spmvgpu was built."""


class _Device(NamedTuple):
    name: Annotated[str, "what `--device` takes"]
    model: Annotated[str, "name of the processor or GPU"]
    memory_total: Annotated[int, "bytes"]
    memory_free: Annotated[int, "bytes"]
    multiprocessors: Annotated[int, "multiprocessors of a GPU, or threads of the CPU"]
    compute_capability: Annotated[str | None, "of a GPU, like `9.0`"]

    @classmethod
    def of(cls, device: sg.DeviceInfo) -> _Device:
        facts: dict[str, Any] = {name: getattr(device, name) for name in cls._fields}
        capability = device.compute_capability
        text = None if capability is None else ".".join(map(str, capability))
        return cls(**{**facts, "compute_capability": text})

    @property
    def details(self) -> Iterator[str]:
        """What there is to say beside the name."""
        if self.model:
            yield self.model
        if self.memory_total:
            yield f"{in_bytes(self.memory_free)} of {in_bytes(self.memory_total)} free"
        if self.multiprocessors:
            yield f"{self.multiprocessors} {'threads' if self.name == 'cpu' else 'multiprocessors'}"
        if self.compute_capability:
            yield f"compute capability {self.compute_capability}"


class _Option(NamedTuple):
    name: Annotated[str, "name of an option of the format"]
    default: Annotated[str | float, "its default value"]
    values: Annotated[list[str | int], "the values that it takes"]
    minimum: Annotated[float | None, "smallest value, if it takes a range"]
    maximum: Annotated[float | None, "largest value, if it takes a range"]

    @classmethod
    def of(cls, option: Mapping[str, Any]) -> _Option:
        """From what the core says: what is allowed is a list, or a tuple of a range and perhaps of names."""
        allowed = option["allowed"]
        low, high, *values = allowed if isinstance(allowed, tuple) else (None, None, *allowed)
        return cls(option["name"], option["default"], values, low, high)

    def __str__(self) -> str:
        no_range = self.minimum is None
        ranges = [] if no_range else [f"{self.minimum:.10g}\u00a0to\u00a0{self.maximum:.10g}"]
        return f"{self.name}\u00a0({'|'.join([*ranges, *map(str, self.values)])})"


FIELDS: Fields = {
    "versions": ("object", "versions of spmvgpu, Python, NumPy and SciPy, and the platform, as strings"),
    **fields_of("devices[]", _Device),
    "cuda_error": ("string or null", "why CUDA cannot list its devices; null without such an error"),
    "formats[].name": ("string", "what `--format` takes"),
    **fields_of("formats[].options[]", _Option),
    "build": ("object", "how this copy was built, like `spmvgpu.build_info()`"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(args: argparse.Namespace) -> int:
    report = Report(args.json)
    versions = {
        "spmvgpu": sg.__version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("numpy", "scipy")},  # without importing SciPy
        "platform": " ".join([platform.system(), platform.machine(), *platform.libc_ver()]),
    }
    devices = [_Device.of(device) for device in sg.devices()]
    no_gpus = cuda_error()
    formats = {name: [_Option.of(option) for option in sg.format_options(name)] for name in sg.formats()}
    build = sg.build_info()
    report.text("devices")
    for device in devices:
        report.wrapped(f"  {device.name:<18}", ", ".join(device.details))
    if no_gpus:
        report.wrapped(f"  {'cuda':<18}", f"not usable: {no_gpus}")
    report.text("formats and their options")
    for name, options in formats.items():
        report.wrapped(f"  {name:<18}", ", ".join(map(str, options)) or "no options")
    for title, values in (("versions", versions), ("build", build)):
        report.text(title)
        for key, value in values.items():
            report.text(f"  {key:<18} {'none' if value == '' else value}")
    found = [{"name": name, "options": options} for name, options in formats.items()]
    report.finish(versions=versions, devices=devices, cuda_error=no_gpus, formats=found, build=build)
    return 0
