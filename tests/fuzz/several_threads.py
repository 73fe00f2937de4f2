"""Threads that work at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import spmvgpu as sg
from reference import assert_product
from spmvgpu import linalg

from .cases import REFUSED, attempt, kind
from .draw import Triplets, format_choice, maybe, pick


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
