"""Memory: what an operator says it holds is what it holds, and it gives all of it back."""

import gc
import re

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import banded, matrix, vector
from support import (
    build,
    each_format_of,
    each_pair,
    every_third,
    formats_of,
    free_device_bytes,
    nightly,
    resident_bytes,
    run_python,
    some_formats,
)

MB = 1_000_000


def rows_in_steps(n, per_row):
    """A band of `per_row` entries from the diagonal on, all different: no format packs them."""
    indices = (np.arange(n, dtype=np.int32)[:, None] + np.arange(per_row, dtype=np.int32)).ravel()
    indptr = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    values = np.random.default_rng(0).random(n * per_row)
    return sp.csr_array((values, indices, indptr), shape=(n, n + per_row))


@pytest.fixture(scope="module")
def large():
    """A matrix of 10 million entries."""
    return rows_in_steps(500_000, 20)


# The formats that hold such a matrix of any size.
FORMATS_OF_LARGE = formats_of(rows_in_steps(5000, 20))


@each_format_of("power_law_rows")
def test_nbytes_is_that_of_the_arrays(fmt, device, dtype):
    op = build(matrix("power_law_rows", dtype), fmt, device)
    assert op.nbytes >= sum(array.nbytes for array in op.arrays().values())


@each_pair(["power_law_rows", "sym_hubs", "sym_mixed_nodes", "sym_dense", "long_row_middle"])
def test_nbytes_is_what_was_estimated(case, fmt, device, dtype):
    A = matrix(case, dtype)
    op = build(A, fmt, device)
    op @ np.ones(A.shape[1], dtype)  # takes the scratch space
    estimated = sg.estimate(A, fmt, device)["bytes"]
    if device == "cpu":
        assert op.nbytes == estimated
    else:  # vectors that cross the bus are counted as well
        arrays = op.arrays().values()
        assert sum(array.nbytes for array in arrays) <= estimated <= op.nbytes


@each_format_of("tall")
def test_the_transposed_copy_is_work_memory(fmt, device, dtype):
    op = build(matrix("tall", dtype), fmt, device)
    before = op.nbytes
    copied = op.T.tocsr().nnz * dtype.itemsize
    assert op.nbytes == before
    assert op.work_nbytes >= copied
    assert op.memory == {"matrix": before, "transposes": op.T.nbytes, "vectors": 0}


@pytest.mark.alone_on_gpu
@pytest.mark.parametrize("fmt", FORMATS_OF_LARGE)
def test_device_memory_is_nbytes(large, fmt, cuda_device):
    build(matrix("diagonal", np.dtype("float64")), fmt, cuda_device) @ np.ones(1000)  # starts the device
    before = free_device_bytes(cuda_device)
    op = build(large, fmt, cuda_device)
    taken = before - free_device_bytes(cuda_device)
    assert op.nbytes == pytest.approx(taken, rel=0.01)


def test_releasing_memory_needs_no_gpu():
    sg.release_memory()


@pytest.mark.alone_on_gpu
def test_memory_of_operators_that_are_gone(large, cuda_device):
    """It is kept for the next one, and counted as free, until it is released."""
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Device(int(cuda_device.partition(":")[2])):
        build(large, "csr", cuda_device)  # the first one may load kernels and make streams, which stay
        sg.release_memory()
        free, _ = cupy.cuda.runtime.memGetInfo()
        op = build(large, "csr", cuda_device)
        taken = op.nbytes
        free_beside = free_device_bytes(cuda_device)
        del op
        assert free_device_bytes(cuda_device) >= free_beside + taken
        assert cupy.cuda.runtime.memGetInfo()[0] <= free - taken // 2  # the rest was there before
        sg.release_memory()
        assert cupy.cuda.runtime.memGetInfo()[0] >= free - 2**21


