"""Matrix Market files read by all ranks: each reads the lines that begin in its range of bytes."""

from __future__ import annotations

from io import BufferedIOBase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._util.messages import reason
from ..inputs.matrix_market import Header, entries_of, expanded, read_header
from ..inputs.reading import check_rows
from .errors import agreement

Array = npt.NDArray[Any]

_LONGEST_LINE = 1 << 20


class Triplets(NamedTuple):
    """Entries of a matrix that one rank has read."""

    shape: tuple[int, int]
    row: Array
    col: Array
    data: Array


def read_triplets(path: Path, comm: Any) -> Triplets:
    """The entries of this rank's lines; those that a symmetric file implies are with the ones it states.

    Raises
    ------
    ValueError, OSError
        On all ranks, if the file is broken or cannot be read.
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
    if header.symmetry != "general" and found[1] and found[2]:
        raise ValueError(
            f"{path}: the header says {header.symmetry}, but there are entries in both triangles; write one "
            "triangle, or read the file on one rank and use distributed.scatter"
        )
    with agreement(comm):
        entries = entries_of(reader, header)
        if header.symmetry != "general":
            try:
                entries = expanded(header, entries)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from error
    row, col = (indices.astype(np.int64) for indices in (entries.row, entries.col))
    return Triplets((header.rows, header.cols), row, col, entries.data)


def _checked_header(path: Path, stream: BufferedIOBase, ranks: int) -> Header:
    """What the file announces; afterwards the stream is where its entries begin."""
    try:
        header = read_header(stream)
        if header.least_bytes > path.stat().st_size:
            raise ValueError(f"truncated: the header announces {header.entries} entries")
        check_rows(header.rows, header.entries, ranks)
    except Exception as error:  # the parser raises what it pleases
        raise ValueError(f"{path}: not a valid Matrix Market file: {reason(error)}") from error
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
    while (part := stream.readline(_LONGEST_LINE)) and not part.endswith(b"\n"):
        pass
    return stream.tell()
