"""Reading matrices and vectors from files, with errors that say which file and what is wrong with it.

The parsing is SciPy's and NumPy's. What is added here: a file that is broken, truncated or not what its name
says raises `ValueError` whatever the parser tripped over; values that Matrix Market readers would drop
without a word are refused; and what a file announces is compared with what is there, before memory is taken.
"""

from __future__ import annotations

import gzip
import inspect
import math
import os
import zipfile
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt
import scipy.io
import scipy.sparse as sp

from .inputs.canonical import canonical_csr
from .inputs.compressed import INDEX_LIMIT
from .matrix_market import LineEnding, check_text

__all__ = ["MATRIX_SUFFIXES", "VECTOR_SUFFIXES", "read_matrix", "read_vector"]

MATRIX_SUFFIXES = (".mtx", ".mtx.gz", ".npz")
VECTOR_SUFFIXES = (".mtx", ".mtx.gz", ".npy")

# Newer versions of SciPy want to be told which class to give; older ones cannot be, and give a matrix.
SPARSE_ARRAY = {"spmatrix": False} if "spmatrix" in inspect.signature(scipy.io.mmread).parameters else {}


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
        summed. Of float32, float64 or complex numbers; integers and bool become float64.

    Raises
    ------
    ValueError
        If the name has another ending, or the content is broken.
    OSError
        If the file is not there or cannot be read.
    MemoryError
        If it announces a matrix that does not fit the memory.

    Examples
    --------
    >>> import scipy.io, spmvgpu as sg
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     scipy.io.mmwrite(f"{folder}/A.mtx", sg.gallery.poisson2d(4))
    ...     A = sg.matrix_io.read_matrix(f"{folder}/A.mtx")
    >>> A.shape, A.nnz
    ((16, 16), 64)
    """
    path = _checked_path(path, MATRIX_SUFFIXES)
    try:
        matrix = _load_npz(path) if path.suffix == ".npz" else _load_matrix_market(path)
        # Canonical here, where whatever fails can still be reported with the file's name.
        try:
            return _canonical(matrix)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
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

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/b.npy", np.ones(3))
    ...     sg.matrix_io.read_vector(f"{folder}/b.npy")
    array([1., 1., 1.])
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
    try:
        path = Path(path)
    except TypeError:
        raise TypeError(f"path={path!r} is no path; give a string or a pathlib.Path") from None
    if not path.name.endswith(suffixes):
        raise ValueError(f"{path}: unknown kind of file; its name must end in {', '.join(suffixes)}")
    if path.exists() and not path.is_file():  # a pipe would block, a directory confuse the parsers
        raise ValueError(f"{path}: not a regular file")
    with path.open("rb"):  # says why a file cannot be read before a parser blames its content
        return path


def _canonical(matrix: Any) -> sp.csr_array:
    if matrix.dtype.kind != "c":
        return cast(sp.csr_array, canonical_csr(matrix))
    csr = sp.csr_array(matrix)
    csr.sum_duplicates()
    return csr


def _load_matrix_market(path: Path) -> Any:
    """Content of a Matrix Market file: a sparse matrix, or an array where the file is in the array format."""
    try:
        with _open(path) as text:
            header = check_text(text, None if path.suffix == ".gz" else path.stat().st_size)
        if header.layout == "array" and header.rows * header.cols == 0:
            return np.zeros((header.rows, header.cols))  # on which SciPy's reader divides by zero
        _check_size(header.rows, header.cols, header.entries)
        with _open(path) as text:
            return scipy.io.mmread(LineEnding(text), **SPARSE_ARRAY)
    except MemoryError:
        raise
    except Exception as error:
        # The parsers raise what they please on broken input (EOFError, zlib.error, KeyError, ...).
        raise ValueError(f"{path}: not a valid Matrix Market file: {_reason(error)}") from error


def _open(path: Path) -> IO[bytes]:
    # Unpacked here, because SciPy's reader takes a damaged archive for the end of the file.
    return cast(IO[bytes], gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _check_size(rows: int, cols: int, entries: int) -> None:
    """Refuse a matrix that is known not to fit, before anything is allocated for it."""
    needed = 4 * rows + 28 * entries  # as coordinates and as CSR, in the smallest types
    available = _available_memory()
    if needed > available:
        raise MemoryError(
            f"{rows} x {cols} with {entries} entries takes {needed} bytes, and {available} are available"
        )
    if max(rows, cols) > INDEX_LIMIT:
        raise ValueError(f"the matrix is {rows} x {cols}; at most {INDEX_LIMIT} rows and columns fit")


def _available_memory() -> int:
    """Bytes that can be had without swapping; all that the machine has where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _load_npz(path: Path) -> Any:
    try:
        with path.open("rb") as stream:  # NumPy leaves files that it opened itself open on errors
            with zipfile.ZipFile(stream) as archive:
                unpacked = sum(entry.file_size for entry in archive.infolist())
            if unpacked > (available := _available_memory()):
                raise MemoryError(f"it unpacks to {unpacked} bytes, and {available} are available")
            stream.seek(0)
            matrix = sp.load_npz(stream)
        if matrix.ndim != 2:
            raise ValueError(f"it holds an array of {matrix.ndim} dimensions, not a matrix")
        rows, cols = matrix.shape
        _check_size(rows, cols, matrix.nnz)
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
            _check_npy_size(stream, path.stat().st_size)
            return np.lib.format.read_array(stream, allow_pickle=False)
    except MemoryError:
        raise
    except Exception as error:
        raise ValueError(f"{path}: not a valid .npy file: {_reason(error)}") from error


def _check_npy_size(stream: IO[bytes], length: int) -> None:
    """Compare the size that the header announces with that of the file, and go back to its begin."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    read_header = readers.get(np.lib.format.read_magic(stream))
    if read_header is not None:  # the others are for records with field names beyond latin-1
        shape, _, dtype = read_header(stream)
        announced = math.prod(shape) * dtype.itemsize
        if not dtype.hasobject and announced > length - stream.tell():
            raise ValueError(f"truncated: an array of shape {shape} takes {announced} bytes")
    stream.seek(0)


def _reason(error: Exception) -> str:
    """Message of an exception, with its type where the message says little without it."""
    speaks = isinstance(error, (ValueError, OSError)) and str(error)
    return str(error) if speaks else f"{type(error).__name__}: {error}"
