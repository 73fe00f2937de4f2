"""Operators over several devices: no product shows who did what."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, TYPES, banded, matrix, square, vector
from conftest import CUDA_DEVICES
from internals import hold_at_most, let_parts_have_interiors
from reference import assert_product
from spmvgpu import gallery, partition
from support import assert_multiplies, assert_same_entries, each_type, explained, in_turn, poisoned


def _gpu_lists():
    """Lists of all GPUs of this machine, of some of them, and of GPUs and the CPU."""
    gpus = CUDA_DEVICES or ["cuda:0"]
    lists = [gpus[:count] for count in range(1, len(gpus) + 1)]
    lists += [[gpus[0], gpus[0]], [gpus[0], "cpu"], ["cpu", *gpus]]
    return [pytest.param(tuple(names), marks=pytest.mark.gpu, id="+".join(names)) for names in lists]


PARTITIONS = ["nnz", "pmf", "rows"]
GPU_LISTS = _gpu_lists()
DEVICE_LISTS = [("cpu",), ("cpu", "cpu"), *(GPU_LISTS if CUDA_DEVICES else [])]


@pytest.fixture(scope="session", params=DEVICE_LISTS, ids="+".join)
def names(request):
    """A list of devices."""
    return list(request.param)


@pytest.fixture(scope="session", params=GPU_LISTS)
def gpu_names(request):
    """A list of devices with a GPU among them."""
    return list(request.param)


@pytest.fixture(params=PARTITIONS)
def by(request):
    """A way of giving rows to devices."""
    return request.param


def unequal(names):
    """Powers of which no two are equal."""
    return [1.0 + 1.5 * number for number in range(len(names))]


def spread(A, names, **options):
    return sg.aslinearoperator(A, device=names, **{"powers": unequal(names), **options})


# Each case with every partition and every type, though not with every one of the two together.
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("by", "dtype"), in_turn(PARTITIONS, TYPES))
def test_products(case, names, by, dtype):
    A = matrix(case, dtype)
    op = spread(A, names, partition=by)
    assert isinstance(op, sg.MultiDeviceOperator)
    assert (op.shape, op.dtype, op.nnz) == (A.shape, dtype, A.nnz)
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)


@pytest.mark.parametrize("case", square())
@each_type
def test_distributed_vectors(case, names, dtype):
    """Products whose vectors stay on the devices, one after the other, each vector x and y in turn."""
    A = matrix(case, dtype)
    op = spread(A, names)
    scale = dtype.type(1 / max(1.0, abs(A).sum(axis=1).max() if A.nnz else 1.0))
    x = vector(A.shape[0], dtype)
    ours, other, expected = op.vector(x), op.vector(), x
    for _ in range(4):
        other = op.spmv(ours, out=other, alpha=scale)
        assert_product(other.collect(), A, expected, alpha=scale)
        ours, other = other, ours
        expected = ours.collect()
    assert_product((op @ op.vector(x)).collect(), A, x)


def test_a_long_chain_of_products(names, dtype):
    """No step waits for the host; every device is ahead of the others now and then."""
    A = sp.csr_array(banded(60_000, [-9000, -1, 0, 1, 20_000]), dtype=dtype)
    A.data[:] = 0.2
    op = spread(A, names, format="csr")
    expected = vector(A.shape[0], dtype)
    x, y = op.vector(expected), op.vector()
    for _ in range(50):
        x, y = op.spmv(x, out=y), x
        expected = A @ expected
    assert np.linalg.norm(x.collect() - expected) <= 1e-4 * np.linalg.norm(expected)
    again, y = op.vector(vector(A.shape[0], dtype)), op.vector()
    for _ in range(50):
        again, y = op.spmv(again, out=y), again
    np.testing.assert_array_equal(again.collect(), x.collect())


@pytest.mark.parametrize("offsets", [[-900, -1, 0, 1, 900], [-20_000, -1, 0, 1]], ids=["borders", "interior"])
def test_a_chain_of_products_with_interiors(offsets, gpu_names, dtype, monkeypatch):
    """Others read rows near the borders of a device alone, or of its interior as well."""
    let_parts_have_interiors(monkeypatch, 1)
    A = sp.csr_array(banded(60_000, offsets), dtype=dtype)
    A.data[:] = 0.2
    op = spread(A, gpu_names, powers=[1.0] * len(gpu_names))
    assert "cpu" in gpu_names or "+" not in op.format
    host = vector(A.shape[0], dtype)
    expected, x, y = op.vector(host), op.vector(host), op.vector()
    for _ in range(50):
        expected = op.spmv(expected)
        x, y = op.spmv(x, out=y), x
    np.testing.assert_array_equal(x.collect(), expected.collect())
    for _ in range(50):
        host = A @ host
    np.testing.assert_allclose(x.collect(), host, rtol=0, atol=1e-4 * np.abs(host).max())


def test_repeated_products_and_others_take_turns(names, dtype):
    """Products of GPUs that are repeated are recorded; between them come others, with the same vectors."""
    A = sp.csr_array(banded(60_000, [-9000, -1, 0, 1, 20_000]), dtype=dtype)
    op = spread(A, names, format="csr")
    host = vector(A.shape[0], dtype)
    x, y, z = op.vector(), op.vector(), op.vector()
    for turn in range(12):
        x.assign(host)
        scale = -0.25 if turn % 3 else 0.5
        op.spmv(x, out=y, alpha=0.25)
        op.spmv(y, out=z, alpha=0.5)
        op.spmv(z, out=x, alpha=scale)
        op.spmv(x, out=y, alpha=0.25)
        expected = host
        for factor in (0.25, 0.5, scale, 0.25):
            expected = factor * (A @ expected)
        np.testing.assert_allclose(y.collect(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())
        host = host[::-1].copy()
    del x, z
    again = op.vector(host)
    assert_product(op.spmv(again, out=y).collect(), A, host)


def test_a_vector_may_be_filled_anew_while_products_are_under_way(names, dtype):
    A = sp.csr_array(banded(60_000, [-9000, -1, 0, 1, 20_000]), dtype=dtype)
    op = spread(A, names, format="csr")
    x, y = op.vector(), op.vector()
    for seed in range(5):
        host = vector(A.shape[0], dtype, seed)
        x.assign(host)
        for _ in range(4):
            op.spmv(x, out=y)
        x.assign(np.full_like(host, np.nan))
        assert_product(y.collect(), A, host)


def test_assign_takes_turns_with_products(names, dtype):
    """A vector is filled anew by one thread while another multiplies it: a product sees one whole fill."""
    n = 100_000
    A = sp.diags_array([0.25, 0.5, 0.25], offsets=[-n // 2, 0, n // 2], shape=(n, n), dtype=dtype).tocsr()
    op = spread(A, names, format="csr")
    x, y = op.vector(np.ones(n, dtype)), op.vector()
    row_sums = A @ np.ones(n, dtype)
    done = False

    def fill():
        scale = 1
        while not done:
            scale = scale % 7 + 1
            x.assign(np.full(n, scale, dtype))

    with ThreadPoolExecutor(1) as pool:
        filling = pool.submit(fill)
        try:
            for _ in range(100):
                product = op.spmv(x, out=y).collect() / row_sums
                assert product.min() == product.max()
        finally:
            done = True
        filling.result()


@pytest.mark.parametrize("cut", [1, 40, 60])
@pytest.mark.parametrize("beta", [0.0, 0.5])
@each_type
def test_partitioned_shares_with_scattered_rows(cut, beta, names, dtype):
    """Where a row of a part lies in y is where the share's row lies that it is."""
    rows = 300 * len(names)
    A = sp.random_array((rows, 250), density=0.05, random_state=3, format="csr", dtype=dtype)
    options = {"format": "partitioned", "separator": cut, "partition": "pmf"}
    op = sg.aslinearoperator(A, device=names, powers=[1.0] * len(names), **options)
    start = vector(rows, dtype) if beta else poisoned(rows, dtype)
    x = vector(250, dtype)
    y = op.spmv(x, out=start.copy(), alpha=2.0, beta=beta)
    assert_product(y, A, x, alpha=2.0, beta=beta, y=start if beta else None)
    assert_product(op.spmv(x, out=poisoned(rows, dtype)), A, x)


