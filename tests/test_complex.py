"""Complex matrices: Hermitian and symmetric ones, their transposes and adjoints, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import (
    COMPLEX_TYPES,
    SYMMETRIC_CASES,
    hermitian,
    matrix,
    symmetric,
    typed,
    uniform,
    vector,
)
from reference import assert_product
from support import (
    assert_multiplies,
    build,
    nightly,
    poisoned,
)

DOUBLE = np.dtype("complex128")
REAL = np.dtype("float64")
SQUARE = matrix("uniform", DOUBLE)


def check_products(op, A):
    assert_multiplies(op, A)
    x = vector(A.shape[0], A.dtype)
    assert_product(op.rmatvec(x), A.conj().T, x)
    assert_product(op.T @ x, A.T, x)


# -- Hermitian and complex symmetric -------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["halo", *nightly(["poster"])])
@pytest.mark.parametrize("case", SYMMETRIC_CASES)
def test_half_of_a_hermitian_matrix(case, variant, device):
    A = hermitian(matrix(case, REAL))
    op = build(A, "tsmv", device, variant=variant, max_memory=1e6, symmetric="hermitian")
    assert op.options["symmetry"] == ("hermitian" if has_imaginary_parts(A) else "symmetric")
    check_products(op, A)
    np.testing.assert_array_equal(op.toarray(), A.toarray())
    assert op.H is op or not has_imaginary_parts(A)


def has_imaginary_parts(A):
    return bool(A.data.imag.any())


@pytest.mark.parametrize("fmt", ["csr", "tsmv"])
def test_zeros_of_a_hermitian_matrix_have_any_sign(fmt):
    """What is written as -1j is -0 - 1j, and the conjugate of 1j is 0 - 1j."""
    A = np.array([[2.0, 1j, 3.0], [-1j, 2.0, 0.0], [3.0, 0.0, 5.0]])
    assert np.signbit(A[1, 0].real)
    assert not np.signbit(A[0, 1].real)
    op = sg.aslinearoperator(
        A, format=fmt, device="cpu", symmetric="hermitian", **({"max_memory": 1e6} if fmt == "tsmv" else {})
    )
    np.testing.assert_array_equal(op @ np.eye(3), A)
    assert op.H is op


def broken(change):
    """A Hermitian matrix with one entry changed."""
    A = sp.lil_array(hermitian(symmetric(uniform(40, 40, 4) + sp.eye_array(40))))
    change(A)
    return sp.csr_array(A)


def set_entry(row, col, value):
    def change(A):
        A[row, col] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_entry(7, 7, 1 + 2j), r"entry \(7, 7\) is 1\+2j, which is not real"),
        (set_entry(3, 39, 5 + 1j), r"entry \(3, 39\) is 5\+1j, but \(39, 3\) is"),
    ],
)
@pytest.mark.parametrize("fmt", ["auto", "csr", "tsmv"])
def test_what_is_not_hermitian_is_refused(change, message, fmt):
    with pytest.raises(ValueError, match=f"symmetric='hermitian', but the matrix is not: {message}"):
        sg.aslinearoperator(broken(change), format=fmt, device="cpu", symmetric="hermitian")


def test_the_format_says_what_a_matrix_nearly_is():
    with pytest.raises(sg.FormatError, match=r"a symmetric or Hermitian matrix: entry \(7, 7\) is 1\+2j"):
        build(broken(set_entry(7, 7, 1 + 2j)), "tsmv")
    with pytest.raises(sg.FormatError, match="needs a symmetric matrix: entry"):
        build(broken(lambda A: None), "tsmv", symmetry="symmetric")
    with pytest.raises(sg.FormatError, match="needs a Hermitian matrix: entry"):
        build(matrix("sym_random", DOUBLE), "tsmv", symmetry="hermitian")
    with pytest.raises(ValueError, match="a Hermitian matrix is square"):
        build(matrix("wide", DOUBLE), "csr", symmetric="hermitian")


# -- transposes and copies -----------------------------------------------------------------------------------


def test_transposes_of_transposes(device):
    A = matrix("wide", DOUBLE)
    op = build(A, "csr", device)
    assert op.T.T is op
    assert op.H.H is op
    assert op.T is op.T
    assert op.H is op.H
    for turned, expected in ((op.T, A.T), (op.H, A.conj().T), (op.T.H, A.conj()), (op.H.T, A.conj())):
        np.testing.assert_array_equal(turned.toarray(), expected.toarray())
    assert op.adjoint() is op.H
    assert op.work_nbytes >= op.T.nbytes + op.H.nbytes


# -- types of operands ---------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", COMPLEX_TYPES, ids=str)
def test_device_arrays(library, cuda_device, dtype):
    A = matrix("uniform", dtype)
    op = build(A, "csr", cuda_device)
    x = vector(A.shape[1], dtype)
    there = library.asarray(x, cuda_device)
    assert_product(library.to_numpy(op @ there), A, x)
    assert_product(library.to_numpy(op.H @ there), A.conj().T, x)
    X = np.stack([x, x.conj()], axis=1)
    assert_product(library.to_numpy(op @ library.asarray(X, cuda_device)), A, X)
    out = library.asarray(poisoned(A.shape[0], dtype), cuda_device)
    op.spmv(there, out=out, alpha=2j)
    assert_product(library.to_numpy(out), A, x, 2j)


def half_an_item_off(x):
    """The same numbers at an address that is no multiple of their size, which NumPy calls aligned."""
    room = np.empty(2 * x.size + 4, x.real.dtype)
    offset = 1 if room.ctypes.data % x.itemsize == 0 else 0
    moved = room[offset : offset + 2 * x.size].view(x.dtype)
    moved[:] = x
    assert moved.flags.aligned
    assert moved.ctypes.data % x.itemsize
    return moved


@pytest.mark.parametrize("dtype", COMPLEX_TYPES, ids=str)
def test_arrays_that_numpy_aligns_to_half_an_item(dtype, device):
    A = matrix("uniform", dtype)
    x = vector(A.shape[1], dtype)
    B = sp.csr_array((half_an_item_off(A.data), A.indices, A.indptr), shape=A.shape)
    op = build(B, "csr", device)
    out = half_an_item_off(poisoned(A.shape[0], dtype))
    assert_product(op @ half_an_item_off(x), A, x)
    assert_product(op.spmv(half_an_item_off(x), out=out), A, x)
    fields = np.zeros((A.shape[1], 2), [("number", dtype), ("half", x.real.dtype)])["number"]
    fields[:] = np.stack([x, 2 * x], axis=1)
    assert_product(op @ fields, A, fields.copy())


def test_infinite_entries_are_not_multiplied_by_factors_of_one(device):
    """(1 + 0i) * (inf + 0i) has NaN for its imaginary part, and a product with no factor is none with 1."""
    A = sp.csr_array(np.diag([1.0 + 0j, 2.0, 3.0]))
    for fmt in sg.formats():
        y = build(A, fmt, device) @ np.array([1e308, 1e308, 1.0])
        np.testing.assert_array_equal(y, [1e308, np.inf, 3.0])


# -- refusals ------------------------------------------------------------------------------------------------


def test_complex_factors_need_a_complex_operator(device):
    op = build(matrix("uniform", REAL), "csr", device)
    x = np.ones(op.shape[1])
    for value in (1j, np.complex128(1), np.complex64(2)):
        with pytest.raises(TypeError, match="alpha must be a real number"):
            op.spmv(x, alpha=value)
    with pytest.raises(TypeError, match="beta must be a number, not 'one'"):
        build(SQUARE, "csr", device).spmv(x + 0j, out=x + 0j, beta="one")


def test_imaginary_parts_are_never_dropped():
    with pytest.raises(TypeError, match="complex128 cannot be stored as float64"):
        sg.aslinearoperator(SQUARE, dtype="float64")
    extended = SQUARE.toarray().astype(np.clongdouble)
    with pytest.raises(TypeError, match=np.dtype(np.clongdouble).name):
        sg.aslinearoperator(extended)
    for A in (extended, matrix("uniform", REAL)):
        assert sg.aslinearoperator(A, dtype="complex64", device="cpu").dtype == np.complex64


# -- parts, orders, devices ----------------------------------------------------------------------------------


@pytest.mark.gpu
def test_streamed(cuda_device):
    op = sg.aslinearoperator(SQUARE, device=cuda_device, memory_limit=SQUARE.data.nbytes, format="csr")
    check_products(op, SQUARE)


def test_predictions_and_choice():
    A = matrix("banded", DOUBLE)
    narrow = sp.csr_array((typed(matrix("banded", REAL), "complex64"), A.indices, A.indptr), shape=A.shape)
    for model in ("roofline", "guo2011"):
        predicted = [sg.predict(given, "cpu", model=model) for given in (A, narrow)]
        wide, half = (next(entry for entry in table if entry.format == "csr") for table in predicted)
        assert wide.bytes > half.bytes
        assert min(wide.time_us, half.time_us) > 0
    assert sg.aslinearoperator(A, device="cpu").format == "csr"
