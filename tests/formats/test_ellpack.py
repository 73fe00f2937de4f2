"""The ellpack format: rows padded to the longest, stored column by column."""

import numpy as np

import spmvgpu as sg
from examples import YIN as FIGURE

PITCH = 32

COLUMNS = [[0, 0, 0, 0], [1, 1, -1, 1], [-1, 2, -1, -1]]
VALUES = [[2, 1, 1, 1], [4, 2, 0, 1], [0, 3, 0, 0]]


def test_golden_arrays(dtype, device):
    arrays = sg.aslinearoperator(FIGURE, format="ellpack", device=device, dtype=dtype).arrays()
    columns = arrays["col_indices"].reshape(3, PITCH)
    values = arrays["values"].reshape(3, PITCH)
    np.testing.assert_array_equal(columns[:, :4], COLUMNS)
    np.testing.assert_array_equal(values[:, :4], VALUES)
    assert (columns[:, 4:] == -1).all()
    assert arrays["values"].dtype == dtype


def test_golden_product(dtype, device):
    op = sg.aslinearoperator(FIGURE, format="ellpack", device=device, dtype=dtype)
    np.testing.assert_array_equal(op @ np.array([1, 2, 3, 4, 5], dtype), [10, 14, 1, 3])


def test_estimate_is_exact():
    assert sg.estimate(FIGURE, "ellpack") == {"bytes": 3 * PITCH * (4 + 8), "padding": 3 * PITCH / 8}
