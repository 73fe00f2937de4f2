"""Threads that work at the same time, processes that are forked meanwhile, interpreters that end."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import spmvgpu as sg
from reference import assert_product
from spmvgpu import linalg
from support import run_python
from test_fork_exit import BY_CALL, BY_SIGNAL, EXIT, FORK, IN_A_CHILD, OPERATORS, within

from .cases import REFUSED, attempt, kind
from .draw import Triplets, format_choice, maybe, pick

_WORK = [
    "op @ x",
    "op.spmv(x); build().T",
    "sg.linalg.cg(op, x, maxiter=5)",
    "op @ np.stack([x, x], axis=1)",
    "op.tocsr(); op.nbytes; op.explain()",
    "build() @ x",
]


def _system(rng: np.random.Generator) -> Any:
    """A symmetric matrix large enough for several threads, now and then."""
    n = pick(rng, [50, 3000, 40_000])
    row = rng.integers(0, n, 4 * n)
    col = np.clip(row + rng.integers(-30, 31, 4 * n), 0, n - 1)
    row, col = np.concatenate([row, col, np.arange(n)]), np.concatenate([col, row, np.arange(n)])
    row, col = np.divmod(np.unique(row * n + col), n)
    data = np.where(row == col, 200.0, 1.0 + (row + col) % 3)
    return Triplets(row, col, data, (n, n)).reference("f8")


@kind(weight=0.4, batch=100)
def threads(rng: np.random.Generator, device: str) -> None:
    """Threads multiply, transpose, solve and build at once; results are those of one thread."""
    A = _system(rng)
    spread = {"device": [device] * 2} if maybe(rng, 0.2) else {"device": device, **format_choice(rng)}
    op = attempt(sg.aslinearoperator, A, errors=sg.FormatError, **spread)
    if op is REFUSED:
        return
    x = rng.standard_normal(A.shape[1])
    alone = op @ x
    assert_product(alone, A, x)
    both = np.stack([x, -x], axis=1)

    def multiply() -> None:
        np.testing.assert_array_equal(op @ x, alone)

    def multiply_columns() -> None:
        np.testing.assert_array_equal(op @ both, np.stack([alone, -alone], axis=1))

    def transpose() -> None:
        assert_product(op.T @ x, A, x)

    def build() -> None:
        np.testing.assert_array_equal(sg.aslinearoperator(A, **spread) @ x, alone)

    def solve() -> None:
        linalg.cg(op if isinstance(op.device, str) else sg.aslinearoperator(A, device=device), x, maxiter=3)

    def look() -> None:
        assert op.nbytes > 0
        assert op.tocsr().nnz == A.nnz

    def limited() -> None:
        with sg.limit_threads(1):
            multiply()

    jobs = [multiply, multiply, multiply_columns, transpose, build, solve, look, limited]
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(pick(rng, jobs)) for _ in range(16)]:
            done.result()


@kind(weight=0.3, batch=200)
def races(rng: np.random.Generator, device: str) -> None:
    """Arrays that another thread changes: whatever matrix that gives, no index of it lies outside."""
    A = _system(rng)
    good = A.indices.copy()
    bad = pick(rng, [np.full(A.nnz, 10**8), np.full(A.nnz, -1), rng.permutation(good)]).astype(good.dtype)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            A.indices[:] = bad
            A.indices[:] = good

    thread = threading.Thread(target=change)
    thread.start()
    try:
        op = attempt(sg.aslinearoperator, A, device=device, **format_choice(rng))
        if op is not REFUSED:
            op.tocsr().check_format(full_check=True)
            op @ np.ones(op.shape[1])
    finally:
        stop.set()
        thread.join()


@kind(weight=0.02, batch=4)
def forks(rng: np.random.Generator, device: str) -> None:
    """Forks while threads work, or in the middle of a call: the children neither hang nor are wrong."""
    one = [options for options in OPERATORS if options["device"] == "cpu"]
    if maybe(rng, 0.5):
        run_python(within(pick(rng, [*BY_CALL, *BY_SIGNAL]), pick(rng, one)))
        return
    work = pick(rng, _WORK)
    options = pick(rng, one if "cg" in work else OPERATORS)
    run_python(FORK.format(options=options, work=work, right=IN_A_CHILD))


@kind(weight=0.02, batch=4)
def exits(rng: np.random.Generator, device: str) -> None:
    """Interpreters that end while daemon threads work."""
    of_python = "sg.linalg.gmres(op, x, rtol=0, maxiter=20, M=preconditioner, callback=lambda _: None)"
    build = "sg.aslinearoperator(A + A.T, format='dia', device='cpu').T"
    work = pick(rng, [*_WORK[:1], *_WORK[2:5], build, of_python])
    where = ["cpu", "cpu"] if "linalg" not in work and maybe(rng, 0.3) else "cpu"
    run_python(EXIT.format(work=work, device=where, seconds=float(rng.uniform(0.02, 0.1))))