@pytest.mark.parametrize(
    ("fmt", "options"),
    [("ellpack", {}), ("sell", {"sigma": 1}), ("hyb", {"width": "max"}), ("partitioned", {"separator": 200})],
    ids=["ellpack", "sell", "hyb", "partitioned"],
)
def test_the_transposed_matrix_is_csr_where_the_format_refuses_it(fmt, options, names, dtype):
    """One column is full: transposed, a row that no padded format takes; too few rows are left for a cut."""
    n, narrow = 20_000, 300
    dense = sp.coo_array((np.ones(n), (np.arange(n), np.zeros(n, int))), shape=(n, narrow))
    A = sp.csr_array(dense + sp.eye_array(n, narrow), dtype=dtype)
    op = spread(A, names, format=fmt, **options)
    x = vector(n, dtype)
    assert_product(op.T @ x, sp.csr_array(A.T), x)
    assert op.T.format == "csr"
    assert_same_entries(op.T.tocsr(), sp.csr_array(A.T))


@pytest.mark.parametrize("beta", [0.0, 1.0, -0.25])
@each_type
def test_alpha_and_beta(beta, names, by, dtype):
    A = matrix("power_law_rows", dtype)
    op = spread(A, names, partition=by)
    x = vector(A.shape[1], dtype, seed=5)
    start = vector(A.shape[0], dtype) if beta else poisoned(A.shape[0], dtype)
    y = op.spmv(x, out=start.copy(), alpha=2.5, beta=beta)
    assert_product(y, A, x, alpha=2.5, beta=beta, y=start if beta else None)
    if by == "pmf":
        return
    out = op.spmv(op.vector(x), out=op.vector(start), alpha=2.5, beta=beta)
    assert_product(out.collect(), A, x, alpha=2.5, beta=beta, y=start if beta else None)


