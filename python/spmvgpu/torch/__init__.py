"""Products that PyTorch differentiates with respect to x and to the values of the matrix.

``op @ x`` is differentiable if `x` is a tensor that requires a gradient:

>>> import numpy as np, spmvgpu as sg, torch
>>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
>>> x = torch.ones(2, dtype=torch.float64, requires_grad=True)
>>> (op @ x).sum().backward()
>>> x.grad
tensor([4., 4.], dtype=torch.float64)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

try:
    import torch
except ImportError as missing:
    raise ModuleNotFoundError(
        f"spmvgpu.torch needs PyTorch, which cannot be imported ({missing}); install it with pip install "
        "torch",
        name="torch",
    ) from missing

from .._util.lazy import lazy
from .._util.value_types import TYPE_NAMES
from ..arrays.torch_gradients import differentiable, of_type
from ..devices import CPU, device_name, resolve_device
from ..inputs.canonical import canonical_csr
from ..operator.composed import keeping
from ..operator.construct import aslinearoperator
from ..operator.operator import SparseOperator

__all__ = ["MatrixPattern", "matmul"]


def __dir__() -> list[str]:
    return __all__


def matmul(op: SparseOperator, x: torch.Tensor) -> torch.Tensor:
    """Return ``op @ x``, differentiable with respect to `x`.

    Higher derivatives are available too.

    Parameters
    ----------
    op : SparseOperator
    x : (n,) or (n, k) tensor
        Of any real or complex dtype, on the device of the operator.

    Returns
    -------
    (m,) or (m, k) tensor

    Raises
    ------
    TypeError, ValueError
        As `SparseOperator.dot`.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg, torch
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
    >>> x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    >>> sg.torch.matmul(op, x).sum().backward()
    >>> x.grad
    tensor([4., 4.], dtype=torch.float64)
    """
    return differentiable(keeping(op), x)


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
    Each product builds a new operator: the values go to the host, are converted, and go back to the device.
    This takes the time of many products. If the values do not change, use `aslinearoperator` and ``op @ x``.

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
        aslinearoperator(csr, tune="off", **self._arguments)  # refused here, if it is at all
        self.shape: tuple[int, int] = csr.shape
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
        if values.shape != (self.nnz,) or str(values.dtype).removeprefix("torch.") not in TYPE_NAMES:
            raise ValueError(
                f"values has shape {tuple(values.shape)} and dtype {values.dtype}; it must have shape "
                f"({self.nnz},) and one of the dtypes {', '.join(TYPE_NAMES)}"
            )
        host = values.detach().cpu().resolve_conj().resolve_neg().numpy()
        csr = sp.csr_array((host, self._csr.indices, self._csr.indptr), shape=self.shape)
        made: SparseOperator = aslinearoperator(csr, tune="off", dtype=host.dtype, **self._arguments)
        return made

    @torch.compiler.disable
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
        result: torch.Tensor = _PatternMatmul.apply(self, values, x)
        return result

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


class _PatternMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: MatrixPattern, values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(values, x)
        result: torch.Tensor = pattern.operator(values) @ x.detach()
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        pattern, (values, x) = ctx.pattern, ctx.saved_tensors
        to_values = to_x = None
        if ctx.needs_input_grad[1]:
            to_values = of_type(_products_of_pairs(pattern, gradient, x), values.dtype)
        if ctx.needs_input_grad[2]:
            transposed, order = pattern._transpose
            to_x = of_type(transposed.matmul(values[order].conj(), gradient), x.dtype)
        return None, to_values, to_x


def _products_of_pairs(pattern: MatrixPattern, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """``y[i] conj(x[j])`` for each entry (i, j), summed over columns."""
    # Column by column: all at once would take as much memory as the matrix for each.
    pairs = zip(y.unbind(1), x.unbind(1), strict=True) if y.ndim == 2 else [(y, x)]
    total: Any = 0
    for left, right in pairs:
        total = total + left[pattern.rows] * right[pattern.cols].conj()
    if isinstance(total, int):  # no columns
        return torch.zeros(pattern.nnz, dtype=torch.float64, device=y.device)
    return total
