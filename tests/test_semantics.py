"""What a product means at the edges: special values, zeros, padding, alpha and beta, determinism."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from battery import integer_vector, matrix, vector
from reference import assert_product
from support import build, each_format_of, each_pair, each_type, poisoned

SPECIAL = [np.nan, np.inf, -np.inf]
PADDED_CASES = [
    "growing_rows",
    "warp_lengths",
    "empty_rows_every_other",
    "power_law_rows",
    "corners",
    "arrow",
    "blocks",
]


each_padded = each_pair(PADDED_CASES)


@each_padded
@each_type
def test_special_values_in_x(case, fmt, device, dtype):
    """Padding must not multiply: formats like to pad with column 0 or the last column."""
    A = matrix(case, dtype)
    op = build(A, fmt, device)
    users_of = {column: A.tocsc()[:, [column]].indices for column in (0, 1, -1)}
    for special, (column, users) in itertools.product(SPECIAL, users_of.items()):
        x = vector(A.shape[1], dtype)
        x[column] = special
        y = op.spmv(x, out=poisoned(A.shape[0], dtype))
        assert np.isfinite(np.delete(y, users)).all(), (special, column)
        assert not np.isfinite(y[users]).any(), (special, column)
        assert_product(y, A, x)
    # Empty rows stay zero; a row of one sign keeps its infinity, mixed signs give NaN.
    for special in SPECIAL:
        x = np.full(A.shape[1], special, dtype)
        y = op @ x
        np.testing.assert_array_equal(y[np.diff(A.indptr) == 0], 0.0)
        assert_product(y, A, x)


@each_format_of("warp_lengths")
@pytest.mark.parametrize("special", SPECIAL)
@each_type
def test_special_entry_stays_in_its_row(special, fmt, device, dtype):
    A = matrix("warp_lengths", dtype).copy()
    A.data = A.data.copy()
    A.data[1000] = special
    row = np.searchsorted(A.indptr, 1000, side="right") - 1
    x = vector(A.shape[1], dtype)
    y = build(A, fmt, device) @ x
    assert not np.isfinite(y[row])
    assert np.isfinite(np.delete(y, row)).all()
    assert_product(y, A, x)


STORED_ZEROS = sp.csr_array((np.array([0.0, 1, 0, 2]), [0, 1, 1, 0], [0, 2, 2, 4]), shape=(3, 2))


@each_format_of(STORED_ZEROS)
@pytest.mark.parametrize("special", SPECIAL)
@each_type
def test_stored_zeros_multiply(special, fmt, device, dtype):
    A = STORED_ZEROS.astype(dtype)
    op = build(A, fmt, device)
    assert op.nnz == 4
    np.testing.assert_array_equal(op @ np.array([special, 1.0], dtype), [np.nan, 0.0, 2 * special])


@each_format_of(sp.csr_array((2, 8)))
@each_type
def test_signs_of_zero_and_payload_survive(fmt, device, dtype):
    """The roundtrip keeps bits, not only values."""
    tiny = np.finfo(dtype).smallest_subnormal
    data = np.array([-0.0, 0.0, np.nan, -np.nan, np.inf, tiny, -tiny, np.finfo(dtype).max], dtype)
    A = sp.csr_array((data, np.arange(8), [0, 3, 8]), shape=(2, 8))
    assert build(A, fmt, device).tocsr().data.tobytes() == data.tobytes()


@each_type
def test_subnormal_numbers_are_not_flushed(fmt, device, dtype):
    tiny = np.finfo(dtype).smallest_subnormal
    A = sp.csr_array(np.diag(np.array([tiny, 2 * tiny, 1.0], dtype)))
    x = np.array([1.0, 4.0, 3 * tiny], dtype)
    np.testing.assert_array_equal(build(A, fmt, device) @ x, np.array([tiny, 8 * tiny, 3 * tiny], dtype))


# alpha and beta


@each_padded
@each_type
def test_special_values_in_the_result(case, fmt, device, dtype):
    """It is not read with beta=0, and read with any other."""
    A = matrix(case, dtype)
    op = build(A, fmt, device)
    x = vector(A.shape[1], dtype)
    for special in SPECIAL:
        y = np.full(A.shape[0], special, dtype)
        op.spmv(x, out=y, alpha=2.0, beta=0.0)
        assert_product(y, A, x, alpha=2.0)
        start = vector(A.shape[0], dtype)
        start[::7] = special
        assert_product(op.spmv(x, out=start.copy(), beta=0.5), A, x, beta=0.5, y=start)


@each_type
def test_factors_may_be_any_real_number(fmt, device, dtype):
    A = matrix("tridiagonal", dtype)
    op = build(A, fmt, device)
    x = integer_vector(A.shape[1], dtype)
    expected = 2 * (A @ x)
    for alpha in (2, 2.0, np.float32(2), np.int8(2), np.array(2.0)):
        np.testing.assert_array_equal(op.spmv(x, alpha=alpha), expected)


# Determinism


@each_pair(["uniform", "long_rows_in_a_row", "power_law_rows", "1xN_dense"])
@each_type
def test_many_repeats_give_the_same_bits(case, fmt, device, dtype):
    A = matrix(case, dtype)
    op = build(A, fmt, device)
    x = vector(A.shape[1], dtype)
    assert len({(op @ x).tobytes() for _ in range(100)}) == 1
