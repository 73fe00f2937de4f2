"""The CPU backend with any number of threads: every split of the work gives the product."""

import numpy as np
import pytest
import scipy.sparse as sp

from battery import from_lengths, integer_matrix, integer_vector, uniform, vector
from reference import assert_product
from support import build, poisoned

threadpoolctl = pytest.importorskip("threadpoolctl")

# Large enough that every one of the threads gets a part
LARGE = {
    "even": lambda: uniform(20_000, 20_000, 8),
    "empty_ends": lambda: from_lengths(np.r_[np.zeros(30_000), np.full(5000, 15), np.zeros(30_000)], 5000),
    "one_dense_row": lambda: from_lengths(np.r_[np.ones(3000), 200_000, np.ones(3000)], 200_000),
    "two_dense_rows": lambda: from_lengths([100_000, 100_001], 150_000),
    "one_row": lambda: from_lengths([150_000], 150_000),
    "growing": lambda: from_lengths(np.arange(600), 600),
    "many_empty": lambda: from_lengths(np.arange(60_000) % 50 == 0, 1000),
}


@pytest.fixture(params=[1, 2, 3, 8], ids=lambda count: f"threads_{count}")
def threads(request):
    """Limit of OpenMP threads while the test runs."""
    with threadpoolctl.threadpool_limits(request.param, user_api="openmp"):
        yield request.param


@pytest.fixture(scope="module", params=LARGE)
def large(request):
    return sp.csr_array(LARGE[request.param]())


def test_product(large, fmt, dtype, threads):
    A = large.astype(dtype)
    op = build(A, fmt, max_padding=1e6) if fmt == "sell" else build(A, fmt)
    x = vector(A.shape[1], dtype)
    y = op.spmv(x, out=poisoned(A.shape[0], dtype))
    assert_product(y, A, x)
    np.testing.assert_array_equal(op @ x, y)


def test_accumulation(large, fmt, dtype, threads):
    A = large.astype(dtype)
    op = build(A, fmt)
    x = vector(A.shape[1], dtype)
    start = vector(A.shape[0], dtype, seed=40)
    y = start.copy()
    op.spmv(x, out=y, alpha=-0.5, beta=2.0)
    assert_product(y, A, x, -0.5, 2.0, start)


@pytest.mark.parametrize("case", ["long_rows_in_a_row", "long_row_among_empty", "power_law_rows", "tall"])
def test_exact(case, fmt, dtype, threads):
    A = integer_matrix(case, dtype)
    x = integer_vector(A.shape[1], dtype)
    np.testing.assert_array_equal(build(A, fmt) @ x, A @ x)


def test_roundtrip(large, fmt, threads):
    B = build(large, fmt).tocsr()
    np.testing.assert_array_equal(B.indptr, large.indptr)
    np.testing.assert_array_equal(B.indices, sp.csr_array(large).sorted_indices().indices)
