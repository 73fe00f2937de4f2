"""Matrix Market text: what the first lines announce, and the entries, which the core reads.

The reader is our own because SciPy's (looked at in version 1.17) has these faults, and no check in front of
it is cheap enough:

- It ignores the rest of a line, or of a number, after the part that it understands.
- It counts an entry twice that a symmetric file states in both triangles.
- It allocates memory for every size that a file announces.
- It refuses comments among the entries, and numbers as Fortran writes them.
- It ends the process with a segmentation fault where a file is cut off within a number, as in ``2 2 1e``.

Ranks, each of which parses the lines of a range of bytes, use the same reader.
"""

from __future__ import annotations

import re
from io import BufferedIOBase
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._util.messages import quoted
from .._util.types import HostArray
from .limits import INDEX_LIMIT

# Names of the types of values in files, and how many numbers a value consists of.
_FIELDS = {
    **dict.fromkeys(["real", "double", "float"], "real"),
    **dict.fromkeys(["integer", "int", "unsigned-integer", "unsigned"], "integer"),
    "complex": "complex",
    "pattern": "pattern",
}
_NUMBERS = {"real": 1, "integer": 1, "complex": 2, "pattern": 0}
_SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")

# How many sizes a file has, and which.
_SIZES = {
    ("matrix", "coordinate"): ("rows", "columns", "entries"),
    ("matrix", "array"): ("rows", "columns"),
    ("vector", "coordinate"): ("rows", "entries"),
    ("vector", "array"): ("rows",),
}

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BANNER = re.compile(rb"%+\s*matrixmarket\s+(.*)", re.DOTALL)
_AMGX = re.compile(rb"%+\s*(?:amgx|nvamg)\s+(.*)", re.DOTALL)
_SIZE = re.compile(rb"\+?[0-9]{1,18}")  # as many digits as fit int64

# More bytes than this, or than that for each number, are no comments and blanks, but an attack on the memory.
_MOST_COMMENT_BYTES = 64 << 20
_MOST_BYTES_PER_NUMBER = 128
_LONGEST_LINE = 1 << 20
_BLOCK_BYTES = 16 << 20  # large, because threads wait for each other at the end of each block


class Header(NamedTuple):
    """What the first lines of a file announce.

    Attributes
    ----------
    object : {"matrix", "vector"}
    layout : {"coordinate", "array"}
    field : {"real", "integer", "complex", "pattern"}
    symmetry : {"general", "symmetric", "skew-symmetric", "hermitian"}
    rows, cols : int
        Of a vector, one column.
    entries : int
        That are stated.
    line : int
        Number of the first line that follows.
    has_more : bool
        Whether vectors follow the entries, as AmgX writes them.
    """

    object: str
    layout: str
    field: str
    symmetry: str
    rows: int
    cols: int
    entries: int
    line: int
    has_more: bool

    @property
    def numbers(self) -> int:
        """Numbers of one entry."""
        return self._indices + _NUMBERS[self.field]

    @property
    def _indices(self) -> int:
        if self.layout == "array":
            return 0
        return 2 if self.object == "matrix" else 1

    @property
    def least_bytes(self) -> int:
        """Bytes of the entries if every number had one digit."""
        return 2 * self.entries * self.numbers - 1

    def reader(self, entries: int) -> Any:
        """A reader of the lines of `entries` entries."""
        is_wide = max(self.rows, self.cols) > INDEX_LIMIT
        return (_core.WideEntryReader if is_wide else _core.EntryReader)(
            indices=self._indices,
            values=_NUMBERS[self.field],
            are_whole=self.field == "integer",
            rows=self.rows,
            cols=self.cols,
            entries=entries,
            rest_is_ignored=self.has_more,
            line=self.line,
        )


class Entries(NamedTuple):
    """Entries as a file states them, and whether there are some in both triangles."""

    row: HostArray
    col: HostArray
    data: HostArray
    in_both: bool


