"""Operands of every library, type and layout: converted as NumPy does it, or refused with a reason."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import integer_matrix
from libraries import OnlyCudaArrayInterface, OnlyDlpack

ROWS, COLS = 120, 80
REAL = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
REAL += ["float16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]


def numbers(shape, dtype):
    """Small integers, with which every product is exact in every type; complex ones have both parts."""
    values = np.arange(np.prod(shape)).reshape(shape) % 3
    return (values + 1j * (values % 2) if np.dtype(dtype).kind == "c" else values).astype(dtype)


@pytest.fixture(scope="module", name="A")
def tested_matrix():
    """A matrix of small integers."""
    return integer_matrix("uniform", np.dtype("float64"))[:ROWS, :COLS]


@pytest.fixture
def op(dtype, A):
    return sg.aslinearoperator(A.astype(dtype), format="csr", device="cpu")


def given(library, x):
    try:
        return library.asarray(x)
    except (TypeError, BufferError) as lacking:
        pytest.skip(f"the library has no such array: {lacking}")


@pytest.mark.parametrize("stack", [(2,), (2, 3), (0,), (1, 1, 2)], ids=str)
@pytest.mark.parametrize("count", [3, 1, 0])
def test_stacks_of_matrices(stack, count, host_library, op, A):
    """As SciPy's operators multiply them from version 1.18 on, and NumPy's arrays do."""
    x = numbers((*stack, COLS, count), "float64")
    exact = np.matmul(A.toarray(), x)
    for call in (lambda x: op @ x, op.dot, op.matmat, op.H.rmatmat):
        result = call(given(host_library, x))
        assert isinstance(result, host_library.array_type)
        np.testing.assert_array_equal(host_library.to_numpy(result), exact)
    vectors = np.ascontiguousarray(x.swapaxes(-1, -2))
    for call in (op.matvec, op.H.rmatvec):
        result = call(given(host_library, vectors))
        assert isinstance(result, host_library.array_type)
        np.testing.assert_array_equal(host_library.to_numpy(result), exact.swapaxes(-1, -2))
    rows = numbers((*stack, count, ROWS), "float64")
    result = op.__rmatmul__(given(host_library, rows))
    assert isinstance(result, host_library.array_type)
    np.testing.assert_array_equal(host_library.to_numpy(result), np.matmul(rows, A.toarray()))


@pytest.mark.gpu
def test_stacks_of_matrices_on_a_gpu(library, cuda_device, A):
    op = sg.aslinearoperator(A, device=cuda_device)
    x = numbers((2, 3, COLS, 4), "float64")
    result = op @ library.asarray(x, cuda_device)
    assert library.device_name(result) == cuda_device
    np.testing.assert_array_equal(library.to_numpy(result), np.matmul(A.toarray(), x))


def test_stacks_of_matrices_by_operators_that_are_made_of_others(A):
    op = sg.aslinearoperator(A, device="cpu")
    x = numbers((2, ROWS, 3), "float64")
    for made, exact in (
        (op @ op.T, A @ A.T),
        (2 * (op @ op.T) + sg.aslinearoperator(np.eye(ROWS), device="cpu"), 2 * (A @ A.T) + np.eye(ROWS)),
        (sg.linalg.jacobi(2 * np.eye(ROWS)), np.eye(ROWS) / 2),
    ):
        dense = exact if isinstance(exact, np.ndarray) else exact.toarray()
        np.testing.assert_allclose(made @ x, np.matmul(dense, x))
        rows = x.swapaxes(1, 2)
        np.testing.assert_allclose(made.__rmatmul__(rows), np.matmul(rows, dense))


class Right:
    """An object of another library that multiplies operators on its left."""

    shape = (COLS, COLS)

    def matvec(self, x):
        return x

    def __rmatmul__(self, other):
        return "its own product"


def test_objects_with_a_product_of_their_own(A):
    op = sg.aslinearoperator(A, device="cpu")
    for left in (
        op,
        op.T @ op,
        sg.linalg.jacobi(np.eye(COLS)),
        sg.aslinearoperator(A, device=["cpu", "cpu"]),
    ):
        assert left @ Right() == "its own product"


@pytest.mark.parametrize("shape", [(COLS,), (COLS, 2)], ids=str)
def test_masked_entries_are_refused(shape, op):
    x = np.ma.masked_array(np.ones(shape, op.dtype), mask=np.zeros(shape, bool))
    np.testing.assert_array_equal(op @ x, op @ x.data)
    x[3] = np.ma.masked
    for call in (lambda: op @ x, lambda: op.dot(x), lambda: op.matvec(x.reshape(-1)[:COLS])):
        with pytest.raises(TypeError, match=r"masked array.*filled"):
            call()
    with pytest.raises(TypeError, match=r"out is a masked array"):
        op.spmv(np.ones(COLS, op.dtype), out=np.ma.masked_all(ROWS, op.dtype))


@pytest.mark.parametrize("shape", [(COLS,), (COLS, 2)], ids=str)
def test_parts_of_complex_numbers_do_not_meet(shape, host_library, op):
    """An infinite imaginary part leaves the real part as it is."""
    x = np.ones(shape, np.complex128)
    x.imag = np.inf
    result = host_library.to_numpy(op @ given(host_library, x))
    np.testing.assert_array_equal(result.real, op @ np.ones(shape))
    assert not np.isfinite(result.imag).all()


def test_parts_of_complex_numbers_that_overflow(op):
    big = np.finfo(op.dtype).max
    x = np.full(COLS, 1 + 1j * big, np.result_type(op.dtype, np.complex64))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal((op @ x).real, (op @ np.ones(COLS)).astype(x.real.dtype))


# Products into an array


def test_into_out(host_library, op, A):
    x, out = numbers(COLS, op.dtype), np.full(ROWS, np.nan, op.dtype)
    target = given(host_library, out)
    if not host_library.writable:
        with pytest.raises(ValueError, match="read-only"):
            op.spmv(given(host_library, x), out=target)
        return
    assert op.spmv(given(host_library, x), out=target, alpha=2.0) is target
    np.testing.assert_array_equal(out, 2 * (A @ x))


@pytest.mark.parametrize("kind", [*REAL, *COMPLEX])
def test_spmv_stays_strict(kind, host_library, op):
    x = numbers(COLS, kind)
    if x.dtype == op.dtype:
        x = np.repeat(x, 2)[::2]
        if not host_library.writable:
            return  # every one of its arrays is contiguous
    with pytest.raises((TypeError, ValueError), match=rf"x has dtype {x.dtype}|not contiguous"):
        op.spmv(given(host_library, x))


def test_out_that_overlaps(host_library, dtype):
    square = sg.aslinearoperator(np.eye(8, dtype=dtype), format="csr", device="cpu")
    buffer = np.ones(12, dtype)
    with pytest.raises(ValueError, match=r"overlap|read-only"):
        square.spmv(given(host_library, buffer[:8]), out=given(host_library, buffer[4:]))
    np.testing.assert_array_equal(buffer, 1)


def test_set_x_takes_what_spmv_takes(host_library, A, dtype):
    op = sg.aslinearoperator(A.astype(dtype), format="csr_m", device="cpu")
    x = numbers(COLS, dtype)
    array = given(host_library, x)
    op.set_x(array)
    np.testing.assert_array_equal(host_library.to_numpy(op.spmv(array)), A @ x)
    with pytest.raises(TypeError, match="x has dtype int8"):
        op.set_x(given(host_library, x.astype("int8")))
    op.set_x(None)


# Where arrays lie, and types that NumPy lacks


class Elsewhere:
    """An array of another kind of device."""

    def __init__(self, kind):
        self.kind = kind

    def __dlpack__(self, **options):
        raise AssertionError("nobody may read it")

    def __dlpack_device__(self):
        return self.kind, 0


@pytest.mark.parametrize(("kind", "word"), [(8, "Metal"), (10, "ROCm"), (14, "oneAPI"), (99, "99")])
def test_devices_that_are_not_cuda(kind, word, op):
    with pytest.raises(ValueError, match=word):
        op @ Elsewhere(kind)


class Mute:
    """A producer whose export fails."""

    def __dlpack__(self, **options):
        raise BufferError("not today")

    def __dlpack_device__(self):
        return 1, 0


def test_array_that_cannot_be_exported(op):
    with pytest.raises(TypeError, match=r"Mute.*not today"):
        op @ Mute()


class ReadOnlyBefore:
    """A read-only array that, as NumPy's before 2.1, cannot cross DLPack, but converts."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        raise BufferError("read-only")

    def __dlpack_device__(self):
        return 1, 0

    def __array__(self, dtype=None, copy=None):
        return self.array


