"""New values for a matrix whose structure stays: what is stored is what a new operator stores, to the bit."""

import gc
import pickle
import signal
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import CASES, COMPLEX_TYPES, SYMMETRIC_CASES, TYPES, hermitian, matrix, typed, vector
from reference import assert_product
from spmvgpu import gallery
from support import asked_by_nobody, assert_multiplies, assert_same_entries, explained, formats_of, run_python

ALL_TYPES = [*TYPES, *COMPLEX_TYPES]
#: Options with which every format holds a matrix of small blocks.
ROOMY = {"tsmv": {"max_memory": 100.0}, "dia": {"max_padding": 1e6}, "sdia": {"max_padding": 1e6}}


def with_values(A, data):
    return sp.csr_array((data, A.indices, A.indptr), shape=A.shape)


def others(A, seed=11):
    """Other values, symmetric where those of a symmetric pattern are to be: they follow from row + column."""
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    places = (rows + A.indices) % 97
    real = np.random.default_rng(seed).choice([-2.5, 0.0, -0.0, 1e30, 1 / 3, 7.0, 0.1, np.nan, -np.inf], 97)
    with np.errstate(all="ignore"):  # infinity times i
        B = with_values(A, typed(with_values(A, real[places]), A.dtype))
    parts = B.data.view(B.data.real.dtype)
    # NaN of one sign: NumPy gives entries that mirror each other now this, now that.
    parts[np.isnan(parts)] = np.nan
    return B


def alike(A, seed=11):
    """Other values, the same ones where they were the same."""
    _, places = np.unique(A.data, return_inverse=True)
    numbers = [-2.5, -0.0, 1e30, 1 / 3, np.nan, -np.inf]
    values = np.random.default_rng(seed).choice(numbers, places.max(initial=0) + 1)
    return with_values(A, values.astype(A.dtype)[places])


def positive(A):
    """Values above 0, symmetric where the pattern is."""
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    return with_values(A, (1.0 + (rows + A.indices) % 97).astype(A.dtype))


def assert_is_as_new(op, A, fmt, device, **options):
    """The operator stores what one that is made of `A` stores, and multiplies as that does."""
    new = sg.aslinearoperator(A, format=fmt, device=device, **options)
    stored = new.tocsr()
    assert_same_entries(op.tocsr(), stored)
    np.testing.assert_array_equal(stored.data, A.data)  # but for signs of zeros that are mirrored
    found, expected = op.arrays(), new.arrays()
    if fmt == "stencil":  # alike with the new values alone: two stencils still
        found, expected = {}, {}
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes(), name
    if fmt == "stencil":  # which adds rows of different kinds up in other orders
        assert_multiplies(op, A)
    else:
        x = vector(A.shape[1], A.dtype)
        assert (op @ x).tobytes() == (new @ x).tobytes()
    assert op.options == new.options


@pytest.mark.parametrize(
    ("case", "fmt", "dtype"),
    [
        (case, fmt, ALL_TYPES[(number + sg.formats().index(fmt)) % len(ALL_TYPES)])  # the types take turns
        for number, case in enumerate(CASES)
        for fmt in formats_of(case)
    ],
    ids=str,
)
def test_values_are_replaced(case, fmt, dtype, device):
    A = matrix(case, dtype)
    op = sg.aslinearoperator(A, format=fmt, device=device)
    for B in (others(A) if fmt != "stencil" else alike(A), A):
        with np.errstate(all="ignore"):
            op.update_values(B.data)
            assert_is_as_new(op, B, fmt, device)
    shares = op._snapshot()
    with np.errstate(all="ignore"):
        op.update_values(B.data * 2)
        assert_is_as_new(op, with_values(B, B.data * 2), fmt, device)
    assert_is_as_new(shares, B, fmt, device)


@pytest.mark.parametrize(
    ("case", "dtype"), [(case, COMPLEX_TYPES[number % 2]) for number, case in enumerate(SYMMETRIC_CASES)]
)
def test_hermitian_values_are_replaced(case, dtype, device):
    A = hermitian(matrix(case, np.dtype("float64")), dtype)
    B = A.conj() * dtype.type(-3)
    for options in ({"symmetry": "hermitian"}, {}):
        for fmt in ("tsmv", "sdia"):
            op = sg.aslinearoperator(A, format=fmt, device=device, **ROOMY[fmt], **options)
            op.update_values(B.data)
            assert_is_as_new(op, B, fmt, device, **ROOMY[fmt], **options)


