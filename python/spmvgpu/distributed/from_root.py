"""Operators from a matrix that one rank has, the root."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._util.arguments import one_of, whole_number
from .._util.types import HostArray
from ..multi_device.partitions import Partition, by_nnz, by_rows
from .communicators import Communicator, private
from .errors import agreement, check_same
from .from_rows import aslinearoperator
from .operator import DistributedOperator
from .ranges import Offsets, Ranges, checked_offsets
from .rows import checked_rows

_CUTS = {"nnz": by_nnz, "rows": by_rows}


def scatter(
    A: sp.sparray | HostArray | None,
    comm: Communicator,
    partition: str | Partition | Offsets = "nnz",
    *,
    root: int = 0,
    **options: Any,
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
        csr = checked_rows(A, options.get("dtype")) if own.rank == root else None
        if csr is not None:
            offsets = _cut(csr, partition, own.size)
    own.Bcast(offsets, root)
    ranges = Ranges(own, offsets)
    return aslinearoperator(_send_rows(csr, ranges, root), own, row_ranges=ranges, **options)


def _cut(csr: sp.csr_array, partition: str | Partition | Offsets, size: int) -> HostArray:
    """Where each rank's rows begin, and their number."""
    if isinstance(partition, str):
        cut = _CUTS[one_of("partition", partition, _CUTS)]
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
    lengths = ranges.scatter(None if csr is None else np.diff(csr.indptr), root)
    entries = Ranges.from_counts(comm, int(lengths.sum()))
    kinds = None if csr is None else (csr.shape[1], csr.indices.dtype, csr.data.dtype)
    cols, *types = comm.bcast(kinds, root)
    if csr is None:
        arrays = [np.empty(len(entries), dtype) for dtype in types]
        for array in arrays:
            comm.Recv(array, root)
    else:  # one rank after the other: all entries together may be more than MPI counts
        of_ranks = [[csr.indices[begin:end], csr.data[begin:end]] for begin, end in pairwise(entries.offsets)]
        for rank in set(range(comm.size)) - {root}:
            for array in of_ranks[rank]:
                comm.Send(array, rank)
        arrays = of_ranks[root]
    indices, data = arrays
    indptr = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    return sp.csr_array((data, indices, indptr), shape=(len(ranges), cols))
