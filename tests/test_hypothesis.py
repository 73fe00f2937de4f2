"""Matrices and vectors made up by hypothesis."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import assert_product
from support import build, format_fixture, nightly, poisoned

fmt = format_fixture("0x5")  # hold any small matrix, symmetric or not
LARGEST = 2.0**40  # products and sums of 40 of them stay finite in float32


def numbers(dtype):
    """Values of any size, with zeros of both signs, subnormal numbers and exact ties."""
    width = 32 if dtype == np.float32 else 64
    return st.one_of(
        st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5]),
        st.floats(-LARGEST, LARGEST, width=width),
    )


@st.composite
def problems(draw, dtype):
    """A matrix with rows of very different lengths, and vectors for either side."""
    rows, cols = draw(st.integers(0, 70)), draw(st.integers(0, 40))
    among = draw(st.lists(st.sampled_from([0, 1, 2, 3, 31, 32, 33, 40]), min_size=1, max_size=8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = np.minimum(rng.choice(among, rows), cols)
    indices = [np.sort(rng.choice(cols, n, replace=False)) for n in lengths if n]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    pool = np.array(draw(st.lists(numbers(dtype), min_size=1, max_size=12)), dtype)
    data = rng.choice(pool, indptr[-1])
    columns = np.concatenate([np.empty(0, int), *indices]).astype(np.int32)
    A = sp.csr_array((data, columns, indptr), shape=(rows, cols))
    return A, rng.choice(pool, cols), rng.choice(pool, rows)


factors = st.sampled_from([0.0, 1.0, -1.0, 0.5, -3.0, 1e-3])
each_number = pytest.mark.parametrize("examples", [12, *nightly([500])])


def run(test, examples):
    """Call a test with as many data of hypothesis."""
    settings(max_examples=examples)(given(st.data())(test))()


@each_number
def test_spmv(fmt, device, dtype, examples):
    run(lambda data: check_spmv(fmt, device, dtype, data), examples)


def check_spmv(fmt, device, dtype, data):
    A, x, start = data.draw(problems(dtype))
    alpha, beta = float(dtype.type(data.draw(factors))), float(dtype.type(data.draw(factors)))
    y = start.copy() if beta else poisoned(A.shape[0], dtype)
    build(A, fmt, device).spmv(x, out=y, alpha=alpha, beta=beta)
    assert_product(y, A, x, alpha, beta, start)


@each_number
def test_roundtrip_and_transposed_product(fmt, device, dtype, examples):
    run(lambda data: check_roundtrip_and_transposed_product(fmt, device, dtype, data), examples)


def check_roundtrip_and_transposed_product(fmt, device, dtype, data):
    A, _, x = data.draw(problems(dtype))
    op = build(A, fmt, device)
    assert op.tocsr().data.tobytes() == A.data.tobytes()
    np.testing.assert_array_equal(op.tocsr().indices, A.indices)
    np.testing.assert_array_equal(op.tocsr().indptr, A.indptr)
    assert_product(op.rmatvec(x), A.T, x)


@each_number
def test_triplets_in_any_order_with_duplicates(fmt, device, dtype, examples):
    run(lambda data: check_triplets_in_any_order_with_duplicates(fmt, device, dtype, data), examples)


def check_triplets_in_any_order_with_duplicates(fmt, device, dtype, data):
    """Small integers, so that sums of duplicates are exact in any order."""
    rows, cols = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 30))
    triplet = st.tuples(st.integers(0, rows - 1), st.integers(0, cols - 1), st.integers(-9, 9))
    triplets = data.draw(st.lists(triplet, max_size=80))
    row, col, value = np.array(triplets, int).reshape(-1, 3).T
    A = sp.coo_array((value.astype(dtype), (row, col)), shape=(rows, cols))
    op = build(A, fmt, device)
    assert op.nnz == len({pair[:2] for pair in triplets})
    np.testing.assert_array_equal(op.tocsr().toarray(), A.toarray())
    x = np.arange(1, cols + 1).astype(dtype)
    np.testing.assert_array_equal(op @ x, A.toarray() @ x)
