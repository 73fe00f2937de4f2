"""Matrix Market files by ranges of bytes: each rank parses the lines that begin in its own.

The parsing is SciPy's, after the checks of `spmvgpu.matrix_market`: every rank reads its lines as a file of
their own, with the header of the whole.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.io

from ..matrix_io import SPARSE_ARRAY
from ..matrix_market import Header, LineEnding, check_text
from .errors import agreement

Array = npt.NDArray[Any]

_LONGEST_LINE = 1 << 20
_FIELDS = ("real", "integer", "unsigned-integer", "pattern", "complex")


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
            header, body = _read_header(path, stream)
            size = path.stat().st_size
            begin, end = (
                _line_begin(stream, body, body + (size - body) * rank // comm.size)
                for rank in (comm.rank, comm.rank + 1)
            )
            stream.seek(begin)
            text = stream.read(end - begin)
        try:
            coo, stated = _parse(text, header)
        except Exception as error:  # the parser raises what it pleases
            raise ValueError(f"{path}: bytes {begin} to {end}: {error}") from error
    found = comm.allreduce(stated)
    if found != header.entries:
        relation = "truncated" if found < header.entries else "too many entries"
        raise ValueError(
            f"{path}: {relation}: the header announces {header.entries} entries, and {found} follow"
        )
    return Triplets((header.rows, header.cols), coo.row.astype(np.int64), coo.col.astype(np.int64), coo.data)


def _read_header(path: Path, stream: IO[bytes]) -> tuple[Header, int]:
    """What the file announces, and where its entries begin."""
    try:
        header = Header(*scipy.io.mminfo(LineEnding(stream, 64 * _LONGEST_LINE)))
    except Exception as error:
        raise ValueError(f"{path}: not a valid Matrix Market file: {error}") from error
    if header.layout != "coordinate" or header.field not in _FIELDS:
        raise ValueError(
            f"{path}: format {header.layout}, field {header.field}; ranks read format coordinate, fields "
            f"{', '.join(_FIELDS)}"
        )
    if header.symmetry != "general" and header.rows != header.cols:
        raise ValueError(f"{path}: {header.symmetry}, but the shape is {header.rows} x {header.cols}")
    stream.seek(0)
    line = b"%"
    while line.lstrip()[:1] in (b"%", b""):  # up to the line of the sizes, which mminfo has found
        line = stream.readline(_LONGEST_LINE)
    return header, stream.tell()


def _line_begin(stream: IO[bytes], body: int, position: int) -> int:
    """The first line that begins at a position or after it."""
    if position == body:
        return body
    stream.seek(position - 1)
    while (part := stream.readline(_LONGEST_LINE)) and not part.endswith(b"\n"):
        pass
    return stream.tell()


def _parse(text: bytes, header: Header) -> tuple[Any, int]:
    """The entries in some lines of a file, and how many lines state them."""
    numbers = _count_words(text)
    stated = numbers // header.numbers_per_line
    first = f"%%MatrixMarket matrix coordinate {header.field} {header.symmetry}\n"
    whole = f"{first}{header.rows} {header.cols} {stated}\n".encode() + text
    check_text(io.BytesIO(whole), len(whole))
    return scipy.io.mmread(LineEnding(io.BytesIO(whole)), **SPARSE_ARRAY).tocoo(), stated


def _count_words(text: bytes) -> int:
    """Words in whole lines."""
    is_blank = np.frombuffer(b"\n" + text, np.uint8) <= ord(" ")
    return int(np.count_nonzero(is_blank[:-1] & ~is_blank[1:]))
