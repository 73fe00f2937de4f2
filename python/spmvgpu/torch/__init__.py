"""Products and solves that PyTorch differentiates, also with respect to the values of the matrix.

``op @ x`` is differentiable if `x` is a tensor that requires a gradient:

>>> import numpy as np, spmvgpu as sg, torch
>>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
>>> x = torch.ones(2, dtype=torch.float64, requires_grad=True)
>>> (op @ x).sum().backward()
>>> x.grad
tensor([4., 4.], dtype=torch.float64)

All of it works with `torch.vmap`, whose batches become columns, with `torch.func.grad`, and in functions that
`torch.compile` compiles. There, write ``spmvgpu.torch.matmul(op, x)``, which is part of the graph; ``op @ x``
divides it. A compiled function multiplies by the values that an operator has when it runs, also to compute
gradients. Forward-mode differentiation is not available. `eigsh` is for plain calls, of which the first
derivative is available: it divides a graph, and takes no batches.

Automatic casting (`torch.autocast`) changes nothing: tensors keep their types, and results have the type that
the operator and the tensor have together. CUDA graphs can contain products with operators, and neither solves
nor products with a `MatrixPattern`.
"""

from __future__ import annotations

try:
    import torch
except ImportError as missing:
    raise ModuleNotFoundError(
        f"spmvgpu.torch needs PyTorch, which cannot be imported ({missing}); install it with pip install "
        "torch",
        name="torch",
    ) from missing

from ..arrays.torch_gradients import differentiable
from ..operator.composed import Composable
from ..operator.operator import SparseOperator
from .eigenpairs import eigsh
from .patterns import TENSORS, MatrixPattern
from .solves import solve

__all__ = ["MatrixPattern", "eigsh", "matmul", "solve"]


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
        If `op` is not an operator of this package or `x` not a tensor, and as `SparseOperator.dot`.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg, torch
    >>> op = sg.aslinearoperator(np.array([[4.0, 1.0], [0.0, 3.0]]), device="cpu")
    >>> x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    >>> sg.torch.matmul(op, x).sum().backward()
    >>> x.grad
    tensor([4., 4.], dtype=torch.float64)
    """
    if torch.compiler.is_compiling():
        return differentiable(op, x)
    if not isinstance(op, Composable):
        raise TypeError(
            f"op must be an operator of spmvgpu, not {type(op).__name__}; give spmvgpu.aslinearoperator(op)"
        )
    product: torch.Tensor = op.dot(TENSORS.array("x", x))
    return product
