"""The sell format: slices of 32 rows, sorted by length within sigma rows, padded to the longest row."""

import numpy as np
import pytest

import spmvgpu as sg
from battery import CASES, from_lengths, matrix, vector
from examples import FIVE_ROWS as MATRIX
from reference import assert_product
from support import check_refusal, each_type, poisoned

SLICE = 32


@pytest.mark.parametrize("sigma", [1, SLICE])
def test_golden_arrays(sigma, dtype, device):
    op = sg.aslinearoperator(MATRIX, format="sell", device=device, dtype=dtype, sigma=sigma)
    arrays = op.arrays()
    order = [0, 1, 2, 3, 4] if sigma == 1 else [3, 0, 2, 4, 1]
    entries = {0: [(0, 10), (3, 11)], 1: [], 2: [(1, 20)], 3: [(0, 30), (2, 31), (3, 32)], 4: [(3, 40)]}
    np.testing.assert_array_equal(arrays["slice_offsets"], [0, 3 * SLICE])
    if sigma > 1:
        np.testing.assert_array_equal(arrays["permutation"], order)
    columns, values = np.full((3, SLICE), -1), np.zeros((3, SLICE))
    for position, row in enumerate(order):
        for k, (column, value) in enumerate(entries[row]):
            columns[k, position], values[k, position] = column, value
    np.testing.assert_array_equal(arrays["col_indices"], columns.ravel())
    np.testing.assert_array_equal(arrays["values"][columns.ravel() >= 0], values[columns >= 0])
    assert arrays["values"].dtype == dtype


@pytest.mark.parametrize("sigma", [1, SLICE])
def test_golden_product(sigma, dtype, device):
    op = sg.aslinearoperator(MATRIX, format="sell", device=device, dtype=dtype, sigma=sigma)
    np.testing.assert_array_equal(op @ np.array([1, 2, 3, 4], dtype), [54, 0, 40, 251, 160])


def test_sorting_lessens_padding():
    A = from_lengths(np.where(np.arange(4096) % 32 == 0, 40, 2), 4096)
    unsorted = sg.estimate(A, "sell", sigma=1, max_padding=1e6)["padding"]
    by_length = sg.estimate(A, "sell", sigma=4096, max_padding=1e6)["padding"]
    assert unsorted == pytest.approx(40 * 4096 / A.nnz)
    assert by_length < 1.2


SKEWED = from_lengths(np.where(np.arange(8192) % 32 == 0, 200, 1), 8192)


def test_refuses_a_matrix_that_would_be_mostly_padding(device):
    with pytest.raises(sg.FormatError, match="max_padding") as caught:
        sg.aslinearoperator(SKEWED, format="sell", device=device, sigma=1)
    check_refusal(SKEWED, "sell", str(caught.value))
    assert isinstance(caught.value, ValueError)


def test_higher_max_padding_lets_it_in(device, dtype):
    A = SKEWED.astype(dtype)
    op = sg.aslinearoperator(A, format="sell", device=device, sigma=1, max_padding=100.0)
    x = vector(A.shape[1], dtype)
    assert_product(op @ x, A, x)


def test_lower_max_padding_keeps_it_out():
    with pytest.raises(sg.FormatError):
        sg.aslinearoperator(SKEWED, format="sell", device="cpu", sigma=1, max_padding=20.0)


def test_small_matrices_are_exempt(device):
    A = from_lengths([1000] + [1] * 31, 1000)
    op = sg.aslinearoperator(A, format="sell", device=device)
    assert op.nbytes >= 1000 * 32 * 12


@pytest.mark.parametrize("case", CASES)
@each_type
def test_battery_whatever_it_pads(case, dtype, device):
    """The battery of all formats skips what is refused by default; the kernel must be right there too."""
    A = matrix(case, dtype)
    op = sg.aslinearoperator(A, format="sell", device=device, max_padding=1e6)
    x = vector(A.shape[1], dtype)
    assert_product(op.spmv(x, out=poisoned(A.shape[0], dtype)), A, x)


@pytest.mark.parametrize("sigma", [0, 1, 32, 128, 1024, 16384])
@each_type
@pytest.mark.parametrize(
    "case", ["growing_rows", "power_law_rows", "rows_1025", "empty_rows_first", "Nx1_holes"]
)
def test_permutation_is_undone(case, sigma, dtype, device):
    A = matrix(case, dtype)
    op = sg.aslinearoperator(A, format="sell", device=device, sigma=sigma, max_padding=1e6)
    x = vector(A.shape[1], dtype)
    y = vector(A.shape[0], dtype, seed=22)
    assert_product(op.spmv(x, out=y.copy(), beta=1.0), A, x, 1.0, 1.0, y)
    np.testing.assert_array_equal(op.tocsr().toarray(), A.toarray())
