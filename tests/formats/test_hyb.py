"""The hyb format: the first entries of every row in an ELL part, the rest in a COO part."""

import numpy as np
import pytest

import spmvgpu as sg
from battery import CASES, from_lengths, matrix, vector
from examples import BELL_GARLAND as MATRIX
from reference import assert_product
from support import assert_multiplies, assert_same_entries, build, check_refusal, each_type, formats_of

PITCH = 32  # slots per column for up to 32 rows

SKEWED = from_lengths(np.where(np.arange(8192) % 32 == 0, 200, 1), 8192)


def columns(rows, padding):
    """Columns of slots as one array, each filled up to the pitch."""
    return np.concatenate([[*column, *[padding] * (PITCH - len(column))] for column in rows])


def test_golden_arrays(dtype, device):
    arrays = sg.aslinearoperator(MATRIX, format="hyb", device=device, dtype=dtype, width=2).arrays()
    np.testing.assert_array_equal(arrays["ell_col_indices"], columns([[0, 1, 0, 1], [1, 2, 2, 3]], -1))
    np.testing.assert_array_equal(arrays["ell_values"], columns([[1, 2, 5, 6], [7, 8, 3, 4]], 0))
    np.testing.assert_array_equal(arrays["coo_row_indices"], [2])
    np.testing.assert_array_equal(arrays["coo_col_indices"], [3])
    np.testing.assert_array_equal(arrays["coo_values"], [9])
    assert arrays["ell_values"].dtype == arrays["coo_values"].dtype == dtype


def test_golden_arrays_of_maximal_width(dtype, device):
    arrays = sg.aslinearoperator(MATRIX, format="hyb", device=device, dtype=dtype, width="max").arrays()
    np.testing.assert_array_equal(
        arrays["ell_col_indices"], columns([[0, 1, 0, 1], [1, 2, 2, 3], [-1, -1, 3, -1]], -1)
    )
    assert arrays["coo_values"].size == 0


@pytest.mark.parametrize(
    ("lengths", "width"),
    [
        pytest.param([5] * 4095, 0, id="too-few-rows-to-fill-a-device"),
        pytest.param([5] * 4096, 5, id="rows-enough"),
        pytest.param([2] * 10_000 + [6] * 4999, 2, id="less-than-a-third-is-longer"),
        pytest.param([2] * 9_998 + [6] * 4999, 6, id="a-third-is-longer"),
        pytest.param([0] * 20_000 + [9], 0, id="nearly-empty"),
    ],
)
def test_automatic_width(lengths, width, device):
    A = from_lengths(lengths, 50)
    op = sg.aslinearoperator(A, format="hyb", device=device)
    assert op.options["width"] == width
    assert op.arrays()["coo_values"].size == np.maximum(np.array(lengths) - width, 0).sum()


WIDTHS = (1, 3, "max")
# Every case with the widths at which the format holds it.
HELD = {
    (width, case)
    for width in WIDTHS
    for case in CASES
    if formats_of(case, only="hyb", width=width, max_padding=100.0)
}


def test_the_battery_is_held_but_for_a_few_cases():
    assert {case for width, case in HELD if width != "max"} == set(CASES)
    assert len(HELD) > 2.5 * len(CASES)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("width", WIDTHS)
@each_type
def test_widths_through_the_battery(width, case, dtype, device):
    """With a width of its own: the automatic one leaves the ELL part of such small matrices empty."""
    if (width, case) not in HELD:
        return
    A = matrix(case, dtype)
    op = build(A, "hyb", device, width=width, max_padding=100.0)
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)
    x = vector(A.shape[1], dtype)
    start = vector(A.shape[0], dtype, seed=21)
    assert_product(op.spmv(x, out=start.copy(), alpha=2.0, beta=-0.5), A, x, 2.0, -0.5, start)


def test_estimate_is_exact():
    assert sg.estimate(MATRIX, "hyb", width=2) == {
        "bytes": 2 * PITCH * (4 + 8) + 1 * (4 + 4 + 8),
        "padding": (2 * PITCH + 1) / 9,
    }


def test_transposed_copy_chooses_its_own_width():
    A = from_lengths([3] * 5000, 50)
    op = sg.aslinearoperator(A, format="hyb", device="cpu")
    assert (op.options["width"], op.T.options["width"]) == (3, 0)


def test_refuses_a_matrix_that_would_be_mostly_padding(device):
    with pytest.raises(sg.FormatError, match="max_padding") as caught:
        sg.aslinearoperator(SKEWED, format="hyb", device=device, width="max")
    check_refusal(SKEWED, "hyb", str(caught.value))
