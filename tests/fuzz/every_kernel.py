"""Every kernel on small matrices, for checkers that slow a GPU down: see compute_sanitizer.sh.

``python -m tests.fuzz.every_kernel cuda:0`` builds every format with every value of every option, in all
combinations where they choose a kernel together, in every type, and multiplies, solves and distributes.
``--only`` runs some of these groups, ``--list`` names them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

import spmvgpu as sg
from battery import from_lengths, hermitian, symmetric, typed, vector
from reference import assert_product
from spmvgpu import gallery, linalg
from support import poisoned

TYPES = ["float32", "float64", "complex64", "complex128"]

# Options that choose a kernel together.
TOGETHER = {
    "csr": [("kernel",), ("kernel", "lanes_per_row"), ("tile",)],
    "csr_m": [("gather", "kernel")],
    "tsmv": [("block", "depth", "threads"), ("variant", "threads"), ("slices",), ("symmetry", "variant")],
}
EVERY_WIDTH = (3, 4, 8, 9, 16, 32, 39)  # columns that have kernels of their own, whole and in part

# These take columns one by one, so that a few say what many would.
WITHOUT_COLUMNS = ["csr_m", "csr_b", "tsmv", "packed_sell"]

# These do not pad, and can have a row that is longer than any tile, strip or fragment.
UNPADDED = ["csr", "csr_b", "csr_m", "coo"]


@cache
def pattern(name: str) -> sp.csr_array:
    """A small matrix with more than a few tiles of any kernel; symmetric, but for "long" and "full"."""
    if name == "long":
        return from_lengths([3] * 300 + [9000, 0, 5000] + [0] * 40 + [17] * 200, 9001)
    if name == "full":  # a GPU transposes 23 columns of X in Fortran order, and more, for so many entries
        return sp.csr_array(np.ones((1500, 600)))
    if name == "chain":  # single unknowns, rows of one to three entries
        return sp.csr_array(sp.diags_array([-1.0, 2.0, -1.0], offsets=[-7, 0, 7], shape=(601, 601)))
    if name == "triples":  # blocks of three, as of finite elements, two dense rows and some empty ones
        graph = sp.diags_array([1.0, 2.0, 9.0, 2.0, 1.0], offsets=[-40, -1, 0, 1, 40], shape=(333, 333))
        A = sp.lil_array(sp.kron(graph, np.ones((3, 3))))
    else:  # the same with pairs
        graph = sp.diags_array([2.0, 9.0, 2.0], offsets=[-1, 0, 1], shape=(500, 500))
        A = sp.lil_array(sp.kron(graph, np.ones((2, 2))))
    A[500, ::2] = 0.5
    A[900:930] = 0.0
    A = symmetric(A)
    A.eliminate_zeros()
    return A


def as_type(A: sp.csr_array, dtype: str) -> sp.csr_array:
    """The matrix in another type; complex values have imaginary parts."""
    return sp.csr_array((typed(A, dtype), A.indices, A.indptr), shape=A.shape)


def packable(dtype: str) -> Iterator[sp.csr_array]:
    """Columns and values that packed_sell stores in each of its ways, alone and beside a few constants."""
    rng = np.random.default_rng(41)
    bent = sp.diags_array([1.0] * 9, offsets=range(0, 180, 20), shape=(200, 480)).tocoo()  # near columns
    far = bent.row % 12 * (bent.col - bent.row == 120)
    near = sp.csr_array((bent.data, (bent.row, bent.col + far)), shape=bent.shape)
    wide = from_lengths(np.arange(100) % 50, 200_000)
    for A in (
        gallery.poisson2d(32),
        pattern("chain"),
        pattern("triples"),
        near,
        from_lengths([40] * 70, 20_000),
        wide,
    ):
        row = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        for values in (
            rng.standard_normal(A.nnz),
            rng.standard_normal(A.nnz).astype(np.float32),
            rng.integers(-30_000, 30_000, A.nnz) / 8,
            rng.choice(rng.standard_normal(200), A.nnz),
            np.ones(A.nnz),
            rng.standard_normal(A.shape[0])[row // 32],  # one for each slice
        ):
            diagonal = np.abs(A.indices - row) % 3
            for mixed in (values, np.where(diagonal == 0, 2.0, values)):
                packed = np.asarray(mixed, np.dtype(dtype))
                imaginary = 1j * packed[::-1] if packed.dtype.kind == "c" else 0
                yield sp.csr_array(((packed + imaginary).astype(dtype), A.indices, A.indptr), shape=A.shape)


def variants(name: str) -> Iterator[dict[str, Any]]:
    """What a format is built with: its defaults, and every value that is not an automatic choice."""
    allowed = {option["name"]: option["allowed"] for option in sg.format_options(name)}
    loose = {option: allowed[option][1] for option in allowed if option.startswith("max_")}
    listed = {
        option: [value for value in values if value not in (0, "auto")]
        for option, values in allowed.items()
        if not isinstance(values, tuple)
    }
    yield loose
    for options in TOGETHER.get(name, [(option,) for option in listed]):
        for values in product(*(listed[option] for option in options)):
            yield {**loose, **dict(zip(options, values, strict=True))}
    if name == "hyb":
        yield from ({**loose, "width": width} for width in (1, 3, "max"))


def check_products(
    op: sg.SparseOperator, A: sp.csr_array, widths: tuple[int, ...] = (3, 33), orders: str = "CF"
) -> None:
    """One vector, and columns in some orders; overwritten and scaled."""
    x, start = vector(A.shape[1], A.dtype), vector(A.shape[0], A.dtype, seed=40)
    assert_product(op.spmv(x, out=poisoned(A.shape[0], A.dtype)), A, x)
    alpha, beta = (-0.5 + 1j, 2j) if A.dtype.kind == "c" else (-0.5, 2.0)
    assert_product(op.spmv(x, out=start.copy(), alpha=alpha, beta=beta), A, x, alpha, beta, start)
    factors = np.resize([1, 2, -1], 39).astype(A.dtype)
    X, Y = (np.outer(v, factors) for v in (x, start))
    for columns in widths:
        for order in orders:
            part, before = (np.array(whole[:, :columns], order=order) for whole in (X, Y))
            result = op.spmv(part, out=np.full_like(before, np.nan))
            # The columns are multiples of three vectors, so three say whether all are right.
            assert_product(result[:, :3], A, part[:, :3])
            np.testing.assert_array_equal(result, result[:, np.arange(columns) % 3])
    X, Y = (np.array(whole[:, : max(widths)], order=orders[0]) for whole in (X, Y))
    result = op.spmv(X, out=Y.copy(order="K"), alpha=alpha, beta=beta)
    assert_product(result[:, -3:], A, X[:, -3:], alpha, beta, Y[:, -3:])


def run_format(name: str, dtype: str, device: str) -> int:
    """A format with all of its variants; how many operators were made."""
    made = 0
    shapes = ["chain", "triples", "pairs"] + ["long"] * (name in UNPADDED)
    for number, options in enumerate(variants(name)):
        # The defaults with all shapes, what differs from them with another one in each type.
        turn = (number + TYPES.index(dtype)) % len(shapes)
        for shape in shapes if number == 0 else [shapes[turn]]:
            A = as_type(pattern(shape), dtype)
            if options.get("symmetry") == "hermitian" and A.dtype.kind == "c":
                A = hermitian(pattern(shape), dtype)
            op = sg.aslinearoperator(A, format=name, device=device, **options)
            widths = (3, 33) if number else EVERY_WIDTH
            check_products(op, A, (3,) if name in WITHOUT_COLUMNS else widths)
            made += 1
    for number, A in enumerate(packable(dtype) if name == "packed_sell" else ()):
        # Two kernels: of one warp, and of several.
        for warps in (1, (2, 4, 8)[number % 3]):
            op = sg.aslinearoperator(A, format=name, device=device, max_padding=1e6, warps_per_slice=warps)
            check_products(op, A, (3,))
            made += 1
    # Other kernels where a warp reads 4 to 8 columns.
    for warps in (1, 2, 4, 8, 16, 32) if name == "sell" else ():
        A = from_lengths(np.full(200, 6 * warps), 400).astype(dtype)
        check_products(sg.aslinearoperator(A, format=name, device=device, warps_per_slice=warps), A)
        made += 1
    return made


class Solves:
    """Solvers with every kind of preconditioner, a few iterations of each, beside those of the CPU.

    Few, because a checker of races needs milliseconds for each.
    """

    def __init__(self, dtype: str, device: str, solvers: list[Any]) -> None:
        self.A, self._b = gallery.poisson2d(20).astype(dtype), np.ones(400, dtype)
        self._tolerance = 1e-3 if np.finfo(dtype).eps > 1e-10 else 1e-10
        self.op, self.preconditioners = self._prepared(device)
        reference, known = self._prepared("cpu")
        self.all = list(product(solvers, range(len(known))))
        self._expected = {(solver, M): self._few(solver, reference, known[M]) for solver, M in self.all}

    def _prepared(self, device: str) -> tuple[sg.SparseOperator, list[Any]]:
        op, dtype = sg.aslinearoperator(self.A, device=device, format="csr"), self.A.dtype
        return op, [
            None,
            linalg.jacobi(op),
            linalg.chebyshev(op, 3),
            linalg.block_jacobi(op, 4),
            linalg.ic0(op),
            sg.aslinearoperator(sp.eye_array(400, dtype=dtype), device=device),
            LinearOperator((400, 400), matvec=lambda x: x, dtype=dtype),
        ]

    def _few(self, solver: Any, op: sg.SparseOperator, M: Any, **options: Any) -> Any:
        limits = {"restart": 3, "maxiter": 2} if solver is linalg.gmres else {"maxiter": 5}
        solution, info = solver(op, self._b, rtol=1e-30, M=M, **limits, **options)
        assert info > 0
        return solution

    def check(self, solver: Any, op: sg.SparseOperator, M: int, **options: Any) -> None:
        """What a few iterations lead to with the preconditioner of that number."""
        found, close = self._few(solver, op, self.preconditioners[M], **options), self._expected[solver, M]
        assert np.linalg.norm(found - close) <= self._tolerance * np.linalg.norm(close)


def run_solvers(dtype: str, device: str) -> int:
    """Every solver: systems small enough for one kernel, and others; how many operators were made."""
    solves = Solves(dtype, device, [linalg.cg, linalg.bicgstab, linalg.gmres, linalg.minres])
    for solver, M in solves.all:
        options = {"check_every": 3, "residuals": []} if M % 2 else {}
        solves.check(solver, solves.op, M, **options)
    for name in ("dia", "sdia"):
        large = sg.aslinearoperator(gallery.poisson2d(260).astype(dtype), device=device, format=name)
        assert linalg.cg(large, np.ones(260 * 260, dtype), maxiter=6)[1] == 6
    return 3


def run_chained(dtype: str, device: str) -> int:
    """Without rows that a resident kernel could read, sweeps between two products are one kernel."""
    solves = Solves(dtype, device, [linalg.cg, linalg.bicgstab, linalg.minres])
    operators = [sg.aslinearoperator(solves.A, device=device, format=name) for name in ("coo", "packed_sell")]
    for op, (solver, M) in product(operators, solves.all):
        solves.check(solver, op, M)
        assert op.solve_info.chained == (device != "cpu")
    return len(operators)


def run_multigrid(dtype: str, device: str) -> int:
    """Hierarchies of grids, nodes with two unknowns and long rows: new values, columns, single precision."""
    grid = sp.csr_array(gallery.poisson2d(12).astype(dtype))
    cube = gallery.poisson2d(12) @ gallery.poisson2d(12) @ gallery.poisson2d(12)
    long = sp.csr_array((cube.toarray() + 100 * np.eye(144)).astype(dtype))
    nodes = sp.csr_array(sp.kron(grid, sp.csr_array([[2.0, 0.5], [0.5, 2.0]])).astype(dtype))
    for A, smoother, cycle in (
        (grid, "jacobi", "AMLI"),
        (nodes, "chebyshev", "auto"),
        (nodes, "jacobi", "AMLI"),
        (long, "jacobi", "V"),
    ):
        op = sg.aslinearoperator(A, device=device)
        M = linalg.amg(op, smoother=smoother, max_coarse=8, cycle=cycle)
        single = {"float64": "float32", "complex128": "complex64"}.get(dtype, dtype)
        N = linalg.amg(op.astype(single), smoother=smoother, max_coarse=8, cycle=cycle)
        b = np.stack([vector(A.shape[0], A.dtype), np.ones(A.shape[0], A.dtype)], axis=1)
        for factor in (1, 2):
            if factor > 1:
                op.update_values(factor * A.data)
                M.update_values(op)
            for right, preconditioner in ((b[:, 0], M), (b, M), (b, N)):
                x, info = linalg.cg(op, right, M=preconditioner, rtol=1e-2)
                assert np.all(np.asarray(info) == 0)
                assert np.linalg.norm(factor * (A @ x) - right) <= 2e-2 * np.linalg.norm(right)
    return 4


def run_subspaces(dtype: str, device: str) -> int:
    """Eigenvalues, singular values, least squares, and solvers of several columns."""
    grid = gallery.poisson2d(16) + sp.diags_array(np.linspace(0, 1, 256))  # which has no double eigenvalues
    A = sp.csr_array(grid.astype(dtype))
    tall = sp.csr_array(sp.vstack([A, 0.5 * A[:100]]).astype(dtype))
    dense, tolerance = A.toarray(), 1e-3 if dtype in ("float32", "complex64") else 1e-8
    op = sg.aslinearoperator(A, device=device)
    largest = linalg.eigsh(op, k=3, ncv=8, which="LA", tol=tolerance, return_eigenvectors=False)
    np.testing.assert_allclose(np.sort(largest), np.linalg.eigvalsh(dense)[-3:], rtol=10 * tolerance)
    values = linalg.svds(
        sg.aslinearoperator(tall, device=device), k=2, tol=tolerance, return_singular_vectors=False
    )
    expected = np.linalg.svd(tall.toarray(), compute_uv=False)[:2]
    np.testing.assert_allclose(np.sort(values)[::-1], expected, rtol=10 * tolerance)
    b = tall @ np.ones(A.shape[0], dtype)
    for solver in (linalg.lsqr, linalg.lsmr, linalg.cgls):
        x = solver(sg.aslinearoperator(tall, device=device), b)[0]
        assert np.linalg.norm(tall @ x - b) <= 1e-2 * np.linalg.norm(b)
    right = np.stack([vector(A.shape[0], A.dtype) * k for k in range(1, 6)], axis=1)
    for solver in (linalg.cg, linalg.minres, linalg.bicgstab, linalg.gmres):
        x, info = solver(op, right, rtol=tolerance, M="jacobi")
        assert np.all(np.asarray(info) == 0)
        assert np.linalg.norm(A @ x - right) <= 10 * tolerance * np.linalg.norm(right)
    return 3


def run_pieces(dtype: str, device: str) -> int:
    """Solvers whose vectors lie in pieces."""
    solves = Solves(dtype, device, [linalg.cg, linalg.bicgstab, linalg.gmres, linalg.minres])
    pieces = sg.aslinearoperator(solves.A, device=[device] * 2, format="csr")
    for solver, M in solves.all:
        if M < 2:
            solves.check(solver, pieces, M)
            assert pieces.solve_info.pieces == 2
    return 1


def run_others(dtype: str, device: str) -> int:
    """What stands around the formats: orders, parts, transposes."""
    A = as_type(pattern("triples"), dtype)
    x = vector(A.shape[1], A.dtype)
    wide = sp.csr_array(A[:300] * vector(A.shape[1], A.dtype)[None, :]).astype(dtype)
    assert_product(sg.aslinearoperator(wide, device=device, format="csr").T @ x[:300], wide.T, x[:300])
    gathered = sg.aslinearoperator(A, device=device, format="csr_m")
    gathered.set_x(x)
    assert_product(gathered @ x, A, x)
    operators = [
        sg.aslinearoperator(A, device=device, format="sell", reorder="rcm", max_padding=1e6),
        sg.aslinearoperator(A, device=device, format="partitioned", separator=100),
    ]
    for op in operators:
        check_products(op, A)
    return len(operators) + 2


def run_large(dtype: str, device: str) -> int:
    """What matrices need that are not quite small: a part streamed through a GPU, and many columns."""
    short = as_type(pattern("chain"), dtype)
    stored = short.data.nbytes + short.indices.nbytes
    limited = sg.aslinearoperator(short, device=device, memory_limit=stored * 2 // 3, format="csr")
    check_products(limited, short)
    # In a format whose kernels share nothing in a block: that takes checkers minutes with so many entries.
    full = as_type(pattern("full"), dtype)
    check_products(sg.aslinearoperator(full, device=device, format="ellpack_r"), full, (24,), "F")
    return 2


def run_spread(dtype: str, device: str) -> int:
    """Operators and vectors over several devices."""
    A = as_type(pattern("triples"), dtype)
    x = vector(A.shape[1], A.dtype)
    operators = [
        sg.aslinearoperator(A, device=[device, "cpu"], powers=[2, 1], format="csr"),
        sg.aslinearoperator(A, device=[device] * 3, format="coo", partition="pmf"),
    ]
    for op in operators:
        check_products(op, A)
    spread = sg.aslinearoperator(A, device=[device, "cpu", device], powers=[1, 1, 1], format="csr")
    here, there = spread.vector(x), spread.vector()
    assert_product(spread.spmv(here, out=there).collect(), A, x)
    return len(operators) + 1


#: What is run by itself, by its name: how many operators a device was given.
GROUPS: dict[str, Callable[[str], int]] = {
    f"{name}-{dtype}": partial(run, dtype)
    for name, run in [
        *((name, partial(run_format, name)) for name in sg.formats()),
        ("solvers", run_solvers),
        ("chained", run_chained),
        ("multigrid", run_multigrid),
        ("subspaces", run_subspaces),
        ("pieces", run_pieces),
        ("others", run_others),
        ("large", run_large),
        ("spread", run_spread),
    ]
    for dtype in TYPES
}


def main() -> None:
    """Run all of it on a device, or some groups, and say how much that was."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("device", nargs="?", default="cuda:0", help="as %(default)s, which is the default")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS), metavar="GROUP")
    parser.add_argument("--list", action="store_true", help="name the groups and do nothing")
    given = parser.parse_args()
    if given.list:
        print("\n".join(GROUPS))
        return
    for group in given.only:
        print(
            f"{group}: {GROUPS[group](given.device)} operators on {given.device}, all products are right",
            flush=True,
        )


if __name__ == "__main__":
    main()
