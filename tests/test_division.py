"""How rows are divided among devices, planned on any machine: powers, memory, and interiors.

An interior is the rows of a device that need nothing of other devices. Products begin with it.
"""

import gc
from bisect import bisect_left
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import TYPES, banded, matrix, uniform, vector
from internals import let_parts_have_interiors, predict_considered
from reference import assert_product
from spmvgpu import gallery, linalg
from spmvgpu._core import DeviceArray, MultiDeviceMatrix, PartedMatrix
from spmvgpu.devices import CPU, resolve_device
from spmvgpu.inputs.canonical import canonical_csr
from spmvgpu.inputs.csr import CanonicalCsr
from spmvgpu.inputs.rows import OffsetsThere
from spmvgpu.multi_device import division
from spmvgpu.planning.request import Request
from support import assert_multiplies, assert_same_entries, each_type, explained, free_device_bytes
from test_multi import by, gpu_names, spread  # noqa: F401  (two are fixtures)

# Powers and memory


def test_powers_are_those_of_the_profiles_where_both_devices_have_one(monkeypatch):
    A = matrix("uniform", np.dtype("float64"))
    monkeypatch.setattr(division, "device_model", lambda ordinal: f"model {ordinal}")
    monkeypatch.setattr(division, "calibrated_power", lambda ordinal, dtype: {0: 30e9, -1: 1e9}[ordinal])
    assert division.measured_powers(CanonicalCsr.of(A), Request(tune="off"), [0, -1]) == (30e9, 1e9)


def numbers_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


@pytest.mark.parametrize(
    "offsets",
    [
        numbers_of(np.full(1_000_000, 7)),
        numbers_of(np.random.default_rng(0).zipf(1.4, 100_000).clip(max=9000)),
        numbers_of(np.r_[np.zeros(70_000), 1, np.zeros(70_000), 50_000_000, np.ones(70_000)]),
        numbers_of([]),
        numbers_of([0]),
        numbers_of([5]),
        numbers_of(np.zeros(9000)),
        np.random.default_rng(0).integers(-9, 99, 50_000, np.int32),  # of a broken matrix
    ],
)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_search_among_offsets_where_they_lie(offsets, dtype, device):
    offsets, ordinal = offsets.astype(dtype), resolve_device(device)
    copy = None if ordinal == CPU else DeviceArray(offsets.shape, offsets.dtype, ordinal)
    if copy is not None:
        copy.upload(offsets)
    pointer = offsets.ctypes.data if copy is None else copy.pointer
    there = OffsetsThere(
        SimpleNamespace(shape=offsets.shape, dtype=offsets.dtype, pointer=pointer, ordinal=ordinal)
    )
    is_sorted = bool((np.diff(offsets) >= 0).all())
    for wanted in {*np.linspace(0, int(offsets.max()), 9, dtype=int).tolist(), 1, int(offsets[-1]) + 1}:
        found = there.first_at_least(wanted)
        assert found == bisect_left(offsets, wanted) or not is_sorted
        assert 0 <= found <= len(offsets)
        for k in (found - 1, min(found, len(offsets) - 1), 0, -1):
            assert there[k] == offsets[k]


