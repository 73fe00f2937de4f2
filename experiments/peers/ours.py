"""spmvgpu: every format with its default options, every CSR kernel, tuned CSR and SELL, and "auto"."""

from __future__ import annotations

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


def available() -> str | None:
    """None: this is what is measured."""
    return None


def versions() -> dict[str, str]:
    return {"spmvgpu": str(sg.build_info()["version"])}


def prepare(problem: Problem, device: str) -> list[Job]:
    """The variants that speed is judged by come first, the other kernels last."""

    def job(name: str, optional: bool = False, **arguments: Any) -> Job:
        return Job(name, partial(_variant_of, problem, name, device=device, **arguments), optional)

    jobs = [job("csr", format="csr"), job("sell", format="sell")]
    others = [job(name, format=name) for name in sg.formats() if name not in ("csr", "sell")]
    if device == "cpu":
        return [*jobs, *others, job("auto", format="auto")]
    return [
        *jobs,
        job("csr_tuned", format="csr", tune="full"),
        *others,
        *_automatic(problem, device),
        job("sell_tuned", optional=True, format="sell", tune="full"),
        *(job(f"csr_{kernel}", optional=True, format="csr", kernel=kernel) for kernel in _other_kernels()),
    ]


def prepare_general(problem: Problem, device: str) -> list[Job]:
    """The general formats that are judged, and what one gets by default."""
    return [
        Job(name, partial(_variant_of, problem, name, device=device, format=name))
        for name in ("csr", "sell", "auto")
    ]


def prepare_default(problem: Problem, device: str) -> list[Job]:
    """What one gets by default, and CSR beside it."""
    csr = Job("csr", partial(_variant_of, problem, "csr", device=device, format="csr"))
    return [csr, *_automatic(problem, device)[: 1 if device == "cpu" else None]]


def _automatic(problem: Problem, device: str) -> list[Job]:
    """The format that is chosen: its product by itself, and called from Python."""
    operator = cache(partial(_operator, problem, device, format="auto"))
    return [
        Job("auto", lambda: variant(problem, "auto", operator())),
        Job("auto_called", lambda: _called(problem, operator())),
    ]


def prepare_symmetric(problem: Problem, device: str) -> list[Job]:
    """The symmetric format, the poster's variant whatever memory it takes, and general formats beside."""

    def job(name: str, **arguments: Any) -> Job:
        return Job(name, partial(_variant_of, problem, name, device=device, **arguments))

    return [
        job("tsmv", format="tsmv", symmetric=True),
        job("tsmv_poster", format="tsmv", symmetric=True, variant="poster", max_memory=POSTER["max_memory"]),
        job("tsmv_poster_large", format="tsmv", symmetric=True, **POSTER),
        job("csr", format="csr"),
        job("sell", format="sell"),
    ]


def _variant_of(problem: Problem, name: str, device: str, **arguments: Any) -> Variant:
    return variant(problem, name, _operator(problem, device, **arguments))


def _operator(problem: Problem, device: str, **arguments: Any) -> sg.SparseOperator:
    """As for a user who meets the matrix for the first time, whatever was measured before."""
    with sg.cache.ignored():
        return sg.aslinearoperator(problem.matrix, device=device, **arguments)


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


def _called(problem: Problem, op: sg.SparseOperator) -> Variant:
    """``op @ x`` as users write it, with a CuPy array."""
    x = problem.on_device.x

    def call() -> Any:
        return op @ x

    return Variant(NAME, "auto_called", op.nbytes, call, call=call, options=_facts(op))


def _facts(op: sg.SparseOperator) -> dict[str, Any]:
    return {"format": op.format, **op.options}
