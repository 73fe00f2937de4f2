"""Matrices that are broken, change while they are read, or come in types at the edge of what is supported."""

import itertools
import pickle
import threading

import numpy as np
import pytest
import scipy.sparse as sp

import spmvgpu as sg
from battery import uniform
from internals import hold_at_most
from support import run_python

A = sp.csr_array(np.array([[4.0, 1, 0], [0, 5, 2], [1, 0, 6]]))
ARRAYS = A.data, A.indices, A.indptr


def product(matrix, **options):
    op = sg.aslinearoperator(matrix, device="cpu", **options)
    return op @ np.ones(op.shape[1])


# -- duplicates ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "total"), [(np.int8(100), 200), (np.True_, 2), (np.uint8(200), 400)])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
def test_duplicates_are_summed_in_the_type_of_the_operator(value, total, kind):
    data, twice = np.array([value, value]), np.array([0, 0])
    if kind == "coo":
        matrix = sp.coo_array((data, (twice, twice)), shape=(1, 1))
    elif kind == "bsr":
        matrix = sp.bsr_array((data.reshape(2, 1, 1), twice, np.array([0, 2])), shape=(1, 1))
    else:
        matrix = getattr(sp, f"{kind}_array")((data, twice, np.array([0, 2])), shape=(1, 1))
    assert product(matrix) == [total]
    assert matrix.nnz == 2


def test_duplicates_are_added_in_the_order_in_which_they_are_stored():
    data = np.array([1e16, 1.0, -1e16])
    matrix = sp.csr_array((data, np.array([2, 2, 2]), np.array([0, 3])), shape=(1, 3))
    assert product(matrix) == [(1e16 + 1.0) - 1e16]


def shuffled(matrix, rng):
    """The entries of every row in another order, each of them as two halves."""
    data, indices = np.repeat(matrix.data / 2, 2), np.repeat(matrix.indices, 2)
    indptr = 2 * matrix.indptr
    for begin, end in itertools.pairwise(indptr):
        order = begin + rng.permutation(end - begin)
        data[begin:end], indices[begin:end] = data[order], indices[order]
    return sp.csr_array((data, indices, indptr), shape=matrix.shape)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("shape", [(3000, 40), (1, 20_000), (20_000, 7), (5, 5)], ids=str)
