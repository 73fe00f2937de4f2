"""Operators of matrices that lie on one rank, or that a function makes piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from ..arguments import one_of, whole_number
from ..partition import Partition, by_nnz, by_rows
from .blocks import local_rows
from .communicators import private
from .construct import aslinearoperator
from .errors import agreement, check_same
from .operator import DistributedOperator
from .ranges import Ranges, checked_offsets

Array = npt.NDArray[Any]

CUTS = {"nnz": by_nnz, "rows": by_rows}


def scatter(
    A: Any, comm: Any, partition: Any = "nnz", *, root: int = 0, **options: Any
) -> DistributedOperator:
    """One operator over all ranks of a matrix that one of them has.

    Parameters
    ----------
    A : sparse matrix
        On rank `root`, as a SciPy sparse matrix. The others give None.
    comm : mpi4py communicator
    partition : {"nnz", "rows"}, Partition or sequence of int, default "nnz"
        How many rows each rank gets: those with its share of the stored entries; as many as the others; as
        many as a set of a `spmvgpu.partition.Partition` has, whose rows must be neighbours; or where each
        rank's rows begin, as `row_ranges` of `distributed.aslinearoperator`. That of rank `root` counts.
    root : int
        The rank that has the matrix.
    **options
        As `distributed.aslinearoperator` takes them.

    Returns
    -------
    DistributedOperator

    Raises
    ------
    TypeError, ValueError, ...
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
    """One operator over all ranks of rows that each makes for itself.

    Parameters
    ----------
    function : callable
        ``function(begin, end)`` gives rows `begin` to `end`, `end` not included, with the column numbers of
        the whole matrix, as a SciPy sparse matrix. It is called once on every rank, and must not
        communicate.
    comm : mpi4py communicator
    shape : int or tuple of int
        (rows, columns) of the whole matrix; a number for a square one.
    row_ranges : sequence of int or Ranges, optional
        Where each rank's rows begin, and the number of all rows; as many rows for each by default.
    **options
        As `distributed.aslinearoperator` takes them.

    Returns
    -------
    DistributedOperator

    Raises
    ------
    TypeError, ValueError, ...
        As `distributed.aslinearoperator`, and what the function raises; on all ranks.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from mpi4py import MPI
    >>> from spmvgpu import distributed
    >>> def laplacian(begin, end):
    ...     whole = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(6, 6), format="csr")
    ...     return whole[begin:end]
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
            raise ValueError(f"row_ranges end at {ranges.total}; the matrix has {rows} rows")
        A_local = function(ranges.begin, ranges.end)
        found = getattr(A_local, "shape", None)
        if found != (len(ranges), cols):
            raise ValueError(
                f"function({ranges.begin}, {ranges.end}) must give a sparse matrix of shape "
                f"{(len(ranges), cols)}, not {type(A_local).__name__} of shape {found}"
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
        raise ValueError(f"the partition has {len(partition.sets)} sets of rows for {size} ranks")
    partition.check_rows(csr.shape[0])
    if csr.shape[0] and (np.diff(np.concatenate(partition.sets)) != 1).any():
        raise ValueError(
            "the rows of a rank must be neighbours, and those of this partition are not; permute rows and "
            "columns of the matrix by np.concatenate(partition.sets), and scatter that"
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
