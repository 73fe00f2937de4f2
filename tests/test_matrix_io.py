"""Files are read as written, and whatever is wrong with one is said in a ValueError that names it."""

import gzip
import io
import os
import re
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import spmvgpu as sg
from market_files import WRITTEN
from spmvgpu.matrix_io import read_matrix, read_vector, write_matrix
from support import run_python

MTX = sorted(Path(os.environ.get("SPMVGPU_MATRICES", os.devnull)).glob("mtx/*.mtx"))
BAD = sorted(Path(os.environ.get("SPMVGPU_MATRICES", os.devnull)).glob("mtx/bad/*.mtx"))
NO_FOLDER = pytest.param(
    None, marks=pytest.mark.skip(reason="SPMVGPU_MATRICES names no folder with mtx files")
)

# Not as the format wants them: refused with a message. The first has a diagonal that is not Hermitian.
REFUSED = {"cha", "a4", "matrix_fp32"}

# Right, and beyond what SciPy reads.
BEYOND_SCIPY = {"fullcsa", "fullrsa", "made_crlf_tabs", "made_upper_header", "west0067_jumbled"}
ACCEPTED_BAD = {"mangled14"}  # only has duplicates, which are summed

HEADER = "%%MatrixMarket matrix coordinate real general\n"


@pytest.fixture
def matrix():
    return sp.random_array((20, 30), density=0.1, format="csr", random_state=np.random.default_rng(0))


each_file = pytest.mark.parametrize("name", ["A.mtx", "A.mtx.gz", "A.npz"])


def assert_same(found, expected):
    assert isinstance(found, sp.csr_array)
    assert found.has_canonical_format
    np.testing.assert_array_equal(found.toarray(), expected.toarray())


# -- what is read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "dia", "bsr"])
def test_npz_of_any_format(tmp_path, matrix, layout):
    sp.save_npz(tmp_path / "A.npz", matrix.asformat(layout))
    assert_same(read_matrix(tmp_path / "A.npz"), matrix)


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_matrix_market_as_programs_write_it(tmp_path, name, packed):
    text, expected = WRITTEN[name]
    path = tmp_path / f"A.mtx{'.gz' * packed}"
    path.write_bytes(gzip.compress(text) if packed else text)
    assert_same(read_matrix(path), sp.csr_array(np.array(expected)))
    if np.shape(expected)[1] == 1:
        np.testing.assert_array_equal(read_vector(path), np.ravel(expected))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("real symmetric\n2 2 2\n2 1 5\n1 2 6\n", "entry (2, 1) is 5.0, and (1, 2) is 6.0"),
        ("real symmetric\n2 2 3\n2 1 5\n1 2 5\n1 2 5\n", "entry (2, 1) is 5.0, and (1, 2) is 10.0"),
        ("real skew-symmetric\n2 2 2\n2 1 5\n1 2 5\n", "entry (2, 1) is 5.0, and (1, 2) is 5.0"),
        ("real skew-symmetric\n2 2 2\n1 1 3\n2 1 5\n", "diagonal of a skew-symmetric matrix is zero"),
        ("complex hermitian\n2 2 2\n2 1 5 1\n1 2 5 1\n", "entry (2, 1) is (5+1j), and (1, 2) is (5+1j)"),
        ("complex hermitian\n1 1 1\n1 1 3 9\n", "entry (1, 1) is (3+9j)"),
    ],
)
def test_triangles_that_do_not_agree(tmp_path, text, reason):
    path = tmp_path / "A.mtx"
    path.write_text(f"%%MatrixMarket matrix coordinate {text}")
    assert reason in refusal(path)


def test_triangles_that_differ_by_rounding(tmp_path):
    """The triangle below and the real diagonal count: the matrix is as symmetric as the header says."""
    path = tmp_path / "A.mtx"
    header = "%%MatrixMarket matrix coordinate complex hermitian\n"
    path.write_text(f"{header}2 2 3\n1 1 3 1e-16\n2 1 5 1\n1 2 5.000000000000001 -1\n")
    np.testing.assert_array_equal(read_matrix(path).toarray(), [[3, 5 - 1j], [5 + 1j, 0]])


