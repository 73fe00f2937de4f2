"""Matrices in CSR on a device, of which formats are planned and made there.

What is built there is what the host builds, to the bit. On a machine without a GPU a source lies in host
memory, and what chooses a format finds the same with it; the kernels need a GPU.
"""

import gc
import weakref
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, COMPLEX_TYPES, TYPES, banded, matrix, uniform, vector
from spmvgpu import gallery
from spmvgpu._core import CsrSource, EntriesBetween, PartedMatrix
from spmvgpu.devices import CPU, resolve_device
from spmvgpu.formats import candidates
from spmvgpu.inputs.canonical import CsrArrays, source_of
from spmvgpu.inputs.csr import CanonicalCsr
from spmvgpu.planning import parts, tuning_cache
from spmvgpu.planning.choosing import choose
from spmvgpu.planning.profile import SHIPPED, Profile
from spmvgpu.planning.request import Request
from support import assert_same_entries, free_device_bytes, in_turn
from test_model import LENGTHS, features_of, of_lengths, rows_of
from test_reorder import MESH, symmetric_banded

ALL_TYPES = [*TYPES, *COMPLEX_TYPES]


def checked(A, device):
    """A matrix as it comes, on a device."""
    return source_of(A).on_device(resolve_device(device), None)


def on_host(A):
    """The same in host memory, with arrays that nobody checked: they are canonical."""
    return CanonicalCsr.of(A)


def outcome(call):
    """What it gives, or the message of a refusal."""
    try:
        return call()
    except sg.FormatError as refused:
        return str(refused)


def facts(call):
    """What a plan says, or the message of a refusal."""
    plan = outcome(call)
    names = "options", "bytes", "padding", "slots", "launches", "gathers", "counts"
    return plan if isinstance(plan, str) else {name: getattr(plan, name) for name in names}


def assert_same_arrays(found, expected, what):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, (what, name)
        np.testing.assert_array_equal(
            found[name].view(np.uint8) if array.size else found[name],
            array.view(np.uint8) if array.size else array,
            err_msg=f"{what}: {name}",
        )


# Sources


@pytest.mark.parametrize("dtype", ALL_TYPES)
@pytest.mark.parametrize("case", list(CASES))
def test_a_source_holds_the_matrix(case, device, dtype):
    A = matrix(case, dtype)
    source = checked(A, device)
    assert (source.shape, source.nnz, source.dtype) == (A.shape, A.nnz, A.dtype)
    assert_same_entries(source.host, A)
    steps = A.shape[0] // 7 + 1, A.nnz // 11 + 1
    for found, expected in zip(source.sample(*steps), (A.indptr, A.indices), strict=True):
        np.testing.assert_array_equal(found, expected[:: steps[0] if expected is A.indptr else steps[1]])
    assert_same_entries(source.transposed().host, sp.csr_array(A.T))


BROKEN = {
    "unsorted": ([1, 0, 2], [0, 2, 3]),
    "duplicate": ([0, 0, 2], [0, 2, 3]),
    "negative": ([-1, 0, 2], [0, 2, 3]),
    "too_large": ([0, 3, 2], [0, 2, 3]),
    "offset_first": ([0, 1, 2], [1, 2, 3]),
    "offset_decreases": ([0, 1, 2], [0, 4, 3]),
    "offset_negative": ([0, 1, 2], [0, -1, 3]),
    "offset_last": ([0, 1, 2], [0, 2, 2]),
}


@pytest.mark.parametrize("case", list(BROKEN))
def test_what_is_not_canonical_is_no_source(case, device):
    """It takes the way through host memory, which sorts it or says what is wrong."""
    indices, indptr = (np.array(numbers, np.int32) for numbers in BROKEN[case])
    arrays = np.ones(3), indices, indptr
    assert CsrArrays(arrays, (2, 3)).on_device(resolve_device(device), None) is None
    make = partial(sg.aslinearoperator, arrays, format="csr", device=device, shape=(2, 3))
    if case in ("unsorted", "duplicate"):
        dense = np.zeros((2, 3))
        np.add.at(dense, ([0, 0, 1], indices), 1.0)
        np.testing.assert_array_equal(make().tocsr().toarray(), dense)
    else:
        with pytest.raises(ValueError, match=r"indptr|indices|mismatched"):
            make()