@pytest.mark.parametrize("fmt", sorted(set(sg.formats()) - {"sdia", "tsmv"}))  # whose parts are rectangles
@each_type
def test_every_format(names, fmt, dtype):
    A = matrix("banded" if fmt in ("dia", "stencil") else "equal_rows", dtype)
    op = spread(A, names, format=fmt)
    assert op.format == fmt
    assert_multiplies(op, A)


@each_type
def test_transposed(names, by, dtype):
    for case in ("power_law_rows", "wide"):
        A = matrix(case, dtype)
        op = spread(A, names, partition=by)
        x = vector(A.shape[0], dtype)
        assert op.T.device == op.device
        assert_product(op.rmatvec(x), A.T, x)
        assert op.T.T is op


@each_type
def test_partition_of_ones_own(names, dtype):
    A = matrix("uniform", dtype)
    rows = np.arange(A.shape[0])
    sets = [rows[rows % len(names) == number] for number in range(len(names))]
    own = partition.Partition.from_sets(sets, np.diff(A.indptr))
    op = sg.aslinearoperator(A, device=names, partition=own)
    assert_multiplies(op, A)
    assert_product(op.rmatvec(vector(A.shape[0], dtype)), A.T, vector(A.shape[0], dtype))


def test_powers_are_proportions():
    A = matrix("equal_rows", np.dtype("float64"))
    op = sg.aslinearoperator(A, device=["cpu"] * 3, powers=[1, 2, 5])
    assert [share.nnz for share, *_ in op._several.parts] == [A.nnz // 8, A.nnz // 4, 5 * A.nnz // 8]
    alone = sg.aslinearoperator(A, device=["cpu"] * 3, powers=[0, 1, 0])
    assert [share.nnz for share, *_ in alone._several.parts] == [0, A.nnz, 0]
    assert_multiplies(alone, A)
    assert_multiplies(sg.aslinearoperator(A, device=["cpu", "cpu"]), A)


@each_type
def test_parts_with_too_many_entries_are_made_of_several(names, by, dtype, monkeypatch):
    A = matrix("power_law_rows", dtype)
    hold_at_most(monkeypatch, 2000)
    op = spread(A, names, partition=by, powers=[1.0] * len(names))
    assert len(op._several.parts) == len(names)
    assert op.arrays().keys() >= {f"{number}.1.rows" for number in range(len(names))}
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)
    assert op.format in (*sg.formats(), "parts", "csr + sell")


def test_what_it_says(names):
    A = matrix("uniform", np.dtype("float64"))
    op = spread(A, names)
    assert op.device == tuple(names)
    for name in names:
        assert name in explained(op)
        assert name in repr(op)
    assert op.nbytes >= A.nnz * 12
    assert op.time_products(5) > 0
    assert spread(A, names, partition="pmf").time_products(5) > 0
    assert len(op.options.get("parts", names)) == len(names)
    assert set(op.setup_seconds) == {"convert", "transfer"}
    assert "SparseOperator" in op._repr_html_()
    x = op.vector(np.ones(A.shape[0]))
    assert (len(x), x.shape, x.dtype) == (A.shape[0], (A.shape[0],), A.dtype)
    assert x.nbytes >= 8 * A.shape[0] * sum(name != "cpu" for name in set(names))
    np.testing.assert_array_equal(np.asarray(x), np.ones(A.shape[0]))
    assert names[0] in repr(x)
    op.synchronize()


