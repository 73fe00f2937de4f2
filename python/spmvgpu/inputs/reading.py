"""The functions of `spmvgpu.matrix_io` that read, and the checks of what a file announces."""

from __future__ import annotations

import gzip
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import _core
from .._util.messages import reason
from .._util.types import HostArray
from ..devices import CPU
from .canonical import canonical_csr
from .limits import INDEX_LIMIT
from .matrix_market import read_content, read_header

MATRIX_SUFFIXES = (".mtx", ".mtx.gz", ".npz")
MATRIX_MARKET, NPZ = "a valid Matrix Market file", "a file of scipy.sparse.save_npz"
VECTOR_SUFFIXES = (".mtx", ".mtx.gz", ".npy")

# The most bytes that one compressed byte of gzip stands for.
_MOST_UNPACKED = 1032

# A file of a few bytes may announce any number of rows, and an empty row takes memory, too. The first number
# of rows takes less than a second; more rows need an entry for every 64 of them.
_MOST_EMPTY_ROWS = 1 << 26
_MOST_ROWS_PER_ENTRY = 64


def read_matrix(path: str | os.PathLike[str]) -> sp.csr_array:
    """Read a sparse matrix from a file.

    Parameters
    ----------
    path : path
        A Matrix Market file (``.mtx`` or ``.mtx.gz``), or a file of `scipy.sparse.save_npz` (``.npz``). A
        Matrix Market file may have any layout (coordinate or array), and may hold a vector, which becomes a
        matrix of one column.

    Returns
    -------
    scipy.sparse.csr_array
        The whole matrix, also where the file holds one triangle of it. An entry that a symmetric file states
        in both triangles counts once. Duplicates are summed. Integers and bool become float64.

    Raises
    ------
    ValueError
        If the name has another ending; if the content is broken, or not as symmetric as the file says; or if
        nearly all of more than 67 million rows are empty.
    OSError
        If the file does not exist or cannot be read.
    MemoryError
        If the matrix does not fit into memory.

    See Also
    --------
    write_matrix : Write such a file.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     sg.matrix_io.write_matrix(f"{folder}/A.mtx", sg.gallery.poisson2d(4))
    ...     A = sg.matrix_io.read_matrix(f"{folder}/A.mtx")
    >>> A.shape, A.nnz
    ((16, 16), 64)
    """
    path = check_readable(with_suffix(path, MATRIX_SUFFIXES))
    is_npz = path.suffix == ".npz"
    with parsing(path, NPZ if is_npz else MATRIX_MARKET):
        return canonical_csr(_load_npz(path) if is_npz else _load_matrix_market(path)).host


def read_vector(path: str | os.PathLike[str]) -> HostArray:
    """Read a vector from a file.

    Parameters
    ----------
    path : path
        A Matrix Market file (``.mtx`` or ``.mtx.gz``) of a vector, or of a matrix with one row or one column;
        or a file of `numpy.save` (``.npy``).

    Returns
    -------
    (n,) numpy.ndarray

    Raises
    ------
    ValueError
        If the name has another ending, or the content is broken or not a vector.
    OSError, MemoryError
        As in `read_matrix`.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/b.npy", np.ones(3))
    ...     sg.matrix_io.read_vector(f"{folder}/b.npy")
    array([1., 1., 1.])
    """
    path = check_readable(with_suffix(path, VECTOR_SUFFIXES))
    is_npy = path.suffix == ".npy"
    with parsing(path, "a valid .npy file" if is_npy else MATRIX_MARKET):
        content: Any = _load_npy(path) if is_npy else _load_matrix_market(path)
        if content.ndim > 2 or (content.ndim == 2 and 1 not in content.shape):
            raise ValueError(f"expected a vector, found an array of shape {content.shape}")
        dense = content.toarray() if sp.issparse(content) else content
        return np.asarray(dense).reshape(-1)


@contextmanager
def parsing(path: Path, what: str) -> Iterator[None]:
    """A block that parses a file: its errors name the file, and all but MemoryError become a ValueError.

    Parsers raise errors of all kinds on broken input, such as EOFError and zlib.error.
    """
    try:
        yield
    except MemoryError as error:
        raise MemoryError(f"{path}: it does not fit the memory of this machine ({reason(error)})") from error
    except Exception as error:
        raise ValueError(f"{path}: not {what}: {reason(error)}") from error


def with_suffix(path: str | os.PathLike[str], suffixes: tuple[str, ...]) -> Path:
    checked = as_path(path)
    if not checked.name.endswith(suffixes):
        raise ValueError(f"{path}: unknown kind of file; its name must end in {', '.join(suffixes)}")
    return checked


def as_path(path: str | os.PathLike[str]) -> Path:
    """What a caller gives as a path; TypeError if it is none."""
    try:
        return Path(path)
    except TypeError:
        raise TypeError(f"path={path!r} is no path; give a string or a pathlib.Path") from None


def check_readable(path: Path) -> Path:
    """The path; says why its file cannot be read, before a parser blames its content.

    Raises
    ------
    ValueError
        If it is no regular file: a pipe would block, and a directory confuse the parsers.
    OSError
        If there is none, or it may not be read.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: not a regular file")
    path.open("rb").close()
    return path


def _load_matrix_market(path: Path) -> Any:
    """Content of a Matrix Market file: a sparse matrix, or an array where the file is in the array format."""
    is_packed = path.suffix == ".gz"
    with (gzip.GzipFile if is_packed else open)(path, "rb") as stream:
        header = read_header(stream, path.stat().st_size * (_MOST_UNPACKED if is_packed else 1))
        if header.lengths:
            _check_size(header.rows, header.cols, header.entries)
        return read_content(stream, header)


def _check_size(rows: int, cols: int, entries: int) -> None:
    """Refuse a matrix that is known not to fit, before anything is allocated for it."""
    _check_memory(8 * rows + 28 * entries)  # as coordinates and as CSR, in the smallest types
    check_rows(rows, entries)
    if max(rows, cols) > INDEX_LIMIT:
        raise ValueError(f"the matrix is {rows} x {cols}; at most {INDEX_LIMIT} rows and columns fit")


def _check_memory(needed: int) -> None:
    available = _core.device_properties(CPU)["memory_free"]
    if needed > available:
        raise MemoryError(f"it takes {needed} bytes, and {available} are available")


def check_rows(rows: int, entries: int, ranks: int = 1) -> None:
    """Refuse, with ValueError, a matrix almost all of whose rows are empty, which would take gigabytes."""
    if rows > ranks * max(_MOST_EMPTY_ROWS, _MOST_ROWS_PER_ENTRY * entries):
        raise ValueError(
            f"{rows} rows and {entries} entries are announced; almost all rows are empty, and would take "
            f"{4 * rows} bytes: leave empty rows out"
        )


def _load_npz(path: Path) -> Any:
    with path.open("rb") as stream:  # NumPy leaves files that it opened itself open on errors
        with zipfile.ZipFile(stream) as archive:
            _check_memory(sum(entry.file_size for entry in archive.infolist()))
        matrix = sp.load_npz(stream)
    if matrix.ndim != 2:
        raise ValueError(f"it holds an array of {matrix.ndim} dimensions, not a matrix")
    rows, cols = matrix.shape
    _check_size(rows, cols, matrix.data.size)  # the nnz of some formats follows from the shape alone
    return matrix


def _load_npy(path: Path) -> HostArray:
    with path.open("rb") as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)
