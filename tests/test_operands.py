"""Operands of every library, type and layout: converted as NumPy does it, or refused with a reason."""

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import integer_matrix
from doors import Duck
from libraries import OnlyCudaArrayInterface, OnlyDlpack

ROWS, COLS = 120, 80


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


@pytest.mark.parametrize("shape", [(COLS,), (COLS, 2)], ids=str)
def test_parts_of_complex_numbers_do_not_meet(shape, host_library, op):
    """An infinite imaginary part leaves the real part as it is."""
    x = np.ones(shape, np.complex128)
    x.imag = np.inf
    result = host_library.to_numpy(op @ given(host_library, x))
    np.testing.assert_array_equal(result.real, op @ np.ones(shape))
    assert not np.isfinite(result.imag).all()


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


def test_sparse_operands_of_other_libraries(op, A):
    for made, expected in (
        (op @ Duck(A.T, "tocsr"), A @ A.T),
        (Duck(A.T, "to_scipy_sparse") @ op, A.T @ A),
        (op.matmat(Duck(A.T, "tocsr")), A @ A.T),
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