def test_numbers_are_rounded_as_python_rounds_them(tmp_path):
    text = "1e-400 -1e-400 4.9e-324 2.4e-324 1.7976931348623157e308 0.1 1.0-103 3.5+10 2.5d-3 5Q2 INF -nan"
    numbers = text.split()
    numbers += ["1" + "0" * 300 + "e-300", "0." + "0" * 400 + "1e401", "9007199254740993", "Infinity"]
    path = tmp_path / "b.mtx"
    path.write_text(f"%%MatrixMarket vector array real general\n{len(numbers)}\n" + "\n".join(numbers))
    fortran = {"1.0-103": "1.0e-103", "3.5+10": "3.5e10", "2.5d-3": "2.5e-3", "5Q2": "5e2"}
    expected = [float(fortran.get(number, number)) for number in numbers]
    np.testing.assert_array_equal(read_vector(path), expected)


def test_lines_at_the_ends_of_pieces(tmp_path):
    """Whichever thread gets the line."""
    n = 30_000
    rng = np.random.default_rng(1)
    expected = sp.coo_array((rng.standard_normal(n), (rng.integers(n, size=n), np.arange(n))), shape=(n, n))
    path = tmp_path / "A.mtx"
    write_matrix(path, expected)
    text = path.read_text()
    assert_equal = np.testing.assert_array_equal
    for more in ("", "% a comment\n", "\n" * 7, "%" * 100_000 + "\n"):
        lines = text.splitlines(keepends=True)
        path.write_text("".join([*lines[:20_000], more, *lines[20_000:]]))
        found, whole = read_matrix(path), expected.tocsr()
        assert_equal(found.data, whole.data)
        assert_equal(found.indices, whole.indices)
    lines[25_000] = "1 1 x\n"
    path.write_text("".join(lines))
    assert "line 25001: 'x' is no number" in refusal(path)


@pytest.mark.parametrize("shape", [(7,), (7, 1), (1, 7)], ids=str)
@pytest.mark.parametrize("name", ["b.npy", "b.mtx"])
def test_vector(tmp_path, name, shape):
    b = np.arange(7.0) - 2
    if name == "b.npy":
        np.save(tmp_path / name, b.reshape(shape))
    else:
        scipy.io.mmwrite(tmp_path / name, np.atleast_2d(b.reshape(shape)))
    np.testing.assert_array_equal(read_vector(tmp_path / name), b)


# -- what is refused -----------------------------------------------------------------------------------------


