"""Matrices whose values are tensors that PyTorch differentiates with respect to."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from .._util.lazy import lazy
from .._util.types import DType
from .._util.value_types import TYPE_NAMES
from ..arrays.torch_gradients import Entries, name_of, product
from ..devices import CPU, device_name, resolve_device
from ..inputs.canonical import canonical_csr
from ..operator.construct import aslinearoperator
from ..operator.operator import SparseOperator


class MatrixPattern:
    """The sparsity pattern of a matrix whose values are a tensor.

    PyTorch differentiates products with respect to the values and to `x`.

    Parameters
    ----------
    A : sparse matrix
        As in `aslinearoperator`.
    format : str, default "csr"
    device : str, default "auto"
    **format_options
        As in `aslinearoperator`. Formats are not timed.

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
    Each product and each gradient first gives the values to an operator, as `SparseOperator.update_values`
    does. They stay on the device. If the values do not change, use `aslinearoperator` and ``op @ x``.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg, torch
    >>> pattern = sg.torch.MatrixPattern(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
    >>> values = pattern.values.requires_grad_()
    >>> x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    >>> pattern.matmul(values, x).sum().backward()
    >>> values.grad
    tensor([1., 2., 2.], dtype=torch.float64)
    """

    def __init__(self, A: Any, format: str = "csr", device: str = "auto", **format_options: Any) -> None:
        csr = canonical_csr(A).host
        ordinal = resolve_device(device)
        self._arguments: dict[str, Any] = {"format": format, "device": device_name(ordinal), **format_options}
        self._torch_device = torch.device("cpu") if ordinal == CPU else torch.device("cuda", ordinal)
        self._csr = csr
        # Operators that values are given to, by type; more than one where some are still in use.
        self._operators: dict[DType, list[SparseOperator]] = {}
        self._lock = Lock()
        self.shape: tuple[int, int] = csr.shape
        self._new_operator(csr.dtype)  # refused here, if it is at all
        self.nnz: int = csr.nnz
        self.rows = self._tensor(np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr)))
        self.cols = self._tensor(csr.indices.astype(np.int64))
        self.values = self._tensor(csr.data)

    def __repr__(self) -> str:
        rows, cols = self.shape
        where = f"{self._arguments['format']!r} on {self._arguments['device']!r}"
        return f"<{rows}x{cols} MatrixPattern, {self.nnz} stored entries, format {where}>"

    def _tensor(self, array: Any) -> torch.Tensor:
        return torch.from_numpy(array.copy()).to(self._torch_device)

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
        return self._with_values(values)

    def _with_values(self, values: torch.Tensor, *, is_adjoint: bool = False) -> SparseOperator:
        """The operator with the given values, or its adjoint; the next one may take its memory over."""
        name = str(values.dtype).removeprefix("torch.")
        if values.shape != (self.nnz,) or name not in TYPE_NAMES:
            raise ValueError(
                f"values has shape {tuple(values.shape)} and dtype {values.dtype}; it must have shape "
                f"({self.nnz},) and one of the dtypes {', '.join(TYPE_NAMES)}"
            )
        values, dtype = values.detach().to(self._torch_device), np.dtype(name)
        if is_adjoint:
            transposed, order = self._transpose
            return transposed._with_values(values.index_select(0, order).conj())
        with self._lock:
            free = (op for op in self._operators.get(dtype, []) if not _is_in_use(op))
            op = next(free, None) or self._new_operator(dtype)
            op.update_values(values)
            return op._snapshot()

    def _new_operator(self, dtype: DType) -> SparseOperator:
        csr, data = self._csr, self._csr.data if dtype.kind == "c" else self._csr.data.real
        arrays = data.astype(dtype), csr.indices, csr.indptr
        made: SparseOperator = aslinearoperator(arrays, shape=self.shape, tune="off", **self._arguments)
        self._operators.setdefault(dtype, []).append(made)
        return made

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
            If `values` has another shape or dtype, and as `SparseOperator.dot`.

        Examples
        --------
        >>> import numpy as np, spmvgpu as sg, torch
        >>> pattern = sg.torch.MatrixPattern(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
        >>> pattern.matmul(pattern.values, torch.ones(2, dtype=torch.float64))
        tensor([5., 3.], dtype=torch.float64)
        """
        return product(name_of(self), self._entries(values), x)

    def _entries(self, values: torch.Tensor) -> Entries:
        return Entries(self.rows, self.cols, values)

    @lazy
    def _transpose(self) -> tuple[MatrixPattern, torch.Tensor]:
        """The pattern of the transposed matrix, and where its values are among this one's."""
        numbered = sp.csr_array((np.arange(self.nnz), self._csr.indices, self._csr.indptr), shape=self.shape)
        turned = sp.csr_array(numbered.T)
        order = self._tensor(turned.data)
        turned.data = self._csr.data[turned.data]
        try:
            return MatrixPattern(turned, **self._arguments), order
        except ValueError:  # a FormatError, or an option that the shape does not allow
            return MatrixPattern(turned, "csr", self._arguments["device"]), order


def _is_in_use(op: SparseOperator) -> bool:
    with op._stored.lock:
        return op._stored.is_shared(op)