def read_header(stream: BufferedIOBase) -> Header:
    """Read the banner, the comments and the sizes; ValueError if they are none.

    Parameters
    ----------
    stream : binary file
        At its begin; afterwards behind the line of the sizes.
    """
    first = stream.readline(_LONGEST_LINE).removeprefix(_BYTE_ORDER_MARK)
    banner = _BANNER.fullmatch(first.lower().strip())
    if banner is None:
        raise ValueError(f"it begins with {quoted(first.strip())}, not with the banner %%MatrixMarket")
    object, layout, field, symmetry = _words(banner[1].split())
    line, has_more, total, goes_on = 1, False, len(first), False
    while True:
        text = stream.readline(_LONGEST_LINE)
        line += text.endswith(b"\n")
        total += len(text)
        if total > _MOST_COMMENT_BYTES:
            raise ValueError(f"more than {_MOST_COMMENT_BYTES} bytes of comments before the sizes")
        words = text.strip()
        if text and (goes_on or words.startswith(b"%")):
            if amgx := _AMGX.fullmatch(words.lower()):
                has_more = _has_vectors(amgx[1].split())
            goes_on = not text.endswith(b"\n")  # a long comment
        elif words or not text:
            break
    sizes = _sizes(words, _SIZES[object, layout])
    rows, cols = sizes["rows"], sizes.get("columns", 1)
    if symmetry != "general" and rows != cols:
        raise ValueError(f"the header says {symmetry}, but the shape is {rows} x {cols}")
    entries = sizes.get("entries", rows * cols)
    if layout == "array" and symmetry != "general":
        entries = rows * (rows + (-1 if symmetry == "skew-symmetric" else 1)) // 2
    return Header(object, layout, field, symmetry, rows, cols, entries, line + 1, has_more)


def _words(words: list[bytes]) -> tuple[str, str, str, str]:
    """The words of the banner in standard terms."""
    given = [word.decode("latin-1") for word in words]
    if given[:1] == ["vector"] and len(given) == 3:
        given.append("general")
    if len(given) < 4:
        raise ValueError(
            "the banner must have an object, a format, a field and a symmetry, as in "
            f"'matrix coordinate real general', and it has {quoted(' '.join(given))}"
        )
    object, layout, field, *symmetries = given
    # AmgX writes "general symmetric".
    symmetry = next((word for word in symmetries if word != "general"), "general")
    for what, word, allowed in (
        ("object", object, ("matrix", "vector")),
        ("format", layout, ("coordinate", "array")),
        ("field", field, _FIELDS),
        *(("symmetry", word, _SYMMETRIES) for word in symmetries),
    ):
        if word not in allowed:
            raise ValueError(f"the {what} {quoted(word)} is none of {', '.join(allowed)}")
    field = _FIELDS[field]
    if field == "pattern" and (layout == "array" or symmetry in ("skew-symmetric", "hermitian")):
        raise ValueError(f"there are no pattern files in the format {layout} that are {symmetry}")
    return object, layout, field, symmetry


def _has_vectors(words: list[bytes]) -> bool:
    """Whether AmgX says that vectors follow the matrix; ValueError if it says what changes the matrix."""
    for word in (b"diagonal", b"base0"):
        if word in words:
            raise ValueError(
                f"%%AMGX says {word.decode()}, which is not read; write the matrix without it: indices from "
                "1, the diagonal among the entries"
            )
    return b"rhs" in words or b"solution" in words


def _sizes(text: bytes, names: tuple[str, ...]) -> dict[str, int]:
    words = text.split()
    if len(words) != len(names) or not all(map(_SIZE.fullmatch, words)):
        found = f"it is {quoted(text)}" if text else "it is missing"
        raise ValueError(f"the line of sizes must hold {', '.join(names)} as whole numbers, and {found}")
    return dict(zip(names, map(int, words), strict=True))


def read_content(stream: BufferedIOBase, header: Header) -> Any:
    """What follows the header: a sparse matrix, or an array where the file is in the array format.

    Raises
    ------
    ValueError
        For what is no entry, for more or fewer than announced, and for those that are not as symmetric as the
        header says.
    """
    reader = header.reader(header.entries)
    _read_lines(stream, reader, _MOST_BYTES_PER_NUMBER * header.entries * header.numbers)
    if reader.entries < header.entries:
        raise ValueError(
            f"truncated: the header announces {header.entries} entries, and {reader.entries} follow"
        )
    entries = entries_of(reader, header)
    if header.layout == "array":
        return _dense(header, entries.data)
    if header.symmetry != "general":
        entries = expanded(header, _folded(header, entries) if entries.in_both else entries)
    return sp.coo_array((entries.data, (entries.row, entries.col)), shape=(header.rows, header.cols))


