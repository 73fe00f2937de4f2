"""`DistributedOperator`: a sparse matrix over the ranks of a communicator."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NoReturn, cast

import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from .. import _core
from .._core import AnyMatrix, LinearMap
from .._util.types import Device, Format, HostArray
from ..linalg.systems import check_square
from ..operator.construct import aslinearoperator
from ..operator.operator import SparseOperator
from ..operator.solve_info import SolveInfo
from ..planning.symmetry import Symmetry, simplest
from .communicators import Communicator
from .errors import agreement, check_same
from .exchange import Exchange, Piece
from .explain import Summary, explanation
from .products import Product
from .ranges import Ranges
from .rank_entries import RankEntries
from .rank_products import RankProducts
from .rows import LocalRows
from .systems import PieceOfSystem
from .transports import Transport


@dataclass(frozen=True)
class Shared:
    """What an operator has in common with its transpose and its conjugate.

    Attributes
    ----------
    variants : dict
        The variants made so far, by whether they are transposed, and whether conjugated.
    """

    local: LocalRows
    exchange: Exchange
    rows: Ranges
    cols: Ranges
    transport: Transport
    summaries: tuple[Summary, ...]
    symmetry: Symmetry | None
    threads: int | None
    variants: dict[tuple[bool, bool], DistributedOperator] = field(default_factory=dict)


class DistributedOperator(RankProducts, RankEntries):
    """A sparse matrix whose rows are distributed over the ranks of a communicator.

    `distributed.aslinearoperator`, `scatter`, `assemble`, `read_matrix` and `from_petsc` make one.

    All ranks call the same methods in the same order. Each rank passes its piece of x and gets its piece of
    the result. A piece is a NumPy array, an array of another library in host memory, or a CuPy or PyTorch
    array on the GPU of the rank. Pieces have the same dtype and number of columns on all ranks. The same
    number of ranks gives the same bits.

    Attributes
    ----------
    shape : tuple of int
        Shape of the whole matrix.
    local_shape : tuple of int
        Lengths of the pieces of this rank: of the result and of x.
    dtype : numpy.dtype
    row_ranges, col_ranges : Ranges
        Entries of results and of x that each rank holds.
    comm : mpi4py communicator
        A duplicate of the given one.
    nnz : int
        Stored entries of all ranks.
    nbytes, work_nbytes : int
        Bytes that this rank holds, as of a `SparseOperator`.
    format, device : str
        Format and device of the diagonal block of this rank.
    solve_info : spmvgpu.linalg.SolveInfo or None
        How the last solve of `spmvgpu.linalg` with the operator went.
    T, H : DistributedOperator
        Transpose and conjugate transpose.

    Notes
    -----
    The class is not a `scipy.sparse.linalg.LinearOperator`: solvers of SciPy would compute inner products of
    pieces. Use the solvers of `spmvgpu.linalg`, or `replicated` with SciPy.

    A product does not check the pieces of other ranks. If it raises an exception on one rank, the other ranks
    wait for it. Use `agreement` where a rank may fail. The solvers of `spmvgpu.linalg` raise the exception of
    one rank on all ranks.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg
    >>> from mpi4py import MPI
    >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
    >>> op @ np.ones(2)
    array([3., 4.])
    """

    __array_ufunc__ = None  # NumPy leaves ``array @ op`` to us, and there is no such product

    def __init__(self, shared: Shared, transposed: bool = False, conjugated: bool = False) -> None:
        rows, cols = shared.rows, shared.cols
        self.row_ranges, self.col_ranges = (cols, rows) if transposed else (rows, cols)
        self.shape = (self.row_ranges.total, self.col_ranges.total)
        self.local_shape = (len(self.row_ranges), len(self.col_ranges))
        self.dtype = shared.local.block.dtype
        self._shared = shared
        self._which, self._threads = (transposed, conjugated), shared.threads
        shared.variants[self._which] = self
        self._product = Product(shared.local, shared.exchange, shared.transport, *self._which)
        self._solver_memories: dict[int, _core.SolverMemory] = {}
        # Any, so that a program need not ask for None after a solve.
        self.solve_info: SolveInfo | Any = None

    @property
    def comm(self) -> Communicator:
        return self.row_ranges.comm

    def agreement(self) -> AbstractContextManager[None]:
        """Return a context manager that raises the exception of any rank on all ranks.

        All ranks enter the ``with`` block, and no rank waits for another inside it. The exception is raised
        at the end of the block.

        Returns
        -------
        context manager

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> with op.agreement():
        ...     step = 0.5  # or whatever may fail on one rank
        """
        return agreement(self.comm)

    @property
    def nnz(self) -> int:
        return sum(summary.entries for summary in self._shared.summaries)

    @property
    def nbytes(self) -> int:
        return sum(op.nbytes for op in self._product.local.operators)

    @property
    def work_nbytes(self) -> int:
        solvers = sum(memory.nbytes for memory in self._solver_memories.values())
        return sum(op.work_nbytes for op in self._product.local.operators) + solvers

    @property
    def format(self) -> Format | Any:
        return self._product.local.block.format

    @property
    def device(self) -> Device:
        return cast("str", self._product.local.block.device)

    @property
    def T(self) -> DistributedOperator:  # noqa: N802
        return self._variant(True, False)

    @property
    def H(self) -> DistributedOperator:  # noqa: N802
        return self._variant(True, True)

    def conj(self) -> DistributedOperator:
        """Return the complex conjugate of the operator.

        Returns
        -------
        DistributedOperator
            The operator itself if it is real.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0j], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.conj() @ np.ones(2)
        array([2.-1.j, 4.+0.j])
        """
        return self._variant(False, True)

    def _variant(self, transpose: bool, conjugate: bool) -> DistributedOperator:
        """The operator transposed, conjugated or both, which is made once."""
        shared = self._shared
        which = simplest(shared.symmetry, self.dtype, self._which[0] ^ transpose, self._which[1] ^ conjugate)
        made = shared.variants.get(which)
        return made or DistributedOperator(replace(shared, local=shared.local.snapshot()), *which)

    def explain(self) -> str:
        """Describe what each rank holds and sends.

        Returns
        -------
        str
            Several lines of text, the same on every rank.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> print(op.explain().splitlines()[0])
        <2x2 DistributedOperator of float64, 3 stored entries, over 1 ranks>
        """
        shared = self._shared
        return explanation(repr(self), self.dtype.itemsize, shared.summaries, shared.transport)

    def __repr__(self) -> str:
        rows, cols = self.shape
        return (
            f"<{rows}x{cols} DistributedOperator of {self.dtype}, {self.nnz} stored entries, over "
            f"{self.comm.size} ranks>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a DistributedOperator cannot be pickled, because it belongs to a communicator")

    def replicated(self) -> LinearOperator:
        """Return the operator on whole vectors, for the solvers of SciPy.

        All ranks run the same solver on the same vectors. Each rank multiplies its rows and gets the results
        of the others.

        Returns
        -------
        scipy.sparse.linalg.LinearOperator

        Notes
        -----
        Each rank needs memory for whole vectors. Pass the same start vector on all ranks to a solver that
        begins with random numbers, such as ``eigsh(op.replicated(), v0=v0)``.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> from scipy.sparse.linalg import gmres
        >>> x, info = gmres(op.replicated(), np.array([4.0, 4.0]))
        >>> x.round(6), info
        (array([1.5, 1. ]), 0)
        """

        def replicated_product(op: DistributedOperator, x: HostArray) -> HostArray:
            cols = op.col_ranges
            return cast("HostArray", op.row_ranges.gather(op.dot(x[cols.begin : cols.end]), root=None))

        multiply, adjoint = (partial(replicated_product, op) for op in (self, self.H))
        return LinearOperator(self.shape, multiply, adjoint, multiply, self.dtype, adjoint)

    # Methods that solvers call

    @property
    def _core_matrix(self) -> AnyMatrix | None:
        """The matrix of the core that multiplies this rank's pieces, and exchanges entries, or None."""
        alone = self.comm.size == 1 and isinstance(self.device, str)
        return self._product.matrix if alone or self._shared.transport.nccl is not None else None

    @property
    def _block(self) -> SparseOperator:
        """The block of the diagonal, which has the columns of this rank's rows."""
        return self._product.block

    def _piece_of_system(self, b: Piece, name: str) -> PieceOfSystem:
        check_square(self.shape)
        if self.row_ranges != self.col_ranges:
            raise ValueError(
                "rows and columns are distributed differently; a solver needs an operator with the same "
                "row_ranges and col_ranges"
            )
        return PieceOfSystem(self, b, name, self.row_ranges)

    def _spaces(self, b: Piece, name: str) -> tuple[PieceOfSystem, PieceOfSystem, LinearMap, LinearMap]:
        rows, columns = (
            PieceOfSystem(self, b, name, ranges) for ranges in (self.row_ranges, self.col_ranges)
        )
        return rows, columns, rows.products(self), rows.products(self.H)

    def _snapshot(self) -> DistributedOperator:
        shared = replace(self._shared, local=self._shared.local.snapshot(), variants={})
        return DistributedOperator(shared, *self._which)

    def _shifted(self, sigma: float) -> DistributedOperator:
        local = self._shared.local
        identity = sp.eye_array(local.block.shape[0], dtype=self.dtype, format="csr")
        block = sp.csr_array(local.block.tocsr() - self.dtype.type(sigma) * identity)
        shifted = replace(local, block=aslinearoperator(block, device=local.block.device, dtype=self.dtype))
        return DistributedOperator(replace(self._shared, local=shifted, variants={}), *self._which)

    def _check_same(self, **values: object) -> None:
        check_same(self.comm, **values)

    def _memory_of_solvers(self, ordinal: int) -> _core.SolverMemory:
        if ordinal not in self._solver_memories:
            self._solver_memories[ordinal] = _core.SolverMemory(ordinal)
        return self._solver_memories[ordinal]