def test_old_names_warn():
    with pytest.warns(DeprecationWarning, match="MultiDeviceVector"):
        kind = sg.DistributedVector
    op = spread(matrix("uniform", np.dtype("float64")), ["cpu", "cpu"])
    with pytest.warns(DeprecationWarning, match=r"use vector\(x\)"):
        assert isinstance(op.distribute(), kind)


def test_vector_outlives_its_operator(names):
    A = matrix("uniform", np.dtype("float64"))
    x = vector(A.shape[1], A.dtype)
    op = spread(A, names)
    y = op @ op.vector(x)
    del op
    assert_product(y.collect(), A, x)


# Errors


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"device": []}, ValueError, "empty list"),
        ({"device": ["cpu", "cpu"], "powers": [1]}, ValueError, "1 powers for 2 devices"),
        ({"device": ["cpu", "cpu"], "powers": [1, -1]}, ValueError, "negative"),
        ({"device": ["cpu", "cpu"], "powers": [0, 0]}, ValueError, "not all 0"),
        ({"device": ["cpu", "cpu"], "partition": "columns"}, ValueError, "'nnz', 'rows', 'pmf'"),
    ],
)
def test_wishes_that_cannot_be_met(options, error, message, still_usable):
    with pytest.raises(error, match=message):
        sg.aslinearoperator(matrix("uniform", np.dtype("float64")), **options)


def test_partitions_that_do_not_fit(still_usable):
    A = matrix("equal_rows", np.dtype("float64"))
    three = partition.by_nnz(A, [1, 1, 1])
    with pytest.raises(ValueError, match="3 sets of rows for 2 devices"):
        sg.aslinearoperator(A, device=["cpu", "cpu"], partition=three)
    shorter = partition.by_nnz(matrix("uniform", np.dtype("float64")), [1, 1])
    with pytest.raises(ValueError, match=r"another matrix.*4096 rows.*row 3000 is in no set"):
        sg.aslinearoperator(A, device=["cpu", "cpu"], partition=shorter)


def test_vectors_that_cannot_be_distributed():
    A = matrix("uniform", np.dtype("float64"))
    for op in (spread(A, ["cpu"] * 2, partition="pmf"), spread(matrix("wide", A.dtype), ["cpu"] * 2)):
        with pytest.raises(ValueError, match="square matrix"):
            op.vector()


def test_vectors_that_do_not_fit(names):
    A = matrix("uniform", np.dtype("float64"))
    op, other = spread(A, names), spread(A, names)
    x = op.vector(vector(A.shape[1], A.dtype))
    with pytest.raises(ValueError, match="x itself"):
        op.spmv(x, out=x)
    with pytest.raises(ValueError, match="another operator"):
        op.spmv(x, out=other.vector())
    with pytest.raises(ValueError, match="beta=1"):
        op.spmv(x, beta=1.0)
    with pytest.raises(TypeError, match="MultiDeviceVector"):
        op.spmv(x, out=np.empty(A.shape[0]))
    with pytest.raises(TypeError, match="float32"):
        op.spmv(spread(A.astype(np.float32), names).vector())
    with pytest.raises(TypeError, match="stream"):
        op.spmv(x, stream=0)
    with pytest.raises(ValueError, match="shape"):
        x.assign(np.ones(3))
    with pytest.raises(TypeError, match="no set_x"):
        op.set_x(np.ones(A.shape[1]))


# Memory


def test_memory_limit_of_one_gpu(cuda_device, dtype):
    A = matrix("uniform", dtype)
    assert_multiplies(sg.aslinearoperator(A, device=cuda_device, memory_limit=200_000), A)


@pytest.mark.parametrize("fmt", ["dia", "sdia"])
def test_parts_along_diagonals_read_what_lies_near_them(fmt):
    """Solvers send no more than that from device to device."""
    A = gallery.poisson2d(40)
    op = sg.aslinearoperator(A, format=fmt, device=["cpu"] * 3)
    parts = op._matrix.parts
    assert {matrix.format for matrix, *_ in parts} == {fmt}
    windows = [(begin, end) for _, _, begin, end, _ in parts]
    firsts = np.cumsum([0, *(matrix.rows for matrix, *_ in parts)])
    near = [(max(0, begin - 40), min(1600, end + 40)) for begin, end in itertools.pairwise(firsts)]
    assert windows == near


# Arrays on a GPU