EVERY_WAY = [
    *(
        ("sym_blocks", "tsmv", {"variant": variant, "block": block, "max_memory": 100.0})
        for variant in ("halo", "poster")
        for block in (0, 1, 2, 3)
    ),
    *(
        ("power_law_rows", "hyb", options)
        for options in ({"width": 3}, {"width": "max", "max_padding": 1e6}, {"width": 1, "strip": 64})
    ),
    *(
        ("power_law_rows", fmt, options)
        for fmt in ("sell", "packed_sell")
        for options in ({"sigma": 1, "max_padding": 1e6}, {"sigma": 4096})
    ),
    ("power_law_rows", "packed_sell", {"warps_per_slice": 4}),
    ("two_populations", "partitioned", {"separator": 100}),
    *(
        ("sym_blocks", fmt, {"reorder": reorder, **ROOMY.get(fmt, {})})
        for fmt in sg.formats() if fmt != "stencil"
        for reorder in ("rcm", "clusters", "auto")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("case", "fmt", "options"), EVERY_WAY, ids=str)
def test_values_of_every_way_to_store_them(case, fmt, options, device):
    A = matrix(case, np.dtype("float64"))
    A = positive(A) if "reorder" in options else A
    op = sg.aslinearoperator(A, format=fmt, device=device, **options)
    B = with_values(A, 1 / A.data) if "reorder" in options else others(A)
    op.update_values(B.data)
    assert_is_as_new(op, B, fmt, device, **options)


@pytest.mark.parametrize("count", [1, 31, 32, 33, 70])
@pytest.mark.parametrize("fmt", ["dia", "sdia"])
def test_values_of_many_diagonals(fmt, count, device):
    """On each side of the main one, which is there or not; in part they are empty, and far apart."""
    rng = np.random.default_rng(count)
    for main in (True, False):
        offsets = np.sort(rng.choice(np.arange(1, 400), count, replace=False))
        half = sp.diags_array(
            [rng.choice([0.0, 1.0], 500 - k) for k in offsets], offsets=offsets, shape=(500, 500)
        )
        A = sp.csr_array(half + half.T + (sp.eye_array(500) if main else 0 * half))
        A.eliminate_zeros()
        op = sg.aslinearoperator(A, format=fmt, device=device, max_padding=1e6)
        B = others(A)
        for new in (B, A):
            op.update_values(new.data)
            assert_is_as_new(op, new, fmt, device, max_padding=1e6)


def test_padding_of_dia_gives_way_to_values(device):
    A = matrix("banded", np.dtype("float64"))
    op = sg.aslinearoperator(A, format="dia", device=device)
    taken = set()
    for _ in range(4):  # each time with the pattern that was padding among the values
        data = np.ones(A.nnz)
        slots = op.arrays()["values"].reshape(len(op.arrays()["offsets"]), -1)
        padding = slots[0, 0]  # outside of the matrix
        data[::2] = padding
        taken.add(padding.tobytes())
        op.update_values(data)
        assert_is_as_new(op, with_values(A, data), "dia", device)
    assert len(taken) > 1


# What else knows the values


def test_a_transposed_copy_is_updated_alone(device):
    A = matrix("uniform", np.dtype("complex128"))
    op = sg.aslinearoperator(A, format="csr", device=device)
    turned, gram, x = op.T, op.H @ op, vector(A.shape[1], A.dtype)
    expected, of_adjoint = gram @ x, gram.H @ x
    B = sp.csr_array(turned.tocsr())
    B.data = B.data * 2
    for copy_of_op in (turned, op.H):
        copy_of_op.update_values(B.data)
    np.testing.assert_array_equal(gram @ x, expected)
    np.testing.assert_array_equal(gram.H @ x, of_adjoint)
    assert_same_entries(op.tocsr(), A)
    assert_same_entries(turned.T.tocsr(), sp.csr_array(B.T.tocsr()))
    assert op.T is not turned
    assert turned.T is not op
    made = weakref.ref(turned)
    del turned
    gc.collect()
    assert made() is None


def test_the_caller_s_arrays_are_left_alone(fmt, device):
    A = matrix("sym_blocks", np.dtype("float64")).copy()
    op = sg.aslinearoperator(A, format=fmt, device=device, **ROOMY.get(fmt, {}))
    read, before = op.tocsr(), A.data.copy()
    data = A.data * 2
    op.update_values(data)
    np.testing.assert_array_equal(A.data, before)
    np.testing.assert_array_equal(read.data, before)
    data[:] = 0
    np.testing.assert_array_equal(op.tocsr().data, before * 2)


def test_operators_made_of_each_other_have_values_of_their_own(device):
    A = matrix("uniform", np.dtype("float64"))
    first = sg.aslinearoperator(A, "csr", device)
    second = sg.aslinearoperator(first, "coo")
    first.update_values(A.data * 2)
    second.update_values(A.data * 3)
    assert_same_entries(first.tocsr(), with_values(A, A.data * 2))
    assert_same_entries(second.tocsr(), with_values(A, A.data * 3))


def test_memory_of_updates_is_counted(fmt, device):
    A = matrix("sym_blocks", np.dtype("float64"))
    op = sg.aslinearoperator(A, format=fmt, device=device, **ROOMY.get(fmt, {}))
    before = op.nbytes
    op.update_values(A.data)
    kept = op.nbytes - before
    in_order = {"csr", "csr_b", "csr_m", "coo"}
    assert (kept == 0) == (fmt in in_order)
    assert kept == 4 * (A.shape[0] + 1 + A.nnz) or fmt != "packed_sell"  # its pattern
    assert (f"update_values keeps {kept} bytes" in explained(op)) == (kept > 0)
    op.update_values(A.data)
    assert op.nbytes == before + kept


# Operators of every kind


@pytest.mark.parametrize("said", ["lower", "upper", "hermitian"])
def test_an_operator_that_was_said_to_be_symmetric_takes_all_values(said, device):
    A = matrix("sym_blocks", np.dtype("float64"))
    A = hermitian(A) if said == "hermitian" else A
    half = sp.csr_array({"lower": sp.tril, "upper": sp.triu}.get(said, sp.csr_array)(A))
    op = sg.aslinearoperator(half, format="csr", device=device, symmetric=said)
    with pytest.raises(ValueError, match=rf"shape \({half.nnz - 1},\).*{A.nnz} stored entries.*op.tocsr"):
        op.update_values(half.data[1:])
    op.update_values(A.data * 2)
    assert_same_entries(op.tocsr(), with_values(A, A.data * 2))
    assert (op.H if said == "hermitian" else op.T) is op
    if said == "hermitian":
        with pytest.raises(ValueError, match=r"symmetric='hermitian'.*entry \(0, "):
            op.update_values(A.data * np.arange(1, A.nnz + 1))
        assert_same_entries(op.tocsr(), with_values(A, A.data * 2))


# What is refused leaves the operator as it was


@pytest.mark.parametrize(
    ("fmt", "make", "says"),
    [
        ("stencil", lambda: sp.csr_array(gallery.poisson2d(180)), "differ between rows"),
        ("sdia", lambda: positive(matrix("sym_blocks", np.dtype("float64"))), "sdia"),
    ],
)
def test_a_format_that_was_found_gives_way(fmt, make, says, device):
    """Values of any kind are taken where rows that are the same, or symmetry, were not asked for."""
    A, options = make(), ROOMY.get(fmt, {})
    B = with_values(A, np.arange(1.0, A.nnz + 1))
    op = sg.aslinearoperator(A, format=fmt, device=device, **options)
    tuned = sg.aslinearoperator(A, format=fmt, device=device, tune="full", **options)
    for asked in (op, tuned, pickle.loads(pickle.dumps(tuned))):
        with pytest.raises(sg.FormatError, match=says):
            asked.update_values(B.data)
        assert_same_entries(asked.tocsr(), A)
    for found in (asked_by_nobody(op), pickle.loads(pickle.dumps(asked_by_nobody(op)))):
        found.update_values(B.data)
        assert found.format != fmt
        assert_same_entries(found.tocsr(), B)
        assert_multiplies(found, B)


@pytest.mark.parametrize("fmt", ["tsmv", "sdia"])
def test_half_of_a_matrix_refuses_unsymmetric_values(fmt, device):
    A = matrix("sym_blocks", np.dtype("float64"))
    op = sg.aslinearoperator(A, format=fmt, device=device, **ROOMY[fmt])
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    for k in np.flatnonzero(rows != A.indices)[:: A.nnz // 50]:  # wherever the one that is wrong lies
        data = A.data * 2
        data[k] += 1
        mirrored = A.indptr[A.indices[k]] + np.searchsorted(
            A.indices[A.indptr[A.indices[k]] : A.indptr[A.indices[k] + 1]], rows[k]
        )
        pair = f"({k} and {mirrored}|{mirrored} and {k})"
        with pytest.raises(sg.FormatError, match=rf"not symmetric.*{pair} are not the same.*'csr'"):
            op.update_values(data)
        assert_same_entries(op.tocsr(), A)
    op.update_values(A.data * 2)
    assert_same_entries(op.tocsr(), with_values(A, A.data * 2))


@pytest.mark.parametrize("fmt", ["tsmv", "sdia"])
def test_half_of_a_matrix_refuses_values_that_are_not_hermitian(fmt, device):
    A = hermitian(positive(matrix("sym_blocks", np.dtype("float64"))))
    op = sg.aslinearoperator(A, format=fmt, device=device, **ROOMY[fmt])
    before = op.tocsr()
    diagonal = A.data.copy()
    k = int(np.flatnonzero(np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)) == A.indices)[-1])
    diagonal[k] += 1j
    with pytest.raises(sg.FormatError, match=rf"{k} and {k} belong to the diagonal"):
        op.update_values(diagonal)
    with pytest.raises(sg.FormatError, match=r"each other's conjugates|not real"):
        op.update_values(A.data * 1j)
    assert_same_entries(op.tocsr(), before)