@some_formats(0, FORMATS_OF_LARGE)
def test_no_more_resident_memory_than_nbytes(large, fmt):
    """The allocator may reuse pages that it kept, so the process may grow by less."""
    build(large, fmt) @ vector(large.shape[1], large.dtype)
    gc.collect()
    before = resident_bytes()
    op = build(large, fmt)
    gc.collect()
    taken = resident_bytes() - before
    assert taken < 1.1 * op.nbytes


@some_formats(1, FORMATS_OF_LARGE)
def test_large_operator_gives_its_memory_back(large, fmt):
    op = build(large, fmt)
    assert op.nbytes >= large.data.nbytes
    held = resident_bytes()
    del op
    gc.collect()
    # Not all of it: the allocator of the C library may keep blocks below 32 MiB.
    assert held - resident_bytes() > 0.5 * large.data.nbytes


def cycle(A, fmt, device, x):
    """All that allocates: arrays, results, the transposed copy."""
    op = sg.aslinearoperator(A, format=fmt, device=device)
    op.spmv(x, out=op @ x)
    return op.T @ x


def assert_no_leak(once, device, repeats):
    """Calling `once` over and over takes no memory, after the first calls."""
    for _ in range(30):
        once()
    gc.collect()
    resident, free = resident_bytes(), free_device_bytes(device)
    for _ in range(repeats):
        once()
    gc.collect()
    assert resident_bytes() - resident < 8 * MB
    if device != "cpu":
        assert free - free_device_bytes(device) < 4 * MB


@pytest.mark.alone_on_gpu
@some_formats(0)
def test_hundreds_of_operators_leak_nothing(fmt, device):
    """Not even their smallest array: 80 kB of row offsets each would show."""
    A = sp.csr_array(banded(20_000, [-70, -1, 0, 1, 70]))
    x = vector(20_000, A.dtype)
    assert_no_leak(lambda: cycle(A, fmt, device, x), device, repeats=150)


@pytest.mark.alone_on_gpu
def test_thousand_errors_leak_nothing(device):
    A = sp.csr_array(banded(5000, [-70, -1, 0, 1, 70]))
    bad = (A.data, np.where(np.arange(A.nnz) == A.nnz - 1, 5000, A.indices), A.indptr)

    def once():
        with pytest.raises(ValueError, match=r"\b5000\b"):
            sg.aslinearoperator(bad, device=device, shape=A.shape)

    assert_no_leak(once, device, repeats=1000)


@pytest.mark.alone_on_gpu
@some_formats(2)
def test_products_leak_nothing(fmt, device):
    op = build(sp.csr_array(banded(20_000, [-1, 0, 1])), fmt, device)
    x = vector(20_000, op.dtype)
    assert_no_leak(lambda: op @ x, device, repeats=2000)


@each_format_of("uniform")
def test_an_operator_and_its_transpose_are_collected(fmt, device):
    """op.T.T is op makes a circle of references; the collector must be able to free it."""
    import weakref

    op = build(matrix("uniform", np.dtype("float64")), fmt, device)
    alive = weakref.ref(op)
    assert op.T.T is op
    del op
    gc.collect()
    assert alive() is None


@each_format_of("uniform")
def test_a_transpose_outlives_its_operator(fmt, device):
    A = matrix("uniform", np.dtype("float64"))
    transposed = build(A, fmt, device).T
    gc.collect()
    x = vector(A.shape[0], A.dtype)
    np.testing.assert_allclose(transposed @ x, A.T @ x, rtol=1e-10, atol=1e-10)


@each_format_of("uniform")
def test_a_result_outlives_its_operator(fmt, device):
    A = matrix("uniform", np.dtype("float64"))
    x = vector(A.shape[1], A.dtype)
    op = build(A, fmt, device)
    results = [op @ x for _ in range(10)]
    expected = results[0].copy()
    del op
    gc.collect()
    build(A, fmt, device) @ (2 * x)
    for result in results:
        np.testing.assert_array_equal(result, expected)


# More memory than there is

