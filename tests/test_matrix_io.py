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

from spmvgpu.matrix_io import read_matrix, read_vector
from support import run_python

MTX = sorted(Path(os.environ.get("SPMVGPU_MATRICES", os.devnull)).glob("mtx/*.mtx"))
BAD = sorted(Path(os.environ.get("SPMVGPU_MATRICES", os.devnull)).glob("mtx/bad/*.mtx"))
NO_FOLDER = pytest.param(
    None, marks=pytest.mark.skip(reason="SPMVGPU_MATRICES names no folder with mtx files")
)

# Not as the format wants them, or beyond what SciPy reads: refused with a message.
REFUSED = {
    "a4",
    "fullcsa",
    "fullrsa",
    "made_crlf_tabs",
    "made_upper_header",
    "matrix_fp32",
    "west0067_jumbled",
}
ACCEPTED_BAD = {"mangled14"}  # only has duplicates, which are summed

HEADER = "%%MatrixMarket matrix coordinate real general\n"


@pytest.fixture
def matrix():
    return sp.random_array((20, 30), density=0.1, format="csr", random_state=np.random.default_rng(0))


def write_mtx(path, content, **options):
    with path.open("wb") as stream:
        scipy.io.mmwrite(stream, content, **options)
    return path


def write_gz(path, matrix):
    text = io.BytesIO()
    scipy.io.mmwrite(text, matrix)
    path.write_bytes(gzip.compress(text.getvalue()))
    return path


def write_npz(path, matrix):
    sp.save_npz(path, matrix)
    return path


WRITERS = {"A.mtx": write_mtx, "A.mtx.gz": write_gz, "A.npz": write_npz}


def assert_same(found, expected):
    assert isinstance(found, sp.csr_array)
    assert found.has_canonical_format
    np.testing.assert_array_equal(found.toarray(), expected.toarray())


# -- what is read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITERS)
def test_matrix(tmp_path, matrix, name):
    assert_same(read_matrix(WRITERS[name](tmp_path / name, matrix)), matrix)


@pytest.mark.parametrize("name", WRITERS)
def test_matrix_by_string(tmp_path, matrix, name):
    assert_same(read_matrix(str(WRITERS[name](tmp_path / name, matrix))), matrix)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "dia", "bsr"])
def test_npz_of_any_format(tmp_path, matrix, layout):
    assert_same(read_matrix(write_npz(tmp_path / "A.npz", matrix.asformat(layout))), matrix)


@pytest.mark.parametrize("name", ["A.mtx", "A.mtx.gz"])
def test_symmetric_storage_is_expanded(tmp_path, name):
    full = sp.csr_array(np.array([[4.0, 1, 0], [1, 5, 2], [0, 2, 6]]))
    text = io.BytesIO()
    scipy.io.mmwrite(text, full, symmetry="symmetric")
    content = text.getvalue()
    assert b" symmetric" in content
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    assert_same(read_matrix(tmp_path / name), full)


def test_duplicates_are_summed(tmp_path):
    path = tmp_path / "A.mtx"
    path.write_text(HEADER + "2 2 4\n1 1 1.5\n1 1 2\n2 1 3\n2 2 1\n")
    found = read_matrix(path)
    assert found.nnz == 3
    np.testing.assert_array_equal(found.toarray(), [[3.5, 0], [3, 1]])


def test_comments_and_blank_lines(tmp_path):
    path = tmp_path / "A.mtx"
    path.write_text(HEADER + "% made by D, O\n%\n2 2 2\n\n1 1 1.5\n\n2 2 -2e0\n\n")
    np.testing.assert_array_equal(read_matrix(path).toarray(), [[1.5, 0], [0, -2]])


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (3, 0), (3, 4)], ids=str)
@pytest.mark.parametrize("name", WRITERS)
def test_empty_matrix(tmp_path, name, shape):
    found = read_matrix(WRITERS[name](tmp_path / name, sp.coo_array(shape)))
    assert found.shape == shape
    assert found.nnz == 0


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 5e-324, 1.7976931348623157e308])
def test_extreme_values(tmp_path, value):
    path = write_mtx(tmp_path / "A.mtx", sp.coo_array(([value], ([0], [1])), shape=(2, 2)))
    np.testing.assert_array_equal(read_matrix(path).data, [value])


@pytest.mark.parametrize("shape", [(7,), (7, 1), (1, 7)], ids=str)
@pytest.mark.parametrize("name", ["b.npy", "b.mtx"])
def test_vector(tmp_path, name, shape):
    b = np.arange(7.0) - 2
    if name == "b.npy":
        np.save(tmp_path / name, b.reshape(shape))
    else:
        write_mtx(tmp_path / name, np.atleast_2d(b.reshape(shape)))
    np.testing.assert_array_equal(read_vector(tmp_path / name), b)


