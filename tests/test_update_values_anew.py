"""New values that decide how they are stored: the matrix is planned and stored again, where it lies."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import matrix, vector
from reference import assert_product
from spmvgpu import gallery
from support import assert_same_entries, run_python
from test_update_values import ALL_TYPES, assert_is_as_new, with_values

FORMAT = "packed_sell"
MODES = ["constant", "dictionary", "full"]


def values_of(mode, n, dtype, seed=0):
    """Values all of which are stored in a mode."""
    rng = np.random.default_rng(seed)

    def draw():
        if mode == "constant":
            return np.full(n, rng.random())
        if mode == "dictionary":
            return rng.random(12)[rng.integers(0, 12, n)]
        return rng.random(n)

    data = np.empty(n, dtype)
    data.real = draw()
    if data.dtype.kind == "c":
        data.imag = draw()
    return data


def counts(op):
    return {name: count for name, count in op._matrix.counts.items() if count}


def grid(side, dtype=np.float64):
    return sp.csr_array(gallery.poisson2d(side).astype(dtype))


@pytest.mark.parametrize("dtype", ALL_TYPES)
def test_values_are_stored_in_the_fewest_bytes_again(dtype, device):
    """They are demoted to more bytes and promoted to fewer as they demand, from each way to every other."""
    A = grid(60, dtype)
    op = sg.aslinearoperator(A, format=FORMAT, device=device)
    for number, mode in enumerate([*MODES, *reversed(MODES), "full", "constant"]):
        B = with_values(A, values_of(mode, A.nnz, dtype, number))
        op.update_values(B.data)
        assert_is_as_new(op, B, FORMAT, device)
        found = counts(op)
        assert found[f"values_{mode}"] > 0, mode
        assert found == counts(sg.aslinearoperator(B, format=FORMAT, device=device))
    op.update_values(A.data)
    assert_is_as_new(op, A, FORMAT, device)


@pytest.mark.parametrize("different", [200, 256, 257, 4000])
def test_a_dictionary_that_overflows(different, device):
    A = grid(60)
    op = sg.aslinearoperator(A, format=FORMAT, device=device)
    rng = np.random.default_rng(1)
    for count in (different, 20, different):
        B = with_values(A, rng.random(count)[rng.integers(0, count, A.nnz)])
        op.update_values(B.data)
        assert_is_as_new(op, B, FORMAT, device)


@pytest.mark.parametrize("dtype", ALL_TYPES)
def test_the_very_bits_are_stored(dtype, device):
    """NaN with whatever payload, subnormal numbers, infinities and zeros of both signs."""
    A = matrix("uniform", dtype)
    op = sg.aslinearoperator(A, format=FORMAT, device=device)
    rng = np.random.default_rng(2)
    part = A.data.real.dtype
    for special in ([0.0, -0.0], [-0.0], [np.inf, -np.inf, np.nan, -np.nan], [1e-310, 1e-45, 1.0], None):
        if special is None:
            data = rng.bytes(A.data.nbytes)
            data = np.frombuffer(data, dtype).copy()
        else:
            with np.errstate(under="ignore"):
                numbers = np.array(special).astype(part)
            data = rng.choice(numbers, A.data.nbytes // part.itemsize).view(dtype)
        op.update_values(data)
        assert op.tocsr().data.tobytes() == data.tobytes()
        new = sg.aslinearoperator(with_values(A, data), format=FORMAT, device=device)
        for name, array in new.arrays().items():
            assert op.arrays()[name].tobytes() == array.tobytes(), name


def test_solves_after_updates(device):
    """A solver finds the new arrays, wherever they lie, and so do products with a vector, columns and `T`."""
    A = grid(40)
    op = sg.aslinearoperator(A, format=FORMAT, device=device)
    scale = sp.diags_array(np.random.default_rng(3).uniform(0.5, 2, A.shape[0]))
    b, X = vector(A.shape[0], A.dtype), np.ones((A.shape[0], 3))
    sg.linalg.cg(op, b)
    for B in (sp.csr_array(scale @ A @ scale), A, sp.csr_array(scale @ A @ scale)):
        op.update_values(B.data)
        new = sg.aslinearoperator(B, format=FORMAT, device=device)
        for M in (None, sg.linalg.jacobi):
            found, expected = (
                sg.linalg.cg(made, b, rtol=1e-10, M=None if M is None else M(made)) for made in (op, new)
            )
            assert found[1] == expected[1] == 0
            assert found[0].tobytes() == expected[0].tobytes()
        assert (op @ X).tobytes() == (new @ X).tobytes()
        assert_product(op.rmatvec(b), B, b)


def test_memory_of_updates(device):
    """The pattern is kept, and that is all of it."""
    A = grid(60)
    B = with_values(A, values_of("full", A.nnz, A.dtype))
    op = sg.aslinearoperator(B, format=FORMAT, device=device)
    before = op.nbytes
    for seed in range(3):
        op.update_values(values_of("full", A.nnz, A.dtype, seed))
        assert op.nbytes == before + 4 * (A.shape[0] + 1 + A.nnz)
    op.update_values(A.data)
    assert op.nbytes < before


def test_what_is_read_during_updates(device):
    """Each time it is one of the matrices, and not a part of two."""
    A = grid(60)
    op = sg.aslinearoperator(A, format=FORMAT, device=device)
    written = [A.data, values_of("full", A.nnz, A.dtype)]
    sizes = {"heads", "stream", "dictionary", "permutation"}
    with ThreadPoolExecutor(1) as other:
        updates = other.submit(lambda: [op.update_values(data) for data in written * 20])
        while not updates.done():
            stored = op.tocsr().data
            assert any(np.array_equal(stored, data) for data in written)
            assert op.arrays().keys() == sizes
            assert op.nbytes > 0
            assert counts(op)
        updates.result()


# Updates that fail leave the values as they were

SHRINKING_ROOM = """
    import resource
    import numpy as np
    import spmvgpu as sg

    A = sg.gallery.poisson2d(400)
    rng = np.random.default_rng(0)
    op = sg.aslinearoperator(A, format="packed_sell", device="cpu")
    x = rng.random(A.shape[1])
    if {keeps_pattern}:
        op.update_values(A.data)
    sg.aslinearoperator(A, format="packed_sell", device="cpu")  # starts all threads
    stored, free, outcomes = A.data, resource.RLIM_INFINITY, []
    for room in (*range(1, 24, 3), 600):
        data, expected = rng.random(A.nnz), op @ x
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room * 1_000_000, free))
        try:
            op.update_values(data)
            outcomes.append("done")
        except MemoryError:
            outcomes.append("refused")
        resource.setrlimit(resource.RLIMIT_AS, (free, free))
        if outcomes[-1] == "done":
            stored = data
        else:
            assert (op @ x).tobytes() == expected.tobytes()
        assert op.tocsr().data.tobytes() == stored.tobytes()
    assert outcomes[0] == "refused" and outcomes[-1] == "done", outcomes
