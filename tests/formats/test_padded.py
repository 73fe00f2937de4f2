"""What the padded formats share: refusal by max_padding, and the battery with the refusal turned off."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, from_lengths, matrix, vector
from reference import assert_product
from support import assert_multiplies, assert_same_entries, check_refusal, each_type, formats_of, poisoned

# With the options of which they pad most.
PADDED = {"ellpack": {}, "ellpack_r": {}, "ellr_t": {}, "dia": {}, "sell": {"sigma": 1}}
PADDED |= {"packed_sell": {"sigma": 1}, "hyb": {"width": "max"}}
WIDE = ["ellpack", "ellpack_r", "ellr_t", "dia"]  # of which one row pads all others
ANY_PADDING = {"max_padding": 1e6}
LARGEST_TESTED = 80_000_000  # bytes

# One row in 32 is long; and no two entries share a diagonal but those in the first columns.
SKEWED = from_lengths(np.where(np.arange(8192) % 32 == 0, 200, 1), 8192)


@pytest.mark.parametrize("name", PADDED)
def test_refuses_a_matrix_that_would_be_mostly_padding(name, device):
    options = PADDED[name]
    with pytest.raises(sg.FormatError, match="max_padding") as caught:
        sg.aslinearoperator(SKEWED, format=name, device=device, **options)
    assert isinstance(caught.value, ValueError)
    check_refusal(SKEWED, name, str(caught.value))
    for more in ({}, {"max_padding": 20.0}):
        with pytest.raises(sg.FormatError, match="max_padding"):
            sg.estimate(SKEWED, name, **options, **more)


@pytest.mark.parametrize("name", WIDE)
def test_more_slots_than_positions_are_refused_at_any_padding(name):
    """A full row among 100,000, all of their diagonals in use: 10^10 slots."""
    n = 100_000
    A = sp.csr_array((np.ones(n), np.arange(n), np.minimum(np.arange(n + 1), 1) * n), shape=(n, n))
    with pytest.raises(sg.FormatError, match="32-bit") as caught:
        sg.aslinearoperator(A, format=name, device="cpu", **ANY_PADDING)
    check_refusal(A, name, str(caught.value))


@pytest.mark.parametrize("name", [*WIDE, "sell"])
def test_small_matrices_are_exempt(name, device):
    A = from_lengths([900] + [1] * 15, 1000)
    x = vector(1000, A.dtype)
    assert_product(sg.aslinearoperator(A, format=name, device=device) @ x, A, x)


def refused_by_default():
    """The nasty matrices that the formats refuse, but for what would take too much memory for a test."""
    for case in CASES:
        for name in {*PADDED, "bsell"} - set(formats_of(case)):
            if formats_of(case, only=name, **ANY_PADDING):
                cost = sg.estimate(matrix(case, np.dtype("float64")), name, **ANY_PADDING)
                if cost["bytes"] <= LARGEST_TESTED:
                    yield name, case


@pytest.mark.parametrize(("name", "case"), sorted(refused_by_default()))
@each_type
def test_battery_at_any_padding(name, case, dtype, device):
    A = matrix(case, dtype)
    cost = sg.estimate(A, name, device, **ANY_PADDING)
    op = sg.aslinearoperator(A, format=name, device=device, **ANY_PADDING)
    # A GPU hands out memory in pages of 2 MiB, for each of up to three arrays.
    assert cost["bytes"] <= op.nbytes <= cost["bytes"] + (0 if device == "cpu" else 3 * 2**21)
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)
    for column in (0, A.shape[1] // 2, -1):  # padding never multiplies
        x = vector(A.shape[1], dtype)
        x[column] = np.nan
        assert_product(op.spmv(x, out=poisoned(A.shape[0], dtype)), A, x)


def test_sorting_lessens_padding():
    A = from_lengths(np.where(np.arange(4096) % 32 == 0, 40, 2), 4096)
    unsorted = sg.estimate(A, "sell", sigma=1, max_padding=1e6)["padding"]
    by_length = sg.estimate(A, "sell", sigma=4096, max_padding=1e6)["padding"]
    assert unsorted == pytest.approx(40 * 4096 / A.nnz)
    assert by_length < 1.2
