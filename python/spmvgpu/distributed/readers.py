"""Matrices that are read from a file by all ranks, each its own part."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .._util.arguments import one_of
from ..inputs.reading import as_path, check_readable
from . import npz
from .communicators import private
from .errors import agreement, check_same
from .from_rows import aslinearoperator
from .matrix_market import read_triplets
from .operator import DistributedOperator
from .ranges import Ranges, balanced
from .triplets import collect_rows, ranges_by_nnz

SUFFIXES = (".mtx", ".npz")


def read_matrix(
    path: str | os.PathLike[str], comm: Any, partition: str = "nnz", **options: Any
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
        file = _checked_path(path)
    check_same(own, partition=partition, path=file.name)
    if file.suffix == ".npz":
        ranges, csr = npz.read_rows(file, own, balanced if partition == "nnz" else _unchanged)
    else:
        entries = read_triplets(file, own)
        ranges = Ranges.even(own, entries.shape[0])
        if partition == "nnz":
            ranges = ranges_by_nnz(ranges, entries.row)
        csr = collect_rows(ranges, entries.row, entries.col, entries.data, entries.shape[1])
    return aslinearoperator(csr, own, row_ranges=ranges, **options)


def _unchanged(ranges: Ranges, _: Any) -> Ranges:
    return ranges


def _checked_path(path: Any) -> Path:
    checked = as_path(path)
    if checked.suffix not in SUFFIXES:
        packed = "; decompress it first, because ranks read from the middle of the file"
        raise ValueError(
            f"{path}: the file name must end in {' or '.join(SUFFIXES)}"
            + (packed if checked.suffix == ".gz" else "")
        )
    check_readable(checked)
    return checked
