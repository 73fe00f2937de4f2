"""Every format on every device multiplies every nasty matrix, in both precisions, real and complex."""

import functools

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, COMPLEX_TYPES, TYPES, banded, integer_matrix, integer_vector, matrix, vector
from reference import assert_product, assert_within, reference
from support import (
    assert_same_entries,
    build,
    each_format_of,
    each_type,
    formats_of,
    least_bytes,
    naming,
    pairs,
    poisoned,
)

FAR_APART = sp.csr_array(
    ([1.0, 2.0, 3.0, 4.0], ([0, 1, 1, 2], [0, 5, 2**28, 2**28 + 7])), shape=(3, 2**28 + 8)
)
LARGE_BAND = sp.csr_array(banded(200_000, [-400, -1, 0, 1, 400]))


def in_types():
    """Every case with the formats that hold it in real types, and some of them in complex ones."""
    for number, (case, fmt) in enumerate(pairs(CASES)):
        yield from ((case, fmt, dtype) for dtype in TYPES)
        # In double precision, and in single precision every fourth one; the suite has every third pair.
        for dtype in COMPLEX_TYPES[number % 4 > 0 :]:
            mark = [] if number % 3 == 0 else [pytest.mark.nightly]
            yield pytest.param(case, fmt, dtype, marks=mark)


@pytest.mark.parametrize(("case", "fmt", "dtype"), list(in_types()), ids=str)
def test_operator(case, fmt, device, dtype):
    """All that one operator must hold and do, and an operator of small integers, which is exact."""
    A = matrix(case, dtype)
    op = build(A, fmt, device)
    check_what_is_stored(op, A, fmt, device)
    check_products(op, expected_of(case, dtype))
    x = vector(A.shape[1], dtype)
    np.testing.assert_array_equal(
        build(A, fmt, device) @ x, op @ x, err_msg="a second operator has other bits"
    )
    check_small_integers(integer_matrix(case, dtype), fmt, device)


def check_what_is_stored(op, A, fmt, device):
    assert (op.shape, op.dtype, op.nnz) == (A.shape, A.dtype, A.nnz)
    assert (op.format, op.device) == (fmt, device)
    B = op.tocsr()
    assert B.has_canonical_format
    assert B.dtype == A.dtype
    assert_same_entries(B, A)
    estimate = sg.estimate(A, fmt, device)
    assert estimate["padding"] >= 1.0 or A.nnz == 0
    assert estimate["bytes"] >= least_bytes(A, fmt)


FACTORS = [(1.0, 0.0), (-1.5, 0.0), (1.0, 1.0), (0.5, -2.0), (0.0, 1.0), (0.0, 0.0)]
COMPLEX_FACTORS = [*FACTORS, (2j, 0.0), (0.5 - 1j, -2.0 + 1j), (0.0, 1j)]


class Expected:
    """What a case is multiplied with, and what `reference` gives: the same for all formats and devices."""

    def __init__(self, A):
        self.x, self.start = vector(A.shape[1], A.dtype), vector(A.shape[0], A.dtype, seed=20)
        factors = COMPLEX_FACTORS if A.dtype.kind == "c" else FACTORS
        self.scaled = {pair: reference(A, self.x, *pair, self.start) for pair in factors}
        self.X = vector(3 * A.shape[1], A.dtype).reshape(A.shape[1], 3)
        self.columns = [reference(A, column) for column in self.X.T]
        self.x_of_transposed = vector(A.shape[0], A.dtype)
        self.transposed, self.adjoint = (reference(B, self.x_of_transposed) for B in (A.T, A.conj().T))


@functools.lru_cache(maxsize=4)
def expected_of(case, dtype):
    return Expected(matrix(case, dtype))


def check_products(op, expected):
    """One vector over a poisoned result, with factors, again to the same bits; columns; transposed."""
    x, rows = expected.x, op.shape[0]
    y = poisoned(rows, op.dtype)
    assert op.spmv(x, out=y) is y
    assert_within(y, *expected.scaled[1.0, 0.0])
    for _ in range(5):
        np.testing.assert_array_equal(op.spmv(x, out=poisoned(rows, op.dtype)), y)
    np.testing.assert_array_equal(op @ x, y)
    for alpha, beta in expected.scaled:
        with naming(alpha=alpha, beta=beta):
            y = expected.start.copy() if beta else poisoned(rows, op.dtype)
            op.spmv(x, out=y, alpha=alpha, beta=beta)
            assert_within(y, *expected.scaled[alpha, beta])
    Y = op @ expected.X
    assert Y.shape == (rows, 3)
    for column, result in zip(Y.T, expected.columns, strict=True):
        assert_within(column, *result)
    assert_within(op.rmatvec(expected.x_of_transposed), *expected.adjoint)
    assert_within(op.T @ expected.x_of_transposed, *expected.transposed)


def check_small_integers(A, fmt, device):
    """The pattern of a case, which with other values may be symmetric no more."""
    if fmt not in formats_of(A, only=fmt):
        return
    x = integer_vector(A.shape[1], A.dtype)
    y = build(A, fmt, device) @ x
    assert y.dtype == A.dtype
    np.testing.assert_array_equal(y, A @ x)


@pytest.mark.parametrize("case", CASES)
@each_type
def test_automatic_format(case, dtype, device):
    A = matrix(case, dtype)
    op = sg.aslinearoperator(A, device=device)
    assert op.format in sg.formats()
    x = vector(A.shape[1], A.dtype)
    assert_product(op @ x, A, x)


@each_format_of(FAR_APART)
def test_long_vector(fmt, device):
    """x of more than 2^31 bytes, of which only a few pages are touched on the CPU."""
    free = min(info.memory_free for info in sg.devices() if info.name in ("cpu", device))
    if free < 3 * 2**31:
        pytest.skip(f"needs 6 GiB of free memory on cpu and {device}, has {free / 2**30:.1f}")
    x = np.zeros(FAR_APART.shape[1])
    x[FAR_APART.indices] = [10.0, 20.0, 30.0, 40.0]
    np.testing.assert_array_equal(build(FAR_APART, fmt, device) @ x, [10.0, 130.0, 160.0])


@each_format_of(LARGE_BAND)
def test_a_large_banded_matrix(fmt, device, dtype):
    """Large enough for every thread and many tiles."""
    A = LARGE_BAND.astype(dtype)
    x = vector(A.shape[1], dtype)
    assert_product(build(A, fmt, device) @ x, A, x)
