"""Sums, products, powers and multiples of operators, which keep the values that their operands had."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
from scipy.sparse.linalg import LinearOperator

from .._util.arguments import is_number
from ..arrays import AnyArray

if TYPE_CHECKING:
    from typing_extensions import Self

_T = TypeVar("_T")


class Composable(LinearOperator):  # type: ignore[misc]
    """A `LinearOperator` whose sums, products, powers and multiples are SciPy's, with operands that stay.

    Those multiply by their operands one after the other. Later updates of an operand do not change them.
    """

    def _snapshot(self) -> Self:
        """An operator that has the values of this one, and keeps them."""
        return self

    def dot(self, x: object) -> AnyArray | LinearOperator:
        """Return the product with a vector, with the columns of an array, with an operator or with a number.

        Parameters
        ----------
        x : (n,) or (n, k) array, LinearOperator or number

        Returns
        -------
        (n,) or (n, k) array, or LinearOperator
            An array for an array, and an operator for an operator or a number.

        Raises
        ------
        ValueError
            If the shape of `x` does not fit.

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
        if not is_operand(x):
            return super().dot(x)
        return composed(LinearOperator.dot(self._snapshot(), keeping(x)))

    def __mul__(self, other: object) -> LinearOperator:
        return super().__mul__(plain(other))

    def __rmul__(self, other: object) -> LinearOperator:
        other = plain(other)
        if not is_operand(other):
            return super().__rmul__(other)
        return composed(LinearOperator.__rmul__(self._snapshot(), keeping(other)))

    def __truediv__(self, other: object) -> LinearOperator:
        divisor = plain(other)
        if not is_number(divisor):
            return NotImplemented
        return self * (1 / np.result_type(self.dtype, divisor).type(divisor))

    def __add__(self, other: object) -> LinearOperator:
        return composed(LinearOperator.__add__(self._snapshot(), keeping(other)))

    def __pow__(self, exponent: object) -> LinearOperator:
        return composed(LinearOperator.__pow__(self._snapshot(), exponent))

    def __neg__(self) -> LinearOperator:
        return composed(LinearOperator.__neg__(self._snapshot()))


class ComposedOperator(Composable):
    """What SciPy made of operators.

    Attributes
    ----------
    args : tuple
        The operands.
    """

    def __init__(self, made: LinearOperator) -> None:
        super().__init__(made.dtype, made.shape)
        self.args: tuple[object, ...] = made.args
        self._made = made

    def _matvec(self, x: object) -> AnyArray:
        return self._made.matvec(x)

    def _matmat(self, X: object) -> AnyArray:
        return self._made.matmat(X)

    def _adjoint(self) -> LinearOperator:
        return composed(self._made.H)

    def _transpose(self) -> LinearOperator:
        return composed(self._made.T)


def composed(made: LinearOperator) -> LinearOperator:
    """What SciPy made of operators, so that what is made of that in turn keeps its operands' values, too."""
    if made is NotImplemented or isinstance(made, Composable):
        return made
    return ComposedOperator(made)


def keeping(x: _T) -> _T:
    """What stands for an operand in what is made of it."""
    return x._snapshot() if isinstance(x, Composable) else x


def is_operand(x: object) -> bool:
    """Whether SciPy makes an operator of this and another one."""
    return isinstance(x, LinearOperator) or is_number(x)


def plain(x: object) -> object:
    """The number in a 0-d array; anything else as it is."""
    return x[()] if isinstance(x, np.ndarray) and x.ndim == 0 else x
