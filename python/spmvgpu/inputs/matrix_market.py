"""Matrix Market text: what the first lines announce, and the entries, which the core reads.

The reader is our own because `scipy.io.mmread` (SciPy 1.12 to 1.18) is not safe on files of others:

- It ends the process with a segmentation fault at a NUL, and where a file is cut off within a number, as in
  ``2 2 1e``, or ends with a blank; and with a division by zero where an array has no rows.
- It ignores what follows the part of a number that it understands: it reads ``1.5D3`` of Fortran as 1.5,
  ``2,5`` as 2, and in a file of integers ``1.5`` as 1.
- It counts an entry twice that a symmetric file states in both triangles.
- It refuses comments among the entries, plus signs, vectors, and files of AmgX.

A check in front of it would have to divide the text into numbers as a reader does. Ranks, each of which
parses the lines of a range of bytes, use the same reader.
"""

from __future__ import annotations

import re
from io import BufferedIOBase
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._util.messages import quoted
from .._util.types import HostArray

#: Rows and columns, from 0, and values.
Triplets: TypeAlias = tuple[HostArray, HostArray, HostArray]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BANNER = re.compile(
    r"%+\s*matrixmarket\s+(matrix|vector)\s+(coordinate|array)"
    r"\s+(real|double|float|integer|int|unsigned-integer|unsigned|complex|pattern)"
    r"((?:\s+(?:general|symmetric|skew-symmetric|hermitian))*)"
)
_AMGX = re.compile(rb"%+\s*(?:amgx|nvamg)\s+(.*)", re.DOTALL)
_SIZE = re.compile(rb"\+?[0-9]{1,18}")  # as many digits as fit int64

# More bytes than this, or than that for each number, are no comments and blanks, but an attack on the memory.
_MOST_COMMENT_BYTES = 64 << 20
_MOST_BYTES_PER_NUMBER = 128
_LONGEST_BANNER = 1 << 20
_BLOCK_BYTES = 1 << 20


class Header(NamedTuple):
    """What the first lines of a file announce.

    Attributes
    ----------
    symmetry : {"general", "symmetric", "skew-symmetric", "hermitian"}
    rows, cols : int
        Of a vector, one column.
    lengths : tuple of int
        Limits of the indices of each entry: rows and columns, rows of a vector, or none in the array format.
    values : int
        Numbers of a value: 0 in a pattern, 2 for complex numbers.
    are_whole : bool
    entries : int
        That are stated.
    rest_is_ignored : bool
        Whether vectors follow the entries, as AmgX writes them.
    line : int
        Number of the first line that follows.
    """

    symmetry: str
    rows: int
    cols: int
    lengths: tuple[int, ...]
    values: int
    are_whole: bool
    entries: int
    rest_is_ignored: bool
    line: int

    @property
    def numbers(self) -> int:
        """Numbers of one entry."""
        return len(self.lengths) + self.values


def read_header(stream: BufferedIOBase, length: int) -> Header:
    """Read the banner, the comments and the sizes; ValueError if they are none.

    Parameters
    ----------
    stream : binary file
        At its begin; afterwards behind the line of the sizes.
    length : int
        The most bytes that the file has.
    """
    first = stream.readline(_LONGEST_BANNER).removeprefix(_BYTE_ORDER_MARK).strip()
    banner = _BANNER.fullmatch(first.decode("latin-1").lower())
    symmetries = banner[4].split() if banner else []
    if banner is None or (banner[1] == "matrix" and not symmetries):
        raise ValueError(
            f"it begins with {quoted(first)}, not with a banner such as "
            "'%%MatrixMarket matrix coordinate real general'"
        )
    is_matrix, is_array, kind = banner[1] == "matrix", banner[2] == "array", banner[3][0]
    symmetry = next((word for word in symmetries if word != "general"), "general")  # AmgX writes both
    if kind == "p" and (is_array or symmetry in ("skew-symmetric", "hermitian")):
        raise ValueError(f"there are no pattern files in the format {banner[2]} that are {symmetry}")
    words, line, rest_is_ignored = _after_comments(stream)
    names = ["rows", *["columns"] * is_matrix, *["entries"] * (not is_array)]
    sizes = words.split()
    if len(sizes) != len(names) or not all(map(_SIZE.fullmatch, sizes)):
        found = f"it is {quoted(words)}" if words else "it is missing"
        raise ValueError(f"the line of sizes must hold {', '.join(names)} as whole numbers, and {found}")
    rows, *others = map(int, sizes)
    cols = others[0] if is_matrix else 1
    if symmetry != "general" and rows != cols:
        raise ValueError(f"the header says {symmetry}, but the shape is {rows} x {cols}")
    if not is_array:
        entries = others[-1]
    elif symmetry == "general":
        entries = rows * cols
    else:
        entries = rows * (rows + (-1 if symmetry == "skew-symmetric" else 1)) // 2
    lengths = () if is_array else (rows, cols) if is_matrix else (rows,)
    values = {"c": 2, "p": 0}.get(kind, 1)
    header = Header(symmetry, rows, cols, lengths, values, kind in "iu", entries, rest_is_ignored, line + 1)
    if 2 * entries * header.numbers - 1 > length:
        raise ValueError(f"truncated: the header announces {entries} entries, more than {length} bytes hold")
    return header


