"""Sums, products, powers and multiples of operators, which keep the values that their operands had.

They multiply arrays of every library that their operands multiply.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np
import scipy.sparse as sp

from .._util.arguments import is_number
from .._util.linear_operator import LinearOperator
from .._util.types import ArrayT, DType, HostArray, HostOperand
from ..arrays import NUMPY, AnyArray, AnyLibrary, array_and_library, is_sparse, library_of
from ..arrays.products import check_from_left, is_stack, mismatch, of_rows, of_stack, shape_of
from ..devices import CPU
from ..inputs.csr import CanonicalCsr
from .operands import check_shape, is_operand, multiplies_itself, plain, refuse_number, refuse_stack

if TYPE_CHECKING:
    from typing_extensions import Self

_T = TypeVar("_T")


class Composable(LinearOperator):  # type: ignore[misc]
    """A `LinearOperator` whose sums, products, powers and multiples are SciPy's, with operands that stay.

    Those multiply by their operands one after the other. Later updates of an operand do not change them.
    """

    _takes_sparse = False  # whether it multiplies sparse matrices

    def _snapshot(self) -> Self:
        """An operator that has the values of this one, and keeps them."""
        return self

    def dot(self, x: object) -> AnyArray | LinearOperator:
        """Return ``A @ x``.

        Parameters
        ----------
        x : (n,), (n, k) or (..., n, k) array, LinearOperator, number, or sparse matrix with n rows
            A NumPy array, an array of another library on the device of the operator, or a sequence that NumPy
            converts. Any real or complex dtype and any memory layout. A `SparseOperator` also takes a sparse
            matrix, which SciPy or CuPy multiplies.

        Returns
        -------
        (m,), (m, k) or (..., m, k) array, LinearOperator, or sparse matrix
            An array of the library and on the device of `x`, whose dtype follows NumPy's promotion rules. An
            operator for an operator or a number. A `csr_array` for a SciPy sparse matrix, and a `csr_matrix`
            for a CuPy one.

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
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [1.0, 2.0]]), device="cpu")
        >>> M = sg.linalg.jacobi(op)
        >>> M.dot(np.ones(2))
        array([0.25, 0.5 ])
        >>> M.dot(op) @ np.ones(2)
        array([1.25, 1.5 ])
        """
        library = library_of(x)
        if library is None:
            if is_operand(x):
                kind = ProductOperator if isinstance(x, LinearOperator) else MultipleOperator
                return kind(LinearOperator.dot(self._snapshot(), keeping(x)))
            if is_sparse(x) and self._takes_sparse:
                return self._times(x, NUMPY)
            x, library = array_and_library("x", x)
        return self._product(x, library)

    def matvec(self, x: object) -> AnyArray:
        """Return ``A @ x`` for a vector, or for several in the last axis of an array.

        Parameters
        ----------
        x : (n,), (n, 1) or (..., n) array
            As in `dot`.

        Returns
        -------
        (m,), (m, 1) or (..., m) array

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.matvec(np.ones(2))
        array([5., 3.])
        """
        x, library = array_and_library("x", check_shape("x", x, 1, self.shape[1]))
        shape = shape_of("x", x, library)
        if len(shape) == 1 or shape == (self.shape[1], 1):
            return self.dot(x)

        def product(rows: AnyArray) -> AnyArray:
            return library.transposed(self.dot(library.transposed(rows)))

        return of_rows(product, self.shape[0], x, library)

    def matmat(self, X: object) -> AnyArray:
        """Return ``A @ X`` for a 2-D array.

        Parameters
        ----------
        X : (n, k) or (..., n, k) array
            As in `dot`.

        Returns
        -------
        (m, k) or (..., m, k) array

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.matmat(np.ones((2, 3)))
        array([[5., 5., 5.],
               [3., 3., 3.]])
        """
        return self.dot(check_shape("X", X, 2, self.shape[1]))

    def rmatvec(self, x: object) -> AnyArray:
        """Return ``A.H @ x`` for a vector, or for several in the last axis of an array.

        The first call builds the conjugate transpose `H`.

        Parameters
        ----------
        x : (m,), (m, 1) or (..., m) array
            As in `dot`.

        Returns
        -------
        (n,), (n, 1) or (..., n) array

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.rmatvec(np.ones(2))
        array([4., 4.])
        """
        return self.H.matvec(x)

    def rmatmat(self, X: object) -> AnyArray:
        """Return ``A.H @ X`` for a 2-D array.

        The first call builds the conjugate transpose `H`.

        Parameters
        ----------
        X : (m, k) or (..., m, k) array
            As in `dot`.

        Returns
        -------
        (n, k) or (..., n, k) array

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> op.rmatmat(np.ones((2, 1)))
        array([[4.],
               [4.]])
        """
        return self.H.matmat(X)

    def _product(self, x: AnyArray, library: AnyLibrary) -> AnyArray:
        """The product with a vector, the columns of a 2-D array, or a stack of such arrays."""
        if is_stack(x, library):
            return of_stack(partial(self._product, library=library), self.shape, x, library)
        recorded = library.differentiable(self, x)
        if recorded is not None:
            return recorded
        shape = shape_of("x", x, library)
        if len(shape) not in (1, 2) or shape[0] != self.shape[1]:
            raise mismatch(self.shape, shape)
        return self._times(x, library)

    def _times(self, x: AnyArray, library: AnyLibrary) -> AnyArray:
        """The product with an array of the right shape."""
        raise NotImplementedError

    def _matvec(self, x: object) -> AnyArray:
        return self.dot(x)

    def _matmat(self, X: object) -> AnyArray:
        return self.dot(X)

    @overload
    def __matmul__(self, x: HostOperand) -> HostArray: ...
    @overload
    def __matmul__(self, x: ArrayT) -> ArrayT: ...
    @overload
    def __matmul__(self, x: object) -> Any: ...
    def __matmul__(self, x: object) -> Any:
        library = library_of(x)
        if library is not None:
            return self._product(x, library)
        refuse_number(x)  # SciPy calls more than numbers so, such as a memoryview
        return NotImplemented if multiplies_itself(x) else self.dot(x)

    def __mul__(self, other: object) -> Any:
        return super().__mul__(plain(other))

    def __rmul__(self, other: object) -> Any:
        factor = plain(other)
        return self * factor if is_number(factor) else self._from_left(other)

    def __rmatmul__(self, x: object) -> Any:
        refuse_number(x)
        return self._from_left(x)

    def _from_left(self, x: object) -> Any:
        """``x @ A``."""
        if isinstance(x, LinearOperator):
            return ProductOperator(LinearOperator.dot(keeping(x), self._snapshot()))
        if is_sparse(x):
            return super().__rmul__(x)
        x, library = array_and_library("x", x)
        shape = shape_of("x", x, library)
        check_from_left(self.shape, shape)
        if len(shape) == 1:
            return self.T.dot(x)
        if is_stack(x, library):
            return of_rows(self._from_left, self.shape[1], x, library)
        result, library = array_and_library("x", self.T.dot(library.transposed(x)))
        return library.transposed(result)

    def __truediv__(self, other: object) -> Any:
        divisor = plain(other)
        if not is_number(divisor):
            return NotImplemented
        return self * (1 / np.result_type(self.dtype, divisor).type(divisor))

    def __add__(self, other: object) -> Any:
        if not isinstance(other, LinearOperator):
            return NotImplemented
        return SumOperator(LinearOperator.__add__(self._snapshot(), keeping(other)))

    def __pow__(self, exponent: object) -> LinearOperator:
        if not is_number(exponent):
            return NotImplemented
        return PowerOperator(LinearOperator.__pow__(self._snapshot(), exponent))

    def __neg__(self) -> Any:
        return MultipleOperator(LinearOperator.__neg__(self._snapshot()))


class ComposedOperator(Composable):
    """What SciPy made of operators. It multiplies by each of them, and so all arrays that they multiply.

    Attributes
    ----------
    args : tuple
        The operands.
    device : str or tuple of str
    """

    _takes_sparse = True  # as its operands may

    def __init__(self, made: LinearOperator) -> None:
        super().__init__(made.dtype, made.shape)
        self.args: tuple[Any, ...] = made.args

    @property
    def device(self) -> str | tuple[str, ...]:
        """The device of the first operand that has one, or its devices; else "cpu"."""
        found = (op.device for op in self.args if isinstance(op, Composable) and hasattr(op, "device"))
        device: str | tuple[str, ...] = next(found, "cpu")
        return device

    def _product(self, x: AnyArray, library: AnyLibrary) -> AnyArray:
        with library.context(x):
            return super()._product(x, library)

    def _adjoint(self) -> ComposedOperator:
        return self._turned("H")

    def _transpose(self) -> ComposedOperator:
        return self._turned("T")

    def _turned(self, name: str) -> ComposedOperator:
        """The transpose or the adjoint, of which the operands have the `name`."""
        raise NotImplementedError

    def _as_csr(self, dtype: DType) -> CanonicalCsr:
        """The entries of what it stands for, where the operands are, in a type.

        Raises
        ------
        TypeError
            If those of an operand are not known.
        """
        raise NotImplementedError


class SumOperator(ComposedOperator):
    def _times(self, x: AnyArray, library: AnyLibrary) -> AnyArray:
        a, b = self.args
        return _applied(a, x, library) + _applied(b, x, library)

    def _turned(self, name: str) -> ComposedOperator:
        a, b = (getattr(op, name) for op in self.args)
        return SumOperator(LinearOperator.__add__(a, b))

    def _as_csr(self, dtype: DType) -> CanonicalCsr:
        a, b = (_lent_csr_of(op, dtype) for op in self.args)
        if a.nnz == 0 or b.nnz == 0:  # the sum shares the values of the other
            a, b = (_csr_of(op, dtype) for op in self.args)
        return together(lambda a, b: a.plus(b), a, b)


class ProductOperator(ComposedOperator):
    def _times(self, x: AnyArray, library: AnyLibrary) -> AnyArray:
        a, b = self.args
        return _applied(a, _applied(b, x, library), library)

    def _turned(self, name: str) -> ComposedOperator:
        a, b = (getattr(op, name) for op in self.args)
        return ProductOperator(LinearOperator.dot(b, a))

    def _as_csr(self, dtype: DType) -> CanonicalCsr:
        return together(lambda a, b: a.times(b), *(_lent_csr_of(op, dtype) for op in self.args))


class MultipleOperator(ComposedOperator):
    def _times(self, x: AnyArray, library: AnyLibrary) -> AnyArray:
        op, factor = self.args
        if library is not NUMPY and isinstance(factor, np.generic):
            factor = factor.item()  # other libraries multiply by Python's numbers
        return _applied(op, x, library) * factor

    def _turned(self, name: str) -> ComposedOperator:
        op, factor = self.args
        factor = np.conj(factor) if name == "H" else factor
        return MultipleOperator(LinearOperator.dot(getattr(op, name), factor))

    def _as_csr(self, dtype: DType) -> CanonicalCsr:
        op, factor = self.args
        return _csr_of(op, dtype).times_number(factor)


class PowerOperator(ComposedOperator):
    def _times(self, x: AnyArray, library: AnyLibrary) -> AnyArray:
        op, exponent = self.args
        y = x
        for _ in range(exponent):
            y = _applied(op, y, library)
        return y if exponent else 1 * x  # an array of its own

    def _turned(self, name: str) -> ComposedOperator:
        op, exponent = self.args
        return PowerOperator(LinearOperator.__pow__(getattr(op, name), exponent))

    def _as_csr(self, dtype: DType) -> CanonicalCsr:
        op, exponent = self.args
        if exponent == 0:
            return CanonicalCsr.of(sp.eye_array(self.shape[0], dtype=dtype, format="csr"))
        factor = _csr_of(op, dtype) if exponent == 1 else _lent_csr_of(op, dtype)
        return reduce(partial(together, lambda a, b: a.times(b)), [factor] * exponent)


def _csr_of(op: LinearOperator, dtype: DType) -> CanonicalCsr:
    as_csr = getattr(op, "_as_csr", None)
    if as_csr is None:
        raise TypeError(
            f"the entries of a {type(op).__name__} cannot be read; give an operator that "
            "spmvgpu.aslinearoperator makes of a matrix"
        )
    found: CanonicalCsr = as_csr(dtype)
    return found


def _lent_csr_of(op: LinearOperator, dtype: DType) -> CanonicalCsr:
    """As `_csr_of`, with the values of the operand where they are stored so, for what is made of them now."""
    return op._lent_csr(dtype) if hasattr(op, "_lent_csr") else _csr_of(op, dtype)


def together(
    combine: Callable[[CanonicalCsr, CanonicalCsr], CanonicalCsr], a: CanonicalCsr, b: CanonicalCsr
) -> CanonicalCsr:
    """What is made of two matrices, on the GPU of one of them, or in host memory if that has no room."""
    try:
        ordinal = b.ordinal if a.ordinal == CPU else a.ordinal
        return combine(a.to(ordinal), b.to(ordinal))
    except MemoryError:
        if a.ordinal == b.ordinal == CPU:
            raise
    return combine(a.in_host_memory(), b.in_host_memory())


def _applied(op: LinearOperator, x: AnyArray, library: AnyLibrary) -> AnyArray:
    """The product of an operand, which may be SciPy's own and multiply arrays of NumPy alone."""
    if library is NUMPY or isinstance(op, Composable):
        return op @ x
    return library.from_host(op.dot(host_of(op, x, library)), x)


def host_of(op: LinearOperator, x: AnyArray, library: AnyLibrary) -> HostArray:
    """A NumPy view of an array for an operator that multiplies nothing else; TypeError for one on a GPU."""
    host: HostArray | None = library.locate(x, "x").host
    if host is None:
        raise TypeError(
            f"x is a {type(x).__name__} on a GPU, and a {type(op).__name__} multiplies arrays in host "
            "memory; move x there"
        )
    return host


def keeping(x: _T) -> _T:
    """What stands for an operand in what is made of it."""
    if isinstance(x, Composable):
        return x._snapshot()
    if isinstance(x, LinearOperator):
        refuse_stack(x)
    return x
