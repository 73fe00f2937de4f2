"""Reading matrices and vectors from files, with errors that say which file and what is wrong with it.

The parsing is SciPy's and NumPy's. What is added here: a file that is broken, truncated or not what its name
says raises `ValueError` whatever the parser tripped over, and values that Matrix Market readers would drop
without a word are refused.
"""

from __future__ import annotations

import gzip
import inspect
import io
import os
import re
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import scipy.io
import scipy.sparse as sp

__all__ = ["MATRIX_SUFFIXES", "VECTOR_SUFFIXES", "read_matrix", "read_vector"]

MATRIX_SUFFIXES = (".mtx", ".mtx.gz", ".npz")
VECTOR_SUFFIXES = (".mtx", ".mtx.gz", ".npy")

# Numbers on a line of a Matrix Market file, by format and field.
_NUMBERS_PER_LINE = {
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
# Newer versions of SciPy want to be told which class to give; older ones cannot be, and give a matrix.
_CLASS = {"spmatrix": False} if "spmatrix" in inspect.signature(scipy.io.mmread).parameters else {}
_NUMBER_BYTES = b"0123456789+-.eE \t\r\n" + b"nainftyNAINFTY"  # the letters of nan, inf and infinity
_COMMENT = re.compile(rb"^[ \t]*%.*$", re.MULTILINE)


def read_matrix(path: str | os.PathLike[str]) -> sp.csr_array:
    """Read a sparse matrix.

    Parameters
    ----------
    path : path
        A Matrix Market file (``.mtx`` or ``.mtx.gz``, coordinate or array) or one written by
        `scipy.sparse.save_npz`.

    Returns
    -------
    scipy.sparse.csr_array
        In full storage: a file that holds one triangle of a symmetric matrix is expanded. Duplicates are
        summed.

    Raises
    ------
    ValueError
        If the name has another ending, or the content is broken.
    OSError
        If the file is not there or cannot be read.
    MemoryError
        If it announces a matrix that does not fit the memory.
    """
    path = _checked_path(path, MATRIX_SUFFIXES)
    try:
        matrix = _load_npz(path) if path.suffix == ".npz" else _load_matrix_market(path)
        # Canonical here, where a failing allocation can still be reported with the file's name.
        matrix = sp.csr_array(matrix)
        matrix.sum_duplicates()
        return matrix
    except MemoryError as error:
        raise MemoryError(f"{path}: the matrix does not fit the memory of this machine ({error})") from error


def read_vector(path: str | os.PathLike[str]) -> npt.NDArray[Any]:
    """Read a vector as a 1-D array.

    Parameters
    ----------
    path : path
        A Matrix Market file with one column or one row, or a ``.npy`` file.

    Raises
    ------
    ValueError
        If the name has another ending, the content is broken or it is no vector.
    OSError, MemoryError
        As in `read_matrix`.
    """
    path = _checked_path(path, VECTOR_SUFFIXES)
    try:
        content: Any = _load_npy(path) if path.suffix == ".npy" else _load_matrix_market(path)
        if content.ndim > 2 or (content.ndim == 2 and 1 not in content.shape):
            raise ValueError(f"{path}: expected a vector, found an array of shape {content.shape}")
        dense = content.toarray() if sp.issparse(content) else content
    except MemoryError as error:
        raise MemoryError(f"{path}: the vector does not fit the memory of this machine ({error})") from error
    return np.asarray(dense).reshape(-1)


def _checked_path(path: str | os.PathLike[str], suffixes: tuple[str, ...]) -> Path:
    path = Path(path)
    if not path.name.endswith(suffixes):
        raise ValueError(f"{path}: unknown kind of file; its name must end in {', '.join(suffixes)}")
    if path.exists() and not path.is_file():  # a pipe would block, a directory confuse the parsers
        raise ValueError(f"{path}: not a regular file")
    with path.open("rb"):  # says why a file cannot be read before a parser blames its content
        return path


class _ForwardOnly:
    """A byte stream that offers nothing but `read`.

    SciPy's reader seeks back when it closes a stream it has not read to the end; if that fails, it ends the
    process.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self.read = stream.read


def _load_matrix_market(path: Path) -> Any:
    """Content of a Matrix Market file: a sparse matrix, or an array where the file is in the array format."""
    try:
        if path.suffix != ".gz":
            with path.open("rb") as stream:
                _check_text(stream, path.stat().st_size)
            return scipy.io.mmread(path, **_CLASS)  # by name: SciPy then parses on several threads
        # Unpacked here, because SciPy's reader takes a damaged archive for the end of the file.
        text = io.BytesIO(gzip.decompress(path.read_bytes()))
        _check_text(text, len(text.getbuffer()))
        text.seek(0)
        return scipy.io.mmread(_ForwardOnly(text), **_CLASS)
    except MemoryError:
        raise
    except Exception as error:
        # The parsers raise what they please on broken input (EOFError, zlib.error, KeyError, ...).
        raise ValueError(f"{path}: not a valid Matrix Market file: {_reason(error)}") from error


def _check_text(stream: IO[bytes], length: int) -> None:
    """Refuse what SciPy's reader reads wrongly without a word, allocates too much for or crashes on."""
    rows, cols, entries, layout, field, symmetry = scipy.io.mminfo(_ForwardOnly(stream))
    if entries > length:
        raise ValueError(f"truncated: the header announces {entries} entries, more than {length} bytes hold")
    if symmetry != "general" and rows != cols:
        raise ValueError(f"the header says {symmetry}, but the shape is {rows} x {cols}")
    stream.seek(0)
    lines = (line.split() for line in stream if line.strip() and not line.startswith(b"%"))
    next(lines, None)  # the sizes
    entry = next(lines, None)
    expected = _NUMBERS_PER_LINE[layout, field]
    # The reader drops what is left of a line after the numbers it expects ...
    if entry is not None and len(entry) != expected:
        raise ValueError(f"a {layout} {field} file has {expected} numbers a line, this one {len(entry)}")
    # ... and what is left of a number after the part it understands: 1.0D+03 would be 1, and 2,5 would be 2.
    stream.seek(0)
    last = b""
    while chunk := stream.read(1 << 24) + stream.readline():
        last = chunk[-1:]
        if chunk.translate(None, _NUMBER_BYTES):
            strange = _COMMENT.sub(b"", chunk).translate(None, _NUMBER_BYTES)
            if strange:
                raise ValueError(f"character {chr(strange[0])!r} among the numbers")
    if last in b"eE+-":  # the reader runs past the end of such a file
        raise ValueError("truncated: it ends in the middle of a number")


def _load_npz(path: Path) -> Any:
    try:
        with path.open("rb") as stream:  # NumPy leaves files that it opened itself open on errors
            matrix = sp.load_npz(stream)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)  # SciPy's conversions trust the index arrays
        return matrix
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(f"{path}: not a file of scipy.sparse.save_npz: {_reason(error)}") from error


def _load_npy(path: Path) -> npt.NDArray[Any]:
    try:
        with path.open("rb") as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(f"{path}: not a valid .npy file: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Message of an exception, with its type where the message says little without it."""
    speaks = isinstance(error, (ValueError, OSError)) and str(error)
    return str(error) if speaks else f"{type(error).__name__}: {error}"
