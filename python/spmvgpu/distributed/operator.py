"""`DistributedOperator`: a sparse matrix over the ranks of a communicator."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from .. import _core
from ..devices import limit_threads
from ..linalg.stopping import SolveInfo
from ..symmetry import Symmetry, simplest
from . import pieces
from .between_gpus import Transport
from .blocks import Blocks
from .describe import Summary, explanation
from .errors import agreement
from .exchange import Exchange
from .products import Backward, Forward
from .ranges import Ranges
from .systems import PieceOfSystem


@dataclass(frozen=True)
class Shared:
    """What an operator has in common with its transpose and its conjugate.

    Attributes
    ----------
    variants : dict
        Those there are, by whether they are transposed, and whether conjugated.
    """

    blocks: Blocks
    exchange: Exchange
    rows: Ranges
    cols: Ranges
    transport: Transport
    summaries: tuple[Summary, ...]
    symmetry: Symmetry | None
    threads: int | None
    variants: dict[tuple[bool, bool], DistributedOperator] = field(default_factory=dict)


class DistributedOperator:
    """A sparse matrix whose rows lie on the ranks of a communicator; made by `distributed.aslinearoperator`.

    All ranks call the same methods in the same order. Every rank gives its piece of x and gets its piece of
    the result: arrays of NumPy, of another library in host memory, or of CuPy or PyTorch on the rank's GPU.
    Repeated by as many ranks, a product has the same bits.

    A product does not ask whether the others' pieces are in order: that would take as long as a small
    product. What it refuses, it refuses on its own rank, and the others wait for that one. Pieces must be of
    the same type and have as many columns on all ranks; where one may fail to make its piece, ``with
    op.agreement():`` lets all of them hear of it. Solvers of `spmvgpu.linalg` tell all ranks what fails on
    one.

    It is no `scipy.sparse.linalg.LinearOperator`, because the solvers of SciPy would take the inner products
    of pieces for those of vectors. The solvers of `spmvgpu.linalg` take it; `replicated` gives what SciPy
    takes.

    Attributes
    ----------
    shape : tuple of int
        Of the whole matrix.
    local_shape : tuple of int
        Lengths of this rank's pieces: of results, and of x.
    dtype : numpy.dtype
    row_ranges, col_ranges : Ranges
        Which entries of results, and of x, the ranks have.
    comm : mpi4py communicator
        A duplicate of the caller's.
    nnz : int
        Stored entries of all ranks.
    nbytes : int
        Bytes that this rank holds for its rows, as in `SparseOperator.nbytes`.
    format, device : str
        Of this rank's block on the diagonal.
    solve_info : spmvgpu.linalg.SolveInfo or None
        How the last solve of `spmvgpu.linalg` with it went.
    T, H : DistributedOperator
        The transpose, and its conjugate: the same matrix, whose results go back to the ranks that x comes
        from.

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
        self.dtype: np.dtype[Any] = shared.blocks.inner.dtype
        self._shared = shared
        self._which = transposed, conjugated
        shared.variants[self._which] = self
        self._product: Forward | Backward
        if transposed:
            self._product = Backward(shared.blocks, shared.exchange, shared.transport, conjugated)
        else:
            blocks = shared.blocks.conj() if conjugated else shared.blocks
            self._product = Forward(blocks, shared.exchange, shared.transport)
        self._solver_memories: dict[int, _core.SolverMemory] = {}
        self.solve_info: SolveInfo | None = None

    @property
    def comm(self) -> Any:
        return self.row_ranges.comm

    def agreement(self) -> AbstractContextManager[None]:
        """A ``with`` block at whose end all ranks raise what any of them raises in it.

        All ranks enter it, and in it none waits for another.

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
        blocks = self._product.blocks
        solvers = sum(memory.nbytes for memory in self._solver_memories.values())
        return int(blocks.inner.nbytes + (0 if blocks.halo is None else blocks.halo.nbytes) + solvers)

    @property
    def format(self) -> str:
        return str(self._product.blocks.inner.format)

    @property
    def device(self) -> Any:
        return self._product.blocks.inner.device

    @property
    def T(self) -> DistributedOperator:  # noqa: N802
        return self._variant(True, False)

    @property
    def H(self) -> DistributedOperator:  # noqa: N802
        return self._variant(True, True)

    def conj(self) -> DistributedOperator:
        """The operator with its values conjugated; itself if they are real.

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
        return shared.variants.get(which) or DistributedOperator(shared, *which)

    def tocsr(self) -> Any:
        """This rank's rows as a new `scipy.sparse.csr_array`, with the columns of the whole matrix.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.tocsr().toarray()
        array([[2., 1.],
               [0., 4.]])
        """
        if isinstance(self._product, Backward):
            raise TypeError("a transposed operator holds columns, not rows; op.T.tocsr() gives its matrix")
        return self._product.blocks.tocsr(self.col_ranges)

    def diagonal(self) -> Any:
        """This rank's piece of the diagonal, as an array in host memory.

        Raises
        ------
        ValueError
            If results and x are not divided alike.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.diagonal()
        array([2., 4.])
        """
        if self.row_ranges != self.col_ranges:
            raise ValueError(
                "rows and columns are not divided alike, so the diagonal is not in the ranks' rows"
            )
        diagonal = self._product.blocks.inner.diagonal()
        return diagonal.conj() if self._which == (True, True) else diagonal

    def explain(self) -> str:
        """What each rank has and sends, and over which transport.

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
        raise TypeError("a DistributedOperator belongs to its communicator and cannot be pickled")

    # Products

    def dot(self, x: Any) -> Any:
        """``A @ x`` for this rank's piece of a vector, or of the rows of a 2-D array.

        Parameters
        ----------
        x : (local columns,) or (local columns, k) array
            Of any real or complex type and any layout, alike on all ranks. It is converted to the operator's
            type where it lies; a complex one gives a real operator two products.

        Returns
        -------
        (local rows,) or (local rows, k) array
            Of the library of `x` and on its device, of the type that NumPy's promotion gives.

        Raises
        ------
        TypeError, ValueError
            For an array that is not numeric, of wrong shape or on another device; on this rank only.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.dot([1, 1])
        array([3., 4.])
        """
        return pieces.multiply(self, x)

    def __matmul__(self, x: Any) -> Any:
        return self.dot(x)

    def matvec(self, x: Any) -> Any:
        """``A @ x`` for this rank's piece of a vector.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.matvec(np.ones(2))
        array([3., 4.])
        """
        return self.dot(x)

    def matmat(self, X: Any) -> Any:
        """``A @ X`` for this rank's rows of a 2-D array.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.matmat(np.eye(2))
        array([[2., 1.],
               [0., 4.]])
        """
        return self.dot(X)

    def rmatvec(self, x: Any) -> Any:
        """``A.H @ x`` for this rank's piece; transposed copies of its blocks are made on first use.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.rmatvec(np.ones(2))
        array([2., 5.])
        """
        return self.H.dot(x)

    def rmatmat(self, X: Any) -> Any:
        """``A.H @ X`` for this rank's rows of a 2-D array.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> op.rmatmat(np.eye(2))
        array([[2., 0.],
               [1., 4.]])
        """
        return self.H.dot(X)

    def spmv(self, x: Any, out: Any = None, alpha: complex = 1.0, beta: complex = 0.0) -> Any:
        """``alpha * A @ x + beta * out`` of this rank's pieces.

        Parameters
        ----------
        x : (local columns,) array
            C-contiguous, of the operator's dtype; in host memory, or on the operator's device.
        out : (local rows,) array, optional
            As `x`; overwritten and returned. With ``beta=0`` it is never read.
        alpha, beta : float or complex
            Alike on all ranks; complex only where the operator is.

        Returns
        -------
        (local rows,) array
            `out`, or a new array.

        Raises
        ------
        TypeError, ValueError
            For arrays of another dtype, length, layout or device, `out` that is read-only or overlaps `x`,
            and ``beta`` without `out`; on this rank only.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> from mpi4py import MPI
        >>> op = sg.distributed.scatter(np.array([[2.0, 1.0], [0.0, 4.0]]), MPI.COMM_SELF)
        >>> y = np.ones(2)
        >>> op.spmv(np.ones(2), out=y, alpha=2.0, beta=10.0)
        array([16., 18.])
        """
        return pieces.scaled_product(self, x, out, alpha, beta)

    def replicated(self) -> Any:
        """The operator on whole vectors that every rank has, for the solvers of SciPy.

        Returns
        -------
        scipy.sparse.linalg.LinearOperator
            All ranks run the same solver with the same vectors; each multiplies its rows, and gets those of
            the others. It takes memory for whole vectors on every rank. Solvers that begin with random
            numbers must be given the same, as in ``eigsh(op.replicated(), v0=...)``.

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
        from .replicated import Replicated

        return Replicated(self)

    # What solvers call

    @property
    def _core_matrix(self) -> Any:
        """The matrix of the core that multiplies this rank's pieces, and exchanges entries, or None."""
        inner = self._shared.blocks.inner
        alone = self.comm.size == 1 and isinstance(inner.device, str)
        return self._product.matrix if alone or self._shared.transport.nccl is not None else None

    def _shared_callback(self, callback: Any) -> Any:
        """A callback for every rank if any has one: its own, or one that does nothing.

        All ranks call it, and a solver with a callback stops for it after every iteration.
        """
        anywhere = any(self.comm.allgather(callback is not None))
        return (lambda _: None) if anywhere and callback is None else callback

    def _piece_of_system(self, b: Any) -> PieceOfSystem:
        return PieceOfSystem(self, b)

    def _memory_of_solvers(self, ordinal: int) -> _core.SolverMemory:
        if ordinal not in self._solver_memories:
            self._solver_memories[ordinal] = _core.SolverMemory(ordinal)
        return self._solver_memories[ordinal]

    def _multiply(self, x: Any, out: Any = None, alpha: complex = 1.0, beta: complex = 0.0) -> Any:
        with self._limited():
            return self._product(x, out, alpha, beta)

    def _limited(self) -> AbstractContextManager[None]:
        threads = self._shared.threads
        return nullcontext() if threads is None else limit_threads(threads)
