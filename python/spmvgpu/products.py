"""The products of an operator, with vectors and columns of every library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator

from . import operands
from ._types import ArrayT, T
from .algebra import multiply_sparse, multiply_sparse_from_left
from .arguments import is_number
from .arrays import is_sparse, library_of, taken
from .composed import Composable, is_operand
from .value_types import AnyMatrix

if TYPE_CHECKING:
    from typing_extensions import Self


class ProductMethods(Composable):
    """The part of `SparseOperator` that multiplies."""

    if TYPE_CHECKING:  # what SparseOperator has
        _stored: Any
        _matrix: AnyMatrix
        _stream: int | None
        _origin: Any

        @property
        def H(self) -> Self: ...  # noqa: N802

    @overload
    def __matmul__(self, x: npt.NDArray[Any] | Sequence[float]) -> npt.NDArray[Any]: ...
    @overload
    def __matmul__(self, x: ArrayT) -> ArrayT: ...
    @overload
    def __matmul__(self, x: Any) -> Any: ...
    def __matmul__(self, x: Any) -> Any:
        library = library_of(x)
        if library is not None:
            return operands.multiply(self, x, library)
        _refuse_number(x)
        return self.dot(x)

    def dot(self, x: Any) -> Any:
        """``A @ x`` for a vector or the columns of a 2-D array; also composes operators, as in SciPy.

        Parameters
        ----------
        x : (n,) or (n, k) array, or sparse matrix of n rows
            NumPy, or on the operator's device; of any real or complex type and any layout. It is converted to
            the operator's type where it lies; a complex one gives a real operator two products. What is no
            array of a library is what NumPy makes of it: lists, buffers, series of pandas. A sparse matrix is
            multiplied by SciPy, one of CuPy's by CuPy on its GPU.

        Returns
        -------
        (m,) or (m, k) array
            Of the library of `x` and on its device, of the type that NumPy's promotion gives; a `csr_array`
            for a sparse `x`, of CuPy's a `csr_matrix`.

        Raises
        ------
        TypeError
            For an array that is not numeric, or that its library is not known to convert.
        ValueError
            For an array of wrong shape or on another device.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.dot([1.0, 2.0])
        array([6., 6.])
        >>> op @ np.eye(2, dtype=np.complex64)
        array([[4.+0.j, 1.+0.j],
               [0.+0.j, 3.+0.j]])
        """
        library = library_of(x)
        if library is not None:
            return operands.multiply(self, x, library)
        if is_sparse(x):
            return multiply_sparse(self, x)
        if is_operand(x):
            return super().dot(x)
        return operands.multiply(self, *taken("x", x))

    def __rmatmul__(self, x: Any) -> Any:
        _refuse_number(x)
        return self._rdot(x)

    def _rdot(self, x: Any) -> Any:
        """``x @ A``; what LinearOperator calls for ``x * A``, where `x` is no number."""
        if is_sparse(x):
            return multiply_sparse_from_left(x, self)
        if isinstance(x, LinearOperator):
            return super()._rdot(x)
        return operands.multiply_from_left(self, *taken("x", x))

    def matvec(self, x: Any) -> Any:
        """``A @ x`` for a vector of shape (n,) or (n, 1).

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.matvec(np.ones(2))
        array([5., 3.])
        """
        return self.dot(operands.check_shape("x", x, 1, self.shape[1]))

    def matmat(self, X: Any) -> Any:
        """``A @ X`` for a 2-D array of shape (n, k).

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.matmat(np.ones((2, 3)))
        array([[5., 5., 5.],
               [3., 3., 3.]])
        """
        return self.dot(operands.check_shape("X", X, 2, self.shape[1]))

    def rmatvec(self, x: Any) -> Any:
        """``A.H @ x`` for a vector of shape (m,) or (m, 1); makes the copy `H` on first use.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.rmatvec(np.ones(2))
        array([4., 4.])
        """
        return self.H.matvec(x)

    def rmatmat(self, X: Any) -> Any:
        """``A.H @ X`` for a 2-D array of shape (m, k).

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.rmatmat(np.ones((2, 1)))
        array([[4.],
               [4.]])
        """
        return self.H.matmat(X)

    def spmv(
        self, x: T, out: T | None = None, alpha: complex = 1.0, beta: complex = 0.0, stream: Any = None
    ) -> T:
        """``alpha * A @ x + beta * out``, without an allocation where `out` is given.

        Parameters
        ----------
        x : (n,) or (n, k) array
            Of the operator's dtype; NumPy, or on the operator's device. A vector must be contiguous; the
            columns of a 2-D array may lie in any order.
        out : (m,) or (m, k) array, optional
            Of the same library, dtype and device, and contiguous if it is a vector; overwritten and returned.
            With ``beta=0`` it is never read.
        alpha, beta : float or complex
            Complex only where the operator is.
        stream : optional
            CUDA stream for arrays on a GPU, and for them only: integer handle, CuPy or PyTorch stream. The
            call returns once the product is queued there.

        Returns
        -------
        (m,) or (m, k) array
            `out`, or a new array in the order of `x`.

        Raises
        ------
        TypeError
            For an array of another dtype, `out` of another library, factors that are no numbers, complex ones
            for a real operator, and `stream` with arrays in host memory.
        ValueError
            For an array of wrong shape, layout or device, for `out` that is read-only or overlaps `x`, and
            for ``beta`` without `out`.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> x, y = np.ones(2), np.array([10.0, 20.0])
        >>> op.spmv(x, out=y, alpha=2.0, beta=1.0)
        array([20., 26.])
        >>> y
        array([20., 26.])
        """
        result: T = operands.scaled_product(self, x, out, alpha, beta, stream)
        return result

    def set_x(self, x: Any) -> None:
        """Declare that products with this very array follow, so that it is gathered from only once.

        For format ``"csr_m"``, the one that gathers. The array must not change until `set_x` is called again:
        with the same array after its contents changed, with another one, or with None to end it. Products
        with other arrays are as ever.

        Parameters
        ----------
        x : (n,) array or None
            C-contiguous, of the operator's dtype; NumPy, or on the operator's device. It is kept alive.

        Raises
        ------
        TypeError
            If the operator's format does not gather, and for an array of another dtype.
        ValueError
            For an array of wrong length, layout or device.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), format="csr_m", device="cpu")
        >>> x = np.ones(2)
        >>> op.set_x(x)  # gathered from once
        >>> op @ x, op @ x
        (array([5., 3.]), array([5., 3.]))
        >>> op.set_x(None)
        """
        located = None if x is None else operands.operand(self, "x", x, self.shape[1])[1]
        self._matrix.set_x(0)  # first, so that no array is declared that may be freed
        self._stored.declared_x = x
        if located is not None:
            self._matrix.set_x(operands.address(located))

    # What LinearOperator's own algebra calls

    def _matvec(self, x: Any) -> Any:
        return self.dot(np.asarray(x))

    def _matmat(self, X: Any) -> Any:
        return self.dot(np.asarray(X))


def _refuse_number(x: Any) -> None:
    if is_number(x):
        raise ValueError("Scalar operands are not allowed, use '*' instead")