# Arrays of other libraries


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ALL_TYPES)
def test_values_that_are_on_the_device(dtype, fmt, library, cuda_device):
    A = matrix("sym_blocks", dtype)
    op = sg.aslinearoperator(A, format=fmt, device=cuda_device, **ROOMY.get(fmt, {}))
    B = others(A)
    op.update_values(library.asarray(B.data, cuda_device))
    assert_is_as_new(op, B, fmt, cuda_device, **ROOMY.get(fmt, {}))


@pytest.mark.gpu
def test_values_that_are_still_being_made(fmt, library, cuda_device):
    """They are waited for, and so are the products before."""
    A = matrix("sym_blocks", np.dtype("float64"))
    op = sg.aslinearoperator(A, format=fmt, device=cuda_device, **ROOMY.get(fmt, {}))
    x, wanted = library.asarray(vector(A.shape[1], A.dtype), cuda_device), A.data * 2
    data, source = (library.asarray(values, cuda_device) for values in (np.zeros(A.nnz), wanted))
    with library.new_stream(cuda_device) as stream:
        library.delay()
        library.fill(data, source)
        y = op @ x
        op.update_values(data)
        library.synchronize(stream)
    assert_product(library.to_numpy(y), A, vector(A.shape[1], A.dtype))
    assert_same_entries(op.tocsr(), with_values(A, wanted))


