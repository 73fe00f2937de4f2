"""SciPy: ``A @ x`` with a csr_array, on one core."""

from __future__ import annotations

import numpy as np
import scipy

from .base import Job, Variant
from .problem import Problem

NAME = "scipy"
DEVICES = ("cpu", "cuda")
THREADED = False


def available() -> str | None:
    """None: nothing is measured without it."""
    return None


def versions() -> dict[str, str]:
    return {"scipy": scipy.__version__}


def prepare(problem: Problem) -> list[Job]:
    def build() -> Variant:
        A, x = problem.matrix, problem.x

        def result() -> np.ndarray:
            y: np.ndarray = A @ x
            return y

        return Variant(NAME, "csr", problem.csr_bytes, result, call=result)

    return [Job("csr", build)]