TOO_LARGE = """
    import re, resource
    import numpy as np
    import scipy.sparse as sp
    import spmvgpu as sg

    # Enough work to start all threads: their stacks must not fall under the limit
    warm = sp.eye_array(500_000, format="csr")
    sg.aslinearoperator(warm, format={fmt!r}, device="cpu") @ np.ones(500_000)
    small = sp.csr_array(np.eye(50))
    n, per_row = 1_000_000, 10
    first = np.clip(np.arange(n, dtype=np.int32) // per_row * per_row, 0, n - per_row)
    indices = (first[:, None] + np.arange(per_row, dtype=np.int32)).ravel()
    large = (np.ones(n * per_row), indices, np.arange(0, n * per_row + 1, per_row, dtype=np.int32))
    pages = int(open("/proc/self/statm").read().split()[0])
    room = pages * resource.getpagesize() + 40_000_000
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    try:
        sg.aslinearoperator(large, format={fmt!r}, device="cpu", shape=(n, n))
    except MemoryError as error:
        print("MemoryError:", error)
    y = sg.aslinearoperator(small, format={fmt!r}, device="cpu") @ np.arange(50.0)
    assert np.array_equal(y, np.arange(50.0))
"""


@some_formats(1)
def test_more_memory_than_the_process_may_have(fmt):
    pytest.importorskip("resource", reason="needs limits of POSIX")
    output = run_python(TOO_LARGE.format(fmt=fmt)).stdout
    assert output.startswith("MemoryError:")
    assert len(re.findall(r"\d+", output)) >= 2, "bytes asked for and free are not both named"


# What runs out of memory somewhere in its middle: every call is tried with less and less room.
SHRINKING_ROOM = """
    import itertools, pathlib, re, resource, threading, time
    import numpy as np
    import scipy.sparse as sp
    import spmvgpu as sg

    n = 200_000
    band = sp.diags_array([np.ones(n)] * 7, offsets=range(-3, 4), shape=(n, n)).tocsr()
    shuffled = sp.csr_array((band.data, band.indices[::-1].copy(), band.indptr), shape=(n, n))
    x = np.ones(n)

    op = sg.aslinearoperator(band, format="packed_sell", device="cpu")
    values = [np.random.default_rng(seed).random(band.nnz) for seed in range(2)]
    numbers, kept = itertools.count(), None

    def update():  # what cannot be stored leaves the old values, and the products with them
        global kept
        new, old = values[next(numbers) % 2], kept
        try:
            op.update_values(new)
            kept = new, op @ x
        finally:
            assert kept is not old or (op @ x).tobytes() == old[1].tobytes()
            assert op.tocsr().data.tobytes() == kept[0].tobytes()

    def call():
        {call}

    def others_sleep():
        own, threads = threading.get_native_id(), pathlib.Path("/proc/self/task").iterdir()
        others = [thread / "stat" for thread in threads if int(thread.name) != own]
        return all(stat.read_text().rpartition(")")[2].split()[0] == "S" for stat in others)

    call()  # starts all threads: their stacks, and what each keeps for itself, must not fall under the limit
    while not others_sleep():  # one that has yet to begin is ready to run
        time.sleep(0.001)
    free = resource.RLIM_INFINITY
    outcomes = []
    for room in (*range(1, 80, 9), 600):
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[0])
        limit = pages * resource.getpagesize() + room * 1_000_000
        resource.setrlimit(resource.RLIMIT_AS, (limit, free))
        try:
            call()
            outcomes.append("done")
        except MemoryError as error:
            outcomes.append("refused")
            message = str(error)
        resource.setrlimit(resource.RLIMIT_AS, (free, free))
        if outcomes[-1] == "refused":
            assert len(re.findall(r"[0-9]+", message)) >= 2 or "Unable to allocate" in message, repr(message)
    assert outcomes[0] == "refused" and outcomes[-1] == "done", outcomes
"""


BUILD = "sg.aslinearoperator(band, format={!r}, device='cpu')"