def test_device_arrays(gpu_names, by, library, dtype):
    """On each GPU of the list, on streams of the caller, with and without out."""
    A = matrix("power_law_rows", dtype)
    op = spread(A, gpu_names, partition=by)
    for home in sorted({name for name in gpu_names if name != "cpu"}):
        for seed in range(5):
            x, start = vector(A.shape[1], dtype, seed), vector(A.shape[0], dtype, seed + 10)
            with library.new_stream(home) as stream:
                on_device, y = library.asarray(x, home), library.asarray(start, home)
                library.delay()
                result = op @ on_device
                op.spmv(on_device, out=y, alpha=2.0, beta=0.5)
                library.fill(on_device, library.asarray(np.zeros_like(x), home))
                library.synchronize(stream)
            assert library.device_name(result) == home
            assert_product(library.to_numpy(result), A, x)
            assert_product(library.to_numpy(y), A, x, alpha=2.0, beta=0.5, y=start)


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_a_matrix_on_a_gpu(gpu_names, by, library, dtype, index_type):
    """Its arrays, which may be broken or in disorder: each device checks its own rows."""
    A = matrix("power_law_rows", dtype)
    backwards = np.concatenate(
        [np.arange(end - 1, begin - 1, -1) for begin, end in itertools.pairwise(A.indptr)]
    )
    mixed = sp.csr_array((A.data[backwards], A.indices[backwards], A.indptr), shape=A.shape)

    def operator(csr, home):
        data, *indices = csr.data, csr.indices.astype(index_type), csr.indptr.astype(index_type)
        arrays = tuple(library.asarray(array, home) for array in (data, *indices))
        return sg.aslinearoperator(arrays, device=gpu_names, partition=by, shape=csr.shape)

    for home in sorted({name for name in gpu_names if name != "cpu"}):
        for given in (A, mixed):
            assert_same_entries(operator(given, home).tocsr(), A)
        half = A.shape[0] // 2
        for place, offset in ((-1, A.nnz + 1), (half, -5), (0, 1), (half, A.nnz)):
            broken = A.copy()
            broken.indptr[place] = offset
            with pytest.raises(ValueError, match=r"indptr|row lengths"):
                operator(broken, home)


@pytest.mark.parametrize("case", ["0x0", "0x5", "5x0", "no_entries"])
def test_empty_device_arrays(case, gpu_names, library, dtype):
    A = matrix(case, dtype)
    home = next(name for name in gpu_names if name != "cpu")
    y = spread(A, gpu_names) @ library.asarray(np.ones(A.shape[1], dtype), home)
    np.testing.assert_array_equal(library.to_numpy(y), np.zeros(A.shape[0], dtype))


def test_device_arrays_of_several_streams(gpu_names, library, dtype):
    A = matrix("uniform", dtype)
    op = spread(A, gpu_names)
    home = next(name for name in gpu_names if name != "cpu")
    vectors = [vector(A.shape[1], dtype, seed) for seed in range(6)]
    sent = [library.asarray(x, home) for x in vectors]
    results = []
    for x in sent:
        with library.new_stream(home) as stream:
            results.append((op @ x, stream))
    for (y, stream), x in zip(results, vectors, strict=True):
        library.synchronize(stream)
        assert_product(library.to_numpy(y), A, x)


def test_device_arrays_elsewhere(gpu_names, library):
    A = matrix("uniform", np.dtype("float64"))
    op = spread(A, gpu_names)
    home = next(name for name in gpu_names if name != "cpu")
    x = library.asarray(vector(A.shape[1], A.dtype), home)
    outside = [name for name in CUDA_DEVICES if name not in gpu_names]
    if outside:
        with pytest.raises(ValueError, match="but the operator is on"):
            op @ library.asarray(vector(A.shape[1], A.dtype), outside[0])
    other = [name for name in set(gpu_names) - {home, "cpu"}]
    if other:
        with pytest.raises(ValueError, match=rf"out is on '{other[0]}', but x is on '{home}'; move"):
            op.spmv(x, out=library.asarray(np.zeros(A.shape[0]), other[0]))


@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")
def test_no_graph_of_several_devices(gpu_names, library):
    A = matrix("uniform", np.dtype("float64"))
    op = spread(A, gpu_names)
    home = next(name for name in gpu_names if name != "cpu")
    x, y = library.asarray(vector(A.shape[1], A.dtype), home), library.asarray(np.zeros(A.shape[0]), home)
    refused = []
    with library.capture(home):
        try:
            op.spmv(x, out=y)
        except ValueError as error:
            refused.append(str(error))
    assert "captured" in refused[0]
    assert_product(library.to_numpy(op @ x), A, library.to_numpy(x))
