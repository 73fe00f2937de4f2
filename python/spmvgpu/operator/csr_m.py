"""The method of operators that is for format "csr_m" alone."""

from __future__ import annotations

from typing import Any

from .._core import Matrix
from ..formats import formats, traits
from ..planning.parts import format_of
from .operands import address, operand


def set_x(self: Any, x: object) -> None:
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
    matrix = self._matrix
    if not isinstance(matrix, Matrix) or not traits(matrix.format).gathers_x_first:
        able = ", ".join(name for name in formats() if traits(name).gathers_x_first)
        raise TypeError(
            f"a matrix in {format_of(matrix)!r} keeps no gathered values of x, so it has no set_x; build the "
            f"operator with format={able!r}, in one part on one device"
        )
    located = None if x is None else operand(self, "x", x, self.shape[1])[1]
    matrix.set_x(0)  # first, so that no array is declared that may be freed
    self._stored.references["x"] = x
    if located is not None:
        matrix.set_x(address(located))