@pytest.mark.gpu
def test_values_on_another_device(library, cuda_device):
    A = matrix("uniform", np.dtype("float64"))
    op = sg.aslinearoperator(A, device="cpu")
    with pytest.raises(ValueError, match=f"data is on '{cuda_device}', but the operator is on 'cpu'"):
        op.update_values(library.asarray(A.data, cuda_device))
    op = sg.aslinearoperator(A, device=cuda_device)
    with pytest.raises(TypeError, match=r"float64.*float32"):
        sg.aslinearoperator(A, device=cuda_device, dtype=np.float32).update_values(
            library.asarray(A.data, cuda_device)
        )
    op.update_values(library.asarray(A.data.astype(np.float32), cuda_device))
    assert_same_entries(op.tocsr(), with_values(A, A.data.astype(np.float32).astype(np.float64)))


# Values that decide how they are stored

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


def grid(side, dtype=np.float64):
    return sp.csr_array(gallery.poisson2d(side).astype(dtype))


def special_values(A, rng):
    """NaN with whatever payload, subnormal numbers, infinities and zeros of both signs; all else."""
    part = A.data.real.dtype
    for special in ([0.0, -0.0], [-0.0], [np.inf, -np.inf, np.nan, -np.nan], [1e-310, 1e-45, 1.0]):
        with np.errstate(under="ignore"):
            yield rng.choice(np.array(special).astype(part), A.data.nbytes // part.itemsize).view(A.dtype)
    yield np.frombuffer(rng.bytes(A.data.nbytes), A.dtype)


@pytest.mark.parametrize("dtype", ALL_TYPES)
def test_values_are_packed_in_the_fewest_bytes_again(dtype, device):
    """Each way to store them follows every other, and the very bits are stored, however many there are."""
    A, rng = grid(60, dtype), np.random.default_rng(1)
    op = sg.aslinearoperator(A, format="packed_sell", device=device)
    for number, mode in enumerate([*MODES, *reversed(MODES), "full", "constant"]):
        B = with_values(A, values_of(mode, A.nnz, dtype, number))
        op.update_values(B.data)
        assert_is_as_new(op, B, "packed_sell", device)
        assert f"values_{mode}" in explained(op)
    drawn = [rng.random(count)[rng.integers(0, count, A.nnz)] for count in (200, 256, 257, 20, 4000, 20)]
    for data in [*(data.astype(dtype) for data in drawn), *special_values(A, rng), A.data]:
        B = with_values(A, data)
        op.update_values(B.data)
        with np.errstate(all="ignore"):
            assert_is_as_new(op, B, "packed_sell", device)
        assert op.tocsr().data.tobytes() == data.tobytes()


def test_solves_after_updates(device):
    """A solver finds the new arrays, wherever they lie."""
    A = grid(40)
    op = sg.aslinearoperator(A, format="packed_sell", device=device)
    scale = sp.diags_array(np.random.default_rng(3).uniform(0.5, 2, A.shape[0]))
    b = vector(A.shape[0], A.dtype)
    sg.linalg.cg(op, b)
    for B in (sp.csr_array(scale @ A @ scale), A, sp.csr_array(scale @ A @ scale)):
        op.update_values(B.data)
        new = sg.aslinearoperator(B, format="packed_sell", device=device)
        for M in (None, "jacobi"):
            found, expected = (sg.linalg.cg(made, b, rtol=1e-10, M=M) for made in (op, new))
            assert found[1] == expected[1] == 0
            assert found[0].tobytes() == expected[0].tobytes()


def test_what_is_read_during_updates(device):
    """Each time it is one of the matrices, and not a part of two."""
    A = grid(60)
    op = sg.aslinearoperator(A, format="packed_sell", device=device)
    written = [A.data, values_of("full", A.nnz, A.dtype)]
    sizes = {"heads", "stream", "dictionary", "permutation"}
    with ThreadPoolExecutor(1) as other:
        updates = other.submit(lambda: [op.update_values(data) for data in written * 20])
        while not updates.done():
            stored = op.tocsr().data
            assert any(np.array_equal(stored, data) for data in written)
            assert op.arrays().keys() == sizes
            assert op.nbytes > 0
        updates.result()


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
    op = sg.aslinearoperator(A, format="packed_sell", device=cuda_device)
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
    op = sg.aslinearoperator(A, format="packed_sell", device=cuda_device)
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


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
@pytest.mark.parametrize(("fmt", "side"), [("dia", 1500), ("packed_sell", 500)])
def test_a_signal_leaves_no_half_of_the_values(fmt, side):
    """An exception of its handler comes out of the update; all values are new then, or old."""
    run_python(
        f"""
        import signal
        import numpy as np
        import spmvgpu as sg

        class Ended(Exception):
            pass

        def end(*_):
            raise Ended

        A = sg.gallery.poisson2d({side})
        op = sg.aslinearoperator(A, format={fmt!r}, device="cpu", max_threads=1)
        data = np.zeros(A.nnz)  # alike, as all that follow: half of some and of others can be told then
        op.update_values(data)
        signal.signal(signal.SIGALRM, end)
        ended = 0
        for number in range(1, 6):
            data[:] = number
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.055)
                op.update_values(data)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Ended:
                ended += 1
            stored = op.tocsr().data
            assert (stored == stored[0]).all()
        print(ended)
        """
    )
