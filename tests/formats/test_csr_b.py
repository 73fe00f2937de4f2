"""The csr_b format: CSR in fragments of equally many non-zeros, with the first and last row of each."""

import numpy as np
import pytest

import spmvgpu as sg
from battery import from_lengths, vector
from reference import assert_product
from support import poisoned


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
