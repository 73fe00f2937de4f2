"""Matrices that ranks read from a file, each a part of it."""

from __future__ import annotations

import io
import os
import zipfile

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from battery import vector
from market_files import WRITTEN
from ranks import COMM, assert_multiplies, case
from spmvgpu import distributed

HEADER = b"%%MatrixMarket matrix coordinate real general\n"


@pytest.fixture
def write(folder):
    """Give a file its content, which is bytes or a function of the path; rank 0 writes it for all."""

    def write(name, content):
        path = folder / name
        if COMM.rank == 0:
            path.write_bytes(content) if isinstance(content, bytes) else content(path)
        COMM.Barrier()
        return path

    return write


def market(A, **options):
    """The text of a Matrix Market file."""
    text = io.BytesIO()
    scipy.io.mmwrite(text, A, **options)
    return text.getvalue()


def saved(**arrays):
    """A .npz file of a dense 3 x 3 matrix, with other arrays, or without those that are None."""
    A = sp.csr_array(np.ones((3, 3)))
    content = {"format": b"csr", "shape": A.shape, "data": A.data, "indices": A.indices, "indptr": A.indptr}
    text = io.BytesIO()
    np.savez(text, **{name: array for name, array in {**content, **arrays}.items() if array is not None})
    return text.getvalue()


def assert_reads(path, A, **options):
    """Every rank has the rows that are its own, to the bit."""
    op = distributed.read_matrix(path, COMM, **options)
    assert op.shape == A.shape
    assert op.nnz == A.nnz
    own = op.tocsr()
    expected = A[op.row_ranges.begin : op.row_ranges.end]
    np.testing.assert_array_equal(own.indptr, expected.indptr)
    np.testing.assert_array_equal(own.indices, expected.indices)
    np.testing.assert_array_equal(own.data, expected.data)
    return op


def assert_balanced(op, A, partition):
    """Each rank has its share of the rows, or the entries before its cuts are nearest to it."""
    offsets = op.row_ranges.offsets
    if partition == "rows" or A.nnz == 0:
        assert np.ptp(np.diff(offsets)) <= 1
    else:
        shares = A.nnz * np.arange(1, COMM.size) // COMM.size
        off = np.abs(A.indptr - shares[:, None])
        np.testing.assert_array_equal(np.abs(A.indptr[offsets[1:-1]] - shares), off.min(axis=1))


@pytest.mark.parametrize("partition", ["nnz", "rows"])
@pytest.mark.parametrize(
    "name", ["banded", "power_law_rows", "tall", "wide", "no_entries", "1x1", "wide_range"]
)
def test_matrix_market(write, name, partition):
    A, x = case(name)
    op = assert_reads(write("A.mtx", market(A)), A, partition=partition)
    assert_multiplies(op, A, x)
    assert_balanced(op, A, partition)


