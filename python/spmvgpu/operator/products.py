"""The products of an operator, with vectors and columns of every library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator

from .._util.arguments import is_number
from .._util.types import ArrayT, T
from .._util.value_types import AnyMatrix
from ..arrays import is_sparse, library_of, taken
from . import operands
from .algebra import multiply_sparse, multiply_sparse_from_left
from .composed import Composable, is_operand

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
        """Return ``A @ x``.

        Parameters
        ----------
        x : (n,) or (n, k) array, or sparse matrix with n rows
            A NumPy array, an array of another library on the device of the operator, or a sequence that NumPy
            converts. Any real or complex dtype and any memory layout. SciPy multiplies a SciPy sparse matrix,
            and CuPy multiplies a CuPy sparse matrix. A `LinearOperator` or a number gives an operator, as in
            SciPy.

        Returns
        -------
        (m,) or (m, k) array
            Of the library and on the device of `x`. Its dtype follows NumPy's promotion rules. A `csr_array`
            for a SciPy sparse matrix, a `csr_matrix` for a CuPy one.

        Raises
        ------
        TypeError
            If `x` is not numeric, or cannot be converted by its library.
        ValueError
            If `x` has a shape that does not fit, or is on another device.

        Notes
        -----
        `x` is converted to the dtype of the operator on its device. A real operator computes two products for
        a complex `x`.

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
        """Return ``A @ x`` for a vector.

        Parameters
        ----------
        x : (n,) or (n, 1) array
            As in `dot`.

        Returns
        -------
        (m,) or (m, 1) array

        Raises
        ------
        TypeError, ValueError
            As `dot`.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.matvec(np.ones(2))
        array([5., 3.])
        """
        return self.dot(operands.check_shape("x", x, 1, self.shape[1]))

    def matmat(self, X: Any) -> Any:
        """Return ``A @ X`` for a 2-D array.

        Parameters
        ----------
        X : (n, k) array
            As in `dot`.

        Returns
        -------
        (m, k) array

        Raises
        ------
        TypeError, ValueError
            As `dot`.

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
        """Return ``A.H @ x`` for a vector.

        The first call builds the conjugate transpose `H`.

        Parameters
        ----------
        x : (m,) or (m, 1) array
            As in `dot`.

        Returns
        -------
        (n,) or (n, 1) array

        Raises
        ------
        TypeError, ValueError
            As `dot`.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.rmatvec(np.ones(2))
        array([4., 4.])
        """
        return self.H.matvec(x)

    def rmatmat(self, X: Any) -> Any:
        """Return ``A.H @ X`` for a 2-D array.

        The first call builds the conjugate transpose `H`.

        Parameters
        ----------
        X : (m, k) array
            As in `dot`.

        Returns
        -------
        (n, k) array

        Raises
        ------
        TypeError, ValueError
            As `dot`.

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
        """Return ``alpha * A @ x + beta * out``.

        The call allocates nothing if `out` is given.

        Parameters
        ----------
        x : (n,) or (n, k) array
            Of the dtype of the operator. A NumPy array, or an array of another library on the device of the
            operator. A vector must be contiguous. A 2-D array may have any memory layout.
        out : (m,) or (m, k) array, optional
            Of the library, dtype and device of `x`. A vector must be contiguous. It is overwritten and
            returned. With ``beta=0`` it is not read.
        alpha, beta : float or complex
            Complex only if the operator is.
        stream : int, CuPy stream or PyTorch stream, optional
            CUDA stream, for arrays on a GPU. The call returns when the product is queued there.

        Returns
        -------
        (m,) or (m, k) array
            `out`, or a new array with the memory order of `x`.

        Raises
        ------
        TypeError
            If `x` has another dtype, `out` is of another library, `alpha` or `beta` is not a number or is
            complex for a real operator, or `stream` is given for arrays in host memory.
        ValueError
            If an array has a shape, a layout or a device that does not fit, if `out` is read-only or overlaps
            `x`, or if `beta` is given without `out`.

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
        """Gather from an array once for all products with it that follow.

        This is for format "csr_m" (Yin 2012, CSR-M), which stores the gathered entries of x. Do not change
        the array until the next call: with the same array after a change, with another array, or with None.
        Products with other arrays are not affected.

        Parameters
        ----------
        x : (n,) array or None
            C-contiguous and of the dtype of the operator. A NumPy array, or an array of another library on
            the device of the operator. The operator keeps a reference to it.

        Raises
        ------
        TypeError
            If the format is not "csr_m", or `x` has another dtype.
        ValueError
            If `x` has a length, a layout or a device that does not fit.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> A = np.array([[4.0, 1.0], [0.0, 3.0]])
        >>> op = sg.aslinearoperator(A, format="csr_m", device="cpu")
        >>> x = np.ones(2)
        >>> op.set_x(x)
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
