"""Eigenvalues and eigenvectors that PyTorch differentiates with respect to the values of matrices."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from .._util.arguments import with_hints
from ..devices import CPU, device_name
from ..linalg.eigen_requests import EigenRequest
from .patterns import TENSORS, MatrixPattern


@with_hints
def eigsh(
    A: object,
    k: int = 6,
    M: object = None,
    sigma: float | None = None,
    which: Literal["LM", "SM", "LA", "SA", "BE"] = "LM",
    *,
    values: torch.Tensor | None = None,
    M_values: torch.Tensor | None = None,
    ncv: int | None = None,
    maxiter: int | None = None,
    inner: Literal["auto", "direct", "cg", "minres"] = "auto",
    preconditioner: object = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Find eigenvalues and eigenvectors, differentiable with respect to the values of `A` and `M`.

    Only first derivatives are available.

    Parameters
    ----------
    A, M : SparseOperator, MatrixPattern, array, sparse matrix or LinearOperator
        As `spmvgpu.linalg.eigsh` takes them, or patterns.
    k, sigma, which, ncv, maxiter, inner, preconditioner
        As in `spmvgpu.linalg.eigsh`.
    values, M_values : (nnz,) tensor
        The values of patterns in the places of `A` and `M`. The matrices must be symmetric or Hermitian, and
        so must be every change of them: make the values from what keeps them so.

    Returns
    -------
    w : (k,) tensor
        Eigenvalues in ascending order.
    v : (n, k) tensor
        Eigenvectors in its columns, on the device of `A`.

    Raises
    ------
    numpy.linalg.LinAlgError
        As `spmvgpu.linalg.eigsh`. For the gradient of an eigenvector whose eigenvalue is not simple.
    TypeError, ValueError
        If an argument has a type, a shape, a dtype or a value that is not allowed.

    Notes
    -----
    The gradient of an eigenvalue costs no solve. For an eigenvector it takes one by `minres`, with a matrix
    that is indefinite. It exists for a simple eigenvalue, and for functions to which the
    sign of the eigenvector, or its phase, makes no difference.

    Examples
    --------
    >>> import numpy as np, spmvgpu as sg, torch
    >>> pattern = sg.torch.MatrixPattern(np.array([[2.0, 1.0], [1.0, 2.0]]), device="cpu")
    >>> values = pattern.values.clone().requires_grad_()
    >>> w, v = sg.torch.eigsh(pattern, 1, values=values)
    >>> w.sum().backward()
    >>> values.grad
    tensor([0.5000, 0.5000, 0.5000, 0.5000], dtype=torch.float64)
    """
    how = k, sigma, which, ncv, maxiter, inner, preconditioner
    found: tuple[torch.Tensor, torch.Tensor] = _found(A, M, values, M_values, *how)
    return found


@torch.compiler.disable
def _found(*given: Any) -> tuple[torch.Tensor, torch.Tensor]:
    request, values = EigenRequest.of(TENSORS, *given)
    w, v = _Eigenpairs.apply(request, *values)
    return w, v


class _Eigenpairs(torch.autograd.Function):
    @staticmethod
    def forward(request: EigenRequest, values: Any, M_values: Any) -> tuple[torch.Tensor, torch.Tensor]:
        A, M = request.operators(values, M_values)
        start = np.random.default_rng(0).uniform(-1, 1, A.shape[0]).astype(A.dtype)
        v0 = torch.from_numpy(start).to(device_name(getattr(A, "_ordinal", CPU)))
        return request.pairs(A, M, v0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
        ctx.request, values, M_values = inputs
        ctx.save_for_backward(values, M_values, *output)
        ctx.set_materialize_grads(False)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_w: Any, to_v: Any) -> tuple[torch.Tensor | None, ...]:
        request: EigenRequest = ctx.request
        values, M_values, w, v = ctx.saved_tensors
        left, right = torch.zeros_like(v) if to_w is None else v * to_w, torch.zeros_like(v)
        if to_v is not None:
            A, M = request.operators(values, M_values)
            along = (v.conj() * to_v).sum(0)
            rest = to_v - (v if M is None else M @ v) * along
            host = (x.detach().cpu().resolve_conj().numpy() for x in (w, v, rest))
            left = left - torch.from_numpy(request.inverse(A, M, *host)).to(v.device)
            right = v * along.real / 2
        to_values = to_M_values = None
        if ctx.needs_input_grad[1]:
            to_values = _on_pattern(request.A, values, left, v)
        if ctx.needs_input_grad[2]:
            to_M_values = _on_pattern(request.M, M_values, -left * w - right, v)
        return None, to_values, to_M_values


def _on_pattern(
    pattern: MatrixPattern, values: torch.Tensor, left: torch.Tensor, right: torch.Tensor
) -> torch.Tensor:
    """The gradient of the values: ``left @ right.H`` where the pattern has entries."""
    return pattern._entries(values).gradient("", left, right)