def test_rows_are_sorted_and_summed(shape, wide, rng, monkeypatch):
    matrix = sp.random_array(shape, density=0.3, format="csr", random_state=rng)
    limit = max(matrix.nnz // 2, np.diff(matrix.indptr).max())
    if wide:  # as with 2**31 entries or more
        hold_at_most(monkeypatch, limit)
    given = shuffled(matrix, rng)
    given.has_sorted_indices = given.has_canonical_format = True  # as a user may set them by hand
    for device in ("cpu", ["cpu"] * 3):
        made = sg.aslinearoperator(given, format="csr", device=device).tocsr()
        assert made.indices.dtype == (np.int64 if wide and matrix.nnz > limit else np.int32)
        np.testing.assert_array_equal(made.indptr, matrix.indptr)
        np.testing.assert_array_equal(made.indices, matrix.indices)
        np.testing.assert_array_equal(made.data, matrix.data)


# -- layouts and types ---------------------------------------------------------------------------------------


def test_values_with_strides():
    apart = np.repeat(A.data, 2)[::2]
    assert not apart.flags.c_contiguous
    np.testing.assert_array_equal(product((apart, *ARRAYS[1:]), shape=A.shape), A @ np.ones(3))
    complex_matrix = A.astype(complex)
    np.testing.assert_array_equal(product(complex_matrix.real), A @ np.ones(3))
    broken = A.copy()
    broken.data = apart
    np.testing.assert_array_equal(product(broken), A @ np.ones(3))


def test_arrays_that_are_not_aligned():
    def unaligned(array):
        moved = np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(array.dtype)
        assert not moved.flags.aligned
        return moved

    np.testing.assert_array_equal(product(tuple(map(unaligned, ARRAYS)), shape=A.shape), A @ np.ones(3))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_longdouble_is_rounded_where_a_type_is_given(dtype):
    matrix = A.astype(np.longdouble)
    if matrix.dtype.itemsize == 8:
        pytest.skip("longdouble is float64 here")
    for given in (matrix, matrix.toarray(), (matrix.data, *ARRAYS[1:])):
        shape = {"shape": A.shape} if isinstance(given, tuple) else {}
        op = sg.aslinearoperator(given, device="cpu", dtype=dtype, **shape)
        assert op.dtype == dtype
        np.testing.assert_array_equal(op.tocsr().toarray(), A.toarray())
        with pytest.raises(TypeError, match=r"dtype="):
            sg.aslinearoperator(given, device="cpu", **shape)


def test_masks_are_not_ignored():
    masked = np.ma.masked_equal(A.toarray(), 6)
    with pytest.raises(TypeError, match="masked"):
        sg.aslinearoperator(masked, device="cpu")
    with pytest.raises(TypeError, match="data is a masked"):
        sg.aslinearoperator((np.ma.masked_equal(A.data, 6), *ARRAYS[1:]), device="cpu", shape=A.shape)
    with pytest.raises(ValueError, match=r"two whole numbers .*masked"):
        sg.aslinearoperator(ARRAYS, device="cpu", shape=(A.shape[0], np.ma.masked))


# -- SciPy objects that were broken after they were made -----------------------------------------------------

# What is done to a matrix called M, and what the message says.
BROKEN = {
    "csr, NaN in float indices": ("csr", "M.indices = M.indices + 0.5 * np.nan", "integers"),
    "csr, NaN in float indptr": ("csr", "M.indptr = M.indptr * np.nan", "integers"),
    "csr, fewer values": ("csr", "M.data = M.data[:-1]", "lengths"),
    "csr, fewer indices": ("csr", "M.indices = M.indices[:-1]", "lengths"),
    "csr, fewer row ends": ("csr", "M.indptr = M.indptr[:-1]", "indptr"),
    "csr, a later begin": ("csr", "M.indptr[0] = 1", "begin with 0"),
    "csr, an earlier end": ("csr", "M.indptr[-1] -= 1", "lengths"),
    "csr, a later end": ("csr", "M.indptr[-1] += 1", "lengths"),
    "csr, offsets that fall": ("csr", "M.indptr[30] = 60", "indptr"),
    "csr, a negative offset": ("csr", "M.indptr[30] = -1", "indptr"),
    "csr, an index too large": ("csr", "M.indices[7] = 60", "column"),
    "csr, an index that wraps": ("csr", "M.indices = M.indices.astype('i8') + 2**32", "column"),
    "csr, offsets that wrap": ("csr", "M.indptr = M.indptr.astype('i8') * 2**31", "indptr|lengths"),
    "csr, values in 2-D": ("csr", "M.data = M.data.reshape(2, -1)", "data"),
    "csr, values of text": ("csr", "M.data = M.data.astype(str)", "dtype"),
    "csc, an index too large": ("csc", "M.indices[7] = 60", "row"),
    "csc, fewer values": ("csc", "M.data = M.data[:-1]", "lengths"),
    "coo, NaN coordinates": ("coo", "place(M, M.row * np.nan, M.col)", "integers"),
    "coo, fewer coordinates": ("coo", "place(M, M.row[:-1], M.col[:-1])", "lengths"),
    "coo, fewer values": ("coo", "M.data = M.data[:-1]", "lengths"),
    "coo, a row too large": ("coo", "M.row[7] = 60", "row"),
    "coo, a negative column": ("coo", "M.col[7] = -1", "col"),
    "dia, fewer diagonals than offsets": ("dia", "M.offsets = np.arange(100)", "lengths"),
    "dia, no values": ("dia", "M.data = M.data[:0]", "lengths"),
    "dia, values in 1-D": ("dia", "M.data = M.data[0]", "lengths"),
    "dia, NaN offsets": ("dia", "M.offsets = M.offsets * np.nan", "integers"),
    "dia, an offset twice": ("dia", "M.offsets = np.array([0, 0]); M.data = np.ones((2, 60))", "twice"),
    "bsr, fewer blocks": ("bsr", "M.data = M.data[:-1]", "lengths"),
    "bsr, blocks of another size": ("bsr", "M.data = np.ones((len(M.indices), 7, 7))", "divided"),
    "bsr, empty blocks": ("bsr", "M.data = np.ones((len(M.indices), 0, 2))", "lengths"),
    "bsr, an index too large": ("bsr", "M.indices[0] = 30", "column"),
    "bsr, NaN indices": ("bsr", "M.indices = M.indices * np.nan", "integers"),
    "lil, an index too large": ("lil", "M.rows[3] = [60]", "column"),
    "lil, a negative index": ("lil", "M.rows[3] = [-7]", "column"),
    "lil, an index that wraps": ("lil", "M.rows[3] = [2**32]", "column"),
    "lil, a huge index": ("lil", "M.rows[3] = [2**70]", "integers"),
    "lil, a NaN index": ("lil", "M.rows[3] = [np.nan]", "integers"),
    "lil, fewer values in a row": ("lil", "M.data[3] = []", "lengths"),
    "lil, more values in a row": ("lil", "M.data[3] = [1.0, 2.0]", "lengths"),
    "lil, a value of text": ("lil", "M.data[3] = ['x']", "dtype"),
    "lil, a row that is no list": ("lil", "M.rows[3] = None", "lil"),
    "lil, fewer rows": ("lil", "M.rows = M.rows[:-1]; M.data = M.data[:-1]", "indptr"),
    "dok, a key too large": ("dok", "M._dict[(60, 0)] = 1.0", "60"),
}

SCRIPT = """
    import re

    import numpy as np
    import scipy.sparse as sp
    import spmvgpu as sg

    def place(M, row, col):
        if hasattr(M, "coords"):  # what newer versions of SciPy are given for `row`, they convert
            M.coords = row, col
        else:
            M.row, M.col = row, col

    for name, (kind, damage, message) in {cases!r}.items():
        whole = sp.coo_array(sp.diags_array(np.arange(1.0, 61.0)))
        refusal = None
        M = sp.bsr_array(whole, blocksize=(2, 2)) if kind == "bsr" else whole.asformat(kind)
        exec(damage)
        for device in ("cpu", ["cpu", "cpu"]):
            try:
                sg.aslinearoperator(M, device=device)
            except (TypeError, ValueError) as error:
                if not re.search(message, str(error)) or str(error) != (refusal or str(error)):
                    print(f"{{name}} on {{device}}: the message is {{error!r}}")
                refusal = str(error)
            else:
                print(f"{{name}} on {{device}}: passed")
    print("done")
"""


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "dia", "bsr", "lil", "dok"])
def test_broken_matrices_are_refused(kind):
    """In a process of its own: SciPy's conversions would follow the indices out of bounds."""
    cases = {name: case for name, case in BROKEN.items() if case[0] == kind}
    assert run_python(SCRIPT.format(cases=cases)).stdout == "done\n"


