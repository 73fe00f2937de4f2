"""Measure solvers: ``python -m experiments solvers``.

A row has the time of an iteration, as the slope between a short and a long run without a tolerance, and the
time from a right-hand side to a solution of relative residual 1e-8, both with vectors where the library keeps
them. Every solution is checked with SciPy. Libraries: this one, CuPy and a loop written with PyTorch's
products on the GPU; SciPy, and pyamg's own multigrid, on the CPU.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla

import spmvgpu as sg
from experiments import environment
from experiments.clock import timed
from experiments.jobs import systems
from experiments.records import RESULTS, Recorder
from experiments.speed.run import chosen_device
from spmvgpu import gallery, linalg

RTOL = 1e-8
RESTART = 30
ROUNDS = 3
SHORT, LONG = 30, 150  # iterations between which the slope is taken; multiples of the restart
OF_SCIPY = 10  # fewer of them for the loops that take milliseconds an iteration
MOST = 20_000  # iterations to a solution
AMG_SIDE = 158  # of the grid that multigrid is measured on: 4 M unknowns

Array = np.ndarray[Any, Any]
# Solves from b, with a tolerance and so many iterations, to x and the number of iterations taken.
Solve = Callable[[Any, float, int], tuple[Any, int]]


class System:
    """A matrix, a right-hand side, and the device."""

    def __init__(self, name: str, A: sp.csr_array, device: str) -> None:
        self.name, self.A, self.device = name, A, device
        self.b = np.random.default_rng(3).standard_normal(A.shape[0])
        self.on_gpu = device != "cpu"

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
        calls = 0

        def count(_: Any) -> None:
            nonlocal calls
            calls += 1

        options: dict[str, Any] = {}
        if solver == "gmres":
            options = {"restart": RESTART, "callback_type": "pr_norm"}
            most = max(1, most // RESTART)
        x, _ = getattr(sla, solver)(system.A, b, rtol=rtol, maxiter=most, callback=count, **options)
        return x, calls

    return solve, system.b


def cupy_solver(system: System, solver: str) -> tuple[Solve, Any]:
    """CuPy's, where it has the solver."""
    import cupy
    import cupyx.scipy.sparse as cusp
    from cupyx.scipy.sparse import linalg as cula

    G = cusp.csr_matrix(sp.csr_matrix(system.A))
    function = getattr(cula, solver)
    tolerance = "rtol" if "rtol" in (function.__doc__ or "") or solver not in ("cg", "gmres") else "tol"

    def solve(b: Any, rtol: float, most: int) -> tuple[Any, int]:
        calls = 0

        def count(_: Any) -> None:
            nonlocal calls
            calls += 1

        options: dict[str, Any] = {}
        if solver == "gmres":  # counts iterations, and looks at its callback once a restart
            options = {"restart": RESTART}
        given = {tolerance: rtol}
        try:
            x, _ = function(G, b, maxiter=most, callback=count, **given, **options)
        except TypeError:  # the keyword changed its name in CuPy 14
            other = {"tol": "rtol", "rtol": "tol"}[tolerance]
            x, _ = function(G, b, maxiter=most, callback=count, **{other: rtol}, **options)
        cupy.cuda.Device().synchronize()
        return x, calls * (RESTART if solver == "gmres" else 1)

    return solve, cupy.asarray(system.b)


def torch_solver(system: System, solver: str) -> tuple[Solve, Any]:
    """Conjugate gradients as one writes them with PyTorch, looking at the residual in every iteration."""
    import torch

    if solver != "cg":
        raise LookupError("no loop of this solver is written")
    A = system.A
    G = torch.sparse_csr_tensor(
        torch.from_numpy(A.indptr), torch.from_numpy(A.indices), torch.from_numpy(A.data), A.shape
    ).to(system.device)

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


