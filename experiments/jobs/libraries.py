"""The libraries that do the jobs, each the way its own documentation shows it, with default settings."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

import spmvgpu as sg
from experiments import peers

Array = np.ndarray
Solve = Callable[[sp.csr_array, Array, dict[str, Any]], Array]


@dataclass(frozen=True)
class Library:
    """One library on one kind of device.

    `build` converts a SciPy matrix, `multiply` takes and gives NumPy arrays of one or two dimensions, `solve`
    goes from SciPy matrix and right-hand side to the solution; None where the library has no such solver.
    """

    name: str
    device: str  # "gpu" or "cpu"
    build: Callable[[sp.csr_array], Any]
    multiply: Callable[[Any, Array], Array]
    solve: Solve | None = None
    operator: Callable[[Any], Any] = lambda built: built

    def __str__(self) -> str:
        return f"{self.name} on the {self.device.upper()}"

    @property
    def fields(self) -> dict[str, str]:
        return {"library": self.name, "device": self.device}


def ours(device: str) -> Library:
    """spmvgpu on "cuda:0" or "cpu"."""

    def build(A: sp.csr_array) -> Any:
        return sg.aslinearoperator(A, device=device)

    def solve(A: sp.csr_array, b: Array, options: dict[str, Any]) -> Array:
        x: Array = sg.linalg.cg(build(A), b, **options)[0]
        return x

    return Library("spmvgpu", "cpu" if device == "cpu" else "gpu", build, lambda op, x: op @ x, solve)


def scipy() -> Library:
    """SciPy's own matrix and solver."""
    return Library(
        "scipy",
        "cpu",
        lambda A: A,
        lambda A, x: A @ x,
        lambda A, b, options: sla.cg(A, b, **options)[0],
    )


def cupy() -> Library:
    """CuPy; vectors cross the bus where NumPy has them."""
    import cupy as cp
    from cupyx.scipy.sparse import csr_matrix

    def build(A: sp.csr_array) -> Any:
        return csr_matrix(sp.csr_matrix(A))

    def multiply(G: Any, x: Array) -> Array:
        y: Array = cp.asnumpy(G @ cp.asarray(x))
        return y

    def solve(A: sp.csr_array, b: Array, options: dict[str, Any]) -> Array:
        return cupy_cg(build(A), b, options)

    def operator(G: Any) -> sla.LinearOperator:
        return sla.LinearOperator(
            G.shape, matvec=lambda x: multiply(G, x), matmat=lambda X: multiply(G, X), dtype=G.dtype
        )

    return Library("cupy", "gpu", build, multiply, solve, operator)


def cupy_cg(G: Any, b: Array, options: dict[str, Any]) -> Array:
    """CuPy's conjugate gradients, from NumPy array to NumPy array."""
    import cupy as cp
    from cupyx.scipy.sparse.linalg import cg

    named = {peers.cupy.tolerance(cg) if name == "rtol" else name: value for name, value in options.items()}
    x: Array = cp.asnumpy(cg(G, cp.asarray(b), **named)[0])
    return x


def torch(device: str) -> Library:
    """PyTorch on "cuda:0" or "cpu"; it has products, and no solver for sparse matrices."""
    import torch as pt

    def build(A: sp.csr_array) -> Any:
        return peers.torch.csr(A, device)

    def multiply(T: Any, x: Array) -> Array:
        y: Array = (T @ pt.from_numpy(x).to(device)).cpu().numpy()
        return y

    return Library("torch", "cpu" if device == "cpu" else "gpu", build, multiply)


def solvers(gpu: bool) -> list[Library]:
    """Those that solve; ours first. CuPy must be there where a GPU is measured."""
    return [*([ours("cuda:0"), cupy()] if gpu else []), ours("cpu"), scipy()]


def all_libraries(gpu: bool) -> list[Library]:
    """All that multiply. PyTorch comes last: it brings threads of its own, which the others do without."""
    with_torch = importlib.util.find_spec("torch") is not None
    devices = (["cuda:0"] if gpu else []) + ["cpu"]
    return solvers(gpu) + ([torch(device) for device in devices] if with_torch else [])


def missing(gpu: bool) -> dict[str, str]:
    """Libraries that are not measured, each with the reason."""
    found = {}
    if not gpu:
        found["cupy"] = "no GPU is measured"
    if importlib.util.find_spec("torch") is None:
        found["torch"] = "not installed"
    return found