def refusal(path, read=read_matrix):
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        read(path)
    message = str(caught.value).removeprefix(str(path))
    assert len(message) < 500
    assert message.isprintable()
    return message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Matrix Market"),
        ("hello\n", "banner"),
        ("\0\1\2\3", "banner"),
        ("%%MatrixMarket matrix coordinate real general\n", "Matrix Market"),
        ("%%MatrixMarket matrix coordinate quaternion general\n1 1 1\n1 1 1\n", "quaternion"),
        (HEADER + "2 2\n", "Matrix Market"),
        (HEADER + "2 two 1\n1 1 1\n", "rows, columns, entries as whole numbers, and it is '2 two 1'"),
        (HEADER + "-2 2 1\n1 1 1\n", "Matrix Market"),
        (HEADER + "2 2 3\n1 1 1\n2 2 2\n", "truncated: the header announces 3 entries"),
        (HEADER + "2 2 1\n1 1 1\n2 2 2\n", "line 4: there is more than the 1 entries announced"),
        (HEADER + "2 2 1\n3 1 1\n", "line 3: '3' is no row from 1 to 2"),
        (HEADER + "2 2 1\n1 0 1\n", "line 3: '0' is no column from 1 to 2"),
        (HEADER + "2 2 1\n1 -1 1\n", "'-1' is no column"),
        (HEADER + "2 2 1\n1.5 1 1\n", "'1.5' is no row"),
        (HEADER + "2 2 1\n99999999999999999999 1 1\n", "is no row"),
        (HEADER + "% one\n\n2 2 2\n% two\n\n1 1 1\n1 1 one\n", "line 8: 'one' is no number"),
        (HEADER + "2 2 1\n1 1 2,5\n", "'2,5' is no number"),
        (HEADER + "2 2 1\n1 1 1.5.2\n", "'1.5.2' is no number"),
        (HEADER + "2 2 1\n1 1 +-5\n", "'+-5' is no number"),
        (HEADER + "2 2 1\n1 1 1D\n", "'1D' is no number"),
        (HEADER + "2 2 1\n1 1 0x1\n", "'0x1' is no number"),
        (HEADER + "2 2 1\n1 1 1\0005\n", r"'1\x005' is no number"),
        (HEADER + "2 2 1\n1 1 1e1d1\n", "'1e1d1' is no number"),
        (HEADER + "2 2 1\n1 1 1e400\n", "'1e400' is too large for float64"),
        (HEADER + "2 2 1\n1 1\n", "an entry must have 3 numbers, and this has 2"),
        (HEADER + "2 2 1\n1 1 1 1\n", "'1' is left over: an entry has 3 numbers"),
        (HEADER.replace("real", "integer") + "2 2 1\n1 1 1.5\n", "'1.5' is no whole number"),
        (
            HEADER.replace("real", "complex") + "2 2 1\n1 1 1.5\n",
            "an entry must have 4 numbers, and this has 3",
        ),
        (HEADER.replace("real", "pattern") + "2 2 1\n1 1 1\n", "'1' is left over: an entry has 2 numbers"),
        (HEADER.replace("real", "pattern").replace("general", "skew-symmetric") + "2 2 1\n2 1\n", "pattern"),
        (HEADER + "2 2 2\n1 1 1\n2 2 4.5E", "line 4: '4.5E' is no number"),
        (HEADER + "2 2 2\n1 1 1\n2 2 4.5E-", "line 4: '4.5E-' is no number"),
        (
            "%%MatrixMarket matrix coordinate real\n2 2 1\n1 1 1\n",
            "matrix coordinate real', not with a banner",
        ),
        ("%%MatrixMarket vector coordinate real general\n3 1\n4 1\n", "'4' is no row from 1 to 3"),
        ("%%MatrixMarket vector array real general\n3 1\n4\n1\n2\n", "must hold rows as whole numbers"),
        (HEADER + "%%AMGX diagonal rhs\n2 2 1\n1 1 1\n", "%%AMGX says diagonal"),
        (HEADER + "%%AMGX base0\n2 2 1\n0 1 1\n", "%%AMGX says base0"),
        (HEADER + "9 9 123456789012\n1 1 1\n", "truncated"),
        (HEADER + f"2 2 1\n1 1 {'x' * 50_000}\n", "is no number"),
        (HEADER + "2 2 1\n1 1 \33[31m\7\n", "is no number"),
        ("x" * 50_000, "banner"),
        ("%%MatrixMarket " + "x " * 100_000 + "\n", "banner"),
        (HEADER + "1 " * 100_000 + "\n", "sizes"),
        (HEADER + "9" * 100_000 + " 1 1\n1 1 1\n", "sizes"),
        (HEADER + "2 2 2\n1 1 1\n2 2 4 7", "line 4: '7' is left over"),
        (HEADER + "2 2 2\n1 1 1\n2 2 4\n7", "line 5: there is more"),
        (HEADER + "2 2 2\n1 1 1\n2 2 4\0", r"line 4: '4\x00' is no number"),
        ("%%MatrixMarket matrix array real general\n99999999 99999999\n1\n", "truncated"),
        (
            "%%MatrixMarket matrix coordinate real symmetric\n2 3 1\n1 1 1\n",
            "symmetric, but the shape is 2 x 3",
        ),
        ("%%MatrixMarket matrix array pattern general\n1 1\n1\n", "Matrix Market"),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_broken_matrix_market(tmp_path, text, reason, packed):
    path = tmp_path / ("A.mtx.gz" if packed else "A.mtx")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert reason in refusal(path)


