"""PyTorch: ``A @ x`` with a CSR tensor, as users write it."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

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
    parts = map(torch.from_dlpack, (arrays.indptr, arrays.indices, arrays.data))
    return tensor(parts, problem.matrix.shape)


def csr(A: sp.csr_array, device: str) -> Any:
    """A SciPy matrix as a CSR tensor on "cuda:0" or "cpu"."""
    import torch

    return tensor(map(torch.from_numpy, (A.indptr, A.indices, A.data)), A.shape).to(device)


def tensor(parts: Iterable[Any], shape: tuple[int, ...]) -> Any:
    """A CSR tensor of its offsets, columns and values."""
    import torch

    with warnings.catch_warnings():
        # That they are "in beta state", and that nobody checks the arrays, which SciPy has done.
        warnings.filterwarnings("ignore", message="(?i).*sparse (csr|invariant)")
        return torch.sparse_csr_tensor(*parts, size=shape)


def _csr(problem: Problem) -> Variant:
    import torch

    A, x = matrix(problem), torch.from_dlpack(problem.on_device.x)

    def result() -> np.ndarray:
        host: np.ndarray = (A @ x).cpu().numpy()
        return host

    return Variant(NAME, "csr", problem.csr_bytes, result, call=lambda: A @ x)