def _read_lines(stream: BufferedIOBase, reader: Any, most: int) -> None:
    """Give a reader all that is left of a stream: at most `most` bytes, and comments."""
    limit = most + _MOST_COMMENT_BYTES
    buffer = bytearray(min(_BLOCK_BYTES, max(_LONGEST_LINE, most)))
    view = memoryview(buffer)
    filled = total = 0
    while count := stream.readinto(view[filled:]):
        filled += count
        total += count
        if total > limit:
            raise ValueError(f"more than {limit} bytes for as few numbers as the header announces")
        whole = buffer.rfind(b"\n", 0, filled) + 1
        if whole == 0 and filled == len(buffer):
            raise ValueError(f"a line of more than {len(buffer)} bytes")
        reader.read(view[:whole])
        buffer[: filled - whole] = buffer[whole:filled]
        filled -= whole
    if filled:
        reader.read(bytes(view[:filled]) + b"\n")


def entries_of(reader: Any, header: Header) -> Entries:
    """What a reader has read."""
    row, col, numbers = reader.arrays()
    if header.layout == "coordinate" and header.object == "vector":
        col = np.zeros_like(row)
    if header.field == "pattern":
        data = np.ones(reader.entries)
    else:
        data = numbers.view(np.complex128) if header.field == "complex" else numbers
    return Entries(row, col, data, reader.has_below and reader.has_above)


def expanded(header: Header, entries: Entries) -> Entries:
    """Both triangles of a matrix of which one is stated; ValueError for a diagonal that cannot be."""
    row, col, data, _ = entries
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
    return Entries(
        np.concatenate([row, col[mirrored]]),
        np.concatenate([col, row[mirrored]]),
        np.concatenate([data, _mirrored(header, data[mirrored])]),
        True,
    )


def _mirrored(header: Header, data: HostArray) -> HostArray:
    """The values on the other side of the diagonal."""
    if header.symmetry == "skew-symmetric":
        return -data
    return data.conj() if header.symmetry == "hermitian" else data


def _rounding(data: HostArray) -> float:
    """The size of errors in entries that would be symmetric but for rounding."""
    return 64 * float(np.finfo(data.dtype).eps) * float(np.abs(data[np.isfinite(data)]).max(initial=0.0))


def _folded(header: Header, entries: Entries) -> Entries:
    """One triangle of a matrix of which both are stated; entries that are stated twice must agree."""
    row, col, data, _ = entries
    above = row < col
    key = np.where(above, col, row).astype(np.int64) * header.cols + np.where(above, row, col)
    low, low_data = _summed(key[~above], data[~above])
    high, high_data = _summed(key[above], _mirrored(header, data[above]))
    _, in_low, in_high = np.intersect1d(low, high, assume_unique=True, return_indices=True)
    a, b = low_data[in_low], high_data[in_high]
    with np.errstate(invalid="ignore"):  # infinities give NaN
        differs = (a != b) & ~(np.abs(a - b) <= _rounding(data)) & ~(np.isnan(a) & np.isnan(b))
    if differs.any():
        first = int(np.argmax(differs))
        i, j = divmod(int(low[in_low[first]]), header.cols)
        value, other = a[first], _mirrored(header, b[first : first + 1])[0]
        raise ValueError(
            f"the header says {header.symmetry}, but entry ({i + 1}, {j + 1}) is {value}, and "
            f"({j + 1}, {i + 1}) is {other}; write one triangle, or 'general' in the first line"
        )
    high_only = np.ones(len(high), bool)
    high_only[in_high] = False
    key = np.concatenate([low, high[high_only]])
    row, col = np.divmod(key, header.cols)
    return Entries(row, col, np.concatenate([low_data, high_data[high_only]]), False)


def _summed(key: HostArray, data: HostArray) -> tuple[HostArray, HostArray]:
    """Keys, each once, and the sums of their values."""
    keys, place = np.unique(key, return_inverse=True)
    sums = np.zeros(len(keys), data.dtype)
    np.add.at(sums, place, data)
    return keys, sums


def _dense(header: Header, data: HostArray) -> HostArray:
    """An array of the values of its columns, or of those below the diagonal and perhaps on it."""
    shape = header.rows, header.cols
    if header.symmetry == "general":
        return data.reshape(shape, order="F")
    col, row = np.triu_indices(header.rows, 1 if header.symmetry == "skew-symmetric" else 0)
    both = expanded(header, Entries(row, col, data, False))
    full = np.zeros(shape, data.dtype)
    full[both.row, both.col] = both.data
    return full