def plan(A, limit):
    """The shares of two GPUs with so much memory, planned on any machine."""
    divided = [
        division.DevicePart(range(A.shape[0] // 2), 0),
        division.DevicePart(range(A.shape[0] // 2, A.shape[0]), 1),
    ]
    return division.fit(CanonicalCsr.of(A), Request("csr", tune="off"), divided, limit)


@pytest.mark.parametrize("streaming_wins", [False, True])
def test_plan_for_little_memory(streaming_wins, monkeypatch):
    A = sp.csr_array(banded(200_000, [-3, -2, -1, 0, 1, 2, 3]))
    A.indices, A.indptr = A.indices.astype(np.int32), A.indptr.astype(np.int32)
    monkeypatch.setattr(division, "_BUS_RATE", 1e30 if streaming_wins else 1e3)
    size = 12 * A.nnz // 2 + 12 * A.shape[0]
    assert [len(share.rows) for share in plan(A, 2 * size)] == [100_000, 100_000]
    planned = plan(A, int(0.7 * size))
    assert sorted(row for share in planned for row in share.rows) == list(range(A.shape[0]))
    if streaming_wins:
        assert [share.ordinal for share in planned] == [0, 1]
        assert all(0 < share.resident < len(share.rows) for share in planned)
    else:
        assert [share.ordinal for share in planned] == [0, -1, 1, -1]
    resident = [share.rows[: share.resident] for share in planned if share.ordinal >= 0]
    assert all(12 * A[rows.start : rows.stop].nnz < 0.7 * size for rows in resident)
    assert any("do not fit" in share.reason and "streaming" in share.reason for share in planned)


def test_plan_for_no_memory(monkeypatch):
    A = matrix("equal_rows", np.dtype("float64"))
    monkeypatch.setattr(division, "_BUS_RATE", 1e3)
    planned = plan(A, 0)
    assert {share.ordinal for share in planned} == {-1}
    assert sum(len(share.rows) for share in planned) == A.shape[0]


@pytest.mark.parametrize("bus_rate", [1e3, 1e30])
@pytest.mark.parametrize("case", ["power_law_rows", "uniform", "long_rows_in_a_row", "wide"])
@each_type
def test_rows_that_do_not_fit(case, bus_rate, gpu_names, by, dtype, monkeypatch):  # noqa: F811
    """On the CPU, or streamed through the GPU; every kind of vector."""
    A = matrix(case, dtype)
    monkeypatch.setattr(division, "_BUS_RATE", bus_rate)
    # A GPU that other tests use at the moment measures so slow that its share fits.
    monkeypatch.setattr(
        division, "measured_powers", lambda csr, request, ordinals: [8.0 if o >= 0 else 1.0 for o in ordinals]
    )
    limit = dtype.itemsize * sum(A.shape) + int(0.3 * (A.nnz * (4 + dtype.itemsize)) / len(gpu_names))
    op = spread(A, gpu_names, partition=by, memory_limit=limit, powers=None)
    assert "do not fit" in explained(op)
    assert ("streamed" if bus_rate > 1e9 else "cpu") in op.explain()
    assert_multiplies(op, A)
    assert_same_entries(op.tocsr(), A)
    if by != "pmf" and A.shape[0] == A.shape[1]:
        x = vector(A.shape[1], dtype)
        given, y = op.vector(x), op.vector()
        for _ in range(12):  # so often that products of rows that fit are recorded
            op.spmv(given, out=y)
        assert_product(y.collect(), A, x)


@pytest.mark.alone_on_gpu
def test_a_gpu_without_memory(gpu_names, monkeypatch):  # noqa: F811
    """With 64 MiB free, a plan that expects more ends in an error and leaves nothing behind; ours fits."""
    cupy = pytest.importorskip("cupy")
    A = sp.csr_array(banded(1_000_000, range(-10, 11)))
    A.data = vector(A.nnz, A.dtype)
    x = vector(A.shape[1], A.dtype)
    home = next(name for name in gpu_names if name != "cpu")
    powers = [8.0 if name == home else 1.0 for name in gpu_names]

    def free_after_failure():
        with pytest.raises(MemoryError, match=r"\d.*free|free.*\d"):
            sg.aslinearoperator(A, device=gpu_names, powers=powers)
        gc.collect()
        sg.release_memory()  # waits for what was freed: it counts as used until then
        return free_device_bytes(home)

    with cupy.cuda.Device(int(home.partition(":")[2])):
        sg.release_memory()
        free, _ = cupy.cuda.runtime.memGetInfo()
        filler = cupy.cuda.runtime.malloc(free - 2**26)
        try:
            assert_product(sg.aslinearoperator(A, device=gpu_names) @ x, A, x)
            monkeypatch.setattr(division, "fit", lambda csr, request, divided, limit: divided)
            # The first failure may load kernels and make streams, which stay; the others must add nothing.
            left = free_after_failure()
            for _ in range(3):
                assert free_after_failure() >= left - 2**22
        finally:
            cupy.cuda.runtime.free(filler)
    assert_product(sg.aslinearoperator(A, device=gpu_names) @ x, A, x)


@pytest.mark.parametrize("cut", [0, 40])
def test_room_is_kept_for_a_matrix_cut_by_length(cut, dtype):
    """What a share is expected to take before it goes to a GPU, here for the CPU."""
    csr = canonical_csr(uniform(300, 250, 12), dtype=dtype)
    op = sg.aslinearoperator(csr.host, "partitioned", "cpu", separator=cut)
    request = Request("partitioned", {"separator": cut})
    assert division._bytes_needed(csr, request, CPU) == op.nbytes


def test_memory_is_planned_for_formats_that_may_be_chosen(crossings):
    """A format may take fewer bytes, and be none that a GPU gets unless it is asked for."""
    A = gallery.poisson2d(60)
    csr, found = CanonicalCsr.of(A), predict_considered(A)
    _, _, _, nbytes, *_ = min(found, key=lambda entry: entry[2] if entry[2] is not None else np.inf)
    with crossings.pretended_gpu():
        assert division._bytes_needed(csr, Request(), 0) == nbytes


# Interiors


FORMATS = ["auto", "csr", "sell", "dia", "sdia", "bsell", "packed_sell"]


@pytest.fixture
def interiors(monkeypatch):
    let_parts_have_interiors(monkeypatch, 1)


def rows_of(A, rows, ordinal=0, **how):
    """Some rows of a matrix, what says that they go to a device, and the columns that they reach."""
    own = CanonicalCsr.of(A).rows(rows)
    return own, division.DevicePart(rows, ordinal, **how), own.column_reach()


def read_by(A, rows, fmt):
    """The elements of x that some rows read in a format."""
    own = CanonicalCsr.of(A).rows(rows)
    return range(*division._window(own, own.column_reach(), own.build(fmt, {}, CPU)))


@pytest.mark.usefixtures("interiors")
def test_the_interior_of_a_grid():
    """Of a grid of planes, all but the first and the last plane of a device; at its ends there is nobody."""
    A = sp.csr_array(gallery.poisson3d(10))
    for rows, expected in (
        (range(300), range(200)),
        (range(300, 800), range(100, 400)),
        (range(700, 1000), range(100, 300)),
    ):
        assert division._interior(*rows_of(A, rows)) == expected


def test_an_interior_begins_where_y_is_aligned(monkeypatch):
    monkeypatch.setattr(division, "_LEAST_INTERIOR", 1)
    A = sp.csr_array(gallery.poisson3d(13))  # of planes with 169 rows
    for rows, expected in ((range(845), range(676)), (range(845, 1859), range(192, 845))):
        assert division._interior(*rows_of(A, rows)) == expected


@pytest.mark.usefixtures("interiors")
@pytest.mark.parametrize("fmt", ["csr", "dia", "sdia"])
@pytest.mark.parametrize("offsets", [[-7, -1, 0, 1, 7], [-30, 0, 2, 30], [0, 11], [-11, -3], [5]])
def test_no_format_reads_the_halo_for_an_interior(fmt, offsets):
    A = sp.csr_array(banded(400, offsets))
    A.data[A.indptr[200] : A.indptr[201]] = 0  # an empty row
    A.eliminate_zeros()
    if fmt == "sdia":
        A = A + A.T
    for own in (range(150), range(150, 290), range(290, 400)):
        inside = division._interior(*rows_of(A, own))
        assert inside or own.start != 150
        read = read_by(A, range(own.start + inside.start, own.start + inside.stop), fmt)
        assert not inside or own.start <= read.start < read.stop <= own.stop


@pytest.mark.usefixtures("interiors")
def test_rows_without_an_interior(monkeypatch):
    A = sp.csr_array(gallery.poisson3d(10))
    rows = range(300, 700)
    assert division._interior(*rows_of(A, rows))
    assert not division._interior(*rows_of(A, rows, CPU))
    assert not division._interior(*rows_of(A, rows, resident=200))
    assert not division._interior(*rows_of(A, rows, is_full=True))
    assert not division._interior(*rows_of(A, np.arange(300, 700, 2, dtype=np.int32)))
    assert not division._interior(*rows_of(A, range(300, 480)))  # 80 of 180 rows
    assert not division._interior(*rows_of(sp.csr_array((1000, 1000)), rows))
    diagonal = sp.csr_array(sp.diags_array(np.ones(1000)))
    assert not division._interior(*rows_of(diagonal, rows))  # no halo
    scattered = sp.random_array((1000, 1000), density=0.05, format="csr", random_state=1)
    assert not division._interior(*rows_of(scattered, rows))
    monkeypatch.setattr(division, "_LEAST_INTERIOR", 1_000_000)
    assert not division._interior(*rows_of(A, rows))


def test_an_interior_is_made_of_parts():
    """Nobody says that rows are an interior that no part has."""
    A = sp.csr_array(gallery.poisson1d(10))
    own = CanonicalCsr.of(A).build("csr", {}, CPU)
    with pytest.raises(ValueError, match="interior"):
        MultiDeviceMatrix(10, 10, [(own, 0, 0, 10, 1)])


def with_interiors(A, names, **options):
    """An operator of which every part on a GPU has an interior, if there are several parts."""
    op = sg.aslinearoperator(A, device=names, **options)
    for (part, *_, interior_parts), name in zip(op._matrix.parts, names, strict=True):
        has_interior = name != "cpu" and len(names) > 1
        assert interior_parts == (1 if has_interior else 0)
        assert isinstance(part, PartedMatrix) == has_interior
    return op


@pytest.mark.gpu
@pytest.mark.usefixtures("interiors")
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("dtype", TYPES)
def test_products_begin_with_interiors(fmt, gpu_names, dtype):  # noqa: F811
    """Chains of them; a vector filled anew; whole vectors; and the entries are those of the matrix."""
    A = sp.csr_array(gallery.poisson3d(30), dtype=dtype)
    A.data /= 12
    op = with_interiors(A, gpu_names, format=fmt, powers=[1.0] * len(gpu_names))
    x = vector(A.shape[0], dtype)
    ours, other, expected = op.vector(x), op.vector(), x
    for _ in range(5):
        op.spmv(ours, out=other)
        assert_product(other.collect(), A, expected)
        ours, other = other, ours
        expected = ours.collect()
    for _ in range(3):
        ours.assign(x)
        op.spmv(ours, out=other, alpha=2.0)
        ours.assign(np.full_like(x, np.nan))
        assert_product(other.collect(), A, x, alpha=2.0)
    assert_product(op @ x, A, x)
    assert abs(op.tocsr() - A).sum() == 0


@pytest.mark.gpu
@pytest.mark.usefixtures("interiors")
@pytest.mark.parametrize("solver", ["cg", "minres", "bicgstab", "gmres"])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_solvers_over_interiors(solver, preconditioned, gpu_names):  # noqa: F811
    A = sp.csr_array(gallery.poisson3d(30))
    b = A @ vector(A.shape[0], A.dtype)
    one = sg.aslinearoperator(A, device=next(name for name in gpu_names if name != "cpu"), format="csr")
    op = with_interiors(A, gpu_names, format="csr", powers=[1.0] * len(gpu_names))
    M = [linalg.chebyshev(made) if preconditioned else None for made in (op, one)]
    residuals: list[float] = []
    x, info = getattr(linalg, solver)(op, b, M=M[0], rtol=1e-9, maxiter=2000, residuals=residuals)
    expected, _ = getattr(linalg, solver)(one, b, M=M[1], rtol=1e-9, maxiter=2000)
    assert info == 0
    assert op.solve_info.pieces == (1 if "cpu" in gpu_names else len(gpu_names))
    assert np.linalg.norm(x - expected) <= 1e-6 * np.linalg.norm(expected)
    slack = 0.25 if solver == "bicgstab" else 0.02
    assert abs(op.solve_info.iterations - one.solve_info.iterations) <= 1 + slack * one.solve_info.iterations
