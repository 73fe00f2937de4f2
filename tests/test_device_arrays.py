"""Arrays that live on the GPU: same library out, no way over the host, on the stream of the library."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import integer_matrix, integer_vector, matrix, vector
from libraries import OnlyCudaArrayInterface, OnlyDlpack, index_of
from reference import assert_product
from support import build, each_format_of, each_pair, format_fixture, type_fixture

pytestmark = pytest.mark.gpu

fmt = format_fixture("power_law_rows")
dtype = type_fixture()


@pytest.fixture(name="A")
def tested_matrix(dtype):
    return matrix("power_law_rows", dtype)


@pytest.fixture
def op(A, fmt, cuda_device):
    return build(A, fmt, cuda_device)


@pytest.fixture
def x(A):
    return vector(A.shape[1], A.dtype)


# Products


def test_spmv_into_out(op, A, x, library, cuda_device):
    start = vector(A.shape[0], A.dtype, seed=30)
    out = library.asarray(start, cuda_device)
    address = library.pointer(out)
    assert op.spmv(library.asarray(x, cuda_device), out=out, alpha=2.0, beta=-1.0) is out
    assert library.pointer(out) == address
    assert_product(library.to_numpy(out), A, x, 2.0, -1.0, start)


@each_pair(["0x5", "5x0", "no_entries", "1x1", "1xN_dense", "Nx1_dense", "hypersparse"])
def test_extreme_shapes(case, library, fmt, cuda_device, dtype):
    A = matrix(case, dtype)
    x = vector(A.shape[1], dtype)
    y = build(A, fmt, cuda_device) @ library.asarray(x, cuda_device)
    assert_product(library.to_numpy(y), A, x)


def test_results_do_not_alias(op, library, cuda_device, x):
    results = [op @ library.asarray(scale * x, cuda_device) for scale in (1, 2, 4)]
    assert len({library.pointer(y) for y in results}) == 3
    first = library.to_numpy(results[0])
    np.testing.assert_array_equal(library.to_numpy(results[2]), 4 * first)


# Preconditioners


@pytest.fixture(scope="module")
def preconditioners():
    """Of every class, on a device and of a type, and dense matrices with the same products."""
    made = {}

    def of(device, dtype):
        if (device, dtype) not in made:
            op = sg.aslinearoperator(sg.gallery.poisson2d(7).astype(dtype), device=device)
            inverse = sg.linalg.Jacobi(1 / (1 + np.arange(49.0)).astype(dtype))
            some = [inverse, sg.linalg.jacobi(op), sg.linalg.block_jacobi(op, 7), sg.linalg.chebyshev(op)]
            some += [sg.linalg.ilu0(op), sg.linalg.ic0(op), sg.linalg.amg(op), sg.linalg.ilu0(op).H]
            some += [2 * some[-1] + some[0] @ op]
            made[device, dtype] = [(M, M @ np.eye(49, dtype=dtype)) for M in some]
        return made[device, dtype]

    return of


def test_preconditioners_wait_for_their_operand(preconditioners, library, cuda_device):
    x = vector(49, np.float64)
    for M, dense in preconditioners(cuda_device, np.float64):
        late = library.asarray(np.zeros(49), cuda_device)
        with library.new_stream(cuda_device) as stream:
            library.delay()
            library.fill(late, library.asarray(x, cuda_device))
            y = M @ late
            library.synchronize(stream)
            np.testing.assert_allclose(library.to_numpy(y), dense @ x, rtol=1e-9, atol=1e-9)


def test_preconditioners_refuse_arrays_elsewhere(library, cuda_device):
    M = sg.linalg.amg(sg.gallery.poisson2d(7), device="cpu")
    text = rf"x is on '{cuda_device}', but the preconditioner is on 'cpu'; move one of them"
    with pytest.raises(ValueError, match=text):
        M @ library.asarray(np.ones(49), cuda_device)


def test_near_null_spaces_and_diagonals_come_from_a_device(library, cuda_device):
    A = sg.gallery.poisson2d(7)
    modes = np.stack([np.ones(49), np.arange(49.0)], axis=1)
    there = library.asarray(modes, cuda_device)
    expected = sg.linalg.amg(A, B=modes, device=cuda_device) @ np.ones(49)
    for B in (there, library.asarray(modes.T.copy(), cuda_device).T):
        np.testing.assert_array_equal(sg.linalg.amg(A, B=B, device=cuda_device) @ np.ones(49), expected)
    diagonal = sg.linalg.Jacobi(there[:, 1]).inverse_diagonal
    np.testing.assert_array_equal(diagonal, modes[:, 1])
    differences = sp.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(48, 49))
    op = sg.aslinearoperator(differences.T @ differences, device=cuda_device)
    b = np.arange(49) - 24.0
    x, info = sg.linalg.cg(op, b, nullspace=there[:, 0], rtol=1e-10)
    assert info == 0
    np.testing.assert_allclose(op @ x, b, atol=1e-8)


# Protocols


@pytest.mark.parametrize("producer", [OnlyDlpack, OnlyCudaArrayInterface])
def test_producers_of_one_protocol(producer, op, A, x, library, cuda_device):
    out = library.asarray(np.full(A.shape[0], np.nan, A.dtype), cuda_device)
    op.spmv(producer(library.asarray(x, cuda_device)), out=producer(out))
    assert_product(library.to_numpy(out), A, x)


@pytest.mark.parametrize("producer", [OnlyDlpack, OnlyCudaArrayInterface])
def test_result_for_an_unknown_library_can_be_consumed(producer, op, A, x, library, cuda_device):
    y = op @ producer(library.asarray(x, cuda_device))
    assert hasattr(y, "__dlpack__")
    assert hasattr(y, "__cuda_array_interface__")
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Device(index_of(cuda_device)):
        assert_product(cupy.asnumpy(cupy.from_dlpack(y)), A, x)
        assert_product(cupy.asnumpy(cupy.asarray(y)), A, x)


def test_stream_in_the_array_interface_is_waited_for(op, A, x, library, cuda_device):
    """Version 3 of the interface names the stream on which the array is still being written."""
    device_x = library.asarray(x, cuda_device)
    late_x = library.asarray(np.zeros_like(x), cuda_device)
    out = library.asarray(np.zeros(A.shape[0], A.dtype), cuda_device)
    with library.new_stream(cuda_device) as stream:
        library.delay()
        library.fill(late_x, device_x)
    producer = OnlyCudaArrayInterface(late_x, version=3, stream=library.handle(stream))
    op.spmv(producer, out=OnlyCudaArrayInterface(out))
    library.synchronize(stream)
    assert_product(library.to_numpy(out), A, x)


# Streams


def test_current_stream_is_respected(op, A, x, library, cuda_device):
    """The product is enqueued behind work that has not finished, without waiting for the default stream."""
    device_x = library.asarray(x, cuda_device)
    late_x = library.asarray(np.zeros_like(x), cuda_device)
    op @ late_x
    with library.new_stream(cuda_device) as stream:
        library.delay()
        library.fill(late_x, device_x)
        y = op @ late_x
        library.synchronize(stream)
        assert_product(library.to_numpy(y), A, x)


@pytest.mark.parametrize("as_handle", [True, False], ids=["integer", "object"])
def test_given_stream_is_used(as_handle, op, A, x, library, cuda_device):
    device_x = library.asarray(x, cuda_device)
    late_x = library.asarray(np.zeros_like(x), cuda_device)
    out = library.asarray(np.zeros(A.shape[0], A.dtype), cuda_device)
    with library.new_stream(cuda_device) as stream:
        library.delay()
        library.fill(late_x, device_x)
    op.spmv(late_x, out=out, stream=library.handle(stream) if as_handle else stream)
    library.synchronize(stream)
    assert_product(library.to_numpy(out), A, x)


def test_capture_in_a_graph(op, A, x, library, cuda_device):
    """Capture fails on any allocation, synchronisation or pageable copy: there is none in spmv."""
    device_x = library.asarray(x, cuda_device)
    out = library.asarray(np.zeros(A.shape[0], A.dtype), cuda_device)
    op.spmv(device_x, out=out)
    with library.capture(cuda_device) as replay:
        op.spmv(device_x, out=out, alpha=2.0)
    library.fill(out, library.asarray(np.full(A.shape[0], np.nan, A.dtype), cuda_device))
    library.fill(device_x, library.asarray(-x, cuda_device))
    replay[0]()
    assert_product(library.to_numpy(out), A, -x, alpha=2.0)


def test_operators_that_go_while_a_graph_is_captured(op, A, fmt, x, library, cuda_device):
    """Giving their memory back waits for the device, which CUDA refuses in most ways while it captures."""
    device_x = library.asarray(x, cuda_device)
    out = library.asarray(np.zeros(A.shape[0], A.dtype), cuda_device)
    op.spmv(device_x, out=out)
    here, there = ([build(A, fmt, cuda_device)] for _ in range(2))
    with ThreadPoolExecutor(1) as other, library.capture(cuda_device) as replay:
        here.clear()
        other.submit(there.clear).result()
        op.spmv(device_x, out=out)
    library.fill(out, library.asarray(np.full(A.shape[0], np.nan, A.dtype), cuda_device))
    replay[0]()
    assert_product(library.to_numpy(out), A, x)


def test_products_of_an_operator_that_is_gone(A, fmt, x, library, cuda_device):
    """They are done before its memory is given to the next one."""
    device_x = library.asarray(x, cuda_device)
    out = library.asarray(np.zeros(A.shape[0], A.dtype), cuda_device)
    op = build(A, fmt, cuda_device)
    with library.new_stream(cuda_device) as stream:
        library.delay()
        op.spmv(device_x, out=out)
        del op
        build(A * 2, fmt, cuda_device)
        library.synchronize(stream)
    assert_product(library.to_numpy(out), A, x)


# Errors


def test_wrong_device(A, fmt, x, library, cuda_device):
    names = [info.name for info in sg.devices() if info.name.startswith("cuda") and info.name != cuda_device]
    if not names:
        pytest.skip("needs two CUDA devices")
    with pytest.raises(ValueError, match=names[0]) as caught:
        build(A, fmt, cuda_device) @ library.asarray(x, names[0])
    assert cuda_device in str(caught.value)


def test_device_array_into_an_operator_of_the_cpu(A, x, library, cuda_device):
    # In csr: what fits a format on a GPU it may refuse on the CPU.
    with pytest.raises(ValueError, match=cuda_device) as caught:
        build(A, "csr", "cpu") @ library.asarray(x, cuda_device)
    assert "cpu" in str(caught.value)


def test_mixed_host_and_device(op, A, x, library, cuda_device):
    with pytest.raises((TypeError, ValueError)):
        op.spmv(x, out=library.asarray(np.zeros(A.shape[0], A.dtype), cuda_device))
    with pytest.raises((TypeError, ValueError)):
        op.spmv(library.asarray(x, cuda_device), out=np.zeros(A.shape[0], A.dtype))


def test_out_that_overlaps_x(fmt, library, cuda_device, dtype):
    op = build(matrix("tridiagonal", dtype), fmt, cuda_device)
    buffer = library.asarray(np.ones(1500, dtype), cuda_device)
    with pytest.raises(ValueError, match="overlap"):
        op.spmv(buffer[:999], out=buffer[500:1499])


def test_read_only_device_out(op, A, x, library, cuda_device):
    out = library.asarray(np.zeros(A.shape[0], A.dtype), cuda_device)
    frozen = OnlyCudaArrayInterface(out, data=(library.pointer(out), True))
    with pytest.raises(ValueError, match=r"read-only|writ"):
        op.spmv(library.asarray(x, cuda_device), out=frozen)


# Both ways give the same


@each_format_of("long_rows_in_a_row")
def test_exact_through_every_way(fmt, library, cuda_device, dtype):
    A = integer_matrix("long_rows_in_a_row", dtype)
    x = integer_vector(A.shape[1], dtype)
    op = build(A, fmt, cuda_device)
    expected = A @ x
    np.testing.assert_array_equal(op @ x, expected)
    np.testing.assert_array_equal(library.to_numpy(op @ library.asarray(x, cuda_device)), expected)
