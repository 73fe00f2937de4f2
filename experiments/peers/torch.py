"""PyTorch: ``A @ x`` with a CSR tensor, as users write it."""

from __future__ import annotations

import importlib.util
import warnings
from functools import partial
from typing import Any

import numpy as np

from .base import Job, Variant
from .problem import Problem

NAME = "torch"
DEVICES = ("cuda",)


def available() -> str | None:
    """None, or the reason why this peer cannot run."""
    if importlib.util.find_spec("torch") is None:
        return "not installed"
    import torch

    return None if torch.cuda.is_available() else "sees no GPU"


def versions() -> dict[str, str]:
    import torch

    return {"torch": str(torch.__version__)}


def prepare(problem: Problem) -> list[Job]:
    return [Job("csr", partial(_csr, problem))]


def matrix(problem: Problem) -> Any:
    """The problem's matrix as a CSR tensor."""
    import torch

    arrays = problem.on_device
    parts = [torch.from_dlpack(part) for part in (arrays.indptr, arrays.indices, arrays.data)]
    with warnings.catch_warnings():
        # That they are "in beta state", and that nobody checks the arrays, which SciPy has done.
        warnings.filterwarnings("ignore", message="(?i).*sparse (csr|invariant)")
        return torch.sparse_csr_tensor(*parts, size=problem.matrix.shape)


def _csr(problem: Problem) -> Variant:
    import torch

    A, x = matrix(problem), torch.from_dlpack(problem.on_device.x)

    def result() -> np.ndarray:
        host: np.ndarray = (A @ x).cpu().numpy()
        return host

    return Variant(NAME, "csr", problem.csr_bytes, result, call=lambda: A @ x)