def test_a_row_may_begin_with_any_column(device):
    """What descends from the end of a row to the begin of the next is no disorder."""
    A = sp.csr_array((np.ones(4), np.array([0, 2, 0, 1], np.int32), np.array([0, 0, 2, 2, 4], np.int32)))
    assert_same_entries(checked(A, device).host, A)


def test_what_else_is_no_source(device):
    A = matrix("uniform", np.dtype("float64"))
    ordinal = resolve_device(device)
    others = {
        "csc": A.tocsc(),
        "integers": A.astype(np.int64),
        "wide indices": sp.csr_array((A.data, A.indices.astype("i8"), A.indptr.astype("i8")), A.shape),
        "dense": A.toarray(),
    }
    for what, other in others.items():
        assert source_of(other).on_device(ordinal, None) is None, what
    assert source_of(A).on_device(ordinal, np.dtype("float32")) is None
    assert CsrArrays((A.data, A.indices, A.indptr[:-1]), A.shape).on_device(ordinal, None) is None


def sampled(rows=150_000, cols=90_000):
    """More rows and entries than are looked at."""
    A = sp.random_array((rows, cols), density=1e-4, format="csr", random_state=np.random.default_rng(1))
    A.sort_indices()
    assert A.nnz > 2 * 2**19
    return sp.csr_array((A.data, A.indices.astype(np.int32), A.indptr.astype(np.int32)), shape=A.shape)