def test_array_that_only_converts(op, A):
    x = numbers(COLS, op.dtype)
    np.testing.assert_array_equal(op @ ReadOnlyBefore(x), A @ x)
    out = np.ones(ROWS, op.dtype)
    with pytest.raises(ValueError, match="read-only"):
        op.spmv(x=OnlyDlpack(x), out=ReadOnlyBefore(out))
    np.testing.assert_array_equal(out, 1)


class SparseOfAnother:
    """A sparse matrix of another library, which must not be made dense."""

    def __init__(self, A, name):
        self.shape = A.shape
        setattr(self, name, A.tocsc)

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("it would be dense")


def test_sparse_operands_of_other_libraries(op, A):
    for made, expected in (
        (op @ SparseOfAnother(A.T, "tocsr"), A @ A.T),
        (SparseOfAnother(A.T, "to_scipy_sparse") @ op, A.T @ A),
        (op.matmat(SparseOfAnother(A.T, "tocsr")), A @ A.T),
    ):
        assert isinstance(made, sp.csr_array)
        np.testing.assert_array_equal(made.toarray(), expected.toarray())


# On a GPU


@pytest.fixture
def gpu_op(A, cuda_device, dtype):
    return sg.aslinearoperator(A.astype(dtype), format="csr", device=cuda_device)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["float16", "int32", "complex64"])
