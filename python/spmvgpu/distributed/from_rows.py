"""Operators from the rows of each rank, which a matrix, a function, or one rank gives."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from .. import _core
from .._util.arguments import one_of, plain_options, whole_number, with_hints
from .._util.types import Device, DType, Format, HostArray
from ..devices import CPU, automatic_device, devices
from ..multi_device.partitions import Partition, ends_by_nnz, ends_by_rows
from ..planning.symmetry import declared
from .communicators import Communicator, mpi, private
from .errors import agreement, check_same
from .exchange import Exchange
from .explain import Summary
from .operator import DistributedOperator, Shared
from .ranges import Offsets, Ranges, checked_offsets
from .rows import build, checked_rows
from .transports import TRANSPORTS, choose

_ENDS = {"nnz": ends_by_nnz, "rows": ends_by_rows}


@with_hints
def aslinearoperator(
    A_local: sp.sparray | HostArray,
    comm: Communicator,
    *,
    row_ranges: Offsets | None = None,
    col_ranges: Offsets | None = None,
    format: Format = "auto",
    device: Device = "auto",
    dtype: npt.DTypeLike | None = None,
    symmetric: Literal["hermitian"] | bool | None = None,
    tune: str = "cached",
    transport: str = "auto",
    **format_options: int | float | str,
) -> DistributedOperator:
    """Make one operator from the rows of each rank.

    All ranks call it together.

    Parameters
    ----------
    A_local : sparse matrix, (local rows, all columns)
        Rows of this rank, with the column numbers of the whole matrix: a SciPy sparse matrix, preferably CSR.
        Indices may be int64. The rows of rank 0 come first, then the rows of rank 1. A rank may have no rows.
    comm : mpi4py communicator
        Such as ``MPI.COMM_WORLD``. It is duplicated.
    row_ranges : sequence of int or Ranges, optional
        First row of each rank, and the number of rows. By default it follows from the number of rows on each
        rank.
    col_ranges : sequence of int or Ranges, optional
        The same for the entries of x. The default is `row_ranges` for a square matrix, and an even
        distribution otherwise.
    format, tune, **format_options
        As in `spmvgpu.aslinearoperator`, for the diagonal block of the rank. The format of the other block is
        chosen automatically.
    device : str, default "auto"
        "auto", "cpu", "cuda" or "cuda:N". "cuda" and "auto" assign the GPUs of a host to its ranks in turn.
        Without a GPU, "auto" is the CPU. The ranks of a host then share its cores, unless
        ``SPMVGPU_NUM_THREADS`` or ``OMP_NUM_THREADS`` is set.
    dtype : {float32, float64, complex64, complex128}, optional
        Dtype of the operator. The default is the dtype of the rows, which is the same on all ranks that have
        rows.
    symmetric : bool or "hermitian", optional
        True: the whole matrix is symmetric. This is not checked. "hermitian": it is Hermitian. Each rank
        checks its diagonal block. Transposed products then need no transposed copy.
    transport : {"auto", "nccl", "cuda_mpi", "mpi"}
        How vector entries travel between GPUs: by NCCL, by CUDA-aware MPI, or by MPI through host memory.
        "auto" takes the first that is available. NCCL needs one GPU per rank. CUDA-aware MPI needs a GPU on
        each rank, which other ranks may share. Vectors in host memory always use MPI.

    Returns
    -------
    DistributedOperator

    Raises
    ------
    TypeError, ValueError, FormatError, MemoryError, CudaError
        As `spmvgpu.aslinearoperator`, if ranges, shapes or dtypes do not fit together, or if the transport is
        not available. All ranks raise the exception of any rank.
    ImportError
        If mpi4py is not installed.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from mpi4py import MPI
    >>> from spmvgpu import distributed
    >>> A = sp.csr_array([[2.0, 1.0], [0.0, 4.0]])
    >>> op = distributed.aslinearoperator(A, MPI.COMM_SELF, device="cpu")
    >>> op @ np.ones(2)
    array([3., 4.])
    """
    own = private(comm)
    with agreement(own):
        if symmetric not in (None, False, True, "hermitian"):
            raise ValueError(f"symmetric={symmetric!r} is not allowed; give None, False, True or 'hermitian'")
        one_of("transport", transport, TRANSPORTS)
        options = plain_options(format_options)
        csr = checked_rows(A_local, dtype)
        given = A_local.dtype if dtype is None else csr.dtype
    check_same(own, symmetric=symmetric or False, transport=transport)
    total_columns = csr.shape[1]
    check_same(own, **{"A_local.shape[1]": total_columns})
    common = _common_type(own.allgather((csr.shape[0], given.name, csr.dtype)))
    rows = _row_ranges(own, row_ranges, csr.shape[0])
    if col_ranges is not None:
        cols = Ranges(own, col_ranges)
    else:
        cols = rows if rows.total == total_columns else Ranges.even(own, total_columns)
    local_rank, threads = _local_rank(own)
    with agreement(own):
        if cols.total != total_columns:
            raise ValueError(
                f"col_ranges end at {cols.total}; they must end at {total_columns}, the number of columns"
            )
        if symmetric and cols != rows:
            raise ValueError(
                f"symmetric={symmetric!r} needs a square matrix with the same row_ranges and col_ranges"
            )
        device = _device(device, local_rank)
        csr = csr.astype(common, copy=False)
        local = build(csr, cols, format, device, symmetric, tune, options)
    exchange = Exchange(cols, local.needed)
    summaries = tuple(own.allgather(Summary.of(own.rank, local, exchange)))
    ordinal = local.block._ordinal if isinstance(local.block.device, str) else CPU
    carrier = choose(own, ordinal, transport)
    known = declared(symmetric, common)
    return DistributedOperator(Shared(local, exchange, rows, cols, carrier, summaries, known, threads))


def assemble(
    function: Callable[[int, int], sp.sparray],
    comm: Communicator,
    shape: int | tuple[int, int],
    *,
    row_ranges: Offsets | None = None,
    **options: Any,
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
        rows, cols = shape if isinstance(shape, tuple | list) else (shape, shape)
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
        ends = _ENDS[one_of("partition", partition, _ENDS)](csr.indptr, np.ones(size))
        return np.append(0, ends)
    if not isinstance(partition, Partition):
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
    from mpi4py.util import pkl5  # whose messages have any size

    comm = pkl5.Intracomm(ranges.comm)
    if csr is None:
        return comm.recv(source=root)
    for rank, (begin, end) in enumerate(pairwise(ranges.offsets)):
        if rank != root:
            comm.send(csr[begin:end], rank)
    return csr[ranges.begin : ranges.end]


def _row_ranges(comm: Communicator, given: Offsets | None, count: int) -> Ranges:
    """The ranges of rows that the caller gives, or ranges of `count` rows on this rank."""
    check_same(comm, **{"row_ranges is None": given is None})
    if given is None:
        return Ranges.from_counts(comm, count)
    ranges = Ranges(comm, given)
    with agreement(comm):
        if len(ranges) != count:
            raise ValueError(
                f"row_ranges assign rows {ranges.begin} to {ranges.end} to this rank, {len(ranges)} rows, "
                f"but A_local has {count}"
            )
    return ranges


def _common_type(facts: list[tuple[int, str, DType]]) -> DType:
    """The type that all ranks' rows are stored in; TypeError, on all ranks, where they have several."""
    with_rows = [rank for rank, (rows, *_) in enumerate(facts) if rows] or [0]
    first = {facts[rank][1]: rank for rank in reversed(with_rows)}
    if len(first) > 1:
        found = ", ".join(f"{name} on rank {rank}" for name, rank in sorted(first.items(), key=itemgetter(1)))
        raise TypeError(
            f"the rows of the ranks have different dtypes ({found}); give the same dtype= on all ranks"
        )
    return facts[with_rows[0]][2]


def _local_rank(comm: Communicator) -> tuple[int, int | None]:
    """The number of this rank on its host, and its threads for products on the CPU.

    These are the cores that it may run on, divided by the ranks that may run on the same. They are None where
    environment variables or the user say how many.
    """
    host = comm.Split_type(mpi().COMM_TYPE_SHARED)
    try:
        # macOS does not say where a process may run.
        known = hasattr(os, "sched_getaffinity")
        cores = sorted(os.sched_getaffinity(0)) if known else [*range(os.cpu_count() or 1)]
        sharing = host.allgather(cores).count(cores)
        is_given = _core.threads_of_environment() is not None
        return host.rank, None if is_given else max(1, len(cores) // sharing)
    finally:
        host.Free()


def _device(device: Device, local_rank: int) -> Device:
    """The device that "auto" and "cuda" stand for: the GPUs of a host go round among its ranks."""
    if device == "auto":
        device = automatic_device()
    if device not in ("auto", "cuda"):
        return device
    gpus = [info.name for info in devices() if info.name != "cpu"]
    return gpus[local_rank % len(gpus)] if gpus else device
