"""NumPy arrays in and out: staged in chunks on a GPU, recycled results, threads; host tensors of PyTorch."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

from battery import matrix, vector
from support import build, each_format_of

# Around powers of two of elements up to several MB: every chunk size of the staging has a boundary here
SIZES = [2**k + d for k in (10, 13, 16, 17, 18, 19, 20, 21) for d in (-1, 0, 1)]


def scaled_identity(rows, dtype):
    """A diagonal of small integers: the product shows each element of x at its own place."""
    data = (np.arange(rows) % 5 + 1).astype(dtype)
    return sp.csr_array(
        (data, np.arange(rows, dtype=np.int32), np.arange(rows + 1, dtype=np.int32)), shape=(rows, rows)
    )


@pytest.mark.parametrize("size", SIZES)
def test_sizes_around_chunks(size, device, dtype):
    A = scaled_identity(size, dtype)
    op = build(A, "csr", device)
    x = (np.arange(size) % 1021).astype(dtype)
    expected = A.data * x
    np.testing.assert_array_equal(op @ x, expected)
    out = np.full(size, np.nan, dtype)
    op.spmv(x, out=out)
    np.testing.assert_array_equal(out, expected)
    op.spmv(x, out=out, beta=1.0)
    np.testing.assert_array_equal(out, 2 * expected)


@pytest.mark.parametrize("offset", [1, 3, 7, 15])
def test_arrays_that_do_not_begin_at_a_page(offset, device, dtype):
    size = 2**18
    A = scaled_identity(size, dtype)
    x = np.arange(size + 16).astype(dtype)[offset : offset + size]
    whole = np.full(size + 16, -1, dtype)
    build(A, "csr", device).spmv(x, out=whole[offset : offset + size])
    np.testing.assert_array_equal(whole[offset : offset + size], A.data * x)
    np.testing.assert_array_equal(np.delete(whole, slice(offset, offset + size)), -1)


@pytest.mark.parametrize("size", [100, 5000, 300_000])
def test_recycled_results_are_not_seen_through_old_views(size, device, dtype):
    """A view keeps the memory of a result alive, so that it cannot be given to a later result."""
    op = build(scaled_identity(size, dtype), "csr", device)
    x = np.ones(size, dtype)
    views = []
    for scale in range(1, 9):
        result = op @ (scale * x)
        views.append(result[size // 2 : size // 2 + 10])
        del result
    expected = op.tocsr().data[size // 2 : size // 2 + 10]
    for scale, view in enumerate(views, start=1):
        np.testing.assert_array_equal(view, scale * expected)


@each_format_of("uniform")
def test_result_is_an_ordinary_array(device, fmt, dtype):
    op = build(matrix("uniform", dtype), fmt, device)
    y = op @ vector(op.shape[1], dtype)
    assert type(y) is np.ndarray
    assert y.flags.c_contiguous
    assert y.flags.writeable
    assert y.flags.aligned
    y += 1
    y.sort()


def test_large_round_trips_from_many_threads(device, dtype):
    size = 700_001
    op = build(scaled_identity(size, dtype), "csr", device)
    vectors = [(np.arange(size) % (1000 + index)).astype(dtype) for index in range(4)]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda x: [op @ x for _ in range(5)], vectors))
    for x, mine in zip(vectors, results, strict=True):
        assert all(np.array_equal(result, op.tocsr().data * x) for result in mine)


def test_x_may_change_as_soon_as_the_call_returns(device, dtype):
    size = 1_000_000
    op = build(scaled_identity(size, dtype), "csr", device)
    x = np.ones(size, dtype)
    y = op @ x
    x[:] = np.nan
    np.testing.assert_array_equal(y, op.tocsr().data)
