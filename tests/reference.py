"""What a correct product is: a reference in extended precision and the error that a row may have.

Row ``i`` of ``y = alpha*A@x + beta*y0`` passes when

    |y_i - reference_i| <= (4 + sqrt(n_i)) * eps * (|alpha| * sum_j |a_ij x_j| + |beta * y0_i|)

with ``n_i`` stored entries in the row and the machine epsilon of the operator's type; of a complex one, whose
products are sums already, twice as much. The square root is how
rounding errors of a plain sum grow; a linear bound would let a long row lose an entry unseen. Where the
reference is infinite or not a number, the result must be the same.
"""

from __future__ import annotations

import pickle

import numpy as np
import scipy.sparse as sp


def row_sums(terms, indptr):
    """Sum of the terms of each row; empty rows give zero."""
    sums = np.zeros(len(indptr) - 1, dtype=terms.dtype)
    filled = np.flatnonzero(np.diff(indptr))
    if filled.size:
        sums[filled] = np.add.reduceat(terms, indptr[filled])
    return sums


def scaled(factor, values):
    """factor * values; by a real factor part by part: (1 + 0i) * (inf + 0i) has NaN in it."""
    if np.iscomplexobj(values) and np.imag(factor) == 0:
        result = np.empty_like(values)
        result.real, result.imag = np.real(factor) * values.real, np.real(factor) * values.imag
        return result
    return factor * values


def reference(A, x, alpha=1.0, beta=0.0, y=None, dtype=None):
    """The product in extended precision and the error that each of its rows may have.

    Parameters
    ----------
    A : sparse matrix, (m, n)
    x : ndarray, (n,)
    alpha, beta : float or complex
    y : ndarray, (m,), optional
        Needed when `beta` is not zero.
    dtype : dtype, optional
        Type the product under test was computed in; the type of `A` when not given.

    Returns
    -------
    expected : ndarray of longdouble or clongdouble, (m,)
    bound : ndarray of longdouble, (m,)
    """
    A = sp.csr_array(A)
    computed = np.dtype(A.dtype if dtype is None else dtype)
    info = np.finfo(computed)
    is_complex = computed.kind == "c" or any(np.iscomplexobj(given) for given in (A.data, x, alpha, beta, y))
    extended = np.clongdouble if is_complex else np.longdouble
    with np.errstate(invalid="ignore", over="ignore"):
        terms = A.data.astype(extended) * x[A.indices].astype(extended)
        expected = scaled(alpha, row_sums(terms, A.indptr))
        scale = abs(alpha) * row_sums(np.abs(terms), A.indptr)
        if beta != 0.0:
            expected += scaled(beta, y.astype(extended))
            scale += np.abs(scaled(beta, y.astype(extended)))
        lengths = np.diff(A.indptr)
        underflow = (lengths + 2.0) * (1.0 + abs(alpha)) * info.smallest_subnormal
        bound = (1.0 + is_complex) * ((4.0 + np.sqrt(lengths)) * info.eps * scale + underflow)
    return expected, bound


# References that were made last: formats take turns with the same matrix and vector.
KEPT = {}


def assert_product(result, A, x, alpha=1.0, beta=0.0, y=None, dtype=None):
    """Fail unless `result` is alpha*A@x + beta*y up to rounding; x may be 2-D."""
    if x.ndim == 2:
        assert result.shape == (A.shape[0], x.shape[1])
        for column in range(x.shape[1]):
            start = None if y is None else y[:, column]
            assert_product(result[:, column], A, x[:, column], alpha, beta, start, dtype)
        return
    given = sp.csr_array(A), x, alpha, beta, y, dtype
    key = hash(pickle.dumps(given))
    KEPT[key] = kept = KEPT.pop(key, None) or reference(*given)
    for old in list(KEPT)[:-64]:
        KEPT.pop(old, None)
    assert_within(result, *kept)


def assert_within(result, expected, bound):
    """Fail, naming the worst row, unless `result` is what `reference` gave."""
    assert result.shape == expected.shape
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(result[~finite], expected[~finite].astype(result.dtype))
    with np.errstate(invalid="ignore"):
        error = np.abs(result - expected)
        wrong = finite & ~(error <= bound)
    if wrong.any():
        rows = np.flatnonzero(wrong)
        worst = rows[np.argmax(np.nan_to_num(error[wrong] / bound[wrong], nan=np.inf))]
        raise AssertionError(
            f"{rows.size} of {result.size} rows are wrong, first {rows[0]}, last {rows[-1]}; "
            f"worst row {worst}: got {result[worst]!r}, "
            f"expected {expected[worst].astype(result.dtype)!r} within {float(bound[worst]):.3g}"
        )
