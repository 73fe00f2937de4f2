"""The csr_m format: x gathered into the order of the non-zeros before it multiplies, once per declared x."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, matrix, vector
from examples import BELL_GARLAND as MATRIX
from reference import assert_product
from support import build, each_type, formats_of, poisoned

GATHERS = ["device", "host"]
KERNELS = ["warp", "half_warp"]


@pytest.fixture(params=GATHERS)
def gather(request):
    return request.param


@pytest.fixture(name="op")
def csr_m(gather, dtype, device):
    return sg.aslinearoperator(
        matrix("uniform", dtype), format="csr_m", device=device, dtype=dtype, gather=gather
    )


@pytest.mark.parametrize("case", CASES)
@each_type
def test_battery_with_declared_x(case, dtype):
    check_with_declared_x(matrix(case, dtype), "cpu")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("gather", GATHERS)
@each_type
def test_kernels_through_the_battery(kernel, case, gather, dtype, cuda_device):
    check_with_declared_x(matrix(case, dtype), cuda_device, kernel=kernel, gather=gather)


def check_with_declared_x(A, device, **options):
    op = sg.aslinearoperator(A, format="csr_m", device=device, **options)
    x = vector(A.shape[1], A.dtype)
    y = op.spmv(x, out=poisoned(A.shape[0], A.dtype))
    assert_product(y, A, x)
    op.set_x(x)
    for _ in range(3):
        np.testing.assert_array_equal(op.spmv(x, out=poisoned(A.shape[0], A.dtype)), y)


def test_declared_x_is_gathered_once(op, dtype):
    """The only way to see it: x changes, against the rule, and the product does not."""
    A = matrix("uniform", dtype)
    x = vector(A.shape[1], dtype)
    op.set_x(x)
    first = op @ x
    x *= 2
    np.testing.assert_array_equal(op @ x, first)
    op.set_x(x)
    np.testing.assert_array_equal(op @ x, 2 * first)
    op.set_x(None)  # ends the declaration
    x *= 2
    np.testing.assert_array_equal(op @ x, 4 * first)


def test_declared_x_is_kept_alive(op, dtype):
    """Otherwise another array could take its place in memory, and pass for it."""
    A = matrix("uniform", dtype)
    op.set_x(vector(A.shape[1], dtype))
    for seed in range(5):
        x = vector(A.shape[1], dtype, seed=seed)
        assert_product(op @ x, A, x)
        del x


def test_threads_with_vectors_of_their_own(op, dtype):
    A = matrix("uniform", dtype)
    vectors = [vector(A.shape[1], dtype, seed=seed) for seed in range(8)]
    expected = [op @ x for x in vectors]
    op.set_x(vectors[0])
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: op @ vectors[i % 8], range(200)))
    for i, y in enumerate(results):
        np.testing.assert_array_equal(y, expected[i % 8])


def test_transposed_and_pickled_operators_start_undeclared(op, dtype):
    A = matrix("uniform", dtype)
    x = vector(A.shape[1], dtype)
    op.set_x(x)
    copy = pickle.loads(pickle.dumps(op))
    assert copy.options == op.options
    assert_product(op.T @ x, A.T, x)
    first = copy @ x
    x *= 2
    np.testing.assert_array_equal(copy @ x, 2 * first)


@pytest.mark.parametrize("fmt", sorted(set(formats_of(MATRIX)) - {"csr_m"}))
def test_other_formats_have_no_set_x(fmt, device):
    op = build(MATRIX, fmt, device)
    with pytest.raises(TypeError, match=rf"'{fmt}'.*csr_m"):
        op.set_x(np.ones(4))


def test_device_x_is_gathered_once(library, dtype, cuda_device):
    A = matrix("uniform", dtype)
    op = sg.aslinearoperator(A, format="csr_m", device=cuda_device)
    host = vector(A.shape[1], dtype)
    x = library.asarray(host, cuda_device)
    op.set_x(x)
    first = library.to_numpy(op @ x)
    assert_product(first, A, host)
    library.fill(x, library.asarray(2 * host, cuda_device))
    np.testing.assert_array_equal(library.to_numpy(op @ x), first)
    op.set_x(x)
    np.testing.assert_array_equal(library.to_numpy(op @ x), 2 * first)


def test_every_replay_of_a_graph_gathers(library, dtype, cuda_device):
    """When a graph runs, nobody knows what was gathered last."""
    A = matrix("uniform", dtype)
    op = sg.aslinearoperator(A, format="csr_m", device=cuda_device)
    host = vector(A.shape[1], dtype)
    x = library.asarray(host, cuda_device)
    out = library.asarray(np.zeros(A.shape[0], dtype), cuda_device)
    op.set_x(x)
    op.spmv(x, out=out)
    with library.capture(cuda_device) as replay:
        op.spmv(x, out=out)
    library.fill(x, library.asarray(-host, cuda_device))
    replay[0]()
    assert_product(library.to_numpy(out), A, -host)


def test_device_x_with_host_gather_is_refused(library, dtype, cuda_device):
    A = matrix("uniform", dtype)
    op = sg.aslinearoperator(A, format="csr_m", device=cuda_device, gather="host")
    x = library.asarray(vector(A.shape[1], dtype), cuda_device)
    with pytest.raises(ValueError, match=r"gather='host'.*gather='device'"):
        op @ x


def test_host_gather_where_x_is_never_in_host_memory(dtype, cuda_device):
    A = sp.csr_array(sg.gallery.poisson2d(5), dtype=dtype)
    asked = {"format": "csr_m", "gather": "host"}
    for place in ({"device": [cuda_device, "cpu"]}, {"device": cuda_device, "reorder": "rcm"}):
        with pytest.raises(sg.FormatError, match=r"gather='host'.*gather='device'"):
            sg.aslinearoperator(A, **asked, **place)
    op = sg.aslinearoperator(A, device=cuda_device, **asked)
    with pytest.raises(ValueError, match="gather='device'"):
        sg.linalg.cg(op, np.ones(25, dtype))


def test_host_gather_holds_no_indices_and_no_x_on_the_device(dtype, cuda_device):
    A = matrix("uniform", dtype)
    op = sg.aslinearoperator(A, format="csr_m", device=cuda_device, gather="host")
    op @ vector(A.shape[1], dtype)
    item = dtype.itemsize
    assert op.nbytes == 2 * A.nnz * item + (A.shape[0] + 1) * 4 + A.shape[0] * item
