"""Other libraries that solve: each goes from a SciPy matrix to a solution in NumPy, with its set-up apart."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy.typing as npt
import scipy.sparse as sp
import scipy.sparse.linalg as sla

from experiments import peers
from experiments.clock import timed

from .systems import System

Array: TypeAlias = npt.NDArray[Any]
RTOL = 1e-8
MOST = 20_000  # iterations
# Modules that are measured where they can be imported, by the name that rows have.
MODULES = {"cupy": "cupy", "pyamg": "pyamg", "amgcl": "pyamgcl", "cudss": "nvmath.sparse.advanced"}


class Found(NamedTuple):
    """A solution, with the seconds before the first iteration and those from there on."""

    x: Array
    setup: float
    solve: float
    iterations: int | None = None


class Library(NamedTuple):
    """A way to solve of another library.

    Attributes
    ----------
    name, variant, device : str
        As rows have them; the device is "gpu" or "cpu".
    solve : callable
        From a system to what was found.
    seconds : callable
        About how many seconds that takes on a usual machine, or the reason why it is left out.
    definite : bool
        Whether it is for symmetric positive definite matrices only.
    """

    name: str
    variant: str
    device: str
    solve: Callable[[System], Found]
    seconds: Callable[[System], float | str]
    definite: bool = False


def missing(gpu: bool) -> dict[str, str]:
    """Libraries that are not measured, each with the reason."""
    found = {}
    for name, module in MODULES.items():
        if name in ("cupy", "cudss") and not gpu:
            found[name] = "no GPU is measured"
        elif not _is_there(module):
            found[name] = "not installed"
    return found


def versions(gpu: bool) -> dict[str, str]:
    """Versions of the libraries that are measured."""
    modules = {name: MODULES[name].partition(".")[0] for name in MODULES.keys() - missing(gpu).keys()}
    return {
        module: str(getattr(importlib.import_module(module), "__version__", "unknown"))
        for module in modules.values()
    }


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of a package that is not there
        return False


def others(gpu: bool) -> list[Library]:
    """Those that can run; CPU and GPU alike where there is a GPU."""
    absent = missing(gpu)
    return [library for library in LIBRARIES if library.name not in absent]


# -- the libraries, with their default settings --------------------------------------------------------------


def _pyamg_hierarchy(system: System) -> Any:
    import pyamg

    A = sp.csr_matrix(system.A)
    if system.modes is not None:
        A = sp.bsr_matrix(A, blocksize=(3, 3))
    return pyamg.smoothed_aggregation_solver(A, B=system.modes)


def pyamg_solver(system: System) -> Found:
    setup, ml = timed(lambda: _pyamg_hierarchy(system))
    norms: list[float] = []
    solve, x = timed(lambda: ml.solve(system.b, tol=RTOL, accel="cg", residuals=norms))
    return Found(x, setup, solve, len(norms) - 1)


def amgcl_solver(system: System) -> Found:
    import pyamgcl

    prm = {"coarsening.type": "smoothed_aggregation", "relax.type": "spai0"}
    setup, M = timed(lambda: pyamgcl.amg(system.A, prm))
    solver = pyamgcl.solver(M, {"type": "cg", "tol": RTOL, "maxiter": MOST})
    solve, x = timed(lambda: solver(system.b))
    return Found(x, setup, solve, int(solver.iters))


def scipy_cg(system: System) -> Found:
    count = 0

    def step(_: Any) -> None:
        nonlocal count
        count += 1

    diagonal = system.A.diagonal()
    M = sp.diags_array(1 / diagonal)
    solve, (x, _) = timed(lambda: sla.cg(system.A, system.b, rtol=RTOL, M=M, maxiter=MOST, callback=step))
    return Found(x, 0.0, solve, count)


def scipy_direct(system: System) -> Found:
    setup, factors = timed(lambda: sla.splu(sp.csc_array(system.A)))
    solve, x = timed(lambda: factors.solve(system.b))
    return Found(x, setup, solve)


def cupy_cg(system: System) -> Found:
    import cupy
    from cupyx.scipy.sparse import csr_matrix, diags
    from cupyx.scipy.sparse.linalg import cg

    def upload() -> tuple[Any, Any, Any]:
        G = csr_matrix(sp.csr_matrix(system.A))
        made = G, diags(1 / G.diagonal(), format="csr"), cupy.asarray(system.b)
        cupy.cuda.Device().synchronize()
        return made

    setup, (G, M, b) = timed(upload)
    options = {peers.cupy.tolerance(cg): RTOL}
    solve, x = timed(lambda: cupy.asnumpy(cg(G, b, M=M, maxiter=MOST, **options)[0]))
    return Found(x, setup, solve)


def cudss_direct(system: System) -> Found:
    import cupy
    from cupyx.scipy.sparse import csr_matrix
    from nvmath.sparse.advanced import DirectSolver

    def factors() -> Any:
        solver = DirectSolver(csr_matrix(sp.csr_matrix(system.A)), cupy.asarray(system.b))
        solver.plan()
        solver.factorize()
        cupy.cuda.Device().synchronize()
        return solver

    setup, solver = timed(factors)
    try:
        solve, x = timed(lambda: cupy.asnumpy(solver.solve()))
    finally:
        solver.free()
    return Found(x, setup, solve)


def _steady(each: float, most: float = float("inf")) -> Callable[[System], float | str]:
    """So many seconds a row, and left out beyond a number of rows."""

    def seconds(system: System) -> float | str:
        rows = system.A.shape[0]
        return f"left out beyond {most:,.0f} rows, where it takes minutes" if rows > most else each * rows

    return seconds


def _without_modes(each: float) -> Callable[[System], float | str]:
    """So many seconds a row, and left out where the near null space is more than constant vectors."""

    def seconds(system: System) -> float | str:
        rows: int = system.A.shape[0]
        return each * rows if system.modes is None else "left out: its Python module takes no near null space"

    return seconds


def _factors(**most: float) -> Callable[[System], float | str]:
    """Largest numbers of rows for grids in the plane, grids in space and graphs; beyond, it is left out."""

    def seconds(system: System) -> float | str:
        rows, kind = system.A.shape[0], system.kind
        name = "graph" if not kind.is_grid else "plane" if kind.dim == 2 else "space"
        if rows > most[name]:
            where = "of a graph" if name == "graph" else f"of a grid in {kind.dim}-D"
            return f"left out beyond {most[name]:,.0f} rows {where}, whose factors are large"
        growth: float = (rows / most[name]) ** (1.5 if name == "plane" else 2.0)
        return 30.0 * growth

    return seconds


LIBRARIES = (
    Library("pyamg", "amg", "cpu", pyamg_solver, _steady(2e-5), definite=True),
    Library("amgcl", "amg", "cpu", amgcl_solver, _without_modes(2e-5), definite=True),
    Library("cupy", "cg", "gpu", cupy_cg, _steady(1e-6), definite=True),
    Library("scipy", "cg", "cpu", scipy_cg, _steady(2e-4, 300_000), definite=True),
    Library("scipy", "direct", "cpu", scipy_direct, _factors(plane=1_000_000, space=40_000, graph=5_000)),
    Library("cudss", "direct", "gpu", cudss_direct, _factors(plane=10_000_000, space=500_000, graph=20_000)),
)
