"""`distributed.aslinearoperator`: one operator from the rows of each rank."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._util.arguments import one_of, plain_options, with_hints
from ..devices import CPU
from ..planning.symmetry import declared
from . import between_gpus
from .blocks import build, local_rows, split
from .communicators import private
from .describe import Summary
from .errors import agreement, check_same
from .exchange import Exchange
from .operator import DistributedOperator, Shared
from .placement import place
from .ranges import Ranges


@with_hints
def aslinearoperator(
    A_local: Any,
    comm: Any,
    *,
    row_ranges: Any = None,
    col_ranges: Any = None,
    format: str = "auto",
    device: Any = "auto",
    dtype: Any = None,
    symmetric: bool | str | None = None,
    tune: str = "cached",
    transport: str = "auto",
    **format_options: Any,
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
        one_of("transport", transport, between_gpus.TRANSPORTS)
        options = plain_options(format_options)
        csr = local_rows(A_local, dtype)
        given = A_local.dtype if dtype is None else csr.dtype
    check_same(own, symmetric=symmetric or False, transport=transport)
    facts = own.allgather((*csr.shape, given.name, csr.dtype))
    total_columns, common = facts[0][1], _common_type(facts)
    with agreement(own):
        if csr.shape[1] != total_columns:
            raise ValueError(
                f"A_local has {csr.shape[1]} columns, and {total_columns} on rank 0; give rows with all "
                "columns of the matrix on every rank"
            )
    rows = _ranges(own, "row_ranges", row_ranges, csr.shape[0])
    if col_ranges is None and rows.total == total_columns:
        cols = rows
    else:
        cols = Ranges.even(own, total_columns) if col_ranges is None else Ranges(own, col_ranges)
    with agreement(own):
        if cols.total != total_columns:
            raise ValueError(
                f"col_ranges end at {cols.total}; they must end at {total_columns}, the number of columns"
            )
        if symmetric and cols != rows:
            raise ValueError(
                f"symmetric={symmetric!r} needs a square matrix with the same row_ranges and col_ranges"
            )
        inner, halo, boundary, needed = split(csr.astype(common, copy=False), cols)
    exchange = Exchange(cols, needed)
    placement = place(own)
    with agreement(own):
        wanted = {"device": placement.device(device), "tune": tune, "symmetric": symmetric}
        blocks = build(inner, halo, boundary, needed, format, dtype=common, **wanted, **options)
    summaries = own.allgather(Summary.of(own.rank, blocks, exchange))
    ordinal = blocks.inner._ordinal if isinstance(blocks.inner.device, str) else CPU
    carried = between_gpus.choose(own, ordinal, transport)
    told = tuple(summaries), declared(symmetric, common), placement.threads
    shared = Shared(blocks, exchange, rows, cols, carried, *told)
    return DistributedOperator(shared)


def _ranges(comm: Any, name: str, given: Any, count: int) -> Ranges:
    """The ranges that the caller gives, or those of as many as this rank has."""
    check_same(comm, **{f"{name} is None": given is None})
    if given is None:
        return Ranges.from_counts(comm, count)
    ranges = Ranges(comm, given)
    with agreement(comm):
        if len(ranges) != count:
            raise ValueError(
                f"{name} assign rows {ranges.begin} to {ranges.end} to this rank, {len(ranges)} rows, but "
                f"A_local has {count}"
            )
    return ranges


def _common_type(facts: list[tuple[int, int, str, np.dtype[Any]]]) -> np.dtype[Any]:
    """The type that all ranks' rows are stored in; TypeError, everywhere, where they are of several."""
    with_rows = [rank for rank, (rows, *_) in enumerate(facts) if rows] or [0]
    first: dict[str, int] = {}
    for rank in with_rows:
        first.setdefault(facts[rank][2], rank)
    if len(first) > 1:
        found = ", ".join(f"{name} on rank {rank}" for name, rank in first.items())
        raise TypeError(
            f"the rows of the ranks have different dtypes ({found}); give the same dtype= on all ranks"
        )
    return facts[with_rows[0]][3]