def with_a_byte_changed(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]


DAMAGE = {
    "empty": lambda content: b"",
    "cut off early": lambda content: content[: len(content) // 10],
    "cut off late": lambda content: content[: 9 * len(content) // 10],
    "garbage": lambda content: np.random.default_rng(0).bytes(5000),
    "a byte changed": with_a_byte_changed,
}


@each_file
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_file(tmp_path, matrix, name, damage):
    path = tmp_path / name
    write_matrix(path, matrix)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    refusal(path)


LONG = "x" * 50_000
PARTS = {"format": b"csr", "shape": (2, 2), "data": np.ones(2), "indices": [0, 1], "indptr": [0, 1, 2]}
WITHOUT_INDICES = {"indices": [], "indptr": [0, 0, 0]}
HUGE = 1_000_000_000


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"indices": [0, 7]}, ""),  # beyond the last column
        ({"indices": [0, -1]}, ""),
        ({"indptr": [0, 3, 2]}, ""),  # beyond the last entry
        ({"indptr": [0, 2, 1]}, ""),
        ({"indptr": [1, 1, 2]}, ""),
        ({"indptr": [0, 2]}, ""),
        ({"data": [1.0]}, ""),
        ({"data": np.array([{}, {}])}, ""),  # would run code
        ({"data": np.array(["2020", "2021"], "M8[D]")}, "datetime64"),
        ({"data": np.array([b"a", b"b"])}, "|S1"),
        ({"data": np.array(["1", "2"])}, "<U1"),
        ({"data": np.zeros(2, [(LONG, "f8")])}, ""),
        ({"format": LONG.encode()}, ""),
        ({"shape": np.ones(50_000)}, ""),
        ({"shape": (HUGE, HUGE), "format": b"dia", "data": np.ones((1, 1)), "offsets": [0]}, "empty"),
        ({"shape": (HUGE, HUGE), "format": b"coo", "row": [0, 0], "col": [0, 1]}, "empty"),
        (
            {"shape": (HUGE, HUGE), "format": b"bsr", "data": np.ones((0, HUGE // 2, 1)), **WITHOUT_INDICES},
            "empty",
        ),
        ({"shape": (HUGE, 1), "format": b"csc", "indices": [0, 1], "indptr": [0, 2]}, "empty"),
    ],
)
def test_broken_npz(tmp_path, arrays, reason):
    path = tmp_path / "A.npz"
    np.savez_compressed(path, **{**PARTS, **arrays})
    assert reason in refusal(path)


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", ""),
        (b"\x93NUMPY", ""),
        (b"garbage", ""),
        (b"\x93NUMPY\x01\x00\x76\x00{'descr': ", ""),
        (b"\x93NUMPY\1\0\x60\xea" + b"{" + b"'" * 60_000, ""),
        (npy(np.ones(2)).replace(b"(2,)", b"(99999999,)"), ""),
        (npy(np.array([{}])), ""),  # would run code
        (npy(np.ones((3, 2))), "(3, 2)"),
    ],
)
def test_broken_npy(tmp_path, content, reason):
    path = tmp_path / "b.npy"
    path.write_bytes(content)
    assert reason in refusal(path, read_vector)


@pytest.mark.parametrize(
    ("read", "name"), [(read_matrix, "A.txt"), (read_matrix, "A.npy"), (read_vector, "b.npz")]
)
def test_unknown_ending(tmp_path, read, name):
    assert ".mtx" in refusal(tmp_path / name, read)


@pytest.mark.parametrize("read", [read_matrix, read_vector])
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file(tmp_path, read, make):
    path = tmp_path / "A.mtx"
    with pytest.raises(FileNotFoundError, match=r"A\.mtx"):
        read(path)
    make(path)
    assert "not a regular file" in refusal(path, read)


