"""CuPy: ``A @ x`` as users write it, and the cuSPARSE call behind it replayed from a graph."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from .base import Job, Variant, device_result
from .problem import Problem

NAME = "cupy"
DEVICES = ("cuda",)


def available() -> str | None:
    """None, or the reason why this peer cannot run."""
    if importlib.util.find_spec("cupy") is None:
        return "not installed"
    import cupy

    return None if cupy.cuda.is_available() else "sees no GPU"


def versions() -> dict[str, str]:
    import cupy

    return {"cupy": cupy.__version__}


def prepare(problem: Problem) -> list[Job]:
    return [Job("csr", partial(_called, problem)), Job("csr_graph", partial(_replayed, problem))]


def matrix(problem: Problem) -> Any:
    """The problem's matrix as a CuPy sparse matrix, marked canonical: no check per product."""
    from cupyx.scipy import sparse

    arrays = problem.on_device
    result = sparse.csr_matrix((arrays.data, arrays.indices, arrays.indptr), shape=problem.matrix.shape)
    result.has_canonical_format = True
    return result


def tolerance(solver: Callable[..., Any]) -> str:
    """Name of a solver's relative tolerance; it was tol before CuPy 14."""
    return "rtol" if "rtol" in inspect.signature(solver).parameters else "tol"


def _called(problem: Problem) -> Variant:
    A, x = matrix(problem), problem.on_device.x

    def call() -> Any:
        return A @ x

    return Variant(NAME, "csr", problem.csr_bytes, call, call=call)


def _replayed(problem: Problem) -> Variant:
    """The product behind ``A @ x``, written to `y` on CuPy's current stream."""
    import cupy
    from cupyx import cusparse

    A, x, y = matrix(problem), problem.on_device.x, cupy.empty(problem.matrix.shape[0], dtype=problem.dtype)

    def launch(stream: int) -> None:
        cusparse.spmv(A, x, y)

    return Variant(NAME, "csr_graph", problem.csr_bytes, device_result(launch, y), launch=launch)