"""


@pytest.mark.parametrize("keeps_pattern", [False, True])
def test_too_little_memory_for_an_update(keeps_pattern):
    pytest.importorskip("resource", reason="needs limits of POSIX")
    run_python(
        SHRINKING_ROOM.format(keeps_pattern=keeps_pattern),
        MALLOC_MMAP_THRESHOLD_="65536",
        MALLOC_TRIM_THRESHOLD_="0",
    )


@pytest.mark.alone_on_gpu
@pytest.mark.parametrize("keeps_pattern", [False, True])
def test_too_little_memory_on_the_device(keeps_pattern, cuda_device):
    """It is filled to 64 MiB; an update needs 160 MB for what is stored."""
    cupy = pytest.importorskip("cupy")
    n, per_row = 1_000_000, 20
    indices = (np.arange(n, dtype=np.int32)[:, None] + np.arange(per_row, dtype=np.int32)).ravel()
    indptr = np.arange(n + 1, dtype=np.int32) * per_row
    data = np.random.default_rng(0).random(n * per_row)
    A = sp.csr_array((data, indices, indptr), shape=(n, n + per_row))
    op = sg.aslinearoperator(A, format=FORMAT, device=cuda_device)
    if keeps_pattern:
        op.update_values(data)
    x = vector(A.shape[1], A.dtype)
    before = op @ x
    with cupy.cuda.Device(int(cuda_device.partition(":")[2])):
        sg.release_memory()
        free, _ = cupy.cuda.runtime.memGetInfo()
        filler = cupy.cuda.runtime.malloc(free - 2**26)
        try:
            with pytest.raises(MemoryError):
                op.update_values(-data)
            assert (op @ x).tobytes() == before.tobytes()
        finally:
            cupy.cuda.runtime.free(filler)
    assert_same_entries(op.tocsr(), A)
    op.update_values(-data)
    assert (op @ x).tobytes() == (-before).tobytes()


@pytest.mark.gpu
def test_a_graph_that_is_captured_after_an_update(library, cuda_device):
    """The arrays lie elsewhere then, so one that was captured before must not be replayed."""
    A = grid(60)
    op = sg.aslinearoperator(A, format=FORMAT, device=cuda_device)
    x = vector(A.shape[1], A.dtype)
    device_x, out = (library.asarray(array, cuda_device) for array in (x, np.zeros(A.shape[0])))
    graphs = []  # kept: none may go while another is captured
    for mode in MODES:
        B = with_values(A, values_of(mode, A.nnz, A.dtype))
        op.update_values(library.asarray(B.data, cuda_device))
        op.spmv(device_x, out=out)
        with library.capture(cuda_device) as replay:
            op.spmv(device_x, out=out, alpha=-1.0)
        graphs.append(replay)
        replay[0]()
        assert_product(library.to_numpy(out), B, x, alpha=-1.0)
