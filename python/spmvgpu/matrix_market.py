"""Matrix Market text, checked before SciPy's reader gets it.

That reader drops what is left of a line after the numbers it expects, and what is left of a number after the
part it understands; it takes memory for whatever the header announces; and it runs past the end of a file
that does not end with a newline, and then ends the process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.io

# Numbers of an entry, by format and field.
_NUMBERS_PER_ENTRY = {
    ("coordinate", "pattern"): 2,
    ("coordinate", "integer"): 3,
    ("coordinate", "unsigned-integer"): 3,
    ("coordinate", "real"): 3,
    ("coordinate", "complex"): 4,
    ("array", "integer"): 1,
    ("array", "unsigned-integer"): 1,
    ("array", "real"): 1,
    ("array", "complex"): 2,
}

# More bytes than this, or than that for each number, are no comments and blanks, but an attack on the memory.
_MOST_COMMENT_BYTES = 64 << 20
_MOST_BYTES_PER_NUMBER = 128

_BLOCK_BYTES = 4 << 20
_COMMENT = re.compile(rb"^[ \t]*%.*$", re.MULTILINE)
_LINE = re.compile(rb"[^\n]*\S[^\n]*")
_LETTERS = b"naiftyNAIFTY"  # of nan, inf and infinity
_WORD = re.compile(rb"\S+")
_NAN_OR_INF = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)


class Header(NamedTuple):
    """What the first lines of a file announce."""

    rows: int
    cols: int
    entries: int
    layout: str
    field: str
    symmetry: str

    @property
    def numbers(self) -> int:
        """Numbers that follow."""
        entries = self.entries
        if self.layout == "array" and self.symmetry != "general":
            entries = self.rows * (self.rows + (-1 if self.symmetry == "skew-symmetric" else 1)) // 2
        return entries * self.numbers_per_line

    @property
    def numbers_per_line(self) -> int:
        return _NUMBERS_PER_ENTRY[self.layout, self.field]


class LineEnding:
    """A byte stream that ends with a newline, and offers nothing but `read`.

    SciPy's reader seeks back when it closes a stream that it has not read to the end; if that fails, it ends
    the process.

    Parameters
    ----------
    stream : binary file
    limit : int, optional
        Bytes after which the stream ends in any case.
    """

    def __init__(self, stream: IO[bytes], limit: int | None = None) -> None:
        self._stream = stream
        self._left = limit
        self._last = b""

    def read(self, size: int = -1) -> bytes:
        if self._left is not None:
            size = self._left if size < 0 else min(size, self._left)
        chunk = self._stream.read(size)
        if self._left is not None:
            self._left -= len(chunk)
        if not chunk and size != 0 and self._last not in (b"", b"\n"):
            chunk = b"\n"
        self._last = chunk[-1:] or self._last
        return chunk


def check_text(text: IO[bytes], length: int | None) -> Header:
    """Refuse, with ValueError, what SciPy's reader takes wrongly without a word, or cannot bear.

    Parameters
    ----------
    text : binary file
        At its begin; it must be able to go back there.
    length : int or None
        Its bytes, if they are known.

    Returns
    -------
    Header
    """
    header = Header(*scipy.io.mminfo(LineEnding(text, _MOST_COMMENT_BYTES)))
    if min(header.rows, header.cols, header.entries) < 0:
        raise ValueError(f"the header announces {header.rows} x {header.cols} and {header.entries} entries")
    if length is not None and header.numbers > length:
        raise ValueError(
            f"truncated: the header announces {header.entries} entries, more than {length} bytes hold"
        )
    if header.symmetry != "general" and header.rows != header.cols:
        raise ValueError(f"the header says {header.symmetry}, but the shape is {header.rows} x {header.cols}")
    text.seek(0)
    sizes = 3 if header.layout == "coordinate" else 2
    found = _count_numbers(text, header, sizes) - sizes
    if found < header.numbers:
        raise ValueError(
            f"truncated: the header announces {header.entries} entries, which are {header.numbers} numbers, "
            f"and {found} follow"
        )
    if found > header.numbers:
        raise ValueError(
            f"too many numbers: {found} follow the header, which announces {header.entries} entries, "
            f"{header.numbers} numbers"
        )
    return header


def _count_numbers(text: IO[bytes], header: Header, sizes: int) -> int:
    """How many numbers there are, sizes included; ValueError for what is none."""
    found = 0
    lines: list[bytes] = []  # the sizes, and the first entry
    for block in _blocks(text, _MOST_COMMENT_BYTES + _MOST_BYTES_PER_NUMBER * (header.numbers + sizes)):
        content = _COMMENT.sub(b"", block) if b"%" in block else block
        if len(lines) < 2:
            lines += [match.group() for match in islice(_LINE.finditer(content), 2)]
            if len(lines) >= 2 and len(lines[1].split()) != header.numbers_per_line:
                raise ValueError(
                    f"a {header.layout} {header.field} file has {header.numbers_per_line} numbers a line, "
                    f"this one {len(lines[1].split())}"
                )
        found += _count_words(content, found - sizes, header)
    return found


def _blocks(text: IO[bytes], limit: int) -> Iterator[bytes]:
    """The text in blocks of whole lines, each with a newline at its end."""
    rest = b""
    total = 0
    while chunk := text.read(_BLOCK_BYTES):
        total += len(chunk)
        if total > limit:
            raise ValueError(f"more than {limit} bytes for as few numbers as the header announces")
        whole, newline, after = chunk.rpartition(b"\n")
        if newline:
            yield rest + whole + newline
            rest = after
        else:
            rest += chunk
            if len(rest) > _MOST_COMMENT_BYTES:
                raise ValueError(f"a line of more than {_MOST_COMMENT_BYTES} bytes")
    if rest:
        yield rest + b"\n"


# What a byte says after the one before it.
_PLAIN, _ENDS_NUMBER, _POINT, _EXPONENT, _WRONG = range(5)


def _make_table() -> npt.NDArray[np.uint8]:
    """The meaning of each pair of bytes, as `_PLAIN` and so on, at 256 * first + second."""
    space, digit, point, sign, exponent, letter = (b" \t\r\n", b"0123456789", b".", b"+-", b"eE", _LETTERS)
    follow = {
        space: (space, digit, point, sign, letter),
        digit: (space, digit, point, exponent),
        point: (space, digit, exponent),
        sign: (digit, point, letter),
        exponent: (digit, sign),
        letter: (letter, space),
    }
    table = np.full((256, 256), _WRONG, np.uint8)
    for first, seconds in follow.items():
        for second in seconds:
            code = {point: _POINT, exponent: _EXPONENT}.get(second, _PLAIN)
            if second == space and first != space:
                code = _ENDS_NUMBER
            table[np.ix_(list(first), list(second))] = code
    return table.reshape(-1)


_TABLE = _make_table()


def _count_words(content: bytes, first: int, header: Header) -> int:
    """Numbers in whole lines; ValueError, with the word, if one is none, or has to be whole and is not.

    `first` is the number of the first of them, counted from where the sizes end.
    """
    codes = _codes(content)
    if codes.max(initial=_PLAIN) == _WRONG:
        raise ValueError(_complaint(content, int(np.argmax(codes == _WRONG))))
    # Of points, exponents and ends, in their order: one point, one exponent, and the point first.
    events = codes[codes != _PLAIN]
    twice = (events[1:] != _ENDS_NUMBER) & (events[:-1] >= events[1:])
    if twice.any():
        raise ValueError(_complaint(content, int(np.flatnonzero(codes)[1:][twice][0])))
    number = first + np.cumsum(events == _ENDS_NUMBER)[events != _ENDS_NUMBER]
    if header.layout == "coordinate" and header.field in ("real", "complex"):
        whole = number % header.numbers_per_line < 2
    else:
        whole = np.full(number.shape, header.field not in ("real", "complex"))
    if whole.any():
        at = np.flatnonzero(codes > _ENDS_NUMBER)[np.argmax(whole)]
        raise ValueError(_complaint(content, int(at)).replace("is no number", "is not a whole number"))
    if any(bytes([letter]) in content for letter in _LETTERS):  # few files have any, and the rest takes long
        for word in set(_WORD.findall(content)):
            if word.strip(_LETTERS) != word and not _NAN_OR_INF.fullmatch(word):
                raise ValueError(f"{word.decode()!r} is no number")
    return int(np.count_nonzero(events == _ENDS_NUMBER))


def _codes(content: bytes) -> npt.NDArray[np.uint8]:
    """What each byte says, after a newline before the first."""
    text: npt.NDArray[Any] = np.frombuffer(b"\n" + content, np.uint8)
    pairs = text[:-1].astype(np.uint16)
    pairs <<= 8
    pairs |= text[1:]
    return _TABLE[pairs]


def _complaint(content: bytes, at: int) -> str:
    strange = content[at : at + 1]
    if strange not in b" \t\r\n0123456789+-.eE" + _LETTERS:
        return f"character {chr(strange[0])!r} among the numbers"
    begin = max(map(content.rfind, (b" ", b"\t", b"\r", b"\n"), (0,) * 4, (at,) * 4)) + 1
    word = content[begin : begin + 80].split()[0].decode("latin-1")
    if not content[at:].strip():
        return f"truncated: it ends in the middle of a number, {word!r}"
    return f"{word!r} is no number"