def test_conversion_is_ordered_before_the_operators_stream(kind, library, A, cuda_device, dtype):
    """The library converts on its stream, the operator multiplies on another."""
    x = library.asarray(numbers((COLS, 3), kind), cuda_device)
    late = library.asarray(np.zeros((COLS, 3), kind), cuda_device)
    with library.new_stream(cuda_device) as stream:
        handle = library.handle(stream)
        op = sg.aslinearoperator(A.astype(dtype), format="csr", device=cuda_device, stream=handle)
        with library.new_stream(cuda_device) as own:
            library.delay()
            library.fill(late, x)
            result = op @ late
            library.synchronize(own)
            np.testing.assert_array_equal(library.to_numpy(result), A @ numbers((COLS, 3), kind))


@pytest.mark.gpu
@pytest.mark.parametrize("producer", [OnlyDlpack, OnlyCudaArrayInterface])
def test_producers_of_one_protocol_that_cannot_convert(producer, library, gpu_op, cuda_device):
    for x in (np.ones(COLS, "int32"), np.ones((COLS, 2), "int32"), np.ones(COLS, complex)):
        with pytest.raises(TypeError, match=r"CuPy or PyTorch"):
            gpu_op @ producer(library.asarray(x, cuda_device))


@pytest.mark.gpu
def test_mask_in_the_array_interface(library, gpu_op, cuda_device):
    x = library.asarray(np.ones(COLS, gpu_op.dtype), cuda_device)
    with pytest.raises(TypeError, match="mask"):
        gpu_op @ OnlyCudaArrayInterface(x, mask=x)