ANNOUNCED = {
    "rows.mtx": HEADER + f"{HUGE} {HUGE} 1\n1 1 1\n",
    "rows.mtx.gz": HEADER + f"{HUGE} {HUGE} 1\n1 1 1\n",
    "all_rows.mtx": HEADER + f"{10**15} 1 1\n1 1 1\n",
    "empty.mtx": HEADER + f"{HUGE} {HUGE} 0\n",
    "beyond_int32.mtx": HEADER + f"{2**31} {2**31} 1\n1 1 1\n",
    "entries.mtx": HEADER + f"9 9 {HUGE}\n1 1 1\n",
    "entries.mtx.gz": HEADER + f"9 9 {HUGE}\n1 1 1\n",
    "array.mtx": f"%%MatrixMarket matrix array real general\n{HUGE} 1\n1\n",
    "vector.mtx": f"%%MatrixMarket vector coordinate real general\n{HUGE} 1\n1 1\n",
}
READ_HUGE = """
    import resource
    from spmvgpu.matrix_io import read_matrix

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path in {paths!r}:
        try:
            print(read_matrix(path).shape)
        except (ValueError, MemoryError) as error:
            print("refused", str(error).startswith(path))
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000)
"""


def test_a_few_bytes_that_announce_a_huge_matrix(tmp_path):
    """They are refused before there is memory for it, whichever allocator it would come from."""
    paths = [str(tmp_path / name) for name in ANNOUNCED]
    for path, text in zip(paths, ANNOUNCED.values(), strict=True):
        Path(path).write_bytes(gzip.compress(text.encode()) if path.endswith(".gz") else text.encode())
    lines = run_python(READ_HUGE.format(paths=paths)).stdout.splitlines()
    assert lines == ["refused True"] * len(paths) + ["True"]


def test_an_array_in_an_archive_that_announces_more_than_there_is(tmp_path):
    path = tmp_path / "A.npz"
    sp.save_npz(path, sp.coo_array(np.ones((2, 2))), compressed=False)
    path.write_bytes(path.read_bytes().replace(b"(4,)", b"(4000000000,)"))  # in headers, which have room
    refusal(path)


def test_a_long_comment(tmp_path):
    path = tmp_path / "A.mtx"
    path.write_text(HEADER + "%" + "1 2 3 " * 500_000 + "\n2 2 1\n1 1 5\n%" + "x" * 1_000_000)
    assert read_matrix(path).nnz == 1
    path.write_text(HEADER + "%" * 5_000_000)
    assert "sizes must hold rows, columns, entries as whole numbers, and it is missing" in refusal(path)
    with gzip.open(tmp_path / "A.mtx.gz", "wb", compresslevel=1) as file:
        file.write(HEADER.encode() + b"%" * 70_000_000)
    assert "bytes of comments before the sizes" in refusal(tmp_path / "A.mtx.gz")


def test_packed_newlines_do_not_fill_the_memory(tmp_path):
    path = tmp_path / "A.mtx.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write((HEADER + "1 1 1\n").encode())
        for _ in range(300):
            file.write(b"\n" * 1_000_000)
    tracemalloc.start()
    try:
        assert "as few numbers" in refusal(path)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


# -- files of others -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MTX or [NO_FOLDER], ids=lambda path: path.stem if path else "all")
def test_collected_file(path):
    if path.stem in REFUSED:
        refusal(path)
        return
    if path.stem in BEYOND_SCIPY:
        assert read_matrix(path).nnz > 0
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the class that newer versions will give
        expected = scipy.io.mmread(path)
    assert_same(read_matrix(path), sp.coo_array(expected))


@pytest.mark.parametrize("path", BAD or [NO_FOLDER], ids=lambda path: path.stem if path else "all")
def test_collected_bad_file(path):
    if path.stem in ACCEPTED_BAD:
        assert read_matrix(path).nnz == 2
    else:
        refusal(path)


# -- writing -------------------------------------------------------------------------------------------------


def drawn(rng, dtype, shape=(9, 9)):
    """Values of all magnitudes that the type has, with an explicit zero."""
    A = sp.random_array(shape, density=0.3, format="csr", random_state=rng)
    wide = np.exp(rng.uniform(-60, 60, A.nnz))
    values = wide + 1j * rng.standard_normal(A.nnz) if dtype.kind == "c" else wide
    A = A.astype(dtype)
    A.data = rng.integers(-9, 9, A.nnz).astype(dtype) if dtype.kind in "iub" else values.astype(dtype)
    A.data[:1] = 0
    return A


