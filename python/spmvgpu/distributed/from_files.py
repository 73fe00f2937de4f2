"""Operators from matrices in files that all ranks read, each the rows or the lines of its own."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._util.arguments import one_of
from .._util.messages import quoted
from .._util.types import HostArray
from ..inputs.matrix_market import Header, expanded, read_header, triplets
from ..inputs.reading import MATRIX_MARKET, NPZ, as_path, check_readable, check_rows, parsing
from .communicators import Communicator, private
from .errors import agreement, check_same
from .exchange import send_to
from .from_rows import aslinearoperator
from .operator import DistributedOperator
from .ranges import Ranges, balanced

SUFFIXES = (".mtx", ".npz")


def read_matrix(
    path: str | os.PathLike[str], comm: Communicator, partition: str = "nnz", **options: Any
) -> DistributedOperator:
    """Read a matrix from a file into one operator over all ranks.

    Each rank reads a part of the file. No rank needs memory for the whole matrix.

    Parameters
    ----------
    path : path
        A file that all ranks can read. Either a Matrix Market file in coordinate format (``.mtx``), or a CSR
        matrix from `scipy.sparse.save_npz` (``.npz``). Use ``save_npz(..., compressed=False)`` for speed:
        from a compressed file, a rank unpacks everything before its rows.
    comm : mpi4py communicator
    partition : {"nnz", "rows"}
        Whether each rank gets the same number of stored entries or of rows.
    **options
        As in `distributed.aslinearoperator`.

    Returns
    -------
    DistributedOperator

    Raises
    ------
    ValueError, OSError
        If the file is invalid or cannot be read. All ranks raise it.
    TypeError, FormatError, MemoryError, CudaError, ImportError
        As `distributed.aslinearoperator`.

    Examples
    --------
    >>> import os, tempfile, scipy.sparse as sp
    >>> from mpi4py import MPI
    >>> from spmvgpu import distributed
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "A.npz")
    ...     sp.save_npz(path, sp.eye_array(5, format="csr"), compressed=False)
    ...     op = distributed.read_matrix(path, MPI.COMM_SELF, device="cpu")
    >>> op.shape, op.nnz
    ((5, 5), 5)
    """
    own = private(comm)
    with agreement(own):
        one_of("partition", partition, ("nnz", "rows"))
        file = as_path(path)
        if file.suffix not in SUFFIXES:
            packed = "; decompress it first, because ranks read from the middle of the file"
            raise ValueError(
                f"{path}: the file name must end in {' or '.join(SUFFIXES)}{packed * (file.suffix == '.gz')}"
            )
        check_readable(file)
    check_same(own, partition=partition, path=file.name)
    read = _read_npz if file.suffix == ".npz" else _read_matrix_market
    ranges, csr = read(file, own, partition == "nnz")
    return aslinearoperator(csr, own, row_ranges=ranges, **options)


# Files of `scipy.sparse.save_npz`: each rank reads its rows.


def _read_npz(path: Path, comm: Communicator, by_nnz: bool) -> tuple[Ranges, sp.csr_array]:
    """The ranges of all ranks, with about as many entries each or as many rows, and the rows of this rank.

    Raises
    ------
    ValueError, OSError
        On all ranks, if the file is broken or cannot be read.
    """
    with _archive(path, comm) as archive:
        kind, shape = (_array(archive, name) for name in ("format", "shape"))
        if kind.tolist() not in ("csr", b"csr"):
            name = quoted(str(kind.astype(str)))
            raise ValueError(f"a matrix in format {name}; ranks read only CSR matrices, so save A.tocsr()")
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
            raise ValueError(f"the shape is {quoted(str(shape.tolist()))}")
    rows, cols = map(int, shape)
    check_same(comm, shape=(rows, cols))
    ranges = Ranges.even(comm, rows)
    if by_nnz:
        with _archive(path, comm) as archive:
            lengths = np.diff(_row_offsets(archive, ranges))
        ranges = balanced(ranges, lengths)
    with _archive(path, comm) as archive:
        offsets = _row_offsets(archive, ranges)
        begin, end = int(offsets[0]), int(offsets[-1])
        indices, data = (_array(archive, name, begin, end) for name in ("indices", "data"))
        csr = sp.csr_array((data, indices, offsets - begin), shape=(len(ranges), cols))
    return ranges, csr


@contextmanager
def _archive(path: Path, comm: Communicator) -> Iterator[zipfile.ZipFile]:
    with agreement(comm), parsing(path, NPZ), zipfile.ZipFile(path) as archive:
        yield archive


def _row_offsets(archive: zipfile.ZipFile, ranges: Ranges) -> HostArray:
    offsets = _array(archive, "indptr", ranges.begin, ranges.end + 1).astype(np.int64)
    if offsets[0] < 0 or (np.diff(offsets) < 0).any() or (ranges.begin == 0 and offsets[0] != 0):
        raise ValueError("indptr must start at 0 and ascend")
    return offsets


def _array(archive: zipfile.ZipFile, name: str, begin: int = 0, end: int | None = None) -> HostArray:
    """An array of the file; with an end given, some entries of a vector."""
    with archive.open(f"{name}.npy") as stream:
        if end is None:
            whole: HostArray = np.lib.format.read_array(stream, allow_pickle=False)
            return whole
        np.lib.format.read_magic(stream)
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        if dtype.hasobject or len(shape) != 1:
            raise ValueError(f"{name} has shape {shape} and dtype {dtype}")
        if end > shape[0]:
            raise ValueError(f"truncated: {name} has {shape[0]} entries, but {end} are needed")
        stream.seek(begin * dtype.itemsize, 1)
        return np.frombuffer(stream.read((end - begin) * dtype.itemsize), dtype, end - begin)


# Matrix Market files: each rank reads the lines that begin in its range of bytes, whose rows are any.


def _read_matrix_market(path: Path, comm: Communicator, by_nnz: bool) -> tuple[Ranges, sp.csr_array]:
    """As `_read_npz`; entries that several lines state are added in the order of the lines."""
    header, row, col, data = _entries(path, comm)
    ranges = Ranges.even(comm, header.rows)
    if by_nnz:
        rows_here, counts = np.unique(row, return_counts=True)
        _, (rows_here, counts) = send_to(comm, ranges.owners(rows_here), rows_here, counts)
        lengths = np.bincount(rows_here - ranges.begin, counts, minlength=len(ranges))
        ranges = balanced(ranges, lengths.astype(np.int64))
    _, (row, col, data) = send_to(comm, ranges.owners(row), row, col, data)
    shape = (len(ranges), header.cols)
    return ranges, sp.csr_array(sp.coo_array((data, (row - ranges.begin, col)), shape=shape))


def _entries(path: Path, comm: Communicator) -> tuple[Header, HostArray, HostArray, HostArray]:
    """The header, and rows, columns and values of the entries that this rank's lines state or imply.

    A symmetric file states the entries of one triangle.
    """
    advice = "read the file on one rank and use distributed.scatter"
    with agreement(comm), parsing(path, MATRIX_MARKET), path.open("rb") as stream:
        header = read_header(stream, path.stat().st_size)
        check_rows(header.rows, header.entries, comm.size)
        if len(header.lengths) < 2 or header.rest_is_ignored:
            raise ValueError(
                f"ranks read only matrices in coordinate format, without vectors of AmgX; {advice}"
            )
        body, size = stream.tell(), path.stat().st_size
        begin, end = (
            _line_begin(stream, body, body + (size - body) * rank // comm.size)
            for rank in (comm.rank, comm.rank + 1)
        )
        stream.seek(begin)
        try:
            row, col, data = triplets(bytearray(stream.read(end - begin)), header._replace(line=1))
        except ValueError as error:
            raise ValueError(f"in the lines from byte {begin} to {end}, {error}") from error
    entries, below, above = comm.allreduce(np.array([len(data), (row > col).any(), (row < col).any()]))
    with agreement(comm), parsing(path, MATRIX_MARKET):
        if entries != header.entries:
            relation = "truncated" if entries < header.entries else "too many entries"
            raise ValueError(
                f"{relation}: the header announces {header.entries} entries, and {entries} follow"
            )
        if header.symmetry != "general":
            if below and above:
                raise ValueError(
                    f"the header says {header.symmetry}, but there are entries in both triangles; write one "
                    f"triangle, or {advice}"
                )
            row, col, data = expanded(header, row, col, data)
    return header, row.astype(np.int64), col.astype(np.int64), data


def _line_begin(stream: BufferedIOBase, body: int, position: int) -> int:
    """The first line that begins at a position or after it."""
    if position == body:
        return body
    stream.seek(position - 1)
    stream.readline()
    return stream.tell()