@pytest.mark.parametrize("name", ["b.mtx", "b.mtx.gz"])
def test_sparse_vector(tmp_path, name):
    b = sp.coo_array(np.array([[0.0], [3], [0], [-1]]))
    np.testing.assert_array_equal(
        read_vector(WRITERS[name.replace("b", "A")](tmp_path / name, b)), [0, 3, 0, -1]
    )


# -- what is refused -----------------------------------------------------------------------------------------


def refusal(path, read=read_matrix):
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        read(path)
    return str(caught.value).removeprefix(str(path))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Matrix Market"),
        ("hello\n", "banner"),
        ("\0\1\2\3", "banner"),
        ("%%MatrixMarket matrix coordinate real general\n", "Matrix Market"),
        ("%%MatrixMarket matrix coordinate quaternion general\n1 1 1\n1 1 1\n", "quaternion"),
        (HEADER + "2 2\n", "Matrix Market"),
        (HEADER + "2 two 1\n1 1 1\n", "Invalid integer"),
        (HEADER + "-2 2 1\n1 1 1\n", "Matrix Market"),
        (HEADER + "2 2 3\n1 1 1\n2 2 2\n", "truncated: the header announces 3 entries"),
        (HEADER + "2 2 1\n1 1 1\n2 2 2\n", "too many numbers: 6 follow"),
        (HEADER + "2 2 1\n3 1 1\n", "out of bounds"),
        (HEADER + "2 2 1\n1 0 1\n", "out of bounds"),
        (HEADER + "2 2 1\n1 1 one\n", "character 'o'"),
        (HEADER + "2 2 1\n1 1 1.0D+03\n", "character 'D'"),
        (HEADER + "2 2 1\n1 1 2,5\n", "character ','"),
        (HEADER + "2 2 1\n1 1\n", "3 numbers a line, this one 2"),
        (HEADER + "2 2 1\n1 1 1 1\n", "3 numbers a line, this one 4"),
        (HEADER + "2 2 2\n1 1 1\n2 2 4.5E", "truncated"),
        (HEADER + "2 2 2\n1 1 1\n2 2 4.5E-", "truncated"),
        (HEADER + "9 9 123456789012\n1 1 1\n", "truncated"),
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


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("part", [0, 0.1, 0.5, 0.9])
def test_truncated_file(tmp_path, matrix, name, part):
    path = WRITERS[name](tmp_path / name, matrix)
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    refusal(path)


@pytest.mark.parametrize("name", WRITERS)
def test_garbage(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(np.random.default_rng(0).bytes(5000))
    refusal(path)


@pytest.mark.parametrize("name", ["A.mtx.gz", "A.npz"])
def test_damaged_archive(tmp_path, matrix, name):
    path = WRITERS[name](tmp_path / name, matrix)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    refusal(path)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("indices", [0, 7]),  # beyond the last column
        ("indices", [0, -1]),
        ("indptr", [0, 3, 2]),  # beyond the last entry
        ("indptr", [0, 2, 1]),
        ("indptr", [1, 1, 2]),
        ("indptr", [0, 2]),
        ("data", [1.0]),
    ],
)
def test_npz_with_broken_indices(tmp_path, field, values):
    arrays = {"data": np.ones(2), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2])}
    arrays[field] = np.array(values)
    path = tmp_path / "A.npz"
    np.savez(path, format=b"csr", shape=(2, 2), **arrays)
    refusal(path)


def test_npz_of_something_else(tmp_path):
    path = tmp_path / "A.npz"
    np.savez(path, a=np.ones(3))
    assert "save_npz" in refusal(path)


def test_npz_that_would_run_code(tmp_path):
    path = tmp_path / "A.npz"
    np.savez(path, format=b"csr", data=np.array([{}]), indices=[0], indptr=[0, 1], shape=(1, 1))
    refusal(path)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"garbage", b"\x93NUMPY\x01\x00\x76\x00{'descr': "])
def test_broken_npy(tmp_path, content):
    path = tmp_path / "b.npy"
    path.write_bytes(content)
    refusal(path, read_vector)


def test_truncated_npy(tmp_path):
    path = tmp_path / "b.npy"
    np.save(path, np.ones(100))
    path.write_bytes(path.read_bytes()[:-8])
    refusal(path, read_vector)


def test_npy_that_would_run_code(tmp_path):
    path = tmp_path / "b.npy"
    np.save(path, np.array([{}]), allow_pickle=True)
    refusal(path, read_vector)


