"""`distributed.aslinearoperator`: from the rows that each rank has to one operator over all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arguments import one_of, plain_options, with_hints
from ..devices import CPU
from ..symmetry import declared
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
    """One operator of the rows that each rank has, called by all ranks together.

    Parameters
    ----------
    A_local : sparse matrix, (local rows, all columns)
        This rank's rows with the column numbers of the whole matrix, as a SciPy sparse matrix, best CSR; its
        indices may be int64. The rows of rank 0 come first, then those of rank 1. A rank may have none.
    comm : mpi4py communicator
        Whose ranks they are, as in ``MPI.COMM_WORLD``. Messages go over a duplicate of it.
    row_ranges : sequence of int or Ranges, optional
        Where each rank's rows begin, and the number of all rows; as many as each rank gives by default.
    col_ranges : sequence of int or Ranges, optional
        The same for the entries of x. By default those of the rows for a square matrix, and even ones
        otherwise.
    format, tune, **format_options
        As `spmvgpu.aslinearoperator` takes them, for the block of the rank's rows and its own entries of x.
        The block that meets other ranks' entries is stored in the format that suits it.
    device : str, default "auto"
        "cpu", "cuda:N", or "cuda" and "auto", for which the GPUs of a host go round among its ranks; ranks
        may share one. Without a GPU, "auto" is the CPU, whose cores the ranks of a host divide, unless
        ``SPMVGPU_NUM_THREADS`` or ``OMP_NUM_THREADS`` says how many threads each of them takes.
    dtype : {None, float32, float64, complex64, complex128}
        Type that the matrix is stored and multiplied in. By default that of the ranks' rows, which must be
        one; ranks without rows have no say.
    symmetric : bool or "hermitian", optional
        True: the whole matrix is symmetric, so it serves as its own transpose, which is not checked;
        "hermitian": as its own conjugate transpose, which is checked within each rank's own block.
    transport : {"auto", "nccl", "cuda_mpi", "mpi"}
        What carries entries of vectors on GPUs: NCCL from GPU to GPU; MPI from GPU to GPU, if it is
        CUDA-aware; or MPI through host memory. By default the first that is possible: NCCL where it is found
        and every rank has a GPU of its own, CUDA-aware MPI where every rank has one, which others may share.
        Vectors in host memory always go by MPI.

    Returns
    -------
    DistributedOperator

    Raises
    ------
    TypeError, ValueError, FormatError, MemoryError, CudaError
        As `spmvgpu.aslinearoperator`; for ranges, shapes or types that do not fit together; and for a
        transport that is not possible, with the reason. What one rank raises is raised by all, with its
        message.
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
                f"A_local has {csr.shape[1]} columns, on rank 0 {total_columns}; every rank's rows must have "
                "all columns of the matrix"
            )
    rows = _ranges(own, "row_ranges", row_ranges, csr.shape[0])
    if col_ranges is None and rows.total == total_columns:
        cols = rows
    else:
        cols = Ranges.even(own, total_columns) if col_ranges is None else Ranges(own, col_ranges)
    with agreement(own):
        if cols.total != total_columns:
            raise ValueError(f"col_ranges end at {cols.total}; the matrix has {total_columns} columns")
        if symmetric and cols != rows:
            raise ValueError("a symmetric matrix is square, and its rows and columns are divided alike")
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
                f"{name} say that this rank has rows {ranges.begin} to {ranges.end}, which are "
                f"{len(ranges)}, and A_local has {count}"
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
        raise TypeError(f"the ranks' rows are of several types ({found}); give the same dtype= on all")
    return facts[with_rows[0]][3]
