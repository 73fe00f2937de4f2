"""The coo format: triplets sorted by row."""

import numpy as np
import scipy.sparse as sp

import spmvgpu as sg
from examples import FIVE_ROWS as MATRIX
from reference import assert_product


def test_golden_arrays(dtype, device):
    arrays = sg.aslinearoperator(MATRIX, format="coo", device=device, dtype=dtype).arrays()
    np.testing.assert_array_equal(arrays["row_indices"], [0, 0, 2, 3, 3, 3, 4])
    np.testing.assert_array_equal(arrays["col_indices"], [0, 3, 1, 0, 2, 3, 3])
    np.testing.assert_array_equal(arrays["values"], [10, 11, 20, 30, 31, 32, 40])
    assert arrays["values"].dtype == dtype


def test_golden_product(dtype, device):
    op = sg.aslinearoperator(MATRIX, format="coo", device=device, dtype=dtype)
    np.testing.assert_array_equal(op @ np.array([1, 2, 3, 4], dtype), [54, 0, 40, 251, 160])


def test_estimate_is_exact():
    estimate = sg.estimate(MATRIX, "coo")
    assert estimate["bytes"] == 7 * (4 + 4 + 8)
    assert estimate["padding"] == 1.0


def test_segment_that_spans_many_tiles(dtype, device):
    """One row is split over many tiles, then rows of one entry begin in the middle of a tile."""
    lengths = np.array([1, 50_000, 1, 1, 1, 30_000, 1])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([np.arange(n) for n in lengths])
    data = (np.arange(indptr[-1]) % 3 + 1).astype(dtype)
    A = sp.csr_array((data, indices, indptr), shape=(7, 50_000))
    x = np.linspace(0.5, 1.5, 50_000, dtype=dtype)
    assert_product(sg.aslinearoperator(A, format="coo", device=device) @ x, A, x)