def test_vector_of_matrix_shape(tmp_path):
    path = tmp_path / "b.npy"
    np.save(path, np.ones((3, 2)))
    assert "(3, 2)" in refusal(path, read_vector)


@pytest.mark.parametrize(
    ("read", "name"), [(read_matrix, "A.txt"), (read_matrix, "A.npy"), (read_vector, "b.npz")]
)
def test_unknown_ending(tmp_path, read, name):
    message = refusal(tmp_path / name, read)
    assert ".mtx" in message


@pytest.mark.parametrize("read", [read_matrix, read_vector])
def test_folder(tmp_path, read):
    path = tmp_path / "A.mtx"
    path.mkdir()
    assert "not a regular file" in refusal(path, read)


def test_pipe_does_not_block(tmp_path):
    path = tmp_path / "A.mtx"
    os.mkfifo(path)
    assert "not a regular file" in refusal(path)


@pytest.mark.parametrize("read", [read_matrix, read_vector])
def test_missing_file(tmp_path, read):
    with pytest.raises(FileNotFoundError, match=r"A\.mtx"):
        read(tmp_path / "A.mtx")


def test_matrix_beyond_the_memory(tmp_path):
    path = tmp_path / "A.mtx"
    path.write_text(HEADER + f"{10**15} 1 1\n1 1 1\n")
    with pytest.raises(MemoryError, match="does not fit"):
        read_matrix(path)


# What follows the last number of a file without a newline at its end, and whether that is still a matrix.
ENDS = {
    "": True,
    " ": True,
    "\t": True,
    "\r": True,
    "  \t ": True,
    " 7": False,
    "\n7": False,
    "\0": False,
    "x": False,
}
READ = """
    from spmvgpu.matrix_io import read_matrix

    for path in {paths!r}:
        try:
            print(read_matrix(path).toarray().tolist(), flush=True)
        except ValueError as error:
            print("refused", str(error).startswith(path), flush=True)
"""


def read_apart(folder, texts, packed):
    """What is read of each of the texts, in a process of its own: some of them ended it."""
    paths = [str(folder / f"{number}.mtx{'.gz' * packed}") for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        Path(path).write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    done = run_python(READ.format(paths=paths), check=False)
    read = done.stdout.splitlines()
    assert done.returncode == 0, f"{texts[len(read)]!r} ended the process\n{done.stderr}"
    return read


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_ends_of_files_without_a_newline(tmp_path, packed):
    read = read_apart(tmp_path, [HEADER + "2 2 2\n1 1 1.5\n2 2 4" + end for end in ENDS], packed)
    right = {True: "[[1.5, 0.0], [0.0, 4.0]]", False: "refused True"}
    assert dict(zip(ENDS, read, strict=True)) == {end: right[is_matrix] for end, is_matrix in ENDS.items()}


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_arrays_without_entries(tmp_path, packed):
    rests = ["0 5\n", "0 5", "5 0\n", "0 0\n"]
    read = read_apart(
        tmp_path, ["%%MatrixMarket matrix array real general\n" + rest for rest in rests], packed
    )
    assert read == ["[]", "[]", "[[], [], [], [], []]", "[]"]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gz"])
def test_a_few_bytes_that_announce_a_huge_matrix(tmp_path, packed):
    text = (HEADER + f"{2**31} {2**31} 1\n1 1 1\n").encode()
    path = tmp_path / ("A.mtx.gz" if packed else "A.mtx")
    path.write_bytes(gzip.compress(text) if packed else text)
    tracemalloc.start()
    try:
        with pytest.raises((ValueError, MemoryError), match=str(path)):
            read_matrix(path)
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()


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


@pytest.mark.parametrize(
    "data",
    [
        np.ones(2, np.longdouble),
        np.array(["2020", "2021"], "M8[D]"),
        np.array([b"a", b"b"]),
        np.array(["1", "2"]),
    ],
    ids=lambda data: data.dtype.name,
)
def test_npz_of_values_that_are_no_numbers_of_ours(tmp_path, data):
    path = tmp_path / "A.npz"
    np.savez(path, format=b"csr", shape=(1, 2), data=data, indices=[0, 1], indptr=[0, 2])
    if data.dtype == np.float64:
        pytest.skip("longdouble is float64 here")
    assert str(data.dtype) in refusal(path)


def test_npz_of_one_dimension(tmp_path):
    path = tmp_path / "A.npz"
    np.savez(path, format=b"csr", shape=(3,), data=[1.0], indices=[0], indptr=[0, 1])
    refusal(path)


# -- files of others -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MTX or [NO_FOLDER], ids=lambda path: path.stem if path else "all")
def test_collected_file(path):
    if path.stem in REFUSED:
        refusal(path)
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
