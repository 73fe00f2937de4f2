"""PyTorch: ``A @ x`` with a CSR tensor, as users write it."""

from __future__ import annotations

import importlib.util
import warnings
from functools import partial

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


def _csr(problem: Problem) -> Variant:
    import torch

    arrays = problem.on_device
    parts = [torch.from_dlpack(part) for part in (arrays.indptr, arrays.indices, arrays.data)]
    x = torch.from_dlpack(arrays.x)
    with warnings.catch_warnings():
        # That they are "in beta state", and that nobody checks the arrays, which SciPy has done.
        warnings.filterwarnings("ignore", message="(?i).*sparse (csr|invariant)")
        A = torch.sparse_csr_tensor(*parts, size=problem.matrix.shape)

    def result() -> np.ndarray:
        host: np.ndarray = (A @ x).cpu().numpy()
        return host

    return Variant(NAME, "csr", problem.csr_bytes, result, call=lambda: A @ x)