@pytest.mark.parametrize(
    "call",
    [
        *every_third([BUILD.format(name) for name in sg.formats()], 2),
        *nightly([f"{BUILD.format(name)} @ x" for name in ("csr_m", "tsmv")]),
        "update()",
        "sg.predict(band, 'cpu')",
        "sg.aslinearoperator(shuffled, format='csr', device='cpu')",
        *nightly(
            [
                "sg.aslinearoperator(band, format='hyb', device='cpu').T",
                "sg.aslinearoperator(band, format='dia', device='cpu').tocsr()",
            ]
        ),
        "sg.aslinearoperator(band, format='partitioned', separator=n // 4, device=['cpu', 'cpu']) @ x",
    ],
)
def test_memory_that_ends_in_the_middle_of_a_call(call):
    pytest.importorskip("resource", reason="needs limits of POSIX")
    # Every block from the system and back to it, so that none is at hand from an earlier try.
    run_python(SHRINKING_ROOM.format(call=call), MALLOC_MMAP_THRESHOLD_="65536", MALLOC_TRIM_THRESHOLD_="0")


@pytest.mark.alone_on_gpu
@pytest.mark.parametrize("fmt", ["csr", "sell"])
@pytest.mark.parametrize("room", [1.3, 1.75, 1.85, 2.6])  # times what the operator takes
def test_what_is_made_of_an_operator_where_there_is_little_room(fmt, room, cuda_device):
    """It is made of copies in CSR on the device, which give way to the result."""
    cupy = pytest.importorskip("cupy")
    A = rows_in_steps(1_000_000, 20)
    op = sg.aslinearoperator(A, format=fmt, device=cuda_device)
    x = vector(A.shape[1], A.dtype)
    expected = op @ x
    with cupy.cuda.Device(int(cuda_device.partition(":")[2])):
        sg.release_memory()
        free, _ = cupy.cuda.runtime.memGetInfo()
        filler = cupy.cuda.runtime.malloc(free - int(room * op.nbytes))
        try:
            np.testing.assert_array_equal((2 * op) @ x, 2 * expected)
            np.testing.assert_array_equal(op.copy() @ x, expected)
            np.testing.assert_allclose(op[1:] @ x, expected[1:], atol=1e-12)
            np.testing.assert_allclose(op.astype(np.complex64) @ x, expected, atol=1e-4)
            np.testing.assert_allclose(op.T @ expected, A.T @ expected, atol=1e-10)
        finally:
            cupy.cuda.runtime.free(filler)


@pytest.mark.alone_on_gpu
@pytest.mark.parametrize("fmt", sorted(set(sg.formats()) - {"stencil"}))  # no two rows are the same
def test_more_memory_than_the_device_has(fmt, cuda_device):
    """Fill the device to 64 MiB, then ask for blocks of at least 80 MB; once the rest is free it fits."""
    cupy = pytest.importorskip("cupy")
    n, per_row = 1_000_000, 20
    first = np.arange(n, dtype=np.int32) // per_row * per_row
    indices = (first[:, None] + np.arange(per_row, dtype=np.int32)).ravel()
    indptr = np.arange(n + 1, dtype=np.int32) * per_row
    rng = np.random.default_rng(0)
    block = rng.random((per_row, per_row))
    # Symmetric, for the formats that need it, and such that no format packs the values.
    values = (rng.random((n // per_row, 1, 1)) * (block + block.T)).ravel()
    A = sp.csr_array((values, indices, indptr), shape=(n, n))
    with cupy.cuda.Device(int(cuda_device.partition(":")[2])):
        sg.release_memory()
        free, _ = cupy.cuda.runtime.memGetInfo()
        filler = cupy.cuda.runtime.malloc(free - 2**26)
        try:
            with pytest.raises(MemoryError, match=r"\d.*free|free.*\d"):
                sg.aslinearoperator(A, format=fmt, device=cuda_device)
        finally:
            cupy.cuda.runtime.free(filler)
    y = sg.aslinearoperator(A, format=fmt, device=cuda_device) @ np.ones(n)
    np.testing.assert_allclose(y, values.reshape(n, per_row).sum(axis=1), rtol=1e-12)
