"""Matrices whose values are arrays that JAX differentiates with respect to."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .._util.types import HostArray
from ..arrays import ArrayKind
from ..arrays.jax_gradients import product
from ..devices import CPU
from ..operator.operator import SparseOperator
from ..operator.patterns import Pattern

ARRAYS = ArrayKind((jax.Array, np.ndarray), "jax.numpy.asarray")


class MatrixPattern(Pattern["jax.Array"]):
    """The sparsity pattern of a matrix whose values are an array.

    JAX differentiates products with respect to the values and to `x`.

    Parameters
    ----------
    A : sparse matrix
        As in `aslinearoperator`.
    format : str, default "auto"
        As in `aslinearoperator`. Formats are not timed. By default, products use "csr", which reads the
        values without a copy, and solves use the format that is predicted to be the fastest.
    device : str, default "auto"
    **format_options
        As in `aslinearoperator`.

    Attributes
    ----------
    shape : tuple of int
    nnz : int
        Number of stored entries.
    rows, cols : (nnz,) array of int32
        Row and column of each value: row by row, columns ascending.
    values : (nnz,) array
        Values of `A`.

    Raises
    ------
    TypeError, ValueError, FormatError, MemoryError, CudaError
        As `aslinearoperator`.

    Notes
    -----
    The values stay on the device. Solves, and products in formats other than "csr" and "coo", copy them in
    each call, as `SparseOperator.update_values` does. If the values do not change, use `aslinearoperator`
    and ``op @ x``.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, numpy as np, spmvgpu as sg
    >>> pattern = sg.jax.MatrixPattern(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
    >>> x = jnp.array([1.0, 2.0])
    >>> jax.grad(lambda values: pattern.matmul(values, x).sum())(pattern.values)
    Array([1., 2., 2.], dtype=float32)
    """

    _kind = ARRAYS

    def _beside(self, values: jax.Array) -> jax.Array:
        moved: jax.Array = jax.device_put(values, _device(self._ordinal))
        return moved

    def _array(self, array: HostArray) -> jax.Array:
        if array.dtype.kind not in "fc":
            array = array.astype(np.int32)
        with jax.ensure_compile_time_eval():  # it stays when JAX has traced what asks for it
            placed: jax.Array = jax.device_put(array.copy(), _device(self._ordinal))
        return placed

    @property
    def rows(self) -> jax.Array:
        rows: jax.Array = self._rows
        return rows

    @property
    def cols(self) -> jax.Array:
        cols: jax.Array = self._cols
        return cols

    def values_of(self, A: Any) -> jax.Array:
        """Return the values of a matrix in the order of `rows` and `cols`.

        Parameters
        ----------
        A : sparse matrix, SparseOperator or dense matrix
            With the pattern or a part of it, in any form that `aslinearoperator` takes. Missing entries
            become zero.

        Returns
        -------
        (nnz,) array
            On the device of the pattern. No gradient with respect to `A` is recorded.

        Raises
        ------
        TypeError, ValueError
            If `A` is not a matrix, or has another shape or an entry where the pattern has none.

        Examples
        --------
        >>> import numpy as np, scipy.sparse as sp, spmvgpu as sg
        >>> A = sp.csc_array(np.array([[4.0, 1.0], [2.0, 3.0]]))
        >>> pattern = sg.jax.MatrixPattern(A, device="cpu")
        >>> pattern.values_of(sp.tril(A))
        Array([4., 0., 2., 3.], dtype=float32)
        """
        return self._values_of(A)

    def operator(self, values: jax.Array) -> SparseOperator:
        """Return the operator with the given values.

        Parameters
        ----------
        values : (nnz,) array
            Of dtype float32, float64, complex64 or complex128, in the order of `rows` and `cols`.

        Returns
        -------
        SparseOperator

        Raises
        ------
        TypeError
            If `values` is not an array, or is traced by JAX.
        ValueError
            If `values` has another shape or dtype.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg
        >>> pattern = sg.jax.MatrixPattern(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> pattern.operator(2 * pattern.values).toarray()
        array([[8., 2.],
               [0., 6.]], dtype=float32)
        """
        return self._with_values(self._unrecorded(values))

    def _with_values(self, values: object) -> SparseOperator:
        return self._updated(values, self._type_of(values))

    def matmul(self, values: jax.Array, x: jax.Array) -> jax.Array:
        """Return the product of the matrix with the given values and `x`.

        It is differentiable with respect to both arguments.

        Parameters
        ----------
        values : (nnz,) array
            Of dtype float32, float64, complex64 or complex128, in the order of `rows` and `cols`.
        x : (n,) or (n, k) array
            On the device of the pattern.

        Returns
        -------
        (m,) or (m, k) array

        Raises
        ------
        TypeError, ValueError
            If `values` or `x` is not an array, if `values` has another shape or dtype, and as
            `SparseOperator.dot`.

        Examples
        --------
        >>> import jax.numpy as jnp, numpy as np, spmvgpu as sg
        >>> pattern = sg.jax.MatrixPattern(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> pattern.matmul(pattern.values, jnp.ones(2))
        Array([5., 3.], dtype=float32)
        """
        values, x = self._kind.array("values", values), self._kind.array("x", x)
        self._type_of(values)
        y: jax.Array = product(self, values, x)
        return y


def _device(ordinal: int) -> jax.Device:
    """JAX's device of a number, or ValueError for a GPU that it does not see."""
    if ordinal == CPU:
        return jax.local_devices(backend="cpu")[0]
    try:
        found = jax.local_devices(backend="cuda")
    except RuntimeError:  # no backend of this name
        found = []
    for device in found:
        if device.local_hardware_id == ordinal:
            return device
    raise ValueError(
        f"JAX has no device for 'cuda:{ordinal}'; its devices are {jax.local_devices()}, and 'cpu' is allowed"
    )
