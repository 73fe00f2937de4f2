"""The checker itself: it must accept rounding and see one corrupted entry."""

import numpy as np
import pytest
import scipy.sparse as sp

from battery import CASES, matrix, uniform
from reference import assert_product, reference


@pytest.fixture
def problem(dtype, rng):
    A = uniform(200, 150, 15).astype(dtype)
    return A, rng.uniform(-1, 1, 150).astype(dtype)


def test_agrees_with_scipy_and_with_a_dense_product_in_extended_precision(problem):
    A, x = problem
    assert_product(A @ x, A, x)
    dense = A.toarray().astype(np.longdouble) @ x.astype(np.longdouble)
    np.testing.assert_allclose(reference(A, x)[0], dense, rtol=1e-16, atol=1e-18)


def test_sees_one_corrupted_result(problem):
    A, x = problem
    y = A @ x
    y[77] += 100 * np.finfo(A.dtype).eps * (abs(A) @ abs(x))[77]
    with pytest.raises(AssertionError, match=r"1 of 200 rows are wrong, first 77.*worst row 77"):
        assert_product(y, A, x)


@pytest.mark.parametrize("entry", [0, 1234, -1])
def test_sees_one_corrupted_entry(problem, entry):
    A, x = problem
    x = np.abs(x) + A.dtype.type(0.1)
    corrupted = A.copy()
    corrupted.data[entry] *= 1.001
    with pytest.raises(AssertionError, match="1 of 200 rows are wrong"):
        assert_product(corrupted @ x, A, x)


def test_sees_an_entry_lost_from_a_long_row(dtype):
    A = sp.csr_array(np.ones((1, 20_000), dtype=dtype))
    x = np.ones(20_000, dtype=dtype)
    assert_product(A @ x, A, x)
    with pytest.raises(AssertionError, match="1 of 1 rows are wrong"):
        assert_product(A @ x - dtype.type(1), A, x)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_sees_a_wrong_special_value(problem, value):
    A, x = problem
    y = A @ x
    y[5] = value
    with pytest.raises(AssertionError, match="worst row 5"):
        assert_product(y, A, x)


def test_special_values_must_agree(dtype):
    A = sp.csr_array(np.eye(3, dtype=dtype))
    x = np.array([np.inf, np.nan, 1.0], dtype=dtype)
    assert_product(x.copy(), A, x)
    with pytest.raises(AssertionError):
        assert_product(np.array([np.nan, np.nan, 1.0], dtype=dtype), A, x)


def test_uses_alpha_beta_and_y(problem, rng):
    A, x = problem
    y = rng.uniform(-1, 1, 200).astype(A.dtype)
    result = A.dtype.type(1.5) * (A @ x) - A.dtype.type(0.5) * y
    assert_product(result, A, x, alpha=1.5, beta=-0.5, y=y)
    with pytest.raises(AssertionError):
        assert_product(result, A, x, alpha=1.5, beta=0.5, y=y)


def test_checks_every_column(problem, rng):
    A, _ = problem
    X = rng.uniform(-1, 1, (150, 3)).astype(A.dtype)
    Y = A @ X
    assert_product(Y, A, X)
    Y[3, 2] += 1
    with pytest.raises(AssertionError, match="worst row 3"):
        assert_product(Y, A, X)


@pytest.mark.parametrize("case", CASES)
def test_battery_matrices_are_canonical_and_read_only(case, dtype):
    A = matrix(case, dtype)
    assert A.dtype == dtype
    assert A.has_canonical_format
    assert not A.data.flags.writeable
    assert not A.indices.flags.writeable
    assert not A.indptr.flags.writeable