def windows(nnz, rows=50):
    """As many entries as fill windows, or as sets in shared memory hold."""
    indptr = np.minimum(np.arange(rows + 1) * -(-nnz // rows), nnz).astype(np.int32)
    places = np.arange(nnz) - np.repeat(indptr[:-1], np.diff(indptr))
    indices = (places * 40_000 + np.random.default_rng(nnz).integers(0, 40_000, nnz)).astype(np.int32)
    return sp.csr_array((np.ones(nnz, np.float32), indices, indptr), shape=(rows, 2**31 - 1))


AT_LIMITS = [4095, 4096, 4097, 6553, 6554, 8193, 2**19 - 1, 2**19, 2**19 + 1]
FEATURED = {
    **{f"{case} {dtype}": partial(matrix, case, dtype) for case, dtype in in_turn(list(CASES), ALL_TYPES)},
    **{f"{case} {dtype}": partial(of_lengths, case, dtype) for case in LENGTHS for dtype in ALL_TYPES},
    **{f"{nnz} entries": partial(windows, nnz) for nnz in AT_LIMITS},
    "sampled": sampled,
}


@pytest.mark.parametrize("name", FEATURED)
def test_features_are_those_of_the_host(name, device):
    A = FEATURED[name]()
    assert features_of(checked(A, device)) == features_of(on_host(A))


@pytest.mark.parametrize("case", CASES)
def test_rows_columns_and_what_they_reach(case, device):
    A = matrix(case, np.float64)
    A.sort_indices()
    source = checked(A, device)
    assert source.column_reach() == on_host(A).column_reach()
    rows, cols = A.shape
    for begin, end in ((0, cols), (cols // 3, cols - cols // 4), (cols // 2, cols // 2)):
        assert_same_entries(source.columns(begin, end).host, A[:, begin:end])
        outside = A.tocoo()
        kept = (outside.col < begin) | (outside.col >= end)
        entries = outside.data[kept], (outside.row[kept], outside.col[kept])
        assert_same_entries(source.outside(begin, end).host, sp.csr_array(entries, shape=A.shape))
    assert_same_entries(source.columns(-2, cols + 3).host[:, 2 : cols + 2], A)
    for begin, end in ((0, rows), (rows // 3, rows - rows // 4), (rows // 2, rows // 2)):
        some = source.rows(range(begin, end))
        assert some.ordinal == source.ordinal
        assert some.nnz == A[begin:end].nnz
        assert_same_entries(some.host, A[begin:end])


def test_rows_are_windows_on_a_matrix(device, fmt):
    """They outlive it, and a format that is built of them has arrays of its own."""
    A, ordinal = sp.csr_array(banded(300, range(-2, 3))), resolve_device(device)
    source = checked(A, device).source
    some = CanonicalCsr.on(source.rows(100, 201))
    assert some.source.values == source.values + int(A.indptr[100]) * A.dtype.itemsize
    del source
    gc.collect()
    assert_same_entries(some.host, A[100:201])
    built = outcome(lambda: some.build(fmt, {}, ordinal))
    if not isinstance(built, str):
        built.update_values(np.zeros(some.nnz))
    assert_same_entries(CanonicalCsr.on(some.source).host, A[100:201])


@pytest.mark.parametrize(("case", "dtype"), in_turn(list(CASES), ALL_TYPES))
def test_matrices_made_of_others(case, dtype, device):
    """They are made where the others lie, and have the entries that SciPy finds."""
    A = sp.csr_array(matrix(case, dtype))
    A.sort_indices()
    rng = np.random.default_rng(4)
    rows, cols = A.shape

    def random(height, width):
        count = min(4 * height, height * width)
        places = rng.integers(0, max(height, 1), count), rng.integers(0, max(width, 1), count)
        return sp.csr_array((rng.standard_normal(count).astype(dtype), places), shape=(height, width))

    B, C = random(cols, 23), random(rows, cols)
    a, b, c = (CanonicalCsr.of(M).to(resolve_device(device)) for M in (A, B, C))
    # A few rows at the ends of many, and a matrix that is wider on both sides.
    scattered = np.arange(rows) + 200_000 * (np.arange(rows) >= rows // 2)
    ends = sp.csr_array((A.tocoo().data, (scattered[A.tocoo().row], A.tocoo().col)), (rows + 200_000, cols))
    at_ends = CanonicalCsr.of(ends).to(resolve_device(device))
    W = random(rows, cols + 10)
    wide = CanonicalCsr.of(W).to(resolve_device(device))
    some_rows = rng.permutation(rows)[: rows // 2].astype(np.int32)
    made = {
        "rows": (a.rows(some_rows), A[some_rows]),
        "rows for others": (a.shared_rows(some_rows, 2, cols + 5, a.ordinal), within(A[some_rows], 2, 3)),
        "sum of rows": (
            a.sum_of_rows([a, c, a], range(rows // 3, rows), a.ordinal),
            (2 * A + C)[rows // 3 :],
        ),
        "sum with empty rows": (at_ends.plus(at_ends), 2 * ends),
        "sum": (a.plus(c), A + C),
        "sum within": (a.plus(wide, 5), within(A, 5, 5) + W),
        "product": (a.times(b), A @ B),
        "stacked": (type(a).stacked([a, c, a]), sp.vstack([A, C, A])),
        "copy": (a.to(CPU), A),
    }
    for what, (found, expected) in made.items():
        assert found.shape == expected.shape, what
        assert found.ordinal == (CPU if what == "copy" else a.ordinal), what
        assert found.nnz == len(found.data), what
        error = abs(found.host - sp.csr_array(expected))
        size = (abs(A) @ abs(B)) if what == "product" else abs(expected)
        assert error.max() <= 8 * np.finfo(dtype).eps * abs(size).max() if error.nnz else True, what


def within(A, left, right):
    """A matrix with empty columns on both sides."""
    empty = (sp.csr_array((A.shape[0], cols), dtype=A.dtype) for cols in (left, right))
    return sp.hstack([next(empty), A, next(empty)], format="csr")


@pytest.mark.parametrize("dtype", ALL_TYPES)
def test_entries_between_pieces(dtype, device):
    """What they add to the matrix of a coarser level, against the formula of `between_pieces.hpp`."""
    rng = np.random.default_rng(8)
    begin, end, fine, first, total = 30, 150, 400, 3, 40
    rows = end - begin

    def random(height, width, density):
        made = sp.random_array((height, width), density=density, rng=rng, format="csr", dtype=np.float64)
        made.data = vector(made.nnz, dtype)
        return made.astype(dtype)

    def here(A):
        return CanonicalCsr.of(sp.csr_array(A)).to(resolve_device(device))

    def check(source, expected):
        found = CanonicalCsr.on(source).host.toarray()
        np.testing.assert_allclose(
            found, expected, rtol=0, atol=200 * np.finfo(dtype).eps * abs(expected).max()
        )

    E, B, Q = random(rows, fine, 0.003), random(rows, rows, 0.1), random(rows, 30, 0.2)
    B = sp.csr_array(B + B.conj().T)
    between = EntriesBetween(here(E).source, begin, end)
    near, needed = between.near, between.needed
    outside = np.r_[:begin, end:fine]
    np.testing.assert_array_equal(near, np.flatnonzero(np.diff(E.indptr)))
    np.testing.assert_array_equal(needed, outside[np.diff(E.tocsc().indptr)[outside] > 0])
    assert 0 < len(near) < rows

    listed = np.unique(np.r_[near + begin, needed]).astype(np.int32)
    check(
        between.near_rows(here(B).source, listed),
        (within(B, begin, fine - end) + E)[near][:, listed].toarray(),
    )
    of_Q, of_D = random(len(needed), total, 0.2), random(len(needed), total, 0.2)
    D = np.zeros((rows, total), dtype)
    D[near] = random(len(near), total, 0.3).toarray()
    Q_of_all, D_of_all = np.zeros((2, fine, total), dtype)
    Q_of_all[begin:end, first : first + 30], Q_of_all[needed] = Q.toarray(), of_Q.toarray()
    D_of_all[begin:end], D_of_all[needed] = D, of_D.toarray()
    EQ = between.times(here(Q).source, here(of_Q).source, first)
    check(EQ, (E @ Q_of_all)[near])

    block, own = here(B).source, here(Q).source
    BQ, EP, wide = B @ Q_of_all[begin:end], E @ (Q_of_all + D_of_all), Q_of_all[begin:end].conj().T
    found, adjoint = between.coupled(block, own, EQ, here(D).source, here(of_D).source, first)
    check(found, wide @ EP + BQ.conj().T @ D + D.conj().T @ (BQ + B @ D + EP))
    D_of_piece = np.zeros((fine, total), dtype)
    D_of_piece[begin:end] = D
    check(adjoint, D_of_piece.conj().T)
    found, adjoint = between.coupled(block, own, EQ, first=first)
    check(found, wide @ (E @ Q_of_all))
    assert adjoint is None

    short = here(Q[1:]).source
    for call in (
        lambda: between.times(short, own, 0),
        lambda: between.times(own, short, 0),
        lambda: between.near_rows(short, listed),
        lambda: between.coupled(block, short, EQ),
    ):
        with pytest.raises(ValueError, match="rows in place of"):
            call()


def test_the_largest_eigenvalue_scaled(device):
    A = gallery.poisson2d(30, contrast=100.0)
    inverse = 1 / A.diagonal()
    root = sp.diags_array(np.sqrt(inverse))
    largest = np.linalg.eigvalsh((root @ A @ root).toarray())[-1]
    found = checked(A, device).source.largest_eigenvalue(inverse)
    assert 0.9 * largest <= found <= 1.01 * largest


def test_matrices_that_do_not_fit_together(device):
    a = checked(sp.csr_array(np.eye(3)), device)
    b = checked(sp.csr_array(np.ones((4, 5))), device)
    stack = type(a).stacked
    for call in (lambda: a.plus(b), lambda: a.plus(a, 1), lambda: a.times(b), lambda: stack([a, b])):
        with pytest.raises(ValueError, match=r"shapes|widths"):
            call()
    with pytest.raises(IndexError, match="rows"):
        a.rows(np.array([3], np.int32))


# What is planned and built of them


@pytest.mark.parametrize(("case", "dtype"), in_turn(list(CASES), ALL_TYPES))
def test_the_same_is_predicted(case, device, dtype):
    """For every format, whether it is chosen unasked or not."""
    A, profile = matrix(case, dtype), Profile.read(SHIPPED / "nvidia-h200.json")
    source, host = checked(A, device), on_host(A)
    assert tuning_cache.fingerprint(source) == tuning_cache.fingerprint(host)
    model = profile.model(A.dtype, True)
    found, expected = (given.source.predict(0, model)[0] for given in (source, host))
    assert found == expected


@pytest.mark.parametrize("case", ["uniform", "power_law_rows", "banded", "sym_blocks", "no_entries", "0x0"])
def test_plans_are_those_of_the_host(case, fmt, device):
    """Of all but the formats that refuse, which say the same."""
    A, ordinal = matrix(case, np.dtype("float64")), resolve_device(device)
    source, host = checked(A, device), on_host(A)
    for options in [{}, *candidates(fmt)]:
        found, expected = (facts(partial(given.plan, fmt, ordinal, options)) for given in (source, host))
        assert found == expected


@pytest.mark.parametrize("lengths", [[16], [8, 12, 16, 20, 28, 33], [1, 2, 40], [3, 0]])
def test_plans_are_the_same_if_nobody_asked_for_features(lengths, fmt, dtype, rng):
    """Of a format that is named in the call, nothing is predicted before it is planned for a GPU."""
    A = rows_of(rng.choice(lengths, 20_000)).astype(dtype)
    named, predicted = on_host(A), on_host(A)
    assert predicted.features.nnz == A.nnz
    found, expected = (facts(partial(given.plan, fmt, 0, {}, 132)) for given in (named, predicted))
    assert found == expected


def test_parts_and_transposes_of_a_source(device):
    A, ordinal = matrix("power_law_rows", np.dtype("float64")), resolve_device(device)
    source = checked(A, device)
    choice, stored, _ = choose(on_host(A), Request("partitioned", {"separator": 1000}, "off"), ordinal)
    assert_same_arrays(parts.arrays(parts.build(source, choice, ordinal)), parts.arrays(stored), "parts")
    turned = source.transposed()
    assert turned.ordinal == ordinal
    assert_same_entries(turned.host, sp.csr_array(A.T))
    assert source.at(ordinal) is source


@pytest.mark.gpu
@pytest.mark.parametrize(("case", "dtype"), [(case, dtype) for case in CASES for dtype in ALL_TYPES])
def test_a_gpu_builds_what_the_host_builds(case, dtype, fmt, cuda_device):
    A, ordinal = matrix(case, dtype), resolve_device(cuda_device)
    source = checked(A, cuda_device)
    for options in [{}, *candidates(fmt)] if dtype == np.dtype("float64") else [{}]:
        expected = outcome(partial(on_host(A).source.build, fmt, options, ordinal, on_host=True))
        for given in (source, on_host(A)):
            found = outcome(partial(given.build, fmt, options, ordinal))
            if isinstance(expected, str):
                assert found == expected
                continue
            assert found.options == expected.options
            assert_same_arrays(found.arrays(), expected.arrays(), (case, fmt, options))


# Memory, and the bus


@pytest.mark.parametrize("what", ["rank", "sample", "build"])
def test_a_device_without_room_for_planning(what, cuda_device, monkeypatch):
    """The matrix is planned in host memory then, where nothing of it is left on the device."""
    A, ordinal = matrix("uniform", np.dtype("float64")), resolve_device(cuda_device)
    whole = getattr(CsrSource, what)

    def refuse(source, *arguments):
        if source.ordinal == ordinal:
            raise MemoryError("504 bytes asked for")
        return whole(source, *arguments)

    monkeypatch.setattr(CsrSource, what, refuse)
    with sg.cache.empty():
        csr = checked(A, cuda_device)
        released = weakref.ref(csr.source)
        _, stored, tuning = choose(csr, Request(tune="full"), ordinal)
        assert released() is None
        assert tuning.mode == "full"
        assert_same_entries(parts.to_csr(stored), A)
        assert_same_entries(sg.aslinearoperator(A, device=cuda_device, tune="full").tocsr(), A)


def test_a_plan_serves_the_matrix_that_is_built_by_it(fmt, device, dtype):
    A = matrix("equal_rows", dtype)
    for given in ({}, candidates(fmt)[-1]):
        planned, fresh = checked(A, device), checked(A, device)
        ordinal = planned.ordinal
        plan = outcome(partial(planned.plan, fmt, ordinal, given))
        first, second = (outcome(partial(planned.build, fmt, given, ordinal)) for _ in range(2))
        expected = outcome(partial(fresh.build, fmt, given, ordinal))
        if isinstance(expected, str):
            assert plan == first == second == expected
            continue
        for found in (first, second):
            assert found.options == expected.options == plan.options
            assert found.counts == expected.counts
            assert_same_arrays(found.arrays(), expected.arrays(), (fmt, given))
        first.update_values(A.data * 2)  # which are its own
        assert_same_arrays(second.arrays(), expected.arrays(), (fmt, given))


def test_a_plan_for_another_device_is_not_taken(device):
    A = matrix("uniform", np.dtype("float64"))
    source, fresh = checked(A, device), checked(A, device)
    options, ordinal = {"kernel": "balanced"}, source.ordinal
    source.plan("csr", ordinal, options, 1)
    source.plan("csr", 0, options, 132)
    found, expected = (made.build("csr", options, ordinal) for made in (source, fresh))
    assert found.options == expected.options
    assert_same_arrays(found.arrays(), expected.arrays(), "csr")


@pytest.mark.gpu
@pytest.mark.alone_on_gpu
def test_nothing_is_left_on_the_device(fmt, cuda_device):
    A = matrix("equal_rows", np.dtype("float64"))
    make = partial(sg.aslinearoperator, A, format=fmt, device=cuda_device)
    for _ in range(5):  # until the pool and its streams keep what they use
        outcome(lambda: make().T)
    gc.collect()
    before = free_device_bytes(cuda_device)
    for _ in range(20):
        outcome(lambda: make().T)
    gc.collect()
    assert free_device_bytes(cuda_device) == before


@pytest.mark.gpu
def test_a_matrix_of_cupy_does_not_cross_the_bus(fmt, cuda_device, monkeypatch):
    cupy = pytest.importorskip("cupy")
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    A = matrix("equal_rows", np.dtype("float64"))
    with cupy.cuda.Device(resolve_device(cuda_device)):
        given = sparse.csr_matrix(sp.csr_matrix(A))
        arrays = given.data, given.indices, given.indptr
    monkeypatch.setattr(sparse.csr_matrix, "get", lambda self: pytest.fail("it was fetched"))
    try:
        op = sg.aslinearoperator(given, format=fmt, device=cuda_device)
    except sg.FormatError:
        return
    assert_same_entries(op.tocsr(), A)
    assert_same_entries(sg.aslinearoperator(arrays, format=fmt, device=cuda_device, shape=A.shape).tocsr(), A)


@pytest.mark.gpu
def test_a_matrix_of_cupy_may_change_afterwards(cuda_device):
    cupy = pytest.importorskip("cupy")
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    A = matrix("uniform", np.dtype("float64"))
    with cupy.cuda.Device(resolve_device(cuda_device)):
        given = sparse.csr_matrix(sp.csr_matrix(A))
        op = sg.aslinearoperator(given, format="csr", device=cuda_device)
        given.data[:] = 0
        given.indices[:] = 0
    assert_same_entries(op.tocsr(), A)


@pytest.mark.gpu
def test_a_matrix_of_cupy_in_disorder(cuda_device):
    cupy = pytest.importorskip("cupy")
    sparse = pytest.importorskip("cupyx.scipy.sparse")
    with cupy.cuda.Device(resolve_device(cuda_device)):
        arrays = [cupy.asarray(a) for a in (np.ones(3), np.array([1, 0, 2], "i4"), np.array([0, 2, 3], "i4"))]
        given = sparse.csr_matrix(tuple(arrays), shape=(2, 3))
        op = sg.aslinearoperator(given, format="csr", device=cuda_device)
    np.testing.assert_array_equal(op.tocsr().toarray(), [[1, 1, 0], [0, 0, 1]])


def test_the_core_checks_what_would_corrupt_memory():
    half = on_host(sp.eye_array(3, format="csr")).build("csr", {}, -1)
    rows, cols = np.arange(3, dtype=np.int32), np.arange(3, dtype=np.int32)
    scattered = rows[::-1].copy()
    PartedMatrix(6, 3, [(half, rows + 3, cols), (half, scattered, cols)])
    for given, message in [
        ([], "one at least"),
        ([(half, rows, cols)], "row 3 lies in no part"),
        ([(half, rows + 3, cols)], "row 0 lies in no part"),
        ([(half, scattered, cols)], "row 3 lies in no part"),
        ([(half, rows, cols), (half, rows + 2, cols)], "row 2 lies in two parts"),
        ([(half, rows + 2, cols), (half, rows, cols)], "row 2 lies in two parts"),
        ([(half, rows, cols), (half, scattered + 2, cols)], "row 2 lies in two parts"),
        ([(half, scattered, cols), (half, rows + 2, cols)], "row 2 lies in two parts"),
        ([(half, rows, cols), (half, rows + 4, cols)], "beyond the 6"),
        ([(half, rows, cols), (half, rows + 3, cols + 1)], "beyond the 3"),
        ([(half, rows, cols), (half, rows[::-1][:2].copy(), cols)], "3 rows, but 2 indices"),
    ]:
        with pytest.raises(ValueError, match=message):
            PartedMatrix(6, 3, given)


def test_neighbours_of_a_mesh_have_neighbours_in_common(device):
    """What tells whether clusters may help, before any are made."""

    def clustering(A):
        return on_host(A).at(resolve_device(device)).source.clustering()

    empty, diagonal = sp.csr_array((70, 70)), sp.csr_array(sp.diags_array(np.arange(1.0, 200.0)))
    assert clustering(MESH) > 0.6
    assert clustering(sp.csr_array(symmetric_banded(900))) > 0.4
    assert clustering(uniform(20_000, 20_000, 8)) < 0.1
    assert clustering(empty) == clustering(diagonal) == 0
