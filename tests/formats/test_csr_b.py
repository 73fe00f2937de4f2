"""The csr_b format: CSR in fragments of equally many non-zeros, with the first and last row of each."""

import numpy as np
import pytest

import spmvgpu as sg
from battery import CASES, from_lengths, matrix, vector
from examples import BELL_GARLAND as MATRIX
from reference import assert_product
from support import allowed_values, assert_multiplies, each_type, poisoned

TUNABLES = {option["name"]: allowed_values(option) for option in sg.format_options("csr_b")}
NASTIEST = ["long_rows_in_a_row", "warp_lengths", "empty_rows_every_other", "power_law_rows", "hypersparse"]


def test_golden_arrays(dtype, device):
    arrays = sg.aslinearoperator(MATRIX, format="csr_b", device=device, dtype=dtype).arrays()
    np.testing.assert_array_equal(arrays["row_offsets"], [0, 2, 4, 7, 9])
    np.testing.assert_array_equal(arrays["col_indices"], [0, 1, 1, 2, 0, 2, 3, 1, 3])
    np.testing.assert_array_equal(arrays["values"], [1, 7, 2, 8, 5, 3, 9, 6, 4])
    np.testing.assert_array_equal(arrays["bounds"], [[0, 3]])
    assert arrays["values"].dtype == dtype


def test_golden_product(dtype, device):
    op = sg.aslinearoperator(MATRIX, format="csr_b", device=device, dtype=dtype)
    np.testing.assert_array_equal(op @ np.array([1, 2, 3, 4], dtype), [15, 28, 50, 28])


@pytest.mark.parametrize(
    ("lengths", "bounds"),
    [
        pytest.param([256, 256], [(0, 0), (1, 1)], id="a-row-each"),
        pytest.param([100, 200, 212], [(0, 1), (1, 2)], id="a-row-in-two"),
        pytest.param([1, 1022, 1], [(0, 1), (1, 1), (1, 1), (1, 2)], id="a-row-in-all"),
        pytest.param([0, 256, 0, 0, 300, 0], [(1, 1), (4, 4), (4, 4)], id="empty-rows-between"),
        pytest.param([10] * 30, [(0, 25), (25, 29)], id="last-fragment-not-full"),
        pytest.param([0, 0, 0], [(0, 2)], id="no-entries"),
    ],
)
def test_golden_bounds(lengths, bounds, dtype, device):
    A = from_lengths(lengths, 2000).astype(dtype)
    op = sg.aslinearoperator(A, format="csr_b", device=device, fragment=256)
    np.testing.assert_array_equal(op.arrays()["bounds"], bounds)
    x = vector(2000, dtype)
    assert_product(op.spmv(x, out=poisoned(len(lengths), dtype)), A, x)


def test_rows_that_cross_fragments(dtype, cuda_device):
    """The second kernel's plan: each such row with the fragments it lies in."""
    A = from_lengths([100, 200, 212, 1000, 24], 2000)
    op = sg.aslinearoperator(A, format="csr_b", device=cuda_device, dtype=dtype, fragment=256)
    np.testing.assert_array_equal(op.arrays()["spans"], [[1, 0, 1], [3, 2, 5]])


def test_defaults_are_those_of_the_paper():
    assert {option["name"]: option["default"] for option in sg.format_options("csr_b")} == {
        "fragment": 1024,
        "lanes_per_row": 16,
    }


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("fragment", [256, 4096])
@each_type
def test_fragments_through_the_battery(fragment, case, dtype, device):
    A = matrix(case, dtype)
    op = sg.aslinearoperator(A, format="csr_b", device=device, fragment=fragment)
    assert_multiplies(op, A)


@pytest.mark.parametrize("case", NASTIEST)
@pytest.mark.parametrize("fragment", TUNABLES["fragment"])
@pytest.mark.parametrize("lanes_per_row", TUNABLES["lanes_per_row"])
@each_type
def test_every_shape_of_the_kernel(lanes_per_row, fragment, case, dtype, cuda_device):
    A = matrix(case, dtype)
    options = {"lanes_per_row": lanes_per_row, "fragment": fragment}
    op = sg.aslinearoperator(A, format="csr_b", device=cuda_device, **options)
    x = vector(A.shape[1], dtype)
    y = vector(A.shape[0], dtype, seed=21)
    assert_product(op.spmv(x, out=y.copy(), alpha=2.0, beta=-0.5), A, x, 2.0, -0.5, y)


def test_estimate_is_exact():
    estimate = sg.estimate(MATRIX, "csr_b")
    assert estimate == {"bytes": 9 * (4 + 8) + 5 * 4 + 8, "padding": 1.0}


def test_fragment_of_a_size_without_kernel():
    with pytest.raises(ValueError, match=r"fragment.*1000.*1024"):
        sg.aslinearoperator(MATRIX, format="csr_b", device="cpu", fragment=1000)
