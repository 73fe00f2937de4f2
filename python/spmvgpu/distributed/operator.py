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
from ..arrays import array_and_library
from ..devices import at_most
from ..linalg.systems import check_square
from ..operator.construct import aslinearoperator
from ..operator.operands import as_it_is, check_shape, of_any_type, refuse_overlap
from ..operator.operator import SparseOperator
from ..operator.solve_info import SolveInfo
from ..planning.symmetry import Symmetry, simplest
from .communicators import Communicator
from .errors import agreement, check_same
from .exchange import Exchange, Piece
from .explain import Summary, explanation
from .products import Product
from .ranges import Ranges
from .rows import LocalRows, rows_with
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


class DistributedOperator:
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

    def tocsr(self) -> sp.csr_array:
        """Return the rows of this rank, with all columns of the matrix.

        Returns
        -------
        scipy.sparse.csr_array
            In host memory.

        Raises
        ------
        TypeError
            If the operator is a transpose, which holds columns.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.tocsr().toarray()
        array([[2., 1.],
               [0., 4.]])
        """
        if self._product.transposed:
            raise TypeError("a transposed DistributedOperator holds columns, not rows; use op.T.tocsr()")
        return self._product.local.tocsr(self.col_ranges)

    def update_values(self, data: object) -> None:
        """Replace the values of the stored entries, as `SparseOperator.update_values`; all ranks call it.

        Parameters
        ----------
        data : sparse matrix, dense matrix, or (local nnz,) array
            The rows of this rank with all columns of the matrix, with the same sparsity pattern or a part of
            it. Or an array of values in the order of ``op.tocsr().data``.

        Raises
        ------
        TypeError
            If the operator is a transpose or a conjugate, or if the values would be rounded.
        ValueError
            If `data` has an entry where the operator has none, or another shape.
        FormatError, MemoryError, CudaError
            As `SparseOperator.update_values`.

        Notes
        -----
        An exception of one rank is raised on all, which then have the old values.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.update_values(np.array([4.0, 2.0, 8.0]))
        >>> op @ np.ones(2)
        array([6., 8.])
        """
        shared = self._shared
        local, old = shared.local, [op._stored for op in shared.local.operators]
        with at_most(self._threads):
            try:
                with self.agreement():
                    if any(self._which):
                        raise TypeError(
                            "a transpose or a conjugate takes no new values; update the operator that it is "
                            "made of, and take T, H or conj() of that again"
                        )
                    held = local.snapshot()  # so that the old values stay until all ranks have the new ones
                    rows = rows_with(data, local, self.col_ranges)
                    for op, values in zip(local.operators, local.divided(rows, self.col_ranges), strict=True):
                        op.update_values(values)
            except Exception:
                for op, stored in zip(local.operators, old, strict=True):
                    op._become(stored)
                raise
            del held
        del shared.variants[self._which]  # so that T and H of the old values do not find this operator
        self._shared = replace(shared, variants={self._which: self})
        self._product = Product(local, shared.exchange, shared.transport, *self._which)

    def diagonal(self) -> HostArray:
        """Return the entries of the diagonal in the rows of this rank.

        Returns
        -------
        (local rows,) numpy.ndarray
            Shorter if the matrix has fewer columns than rows.

        Raises
        ------
        ValueError
            If the operator is a transpose, and rows and columns are distributed differently.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.diagonal()
        array([2., 4.])
        """
        if self.row_ranges != self.col_ranges:
            if self._which[0]:
                raise ValueError(
                    "rows and columns are distributed differently, so no rank holds its piece of the "
                    "diagonal of the transpose"
                )
            return cast("HostArray", self.tocsr().diagonal(self.row_ranges.begin))
        diagonal = self._product.local.block.diagonal()
        return diagonal.conj() if self._which == (True, True) else diagonal

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

    # Products

    def dot(self, x: Piece) -> Piece:
        """Return ``A @ x`` for the piece of this rank.

        Parameters
        ----------
        x : (local columns,) or (local columns, k) array
            Of any real or complex dtype and any memory layout, the same on all ranks.

        Returns
        -------
        (local rows,) or (local rows, k) array
            Of the library and on the device of `x`. Its dtype follows NumPy's promotion rules.

        Raises
        ------
        TypeError, ValueError
            On this rank, if `x` is not numeric, has a shape that does not fit, or is on another device.

        Notes
        -----
        `x` is converted to the dtype of the operator on its device. A real operator computes two products for
        a complex `x`.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.dot([1, 1])
        array([3., 4.])
        """
        x, library = array_and_library("x", x)
        located = library.locate(x, "x")
        self._check_piece("x", located.shape, self.local_shape[1], (1, 2))
        made = of_any_type(self, located, lambda x: self._multiply(x.library.contiguous(x.array, self.dtype)))
        return made if located.host is None else library.from_host(made, x)

    def __matmul__(self, x: Piece) -> Piece:
        return self.dot(x)

    def matvec(self, x: Piece) -> Piece:
        """Return ``A @ x`` for the piece of a vector of this rank.

        Parameters
        ----------
        x : (local columns,) array
            As in `dot`.

        Returns
        -------
        (local rows,) array

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.matvec(np.ones(2))
        array([3., 4.])
        """
        return self.dot(cast("Piece", check_shape("x", x, 1, self.local_shape[1])))

    def matmat(self, X: Piece) -> Piece:
        """Return ``A @ X`` for the rows of a 2-D array of this rank.

        Parameters
        ----------
        X : (local columns, k) array
            As in `dot`.

        Returns
        -------
        (local rows, k) array

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.matmat(np.eye(2))
        array([[2., 1.],
               [0., 4.]])
        """
        return self.dot(cast("Piece", check_shape("X", X, 2, self.local_shape[1])))

    def rmatvec(self, x: Piece) -> Piece:
        """Return ``A.H @ x`` for the piece of a vector of this rank.

        The first call builds transposed blocks.

        Parameters
        ----------
        x : (local rows,) array
            As in `dot`.

        Returns
        -------
        (local columns,) array

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.rmatvec(np.ones(2))
        array([2., 5.])
        """
        return self.H.matvec(x)

    def rmatmat(self, X: Piece) -> Piece:
        """Return ``A.H @ X`` for the rows of a 2-D array of this rank.

        The first call builds transposed blocks.

        Parameters
        ----------
        X : (local rows, k) array
            As in `dot`.

        Returns
        -------
        (local columns, k) array

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.rmatmat(np.eye(2))
        array([[2., 0.],
               [1., 4.]])
        """
        return self.H.matmat(X)

    def spmv(self, x: Piece, out: Piece | None = None, alpha: complex = 1.0, beta: complex = 0.0) -> Piece:
        """Return ``alpha * A @ x + beta * out`` for the pieces of this rank.

        Parameters
        ----------
        x : (local columns,) array
            C-contiguous and of the dtype of the operator, in host memory or on the device of the operator.
        out : (local rows,) array, optional
            Like `x`. It is overwritten and returned. With ``beta=0`` it is not read.
        alpha, beta : float or complex
            The same on all ranks. Complex only if the operator is.

        Returns
        -------
        (local rows,) array
            `out`, or a new array.

        Raises
        ------
        TypeError, ValueError
            On this rank, if an array has a dtype, a length, a layout or a device that does not fit, if `out`
            is read-only or overlaps `x`, or if `beta` is given without `out`.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> y = np.ones(2)
        >>> op.spmv(np.ones(2), out=y, alpha=2.0, beta=10.0)
        array([16., 18.])
        """
        if out is None and beta != 0:
            raise ValueError(f"beta={beta} needs out=, the array to scale and add to")
        library, located = as_it_is(self, "x", x)
        self._check_piece("x", located.shape, self.local_shape[1])
        if out is None:
            made = self._multiply(located.array, None, alpha, beta)
            return made if located.host is None else library.from_host(made, x)
        _, target = as_it_is(self, "out", out)
        self._check_piece("out", target.shape, self.local_shape[0])
        refuse_overlap(located, target)
        self._multiply(located.array, target.array, alpha, beta)
        return out

    def _check_piece(
        self, name: str, shape: tuple[int, ...], length: int, dimensions: tuple[int, ...] = (1,)
    ) -> None:
        """Refuse, with ValueError, an array that is no piece of `length` entries."""
        if len(shape) not in dimensions or shape[0] != length:
            which = "columns" if name == "x" or length != self.local_shape[0] else "rows"
            allowed = f"({length},)" + (f" or ({length}, k)" if 2 in dimensions else "")
            raise ValueError(
                f"{name} has shape {shape}; it must have shape {allowed}, because rank {self.comm.rank} "
                f"holds {length} of the {which} of an operator of shape {self.shape}"
            )

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

    def _multiply(
        self, x: Piece, out: Piece | None = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> Piece:
        with at_most(self._threads):
            return self._product(x, out, alpha, beta)
