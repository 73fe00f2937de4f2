"""Many systems of one pattern: all at once, one after the other, and by a batched loop of JAX."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from experiments import peers
from experiments.engine import Run
from experiments.peers.problem import Problem, WrongResultError
from experiments.records import Row
from spmvgpu import linalg

from . import libraries, systems
from .libraries import MOST, RTOL
from .systems import Array, System
from .whole import SLACK, sampled

PART = "batches"
UNKNOWNS = 1_000_000  # of all systems, about; but at least LEAST systems
LEAST = 100
ALONE = 20  # systems that are solved one after the other


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    """`cg` with vectors and values where the library keeps them, and our product."""
    system = systems.system_of(problem, systems.BATCHES, run.options.seed)
    n = system.A.shape[0]
    count = max(LEAST, UNKNOWNS // n)
    rng = np.random.default_rng(run.options.seed)
    values = system.A.data * rng.uniform(1, 2, (count, 1))
    B = rng.standard_normal((count, n))
    on_gpu = run.on_gpu and "cupy" not in libraries.missing(True)
    b = _on_gpu(B) if on_gpu else B
    op = sg.aslinearoperator(system.A, values=_on_gpu(values) if on_gpu else values, device=run.device)
    one = sg.aslinearoperator(op.blocks[:n, :n], device=run.device)
    described = {"part": PART, **system.case, "device": "gpu" if run.on_gpu else "cpu"}

    def in_turn(solve: Callable[[int], Any]) -> Any:
        return [solve(j) for j in range(ALONE)]

    ways: list[tuple[str, str, int, Callable[[], Any]]] = [
        ("spmvgpu", "together", count, lambda: linalg.cg(op, b, rtol=RTOL, maxiter=MOST)[0]),
        ("spmvgpu", "jacobi", count, lambda: linalg.cg(op, b, rtol=RTOL, maxiter=MOST, M="jacobi")[0]),
        ("spmvgpu", "one", 1, lambda: [linalg.cg(one, b[0], rtol=RTOL, maxiter=MOST)[0]]),
    ]
    if on_gpu:
        matrices = [_csr_on_cupy(system.A, own) for own in values[:ALONE]]
        ways.append(("cupy", "in turn", ALONE, partial(in_turn, lambda j: _by_cupy(matrices[j], b[j]))))
    ways.append(("jax", "vmap", count, _by_jax(system.A, values, B)))
    for library, variant, systems_, call in ways:
        with run.noted(part=PART, matrix=system.name, library=library, variant=variant):
            us, x = sampled(call)
            row: Row = {
                **described, "library": library, "variant": variant, "systems": systems_, "time_us": us,
                "residual": _checked(system, values, B, x),
            }  # fmt: skip
            if library == "spmvgpu":
                own = one if variant == "one" else op.blocks
                info = own.solve_info
                row |= {"iterations": info.iterations, "resident": info.resident, "format": own.format}
                row |= {"product_us": own.time_products(30), "product_bytes": _bytes(system.A, systems_)}
            yield row


def _bytes(A: sp.csr_array, count: int) -> int:
    """The bytes of the values and of both vectors of a product, without those of the pattern."""
    return int(count * (A.nnz + sum(A.shape)) * A.dtype.itemsize)


def _on_gpu(array: Array) -> Any:
    import cupy

    return cupy.asarray(array)


def _csr_on_cupy(A: sp.csr_array, values: Array) -> Any:
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix(sp.csr_matrix((values, A.indices, A.indptr), shape=A.shape))


def _by_cupy(G: Any, b: Any) -> Any:
    from cupyx.scipy.sparse.linalg import cg

    solve: Any = cg
    return solve(G, b, **{peers.cupy.tolerance(cg): RTOL, "maxiter": MOST})[0]


def _by_jax(A: sp.csr_array, values: Array, B: Array) -> Callable[[], Any]:
    """JAX's `cg` of all systems at once, compiled, with its own sparse matrices."""
    made: list[Any] = []

    def call() -> Any:
        import jax
        from jax.experimental.sparse import BCOO

        with jax.enable_x64(True):
            if not made:
                rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
                places = jax.numpy.asarray(np.stack([rows, A.indices], axis=1))

                def solve(own: Any, b: Any) -> Any:
                    matrix = BCOO((own, places), shape=A.shape, indices_sorted=True, unique_indices=True)
                    cg: Any = jax.scipy.sparse.linalg.cg
                    return cg(matrix, b, tol=RTOL, maxiter=MOST)[0]

                made.extend([jax.jit(jax.vmap(solve)), jax.numpy.asarray(values), jax.numpy.asarray(B)])
            function, *given = made
            return function(*given).block_until_ready()

    return call


def _checked(system: System, values: Array, B: Array, x: Any) -> float:
    """The largest of the true residuals."""
    A, worst = system.A, 0.0
    for own, b, each in zip(values, B, x, strict=False):
        solution = each.get() if hasattr(each, "get") else np.asarray(each)
        left = b - sp.csr_array((own, A.indices, A.indptr), shape=A.shape) @ solution
        worst = max(worst, float(np.linalg.norm(left) / np.linalg.norm(b)))
    if not worst <= SLACK * RTOL:
        raise WrongResultError(f"the true residual is {worst:.1e}, asked for was {RTOL:.0e}")
    return worst
