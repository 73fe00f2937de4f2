"""The ellpack_r format: an ELLPACK and the length of every row."""

import numpy as np

import spmvgpu as sg
from examples import YIN as FIGURE

PITCH = 32


def test_golden_arrays(dtype, device):
    arrays = sg.aslinearoperator(FIGURE, format="ellpack_r", device=device, dtype=dtype).arrays()
    columns = arrays["col_indices"].reshape(3, PITCH)
    values = arrays["values"].reshape(3, PITCH)
    np.testing.assert_array_equal(arrays["row_lengths"], [2, 3, 1, 2])
    for row, length in enumerate(arrays["row_lengths"]):
        entries = slice(FIGURE.indptr[row], FIGURE.indptr[row + 1])
        np.testing.assert_array_equal(columns[:length, row], FIGURE.indices[entries])
        np.testing.assert_array_equal(values[:length, row], FIGURE.data[entries])
    assert arrays["values"].dtype == dtype


def test_it_is_an_ellpack_with_lengths(dtype):
    plain, with_lengths = (
        sg.aslinearoperator(FIGURE, format=name, device="cpu", dtype=dtype).arrays()
        for name in ("ellpack", "ellpack_r")
    )
    assert set(with_lengths) == {*plain, "row_lengths"}
    for name, array in plain.items():
        np.testing.assert_array_equal(with_lengths[name], array)


def test_golden_product(dtype, device):
    op = sg.aslinearoperator(FIGURE, format="ellpack_r", device=device, dtype=dtype)
    np.testing.assert_array_equal(op @ np.array([1, 2, 3, 4, 5], dtype), [10, 14, 1, 3])


def test_estimate_is_exact():
    estimate = sg.estimate(FIGURE, "ellpack_r")
    assert estimate == {"bytes": 3 * PITCH * (4 + 8) + 4 * 4, "padding": 3 * PITCH / 8}
