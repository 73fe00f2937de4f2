"""The products of an operator over ranks, with the pieces of a rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from .._util.types import DType
from ..arrays import array_and_library
from ..devices import at_most
from ..operator.operands import as_it_is, check_shape, of_any_type, refuse_overlap
from .exchange import Piece
from .products import Product
from .ranges import Ranges


class RankProducts:
    """What multiplies the pieces of a rank."""

    shape: tuple[int, int]
    local_shape: tuple[int, int]
    row_ranges: Ranges
    dtype: DType
    _product: Product
    _threads: int | None

    if TYPE_CHECKING:

        @property
        def H(self) -> RankProducts: ...  # noqa: N802

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
            rank = self.row_ranges.comm.rank
            raise ValueError(
                f"{name} has shape {shape}; it must have shape {allowed}, because rank {rank} "
                f"holds {length} of the {which} of an operator of shape {self.shape}"
            )

    def _multiply(
        self, x: Piece, out: Piece | None = None, alpha: complex = 1.0, beta: complex = 0.0
    ) -> Piece:
        with at_most(self._threads):
            return self._product(x, out, alpha, beta)