@pytest.mark.parametrize("dtype", ["S4", "M8[s]", "f8", "i8"])
def test_no_offsets_may_be_of_any_type(dtype):
    matrix = sp.dia_array((np.zeros((0, 3)), np.zeros(0, np.int32)), shape=(3, 3))
    matrix.offsets = np.zeros(0, dtype)
    assert sg.aslinearoperator(matrix, device="cpu").nnz == 0


def test_offsets_beyond_the_matrix_hold_nothing():
    matrix = sp.dia_array((np.ones((1, 3)), [0]), shape=(3, 3))
    matrix.offsets, matrix.data = np.array([0, 2**32, -7]), np.ones((3, 3))  # the second would wrap to 0
    np.testing.assert_array_equal(product(matrix), np.ones(3))


def test_arrays_that_another_thread_changes(rng):
    """Whatever matrix that gives, no index of it lies outside, and SciPy's product may follow them."""
    given = uniform(2000, 50, 8)
    good, bad = given.indices.copy(), np.full(given.nnz, 10**8, np.int32)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            given.indices[:] = bad
            given.indices[:] = good

    thread = threading.Thread(target=change)
    thread.start()
    refusals = []
    try:
        for _ in range(300):
            try:
                csr = sg.aslinearoperator(given, format="csr", device="cpu").tocsr()
            except ValueError as error:
                refusals.append(str(error))
                continue
            assert csr.indices.max() < 50
            for own, theirs in ((csr.indices, given.indices), (csr.indptr, given.indptr)):
                assert not np.shares_memory(own, theirs)
    finally:
        stop.set()
        thread.join()
    assert all("column indices must lie in 0..49" in refusal for refusal in refusals)