class Run:
    """Rows, as long as there is time."""

    def __init__(self, record: Recorder, budget: float) -> None:
        self.record, self.end = record, time.perf_counter() + budget

    def measure(
        self, system: System, library: str, solver: str, made: tuple[Solve, Any], **more: Any
    ) -> None:
        """An iteration's time, and a solution's."""
        solve, b = made
        least = SHORT if library != "scipy" or solver == "gmres" else OF_SCIPY
        longer = LONG if library != "scipy" else 2 * least
        solve(b, 0.0, least)  # which allocates and records
        slopes = []
        for _ in range(ROUNDS):
            first, (_, few) = timed(lambda: solve(b, 0.0, least))
            second, (_, many) = timed(lambda: solve(b, 0.0, longer))
            slopes.append(1e6 * (second - first) / max(1, many - few))
        self.add(
            system,
            library,
            solver,
            iteration_us=round(statistics.median(slopes), 2),
            **more,
            **self.solution(system, solve, b),
        )

    def solution(self, system: System, solve: Solve, b: Any) -> dict[str, Any]:
        """The fields of a solution, the better of two."""
        times = []
        for _ in range(2):
            seconds, (x, iterations) = timed(lambda: solve(b, RTOL, MOST))
            times.append(seconds)
        host = x.get() if hasattr(x, "get") else np.asarray(x.cpu() if hasattr(x, "cpu") else x)
        residual = float(np.linalg.norm(system.b - system.A @ host) / np.linalg.norm(system.b))
        return {"time_us": round(1e6 * min(times), 1), "iterations": iterations, "true_residual": residual}

    def add(self, system: System, library: str, solver: str, **fields: Any) -> None:
        """A row, and a line of it."""
        preconditioner = fields.pop("preconditioner", "none")
        row = {
            "system": system.name, "rows": system.A.shape[0], "nnz": int(system.A.nnz), "dtype": "f64",
            "library": library, "solver": solver, "preconditioner": preconditioner,
            "devices": [system.device if library not in ("scipy", "pyamg") else "cpu"], **fields,
        }  # fmt: skip
        self.record.add(**row)
        self.record.write()
        facts = (
            f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in fields.items() if v is not None
        )
        numbers = " ".join(facts)
        print(f"{system.name:16s} {library:8s} {solver:9s} {preconditioner:10s} {numbers}", flush=True)

    def over(self) -> bool:
        return time.perf_counter() > self.end

    def all_of(self, system: System, libraries: Sequence[str]) -> None:
        """Every solver of every library on one system."""
        for solver in SOLVERS:
            for library in libraries:
                what = {"system": system.name, "library": library, "solver": solver}
                if self.over():
                    self.record.skip("out of time", **what)
                elif library == "scipy" and system.A.shape[0] > 200_000:
                    self.record.skip("it would take minutes", **what)
                elif library != "spmvgpu" and solver != "cg" and system.A.nnz > 8_000_000:
                    self.record.skip("cg alone is compared on systems of this size", **what)
                else:
                    try:
                        own = {"format": system.operator.format} if library == "spmvgpu" else {}
                        self.measure(system, library, solver, LIBRARIES[library](system, solver), **own)
                    except (ImportError, AttributeError, LookupError) as missing:
                        self.record.skip(str(missing), **what)
        if not self.over():
            made = ours(system, "cg", M=linalg.jacobi(system.operator))
            self.measure(system, "spmvgpu", "cg", made, preconditioner="jacobi")
        if not self.over():  # who solves with cg knows that the matrix is symmetric, and may say so
            op = sg.aslinearoperator(system.A, device=system.device, symmetric=True)
            for solver in ("cg", "minres"):
                made = ours(system, solver, op)
                self.measure(system, "spmvgpu", solver, made, format=op.format, symmetric=True)

    def multigrid(self, side: int, device: str) -> None:
        """pyamg's hierarchy of a 3-D grid, on the device and as pyamg applies it."""
        import pyamg

        system = System(f"poisson3d_{side}", sp.csr_array(gallery.poisson3d(side)), device)
        setup, ml = timed(lambda: pyamg.ruge_stuben_solver(sp.csr_matrix(system.A)))
        moved, M = timed(lambda: linalg.aspreconditioner(ml, device=device))
        solve, b = ours(system, "cg", M=M)
        solve(b, RTOL, 2)
        self.add(
            system, "spmvgpu", "cg", preconditioner="amg", setup_us=round(1e6 * (setup + moved)),
            iteration_us=None, **self.solution(system, solve, b),
        )  # fmt: skip
        norms: list[float] = []
        seconds, x = timed(lambda: ml.solve(system.b, tol=RTOL, accel="cg", residuals=norms))
        residual = float(np.linalg.norm(system.b - system.A @ x) / np.linalg.norm(system.b))
        self.add(
            system, "pyamg", "cg", preconditioner="amg", setup_us=round(1e6 * setup), iteration_us=None,
            time_us=round(1e6 * seconds, 1), iterations=len(norms) - 1, true_residual=residual,
        )  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments solvers", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--device", default="auto", help="cuda:0, cpu or auto (a GPU if there is one)")
    parser.add_argument("--quick", action="store_true", help="two small systems, to try things out")
    parser.add_argument("--amg-side", type=int, default=AMG_SIDE, help="of the cube for multigrid; 0: none")
    parser.add_argument("--budget-seconds", type=float, default=110.0, help="start nothing after that")
    options = parser.parse_args(arguments)
    device = chosen_device(options.device)
    facts = environment.describe(device, [])
    record = Recorder(options.out / environment.slug(facts) / "solvers.json", facts)
    run = Run(record, options.budget_seconds)
    libraries = [name for name in LIBRARIES if device != "cpu" or name != "cupy"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of runs without a tolerance, which stagnate
        for name in systems.QUICK if options.quick else systems.SYSTEMS:
            if run.over():
                record.skip("out of time", system=name)
                continue
            run.all_of(System(name, systems.matrix(name), device), libraries)
        if options.amg_side and not run.over():
            try:
                run.multigrid(12 if options.quick else options.amg_side, device)
            except ImportError as missing:
                record.skip(str(missing), system="multigrid")
    record.write()
    return 0
