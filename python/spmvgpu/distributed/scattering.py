"""Operators from a matrix on one rank, or from a function that makes the rows of a rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .._util.arguments import one_of, whole_number
from ..partition import Partition, by_nnz, by_rows
from .blocks import local_rows
from .communicators import private
from .errors import agreement, check_same
from .from_rows import aslinearoperator
from .operator import DistributedOperator
from .ranges import Ranges, checked_offsets

Array = npt.NDArray[Any]

CUTS = {"nnz": by_nnz, "rows": by_rows}


def scatter(
    A: Any, comm: Any, partition: Any = "nnz", *, root: int = 0, **options: Any
) -> DistributedOperator:
    """Distribute a matrix of one rank over all ranks.

    Parameters
    ----------
    A : sparse matrix
        A SciPy sparse matrix on rank `root`, None on the others.
    comm : mpi4py communicator
    partition : {"nnz", "rows"}, Partition or sequence of int, default "nnz"
        Rows of each rank. "nnz": the same number of stored entries. "rows": the same number of rows. A
        `spmvgpu.partition.Partition` with contiguous sets: one set per rank. A sequence: `row_ranges` of
        `distributed.aslinearoperator`. The value on rank `root` is used.
    root : int, default 0
    **options
        As in `distributed.aslinearoperator`.

    Returns
    -------
    DistributedOperator

    Raises
    ------
    TypeError, ValueError, FormatError, MemoryError, CudaError, ImportError
        As `distributed.aslinearoperator`, on all ranks.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> from mpi4py import MPI
    >>> comm = MPI.COMM_SELF
    >>> A = sg.gallery.poisson1d(4) if comm.rank == 0 else None
    >>> op = sg.distributed.scatter(A, comm, device="cpu")
    >>> op @ np.ones(op.local_shape[1])
    array([1., 0., 0., 1.])
    """
    own = private(comm)
    with agreement(own):
        root = whole_number("root", root, 0, own.size - 1)
    check_same(own, root=root)
    offsets = np.zeros(own.size + 1, np.int64)
    with agreement(own):
        csr = local_rows(A, options.get("dtype")) if own.rank == root else None
        if csr is not None:
            offsets = _cut(csr, partition, own.size)
    own.Bcast(offsets, root)
    ranges = Ranges(own, offsets)
    return aslinearoperator(_send_rows(csr, ranges, root), own, row_ranges=ranges, **options)


def assemble(
    function: Callable[[int, int], Any], comm: Any, shape: Any, *, row_ranges: Any = None, **options: Any
) -> DistributedOperator:
    """Make one operator from a function that returns the rows of a rank.

    Parameters
    ----------
    function : callable
        ``function(begin, end)`` returns rows `begin` to ``end - 1`` as a SciPy sparse matrix, with the column
        numbers of the whole matrix. Each rank calls it once. It must not communicate.
    comm : mpi4py communicator
    shape : int or tuple of int
        Number of rows and columns of the whole matrix. An integer for a square matrix.
    row_ranges : sequence of int or Ranges, optional
        First row of each rank, and the number of rows. By default the rows are divided evenly.
    **options
        As in `distributed.aslinearoperator`.

    Returns
    -------
    DistributedOperator

    Raises
    ------
    TypeError, ValueError, FormatError, MemoryError, CudaError, ImportError
        As `distributed.aslinearoperator`, on all ranks.
    Exception
        Any exception of the function, on all ranks.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from mpi4py import MPI
    >>> from spmvgpu import distributed
    >>> def laplacian(begin, end):
    ...     whole = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(6, 6))
    ...     return whole.tocsr()[begin:end]
    >>> op = distributed.assemble(laplacian, MPI.COMM_SELF, 6)
    >>> op @ np.ones(6)
    array([1., 0., 0., 0., 0., 1.])
    """
    own = private(comm)
    with agreement(own):
        if not callable(function):
            raise TypeError(f"function={function!r} is not allowed; give a function of (begin, end)")
        rows, cols = (shape, shape) if np.ndim(shape) == 0 else shape
        rows, cols = whole_number("rows", rows, 0), whole_number("columns", cols, 0)
    check_same(own, shape=(rows, cols))
    ranges = Ranges.even(own, rows) if row_ranges is None else Ranges(own, row_ranges)
    with agreement(own):
        if ranges.total != rows:
            raise ValueError(f"row_ranges end at {ranges.total}; they must end at {rows}, the number of rows")
        A_local = function(ranges.begin, ranges.end)
        found = getattr(A_local, "shape", None)
        if found != (len(ranges), cols):
            raise ValueError(
                f"function({ranges.begin}, {ranges.end}) must return a sparse matrix of shape "
                f"{(len(ranges), cols)}, not a {type(A_local).__name__} of shape {found}"
            )
    return aslinearoperator(A_local, own, row_ranges=ranges, **options)


def _cut(csr: sp.csr_array, partition: Any, size: int) -> Array:
    """Where each rank's rows begin, and their number."""
    if isinstance(partition, str):
        cut = CUTS[one_of("partition", partition, CUTS)]
        partition = cut(np.diff(csr.indptr), [1.0] * size)
    elif not isinstance(partition, Partition):
        return checked_offsets(partition, size, csr.shape[0])
    if len(partition.sets) != size:
        raise ValueError(
            f"the partition has {len(partition.sets)} sets of rows for {size} ranks; give one set per rank"
        )
    partition.check_rows(csr.shape[0])
    if csr.shape[0] and (np.diff(np.concatenate(partition.sets)) != 1).any():
        raise ValueError(
            "the sets of the partition must be contiguous; permute rows and columns of the matrix by "
            "np.concatenate(partition.sets), and scatter the result"
        )
    return np.concatenate(([0], np.cumsum([len(rows) for rows in partition.sets])))


def _send_rows(csr: sp.csr_array | None, ranges: Ranges, root: int) -> sp.csr_array:
    """This rank's rows of a matrix that rank `root` has."""
    comm = ranges.comm
    facts = None
    if csr is not None:
        ends = csr.indptr[ranges.offsets].astype(np.int64)
        facts = (csr.shape[1], csr.data.dtype, csr.indices.dtype, ends)
    cols, dtype, index_type, ends = comm.bcast(facts, root)
    begin, end = ends[comm.rank : comm.rank + 2]
    indptr = np.empty(len(ranges) + 1, np.int64)
    indices, data = np.empty(end - begin, index_type), np.empty(end - begin, dtype)
    if csr is None:
        for array in (indptr, indices, data):
            comm.Recv(array, root)
        return sp.csr_array((data, indices, indptr), shape=(len(ranges), cols))
    for rank in range(comm.size):
        rows = slice(ranges.offsets[rank], ranges.offsets[rank + 1] + 1)
        entries = slice(ends[rank], ends[rank + 1])
        piece = (csr.indptr[rows] - ends[rank], csr.indices[entries], csr.data[entries])
        if rank == root:
            indptr, indices, data = piece
            continue
        for array, kind in zip(piece, (np.int64, index_type, dtype), strict=True):
            comm.Send(np.ascontiguousarray(array, kind), rank)
    return sp.csr_array((data, indices, indptr), shape=(len(ranges), cols))
