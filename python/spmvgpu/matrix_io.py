"""Read and write matrices and vectors in files: Matrix Market, and the formats of SciPy and NumPy.

Errors name the file. A file that is broken, truncated or not what its name says raises `ValueError`. What a
file announces is compared with its size before memory is allocated.
"""

from __future__ import annotations

import gzip
import os

import scipy.sparse as sp

from . import _core
from ._util.arguments import with_hints
from ._util.files import replacing
from .inputs.canonical import Symmetric, canonical_csr
from .inputs.reading import MATRIX_SUFFIXES, VECTOR_SUFFIXES, read_matrix, read_vector, with_suffix
from .operator.operator import SparseOperator
from .planning.symmetry import Symmetry, declared

__all__ = ["MATRIX_SUFFIXES", "VECTOR_SUFFIXES", "read_matrix", "read_vector", "write_matrix"]


def __dir__() -> list[str]:
    return __all__


@with_hints
def write_matrix(path: str | os.PathLike[str], A: object, *, symmetric: Symmetric = None) -> None:
    """Write a sparse matrix to a file.

    An existing file is replaced once the new one is complete.

    Parameters
    ----------
    path : path
        Ends in ``.mtx`` or ``.mtx.gz`` for a Matrix Market file, or in ``.npz`` for a file of
        `scipy.sparse.save_npz`.
    A : sparse matrix or SparseOperator
        As `spmvgpu.aslinearoperator` takes it. Integers and bool become float64.
    symmetric : {None, False, True, "lower", "upper", "hermitian"}
        As `spmvgpu.aslinearoperator` takes it. A Matrix Market file of a symmetric or Hermitian matrix holds
        its lower triangle. The default is what an operator was declared to be, and False for every other
        matrix.

    Raises
    ------
    TypeError
        If `A` is not a matrix.
    ValueError
        If the name has another ending, or the matrix is not as symmetric as declared.
    OSError
        If the file cannot be written.

    See Also
    --------
    read_matrix : Read such a file.

    Notes
    -----
    Numbers have as many digits as their type needs. A Matrix Market file does not say the type, so that
    `read_matrix` gives float64 or complex128; rounded to float32 or complex64, they are what was written.

    Examples
    --------
    >>> import spmvgpu as sg
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "A.mtx")
    ...     sg.matrix_io.write_matrix(file, sg.gallery.poisson2d(4), symmetric=True)
    ...     print(file.read_text().splitlines()[0])
    ...     print(sg.matrix_io.read_matrix(file).nnz)
    %%MatrixMarket matrix coordinate real symmetric
    64
    """
    from scipy.io import mmwrite  # which takes as long to import as all else here

    path = with_suffix(path, MATRIX_SUFFIXES)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: not a regular file")
    csr = canonical_csr(A, symmetric=symmetric).host
    known = declared(symmetric, csr.dtype)
    if symmetric is None and isinstance(A, SparseOperator):
        known = A._stored.symmetry
    kind = _checked_kind(csr, known)
    with replacing(path) as file, file.open("wb") as stream:
        if path.suffix == ".npz":
            sp.save_npz(stream, csr)
        elif path.suffix == ".gz":
            with gzip.GzipFile("", "wb", fileobj=stream, mtime=0) as packed:  # without a name and a time
                mmwrite(packed, csr, symmetry=kind)
        else:
            mmwrite(stream, csr, symmetry=kind)


def _checked_kind(csr: sp.csr_array, known: Symmetry | None) -> str:
    """What the first line of a Matrix Market file says of a matrix's symmetry."""
    if not known:
        return "general"
    is_hermitian = csr.dtype.kind == "c" and Symmetry.SYMMETRIC not in known
    kind = "hermitian" if is_hermitian else "symmetric"
    found = _core.asymmetry(csr.indptr, csr.indices, csr.data, is_hermitian)
    if found:
        raise ValueError(
            f"A is declared {kind} and is not: {found}; give symmetric=False to write all entries"
        )
    return kind
