"""Operators from matrices in files that all ranks read, each the rows or the lines of its own."""

from __future__ import annotations

import os
import zipfile
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._util.arguments import one_of
from .._util.messages import quoted
from .._util.types import HostArray
from ..inputs.matrix_market import Header, entries_of, expanded, read_header
from ..inputs.reading import MATRIX_MARKET, NPZ, as_path, check_readable, check_rows, parsing, read_npy_header
from .communicators import Communicator, private
from .errors import agreement, check_same
from .exchange import send_to
from .from_rows import aslinearoperator
from .operator import DistributedOperator
from .ranges import Ranges, balanced

SUFFIXES = (".mtx", ".npz")

_LONGEST_LINE = 1 << 20


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
    with agreement(comm):
        rows, cols = _shape(path)
    check_same(comm, shape=(rows, cols))
    ranges = Ranges.even(comm, rows)
    if by_nnz:
        with agreement(comm):
            lengths = np.diff(_row_offsets(path, ranges))
        ranges = balanced(ranges, lengths)
    with agreement(comm):
        offsets = _row_offsets(path, ranges)
        begin, end = int(offsets[0]), int(offsets[-1])
        indices, data = (_array(path, name, begin, end) for name in ("indices", "data"))
        return ranges, sp.csr_array((data, indices, offsets - begin), shape=(len(ranges), cols))


def _shape(path: Path) -> tuple[int, int]:
    kind = _array(path, "format").tolist()
    if kind not in (b"csr", "csr"):
        name = quoted(kind if isinstance(kind, bytes) else str(kind))
        raise ValueError(
            f"{path}: a matrix in format {name}; ranks read only CSR matrices, so save A.tocsr()"
        )
    shape = _array(path, "shape")
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
        raise ValueError(f"{path}: invalid file: the shape is {quoted(str(shape.tolist()))}")
    return int(shape[0]), int(shape[1])


def _row_offsets(path: Path, ranges: Ranges) -> HostArray:
    offsets = _array(path, "indptr", ranges.begin, ranges.end + 1).astype(np.int64)
    if offsets[0] < 0 or (np.diff(offsets) < 0).any() or (ranges.begin == 0 and offsets[0] != 0):
        raise ValueError(f"{path}: invalid file: indptr must start at 0 and ascend")
    return offsets


def _array(path: Path, name: str, begin: int = 0, end: int | None = None) -> HostArray:
    """Entries of one of the arrays in the file; all of them, or its one, if there is no end."""
    reading = parsing(path, NPZ, OSError)
    with reading, zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as stream:
        shape, dtype = read_npy_header(stream)
        if dtype.hasobject or len(shape) > 1:
            raise ValueError(f"{name} has shape {shape} and dtype {dtype}")
        length = shape[0] if shape else 1
        end = length if end is None else end
        if end > length:
            raise ValueError(f"truncated: {name} has {length} entries, but {end} are needed")
        stream.seek(begin * dtype.itemsize, 1)
        content = stream.read((end - begin) * dtype.itemsize)
        return np.frombuffer(content, dtype, count=end - begin).reshape(-1 if shape else ())


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
    with agreement(comm):
        with path.open("rb") as stream:
            header = _checked_header(path, stream, comm.size)
            body, size = stream.tell(), path.stat().st_size
            begin, end = (
                _line_begin(stream, body, body + (size - body) * rank // comm.size)
                for rank in (comm.rank, comm.rank + 1)
            )
            stream.seek(begin)
            text = stream.read(end - begin)
        reader = header._replace(line=1).reader(text.count(b"\n") + 1)
        try:
            reader.read(text if text.endswith(b"\n") or not text else text + b"\n")
        except ValueError as error:
            raise ValueError(f"{path}: in the lines from byte {begin} to {end}, {error}") from error
    found = comm.allreduce(np.array([reader.entries, reader.has_below, reader.has_above]))
    if found[0] != header.entries:
        relation = "truncated" if found[0] < header.entries else "too many entries"
        raise ValueError(
            f"{path}: {relation}: the header announces {header.entries} entries, and {found[0]} follow"
        )
    is_general = header.symmetry == "general"
    if not is_general and found[1] and found[2]:
        raise ValueError(
            f"{path}: the header says {header.symmetry}, but there are entries in both triangles; write one "
            "triangle, or read the file on one rank and use distributed.scatter"
        )
    with agreement(comm):
        entries = entries_of(reader, header)
        try:
            entries = entries if is_general else expanded(header, entries)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    return header, entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data


def _checked_header(path: Path, stream: BufferedIOBase, ranks: int) -> Header:
    """What the file announces; afterwards the stream is where its entries begin."""
    with parsing(path, MATRIX_MARKET):
        header = read_header(stream)
        if header.least_bytes > path.stat().st_size:
            raise ValueError(f"truncated: the header announces {header.entries} entries")
        check_rows(header.rows, header.entries, ranks)
    if header.object != "matrix" or header.layout != "coordinate" or header.has_more:
        raise ValueError(
            f"{path}: a {header.object} in {header.layout} "
            f"format{', with vectors of AmgX' * header.has_more}; ranks read only matrices in coordinate "
            "format; read the file on one rank and use distributed.scatter"
        )
    return header


def _line_begin(stream: BufferedIOBase, body: int, position: int) -> int:
    """The first line that begins at a position or after it."""
    if position == body:
        return body
    stream.seek(position - 1)
    while (text := stream.readline(_LONGEST_LINE)) and not text.endswith(b"\n"):
        pass
    return stream.tell()
