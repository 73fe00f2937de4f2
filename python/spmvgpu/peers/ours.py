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


def available() -> str | None:
    """None: this is what is measured."""
    return None


def versions() -> dict[str, str]:
    return {"spmvgpu": str(sg.build_info()["version"])}


def prepare(problem: Problem, device: str) -> list[Job]:
    """The variants that speed is judged by come first, the other kernels last."""

    def job(name: str, optional: bool = False, **arguments: Any) -> Job:
        return Job(name, lambda: variant(problem, name, _operator(problem, device, **arguments)), optional)

    jobs = [job("csr", format="csr"), job("sell", format="sell")]
    others = [job(name, format=name) for name in sg.formats() if name not in ("csr", "sell")]
    if device == "cpu":
        return [*jobs, *others, job("auto", format="auto")]
    automatic = cache(partial(_operator, problem, device, format="auto"))
    return [
        *jobs,
        job("csr_tuned", format="csr", tune="full"),
        *others,
        Job("auto", lambda: variant(problem, "auto", automatic())),
        Job("auto_called", lambda: _called(problem, automatic())),
        job("sell_tuned", optional=True, format="sell", tune="full"),
        *(
            job(f"csr_{kernel}", optional=True, format="csr", kernel=kernel)
            for kernel in _allowed("csr", "kernel")
        ),
    ]


def prepare_symmetric(problem: Problem, device: str) -> list[Job]:
    """The symmetric format, its other variants whatever memory they take, and general formats beside them."""

    def job(name: str, **arguments: Any) -> Job:
        return Job(name, lambda: variant(problem, name, _operator(problem, device, **arguments)))

    variants = _allowed("tsmv", "variant") if "tsmv" in sg.formats() else []
    return [
        job("tsmv", format="tsmv", symmetric=True),  # missing from this build: skipped, with that reason
        *(
            job(f"tsmv_{name}", format="tsmv", symmetric=True, variant=name, max_memory=100.0)
            for name in variants
        ),
        job("csr", format="csr"),
        job("sell", format="sell"),
    ]


def _operator(problem: Problem, device: str, **arguments: Any) -> sg.SparseOperator:
    return sg.aslinearoperator(problem.matrix, device=device, **arguments)


def _allowed(format: str, option: str) -> list[str]:
    """The values that an option of a format can take, the default left out."""
    for entry in sg.format_options(format):
        if entry["name"] == option:
            return [str(value) for value in entry["allowed"] if value != entry["default"]]
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