@each_file
@pytest.mark.parametrize(
    "dtype", [np.dtype(name) for name in ["f4", "f8", "c8", "c16", "i1", "i8", "u4", "?"]]
)
def test_what_is_written_is_read(name, dtype, tmp_path):
    rng = np.random.default_rng(0)
    for shape in ((9, 9), (3, 17), (0, 0), (0, 4), (4, 0), (1, 1)):
        A = drawn(rng, dtype, shape)
        write_matrix(tmp_path / name, A)
        found = read_matrix(tmp_path / name)
        assert found.shape == shape
        np.testing.assert_array_equal(found.indices, A.indices)  # zeros stay
        np.testing.assert_array_equal(found.data.astype(dtype), A.data)
        if name == "A.npz" and dtype.kind in "fc":
            assert found.dtype == dtype


# A matrix, what is said of it, and what its file says.
DECLARED = [
    ([[2.0, 1.0], [1.0, 0.0]], True, "symmetric"),
    ([[2.0, 1j], [-1j, 0.0]], "hermitian", "hermitian"),
    ([[2.0, 1j], [1j, 3j]], True, "symmetric"),
    ([[2.0, 1.0], [1.0, 0.0]], "hermitian", "symmetric"),  # of real numbers it is the same
    ([[2.0, 1.0], [0.0, 3.0]], None, "general"),
    ([[2.0, 1.0], [1.0, 0.0]], None, "general"),
]


@each_file
@pytest.mark.parametrize(("rows", "symmetric", "word"), DECLARED)
def test_a_declared_symmetry_is_written(name, rows, symmetric, word, device, tmp_path):
    A = np.array(rows)
    file = tmp_path / name
    op = sg.aslinearoperator(A, "csr", device, symmetric=symmetric)
    for given, said in ((A, symmetric), (op, None), (op.T, None), (2 * op, None)):
        write_matrix(file, given, symmetric=said)
        np.testing.assert_array_equal(
            read_matrix(file).toarray(), given.toarray() if hasattr(given, "toarray") else given
        )
        if name == "A.mtx":
            assert file.read_text().splitlines()[0].split()[-1] == word
    write_matrix(file, np.tril(A), symmetric="lower")
    assert read_matrix(file).nnz == np.count_nonzero(np.tril(A) + np.tril(A, -1).T)
    write_matrix(file, op, symmetric=False)
    np.testing.assert_array_equal(read_matrix(file).toarray(), A)


def test_what_is_not_as_declared_is_not_written(tmp_path):
    file = tmp_path / "A.mtx"
    file.write_text("before")
    with pytest.raises(
        ValueError, match=r"declared symmetric and is not: entry \(0, 1\) is 1.*symmetric=False"
    ):
        write_matrix(file, np.array([[2.0, 1.0], [0.0, 0.0]]), symmetric=True)
    with pytest.raises(ValueError, match=r"A\.txt.*must end in \.mtx, \.mtx\.gz, \.npz"):
        write_matrix(tmp_path / "A.txt", np.eye(2))
    with pytest.raises(ValueError, match="not a regular file"):
        write_matrix(_folder(tmp_path / "B.npz"), np.eye(2))
    with pytest.raises(OSError, match=r"C\.mtx: could not be written"):
        write_matrix(tmp_path / "nowhere" / "C.mtx", np.eye(2))
    assert file.read_text() == "before"
    assert {path.name for path in tmp_path.iterdir()} == {"A.mtx", "B.npz"}


def _folder(path):
    path.mkdir()
    return path


def test_the_same_matrix_gives_the_same_file(matrix, tmp_path):
    files = [tmp_path / name for name in ("A.mtx.gz", "B.mtx.gz")]
    for file in files:
        write_matrix(file, matrix)
    assert files[0].read_bytes() == files[1].read_bytes()
