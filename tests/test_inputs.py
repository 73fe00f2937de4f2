"""Everything that may be called a matrix, and that it is never changed."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import uniform, vector
from reference import assert_product
from support import build, each_format, each_type, format_fixture, type_fixture

KINDS = ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"]
MATRIX = uniform(60, 44, 6)
fmt = format_fixture(MATRIX)  # every format but the symmetric one
dtype = type_fixture()
BUFFERS = ("data", "indices", "indptr", "row", "col", "rows", "offsets")


@pytest.fixture(name="A")
def tested_matrix(dtype):
    return MATRIX.astype(dtype)


def check(op, A, dtype=None):
    """The operator holds A, and multiplies like it."""
    expected = sp.csr_array(A, dtype=dtype)
    expected.sum_duplicates()
    assert op.dtype == expected.dtype
    assert op.shape == A.shape
    x = vector(A.shape[1], op.dtype)
    assert_product(op @ x, expected, x)
    np.testing.assert_array_equal(op.tocsr().toarray(), expected.toarray())


# Kinds of matrix


@pytest.mark.parametrize("flavour", ["array", "matrix"])
@pytest.mark.parametrize("kind", KINDS)
def test_scipy_kinds_are_not_changed(kind, flavour, A, fmt):
    given = getattr(sp, f"{kind}_{flavour}")(A)
    kept = copy.deepcopy(given)
    buffers = {name: getattr(given, name) for name in BUFFERS if hasattr(given, name)}
    build(given, fmt) @ vector(44, A.dtype)
    assert all(getattr(given, name) is buffer for name, buffer in buffers.items())
    for name in buffers:
        np.testing.assert_array_equal(getattr(given, name), getattr(kept, name))
    np.testing.assert_array_equal(given.toarray(), kept.toarray())


# Indices


@pytest.mark.parametrize("index", ["int8", "int16", "uint32", "int64", "uint64"])
def test_index_types(index, A, fmt, device):
    arrays = A.data, A.indices.astype(index), A.indptr.astype("int64")
    check(build(arrays, fmt, device, shape=A.shape), A)


def test_duplicates_that_cancel_stay_stored(fmt):
    op = build((np.array([1.0, -1.0]), [1, 1], [0, 2]), fmt, shape=(1, 3))
    assert op.nnz == 1
    assert np.isnan(op @ np.array([0, np.nan, 0]))[0]


# Types of values


KEPT = ("float32", "float64")
CONVERTED = ("float16", "bool", "int8", "uint8", "int32", "int64", "uint64")


@pytest.mark.parametrize("given", [*KEPT, *CONVERTED])
def test_value_types(given, fmt):
    kept = given if given in KEPT else "float64"
    dense = np.array([[0, 1, 1], [1, 0, 0]], dtype=given)
    op = build(dense, fmt)
    assert op.dtype == kept
    np.testing.assert_array_equal(op @ np.array([1, 2, 3], dtype=kept), [5, 1])


@pytest.mark.parametrize("given", ["float32", "float64", "int32", "bool"])
@each_format
@each_type
def test_asked_value_type_wins(given, dtype, fmt, device):
    A = sp.csr_array(np.eye(4), dtype=given)
    assert build(A, fmt, device, dtype=dtype).dtype == dtype


@pytest.mark.parametrize("spelling", [np.float32, "float32", "f4", np.dtype("float32"), ">f4"], ids=str)
@each_format
def test_spellings_of_a_type(spelling, fmt):
    assert build(np.eye(3), fmt, dtype=spelling).dtype == np.float32


# Symmetric matrices


SQUARE = uniform(70, 70, 4)
SYMMETRIC = sp.csr_array(SQUARE + SQUARE.T)


@pytest.fixture
def symmetric(dtype):
    return SYMMETRIC.astype(dtype)


@pytest.mark.parametrize("stored", ["lower", "upper"])
@each_format
def test_one_triangle_is_mirrored(stored, symmetric, fmt, device):
    half = sp.tril(symmetric) if stored == "lower" else sp.triu(symmetric)
    check(build(sp.csr_array(half), fmt, device, symmetric=stored), symmetric)


@pytest.mark.parametrize("symmetric_as", [True, None])
@each_format
def test_symmetric_in_full_storage(symmetric_as, symmetric, fmt, device):
    op = build(symmetric, fmt, device, symmetric=symmetric_as)
    check(op, symmetric)
    check(op.T, symmetric)


@pytest.mark.parametrize("stored", ["lower", "upper"])
def test_an_entry_in_the_other_triangle(stored):
    with pytest.raises(ValueError, match=stored):
        sg.aslinearoperator(SYMMETRIC, device="cpu", symmetric=stored)


@pytest.mark.parametrize("stored", [True, "lower", "upper"])
def test_a_rectangular_matrix_is_not_symmetric(stored):
    with pytest.raises(ValueError, match=r"60.*44"):
        sg.aslinearoperator(MATRIX, device="cpu", symmetric=stored)