@pytest.mark.parametrize("symmetry", ["symmetric", "hermitian"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_symmetric_matrix_market(write, symmetry, dtype):
    A, x = case("sym_random", dtype)
    A = sp.csr_array(A + (A.T if symmetry == "symmetric" else A.conj().T))
    text = market(A, symmetry=symmetry)
    assert_multiplies(assert_reads(write("A.mtx", text), A), A, x)


LINES = ("comments", "crlf", "blanks", "fortran", "integer", "pattern", "any order", "skew", "no end")


@pytest.mark.parametrize("name", LINES)
def test_lines_of_matrix_market(write, name):
    text, A = WRITTEN[name]
    assert_reads(write("A.mtx", text), sp.csr_array(np.array(A)))


def test_lines_of_every_length(write):
    """Wherever in a line the ranges of bytes begin."""
    for length in range(15):
        text = f"1 1 5\n1 1 1{'0' * length}.0\n" + "1 1 0.5\n" * 4
        assert_reads(write("A.mtx", HEADER + text.encode()), sp.csr_array([[10.0**length + 2]]))


@pytest.mark.skipif(COMM.size < 3, reason="a rank would hold more of x than int32 counts")
def test_columns_beyond_int32(write):
    total = 6_000_000_000
    text = f"2 {total} 3\n1 1 1.0\n2 {total} 2.0\n1 3000000000 3.0\n"
    path = write("A.mtx", HEADER + text.encode())
    op = distributed.read_matrix(path, COMM)
    assert op.shape == (2, total)
    own = op.tocsr().tocoo()
    found = COMM.allreduce(list(zip(own.row + op.row_ranges.begin, own.col, own.data, strict=True)))
    assert sorted(found) == [(0, 0, 1.0), (0, 2_999_999_999, 3.0), (1, total - 1, 2.0)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a valid Matrix Market file"),
        (HEADER + b"2 2 3\n1 1 1.0\n2 2 1.0\n", "truncated: the header announces 3 entries, and 2 follow"),
        (HEADER + b"2 2 1\n1 1 1.0\n2 2 1.0\n", "too many entries: the header announces 1 entries, and 2"),
        (HEADER + b"2 2 2\n1 1 1.0\n2 2 abc\n", "lines from byte .*'abc' is no number"),
        (HEADER + b"1000000000 2 1\n2 2 1.0\n", "almost all rows are empty"),
        (HEADER + b"2 2 999999999\n2 2 1.0\n", "truncated"),
        (b"%%MatrixMarket matrix array real general\n1 1\n1.0\n", "only matrices in coordinate format"),
        (
            b"%%MatrixMarket vector coordinate real general\n1 1\n1 1.0\n",
            "only matrices in coordinate format",
        ),
        (HEADER + b"%%AMGX rhs\n1 1 1\n1 1 1.0\n7\n", "without vectors of AmgX"),
        (
            b"%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 2 1.0\n2 1 1.0\n",
            "entries in both triangles",
        ),
        (b"%%MatrixMarket matrix coordinate real skew-symmetric\n1 1 1\n1 1 1.0\n", "diagonal of a skew"),
    ],
)
def test_broken_matrix_market(write, content, message):
    with pytest.raises(ValueError, match=rf"A\.mtx: .*{message}"):
        distributed.read_matrix(write("A.mtx", content), COMM)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("partition", ["nnz", "rows"])
@pytest.mark.parametrize(
    "name", ["banded", "power_law_rows", "tall", "0x5", "5x0", "no_entries", "long_row_last"]
)
def test_npz(write, name, partition, compressed):
    A, x = case(name, "float32")
    path = write("A.npz", lambda path: sp.save_npz(path, A, compressed=compressed))
    op = assert_reads(path, A, partition=partition)
    assert op.dtype == np.float32
    assert_multiplies(op, A, x)
    assert_balanced(op, A, partition)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no archive", "not a file of scipy.sparse.save_npz"),
        (saved(data=None), "not a file of scipy.sparse.save_npz"),
        (saved()[:-200], "not a file of scipy.sparse.save_npz"),
        (saved(format=b"csc"), "a matrix in format 'csc'; ranks read only CSR"),
        (saved(shape=(3,)), "the shape is"),
        (saved(shape=(-1, 3)), "the shape is"),
        (saved(shape=(4, 3)), "truncated: indptr has 4 entries, but 5 are needed"),
        (saved(indptr=[0, 2, 1, 9]), "indptr must start at 0 and ascend"),
        (saved(indptr=[1, 2, 3, 9]), "indptr must start at 0 and ascend"),
        (saved(indptr=[0, 3, 6, 99]), "truncated: indices has 9 entries, but 99 are needed"),
        (saved(data=np.ones(8)), "truncated: data has 8 entries, but 9 are needed"),
        (saved(indices=[0, 1, 2] * 2 + [0, 1, 3]), "indices"),
        (saved(data=np.array([None] * 9)), "data has shape"),
    ],
)
def test_broken_npz(write, content, message):
    with pytest.raises(ValueError, match=message):
        distributed.read_matrix(write("A.npz", content), COMM)


def test_damaged_archive(write):
    """One rank may meet the damage and the others not."""
    A, _ = case("uniform")
    text = io.BytesIO()
    sp.save_npz(text, A, compressed=True)
    content = bytearray(text.getvalue())
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        info = archive.getinfo("data.npy")
    middle = info.header_offset + info.compress_size // 2
    content[middle : middle + 500] = b"\xff" * 500
    with pytest.raises(ValueError, match=r"A\.npz"):
        distributed.read_matrix(write("A.npz", bytes(content)), COMM)


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("A.mtx.gz", ValueError, "decompress it first"),
        ("A.txt", ValueError, r"must end in \.mtx or \.npz"),
        ("absent.mtx", OSError, "absent"),
        (7, TypeError, "path=7 is no path"),
    ],
)
def test_paths_that_are_none(folder, path, kind, message):
    with pytest.raises(kind, match=message):
        distributed.read_matrix(folder / path if isinstance(path, str) else path, COMM)


@pytest.mark.parametrize("name", ["A.mtx", "A.npz"])
def test_pipe_does_not_block(write, name):
    with pytest.raises(ValueError, match="not a regular file"):
        distributed.read_matrix(write(name, os.mkfifo), COMM)


def test_folder(write):
    with pytest.raises(ValueError, match="not a regular file"):
        distributed.read_matrix(write("A.mtx", os.mkdir), COMM)


def test_messages_are_short_whatever_a_file_holds(write):
    long = b"x" * 50_000
    for name, content in (
        ("word.mtx", HEADER + b"1 1 1\n1 1 " + long),
        ("banner.mtx", long),
        ("format.npz", saved(format=long)),
        ("shape.npz", saved(shape=np.zeros(50_000, np.int64))),
        ("dtype.npz", saved(data=np.zeros((9, 1), [(long[:10_000].decode(), "f8")]))),
    ):
        path = write(name, content)
        with pytest.raises(ValueError, match=name) as caught:
            distributed.read_matrix(path, COMM)
        message = str(caught.value).replace(str(path), "")
        assert len(message) < 500
        assert message.isprintable()


def test_partition_that_is_none(write):
    with pytest.raises(ValueError, match="'nnz', 'rows'"):
        distributed.read_matrix(write("A.mtx", market(case("1x1")[0])), COMM, "metis")


def test_options_of_the_operator(write):
    A, _ = case("tridiagonal")
    op = distributed.read_matrix(write("A.mtx", market(A)), COMM, format="dia", dtype="float32")
    assert (op.format, op.dtype) == ("dia", np.float32)
    assert_multiplies(op, A.astype(np.float32), vector(A.shape[1], np.dtype("float32")))
