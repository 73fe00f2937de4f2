"""Gradients of products and solves in PyTorch and JAX, and products in compiled functions."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import spmvgpu as sg
from experiments.clock import DeviceClock, Timing, in_turns
from experiments.engine import Experiment, Items, Report, Run, Table
from experiments.goals import Mark, at_most
from experiments.peers.problem import Problem, WrongResultError
from experiments.records import Content, Row
from experiments.solving import systems
from experiments.tables import duration, number
from spmvgpu import linalg

RTOL = 1e-8
SLACK = 1e4  # of a gradient's error over the tolerance: the error of a solution is not its residual
MOST = 20_000  # iterations
SECONDS = 2.0  # spent on one way to compute a gradient
CHAIN = 50  # products in one compiled function
VECTOR, PRODUCT, SOLVE = "product, vector alone", "product", "solve"
LIBRARIES = {"torch": "torch", "jax": "jax", "torch-sla": "torch_sla"}  # and the modules they are

#: Computes the gradient with respect to values, vector or both, and waits for it.
Gradient = Callable[[], Any]
#: By part, library and variant.
Gradients = dict[tuple[str, str, str], Gradient]


def items(options: argparse.Namespace) -> Items:
    return systems.items(systems.COLUMNS, "gradients", options), {}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scale", type=float, default=1.0, metavar="S",
                        help="part of the unknowns that all systems have, at most 1 (1)")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of right-hand sides (1)")


def start(run: Run) -> None:
    """Say which libraries are there."""
    facts = run.record.environment
    for library, module in LIBRARIES.items():
        if importlib.util.find_spec(module) is None:
            facts["missing_peers"][library] = "not installed"
            run.record.skip("not installed", library=library)
        else:
            facts["versions"][library] = importlib.metadata.version(library)


def measure(run: Run, problem: Problem) -> Iterator[Row]:
    system = systems.system_of(problem, systems.COLUMNS, run.options.seed)
    for framework in (OfTorch, OfJax):
        if framework.name in run.record.environment["missing_peers"]:
            continue
        with run.noted(matrix=system.name, framework=framework.name):
            ways = framework(run, system)
            candidates = ways.gradients()
            for part in dict.fromkeys(part for part, _, _ in candidates):
                yield from _times(
                    run, system, ways, {key: candidates[key] for key in candidates if key[0] == part}
                )
            if run.on_gpu:
                yield from ways.overheads()


def _times(run: Run, system: systems.System, ways: OfTorch | OfJax, candidates: Gradients) -> Iterator[Row]:
    """Times of gradients that take turns; those that fail or differ from the first are left out."""
    kept, expected, errors = {}, None, {}
    for key, gradient in candidates.items():
        part, library, variant = key
        named = {"framework": ways.name, "part": part, "library": library, "variant": variant}
        with run.noted(matrix=system.name, **named):
            found = [ways.to_numpy(array) for array in gradient()]
            expected = expected or found
            error = max(
                np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(found, expected, strict=True)
            )
            if not error <= (SLACK if part == SOLVE else 1.0) * RTOL:
                raise WrongResultError(f"the gradient differs by {error:.1e}")
            kept[key], errors[key] = gradient, float(error)
    for key, samples in in_turns(kept, SECONDS).items():
        part, library, variant = key
        yield {
            **system.case, "part": part, "framework": ways.name, "library": library, "variant": variant,
            "difference": errors[key], **Timing.of(samples).fields(),
        }  # fmt: skip


class OfTorch:
    """Gradients in PyTorch."""

    name = "torch"

    def __init__(self, run: Run, system: systems.System) -> None:
        import torch

        warnings.filterwarnings("ignore", "Sparse")  # they are in beta
        self._run, self._system, self._torch = run, system, torch
        self._device = torch.device(run.device)
        A = system.A
        self._pattern = sg.torch.MatrixPattern(A, device=run.device)
        self._values = self._there(A.data)
        self._b = self._there(system.b)
        self._w = self._there(np.random.default_rng(7).standard_normal(A.shape[0]))
        self._indptr, self._indices = self._there(A.indptr), self._there(A.indices)
        self._diagonal = self._pattern.rows == self._pattern.cols

    def _there(self, array: Any) -> Any:
        return self._torch.as_tensor(array, device=self._device)

    def to_numpy(self, array: Any) -> Any:
        return array.cpu().numpy()

    def _gradient(self, function: Callable[[Any, Any], Any], of: slice = slice(None)) -> Gradient:
        """Of the product of what a function of values and vector returns with a given vector."""

        def call() -> Any:
            both = self._values.detach(), self._b.detach()
            for array in both[of]:
                array.requires_grad_()
            found = self._torch.autograd.grad(function(*both) @ self._w, both[of])
            if self._run.on_gpu:
                self._torch.cuda.synchronize()
            return found

        return call

    def _csr(self, values: Any) -> Any:
        return self._torch.sparse_csr_tensor(self._indptr, self._indices, values, self._system.A.shape)

    def gradients(self) -> Gradients:
        op = sg.aslinearoperator(self._system.A, device=self._run.device)
        A = self._csr(self._values)
        x_alone = slice(1, 2)
        M = linalg.amg(self._pattern.operator(self._values), B=self._system.modes)
        return {
            (VECTOR, "spmvgpu", "op @ x"): self._gradient(lambda _, x: op @ x, x_alone),
            (VECTOR, "torch", "sparse CSR"): self._gradient(lambda _, x: A @ x, x_alone),
            (PRODUCT, "spmvgpu", "matmul"): self._gradient(self._pattern.matmul),
            (PRODUCT, "torch", "sparse CSR"): self._gradient(lambda values, x: self._csr(values) @ x),
            (PRODUCT, "torch", "index_add"): self._gradient(self._summed),
            (SOLVE, "spmvgpu", "cg, jacobi"): self._gradient(self._ours("jacobi")),
            (SOLVE, "spmvgpu", "cg, amg"): self._gradient(self._ours(M)),
            (SOLVE, "torch", "loop of cg, jacobi"): self._gradient(self._loop()),
            (SOLVE, "torch-sla", "cg, jacobi"): self._gradient(self._sla),
        }

    def _summed(self, values: Any, x: Any) -> Any:
        """The product without sparse tensors, whose gradients are dense matrices."""
        rows, cols = self._pattern.rows, self._pattern.cols
        return self._torch.zeros_like(x).index_add(0, rows, values * x[cols])

    def _ours(self, M: Any) -> Callable[[Any, Any], Any]:
        def solve(values: Any, b: Any) -> Any:
            return sg.torch.solve(self._pattern, b, "cg", values=values, M=M, rtol=RTOL, maxiter=MOST)

        return solve

    def _sla(self, values: Any, b: Any) -> Any:
        from torch_sla import spsolve

        rows, cols = self._pattern.rows, self._pattern.cols
        options = {"backend": "pytorch", "method": "cg", "preconditioner": "jacobi", "maxiter": MOST}
        tolerance = RTOL * float(b.detach().norm())
        return spsolve(values, rows, cols, self._system.A.shape, b, atol=tolerance, **options)

    def _loop(self) -> Callable[[Any, Any], Any]:
        """Conjugate gradients as users of PyTorch write them, with the adjoint solve as its derivative."""
        torch, pattern = self._torch, self._pattern

        def cg(values: Any, b: Any) -> Any:
            A, diagonal = self._csr(values), values[self._diagonal]
            x, r = torch.zeros_like(b), b
            p = z = r / diagonal
            rz, limit = r @ z, RTOL * b.norm()
            while r.norm() > limit:
                q = A @ p
                step = rz / (p @ q)
                x, r = x + step * p, r - step * q
                z = r / diagonal
                before, rz = rz, r @ z
                p = z + rz / before * p
            return x

        class Solve(torch.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, values: Any, b: Any) -> Any:
                x = cg(values, b)
                ctx.save_for_backward(values, x)
                return x

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> Any:
                values, x = ctx.saved_tensors
                adjoint = cg(values, gradient)
                return -adjoint[pattern.rows] * x[pattern.cols], adjoint

        return Solve.apply  # type: ignore[no-any-return]

    def overheads(self) -> Iterator[Row]:
        op = sg.aslinearoperator(self._system.A, device=self._run.device)

        def chain(x: Any) -> Any:
            for _ in range(CHAIN):
                x = sg.torch.matmul(op, x)
            return x

        for mode in ("default", "reduce-overhead"):
            self._torch.compiler.reset()
            compiled = self._torch.compile(chain, fullgraph=True, mode=mode)

            def call(compiled: Any = compiled) -> None:
                compiled(self._b)
                self._torch.cuda.synchronize()

            yield _overhead(self._run, self._system, op, "torch", f"torch.compile, {mode}", call)


class OfJax:
    """Gradients in JAX, in compiled functions."""

    name = "jax"

    def __init__(self, run: Run, system: systems.System) -> None:
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
        self._run, self._system, self._jax = run, system, jax
        A = system.A
        device = jax.devices("gpu" if run.on_gpu else "cpu")[0]
        self._pattern = sg.jax.MatrixPattern(A, device=run.device)
        w = np.random.default_rng(7).standard_normal(A.shape[0])
        self._values, self._b, self._w = (jax.device_put(array, device) for array in (A.data, system.b, w))
        self._places = jnp.stack([self._pattern.rows, self._pattern.cols], 1)
        self._diagonal = jnp.flatnonzero(self._pattern.rows == self._pattern.cols)

    def to_numpy(self, array: Any) -> Any:
        return np.asarray(array)

    def _gradient(self, function: Callable[..., Any], of: tuple[int, ...] = (0, 1)) -> Gradient:
        """Of the product of what a function of values, vector, places and diagonal returns."""

        def loss(values: Any, b: Any, *rest: Any) -> Any:
            return function(values, b, *rest) @ self._w

        compiled = self._jax.jit(self._jax.grad(loss, of))

        def call() -> Any:
            found = compiled(self._values, self._b, self._places, self._diagonal)
            return self._jax.block_until_ready(found)

        return call

    def _bcoo(self, values: Any, places: Any) -> Any:
        from jax.experimental.sparse import BCOO

        return BCOO((values, places), shape=self._system.A.shape, indices_sorted=True, unique_indices=True)

    def gradients(self) -> Gradients:
        op = sg.aslinearoperator(self._system.A, device=self._run.device)
        pattern = self._pattern
        M = linalg.amg(pattern.operator(self._values), B=self._system.modes)

        def bcoo(values: Any, x: Any, places: Any, _: Any) -> Any:
            return self._bcoo(values, places) @ x

        return {
            (VECTOR, "spmvgpu", "op @ x"): self._gradient(lambda _, x, *__: op @ x, (1,)),
            (VECTOR, "jax", "BCOO"): self._gradient(bcoo, (1,)),
            (PRODUCT, "spmvgpu", "matmul"): self._gradient(lambda values, x, *_: pattern.matmul(values, x)),
            (PRODUCT, "jax", "BCOO"): self._gradient(bcoo),
            (SOLVE, "spmvgpu", "cg, jacobi"): self._gradient(self._ours("jacobi")),
            (SOLVE, "spmvgpu", "cg, amg"): self._gradient(self._ours(M)),
            (SOLVE, "jax", "BCOO, cg, jacobi"): self._gradient(self._theirs),
        }

    def _ours(self, M: Any) -> Callable[..., Any]:
        def solve(values: Any, b: Any, *_: Any) -> Any:
            return sg.jax.solve(self._pattern, b, "cg", values=values, M=M, rtol=RTOL, maxiter=MOST)

        return solve

    def _theirs(self, values: Any, b: Any, places: Any, diagonal: Any) -> Any:
        from jax.scipy.sparse.linalg import cg

        inverse = 1 / self._jax.lax.stop_gradient(values[diagonal])
        A = self._bcoo(values, places)
        return cg(A, b, tol=RTOL, maxiter=MOST, M=lambda r: inverse * r)[0]  # type: ignore[no-untyped-call]

    def overheads(self) -> Iterator[Row]:
        op = sg.aslinearoperator(self._system.A, device=self._run.device)

        def chain(x: Any) -> Any:
            for _ in range(CHAIN):
                x = op @ x
            return x

        compiled = self._jax.jit(chain)
        call = lambda: compiled(self._b).block_until_ready()  # noqa: E731
        yield _overhead(self._run, self._system, op, "jax", "jax.jit", call)


def _overhead(
    run: Run,
    system: systems.System,
    op: sg.SparseOperator,
    framework: str,
    variant: str,
    call: Callable[[], object],
) -> Row:
    """A row that says what a product in a compiled function takes, and what its kernel takes by itself."""
    import cupy

    clock, x = DeviceClock(), cupy.asarray(system.b)
    y = cupy.empty_like(x)
    kernel = clock.hot({"": lambda stream: op.spmv(x, out=y, stream=stream)})[""].us
    each = Timing.of([us / CHAIN for us in in_turns({"": call}, 0.5, least=5, most=50)[""]])
    return {
        **system.case, "part": "overhead", "framework": framework, "library": "spmvgpu",
        "variant": variant, "format": op.format, "kernel_us": round(kernel, 3),
        "overhead_us": round(each.us - kernel, 3), **each.fields(),
    }  # fmt: skip


# -- report --------------------------------------------------------------------------------------------------

SHARE, OVERHEAD = 0.2, 5.0  # of the fastest other way in the framework; microseconds
HEAD = ("system", "framework", "what", "library", "way", "rows", "time", "over ours")
NOTE = (
    "Times of a gradient with respect to the values of the matrix and to the vector, forward and backward, "
    "in float64: of a product, of a product with respect to the vector alone, and of a solution to a "
    "relative residual of 1e-8. Functions of JAX are compiled, and hierarchies of `amg` made, before."
)
OVERHEAD_HEAD = (
    "system",
    "compiled by",
    "format",
    "rows",
    "kernel, us",
    "in a compiled function, us",
    "overhead, us",
)
OVERHEAD_NOTE = (
    f"Time of each of {CHAIN} products in one compiled function beside that of the kernel alone. With "
    "`reduce-overhead` PyTorch runs the function as a CUDA graph."
)


def rows(content: Content) -> Table:
    for row in content.rows:
        if row["part"] != "overhead":
            ours = _fastest(content, row, True)
            yield (
                row["matrix"], row["framework"], row["part"], row["library"], row["variant"],
                f"{row['rows']:,}", duration(row["time_us"]), number(row["time_us"] / ours, 2),
            )  # fmt: skip


def _fastest(content: Content, like: Row, is_ours: bool) -> float:
    """The time of the fastest way of the same case; infinite if there is none."""
    keys = ("matrix", "framework", "part")
    return min(
        (
            row["time_us"]
            for row in content.rows
            if all(row[key] == like[key] for key in keys) and (row["library"] == "spmvgpu") is is_ours
        ),
        default=float("inf"),
    )


def more(content: Content) -> Iterator[str]:
    from experiments.tables import table

    found = [
        (
            row["matrix"], row["variant"], row["format"], f"{row['rows']:,}", number(row["kernel_us"], 1),
            number(row["time_us"], 1), number(row["overhead_us"], 1),
        )
        for row in content.rows
        if row["part"] == "overhead"
    ]  # fmt: skip
    if found:
        yield OVERHEAD_NOTE
        yield table(OVERHEAD_HEAD, found, 3)


def goals(content: Content) -> Iterator[Mark]:
    shares, overheads = {}, {}
    for row in content.rows:
        if row["part"] == "overhead":
            overheads[f"{row['matrix']}, {row['variant']}"] = row["overhead_us"]
        elif (theirs := _fastest(content, row, False)) < float("inf"):
            case = f"{row['matrix']}, {row['framework']}, {row['part']}"
            shares[case] = _fastest(content, row, True) / theirs
    yield from at_most("gradient over the fastest other way", shares, each=SHARE)
    yield from at_most("overhead of a product in a compiled function, us", overheads, each=OVERHEAD)


EXPERIMENTS = [
    Experiment(
        command="gradients",
        file="gradients",
        about="gradients of products and solves in PyTorch and JAX",
        items=items,
        add_options=add_options,
        start=start,
        measure=measure,
        dtypes=("f64",),
        seconds=300.0,
        report=Report(
            125, "Gradients in PyTorch and JAX", NOTE, HEAD, rows, 5, more=more, goals=goals, needs_gpu=True
        ),
    )
]