@pytest.mark.parametrize("kind", ["csr", "csc", "tuple", "bsr", "coo"])
@pytest.mark.parametrize("fmt", ["csr", "csr_m", "csr_b"])
def test_arrays_that_are_changed_after_the_call(kind, fmt):
    """Also where the matrix keeps arrays instead of copying them, they are none of the caller's."""
    whole = uniform(200, 50, 8)
    x = np.arange(50.0)
    expected = whole @ x
    given = whole.copy() if kind == "tuple" else whole.asformat(kind).copy()
    arrays = (given.row, given.col) if kind == "coo" else (given.indices, given.indptr)
    matrix = (given.data, given.indices, given.indptr) if kind == "tuple" else given
    op = sg.aslinearoperator(matrix, fmt, "cpu", shape=whole.shape if kind == "tuple" else None)
    for array in (*arrays, given.data):
        array[...] = 10**8
    np.testing.assert_allclose(op @ x, expected)
    np.testing.assert_allclose(op.T @ np.ones(200), whole.T @ np.ones(200))
    for array in op.tocsr().indices, op.arrays()["col_indices"]:
        array[...] = 10**8
    np.testing.assert_allclose(op @ x, expected)


@pytest.mark.parametrize("device", ["cpu", ["cpu", "cpu"]], ids=str)
def test_pickled_arrays_in_buffers_of_others(device):
    """Whoever unpickles may lend memory that is written to later, or was damaged before."""
    whole = uniform(200, 50, 8)
    buffers = []
    text = pickle.dumps(sg.aslinearoperator(whole, "csr", device), protocol=5, buffer_callback=buffers.append)
    lent = [bytearray(buffer) for buffer in buffers]
    op = pickle.loads(text, buffers=lent)
    for buffer in lent:
        buffer[:] = b"\x7f" * len(buffer)
    np.testing.assert_allclose(op @ np.ones(50), whole @ np.ones(50))
    with pytest.raises(ValueError, match=r"indices|indptr"):
        pickle.loads(text, buffers=lent)


# -- symmetry ------------------------------------------------------------------------------------------------

FULL = sp.csr_array(np.array([[4.0, 1, 0], [1, 5, 2], [0, 2, 6]]))


def test_completing_a_triangle_past_the_limit(monkeypatch):
    lower = sp.csr_array(sp.tril(FULL))
    hold_at_most(monkeypatch, FULL.nnz - 1)
    assert lower.nnz < FULL.nnz
    for device in ("cpu", ["cpu"]):
        op = sg.aslinearoperator(lower, device=device, symmetric="lower")
        assert op.tocsr().indices.dtype == np.int64
        np.testing.assert_array_equal(op @ np.ones(3), FULL @ np.ones(3))


# -- what is no matrix, and what is one already --------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"format": "sell"},
        {"dtype": np.float32},
        {"format": "sell", "sigma": 1},
        {"device": ["cpu", "cpu"]},
        {"device": "cpu", "tune": "off"},
    ],
    ids=str,
)
@pytest.mark.parametrize("before", ["cpu", ["cpu", "cpu"]], ids=str)
def test_an_operator_is_a_matrix(options, before):
    op = sg.aslinearoperator(A, format="coo", device=before)
    other = sg.aslinearoperator(op, **{"device": "cpu", **options})
    assert other is not op
    assert isinstance(other, sg.MultiDeviceOperator) == isinstance(options.get("device"), list)
    assert other.dtype == options.get("dtype", np.float64)
    assert other.format == options.get("format", other.format)
    np.testing.assert_array_equal(other.tocsr().toarray(), A.toarray())


# -- options and partitions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tune", ["off", "cached", "full"])
def test_numbers_of_numpy_as_options(tune, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    op = sg.aslinearoperator(A, format="hyb", device="cpu", tune=tune, width=np.int64(2))
    assert op.options["width"] == 2
    op = sg.aslinearoperator(A, format="csr", device="cpu", tune=tune, kernel=np.str_("shuffle"))
    assert op.options["kernel"] == "shuffle"
    cost = sg.estimate(A, "dia", max_padding=np.float32(8))
    assert cost == sg.estimate(A, "dia", max_padding=8.0)


# -- the package ---------------------------------------------------------------------------------------------


def test_other_attributes_are_still_missing():
    with pytest.raises(AttributeError, match="nonsense"):
        sg.nonsense  # noqa: B018
