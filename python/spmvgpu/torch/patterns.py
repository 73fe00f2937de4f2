"""Matrices whose values are tensors that PyTorch differentiates with respect to."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .._util.lazy import lazy
from .._util.types import HostArray
from ..arrays import ArrayKind
from ..arrays.torch_gradients import MatrixEntries, name_of, product
from ..devices import CPU
from ..operator.operator import SparseOperator
from ..operator.patterns import Pattern

TENSORS = ArrayKind((torch.Tensor,), "torch.as_tensor")


class MatrixPattern(Pattern["torch.Tensor"]):
    """The sparsity pattern of a matrix whose values are a tensor.

    PyTorch differentiates products with respect to the values and to `x`.

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
    rows, cols : (nnz,) tensor of int64
        Row and column of each value: row by row, columns ascending.
    values : (nnz,) tensor
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
    >>> import numpy as np, spmvgpu as sg, torch
    >>> pattern = sg.torch.MatrixPattern(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
    >>> values = pattern.values.clone().requires_grad_()
    >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    >>> pattern.matmul(values, x).sum().backward()
    >>> values.grad
    tensor([1., 2., 2.], dtype=torch.float64)
    """

    _kind = TENSORS

    def _beside(self, values: torch.Tensor) -> torch.Tensor:
        return values.to(self._cols.device)

    def _array(self, array: HostArray) -> torch.Tensor:
        device = "cpu" if self._ordinal == CPU else f"cuda:{self._ordinal}"
        if array.dtype.kind not in "fc":
            array = array.astype(np.int32)
        return torch.from_numpy(array.copy()).to(device)

    @lazy
    def rows(self) -> torch.Tensor:
        return self._rows.long()

    @lazy
    def cols(self) -> torch.Tensor:
        return self._cols.long()

    def values_of(self, A: Any) -> torch.Tensor:
        """Return the values of a matrix in the order of `rows` and `cols`.

        Parameters
        ----------
        A : sparse matrix, SparseOperator or dense matrix
            With the pattern or a part of it, in any form that `aslinearoperator` takes. Missing entries
            become zero.

        Returns
        -------
        (nnz,) tensor
            On the device of the pattern. No gradient with respect to `A` is recorded.

        Raises
        ------
        TypeError, ValueError
            If `A` is not a matrix, or has another shape or an entry where the pattern has none.

        Examples
        --------
        >>> import numpy as np, scipy.sparse as sp, spmvgpu as sg
        >>> A = sp.csc_array(np.array([[4.0, 1.0], [2.0, 3.0]]))
        >>> pattern = sg.torch.MatrixPattern(A, device="cpu")
        >>> pattern.values_of(sp.tril(A))
        tensor([4., 0., 2., 3.], dtype=torch.float64)
        """
        return self._values_of(A)

    def operator(self, values: torch.Tensor) -> SparseOperator:
        """Return the operator with the given values.

        Parameters
        ----------
        values : (nnz,) tensor
            Of dtype float32, float64, complex64 or complex128, in the order of `rows` and `cols`.

        Returns
        -------
        SparseOperator

        Raises
        ------
        TypeError
            If `values` is not a tensor, or requires a gradient, which products with the operator do not
            compute.
        ValueError
            If `values` has another shape or dtype.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg, torch
        >>> pattern = sg.torch.MatrixPattern(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> pattern.operator(2 * pattern.values).toarray()
        array([[8., 2.],
               [0., 6.]])
        """
        return self._with_values(self._unrecorded(values))

    def _with_values(self, values: torch.Tensor, *, is_adjoint: bool = False) -> SparseOperator:
        """The operator with the given values, or its adjoint; the next one may take its memory over."""
        dtype = self._type_of(values)
        pattern, values = self._oriented(values, is_adjoint)
        return pattern._updated(values, dtype)

    def _times(self, values: torch.Tensor, x: torch.Tensor, *, is_adjoint: bool = False) -> torch.Tensor:
        """The product with the given values, or of the adjoint, of which no gradient is recorded."""
        self._type_of(values)
        pattern, values = self._oriented(values, is_adjoint)
        y: torch.Tensor = pattern._multiply(values, x.detach())
        return y

    def _oriented(self, values: torch.Tensor, is_adjoint: bool) -> tuple[MatrixPattern, torch.Tensor]:
        """The pattern, or that of the adjoint, and its values on the device."""
        values = values.detach()
        if values.device != self._cols.device:
            values = self._unrecorded(values).to(
                self._cols.device
            )  # refuses other devices than GPUs and CPUs
        if not is_adjoint:
            return self, values
        transposed, order = self._turned
        return transposed, values.index_select(0, order).conj()

    def matmul(self, values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Return the product of the matrix with the given values and `x`.

        It is differentiable with respect to both arguments.

        Parameters
        ----------
        values : (nnz,) tensor
            Of dtype float32, float64, complex64 or complex128, in the order of `rows` and `cols`.
        x : (n,) or (n, k) tensor
            On the device of the pattern.

        Returns
        -------
        (m,) or (m, k) tensor

        Raises
        ------
        TypeError, ValueError
            If `values` or `x` is not a tensor, if `values` has another shape or dtype, and as
            `SparseOperator.dot`.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg, torch
        >>> pattern = sg.torch.MatrixPattern(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> pattern.matmul(pattern.values, torch.ones(2, dtype=torch.float64))
        tensor([5., 3.], dtype=torch.float64)
        """
        values, x = self._kind.array("values", values), self._kind.array("x", x)
        return product(name_of(self), self._entries(values), x)

    def _entries(self, values: torch.Tensor) -> MatrixEntries:
        return MatrixEntries(self._rows, self._cols, values)
