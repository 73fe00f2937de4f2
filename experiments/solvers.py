"""Iterative solvers beside those of CuPy, PyTorch and SciPy.

A row has the time of an iteration, as the slope between a short and a long run without a tolerance, and the
time from a right-hand side to a solution of relative residual 1e-8, both with vectors where the library keeps
them. Every solution is checked with SciPy. Libraries: this one, CuPy and a loop written with PyTorch's
products on the GPU; SciPy on the CPU.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

import spmvgpu as sg
from spmvgpu import linalg

from . import peers
from .clock import timed
from .engine import Experiment, Items, Run
from .jobs import systems
from .peers.problem import Problem
from .records import Row
from .suite import Item

RTOL = 1e-8
RESTART = 30
ROUNDS = 3
SHORT, LONG = 30, 150  # iterations between which the slope is taken; multiples of the restart
OF_SCIPY = 10  # fewer of them for the loops that take milliseconds an iteration
MOST = 20_000  # iterations to a solution

Array = np.ndarray[Any, Any]
# Takes b, a tolerance and a limit of iterations; returns x and the number of iterations.
Solve = Callable[[Any, float, int], tuple[Any, int]]


class System:
    """A matrix, a right-hand side, and the device."""

    def __init__(self, name: str, A: sp.csr_array, device: str) -> None:
        self.name, self.A, self.device = name, A, device
        self.b = np.random.default_rng(3).standard_normal(A.shape[0])
        self.on_gpu = device != "cpu"

    def residual(self, x: Array) -> float:
        """The norm of the residual over that of the right-hand side."""
        return float(np.linalg.norm(self.b - self.A @ x) / np.linalg.norm(self.b))

    @cached_property
    def operator(self) -> sg.SparseOperator:
        """As one gets it by default."""
        return sg.aslinearoperator(self.A, device=self.device)


def ours(
    system: System, solver: str, op: sg.SparseOperator | None = None, M: Any = None
) -> tuple[Solve, Any]:
    """This library's solver, with vectors on the device."""
    op = op if op is not None else system.operator

    def solve(b: Any, rtol: float, most: int) -> tuple[Any, int]:
        options = {"restart": RESTART} if solver == "gmres" else {}
        cycles = max(1, most // RESTART) if solver == "gmres" else most
        x, _ = getattr(linalg, solver)(op, b, rtol=rtol, maxiter=cycles, M=M, **options)
        info = op.solve_info
        assert info is not None
        return x, info.iterations

    return solve, _device_array(system)


def _device_array(system: System) -> Any:
    if not system.on_gpu:
        return system.b
    try:
        import cupy

        return cupy.asarray(system.b)
    except ImportError:
        return system.b


def scipy_solver(system: System, solver: str) -> tuple[Solve, Any]:
    """SciPy's, with its own product."""

    def solve(b: Any, rtol: float, most: int) -> tuple[Any, int]:
        calls: list[None] = []
        options: dict[str, Any] = {}
        if solver == "gmres":
            options = {"restart": RESTART, "callback_type": "pr_norm"}
            most = max(1, most // RESTART)
        x, _ = getattr(sla, solver)(
            system.A, b, rtol=rtol, maxiter=most, callback=lambda _: calls.append(None), **options
        )
        return x, len(calls)

    return solve, system.b


def cupy_solver(system: System, solver: str) -> tuple[Solve, Any]:
    """CuPy's, where it has the solver."""
    import cupy
    import cupyx.scipy.sparse as cusp
    from cupyx.scipy.sparse import linalg as cula

    G = cusp.csr_matrix(sp.csr_matrix(system.A))
    function = getattr(cula, solver)

    def solve(b: Any, rtol: float, most: int) -> tuple[Any, int]:
        calls: list[None] = []
        # It counts iterations of gmres too, and calls back once a restart.
        options: dict[str, Any] = {"restart": RESTART} if solver == "gmres" else {}
        options |= {"callback": lambda _: calls.append(None), peers.cupy.tolerance(function): rtol}
        x, _ = function(G, b, maxiter=most, **options)
        cupy.cuda.Device().synchronize()
        return x, len(calls) * (RESTART if solver == "gmres" else 1)

    return solve, cupy.asarray(system.b)


def torch_solver(system: System, solver: str) -> tuple[Solve, Any]:
    """Conjugate gradients as one writes them with PyTorch, looking at the residual in every iteration."""
    import torch

    if solver != "cg":
        raise LookupError("no loop of this solver is written")
    G = peers.torch.csr(system.A, system.device)

    def solve(b: Any, rtol: float, most: int) -> tuple[Any, int]:
        x, r = torch.zeros_like(b), b.clone()
        p, rho = r.clone(), torch.dot(r, r)
        goal = rtol * float(torch.linalg.vector_norm(b))
        for k in range(most):
            if float(rho) ** 0.5 <= goal:
                return x, k
            q = G @ p
            alpha = rho / torch.dot(p, q)
            x.add_(alpha * p)
            r.sub_(alpha * q)
            before, rho = rho, torch.dot(r, r)
            p.mul_(rho / before).add_(r)
        float(rho)
        return x, most

    return solve, torch.from_numpy(system.b).to(system.device)


LIBRARIES: dict[str, Callable[..., tuple[Solve, Any]]] = {
    "spmvgpu": ours, "cupy": cupy_solver, "torch": torch_solver, "scipy": scipy_solver,
}  # fmt: skip
SOLVERS = ("cg", "bicgstab", "gmres", "minres")


def items(options: argparse.Namespace) -> Items:
    names = systems.QUICK if options.quick else systems.SYSTEMS
    found = [Item(name, "system", partial(systems.matrix, name)) for name in names]
    return found, {}


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    """Every solver of every library on one system."""
    system = System(problem.name, problem.matrix, run.device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of runs without a tolerance, which stagnate
        for solver, library in product(SOLVERS, [name for name in LIBRARIES if run.on_gpu or name != "cupy"]):
            what = {"system": system.name, "library": library, "solver": solver}
            if library == "scipy" and system.A.shape[0] > 200_000:
                run.record.skip("it would take minutes", **what)
            elif library != "spmvgpu" and solver != "cg" and system.A.nnz > 8_000_000:
                run.record.skip("cg alone is compared on systems of this size", **what)
            elif run.fits(0, **what):
                with run.noted(**what):
                    own = {"format": system.operator.format} if library == "spmvgpu" else {}
                    yield _row(system, library, solver, LIBRARIES[library](system, solver), **own)
        if run.fits(0, system=system.name, preconditioner="jacobi"):
            made = ours(system, "cg", M=linalg.jacobi(system.operator))
            yield _row(system, "spmvgpu", "cg", made, preconditioner="jacobi")
        if run.fits(0, system=system.name, symmetric=True):
            # Users of cg know that the matrix is symmetric, and may say so.
            op = sg.aslinearoperator(system.A, device=system.device, symmetric=True)
            for solver in ("cg", "minres"):
                made = ours(system, solver, op)
                yield _row(system, "spmvgpu", solver, made, format=op.format, symmetric=True)


def _row(system: System, library: str, solver: str, made: tuple[Solve, Any], **more: Any) -> Row:
    """An iteration's time, and the time of a solution, the better of two."""
    solve, b = made
    least = SHORT if library != "scipy" or solver == "gmres" else OF_SCIPY
    longer = LONG if library != "scipy" else 2 * least
    solve(b, 0.0, least)  # which allocates and records
    slopes = []
    for _ in range(ROUNDS):
        first, (_, few) = timed(lambda: solve(b, 0.0, least))
        second, (_, many) = timed(lambda: solve(b, 0.0, longer))
        slopes.append(1e6 * (second - first) / max(1, many - few))
    times, solutions = zip(*(timed(lambda: solve(b, RTOL, MOST)) for _ in range(2)), strict=True)
    x, iterations = solutions[-1]
    host = x.get() if hasattr(x, "get") else np.asarray(x.cpu() if hasattr(x, "cpu") else x)
    return {
        "system": system.name, "rows": system.A.shape[0], "nnz": int(system.A.nnz), "dtype": "f64",
        "library": library, "solver": solver, "preconditioner": "none",
        "iteration_us": round(statistics.median(slopes), 2), **more, "time_us": round(1e6 * min(times), 1),
        "iterations": iterations, "true_residual": system.residual(host),
    }  # fmt: skip


EXPERIMENTS = [
    Experiment(
        command="solvers",
        about="iterative solvers beside those of CuPy, PyTorch and SciPy",
        file="solvers",
        items=items,
        dtypes=("f64",),
        seconds=110,
        measure=measure,
    )
]