def _after_comments(stream: BufferedIOBase) -> tuple[bytes, int, bool]:
    """The line of the sizes, its number, and whether AmgX says that vectors follow the matrix."""
    line, left, has_vectors = 1, _MOST_COMMENT_BYTES, False
    while left > 0:
        text = stream.readline(left)
        line, left, words = line + 1, left - len(text), text.strip()
        if amgx := _AMGX.fullmatch(words.lower()):
            said = amgx[1].split()
            for word in (b"diagonal", b"base0"):
                if word in said:
                    raise ValueError(
                        f"%%AMGX says {word.decode()}, which is not read; write the matrix without it: "
                        "indices from 1, the diagonal among the entries"
                    )
            has_vectors = b"rhs" in said or b"solution" in said
        elif not text or (words and not words.startswith(b"%")):
            return words, line, has_vectors
    raise ValueError(f"more than {_MOST_COMMENT_BYTES} bytes of comments before the sizes")


def read_content(stream: BufferedIOBase, header: Header) -> Any:
    """What follows the header: a sparse matrix, or an array where the file is in the array format.

    Raises
    ------
    ValueError
        For what is no entry, for more or fewer than announced, and for those that are not as symmetric as the
        header says.
    """
    most = _MOST_BYTES_PER_NUMBER * header.entries * header.numbers + _MOST_COMMENT_BYTES
    text = bytearray()
    while block := stream.read(_BLOCK_BYTES):
        text += block
        if len(text) > most:
            raise ValueError(f"more than {most} bytes for as few numbers as the header announces")
    row, col, data = triplets(text, header)
    found = len(data)
    if found < header.entries:
        raise ValueError(f"truncated: the header announces {header.entries} entries, and {found} follow")
    shape = header.rows, header.cols
    if not header.lengths:
        if header.symmetry == "general":
            return data.reshape(shape, order="F")
        col, row = np.triu_indices(header.rows, int(header.symmetry == "skew-symmetric"))
    if header.symmetry != "general":
        if (row < col).any() and (row > col).any():
            row, col, data = _one_triangle(header, row, col, data)
        row, col, data = expanded(header, row, col, data)
    matrix = sp.coo_array((data, (row, col)), shape=shape)
    return matrix if header.lengths else matrix.toarray()


def triplets(text: bytearray, header: Header) -> Triplets:
    """The entries that lines state; without rows and columns in the array format."""
    text += b"\n"  # the last line may lack it
    names = ("lengths", "values", "are_whole", "entries", "rest_is_ignored", "line")
    row, col, numbers = _core.read_entries(text, **{name: getattr(header, name) for name in names})
    col = np.zeros_like(row) if len(header.lengths) == 1 else col
    if header.values == 0:
        return row, col, np.ones(len(row))
    return row, col, numbers.view(np.complex128) if header.values == 2 else numbers


def expanded(header: Header, row: HostArray, col: HostArray, data: HostArray) -> Triplets:
    """Both triangles of a matrix of which one is stated; ValueError for a diagonal that cannot be."""
    mirrored = row != col
    diagonal, is_skew = data[~mirrored], header.symmetry == "skew-symmetric"
    if is_skew or (header.symmetry == "hermitian" and data.dtype.kind == "c"):
        wrong = ~(np.abs(diagonal if is_skew else diagonal.imag) <= _rounding(data))
        if wrong.any():
            first = int(np.argmax(wrong))
            place = row[~mirrored][first] + 1
            raise ValueError(
                f"the diagonal of a {header.symmetry} matrix is {'zero' if is_skew else 'real'}, but entry "
                f"({place}, {place}) is {diagonal[first]}"
            )
        data[~mirrored] = 0 if is_skew else diagonal.real
    rows, cols = np.concatenate([row, col[mirrored]]), np.concatenate([col, row[mirrored]])
    return rows, cols, np.concatenate([data, _mirrored(header, data[mirrored])])


def _mirrored(header: Header, data: Any) -> Any:
    """The values on the other side of the diagonal."""
    if header.symmetry == "skew-symmetric":
        return -data
    return data.conj() if header.symmetry == "hermitian" else data


def _rounding(data: HostArray) -> float:
    """The size of errors in entries that would be symmetric but for rounding."""
    return 64 * float(np.finfo(data.dtype).eps) * float(np.abs(data[np.isfinite(data)]).max(initial=0.0))


def _one_triangle(header: Header, row: HostArray, col: HostArray, data: HostArray) -> Triplets:
    """The lower triangle where entries of both are stated; what is stated in both must agree."""
    above, shape = row < col, (header.rows, header.cols)
    low, high = (
        sp.coo_array((values[here], (rows[here], cols[here])), shape=shape).tocsr()
        for values, rows, cols, here in (
            (data, row, col, ~above),
            (_mirrored(header, data), col, row, above),
        )
    )
    ones = [sp.csr_array((np.ones(len(A.data)), A.indices, A.indptr), shape=shape) for A in (low, high)]
    in_both = ones[0].multiply(ones[1])
    difference = (low - high).multiply(in_both).tocoo()
    wrong = np.abs(difference.data) > _rounding(data)
    if wrong.any():
        i, j = (int(places[np.argmax(wrong)]) for places in (difference.row, difference.col))
        raise ValueError(
            f"the header says {header.symmetry}, but entry ({i + 1}, {j + 1}) is {low[i, j]}, and "
            f"({j + 1}, {i + 1}) is {_mirrored(header, high[i, j])}; write one triangle, or 'general' in the "
            "first line"
        )
    made = (low + high.multiply(ones[1] - in_both)).tocoo()
    return made.row, made.col, made.data
