"""spmvgpu: every format with its default options, every CSR kernel, tuned CSR and SELL, and "auto"."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import numpy as np

import spmvgpu as sg

from .base import Job, Variant, device_result
from .problem import Problem

NAME = "spmvgpu"
DEVICES = ("cpu", "cuda")
THREADED = True

# The symmetric format as its poster has it: few, large squares, here of up to 4096 rows, whose y the shared
# memory of the poster's GPU could hold; measured whatever memory that takes.
POSTER: dict[str, Any] = {"variant": "poster", "threads": 512, "slices": 8, "max_memory": 100.0}

CALLED = "_called"
OPTIONAL = ({"format": "sell", "tune": "full"},)  # left out where building the others took long


def available() -> str | None:
    """None: this is what is measured."""
    return None


def versions() -> dict[str, str]:
    return {"spmvgpu": str(sg.build_info()["version"])}


def prepare(problem: Problem, device: str, variants: Mapping[str, dict[str, Any]] | None = None) -> list[Job]:
    """Variants by name, with what `aslinearoperator` is asked for; all that there are, if none are given.

    One that ends with "_called" is ``op @ x`` called from Python.
    """
    operator = cache(partial(_operator, problem, device))

    def build(name: str, arguments: dict[str, Any]) -> Variant:
        op = operator(**arguments)
        return _called(problem, name, op) if name.endswith(CALLED) else variant(problem, name, op)

    return [
        Job(name, partial(build, name, arguments), optional=arguments in OPTIONAL or "kernel" in arguments)
        for name, arguments in (variants or _all_variants(device)).items()
        if device != "cpu" or not name.endswith(CALLED)
    ]


def _all_variants(device: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {name: {"format": name} for name in ("csr", "sell", *sg.formats())}
    found["auto"] = found["auto_called"] = {"format": "auto"}
    if device != "cpu":
        found |= {f"{name}_tuned": {"format": name, "tune": "full"} for name in ("csr", "sell")}
        found |= {f"csr_{kernel}": {"format": "csr", "kernel": kernel} for kernel in _other_kernels()}
    return found


def _operator(problem: Problem, device: str, **arguments: Any) -> sg.SparseOperator:
    """As for a user who meets the matrix for the first time, whatever was measured before."""
    with sg.cache.ignored():
        made: sg.SparseOperator = sg.aslinearoperator(problem.matrix, device=device, **arguments)
    return made


def _other_kernels() -> list[str]:
    """The CSR kernels that are not the default."""
    for option in sg.format_options("csr"):
        if option["name"] == "kernel":
            return [str(kernel) for kernel in option["allowed"] if kernel != option["default"]]
    return []


def variant(problem: Problem, name: str, op: sg.SparseOperator) -> Variant:
    """``op.spmv`` into a given array: on a GPU to be captured in a graph, on the CPU to be called."""
    facts: dict[str, Any] = {"options": _facts(op), "setup_seconds": op.setup_seconds}
    if op.device != "cpu":
        import cupy

        x, y = problem.on_device.x, cupy.empty(op.shape[0], dtype=op.dtype)

        def launch(stream: int) -> None:
            op.spmv(x, out=y, stream=stream)

        return Variant(NAME, name, op.nbytes, device_result(launch, y), launch=launch, **facts)
    out = np.empty(op.shape[0], dtype=op.dtype)

    def call() -> Any:
        return op.spmv(problem.x, out=out)

    def result() -> Any:
        out.fill(np.nan)
        return call()

    return Variant(NAME, name, op.nbytes, result, call=call, **facts)


def _called(problem: Problem, name: str, op: sg.SparseOperator) -> Variant:
    """``op @ x`` as users write it, with a CuPy array."""
    x = problem.on_device.x

    def call() -> Any:
        return op @ x

    return Variant(NAME, name, op.nbytes, call, call=call, options=_facts(op))


def _facts(op: sg.SparseOperator) -> dict[str, Any]:
    return {"format": op.format, **op.options}
