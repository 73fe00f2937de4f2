"""Reading matrices that no single rank could hold."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..arguments import one_of
from ..matrix_io import as_path, check_readable
from . import npz
from .communicators import private
from .construct import aslinearoperator
from .errors import agreement, check_same
from .matrix_market import read_triplets
from .operator import DistributedOperator
from .ranges import Ranges, balanced
from .triplets import collect_rows, ranges_by_nnz

SUFFIXES = (".mtx", ".npz")


def read_matrix(
    path: str | os.PathLike[str], comm: Any, partition: str = "nnz", **options: Any
) -> DistributedOperator:
    """One operator over all ranks of a matrix in a file that all of them see.

    Each rank reads a part of the file, and none needs memory for more than its share.

    Parameters
    ----------
    path : path
        A Matrix Market file in the coordinate format (``.mtx``), of which each rank parses a range of bytes
        and sends the entries to those whose rows they are in; or a CSR matrix that `scipy.sparse.save_npz`
        wrote, of which each rank reads its rows. ``save_npz(..., compressed=False)`` spares ranks the
        unpacking of what lies before theirs.
    comm : mpi4py communicator
    partition : {"nnz", "rows"}
        As many stored entries, or as many rows, for each rank.
    **options
        As `distributed.aslinearoperator` takes them.

    Returns
    -------
    DistributedOperator

    Raises
    ------
    ValueError, OSError, ...
        If the file cannot be read or is broken, and as `distributed.aslinearoperator`; on all ranks.

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
        packed = "; unpack it first, ranks cannot begin in the middle of it"
        raise ValueError(
            f"{path}: the name of a file that ranks read must end in {' or '.join(SUFFIXES)}"
            + (packed if checked.suffix == ".gz" else "")
        )
    check_readable(checked)
    return checked
