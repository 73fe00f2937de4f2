"""Intel MKL through sparse_dot_mkl: ``A @ x`` on the CPU."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from .base import Job, Variant
from .problem import Problem

NAME = "mkl"
DEVICES = ("cpu",)
THREADED = True

LIBRARY_VARIABLE = "MKL_RT"  # where sparse_dot_mkl looks for the library first


def available() -> str | None:
    """None, or the reason why this peer cannot run."""
    if importlib.util.find_spec("sparse_dot_mkl") is None:
        return "sparse_dot_mkl is not installed"
    # `pip install mkl` puts the library where sparse_dot_mkl does not look by itself.
    installed = sorted(Path(sys.prefix, "lib").glob("libmkl_rt.so*"))
    if installed:
        os.environ.setdefault(LIBRARY_VARIABLE, str(installed[-1]))
    try:
        import sparse_dot_mkl  # noqa: F401
    except ImportError as error:  # it is there, the MKL library is not
        return str(error).splitlines()[0]
    return None


def versions() -> dict[str, str]:
    import sparse_dot_mkl

    return {"mkl": ".".join(str(part) for part in sparse_dot_mkl.mkl_get_version()[:3])}


def prepare(problem: Problem) -> list[Job]:
    def build() -> Variant:
        from sparse_dot_mkl import dot_product_mkl

        A, x = sp.csr_matrix(problem.matrix), problem.x
        out = np.zeros(problem.matrix.shape[0], dtype=problem.dtype)

        def call() -> np.ndarray:
            y: np.ndarray = dot_product_mkl(A, x, out=out, out_scalar=0.0)
            return y

        return Variant(NAME, "csr", problem.csr_bytes, call, call=call)

    return [Job("csr", build)]
